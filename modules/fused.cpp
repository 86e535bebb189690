#include "modules/fused.h"

#include <typeinfo>

#include "autograd/ops/binary.h"
#include "autograd/ops/matmul.h"
#include "modules/conv.h"
#include "modules/linear.h"
#include "modules/stateless.h"

namespace taper {
namespace {

template <class M> bool is_exactly(const Module& module) { return typeid(module) == typeid(M); }

Activation activation_of(const Module& module) {
  if (is_exactly<ReLU>(module)) return Activation::relu;
  if (is_exactly<GELU>(module)) {
    const bool by_tanh = static_cast<const GELU&>(module).approximate == "tanh";
    return by_tanh ? Activation::gelu_tanh : Activation::gelu;
  }
  return Activation::none;
}

}  // namespace

bool applies_activation(const Module& layer, const Module& activation) {
  return (is_exactly<Linear>(layer) || is_exactly<Conv2d>(layer)) &&
         activation_of(activation) != Activation::none && !layer.has_hooks() &&
         !activation.has_hooks();
}

Tensor activated(Module& layer, Module& activation, const Tensor& x) {
  if (!applies_activation(layer, activation)) return activation(layer(x));
  const Activation fused = activation_of(activation);
  if (is_exactly<Conv2d>(layer)) return static_cast<Conv2d&>(layer)(x, fused);
  return static_cast<Linear&>(layer)(x, fused);
}

Tensor dropped_onto(Dropout& dropout, const Tensor& x, const Tensor& residual) {
  if (dropout.has_hooks()) return residual + dropout(x);
  return dropout_add(x, dropout.p, dropout.is_training(), residual);
}

}  // namespace taper
