#include "modules/conv.h"

#include "autograd/ops/conv.h"
#include "modules/init.h"

namespace taper {
namespace {

Shape checked_weight(int64_t in, int64_t out, Pair kernel, const ConvOptions& o) {
  if (in <= 0 || out <= 0 || kernel.h <= 0 || kernel.w <= 0 || o.groups <= 0) {
    throw ValueError(cat("Conv2d: channels, kernel_size and groups must be positive, got ", in,
                         ", ", out, ", (", kernel.h, ", ", kernel.w, ") and ", o.groups));
  }
  if (in % o.groups != 0) throw ValueError("in_channels must be divisible by groups");
  if (out % o.groups != 0) throw ValueError("out_channels must be divisible by groups");
  return {out, in / o.groups, kernel.h, kernel.w};
}

std::string in_brackets(Pair p) { return cat("(", p.h, ", ", p.w, ")"); }

}  // namespace

Conv2d::Conv2d(int64_t in, int64_t out, Pair kernel, ConvOptions o)
    : in_channels(in),
      out_channels(out),
      kernel_size(kernel),
      options{o.stride, o.padding, o.dilation, o.groups},
      weight(*this, "weight", fan_in_uniform(checked_weight(in, out, kernel, o), o.device)),
      bias(o.bias ? Parameter(*this, "bias",
                              uniform_within(fan_in_bound(weight->shape()), {out}, o.device))
                  : Parameter()) {}

Tensor Conv2d::forward(const Tensor& x) { return conv2d(x, weight, bias, options); }

std::string Conv2d::extra_repr() const {
  std::string text =
      cat(in_channels, ", ", out_channels, ", kernel_size=", in_brackets(kernel_size),
          ", stride=", in_brackets(options.stride));
  if (options.padding != Pair(0)) text += cat(", padding=", in_brackets(options.padding));
  if (options.dilation != Pair(1)) text += cat(", dilation=", in_brackets(options.dilation));
  if (options.groups != 1) text += cat(", groups=", options.groups);
  if (!bias.defined()) text += ", bias=False";
  return text;
}

}  // namespace taper
