#include "modules/linear.h"

#include <cmath>

#include "autograd/ops/matmul.h"
#include "framework/factories.h"

namespace taper {
namespace {

Tensor uniform_within(double bound, const Shape& shape, Device device) {
  const Tensor t = empty(shape, {.device = device});
  return t.uniform_(-bound, bound);
}

int64_t checked(const char* name, int64_t features) {
  if (features > 0) return features;
  throw ValueError(cat("Linear: ", name, " must be positive, got ", features));
}

}  // namespace

// PyTorch draws kaiming_uniform(a = sqrt(5)) for the weight, which is the same bound.
Linear::Linear(int64_t in, int64_t out, LinearOptions options)
    : in_features(checked("in_features", in)),
      out_features(checked("out_features", out)),
      weight(*this, "weight", uniform_within(1 / std::sqrt(double(in)), {out, in}, options.device)),
      bias(options.bias
               ? Parameter(*this, "bias",
                           uniform_within(1 / std::sqrt(double(in)), {out}, options.device))
               : Parameter()) {}

Tensor Linear::forward(const Tensor& x) { return linear(x, weight, bias); }

std::string Linear::extra_repr() const {
  return cat("in_features=", in_features, ", out_features=", out_features,
             ", bias=", bias.defined() ? "True" : "False");
}

}  // namespace taper
