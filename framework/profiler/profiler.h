// What a program does, and for how long (https://pytorch.org/docs/stable/profiler.html):
//
//   Profiler profiler;
//   for (...) step();
//   profiler.export_chrome_trace("trace.json");  // for ui.perfetto.dev or chrome://tracing
//
// The trace has modules by their paths ("nn.Module: net.2"), ops ("aten::mul"), backward nodes
// ("MulBackward0"), optimizers and what RecordFunction names, of all threads. An op on a GPU has a
// second range there, from an event before its kernels to one behind them, gaps included.
#pragma once

#include <string>
#include <vector>

#include "framework/base/arguments.h"
#include "framework/base/device.h"
#include "framework/memory/atomic.h"
#include "framework/memory/pointers.h"

namespace taper::v0 {

namespace detail {
// Whether ranges are traced, or shown to a tool of NVIDIA's, or (the rule) neither.
inline constexpr int kTraced = 1, kMarked = 2;
inline Atomic<int> observers{0};
}  // namespace detail

inline bool is_observed() { return detail::observers.load(__ATOMIC_RELAXED) != 0; }
inline bool is_profiling() {
  return (detail::observers.load(__ATOMIC_RELAXED) & detail::kTraced) != 0;
}

// A range until the end of the scope (torch.profiler.record_function). One branch when nobody
// looks.
class RecordFunction {
 public:
  enum class Kind : uint8_t { user, op, backward, module };
  explicit RecordFunction(const char* name, Kind kind = Kind::user, Device device = {}) {
    if (is_observed()) [[unlikely]]
      begin(name, kind, device);
  }
  explicit RecordFunction(const std::string& name, Kind kind = Kind::user)
      : RecordFunction(name.c_str(), kind) {}
  ~RecordFunction() {
    if (observers_ != 0) [[unlikely]]
      end();
  }
  RecordFunction& operator=(RecordFunction&&) = delete;  // neither copied nor moved

 private:
  void begin(const char* name, Kind kind, Device device);
  void end() noexcept;

  int observers_ = 0;
  uint64_t number_ = 0;
};

// Traces from its making until stop(). Steps of a StepGraph run as they are meanwhile.
class Profiler {
 public:
  // Throws Error when one is there already.
  Profiler();
  ~Profiler();
  Profiler& operator=(Profiler&&) = delete;  // neither copied nor moved

  // Waits for the GPUs that were used.
  void stop();
  // Bytes in tensors, on its device, after each op, in the order of their beginnings; stops.
  std::vector<int64_t> allocated_bytes();
  // Stops, and writes JSON trace events. Throws OutputError when the file cannot be written.
  void export_chrome_trace(const std::string& path);

  struct Session;

 private:
  Shared<Session> session_;
};

// Shows the same ranges to a listening tool such as Nsight Systems, by NVTX
// (torch.autograd.profiler.emit_nvtx), from now on; nothing in a build without CUDA.
void emit_nvtx(BoolArg on = true);

}  // namespace taper::v0
