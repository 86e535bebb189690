#include "data/metrics.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "autograd/node.h"
#include "autograd/ops/binary_ops.h"
#include "autograd/ops/index/index_ops.h"
#include "autograd/ops/matmul_ops.h"
#include "autograd/ops/nn/loss_ops.h"
#include "autograd/ops/reduce_ops.h"
#include "autograd/ops/shape_ops.h"
#include "autograd/ops/unary_ops.h"
#include "framework/distributed/communicator.h"
#include "framework/factory/factories.h"

namespace taper::v0::data {
namespace {

Tensor error_of(const MetricBatch& b) { return b.outputs.to(kFloat64) - b.targets.to(kFloat64); }

}  // namespace

Tensor MetricBatch::total(const Tensor& each) const { return sum(each.to(kFloat64) * counts); }

MetricBatch metric_batch(const Tensor& outputs, const Tensor& targets, const Tensor& weights) {
  const Tensor x = is_half(outputs.dtype()) ? outputs.to(kFloat32) : outputs;
  const Tensor y = targets.reshape({-1});
  const auto weighted = [&](const Tensor& counts) {
    return weights.defined() ? counts * weights.reshape({-1}).to(kFloat64) : counts;
  };
  const bool is_values = is_floating_point(y.dtype());
  require<ValueError>(
      x.numel() == y.numel() || (!is_values && x.dim() >= 2 && x.numel() == y.numel() * x.size(-1)),
      "metric: outputs ", x.shape(), " do not go with targets ", targets.shape());
  if (is_values) {
    return {x.reshape({-1}), y,
            weighted(full(y.shape(), 1, {.dtype = kFloat64, .device = y.device()}))};
  }
  const bool is_binary = x.numel() == y.numel();
  const Tensor logits = x.reshape({-1, is_binary ? 1 : x.size(-1)});
  return {is_binary ? cat({zeros_like(logits), logits}, 1) : logits, clamp(y, 0),
          weighted(ge(y, zeros_like(y)).to(kFloat64))};
}

Metric perplexity() {
  return {.tasks = {Task::kLanguage},
          .value = [](const MetricSums& all) { return std::exp(all.loss / all.count); }};
}

Metric mean_absolute_error(double unit) {
  return {.tasks = {Task::kRegression},
          .sums = [](const MetricBatch& b) { return b.total(abs(error_of(b))); },
          .value = [unit](const MetricSums& s) { return s.sums[0] / s.count * unit; }};
}

Metric mean_absolute_scaled_error() {
  return {.tasks = {Task::kRegression},
          .sums =
              [](const MetricBatch& b) {
                const Tensor error = abs(error_of(b));
                return b.total(b.scales.defined() ? error / b.scales : error);
              },
          .value = [](const MetricSums& s) { return s.sums[0] / s.count; }};
}

namespace {

// Returns the share of samples that `of_sample` adds up to. The arguments are the outputs and
// targets in the unit of the data.
template <class OfSample> Metric mean_ratio(double mean, double std, OfSample of_sample) {
  return {.tasks = {Task::kRegression},
          .sums =
              [=](const MetricBatch& b) {
                const Tensor given = b.outputs.to(kFloat64) * std + mean;
                return b.total(of_sample(given, b.targets.to(kFloat64) * std + mean));
              },
          .value = [](const MetricSums& s) { return s.sums[0] / s.count; },
          .is_percentage = true};
}

// Replaces a denominator of 0.
Tensor nonzero_size(const Tensor& x) { return clamp(x, std::numeric_limits<double>::epsilon()); }

}  // namespace

Metric mean_absolute_percentage_error(double mean, double std) {
  return mean_ratio(mean, std, [](const Tensor& given, const Tensor& wanted) {
    return abs(given - wanted) / nonzero_size(abs(wanted));
  });
}

Metric symmetric_mean_absolute_percentage_error(double mean, double std) {
  return mean_ratio(mean, std, [](const Tensor& given, const Tensor& wanted) {
    return abs(given - wanted) * 2 / nonzero_size(abs(given) + abs(wanted));
  });
}

Metric root_mean_squared_error(double unit) {
  return {.tasks = {Task::kRegression},
          .sums = [](const MetricBatch& b) { return b.total(square(error_of(b))); },
          .value = [unit](const MetricSums& s) { return std::sqrt(s.sums[0] / s.count) * unit; }};
}

Metric r2_score() {
  Metric m{.tasks = {Task::kRegression}, .higher_is_better = true};
  m.sums = [](const MetricBatch& b) {
    const Tensor y = b.targets.to(kFloat64);
    return stack({b.total(square(error_of(b))), b.total(y), b.total(square(y))});
  };
  m.value = [](const MetricSums& s) {
    const double spread = s.sums[2] - s.sums[1] * s.sums[1] / s.count;
    return spread > 0 ? 1 - s.sums[0] / spread : 0;
  };
  return m;
}

void Meter::update(const Tensor& outputs, const Tensor& targets, const Tensor& weights) {
  const NoGradGuard no_grad;
  const MetricBatch batch = metric_batch(outputs.detach(), targets, weights);
  const Tensor count = sum(batch.counts);
  Meter one(metric_);
  if (metric_.sums) {
    one.sums_ = {metric_.sums(batch).to(kFloat64)};
    one.totals_ = stack({count, zeros_like(count)});
  } else {
    const Tensor each = cross_entropy(batch.outputs, batch.targets, Reduction::kNone);
    one.totals_ = stack({count, batch.total(each)});
  }
  add(one);
}

void Meter::add(const Meter& other) {
  if (!other.totals_.defined()) return;
  const NoGradGuard no_grad;
  const bool is_first = !totals_.defined();
  const Device device = is_first ? other.totals_.device() : totals_.device();
  totals_ = is_first ? other.totals_ : totals_ + other.totals_.to(device);
  for (const Tensor& x : other.sums_) {
    if (sums_.empty() || metric_.concatenates) {
      sums_.push_back(x.to(device));
    } else {
      sums_[0] = sums_[0] + x.to(device);
    }
  }
}

void Meter::reset() {
  totals_ = {};
  sums_.clear();
}

Tensor Meter::sums() const {
  if (sums_.empty()) return {};
  return sums_.size() == 1 ? sums_[0] : cat(sums_);
}

double Meter::value() const {
  if (!metric_.value) throw Error("Meter::value: this metric is no number; its sums() are");
  if (!totals_.defined()) return std::numeric_limits<double>::quiet_NaN();
  const std::vector<double> totals = totals_.cpu().to_vector<double>();
  const Tensor all = sums();
  const std::vector<double> sums =
      all.defined() ? all.cpu().to_vector<double>() : std::vector<double>();
  return metric_.value({totals[0], totals[1], sums});
}

void Meter::all_reduce(const distributed::Communicator& ranks) {
  const NoGradGuard no_grad;
  const TensorOptions doubles{.dtype = kFloat64, .device = ranks.device()};
  const Tensor own = sums().defined() ? sums().to(ranks.device()) : Tensor();
  totals_ = totals_.defined() ? totals_.to(ranks.device(), {.copy = true}) : zeros({2}, doubles);
  ranks.all_reduce(totals_).wait();
  // The number of dimensions and the sizes of each rank's sums. A rank without batches gets them
  // from the others.
  Tensor look = full({1 + kMaxDims}, -1, {.dtype = kInt64});
  if (own.defined()) {
    look.data<int64_t>()[0] = own.dim();
    std::ranges::copy(own.shape(), look.data<int64_t>() + 1);
  }
  const Tensor looks =
      zeros({ranks.size(), look.size(0)}, {.dtype = kInt64, .device = ranks.device()});
  ranks.all_gather(looks, look.to(ranks.device())).wait();
  const std::vector<int64_t> known = amax(looks, {0}).cpu().to_vector<int64_t>();
  if (known[0] < 0) return;
  Shape shape(known.begin() + 1, known.begin() + 1 + known[0]);
  const Tensor whole = zeros(shape, doubles);
  if (!metric_.concatenates) {
    sums_ = {own.defined() ? own.clone() : whole};
    ranks.all_reduce(sums_[0]).wait();
    return;
  }
  if (own.defined()) whole.narrow(0, 0, own.size(0)).copy_(own);
  shape.insert(0, ranks.size());
  const Tensor all = zeros(shape, doubles);
  ranks.all_gather(all, whole).wait();
  const std::vector<int64_t> rows = looks.select(1, 1).cpu().to_vector<int64_t>();
  sums_.clear();
  for (int64_t r = 0; r < ranks.size(); ++r) {
    sums_.push_back(all.select(0, r).narrow(0, 0, std::max<int64_t>(rows[size_t(r)], 0)));
  }
}

}  // namespace taper::v0::data
