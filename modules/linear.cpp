#include "modules/linear.h"

#include "autograd/ops/matmul.h"
#include "modules/init.h"
#include "modules/repr.h"

namespace taper {
namespace {

int64_t checked(const char* name, int64_t features) {
  if (features > 0) return features;
  throw ValueError(cat("Linear: ", name, " must be positive, got ", features));
}

}  // namespace

Linear::Linear(int64_t in, int64_t out, LinearOptions options)
    : in_features(checked("in_features", in)),
      out_features(checked("out_features", out)),
      weight(*this, "weight", fan_in_uniform({out, in}, {out, in}, options.device)),
      bias(options.bias ? Parameter(*this, "bias", fan_in_uniform({out, in}, {out}, options.device))
                        : Parameter()) {}

Tensor Linear::forward(const Tensor& x) { return linear(x, weight, bias); }

Tensor Linear::operator()(const Tensor& x, Activation activation) {
  return within([&](const Tensor& input) { return linear(input, weight, bias, activation); }, x);
}

std::string Linear::extra_repr() const {
  return fields("in_features", in_features, "out_features", out_features, "bias", bias.defined());
}

}  // namespace taper
