// What CUDA sources share: error checks, the current stream, scratch memory, and the word into
// which a kernel writes a bad index. Included by .cu files and the runtime's own .cpp files only.
#pragma once

#include <cstdint>

#include <cuda_runtime.h>

#include "framework/memory/cuda_allocator.h"
#include "framework/tensor/tensor.h"

namespace taper::v0::cuda {

// Throws AcceleratorError (OutOfMemoryError for memory) naming the call, file and line.
void throw_on_error(cudaError_t status, const char* call, const char* file, int line);

#define TAPER_CUDA_CHECK(call) ::taper::cuda::throw_on_error((call), #call, __FILE__, __LINE__)

// The stream that ops of this thread use on a device.
cudaStream_t current_stream(int device);

// Makes the device of a kernel's operands current for the scope; does nothing when it already is.
class DeviceScope {
 public:
  explicit DeviceScope(int device);
  ~DeviceScope();
  DeviceScope& operator=(DeviceScope&&) = delete;  // neither copied nor moved

 private:
  int previous_;
  bool changed_;
};

// Whether what the stream is given becomes a graph.
bool is_capturing(cudaStream_t stream);

// Lets this thread call cudaMalloc and its like while a stream is being captured into a graph.
class RelaxedCapture {
 public:
  RelaxedCapture() { cudaThreadExchangeStreamCaptureMode(&mode_); }
  ~RelaxedCapture() { cudaThreadExchangeStreamCaptureMode(&mode_); }
  RelaxedCapture& operator=(RelaxedCapture&&) = delete;  // neither copied nor moved

 private:
  cudaStreamCaptureMode mode_ = cudaStreamCaptureModeRelaxed;
};

// Everything a launch on a tensor's device needs:
//   Launch on(x);
//   kernel<<<grid, block, 0, on.stream>>>(...);
//   on.check("softmax");
struct Launch {
  explicit Launch(const Tensor& x) : Launch(x.device().index()) {}
  explicit Launch(int device_index)
      : device(device_index), scope(device_index), stream(current_stream(device_index)) {}

  int device;
  DeviceScope scope;
  cudaStream_t stream;

  // Throws when the launch was refused; waits for it when CUDA_LAUNCH_BLOCKING=1.
  void check(const char* op) const;
};

int multi_processor_count(int device);

// Where a kernel reports an index out of range, or a value that breaks a rule: the first report
// wins, and the next synchronizing call throws it. The report lies in host memory that the device
// sees; the word that decides who is first lies in device memory, since atomics on host memory are
// not for every GPU.
struct BadIndexReport {
  int64_t index;
  int64_t bound;   // kBrokenRule: `op` is a whole sentence about a value
  const char* op;  // a string literal of the host, carried through as an address; written last
};
inline constexpr int64_t kBrokenRule = -1;
struct BadIndex {
  unsigned int taken;  // 0 while nothing was reported
  BadIndexReport* report;
};
// In device memory, for kernel arguments; one for each device.
BadIndex* bad_index_slot(int device);
// Its report, as the host sees it.
BadIndexReport* bad_index_report(int device);
// Throws IndexError for an index that the device reported, or Error for a broken rule, and clears
// the report. The caller has synchronized.
void throw_bad_index(int device);

#ifdef __CUDACC__
__device__ inline void report_bad_index(BadIndex* slot, const char* op, int64_t index,
                                        int64_t bound) {
  if (atomicCAS(&slot->taken, 0u, 1u) != 0u) return;
  BadIndexReport* report = slot->report;
  report->index = index;
  report->bound = bound;
  __threadfence_system();
  report->op = op;
  __threadfence_system();
}
__device__ inline void report_broken_rule(BadIndex* slot, const char* sentence) {
  report_bad_index(slot, sentence, 0, kBrokenRule);
}
#endif

// Scratch memory of the current stream: freed with the scope, reused in stream order.
class Scratch {
 public:
  Scratch(size_t nbytes, int device) : storage_(allocate(nbytes, device)) {}
  void* data() const { return storage_->data; }
  template <class T> T* as() const { return static_cast<T*>(storage_->data); }

 private:
  StoragePtr storage_;
};

}  // namespace taper::v0::cuda
