// Records the ops of a forward pass with their arguments, for code that translates the pass into
// another form, such as the ONNX export.
#pragma once

#include <any>
#include <atomic>
#include <functional>
#include <initializer_list>
#include <vector>

#include "framework/tensor/tensor.h"

namespace taper::v0 {

struct TracedOp {
  const char* name;            // the name in docs/operators.md, or the name of a part of that op
  std::vector<Tensor> inputs;  // undefined if an optional input was not given
  std::vector<Tensor> outputs;
  std::any options;  // a struct of the op's own options type; views store a Shape
};

// Until the end of the scope, calls `note` for each op that this thread computes. A composite op is
// reported after the ops of which it consists; some of these may not be reported. `read` is called
// before the host reads values of a tensor (item, to_vector, data, and ops that read values), and
// may throw.
class Trace {
 public:
  // Throws Error if this thread already has a Trace.
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
// Reports an op to this thread's Trace, if there is one.
void note_traced(TracedOp op);
void note_read(const Tensor& x);

inline bool is_tracing() { return detail::traces.load(std::memory_order_relaxed) != 0; }

// Reports an op, once its result exists. Costs one branch if there is no Trace.
template <class Options = std::nullptr_t>
void trace(const char* name, const Tensor& y,
           std::initializer_list<std::reference_wrapper<const Tensor>> inputs,
           const Options& options = nullptr) {
  if (is_tracing()) [[unlikely]]
    note_traced({name, {inputs.begin(), inputs.end()}, {y}, options});
}
// Reports the op and returns its result y.
template <class Options = std::nullptr_t>
Tensor traced(const char* name, Tensor y,
              std::initializer_list<std::reference_wrapper<const Tensor>> inputs,
              const Options& options = nullptr) {
  trace(name, y, inputs, options);
  return y;
}

}  // namespace taper::v0
