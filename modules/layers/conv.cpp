#include "modules/layers/conv.h"

#include "modules/init.h"
#include "modules/layers/repr.h"

namespace taper::inline v0 {
namespace {

Shape sizes(int dims, Pair p) { return dims == 1 ? Shape{p.w} : Shape{p.h, p.w}; }

const ConvOptions& checked(int dims, const ConvOptions& o) {
  const std::string& name = o.padding.name;
  if (!name.empty() && name != "same" && name != "valid") {
    throw ValueError(
        cat("Invalid padding string '", name, "', should be one of {'valid', 'same'}"));
  }
  if (name == "same" && sizes(dims, o.stride) != sizes(dims, 1)) {
    throw ValueError("padding='same' is not supported for strided convolutions");
  }
  return o;
}

// [rows, columns / groups, kernel...]
Tensor drawn_weight(const std::string& layer, int dims, int64_t rows, int64_t columns, Pair kernel,
                    int64_t groups, Device device, bool transposed = false) {
  Shape shape = sizes(dims, kernel);
  const int64_t in = transposed ? rows : columns, out = transposed ? columns : rows;
  for (const int64_t n : shape) {
    if (in > 0 && out > 0 && n > 0) continue;
    throw ValueError(cat(layer, ": channels and kernel_size must be positive, got ", in, ", ", out,
                         " and ", py(shape)));
  }
  if (groups <= 0) throw ValueError("groups must be a positive integer");
  if (in % groups != 0) throw ValueError("in_channels must be divisible by groups");
  if (out % groups != 0) throw ValueError("out_channels must be divisible by groups");
  shape.insert(0, columns / groups);
  shape.insert(0, rows);
  return fan_in_uniform(shape, shape, device);
}

Parameter drawn_bias(Module& owner, const Tensor& weight, int64_t out, bool wanted, Device device) {
  if (!wanted) return Parameter();
  return Parameter(owner, "bias", fan_in_uniform(weight.shape(), {out}, device));
}

template <class Layer> std::string repr_of(int dims, const Layer& layer) {
  const auto& o = layer.options;
  std::string text =
      cat(layer.in_channels, ", ", layer.out_channels, ", ",
          fields("kernel_size", sizes(dims, layer.kernel_size), "stride", sizes(dims, o.stride)));
  const auto unless = [&](const char* name, Pair p, Pair usual) {
    if (sizes(dims, p) != sizes(dims, usual)) text += ", " + fields(name, sizes(dims, p));
  };
  if constexpr (requires { o.padding.name; }) {
    if (!o.padding.name.empty()) text += ", padding=" + o.padding.name;
  }
  unless("padding", o.padding, 0);
  unless("dilation", o.dilation, 1);
  if constexpr (requires { o.output_padding; }) unless("output_padding", o.output_padding, 0);
  if (o.groups != 1) text += ", " + fields("groups", o.groups);
  if (!layer.bias.defined()) text += ", " + fields("bias", false);
  if constexpr (requires { o.padding_mode; }) {
    if (o.padding_mode != PadMode::zeros) {
      text += cat(", padding_mode=", kPadModeNames[size_t(o.padding_mode)]);
    }
  }
  return text;
}

}  // namespace

template <int kDims>
Conv<kDims>::Conv(int64_t in, int64_t out, Pair kernel, const ConvOptions& o)
    : in_channels(in),
      out_channels(out),
      kernel_size(kernel),
      options(checked(kDims, o)),
      weight(*this, "weight",
             drawn_weight(type_name(), kDims, out, in, kernel, o.groups, o.device)),
      bias(drawn_bias(*this, weight, out, o.bias, o.device)) {}

template <int kDims>
Tensor Conv<kDims>::convolve(const Tensor& x, [[maybe_unused]] Activation activation) {
  const ConvOptions& o = options;
  ConvPadding padding = o.padding;
  Tensor from = x;
  if (o.padding_mode != PadMode::zeros) {
    const bool same = padding.name == "same";
    std::vector<int64_t> sides;
    const auto add = [&](int64_t dilation, int64_t kernel, int64_t size) {
      const int64_t total = same ? checked_mul(dilation, kernel - 1) : 2 * size;
      sides.push_back(total / 2);
      sides.push_back(total - total / 2);
    };
    add(o.dilation.w, kernel_size.w, padding.w);
    if (kDims == 2) add(o.dilation.h, kernel_size.h, padding.h);
    from = pad(x, sides, o.padding_mode);
    padding = 0;
  }
  if constexpr (kDims == 1) {
    return conv1d(from, weight, bias, {o.stride.w, padding, o.dilation.w, o.groups});
  } else {
    return conv2d(from, weight, bias, {o.stride, padding, o.dilation, o.groups}, activation);
  }
}

template <int kDims> std::string Conv<kDims>::extra_repr() const { return repr_of(kDims, *this); }

template class Conv<1>;
template class Conv<2>;

template <int kDims>
ConvTranspose<kDims>::ConvTranspose(int64_t in, int64_t out, Pair kernel,
                                    const ConvTransposeOptions& o)
    : in_channels(in),
      out_channels(out),
      kernel_size(kernel),
      options(o),
      weight(*this, "weight",
             drawn_weight(type_name(), kDims, in, out, kernel, o.groups, o.device, true)),
      bias(drawn_bias(*this, weight, out, o.bias, o.device)) {}

template <int kDims> Tensor ConvTranspose<kDims>::forward(const Tensor& x) {
  const ConvTransposeOptions& o = options;
  if constexpr (kDims == 1) {
    return conv_transpose1d(x, weight, bias,
                            {o.stride.w, o.padding.w, o.output_padding.w, o.groups, o.dilation.w});
  } else {
    return conv_transpose2d(x, weight, bias,
                            {o.stride, o.padding, o.output_padding, o.groups, o.dilation});
  }
}

template <int kDims> std::string ConvTranspose<kDims>::extra_repr() const {
  return repr_of(kDims, *this);
}

template class ConvTranspose<1>;
template class ConvTranspose<2>;

}  // namespace taper::inline v0
