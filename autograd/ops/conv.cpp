#include "autograd/ops/conv.h"

#include "autograd/activation.h"
#include "autograd/autocast.h"
#include "autograd/node.h"
#include "autograd/ops/reduce.h"
#include "autograd/ops/shape.h"
#include "autograd/ops/unary.h"
#include "framework/kernels/matmul/matmul.h"
#include "framework/trace.h"

namespace taper::inline v0 {
namespace {

using Options = Conv2dOptions;

// y, dx and dweight are each linear in two tensors, and the gradients of one are the other two.
Tensor conv_dx(const Tensor& dy, const Tensor& weight, const Shape& x, const Options& o);
Tensor conv_dweight(const Tensor& dy, const Tensor& x, const Shape& weight, const Options& o);

// The dimensions of an [N, C, ...] tensor in the order of channels-last memory, and back.
Tensor channels_last(const Tensor& x) {
  return permute(x, x.dim() == 3 ? Shape{0, 2, 1} : Shape{0, 2, 3, 1});
}
Tensor channels_first(const Tensor& x) {
  return permute(x, x.dim() == 3 ? Shape{0, 2, 1} : Shape{0, 3, 1, 2});
}

struct BiasGradients {
  Tensor dz, dbias;
};
// Of z = conv + bias, y = activation(z); in channels-last memory, once for all that need dz.
BiasGradients bias_backward(Activation activation, const Tensor& dy, const Tensor& y,
                            bool wants_dbias) {
  if (is_grad_enabled()) {
    const Tensor dz = contiguous(channels_last(activation_gradient(activation, dy, y)));
    const Shape all = dz.dim() == 3 ? Shape{0, 1} : Shape{0, 1, 2};
    return {channels_first(dz), wants_dbias ? sum(dz, all) : Tensor()};
  }
  const auto as_rows = [](const Tensor& t) { return flatten(channels_last(t), 0, -2); };
  const auto [dz, dbias] = kernels::bias_backward(activation, contiguous(as_rows(dy)),
                                                  y.defined() ? as_rows(y) : y, wants_dbias);
  return {channels_first(reshape(dz, channels_last(dy).shape())), dbias};
}

Tensor conv_y(const char* op, const Tensor& x, const Tensor& weight, const Tensor& bias,
              const Options& o, Activation activation = Activation::none) {
  const bool relu = activation == Activation::relu;
  Tensor y = kernels::conv(op, x, weight, bias, o, relu);
  trace(op, y, {x, weight, bias}, std::pair(o, relu));
  if (!needs_grad({x, weight, bias})) return y;
  return record("ConvolutionBackward0", y, {x, weight, bias},
                [x = Saved(x), weight = Saved(weight), o, activation,
                 kept = relu ? Saved::output(y) : Saved(Tensor())](Gradients& g) {
                  const Tensor from = x.get(g), w = weight.get(g);
                  const auto [dz, dbias] =
                      bias_backward(activation, g.dy(), kept.get(g), g.needs(2));
                  if (g.needs(0)) g.dx(0) = conv_dx(dz, w, from.shape(), o);
                  if (g.needs(1)) g.dx(1) = conv_dweight(dz, from, w.shape(), o);
                  g.dx(2) = dbias;
                });
}

Tensor conv_dx(const Tensor& dy, const Tensor& weight, const Shape& x, const Options& o) {
  Tensor dx = kernels::conv_dx(dy, weight, x, o);
  if (!needs_grad({dy, weight})) return dx;
  return record("ConvolutionBackwardBackward0", dx, {dy, weight},
                [dy = Saved(dy), weight = Saved(weight), o](Gradients& g) {
                  const Tensor w = weight.get(g);
                  if (g.needs(0)) g.dx(0) = conv_y("conv", g.dy(), w, {}, o);
                  if (g.needs(1)) g.dx(1) = conv_dweight(dy.get(g), g.dy(), w.shape(), o);
                });
}

Tensor conv_dweight(const Tensor& dy, const Tensor& x, const Shape& weight, const Options& o) {
  Tensor dweight = kernels::conv_dweight(dy, x, weight, o);
  if (!needs_grad({dy, x})) return dweight;
  return record("ConvolutionBackwardBackward0", dweight, {dy, x},
                [dy = Saved(dy), x = Saved(x), o](Gradients& g) {
                  const Tensor from = x.get(g);
                  if (g.needs(0)) g.dx(0) = conv_y("conv", from, g.dy(), {}, o);
                  if (g.needs(1)) g.dx(1) = conv_dx(dy.get(g), g.dy(), from.shape(), o);
                });
}

// `dims`: of space.
Tensor conv(const char* op, int dims, const Tensor& x, const Tensor& weight, const Tensor& bias,
            const Options& o, Activation activation = Activation::none) {
  if (x.dim() == dims + 2) return conv_y(op, x, weight, bias, o, activation);
  if (x.dim() == dims + 1) {
    return squeeze(conv_y(op, unsqueeze(x, 0), weight, bias, o, activation), 0);
  }
  throw Error(cat("Expected ", dims + 1, "D (unbatched) or ", dims + 2, "D (batched) input to ", op,
                  ", but got input of size: ", x.shape()));
}

}  // namespace

Tensor conv1d(const Tensor& x, const Tensor& weight, const Tensor& bias, const Conv1dOptions& o) {
  if (autocasts(x)) return casted(Cast::to_low, conv1d, x, weight, bias, o);
  return conv("conv1d", 1, x, weight, bias,
              {{1, o.stride}, {0, o.padding}, {1, o.dilation}, o.groups});
}

Tensor conv2d(const Tensor& x, const Tensor& weight, const Tensor& bias, const Conv2dOptions& o,
              Activation activation) {
  if (autocasts(x)) return casted(Cast::to_low, conv2d, x, weight, bias, o, activation);
  if (activation == Activation::gelu || activation == Activation::gelu_tanh) {
    return gelu(conv2d(x, weight, bias, o), activation == Activation::gelu_tanh);
  }
  return conv("conv2d", 2, x, weight, bias, o, activation);
}

}  // namespace taper::inline v0
