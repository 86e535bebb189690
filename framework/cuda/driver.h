// What framework/cuda/cuda.h is made of: what it asks of the CUDA runtime. Streams and events are
// void*, so a build without CUDA reads this header too; it links none of it. Device indices here
// are valid ones.
#pragma once

#include <memory>
#include <string>

#include "framework/cuda/cuda.h"

namespace taper::v0::cuda::driver {

// What is known about the GPUs of this machine. Versions as CUDA writes them: 13000 is 13.0.
struct State {
  bool built = kHasCuda;
  int devices = 0;
  int driver_version = 0;  // 0: no driver
  int runtime_version = 0;
  bool too_old = false;           // the driver, for this runtime
  const char* error = nullptr;    // of any other kind
  const char* visible = nullptr;  // CUDA_VISIBLE_DEVICES, when set
};
State probe() noexcept;
// Why a machine in this state has no GPU to use, and what to do; empty when it has.
std::string unavailable_reason(const State& state);
// The same in a few words, for one line of a log: "no NVIDIA driver was found".
std::string unavailable_summary(const State& state);
std::string unavailable_summary();  // of this machine
// Throws AcceleratorError unless 0 <= index < device_count().
void require_device(int index);
// The device of an index, where -1 is the current one; throws likewise.
int checked(int index);

int current_device();
void set_device(int index);
// Ignores errors: for destructors.
void restore_device(int index) noexcept;
DeviceProperties properties(int index);
void synchronize(int device);
// As cuDNN writes it, 91400 is 9.14.0; 0 when built without.
size_t cudnn_version() noexcept;

// A stream goes back to a pool with its last handle, and is never destroyed: free memory that
// waits in the order of a stream must not outlive that order.
std::shared_ptr<void> create_stream(int device, int priority);
void* thread_stream(int device) noexcept;
void set_thread_stream(int device, void* stream) noexcept;
void synchronize_stream(int device, void* stream);
bool query_stream(int device, void* stream);

// Work given to the stream by this thread becomes a graph, until it is ended; null when that
// failed.
void begin_capture(int device, void* stream);
std::shared_ptr<void> end_capture(int device, void* stream);
void launch_graph(void* graph, int device, void* stream);

std::shared_ptr<void> create_event(int device, bool timing);
void record_event(void* event, int device, void* stream);
void wait_event(void* event, int device, void* stream);
void synchronize_event(void* event, int device);
bool query_event(void* event);
double elapsed_milliseconds(void* start, void* end);

// NVTX ranges.
void push_range(const char* name);
void pop_range();

}  // namespace taper::v0::cuda::driver
