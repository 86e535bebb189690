// A profiler: records what a program executes, and for how long
// (https://pytorch.org/docs/stable/profiler.html):
//
//   Profiler profiler;
//   for (...) step();
//   profiler.export_chrome_trace("trace.json");  // for ui.perfetto.dev or chrome://tracing
//
// The trace contains modules by their paths ("nn.Module: net.2"), ops ("aten::mul"), backward nodes
// ("MulBackward0"), optimizers, and ranges named by RecordFunction, from all threads. An op on a
// GPU also has a range on the GPU, from an event before its kernels to an event after them. Gaps
// between kernels are included.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "framework/base/arguments.h"
#include "framework/base/device.h"

namespace taper::v0 {

namespace detail {
// Bits of `observers`. kTraced: a Profiler records. kMarked: ranges are passed to NVTX (Nsight).
// Usually none is set.
inline constexpr int kTraced = 1, kMarked = 2;
inline std::atomic<int> observers{0};
}  // namespace detail

inline bool is_observed() { return detail::observers.load(std::memory_order_relaxed) != 0; }
inline bool is_profiling() {
  return (detail::observers.load(std::memory_order_relaxed) & detail::kTraced) != 0;
}

// Records a range until the end of the scope (torch.profiler.record_function). Costs one branch if
// nothing is being recorded.
class RecordFunction {
 public:
  enum class RangeKind : uint8_t { kUser, kOp, kBackward, kModule };
  explicit RecordFunction(const char* name, RangeKind kind = RangeKind::kUser, Device device = {}) {
    if (is_observed()) [[unlikely]]
      begin(name, kind, device);
  }
  explicit RecordFunction(const std::string& name, RangeKind kind = RangeKind::kUser)
      : RecordFunction(name.c_str(), kind) {}
  ~RecordFunction() {
    if (observers_ != 0) [[unlikely]]
      end();
  }
  RecordFunction& operator=(RecordFunction&&) = delete;  // neither copied nor moved

 private:
  void begin(const char* name, RangeKind kind, Device device);
  void end() noexcept;

  int observers_ = 0;
  uint64_t number_ = 0;
};

// Records from its construction until stop(). While it records, a StepGraph executes its steps op
// by op.
class Profiler {
 public:
  // Throws Error if another Profiler is recording.
  Profiler();
  ~Profiler();
  Profiler& operator=(Profiler&&) = delete;  // neither copied nor moved

  // Ends the recording. Waits for the GPUs that were used.
  void stop();
  // An op's device, and the number of bytes in tensors on that device after the op.
  struct Allocation {
    Device device;
    int64_t bytes;
  };
  // Ends the recording. Returns an entry for each op, in the order of their start.
  std::vector<Allocation> allocations();
  // Like allocations(), without the devices.
  std::vector<int64_t> allocated_bytes();
  // Ends the recording and writes JSON trace events. Throws OutputError if the file cannot be
  // written.
  void export_chrome_trace(const std::string& path);

  struct Session;

 private:
  std::shared_ptr<Session> session_;
};

// From now on passes the ranges to a tool that listens through NVTX, such as Nsight Systems
// (torch.autograd.profiler.emit_nvtx). Has no effect in a build without CUDA.
void emit_nvtx(BoolArg on = true);

}  // namespace taper::v0
