#include "autograd/ops/nn/conv_ops.h"

#include <algorithm>

#include "autograd/ops/index/index_ops.h"
#include "autograd/ops/op_helpers.h"
#include "framework/kernels/conv/conv.h"
#include "framework/kernels/matmul/matmul.h"

namespace taper::v0 {
namespace {

using Options = kernels::ConvWindows;

// Each of y, dx and dweight is linear in two of the tensors x, weight and dy. The gradients of each
// can therefore be computed by the functions for the other two.
Tensor dx_of(const Tensor& dy, const Tensor& weight, const Shape& x, const Options& o,
             const char* name = "ConvolutionBackwardBackward0");
Tensor dweight_of(const Tensor& dy, const Tensor& x, const Shape& weight, const Options& o);

// Move the channels of an [N, C, ...] tensor to the last dimension, and back.
Tensor channels_last(const Tensor& x) { return movedim(x, 1, -1); }
Tensor channels_first(const Tensor& x) { return movedim(x, -1, 1); }

// Gradients for z = conv + bias and y = activation(z). dz is converted to channels-last memory once
// for all that use it.
kernels::BiasGradients bias_backward(Activation activation, const Tensor& dy, const Tensor& y,
                                     bool wants_dbias) {
  if (is_grad_enabled()) {
    const Tensor dz = contiguous(channels_last(activation_gradient(activation, dy, y)));
    Shape all;
    for (int d = 0; d < dz.dim() - 1; ++d) all.push_back(d);
    return {channels_first(dz), wants_dbias ? sum(dz, all) : Tensor()};
  }
  const auto as_rows = [](const Tensor& t) { return flatten(channels_last(t), 0, -2); };
  const kernels::BiasGradients rows = kernels::bias_backward(
      activation, contiguous(as_rows(dy)), y.defined() ? as_rows(y) : y, wants_dbias);
  return {channels_first(reshape(rows.dz, channels_last(dy).shape())), rows.dbias};
}

Tensor conv_y(const char* op, const Tensor& x, const Tensor& weight, const Tensor& bias,
              const Options& o, Activation activation = Activation::kNone) {
  const bool relu = activation == Activation::kRelu;
  Tensor y = kernels::conv(op, x, weight, bias, o, relu);
  trace(op, y, {x, weight, bias}, std::pair(o, relu));
  if (!needs_grad({x, weight, bias})) return y;
  return record("ConvolutionBackward0", y, {x, weight, bias},
                [x = SavedTensor(x), weight = SavedTensor(weight), o, activation,
                 kept = relu ? SavedTensor::output(y) : SavedTensor(Tensor())](Gradients& g) {
                  const Tensor from = x.get(g), w = weight.get(g);
                  const kernels::BiasGradients d =
                      bias_backward(activation, g.dy(), kept.get(g), g.needs(2));
                  if (g.needs(0)) g.dx(0) = dx_of(d.dz, w, from.shape(), o);
                  if (g.needs(1)) g.dx(1) = dweight_of(d.dz, from, w.shape(), o);
                  g.dx(2) = d.dbias;
                });
}

Tensor dx_of(const Tensor& dy, const Tensor& weight, const Shape& x, const Options& o,
             const char* name) {
  Tensor dx = kernels::conv_dx(dy, weight, x, o);
  if (!needs_grad({dy, weight})) return dx;
  return record(name, dx, {dy, weight},
                [dy = SavedTensor(dy), weight = SavedTensor(weight), o](Gradients& g) {
                  const Tensor w = weight.get(g);
                  if (g.needs(0)) g.dx(0) = conv_y("conv", g.dy(), w, {}, o);
                  if (g.needs(1)) g.dx(1) = dweight_of(dy.get(g), g.dy(), w.shape(), o);
                });
}

Tensor dweight_of(const Tensor& dy, const Tensor& x, const Shape& weight, const Options& o) {
  Tensor dweight = kernels::conv_dweight(dy, x, weight, o);
  if (!needs_grad({dy, x})) return dweight;
  return record("ConvolutionBackwardBackward0", dweight, {dy, x},
                [dy = SavedTensor(dy), x = SavedTensor(x), o](Gradients& g) {
                  const Tensor from = x.get(g);
                  if (g.needs(0)) g.dx(0) = conv_y("conv", from, g.dy(), {}, o);
                  if (g.needs(1)) g.dx(1) = dx_of(dy.get(g), g.dy(), from.shape(), o);
                });
}

// Calls f with x [N, C, ...]; adds and removes N for an unbatched x. `dims` is the number of
// spatial dimensions.
template <class F> Tensor batched(const char* op, int dims, const Tensor& x, F f) {
  if (x.dim() == dims + 2) return f(x);
  if (x.dim() == dims + 1) return squeeze(f(unsqueeze(x, 0)), 0);
  throw Error("Expected ", dims + 1, "D (unbatched) or ", dims + 2, "D (batched) input to ", op,
              ", but got input of size: ", x.shape());
}

// The numbers of a Triple, from the last dimension to the first, as pad() orders them.
constexpr int64_t Triple::*kSides[] = {&Triple::w, &Triple::h, &Triple::d};

// Returns the numbers for two or one spatial dimensions as those for three.
Triple in_3d(int64_t depth, Pair p) { return {depth, p.h, p.w}; }
ConvPadding3d in_3d(const ConvPadding& p) {
  ConvPadding3d padding = in_3d(0, p);
  padding.mode = p.mode;
  return padding;
}
Conv3dOptions in_3d(const Conv2dOptions& o) {
  return {in_3d(1, o.stride), in_3d(o.padding), in_3d(1, o.dilation), o.groups};
}
ConvTranspose3dOptions in_3d(const ConvTranspose2dOptions& o) {
  return {in_3d(1, o.stride), in_3d(0, o.padding), in_3d(0, o.output_padding), o.groups,
          in_3d(1, o.dilation)};
}

// Pads x at the end by the asymmetric part of "same" and sets the symmetric padding in o.
Tensor same_padded(const Tensor& x, const Tensor& weight, Options& o) {
  require(o.stride == Triple(1), "padding \"same\" is not supported for strided convolutions");
  if (weight.dim() != x.dim()) return x;  // refused later
  std::vector<int64_t> ends;
  for (int i = 0; i < x.dim() - 2; ++i) {
    const auto side = kSides[i];
    const int64_t kernel = weight.size(-1 - i);
    const int64_t all = std::max<int64_t>(0, checked_mul(o.dilation.*side, kernel - 1));
    o.padding.*side = all / 2;
    ends.insert(ends.end(), {0, all % 2});
  }
  return std::ranges::max(ends) == 0 ? x : pad(x, ends);
}

Tensor conv(const char* op, int dims, const Tensor& x, const Tensor& weight, const Tensor& bias,
            const Conv3dOptions& o, Activation activation = Activation::kNone) {
  return batched(op, dims, x, [&](const Tensor& images) {
    Options windows{o.stride, o.padding, o.dilation, o.groups};
    const Tensor from = o.padding.is_same() ? same_padded(images, weight, windows) : images;
    return conv_y(op, from, weight, bias, windows, activation);
  });
}

Tensor conv_transpose(const char* op, int dims, const Tensor& x, const Tensor& weight,
                      const Tensor& bias, const ConvTranspose3dOptions& o) {
  return batched(op, dims, x, [&](const Tensor& images) {
    Options windows{o.stride, o.padding, o.dilation, o.groups};
    const auto shape = [&](const Triple& output_padding) {
      return kernels::conv_transpose_shape(op, images, weight, bias, windows, output_padding);
    };
    const Shape wanted = shape(o.output_padding);
    bool reached = true;
    std::vector<int64_t> sides;
    for (int i = 0; i < dims; ++i) {
      const int64_t more = o.output_padding.*kSides[i], less = o.padding.*kSides[i];
      reached = reached && more < o.stride.*kSides[i];
      sides.insert(sides.end(), {-less, more - less});
    }
    if (!reached) windows.padding = 0;  // compute everything that windows reach and crop afterwards
    Tensor y = dx_of(images, weight, reached ? wanted : shape(0), windows, "ConvolutionBackward0");
    if (!reached) y = pad(y, sides);
    if (bias.defined()) {
      Shape per_channel(std::vector<int64_t>(size_t(dims) + 1, 1));
      per_channel[0] = -1;
      y = y + reshape(bias, per_channel);
    }
    return traced(op, y, {images, weight, bias}, o);
  });
}

bool is_gelu(Activation a) { return a == Activation::kGelu || a == Activation::kGeluTanh; }

}  // namespace

Tensor conv1d(const Tensor& x, const Tensor& weight, const Tensor& bias, const Conv1dOptions& o) {
  if (autocasts(x)) return in_half(conv1d, x, weight, bias, o);
  ConvPadding padding = o.padding;
  padding.h = 0;
  return conv("conv1d", 1, x, weight, bias,
              in_3d(Conv2dOptions{{1, o.stride}, padding, {1, o.dilation}, o.groups}));
}

Tensor conv2d(const Tensor& x, const Tensor& weight, const Tensor& bias, const Conv2dOptions& o,
              Activation activation) {
  if (autocasts(x)) return in_half(conv2d, x, weight, bias, o, activation);
  if (is_gelu(activation)) return activated(conv2d(x, weight, bias, o), activation);
  return conv("conv2d", 2, x, weight, bias, in_3d(o), activation);
}

Tensor conv3d(const Tensor& x, const Tensor& weight, const Tensor& bias, const Conv3dOptions& o,
              Activation activation) {
  if (autocasts(x)) return in_half(conv3d, x, weight, bias, o, activation);
  if (is_gelu(activation)) return activated(conv3d(x, weight, bias, o), activation);
  return conv("conv3d", 3, x, weight, bias, o, activation);
}

Tensor conv_transpose1d(const Tensor& x, const Tensor& weight, const Tensor& bias,
                        const ConvTranspose1dOptions& o) {
  if (autocasts(x)) return in_half(conv_transpose1d, x, weight, bias, o);
  return conv_transpose(
      "conv_transpose1d", 1, x, weight, bias,
      in_3d(ConvTranspose2dOptions{
          {1, o.stride}, {0, o.padding}, {0, o.output_padding}, o.groups, {1, o.dilation}}));
}

Tensor conv_transpose2d(const Tensor& x, const Tensor& weight, const Tensor& bias,
                        const ConvTranspose2dOptions& o) {
  if (autocasts(x)) return in_half(conv_transpose2d, x, weight, bias, o);
  return conv_transpose("conv_transpose2d", 2, x, weight, bias, in_3d(o));
}

Tensor conv_transpose3d(const Tensor& x, const Tensor& weight, const Tensor& bias,
                        const ConvTranspose3dOptions& o) {
  if (autocasts(x)) return in_half(conv_transpose3d, x, weight, bias, o);
  return conv_transpose("conv_transpose3d", 3, x, weight, bias, o);
}

}  // namespace taper::v0
