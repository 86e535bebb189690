#include "autograd/functional/functional.h"

#include "autograd/engine.h"
#include "autograd/node.h"
#include "autograd/ops/shape_ops.h"
#include "framework/factory/factories.h"

namespace taper::v0 {
namespace {

// Returns the tensors that f is called with. The caller's grad mode does not matter.
Tensors own(const Tensors& inputs, bool create_graph) {
  Tensors out;
  for (const Tensor& x : inputs) {
    const bool keeps_history = create_graph && x.requires_grad();
    out.push_back(keeps_history ? view(x, x.shape()) : x.detach().requires_grad_());
  }
  return out;
}

Tensors outside(Tensors tensors, bool create_graph) {
  if (create_graph) return tensors;
  for (Tensor& x : tensors) x = x.detach();
  return tensors;
}

// Like grad(), but returns zeros for inputs that the outputs do not depend on.
Tensors gradients(const Tensors& outputs, const Tensors& inputs, const Tensors& v,
                  bool create_graph) {
  Tensors from, by;
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (!outputs[i].requires_grad()) continue;
    from.push_back(outputs[i]);
    by.push_back(v[i]);
  }
  Tensors out(inputs.size());
  if (!from.empty())
    out = grad(from, inputs, by,
               {.retain_graph = true, .create_graph = create_graph, .allow_unused = true});
  for (size_t j = 0; j < inputs.size(); ++j) {
    if (!out[j].defined()) out[j] = zeros_like(inputs[j]);
  }
  return out;
}

// Returns v after checking it against `like`. An empty v is replaced by 1 if there is one tensor
// with one element.
Tensors checked(const char* op, const char* what, const Tensors& v, const Tensors& like) {
  if (v.empty()) {
    require(like.size() == 1 && like[0].numel() == 1,
            "The vector v can only be omitted if the user-provided function ",
            what[0] == 'o' ? "returns" : "takes", " a single Tensor with a single element (in ", op,
            ")");
    return {ones_like(like[0])};
  }
  require(v.size() == like.size(), op, ": v is of invalid length: should be ", like.size(),
          " but got ", v.size());
  for (size_t i = 0; i < v.size(); ++i) {
    require(v[i].shape() == like[i].shape(), op, ": v[", i, "] has invalid size: should be ",
            like[i].shape(), " but got ", v[i].shape());
  }
  return v;
}

TensorsFunction of_lists(const TensorFunction& f) {
  return [&f](const Tensors& x) { return Tensors{f(x[0])}; };
}
Tensors list_of(const Tensor& v) { return v.defined() ? Tensors{v} : Tensors{}; }

std::vector<Tensors> rows(const Tensors& outputs, const Tensors& inputs, bool create_graph) {
  std::vector<Tensors> all;
  for (const Tensor& y : outputs) {
    std::vector<Tensors> parts(inputs.size());
    for (int64_t k = 0; k < y.numel(); ++k) {
      Tensor one = zeros({y.numel()}, {.dtype = y.dtype(), .device = y.device()});
      one[k].fill_(1);
      const Tensors row = gradients({y}, inputs, {view(one, y.shape())}, create_graph);
      for (size_t j = 0; j < inputs.size(); ++j) parts[j].push_back(row[j]);
    }
    Tensors of_output;
    for (size_t j = 0; j < inputs.size(); ++j) {
      Shape shape = y.shape();
      for (const int64_t n : inputs[j].shape()) shape.push_back(n);
      of_output.push_back(parts[j].empty() ? zeros(shape, {.dtype = inputs[j].dtype(),
                                                           .device = inputs[j].device()})
                                           : reshape(stack(parts[j]), shape));
    }
    all.push_back(std::move(of_output));
  }
  return all;
}

}  // namespace

std::pair<Tensors, Tensors> vjp(const TensorsFunction& f, const Tensors& inputs, const Tensors& v,
                                BoolArg create_graph) {
  const AutoGradMode on_the_tape(true);
  const Tensors x = own(inputs, create_graph), y = f(x);
  const Tensors g = gradients(y, x, checked("vjp", "outputs", v, y), create_graph);
  return {outside(y, create_graph), outside(g, create_graph)};
}

std::pair<Tensors, Tensors> jvp(const TensorsFunction& f, const Tensors& inputs, const Tensors& v,
                                BoolArg create_graph) {
  const AutoGradMode on_the_tape(true);
  const Tensors x = own(inputs, create_graph), y = f(x);
  const Tensors by = checked("jvp", "inputs", v, x);
  // The gradient is linear in the vector that backward is called with; differentiating it by that
  // vector gives the Jacobian.
  Tensors dy;
  for (const Tensor& t : y) dy.push_back(zeros_like(t).requires_grad_());
  const Tensors g = gradients(y, x, dy, true);
  return {outside(y, create_graph), outside(gradients(g, dy, by, create_graph), create_graph)};
}

std::vector<Tensors> jacobian(const TensorsFunction& f, const Tensors& inputs,
                              BoolArg create_graph) {
  const AutoGradMode on_the_tape(true);
  const Tensors x = own(inputs, create_graph);
  auto out = rows(f(x), x, create_graph);
  for (Tensors& row : out) row = outside(std::move(row), create_graph);
  return out;
}

std::vector<Tensors> hessian(const TensorsFunction& f, const Tensors& inputs,
                             BoolArg create_graph) {
  const auto slopes = [&](const Tensors& x) {
    const Tensors y = f(x);
    require(y.size() == 1 && y[0].numel() == 1,
            "The function given to hessian should return a single Tensor with a single element");
    return gradients(y, x, {ones_like(y[0])}, true);
  };
  return jacobian(slopes, inputs, create_graph);
}

std::pair<Tensor, Tensor> vjp(const TensorFunction& f, const Tensor& input, const Tensor& v,
                              BoolArg create_graph) {
  const auto [y, g] = vjp(of_lists(f), Tensors{input}, list_of(v), create_graph);
  return {y[0], g[0]};
}
std::pair<Tensor, Tensor> jvp(const TensorFunction& f, const Tensor& input, const Tensor& v,
                              BoolArg create_graph) {
  const auto [y, g] = jvp(of_lists(f), Tensors{input}, list_of(v), create_graph);
  return {y[0], g[0]};
}
Tensor jacobian(const TensorFunction& f, const Tensor& input, BoolArg create_graph) {
  return jacobian(of_lists(f), Tensors{input}, create_graph)[0][0];
}
Tensor hessian(const TensorFunction& f, const Tensor& input, BoolArg create_graph) {
  return hessian(of_lists(f), Tensors{input}, create_graph)[0][0];
}

}  // namespace taper::v0
