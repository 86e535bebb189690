#include "modules/layers/conv_layers.h"

#include <algorithm>

#include "modules/init.h"
#include "modules/layers/repr.h"

namespace taper::v0 {
namespace {

Shape sizes(int dims, Pair p) { return dims == 1 ? Shape{p.w} : Shape{p.h, p.w}; }

template <class Options> constexpr bool kTransposed = std::is_same_v<Options, ConvTransposeOptions>;

template <class Options> std::string name_of(int dims) {
  return concat_to_string(kTransposed<Options> ? "ConvTranspose" : "Conv", dims, "d");
}

// Returns [out, in / groups, kernel...], or [in, out / groups, kernel...] for a transpose.
template <class Options>
Tensor drawn_weight(int dims, int64_t in, int64_t out, Pair kernel, const Options& o) {
  Shape shape = sizes(dims, kernel);
  require<ValueError>(in > 0 && out > 0 && std::ranges::min(shape) > 0, name_of<Options>(dims),
                      ": channels and kernel_size must be positive, got ", in, ", ", out, " and ",
                      py(shape));
  if (o.groups <= 0) throw ValueError("groups must be a positive integer");
  if (in % o.groups != 0) throw ValueError("in_channels must be divisible by groups");
  if (out % o.groups != 0) throw ValueError("out_channels must be divisible by groups");
  shape.insert(0, (kTransposed<Options> ? out : in) / o.groups);
  shape.insert(0, kTransposed<Options> ? in : out);
  return fan_in_uniform(shape, shape, o.device);
}

const ConvOptions& checked_options(int dims, const ConvOptions& o) {
  require<ValueError>(!o.padding.is_same() || sizes(dims, o.stride) == sizes(dims, 1),
                      "padding \"same\" is not supported for strided convolutions");
  return o;
}
const ConvTransposeOptions& checked_options(int, const ConvTransposeOptions& o) { return o; }

}  // namespace

template <class Options>
ConvBase<Options>::ConvBase(int dims, IntArg in, IntArg out, Pair kernel, const Options& o)
    : in_channels(in),
      out_channels(out),
      kernel_size(kernel),
      options(checked_options(dims, o)),
      weight(*this, "weight", drawn_weight(dims, in, out, kernel, o)),
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
  const auto unless = [&](const char* name, Pair p, Pair usual) {
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

template <> Tensor ConvBase<ConvOptions>::convolve(const Tensor& x, Activation activation) const {
  const ConvOptions& o = options;
  ConvPadding padding = o.padding;
  Tensor from = x;
  if (o.padding_mode != PaddingMode::kZeros) {
    const bool same = padding.is_same();
    std::vector<int64_t> sides;
    const auto add = [&](int64_t dilation, int64_t kernel, int64_t size) {
      const int64_t total = same ? checked_mul(dilation, kernel - 1) : checked_mul(2, size);
      sides.push_back(total / 2);
      sides.push_back(total - total / 2);
    };
    add(o.dilation.w, kernel_size.w, padding.w);
    if (dims_ == 2) add(o.dilation.h, kernel_size.h, padding.h);
    from = pad(x, sides, PadMode(PadMode::Value(o.padding_mode.index())));
    padding = 0;
  }
  if (dims_ == 1) return conv1d(from, weight, bias, {o.stride.w, padding, o.dilation.w, o.groups});
  return conv2d(from, weight, bias, {o.stride, padding, o.dilation, o.groups}, activation);
}

template <> Tensor ConvBase<ConvTransposeOptions>::convolve(const Tensor& x, Activation) const {
  const ConvTransposeOptions& o = options;
  if (dims_ == 1) {
    return conv_transpose1d(x, weight, bias,
                            {o.stride.w, o.padding.w, o.output_padding.w, o.groups, o.dilation.w});
  }
  return conv_transpose2d(x, weight, bias,
                          {o.stride, o.padding, o.output_padding, o.groups, o.dilation});
}

template class ConvBase<ConvOptions>;
template class ConvBase<ConvTransposeOptions>;

}  // namespace taper::v0
