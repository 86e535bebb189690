#include "autograd/function.h"

#include <algorithm>
#include <map>
#include <memory>

#include "autograd/anomaly.h"

namespace taper::v0 {
namespace {

bool can_reduce_to(const Shape& from, const Shape& to) {
  try {
    return broadcast_shapes(from, to) == from;
  } catch (const Error&) {
    return false;
  }
}

// Checks the gradient that backward returned for argument i and converts it to the form that the
// argument needs.
Tensor checked(const char* name, size_t i, const Tensor& dx, const TensorMeta& x) {
  const auto check = [&](bool holds, const auto&... what) {
    require(holds, "Function ", name, " returned an invalid gradient at index ", i, " - ", what...);
  };
  check(can_reduce_to(dx.shape(), x.shape), "got ", dx.shape(),
        " but expected shape compatible with ", x.shape);
  check(dx.device() == x.device, "expected device ", x.device, " but got ", dx.device());
  return x.reduce(dx);
}

bool is_in(const Tensor& x, const std::vector<Tensor>& tensors) {
  return std::any_of(tensors.begin(), tensors.end(), [&](const Tensor& t) { return t.is_same(x); });
}

}  // namespace

std::string backward_name(const std::type_info& type) {
  const std::string name = demangled(type.name());
  const size_t scope = name.rfind("::", name.find('<'));
  return (scope == std::string::npos ? name : name.substr(scope + 2)) + "Backward";
}

struct Context::Left {
  struct Value {
    const std::type_info* type = nullptr;
    std::shared_ptr<const void> held = {};
  };
  std::vector<Tensor> to_save = {}, constant = {};
  std::vector<SavedTensor> saved = {};
  std::map<std::string, Value> values = {};
  std::vector<bool> needs = {};
};

void Context::save_for_backward(const std::vector<Tensor>& tensors) { left_->to_save = tensors; }

bool Context::needs_input_grad(size_t i) const {
  return i < left_->needs.size() && left_->needs[i];
}

void Context::mark_non_differentiable(const std::vector<Tensor>& outputs) {
  left_->constant = outputs;
}

void Context::put(const std::string& name, const std::type_info& type,
                  std::shared_ptr<const void> value) {
  left_->values[name] = {&type, std::move(value)};
}

const void* Context::find(const std::string& name, const std::type_info& type) const {
  const auto found = left_->values.find(name);
  require(found != left_->values.end() && *found->second.type == type,
          "Context::get: nothing of this type was set as '", name, "'");
  return found->second.held.get();
}

std::vector<Tensor> Context::saved_tensors() const {
  if (!pass_) return left_->to_save;
  std::vector<Tensor> tensors;
  for (const SavedTensor& s : left_->saved) tensors.push_back(s.get(*pass_));
  return tensors;
}

FunctionCall::FunctionCall(const char* name, std::vector<Tensor> arguments)
    : name_(name), arguments_(std::move(arguments)), context_(std::make_shared<Context::Left>()) {
  recorded_ = taper::needs_grad(std::span<const Tensor>(arguments_));
  for (const Tensor& x : arguments_) {
    context_.left_->needs.push_back(recorded_ && x.defined() && x.requires_grad());
  }
}

std::vector<Tensor> FunctionCall::finish(std::vector<Tensor> outputs, Backward backward) {
  const std::shared_ptr<Context::Left> ctx = context_.left_;
  // An input that is returned unchanged becomes a separate tensor.
  for (Tensor& y : outputs) {
    if (!is_in(y, arguments_)) continue;
    const bool constant = is_in(y, ctx->constant);
    y = y.detach();
    y.impl()->no_grad_view = TensorImpl::kOfRecorded;
    if (constant) ctx->constant.push_back(y);
  }
  if (!recorded_ || outputs.empty()) return outputs;
  // An output saved as an input would keep its own node alive, so it is saved as an output.
  for (const Tensor& x : ctx->to_save) {
    const auto found = std::find_if(outputs.begin(), outputs.end(),
                                    [&](const Tensor& y) { return x.defined() && y.is_same(x); });
    ctx->saved.push_back(found == outputs.end()
                             ? SavedTensor(x)
                             : SavedTensor::output(x, uint32_t(found - outputs.begin())));
  }
  ctx->to_save.clear();
  std::vector<TensorMeta> inputs(arguments_.begin(), arguments_.end());
  std::vector<TensorMeta> results(outputs.begin(), outputs.end());
  size_t required = arguments_.size();
  while (required > 0 && !arguments_[required - 1].defined()) --required;

  auto run = [name = name_, ctx, inputs = std::move(inputs), results = std::move(results), required,
              backward](Gradients& g) {
    std::vector<Tensor> dy;
    for (size_t i = 0; i < results.size(); ++i) dy.push_back(results[i].or_zeros(g.dy(i)));
    Context context(ctx, &g);
    std::vector<Tensor> dx = backward(context, dy);
    while (dx.size() > inputs.size() && !dx.back().defined()) dx.pop_back();
    require(dx.size() >= required && dx.size() <= inputs.size(), "function ", name,
            " returned an incorrect number of gradients (expected ", inputs.size(), ", got ",
            dx.size(), ")");
    for (size_t i = 0; i < dx.size(); ++i) {
      if (g.needs(i) && dx[i].defined()) g.dx(i) = checked(name, i, dx[i], inputs[i]);
    }
  };
  const std::vector<TensorRef> edges(arguments_.begin(), arguments_.end());
  const std::vector<Tensor> constant = std::move(ctx->constant);
  record_many(name_, outputs, edges, std::move(run));
  for (const Tensor& y : outputs) {
    if (!y.is_floating_point() || is_in(y, constant)) set_node(y, {}, 0);
  }
  return outputs;
}

}  // namespace taper::v0
