#include "export/onnx_trace.h"

#include <algorithm>

#include "autograd/anomaly.h"
#include "autograd/ops/binary.h"
#include "autograd/ops/index/index.h"
#include "autograd/ops/shape.h"
#include "framework/factories.h"
#include "framework/random.h"

namespace taper::inline v0::onnx_export {
namespace {

// Other values of the same kind, so that what is computed from them differs: no two are equal, for
// an example of equal ones.
Tensor changed(const Tensor& x) {
  const Tensor turned = reshape(flip(flatten(x), {0}), x.shape());
  if (!x.is_floating_point()) return turned;
  Generator generator(1);
  const Tensor noise = rand(x.shape(), {.device = x.device()}, &generator);
  return (turned * 0.5 + noise * 0.5).to(x.dtype());
}

// An example as a result that the tape leads back to: what follows from it can be told.
Tensor on_tape(const Tensor& x) {
  return x.is_floating_point() ? clone(x.detach().requires_grad_()) : x;
}

Tensor with_rows(const Tensor& x, int64_t rows) {
  Tensor y = x;
  while (y.size(0) < rows) y = cat({y, narrow(x, 0, 0, std::min(x.size(0), rows - y.size(0)))}, 0);
  return y;
}

// In evaluation mode until the end of the scope.
class Evaluating {
 public:
  explicit Evaluating(Module& module) {
    for (const auto& [path, m] : module.named_modules()) modes_.push_back({m, m->is_training()});
    module.eval();
  }
  // Parents come before their children.
  ~Evaluating() {
    for (const auto& [m, on] : modes_) m->train(on);
  }
  Evaluating& operator=(Evaluating&&) = delete;  // neither copied nor moved

 private:
  std::vector<std::pair<Module*, bool>> modes_;
};

}  // namespace

Recording::Recording(const OnnxFunction& f, const std::vector<Tensor>& inputs,
                     const std::vector<Tensor>& state) {
  note({"input", {}, inputs, {}});
  note({"state", {}, state, {}});
  const AnomalyMode names_modules;
  const Trace trace([this](TracedOp op) { note(std::move(op)); },
                    [this](const Tensor& x) { refuse_read(x); });
  outputs = f(inputs);
}

Origin Recording::origin_of(const Tensor& x) const {
  if (!x.defined()) return {};
  const auto found = made_.find(key_of(x));
  if (found == made_.end() || found->second.version != x.version()) return {};
  return found->second.origin;
}

Recording::Key Recording::key_of(const Tensor& x) {
  std::vector<int64_t> layout(x.shape().begin(), x.shape().end());
  for (int d = 0; d < x.dim(); ++d) layout.push_back(x.size(d) == 1 ? 0 : x.strides()[d]);
  return {x.storage().get(), x.storage_offset(), x.dtype(), layout};
}

void Recording::note(TracedOp op) {
  Step step{std::move(op), {}, {}, {}};
  step.follows = steps.size() == kInputs;
  step.depends = steps.size() <= kState;
  const bool has_form = onnx_row(step.op.name);
  for (const Tensor& x : step.op.inputs) {
    const Origin origin = origin_of(x);
    step.origins.push_back(origin);
    step.versions.push_back(x.defined() ? x.version() : 0);
    step.follows = step.follows || follows(x);
    step.depends = step.depends || (has_form && origin.op && steps[*origin.op].depends);
  }
  step.depends = step.depends || step.follows;
  if (steps.size() > kState) step.module = current_call()->module;
  for (size_t i = 0; i < step.op.outputs.size(); ++i) {
    const Tensor& y = step.op.outputs[i];
    made_[key_of(y)] = {{steps.size(), i}, y.version()};
    if (step.follows) follow_.insert(y.storage().get());
  }
  steps.push_back(std::move(step));
}

bool Recording::follows(const Tensor& x) const {
  if (!x.defined()) return false;
  if (follow_.count(x.storage().get())) return true;
  const Node* node = node_of(x);
  if (!node) return false;
  std::set<const Node*> makers, seen;
  for (const Step& step : steps) {
    for (const Tensor& y : step.op.outputs) {
      if (step.follows) makers.insert(node_of(y));
    }
  }
  for (std::vector<const Node*> waiting = {node}; !waiting.empty();) {
    node = waiting.back();
    waiting.pop_back();
    if (!node || !seen.insert(node).second) continue;
    if (makers.count(node)) return true;
    for (uint32_t i = 0; i < node->num_inputs; ++i) waiting.push_back(node->edges[i].node.get());
  }
  return false;
}

void Recording::refuse_read(const Tensor& x) const {
  if (!follows(x)) return;
  const Origin origin = origin_of(x);
  refuse(cat("the values of a tensor of shape ", x.shape(), " that follows from the inputs",
             origin.op ? cat(" (made by ", steps[*origin.op].op.name, ")") : "",
             " are read on the host (item, to_vector, data, or an op that does so, as nonzero); "
             "what they decide, such as a branch, would be frozen as the example has it"),
         {});  // the modules that it passes add themselves
}

void refuse(const std::string& what, const std::string& module) {
  throw NotImplementedError("export_onnx: ", what,
                            module.empty() ? "" : cat(" (in module ", module, ")"));
}

Graph trace_graph(const OnnxFunction& f, Module& module, const std::vector<Tensor>& examples,
                  const OnnxOptions& options) {
  if (examples.empty()) throw ValueError("export_onnx: expected at least one example input");
  const GradMode makers_are_known(true);
  std::vector<Tensor> here, there, state;
  for (const Tensor& x : examples) {
    if (options.dynamic_batch &&
        (x.dim() == 0 || x.size(0) != examples[0].size(0) || x.size(0) == 0)) {
      throw ValueError(
          "export_onnx: with a dynamic batch every example's first size is that of "
          "the batch; got shapes ",
          examples[0].shape(), " and ", x.shape());
    }
    // Two rows and three at least: one would be taken for a size that broadcasts.
    const int64_t rows = options.dynamic_batch ? std::max<int64_t>(2, x.size(0)) : 0;
    const Tensor one = options.dynamic_batch ? with_rows(x.detach(), rows) : x.detach();
    const Tensor other = changed(one);
    here.push_back(on_tape(one));
    there.push_back(on_tape(options.dynamic_batch ? with_rows(other, rows + 1) : other));
  }
  const Evaluating evaluating(module);
  const std::vector<NamedTensor> named = module.state_dict();
  for (const NamedTensor& t : named) state.push_back(t.tensor);
  const Recording first(f, here, state), second(f, there, state);
  return build_graph(first, second, named, options);
}

}  // namespace taper::inline v0::onnx_export
