// Functors of the activations and of their gradients. A gradient's functor takes the activation's
// argument, or its result in the case of relu.
#pragma once

#include "framework/kernels/elementwise/activation.h"
#include "framework/kernels/elementwise/binary_functors.h"
#include "framework/kernels/elementwise/unary_functors.h"

namespace taper::v0::kernels {

struct NoActivation {
  template <class T> TAPER_HD T operator()(T x) const { return x; }
  template <class T> TAPER_HD T operator()(T dy, T) const { return dy; }
};

template <class F> constexpr decltype(auto) visit(Activation activation, F&& f) {
  switch (activation) {
    case Activation::kRelu: return f(Relu{});
    case Activation::kGelu: return f(Gelu{});
    case Activation::kGeluTanh: return f(GeluTanh{});
    default: return f(NoActivation{});
  }
}
template <class F> constexpr decltype(auto) visit_backward(Activation activation, F&& f) {
  switch (activation) {
    case Activation::kRelu: return f(ReluBackward{});
    case Activation::kGelu: return f(GeluBackward{});
    case Activation::kGeluTanh: return f(GeluTanhBackward{});
    default: return f(NoActivation{});
  }
}

}  // namespace taper::v0::kernels
