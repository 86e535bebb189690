#include "autograd/ops/conv.h"

#include "autograd/autocast.h"
#include "autograd/node.h"
#include "autograd/ops/reduce.h"
#include "autograd/ops/shape.h"

namespace taper {
namespace {

using Options = Conv2dOptions;

// y, dx and dweight are each linear in two tensors, and the gradients of one are the other two.
Tensor conv_dx(const Tensor& dy, const Tensor& weight, const Shape& x, const Options& o);
Tensor conv_dweight(const Tensor& dy, const Tensor& x, const Shape& weight, const Options& o);

Tensor conv_y(const char* op, const Tensor& x, const Tensor& weight, const Tensor& bias,
              const Options& o) {
  Tensor y = kernels::conv(op, x, weight, bias, o);
  if (!needs_grad({x, weight, bias})) return y;
  return record(
      "ConvolutionBackward0", y, {x, weight, bias},
      [x = Saved(x), weight = Saved(weight), o](Gradients& g) {
        const Tensor from = x.get(g), w = weight.get(g);
        // In channels-last memory, once for all three.
        const bool flat = from.dim() == 3;
        const Tensor rows = contiguous(permute(g.dy(), flat ? Shape{0, 2, 1} : Shape{0, 2, 3, 1}));
        const Tensor dy = permute(rows, flat ? Shape{0, 2, 1} : Shape{0, 3, 1, 2});
        if (g.needs(0)) g.dx(0) = conv_dx(dy, w, from.shape(), o);
        if (g.needs(1)) g.dx(1) = conv_dweight(dy, from, w.shape(), o);
        if (g.needs(2)) g.dx(2) = sum(rows, flat ? Shape{0, 1} : Shape{0, 1, 2});
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
            const Options& o) {
  if (x.dim() == dims + 2) return conv_y(op, x, weight, bias, o);
  if (x.dim() == dims + 1) return squeeze(conv_y(op, unsqueeze(x, 0), weight, bias, o), 0);
  throw Error(cat("Expected ", dims + 1, "D (unbatched) or ", dims + 2, "D (batched) input to ", op,
                  ", but got input of size: ", x.shape()));
}

}  // namespace

Tensor conv1d(const Tensor& x, const Tensor& weight, const Tensor& bias, const Conv1dOptions& o) {
  if (autocasts(x)) {
    return casted(
        Cast::to_low, [&](auto&... t) { return conv1d(t..., o); }, x, weight, bias);
  }
  return conv("conv1d", 1, x, weight, bias,
              {{1, o.stride}, {0, o.padding}, {1, o.dilation}, o.groups});
}

Tensor conv2d(const Tensor& x, const Tensor& weight, const Tensor& bias, const Conv2dOptions& o) {
  if (autocasts(x)) {
    return casted(
        Cast::to_low, [&](auto&... t) { return conv2d(t..., o); }, x, weight, bias);
  }
  return conv("conv2d", 2, x, weight, bias, o);
}

}  // namespace taper
