// The ops of a forward pass as they are computed, with what they were given, for those who write it
// down in another form (modules/onnx/onnx.h).
#pragma once

#include <any>
#include <atomic>
#include <functional>
#include <initializer_list>
#include <vector>

#include "framework/tensor/tensor.h"

namespace taper::v0 {

struct TracedOp {
  const char* name;            // as docs/operators.md calls it, or its part
  std::vector<Tensor> inputs;  // undefined where one was not given
  std::vector<Tensor> outputs;
  std::any options;  // of the type that the op notes; views note theirs as a Shape
};

// Tells `note` of the ops that this thread computes until the end of the scope. An op that is made
// of others is noted behind them; some of those may not be. `read` is told of each tensor whose
// values the host is about to read (item, to_vector, data, and ops that do so), and may throw.
class Trace {
 public:
  // Throws Error when this thread has one already.
  explicit Trace(
      std::function<void(TracedOp)> note,
      std::function<void(const Tensor&)> read = [](const Tensor&) {});
  ~Trace();
  Trace& operator=(Trace&&) = delete;  // neither copied nor moved

 private:
  friend void note_traced(TracedOp op);
  friend void note_read(const Tensor& x);
  const std::function<void(TracedOp)> note_;
  const std::function<void(const Tensor&)> read_;
};

namespace detail {
inline std::atomic<int> traces{0};
}
// To this thread's trace, if there is one.
void note_traced(TracedOp op);
void note_read(const Tensor& x);

inline bool is_tracing() { return detail::traces.load(std::memory_order_relaxed) != 0; }

// For ops, once their result is there. One branch when nobody looks.
template <class Options = std::nullptr_t>
void trace(const char* name, const Tensor& y,
           std::initializer_list<std::reference_wrapper<const Tensor>> inputs,
           const Options& options = nullptr) {
  if (is_tracing()) [[unlikely]]
    note_traced({name, {inputs.begin(), inputs.end()}, {y}, options});
}
// y, which is the end of the op.
template <class Options = std::nullptr_t>
Tensor traced(const char* name, Tensor y,
              std::initializer_list<std::reference_wrapper<const Tensor>> inputs,
              const Options& options = nullptr) {
  trace(name, y, inputs, options);
  return y;
}

}  // namespace taper::v0
