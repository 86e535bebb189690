#include "modules/norm.h"

#include "autograd/ops/norm.h"
#include "framework/factories.h"

namespace taper {
namespace {

int64_t checked_features(int64_t n) {
  if (n > 0) return n;
  throw ValueError(cat("BatchNorm2d: num_features must be positive, got ", n));
}

const char* py(bool b) { return b ? "True" : "False"; }

}  // namespace

BatchNorm2d::BatchNorm2d(int64_t features, BatchNormOptions o)
    : num_features(checked_features(features)),
      options(o),
      weight(o.affine ? Parameter(*this, "weight", ones({features}, {.device = o.device}))
                      : Parameter()),
      bias(o.affine ? Parameter(*this, "bias", zeros({features}, {.device = o.device}))
                    : Parameter()),
      running_mean(o.track_running_stats
                       ? Buffer(*this, "running_mean", zeros({features}, {.device = o.device}))
                       : Buffer()),
      running_var(o.track_running_stats
                      ? Buffer(*this, "running_var", ones({features}, {.device = o.device}))
                      : Buffer()),
      num_batches_tracked(o.track_running_stats
                              ? Buffer(*this, "num_batches_tracked",
                                       zeros({}, {.dtype = kInt64, .device = o.device}))
                              : Buffer()) {}

Tensor BatchNorm2d::forward(const Tensor& x) {
  if (x.dim() != 4) throw ValueError(cat("expected 4D input (got ", x.dim(), "D input)"));
  const bool batch_statistics = is_training() || !options.track_running_stats;
  if (is_training() && options.track_running_stats)
    num_batches_tracked->add_(ones_like(num_batches_tracked));
  return batch_norm(x, running_mean, running_var, weight, bias, batch_statistics, options.momentum,
                    options.eps);
}

std::string BatchNorm2d::extra_repr() const {
  return cat(num_features, ", eps=", options.eps, ", momentum=", options.momentum,
             ", affine=", py(options.affine),
             ", track_running_stats=", py(options.track_running_stats));
}

LayerNorm::LayerNorm(const Shape& shape, LayerNormOptions o)
    : normalized_shape(shape),
      options(o),
      weight(o.elementwise_affine ? Parameter(*this, "weight", ones(shape, {.device = o.device}))
                                  : Parameter()),
      bias(o.elementwise_affine && o.bias
               ? Parameter(*this, "bias", zeros(shape, {.device = o.device}))
               : Parameter()) {}

Tensor LayerNorm::forward(const Tensor& x) {
  return layer_norm(x, normalized_shape, weight, bias, options.eps);
}

std::string LayerNorm::extra_repr() const {
  std::string shape;
  for (const int64_t n : normalized_shape) shape += cat(shape.empty() ? "" : ", ", n);
  return cat("(", shape, normalized_shape.size() == 1 ? ",)" : ")", ", eps=", options.eps,
             ", elementwise_affine=", py(options.elementwise_affine));
}

}  // namespace taper
