// The GPU as users see it (PyTorch: torch.cuda). All of it exists in a build without CUDA too,
// where it says that no GPU can be used, and why.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

#include "framework/base/device.h"
#include "framework/memory/pointers.h"

namespace taper::v0 {

#ifdef TAPER_WITH_CUDA
inline constexpr bool kHasCuda = true;
#else
inline constexpr bool kHasCuda = false;
#endif

namespace cuda {

// Never throws. False when built without CUDA, without a driver, or with no visible device.
bool is_available() noexcept;
// Visible devices; 0 where is_available() is false.
int device_count() noexcept;
// Why is_available() is false, in one sentence; empty when it is true.
std::string unavailable_reason();

// Sets CUDA_VISIBLE_DEVICES for this process: "0", "2,0" (which become cuda:0 and cuda:1), names
// such as "GPU-8932f937-d72c-..." and "MIG-...", or "" for no GPU. Call it before anything else of
// cuda::, and before other threads read the environment. Throws ValueError for another form; Error,
// with the reason, once CUDA was used, unless nothing changes.
void set_visible_devices(const std::string& devices);
// Whether set_visible_devices knows the form.
bool is_visible_devices(const std::string& devices);

// Throws AcceleratorError with the reason when no GPU can be used.
int current_device();
// Throws AcceleratorError for an ordinal that does not exist; ValueError for a negative one, which
// PyTorch passes over in silence.
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
// "13.0", as the driver and the runtime say; empty when there is none.
std::string driver_version();
std::string runtime_version();
// "9.14.0"; empty when Taper was built without cuDNN.
std::string cudnn_version();

// Waits for everything on a device, then throws what its kernels refused (a bad index).
void synchronize(int index = -1);

// "cuda" becomes "cuda:<current device>", "cpu:0" becomes "cpu"; throws AcceleratorError when the
// device cannot be used.
Device resolve(Device device);

// Makes a device current until the end of the scope; "cuda" without an index keeps the current one.
// Throws ValueError for the CPU and for a negative index (in PyTorch one that does nothing),
// AcceleratorError for an ordinal that does not exist.
class DeviceGuard {
 public:
  explicit DeviceGuard(Device device);
  explicit DeviceGuard(int index);
  ~DeviceGuard();
  DeviceGuard& operator=(DeviceGuard&&) = delete;  // neither copied nor moved

 private:
  int previous_ = -1;
};

// An order of work on one device. A handle; the default-made one is the default stream of cuda:0.
// In all of these a device of -1 is the current one.
class Stream {
 public:
  Stream() = default;
  // A stream that nobody else holds, and that does not wait for the default one. With a priority
  // below 0 its kernels go before others' (torch.cuda.Stream).
  static Stream create(int device = -1, int priority = 0);
  static Stream default_stream(int device = -1);
  // The host program's cudaStream_t, which outlives all uses (torch.cuda.ExternalStream).
  static Stream external(void* handle, int device = -1);
  // The stream that ops of this thread use on a device.
  static Stream current(int device = -1);

  int device() const { return device_; }
  // cudaStream_t.
  void* handle() const { return handle_.get(); }
  // Waits for its work, then throws what kernels of the device refused (a bad index).
  void synchronize() const;
  // True when all work is done.
  bool query() const;
  bool operator==(const Stream& other) const {
    return device_ == other.device_ && handle_.get() == other.handle_.get();
  }

 private:
  Stream(int device, Shared<void> handle) : device_(device), handle_(std::move(handle)) {}

  int device_ = 0;
  Shared<void> handle_;
};

// Makes a stream, and its device, current for this thread until the end of the scope.
class StreamGuard {
 public:
  explicit StreamGuard(Stream stream);
  ~StreamGuard();
  StreamGuard& operator=(StreamGuard&&) = delete;  // neither copied nor moved

 private:
  Stream stream_, previous_;
  int previous_device_;
};

// A point in the order of a stream. Made on the device of the stream that first records it.
class Event {
 public:
  explicit Event(bool enable_timing = false) : timing_(enable_timing) {}
  Event(Event&&) noexcept = default;
  Event& operator=(Event&&) noexcept = default;
  // On the current stream, or on the one given; again as often as wanted, on the same device.
  void record();
  void record(const Stream& stream);
  // Makes later work of a stream wait for this event; nothing to wait for when never recorded.
  void wait(const Stream& stream) const;
  // Waits on the host, then throws what kernels of the device refused (a bad index).
  void synchronize() const;
  // True when it was passed or never recorded.
  bool query() const;
  // Milliseconds from this event to `end`. Throws ValueError in PyTorch's words when either was
  // made without timing, not recorded or not reached.
  double elapsed_time(const Event& end) const;

 private:
  bool timing_;
  int device_ = -1;
  Shared<void> handle_;  // none until recorded
};

// --- the caching allocator; bytes; 0 where no GPU can be used ---
size_t memory_allocated(int device = -1);      // in tensors now
size_t max_memory_allocated(int device = -1);  // the most there ever were
size_t memory_reserved(int device = -1);       // taken from the driver
size_t max_memory_reserved(int device = -1);
void reset_peak_memory_stats(int device = -1);
// All of these as a small table; one line with the reason where no GPU can be used.
std::string memory_summary(int device = -1);
// Gives unused blocks back to the driver, those of page-locked host memory too.
void empty_cache();

}  // namespace cuda
}  // namespace taper::v0
