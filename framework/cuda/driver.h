// The calls of the CUDA runtime on which framework/cuda/cuda.h is built. Streams and events are
// void*, so that a build without CUDA can include this header. Such a build calls only the
// functions that framework/cuda/cuda.cpp defines. Device indices must be valid.
#pragma once

#include <memory>
#include <string>

#include "framework/cuda/cuda.h"

namespace taper::v0::cuda::driver {

// The state of CUDA and the GPUs on this machine. Versions are numbers in CUDA's form, in which
// 13000 is version 13.0.
struct State {
  bool built = kHasCuda;
  int devices = 0;
  int driver_version = 0;  // 0: no driver
  int runtime_version = 0;
  bool too_old = false;           // the driver is too old for this runtime
  const char* error = nullptr;    // any other error
  const char* visible = nullptr;  // CUDA_VISIBLE_DEVICES, or null if it is not set
};
State probe() noexcept;
// Returns why a machine in this state has no usable GPU, and what to do; empty if it has one.
std::string unavailable_reason(const State& state);
// Returns the reason in a few words, for one line of a log: "no NVIDIA driver was found".
std::string unavailable_summary(const State& state);
std::string unavailable_summary();  // for this machine
// Throws AcceleratorError unless 0 <= index < device_count().
void require_device(int index);
// Returns the device of an index, where -1 means the current one. Throws AcceleratorError if it
// does not exist.
int checked(int index);

int current_device();
void set_device(int index);
// Makes a device current and ignores errors, for destructors.
void restore_device(int index) noexcept;
// Creates the context of a device and loads cuBLASLt, which the first operations would do
// otherwise. Takes tenths of a second. Errors are left to the first operation.
void initialize(int index) noexcept;
std::string name(int index);  // needs no context
DeviceProperties properties(int index);
void synchronize(int device);
// Returns the version as cuDNN writes it: 91400 is 9.14.0. Returns 0 if Taper was built without
// cuDNN.
size_t cudnn_version() noexcept;
// Returns the version of cuBLASLt, which writes 13.1.0 as 130100; 0 if it cannot be loaded.
size_t cublas_version() noexcept;

// Returns a stream. When its last handle is destroyed, the stream returns to a pool and is never
// destroyed. Otherwise free memory that the stream orders could outlive it.
std::shared_ptr<void> create_stream(int device, int priority);
void* thread_stream(int device) noexcept;
void set_thread_stream(int device, void* stream) noexcept;
void synchronize_stream(int device, void* stream);
bool query_stream(int device, void* stream);

// Captures the work that this thread queues on the stream into a graph until end_capture(), which
// returns null if the capture failed.
void begin_capture(int device, void* stream);
std::shared_ptr<void> end_capture(int device, void* stream);
void launch_graph(void* graph, int device, void* stream);

std::shared_ptr<void> create_event(int device, bool timing);
void record_event(void* event, int device, void* stream);
void wait_event(void* event, int device, void* stream);
void synchronize_event(void* event, int device);
bool query_event(void* event);
double elapsed_milliseconds(void* start, void* end);

// Begin and end an NVTX range.
void push_range(const char* name);
void pop_range();

}  // namespace taper::v0::cuda::driver
