// Control of GPUs (PyTorch: torch.cuda). All functions also exist in a build without CUDA, where
// they report that no GPU can be used, and why.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "framework/base/device.h"

namespace taper::v0 {

#ifdef TAPER_WITH_CUDA
inline constexpr bool kHasCuda = true;
#else
inline constexpr bool kHasCuda = false;
#endif

namespace cuda {

// Returns false if Taper was built without CUDA, or if there is no driver or no visible device.
// Never throws.
bool is_available() noexcept;
// Returns the number of visible devices; 0 if is_available() is false.
int device_count() noexcept;
// Returns why is_available() is false, in one sentence; empty if it is true.
std::string unavailable_reason();

// Sets CUDA_VISIBLE_DEVICES for this process: "0", "2,0" (which become cuda:0 and cuda:1), names
// such as "GPU-8932f937-d72c-..." and "MIG-...", or "" for no GPU. Call it before any other
// function of cuda:: and before other threads read the environment. Throws ValueError for any other
// form, and Error with the reason if CUDA has been used and the value would change.
void set_visible_devices(const std::string& devices);
// Returns whether set_visible_devices() accepts the text.
bool is_visible_devices(const std::string& devices);

// Throws AcceleratorError with the reason if no GPU can be used.
int current_device();
// Makes a device current for this thread. Throws AcceleratorError for a device that does not exist.
// Throws ValueError for a negative index, which PyTorch silently ignores.
void set_device(int index);
std::string get_device_name(int index = -1);

struct DeviceProperties {
  std::string name;
  int major, minor;  // compute capability
  int multi_processor_count;
  size_t total_memory;  // bytes
  size_t free_memory;   // bytes, at the time of the call
};
DeviceProperties get_device_properties(int index = -1);
// Returns the version of CUDA that the driver supports and that of the runtime, as "13.0"; empty if
// there is none.
std::string driver_version();
std::string runtime_version();
// Returns for example "9.14.0"; empty if Taper was built without cuDNN.
std::string cudnn_version();

// Waits for all work on a device, then throws the error that a kernel reported, if any (a bad
// index).
void synchronize(int index = -1);

// Replaces "cuda" by "cuda:<current device>" and "cpu:0" by "cpu". Keeps "cpu:1" and so on, which
// are further devices (framework/base/device.h). Throws AcceleratorError if the device cannot be
// used.
Device resolve(Device device);

// Makes a device current until the end of the scope. "cuda" without an index keeps the current
// device. Throws ValueError for the CPU and for a negative index (which has no effect in PyTorch),
// and AcceleratorError for a device that does not exist.
class DeviceGuard {
 public:
  explicit DeviceGuard(Device device);
  explicit DeviceGuard(int index);
  ~DeviceGuard();
  DeviceGuard& operator=(DeviceGuard&&) = delete;  // neither copied nor moved

 private:
  int previous_ = -1;
};

// A queue of work on one device. The object is a handle; a default-constructed one refers to the
// default stream of cuda:0. In all functions a device of -1 means the current one.
class Stream {
 public:
  Stream() = default;
  // Returns a new stream that does not synchronize with the default stream. Kernels of a stream
  // with a negative priority run before those of other streams (torch.cuda.Stream).
  static Stream create(int device = -1, int priority = 0);
  static Stream default_stream(int device = -1);
  // Wraps a cudaStream_t of the host program, which must outlive all uses
  // (torch.cuda.ExternalStream).
  static Stream external(void* handle, int device = -1);
  // Returns the stream that ops of this thread use on a device.
  static Stream current(int device = -1);

  int device() const { return device_; }
  // Returns the cudaStream_t.
  void* handle() const { return handle_.get(); }
  // Waits for the work of the stream, then throws the error that a kernel of the device reported,
  // if any (a bad index).
  void synchronize() const;
  // Returns true if all work is done.
  bool query() const;
  bool operator==(const Stream& other) const {
    return device_ == other.device_ && handle_.get() == other.handle_.get();
  }

 private:
  Stream(int device, std::shared_ptr<void> handle) : device_(device), handle_(std::move(handle)) {}

  int device_ = 0;
  std::shared_ptr<void> handle_;
};

// Makes a stream and its device current for this thread until the end of the scope.
class StreamGuard {
 public:
  explicit StreamGuard(Stream stream);
  ~StreamGuard();
  StreamGuard& operator=(StreamGuard&&) = delete;  // neither copied nor moved

 private:
  Stream stream_, previous_;
  int previous_device_;
};

// A marker in the work of a stream. It is created on the device of the stream that first records
// it.
class Event {
 public:
  explicit Event(bool enable_timing = false) : timing_(enable_timing) {}
  Event(Event&&) noexcept = default;
  Event& operator=(Event&&) noexcept = default;
  // Records the event on the current stream or the given one. It may be recorded again, on the same
  // device.
  void record();
  void record(const Stream& stream);
  // Makes later work of a stream wait for this event. Has no effect if the event was never
  // recorded.
  void wait(const Stream& stream) const;
  // Waits on the host, then throws the error that a kernel of the device reported, if any (a bad
  // index).
  void synchronize() const;
  // Returns true if the event was reached or never recorded.
  bool query() const;
  // Returns the milliseconds from this event to `end`. Throws ValueError with PyTorch's message if
  // either event was created without timing, was not recorded, or was not reached.
  double elapsed_time(const Event& end) const;

 private:
  bool timing_;
  int device_ = -1;
  std::shared_ptr<void> handle_;  // null until recorded
};

}  // namespace cuda
}  // namespace taper::v0
