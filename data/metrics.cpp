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

// Returns the metric that is the share of samples for which `is_hit` returns true.
template <class IsHit> Metric share_of_hits(IsHit is_hit) {
  return {.tasks = {Task::kClassification, Task::kLanguage},
          .sums =
              [is_hit](const MetricBatch& b) {
                // Throws for a target that is not one of the classes.
                (void)nll_loss(b.outputs.to(kFloat32), b.targets, {.reduction = Reduction::kNone});
                return b.total(is_hit(b));
              },
          .value = [](const MetricSums& all) { return all.sums[0] / all.count; },
          .higher_is_better = true,
          .is_percentage = true};
}

Tensor error_of(const MetricBatch& b) { return b.outputs.to(kFloat64) - b.targets.to(kFloat64); }

// pairs: (score, class).
double area_under_roc(std::span<const double> pairs) {
  std::vector<std::pair<double, double>> all;
  for (size_t i = 0; i < pairs.size(); i += 2) {
    if (std::isnan(pairs[i])) return std::numeric_limits<double>::quiet_NaN();
    if (pairs[i + 1] >= 0) all.emplace_back(pairs[i], pairs[i + 1]);
  }
  std::ranges::sort(all);
  double area = 0, negatives = 0, positives = 0;
  for (size_t i = 0; i < all.size();) {
    double of_class[2] = {0, 0};
    const double score = all[i].first;
    for (; i < all.size() && all[i].first == score; ++i) ++of_class[all[i].second > 0];
    area += of_class[1] * (negatives + of_class[0] / 2);
    negatives += of_class[0];
    positives += of_class[1];
  }
  return negatives > 0 && positives > 0 ? area / (negatives * positives) : 0;
}

}  // namespace

Tensor MetricBatch::total(const Tensor& each) const { return sum(each.to(kFloat64) * counts); }

MetricBatch metric_batch(const Tensor& outputs, const Tensor& targets) {
  const Tensor x = is_half(outputs.dtype()) ? outputs.to(kFloat32) : outputs;
  const Tensor y = targets.reshape({-1});
  const bool is_values = is_floating_point(y.dtype());
  require<ValueError>(
      x.numel() == y.numel() || (!is_values && x.dim() >= 2 && x.numel() == y.numel() * x.size(-1)),
      "metric: outputs ", x.shape(), " do not go with targets ", targets.shape());
  if (is_values) {
    return {x.reshape({-1}), y, full(y.shape(), 1, {.dtype = kFloat64, .device = y.device()})};
  }
  const bool is_binary = x.numel() == y.numel();
  const Tensor logits = x.reshape({-1, is_binary ? 1 : x.size(-1)});
  return {is_binary ? cat({zeros_like(logits), logits}, 1) : logits, clamp(y, 0),
          ge(y, zeros_like(y)).to(kFloat64)};
}

Metric accuracy() {
  return share_of_hits([](const MetricBatch& b) { return eq(argmax(b.outputs, 1), b.targets); });
}

Metric topk_accuracy(int64_t k) {
  return share_of_hits([k](const MetricBatch& b) {
    const Tensor of_target = gather(b.outputs, 1, b.targets.unsqueeze(1));
    const Tensor rank = sum(gt(b.outputs, of_target), {1});
    return lt(rank, full_like(rank, k));
  });
}

Metric confusion_matrix(int64_t num_classes) {
  Metric m{.tasks = {Task::kClassification}};
  m.sums = [C = num_classes](const MetricBatch& b) {
    const Tensor rows = one_hot(b.targets, C).to(kFloat32) * b.counts.to(kFloat32).unsqueeze(1);
    return matmul(rows.transpose(0, 1), one_hot(argmax(b.outputs, 1), C).to(kFloat32));
  };
  return m;
}

Metric f1_score(int64_t num_classes, Average average) {
  if (average == Average::kMicro) return accuracy();
  Metric m{.tasks = {Task::kClassification}, .higher_is_better = true};
  m.sums = [C = num_classes](const MetricBatch& b) {
    const Tensor wanted = one_hot(b.targets, C).to(kFloat64) * b.counts.unsqueeze(1);
    const Tensor given = one_hot(argmax(b.outputs, 1), C).to(kFloat64) * b.counts.unsqueeze(1);
    return stack({sum(wanted * given, {0}), sum(wanted, {0}), sum(given, {0})});
  };
  m.value = [C = size_t(num_classes)](const MetricSums& all) {
    double sum = 0, classes = 0;
    for (size_t c = 0; c < C; ++c) {
      const double seen = all.sums[C + c] + all.sums[2 * C + c];
      if (seen == 0) continue;
      sum += 2 * all.sums[c] / seen;
      ++classes;
    }
    return sum / classes;
  };
  return m;
}

Metric auc() {
  Metric m{.tasks = {Task::kClassification}, .higher_is_better = true, .concatenates = true};
  m.sums = [](const MetricBatch& b) {
    require<ValueError>(b.outputs.size(1) == 2, "auc: expected two classes, got ",
                        b.outputs.size(1));
    const Tensor x = b.outputs.to(kFloat64);
    return stack(
        {x.select(1, 1) - x.select(1, 0), where(gt(b.counts, 0), b.targets.to(kFloat64), -1)}, 1);
  };
  m.value = [](const MetricSums& all) { return area_under_roc(all.sums); };
  return m;
}

Metric perplexity() {
  return {.tasks = {Task::kLanguage},
          .value = [](const MetricSums& all) { return std::exp(all.loss / all.count); }};
}

Metric mean_absolute_error(double unit) {
  return {.tasks = {Task::kRegression},
          .sums = [](const MetricBatch& b) { return sum(abs(error_of(b))); },
          .value = [unit](const MetricSums& s) { return s.sums[0] / s.count * unit; }};
}

Metric root_mean_squared_error(double unit) {
  return {.tasks = {Task::kRegression},
          .sums = [](const MetricBatch& b) { return sum(square(error_of(b))); },
          .value = [unit](const MetricSums& s) { return std::sqrt(s.sums[0] / s.count) * unit; }};
}

Metric r2_score() {
  Metric m{.tasks = {Task::kRegression}, .higher_is_better = true};
  m.sums = [](const MetricBatch& b) {
    const Tensor y = b.targets.to(kFloat64);
    return stack({sum(square(error_of(b))), sum(y), sum(square(y))});
  };
  m.value = [](const MetricSums& s) {
    const double spread = s.sums[2] - s.sums[1] * s.sums[1] / s.count;
    return spread > 0 ? 1 - s.sums[0] / spread : 0;
  };
  return m;
}

void Meter::update(const Tensor& outputs, const Tensor& targets) {
  const NoGradGuard no_grad;
  const MetricBatch batch = metric_batch(outputs.detach(), targets);
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
  // The number of dimensions and the sizes of each rank's sums. A rank without batches does not
  // know them and gets them from the others.
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
