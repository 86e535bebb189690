#include "modules/onnx/onnx_trace.h"

#include "autograd/anomaly.h"
#include "autograd/node.h"

namespace taper::v0::onnx_export {

Recording::Recording(const OnnxFunction& f, const std::vector<Tensor>& inputs,
                     const std::vector<Tensor>& state) {
  note({"input", {}, inputs, {}});
  note({"state", {}, state, {}});
  const DetectAnomalyGuard names_modules;
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
  refuse(concat_to_string(
             "the values of a tensor of shape ", x.shape(), " that follows from the inputs",
             origin.op ? concat_to_string(" (made by ", steps[*origin.op].op.name, ")") : "",
             " are read on the host (item, to_vector, data, or an op that does so, as nonzero); "
             "what they decide, such as a branch, would be frozen as the example has it"),
         {});  // the modules that the error passes add their names
}

void refuse(const std::string& what, const std::string& module) {
  throw NotImplementedError("export_onnx: ", what,
                            module.empty() ? "" : concat_to_string(" (in module ", module, ")"));
}

}  // namespace taper::v0::onnx_export
