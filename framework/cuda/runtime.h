// Shared parts of CUDA sources: error checks, the current stream, and the report of bad indices.
// Only .cu files and the runtime's own .cpp files include this header.
#pragma once

#include <cstdint>
#include <string>

#include <cuda_runtime.h>

#include "framework/base/namespace.h"
#include "framework/cuda/cuda.h"

namespace taper::v0::cuda {

// Throws if the status is an error: OutOfMemoryError if memory is exhausted, otherwise
// AcceleratorError. The message contains the call, file and line.
void throw_on_error(cudaError_t status, const char* call, const char* file, int line);

// Throws the errors of throw_on_error(). The message contains `where` instead of the call.
[[noreturn]] void throw_error(cudaError_t status, const std::string& where);

#define TAPER_CUDA_CHECK(call) ::taper::cuda::throw_on_error((call), #call, __FILE__, __LINE__)

// Returns the stream that ops of this thread use on a device.
cudaStream_t current_stream(int device);

// Returns whether work on the stream is being captured into a graph.
bool is_capturing(cudaStream_t stream);

// Allows this thread to call cudaMalloc and similar functions while a stream is being captured into
// a graph.
class RelaxedCaptureGuard {
 public:
  RelaxedCaptureGuard() { cudaThreadExchangeStreamCaptureMode(&mode_); }
  ~RelaxedCaptureGuard() { cudaThreadExchangeStreamCaptureMode(&mode_); }
  RelaxedCaptureGuard& operator=(RelaxedCaptureGuard&&) = delete;  // neither copied nor moved

 private:
  cudaStreamCaptureMode mode_ = cudaStreamCaptureModeRelaxed;
};

int multi_processor_count(int device);
// Returns 900 for compute capability 9.0, as __CUDA_ARCH__ does.
int compute_capability(int device);

// The report of a kernel about an index out of range or a value that violates a rule. The first
// report wins, and the next synchronizing call throws it. The report is stored in host memory that
// the device can access. The flag that decides which report is first is stored in device memory,
// because not every GPU supports atomics on host memory.
struct BadIndexReport {
  int64_t index;
  int64_t bound;   // kBrokenRule: `op` is a complete sentence about a value
  const char* op;  // address of a string literal of the host; written last
};
inline constexpr int64_t kBrokenRule = -1;
struct BadIndex {
  unsigned int taken;  // 0 until a kernel has reported
  BadIndexReport* report;
};
// Returns the slot of a device, in device memory, for kernel arguments.
BadIndex* bad_index_slot(int device);
// Returns the report of a device, in host memory.
BadIndexReport* bad_index_report(int device);
// Throws IndexError for a reported index, or Error for a violated rule, and clears the report. The
// caller has synchronized.
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

}  // namespace taper::v0::cuda
