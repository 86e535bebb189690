#include "modules/conv.h"

#include "autograd/ops/conv.h"
#include "autograd/ops/index.h"
#include "modules/init.h"
#include "modules/repr.h"

namespace taper::inline v0 {
namespace {

Shape sizes(int dims, Pair p) { return dims == 1 ? Shape{p.w} : Shape{p.h, p.w}; }

void check_padding(int dims, const ConvOptions& o) {
  const std::string& name = o.padding.name;
  if (!name.empty() && name != "same" && name != "valid") {
    throw ValueError(
        cat("Invalid padding string '", name, "', should be one of {'valid', 'same'}"));
  }
  if (name == "same" && sizes(dims, o.stride) != sizes(dims, 1)) {
    throw ValueError("padding='same' is not supported for strided convolutions");
  }
  if (o.padding_mode != "zeros") {
    throw NotImplementedError(
        cat("Conv", dims, "d: padding_mode='", o.padding_mode, "' is not supported, only 'zeros'"));
  }
}

Tensor drawn_weight(int dims, int64_t in, int64_t out, Pair kernel, const ConvOptions& o) {
  Shape shape = sizes(dims, kernel);
  for (const int64_t n : shape) {
    if (in > 0 && out > 0 && n > 0) continue;
    throw ValueError(cat("Conv", dims, "d: channels and kernel_size must be positive, got ", in,
                         ", ", out, " and ", py(shape)));
  }
  if (o.groups <= 0) throw ValueError("groups must be a positive integer");
  if (in % o.groups != 0) throw ValueError("in_channels must be divisible by groups");
  if (out % o.groups != 0) throw ValueError("out_channels must be divisible by groups");
  check_padding(dims, o);
  shape.insert(0, in / o.groups);
  shape.insert(0, out);
  return fan_in_uniform(shape, shape, o.device);
}

}  // namespace

template <int kDims>
Conv<kDims>::Conv(int64_t in, int64_t out, Pair kernel, const ConvOptions& o)
    : in_channels(in),
      out_channels(out),
      kernel_size(kernel),
      options(o),
      weight(*this, "weight", drawn_weight(kDims, in, out, kernel, o)),
      bias(o.bias ? Parameter(*this, "bias", fan_in_uniform(weight->shape(), {out}, o.device))
                  : Parameter()) {}

template <int kDims>
Tensor Conv<kDims>::convolve(const Tensor& x, [[maybe_unused]] Activation activation) {
  const ConvOptions& o = options;
  Pair padding = o.padding.size;
  Tensor from = x;
  if (o.padding.name == "same") {
    const Pair total(checked_mul(o.dilation.h, kernel_size.h - 1),
                     checked_mul(o.dilation.w, kernel_size.w - 1));
    padding = {total.h / 2, total.w / 2};
    // Where the total is odd, one more behind.
    if (kDims == 1 && total.w % 2 > 0) from = pad(x, {0, 1});
    if (kDims == 2 && total.h % 2 + total.w % 2 > 0)
      from = pad(x, {0, total.w % 2, 0, total.h % 2});
  }
  if constexpr (kDims == 1) {
    return conv1d(from, weight, bias, {o.stride.w, padding.w, o.dilation.w, o.groups});
  } else {
    return conv2d(from, weight, bias, {o.stride, padding, o.dilation, o.groups}, activation);
  }
}

template <int kDims> std::string Conv<kDims>::extra_repr() const {
  const auto tuple = [](Pair p) { return sizes(kDims, p); };
  const ConvOptions& o = options;
  std::string text = cat(in_channels, ", ", out_channels, ", ",
                         fields("kernel_size", tuple(kernel_size), "stride", tuple(o.stride)));
  if (!o.padding.name.empty()) text += ", padding=" + o.padding.name;
  if (tuple(o.padding.size) != tuple(0)) text += ", " + fields("padding", tuple(o.padding.size));
  if (tuple(o.dilation) != tuple(1)) text += ", " + fields("dilation", tuple(o.dilation));
  if (o.groups != 1) text += ", " + fields("groups", o.groups);
  if (!bias.defined()) text += ", " + fields("bias", false);
  return text;
}

template class Conv<1>;
template class Conv<2>;

}  // namespace taper::inline v0
