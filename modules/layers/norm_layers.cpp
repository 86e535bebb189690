#include "modules/layers/norm_layers.h"

#include <functional>
#include <memory>

#include "autograd/node.h"
#include "autograd/ops/binary_ops.h"
#include "autograd/ops/nn/norm_ops.h"
#include "autograd/ops/nn/sync_batch_norm.h"
#include "autograd/ops/op_helpers.h"
#include "autograd/ops/shape_ops.h"
#include "autograd/ops/unary_ops.h"
#include "framework/distributed/communicator.h"
#include "framework/factory/factories.h"
#include "modules/init.h"
#include "modules/layers/repr.h"

namespace taper::v0 {
namespace {

// Creates a parameter or buffer filled with one value, or an undefined one if `wanted` is false.
template <class T>
T filled(Module& owner, const char* name, bool wanted, double value, const Shape& shape,
         Device device, DType dtype = kFloat32) {
  if (!wanted) return T();
  return T(owner, name, full(shape, value, {.dtype = dtype, .device = device}));
}

std::string rows_repr(const Shape& shape, std::optional<double> eps, bool affine) {
  return concat_to_string(py(shape), ", ", fields("eps", eps, "elementwise_affine", affine));
}

}  // namespace

template <class Options>
RunningNorm<Options>::RunningNorm(IntArg n, const Options& o)
    : num_features(n),
      options(o),
      momentum(o.momentum),
      weight(filled<Parameter>(*this, "weight", o.affine, 1, {n}, o.device)),
      bias(filled<Parameter>(*this, "bias", o.affine, 0, {n}, o.device)),
      running_mean(filled<Buffer>(*this, "running_mean", o.track_running_stats, 0, {n}, o.device)),
      running_var(filled<Buffer>(*this, "running_var", o.track_running_stats, 1, {n}, o.device)),
      num_batches_tracked(filled<Buffer>(*this, "num_batches_tracked", o.track_running_stats, 0, {},
                                         o.device, kInt64)) {}

template <class Options> std::string RunningNorm<Options>::extra_repr() const {
  return concat_to_string(num_features, ", ",
                          fields("eps", options.eps, "momentum", momentum, "affine", options.affine,
                                 "track_running_stats", options.track_running_stats));
}

template <class Options> void RunningNorm<Options>::reset_running_stats() {
  if (!options.track_running_stats) return;
  const NoGradGuard no_grad;
  running_mean->zero_();
  running_var->fill_(1);
  num_batches_tracked->zero_();
}

template class RunningNorm<BatchNormOptions>;
template class RunningNorm<InstanceNormOptions>;

BatchNormBase::BatchNormBase(int dims, IntArg n, const BatchNormOptions& o)
    : RunningNorm(checked(n, n > 0, "BatchNorm", dims, "d: num_features must be positive, got ", n),
                  o),
      dims_(dims) {}

void BatchNormBase::set_ranks(const distributed::Communicator* ranks) {
  ranks_ = nullptr;
  if (ranks) ranks_ = std::make_shared<distributed::Communicator>(*ranks);
}

Tensor BatchNormBase::operator()(const Tensor& x, Activation activation, const Tensor& residual) {
  return call_with_hooks([this](const auto&... a) { return applied(a...); }, x, activation,
                         residual);
}

Tensor BatchNormBase::applied(const Tensor& x, Activation activation, const Tensor& residual) {
  const Then then{activation, residual};
  const bool fits = x.dim() == dims_ + 2 || (dims_ == 1 && x.dim() == 2);
  require<ValueError>(fits, "expected ", dims_ == 1 ? "2D or " : "", dims_ + 2, "D input (got ",
                      x.dim(), "D input)");
  if (tracks() && !momentum) return with_cumulative_average(x, then);
  const Tensor batches = tracks() ? Tensor(num_batches_tracked) : Tensor();
  return normalised(x, {running_mean, running_var, batches, momentum.value_or(0)}, then);
}

Tensor BatchNormBase::normalised(const Tensor& x, const Running& running, const Then& then) const {
  const auto& [mean, var, batches, share] = running;
  if (ranks_ && is_training() && by_batch()) {
    const Tensor y = sync_batch_norm(x, mean, var, weight, bias, *ranks_, share, options.eps);
    if (batches.defined()) batches.add_(1);
    return activated(then.residual.defined() ? y + then.residual : y, then.activation);
  }
  return batch_norm(x, mean, var,
                    {.weight = weight,
                     .bias = bias,
                     .training = by_batch(),
                     .momentum = share,
                     .eps = options.eps,
                     .residual = then.residual,
                     .activation = then.activation,
                     .num_batches_tracked = batches});
}

// Updates the running statistics by a cumulative average: the weight of the batch is 1 / number of
// batches. The number stays on the device.
Tensor BatchNormBase::with_cumulative_average(const Tensor& x, const Then& then) {
  const Tensor mean = zeros_like(running_mean), var = zeros_like(running_var);
  const Tensor y = normalised(x, {mean, var, {}, 1}, then);
  const NoGradGuard no_grad;
  num_batches_tracked->add_(1);
  const Tensor share = reciprocal(num_batches_tracked->to(mean.dtype()));
  running_mean->add_((mean - running_mean) * share);
  running_var->add_((var - running_var) * share);
  return y;
}

namespace {

void for_each_batch_norm(Module& module, const auto& f) {
  module.apply([&](Module& m) {
    if (auto* norm = dynamic_cast<BatchNormBase*>(&m)) f(*norm);
  });
}

}  // namespace

void sync_batch_norms(Module& module, const distributed::Communicator& ranks) {
  for_each_batch_norm(module, [&](BatchNormBase& norm) { norm.set_ranks(&ranks); });
}

void with_new_statistics(Module& module, const std::function<void()>& pass) {
  // The state of a layer before the pass. It is restored even if the pass throws.
  struct Before {
    std::vector<std::pair<Module*, bool>> modes = {};
    std::vector<std::pair<std::optional<double>*, std::optional<double>>> momenta = {};
    ~Before() {
      for (const auto& [m, training] : modes) m->train(training);
      for (const auto& [place, old] : momenta) *place = old;
    }
  } before;
  for_each_batch_norm(module, [&](BatchNormBase& norm) {
    norm.reset_running_stats();
    before.momenta.push_back({&norm.momentum, norm.momentum});
    norm.momentum = std::nullopt;
  });
  if (before.momenta.empty()) return;
  for (const auto& [name, m] : module.named_modules()) {
    before.modes.push_back({m, m->is_training()});
  }
  const NoGradGuard no_grad;
  module.train();
  pass();
}

GroupNorm::GroupNorm(IntArg groups, IntArg channels, GroupNormOptions o)
    : num_groups(checked(groups, groups > 0 && channels > 0 && channels % groups == 0,
                         "num_channels (", channels, ") must be divisible by num_groups (", groups,
                         ")")),
      num_channels(channels),
      options(o),
      weight(filled<Parameter>(*this, "weight", o.affine, 1, {channels}, o.device)),
      bias(filled<Parameter>(*this, "bias", o.affine, 0, {channels}, o.device)) {}

Tensor GroupNorm::forward(const Tensor& x) {
  return group_norm(x, num_groups, weight, bias, options.eps);
}

std::string GroupNorm::extra_repr() const {
  return concat_to_string(num_groups, ", ", num_channels, ", ",
                          fields("eps", options.eps, "affine", options.affine));
}

template <int kDims> Tensor InstanceNorm<kDims>::forward(const Tensor& x) {
  require<ValueError>(x.dim() == kDims + 1 || x.dim() == kDims + 2, "expected ", kDims + 1, "D or ",
                      kDims + 2, "D input (got ", x.dim(), "D input)");
  if (x.dim() == kDims + 1) return squeeze(forward(unsqueeze(x, 0)), 0);
  return instance_norm(x, this->running_mean, this->running_var,
                       {.weight = this->weight,
                        .bias = this->bias,
                        .use_input_stats = this->by_batch(),
                        .momentum = this->momentum.value_or(0),
                        .eps = this->options.eps});
}

template class InstanceNorm<1>;
template class InstanceNorm<2>;
template class InstanceNorm<3>;

LayerNorm::LayerNorm(const Shape& shape, LayerNormOptions o)
    : normalized_shape(shape),
      options(o),
      weight(filled<Parameter>(*this, "weight", o.elementwise_affine, 1, shape, o.device)),
      bias(filled<Parameter>(*this, "bias", o.elementwise_affine && o.bias, 0, shape, o.device)) {}

Tensor LayerNorm::forward(const Tensor& x) {
  return layer_norm(x, normalized_shape, weight, bias, options.eps);
}

Tensor LayerNorm::operator()(const Tensor& x, std::optional<DType> result) {
  return call_with_hooks(
      [&](const Tensor& input) {
        return layer_norm(input, normalized_shape, weight, bias, options.eps, result);
      },
      x);
}

std::string LayerNorm::extra_repr() const {
  return rows_repr(normalized_shape, options.eps, options.elementwise_affine);
}

RMSNorm::RMSNorm(const Shape& shape, RMSNormOptions o)
    : normalized_shape(shape),
      options(o),
      weight(filled<Parameter>(*this, "weight", o.elementwise_affine, 1, shape, o.device)) {}

Tensor RMSNorm::forward(const Tensor& x) {
  return rms_norm(x, normalized_shape, weight, options.eps);
}

std::string RMSNorm::extra_repr() const {
  return rows_repr(normalized_shape, options.eps, options.elementwise_affine);
}

}  // namespace taper::v0
