#include "modules/layers/conv_layers.h"

#include <algorithm>

#include "modules/init.h"
#include "modules/layers/repr.h"

namespace taper::v0 {
namespace {

Shape sizes(int dims, Pair p) { return dims == 1 ? Shape{p.w} : Shape{p.h, p.w}; }
Shape sizes(int, const Triple& t) { return {t.d, t.h, t.w}; }

template <class Options> constexpr bool kTransposed = requires(Options o) { o.output_padding; };

template <class Options> std::string name_of(int dims) {
  return concat_to_string(kTransposed<Options> ? "ConvTranspose" : "Conv", dims, "d");
}

// Returns [out, in / groups, kernel...], or [in, out / groups, kernel...] for a transpose.
template <class Options>
Tensor drawn_weight(int64_t in, int64_t out, const Shape& kernel, const Options& o) {
  require<ValueError>(
      in > 0 && out > 0 && std::ranges::min(kernel) > 0, name_of<Options>(kernel.size()),
      ": channels and kernel_size must be positive, got ", in, ", ", out, " and ", py(kernel));
  if (o.groups <= 0) throw ValueError("groups must be a positive integer");
  if (in % o.groups != 0) throw ValueError("in_channels must be divisible by groups");
  if (out % o.groups != 0) throw ValueError("out_channels must be divisible by groups");
  Shape shape = kernel;
  shape.insert(0, (kTransposed<Options> ? out : in) / o.groups);
  shape.insert(0, kTransposed<Options> ? in : out);
  return fan_in_uniform(shape, shape, o.device);
}

template <class Options> const Options& checked_options(int dims, const Options& o) {
  if constexpr (!kTransposed<Options>) {
    require<ValueError>(
        !o.padding.is_same() || sizes(dims, o.stride) == sizes(dims, typename Options::Sizes(1)),
        "padding \"same\" is not supported for strided convolutions");
  }
  return o;
}

// Surrounds x by what a layer's padding_mode specifies, and returns it.
template <class Options> Tensor padded(const Tensor& x, const Shape& kernel, const Options& o) {
  const Shape padding = sizes(kernel.size(), o.padding),
              dilation = sizes(kernel.size(), o.dilation);
  std::vector<int64_t> sides;
  for (int d = kernel.size() - 1; d >= 0; --d) {
    const int64_t total =
        o.padding.is_same() ? checked_mul(dilation[d], kernel[d] - 1) : checked_mul(2, padding[d]);
    sides.insert(sides.end(), {total / 2, total - total / 2});
  }
  return pad(x, sides, PadMode(PadMode::Value(o.padding_mode.index())));
}

}  // namespace

template <class Options>
ConvBase<Options>::ConvBase(int dims, IntArg in, IntArg out, const Sizes& kernel, const Options& o)
    : in_channels(in),
      out_channels(out),
      kernel_size(kernel),
      options(checked_options(dims, o)),
      weight(*this, "weight", drawn_weight<Options>(in, out, sizes(dims, kernel), o)),
      bias(o.bias ? Parameter(*this, "bias", fan_in_uniform(weight->shape(), {out}, o.device))
                  : Parameter()),
      dims_(dims) {}

template <class Options> std::string ConvBase<Options>::type_name() const {
  return name_of<Options>(dims_);
}

template <class Options> std::string ConvBase<Options>::extra_repr() const {
  const Options& o = options;
  std::string text = concat_to_string(
      in_channels, ", ", out_channels, ", ",
      fields("kernel_size", sizes(dims_, kernel_size), "stride", sizes(dims_, o.stride)));
  const auto unless = [&](const char* name, const Sizes& p, const Sizes& usual) {
    if (sizes(dims_, p) != sizes(dims_, usual)) text += ", " + fields(name, sizes(dims_, p));
  };
  if constexpr (requires { o.padding.mode; }) {
    if (o.padding.mode) text += concat_to_string(", padding=", *o.padding.mode);
  }
  unless("padding", o.padding, 0);
  unless("dilation", o.dilation, 1);
  if constexpr (requires { o.output_padding; }) unless("output_padding", o.output_padding, 0);
  if (o.groups != 1) text += ", " + fields("groups", o.groups);
  if (!bias.defined()) text += ", " + fields("bias", false);
  if constexpr (requires { o.padding_mode; }) {
    if (o.padding_mode != PaddingMode::kZeros) {
      text += concat_to_string(", padding_mode=", o.padding_mode);
    }
  }
  return text;
}

template <class Options>
Tensor ConvBase<Options>::convolve(const Tensor& x, Activation activation) const {
  const Options& o = options;
  if constexpr (kTransposed<Options> && std::is_same_v<Sizes, Triple>) {
    return conv_transpose3d(x, weight, bias,
                            {o.stride, o.padding, o.output_padding, o.groups, o.dilation});
  } else if constexpr (kTransposed<Options>) {
    const ConvTranspose2dOptions all{o.stride, o.padding, o.output_padding, o.groups, o.dilation};
    if (dims_ == 2) return conv_transpose2d(x, weight, bias, all);
    return conv_transpose1d(x, weight, bias,
                            {o.stride.w, o.padding.w, o.output_padding.w, o.groups, o.dilation.w});
  } else {
    const bool pads = o.padding_mode != PaddingMode::kZeros;
    const Tensor from = pads ? padded(x, sizes(dims_, kernel_size), o) : x;
    const ConvPaddingOf<Sizes> padding = pads ? ConvPaddingOf<Sizes>(0) : o.padding;
    if constexpr (std::is_same_v<Sizes, Triple>) {
      return conv3d(from, weight, bias, {o.stride, padding, o.dilation, o.groups}, activation);
    } else if (dims_ == 2) {
      return conv2d(from, weight, bias, {o.stride, padding, o.dilation, o.groups}, activation);
    } else {
      return conv1d(from, weight, bias, {o.stride.w, padding, o.dilation.w, o.groups});
    }
  }
}

template class ConvBase<ConvOptions>;
template class ConvBase<ConvOptionsOf<Triple>>;
template class ConvBase<ConvTransposeOptions>;
template class ConvBase<ConvTransposeOptionsOf<Triple>>;

}  // namespace taper::v0
