#include "apps/runner/run/evaluate.h"

#include <algorithm>
#include <cstring>
#include <functional>
#include <ranges>

#include <fmt/format.h>

#include "apps/runner/base/errors.h"
#include "apps/runner/base/string_utils.h"
#include "apps/runner/run/batches.h"
#include "apps/runner/settings/autocast.h"
#include "apps/runner/settings/placement.h"
#include "autograd/ops/binary_ops.h"
#include "autograd/ops/index/index_ops.h"
#include "autograd/ops/reduce_ops.h"
#include "autograd/ops/shape_ops.h"
#include "autograd/ops/unary_ops.h"
#include "framework/base/cancel.h"
#include "framework/factory/factories.h"

namespace taper::v0::runner {

double Metrics::operator[](const std::string& name) const {
  for (const auto& [known, value] : values) {
    if (known == name) return value;
  }
  throw ConfigError(concat_to_string(
      "'", name, "' is not among the metrics of the run: ", joined(values | std::views::keys)));
}

Evaluator::Evaluator(const RunConfig& config, const DataInfo& info, Device device)
    : loss_config_(config.loss), loss_(losses().make(config.loss, loss_site(info, true))) {
  scales_ = info.target_scales();
  labels_ = info.labels;
  thresholds_ = info.thresholds;
  is_series_ = info.series != nullptr;
  const std::vector<std::string> names = metrics_of(config, info.task);
  for (size_t target = 0; target < num_targets(); ++target) {
    for (const std::string& name : names) add_metric(name, config, info, device, target);
  }
  if (!labels_.empty()) means_ = names;
  const bool has_classes = info.task == Task::kClassification && labels_.empty();
  if (has_classes && info.outputs >= 2 && info.outputs <= kMaxCounted) {
    counted_classes_ = info.outputs;
  }
}

void Evaluator::collect_details(const DataInfo& info) {
  if (!loss_.prediction || !ClassDetails::fits(info)) return;
  details_.emplace(info);
  detail_sums_.resize(details_->num_sums());
}

void Evaluator::add_metric(std::string name, Metric metric, size_t target) {
  measured_.push_back(
      {.row = {}, .metric = std::move(metric), .name = std::move(name), .target = target});
}

// Adds a metric of one target. If the target is a logarithm, the metric gets the exponential.
void Evaluator::add_metric(const std::string& name, const RunConfig& config, const DataInfo& info,
                           Device device, size_t target) {
  const data::TargetScale scale = labels_.empty() ? scales_[target] : data::TargetScale();
  const std::string of = labels_.empty() ? scale.name : labels_[target].name;
  DataInfo seen = info;
  seen.target_mean = scale.is_log ? 0 : scale.mean;
  seen.target_std = scale.is_log ? 1 : scale.std;
  if (!labels_.empty()) seen.outputs = 2;
  Component row = metric_types().component(name);
  row.place = place_of(config, "metrics");
  Metric metric = metric_types().make(row, seen, device);
  measured_.push_back({.row = std::move(row),
                       .metric = std::move(metric),
                       .name = of.empty() ? name : concat_to_string(of, ".", name),
                       .target = target});
}

// Returns for each class the number of samples that are predicted to belong to it, [classes]
// float64.
static Tensor predicted_classes(const MetricBatch& batch, int64_t classes) {
  const Tensor best = one_hot(argmax(batch.outputs, 1), classes).to(kFloat64);
  return sum(best * batch.counts.unsqueeze(1), {0});
}

// Returns f(), which calls the metric. If that throws, the error names the metric.
template <class F> static auto call_metric(const Component& row, F f) try {
  return f();
} catch (const std::exception& error) {
  metric_types().refuse_call(row, error);
  throw;
}

// Returns each step of each sample as a sample, in the unit of the data. scales: of the samples
// (data/series/series_dataset.h); undefined: outputs are in the unit of the data.
MetricBatch Evaluator::batch_of_series(const Tensor& outputs, const Tensor& targets,
                                       const Tensor& scales) const {
  if (!scales.defined()) return data::metric_batch(outputs, targets, {});
  const Tensor mean = scales.narrow(1, 0, 1), std = scales.narrow(1, 1, 1);
  const auto value = [&](const Tensor& x) { return x.to(kFloat64) * std + mean; };
  MetricBatch out = data::metric_batch(value(outputs), value(targets), {});
  out.scales = scales.narrow(1, 2, 1).expand(outputs.shape()).reshape({-1});
  return out;
}

// Returns the outputs and targets of one target, in the unit of the data if they are logarithms. Of
// a label, the outputs are the logits of 0 and 1.
MetricBatch Evaluator::batch_of(const Tensor& outputs, const Tensor& targets, const Tensor& weights,
                                size_t target) const {
  const auto column = [&](const Tensor& x) {
    return num_targets() > 1 ? x.select(1, int64_t(target)) : x;
  };
  const Tensor x = column(outputs), y = column(targets);
  if (!labels_.empty()) {
    constexpr double kTiny = 1e-30;  // of a probability
    const Tensor logits =
        loss_.takes_probabilities ? log(clamp(x, kTiny)) - log(clamp(1 - x, kTiny)) : x;
    return data::metric_batch(logits, y.to(kInt64), weights);
  }
  const data::TargetScale& scale = scales_[target];
  const auto value = [&](const Tensor& each) {
    return scale.is_log ? exp(each * scale.std + scale.mean) : each;
  };
  return data::metric_batch(value(x), value(y), weights);
}

// Returns the batch with outputs of 1 for the class that the threshold chooses, and 0 for the
// other. Returns it unchanged without a threshold. outputs: of the model.
MetricBatch Evaluator::decided(const MetricBatch& batch, const Tensor& outputs,
                               size_t target) const {
  if (thresholds_.empty()) return batch;
  const int64_t column = labels_.empty() ? 1 : int64_t(target);
  const Tensor probability = loss_.prediction(outputs).select(1, column).to(kFloat64);
  MetricBatch out = batch;
  out.outputs = one_hot(ge(probability, thresholds_[target]).to(kInt64), 2).to(kFloat32);
  return out;
}

Evaluator::Views Evaluator::views_of(const Tensor& outputs, const Tensor& targets,
                                     const Tensor& weights, size_t target) const {
  Views out;
  out.weighted = is_series_ ? batch_of_series(outputs, targets, weights)
                            : batch_of(outputs, targets, weights, target);
  out.decided = decided(out.weighted, outputs, target);
  out.counted = out.decided;
  if (weights.defined() && !is_series_) out.counted.counts = ones_like(out.decided.counts);
  return out;
}

// Returns rows [n, columns], filled up to `count` rows that do not count.
static Tensor filled_up(const Tensor& rows, int64_t count) {
  const int64_t missing = count - rows.size(0);
  if (missing <= 0) return rows;
  return cat(
      {rows, full({missing, rows.size(1)}, -1, {.dtype = rows.dtype(), .device = rows.device()})});
}

Tensor Evaluator::sums_of(const Tensor& outputs, const Tensor& targets, int64_t samples,
                          const Tensor& others) {
  const NoGradGuard no_grad;
  const Tensor x = outputs.to(kFloat32), y = targets.to(x.device());
  const Tensor o = others.defined() ? others.to(x.device()) : others;
  std::vector<Views> views;
  for (size_t target = 0; target < num_targets(); ++target) {
    views.push_back(views_of(x, y, o, target));
  }
  const Tensor count = sum(views[0].weighted.counts);
  const Tensor weights = is_series_ ? Tensor() : o;
  const Tensor loss = run_mean_loss(loss_, loss_config_, x, y, weights);
  std::vector<Tensor> all = {stack({count, loss.to(kFloat64) * count})};
  std::vector<Tensor> rows;
  for (Measured& m : measured_) {
    if (!m.metric.sums) continue;
    const Views& of = views[m.target];
    const MetricBatch& seen = !m.metric.value           ? of.counted
                              : m.metric.uses_decisions ? of.decided
                                                        : of.weighted;
    Tensor sums = call_metric(m.row, [&] { return m.metric.sums(seen).to(kFloat64); });
    m.shape = sums.shape();
    if (m.metric.concatenates) sums = filled_up(sums, samples);
    (m.metric.concatenates ? rows : all).push_back(sums.flatten());
  }
  if (counted_classes_ > 0) all.push_back(predicted_classes(views[0].counted, counted_classes_));
  if (details_) {
    const std::vector<double> sums = details_->sums_of(loss_.prediction(x), y, weights);
    std::ranges::transform(sums, detail_sums_, detail_sums_.begin(), std::plus());
  }
  std::ranges::move(rows, std::back_inserter(all));
  return all.size() == 1 ? all[0] : cat(all);
}

bool Evaluator::can_use_blocks(const Module& model, int64_t tokens) const {
  const bool uses_outputs = std::ranges::any_of(
      measured_, [](const Measured& m) { return m.metric.sums && m.metric.uses_outputs; });
  return !uses_outputs && counted_classes_ == 0 && !details_ &&
         computes_loss_in_blocks(model, loss_, tokens);
}

Tensor Evaluator::sums_by_blocks(Module& model, const Component& config, const Tensor& tokens,
                                 const Tensor& targets) {
  const NoGradGuard no_grad;
  const Tensor loss = run_loss_in_blocks(model, config, loss_, tokens, targets);
  const Tensor y = targets.flatten().to(loss.device());
  const MetricBatch batch{{}, clamp(y, 0), ge(y, zeros_like(y)).to(kFloat64)};
  const Tensor count = sum(batch.counts);
  std::vector<Tensor> all = {stack({count, loss.to(kFloat64) * count})};
  for (Measured& m : measured_) {
    if (!m.metric.sums) continue;
    const Tensor sums = call_metric(m.row, [&] { return m.metric.sums(batch).to(kFloat64); });
    m.shape = sums.shape();
    all.push_back(sums.flatten());
  }
  return all.size() == 1 ? all[0] : cat(all);
}

// Returns the number of sums that are added over batches. They precede the rows that are kept.
int64_t Evaluator::size_of_totals() const {
  int64_t size = 2 + counted_classes_;
  for (const Measured& m : measured_) {
    if (m.metric.sums && !m.metric.concatenates) size += m.shape.numel();
  }
  return size;
}

void Evaluator::add(const Tensor& sums) {
  const NoGradGuard no_grad;
  const Tensor part = sums.narrow(0, 0, size_of_totals());
  totals_ = totals_.defined() ? totals_.add_(part) : part.clone();
  int64_t columns = 0, at = size_of_totals();
  for (const Measured& m : measured_) columns += m.metric.concatenates ? m.shape[1] : 0;
  if (columns == 0) return;
  const int64_t samples = (sums.numel() - at) / columns;
  for (Measured& m : measured_) {
    if (!m.metric.concatenates) continue;
    const int64_t numel = samples * m.shape[1];
    m.rows.push_back(sums.narrow(0, at, numel).reshape({samples, m.shape[1]}));
    at += numel;
  }
}

Metrics Evaluator::read() const {
  const Tensor host = totals_.cpu();
  const std::span<const double> totals = host.span<double>();
  MetricSums all{totals[0], totals[1]};
  Metrics out;
  out.values.emplace_back("loss", all.loss / all.count);
  size_t from = 2;
  for (const Measured& m : measured_) {
    const bool has_totals = m.metric.sums && !m.metric.concatenates;
    const size_t n = has_totals ? size_t(m.shape.numel()) : 0;
    const Tensor rows = m.metric.concatenates ? cat(m.rows).cpu() : Tensor();
    all.sums = rows.defined() ? rows.span<double>() : totals.subspan(from, n);
    from += n;
    if (m.metric.value) {
      out.values.emplace_back(m.name, call_metric(m.row, [&] { return m.metric.value(all); }));
      continue;
    }
    const size_t C = size_t(m.shape[1]);
    for (size_t first = 0; first < n; first += C) {
      const auto row = all.sums.subspan(first, C);
      out.confusion.emplace_back(row.begin(), row.end());
    }
  }
  for (const double n : totals.subspan(from)) out.predicted.push_back(int64_t(n));
  if (details_) out.details = details_->to_json(detail_sums_);
  add_means(out.values);
  return out;
}

void Evaluator::add_details_of_ranks(const Communicator& ranks) {
  if (!details_) return;
  std::string own(detail_sums_.size() * sizeof(double), '\0');
  std::memcpy(own.data(), detail_sums_.data(), own.size());
  std::ranges::fill(detail_sums_, 0.0);
  for (const std::string& bytes : ranks.all_gather_text(own)) {
    std::vector<double> sums(detail_sums_.size());
    std::memcpy(sums.data(), bytes.data(), bytes.size());
    std::ranges::transform(sums, detail_sums_, detail_sums_.begin(), std::plus());
  }
}

// Inserts the mean of each metric over all labels after the loss. The values of the first label
// follow the loss, then those of the second, and so on.
void Evaluator::add_means(std::vector<std::pair<std::string, double>>& values) const {
  std::vector<std::pair<std::string, double>> means;
  for (size_t i = 0; i < means_.size(); ++i) {
    double sum = 0;
    for (size_t k = 0; k < labels_.size(); ++k) sum += values[1 + k * means_.size() + i].second;
    means.emplace_back(means_[i], sum / double(labels_.size()));
  }
  values.insert(values.begin() + 1, means.begin(), means.end());
}

std::vector<std::string> Evaluator::names() const {
  std::vector<std::string> names{"loss"};
  names.insert(names.end(), means_.begin(), means_.end());
  for (const Measured& m : measured_) {
    if (m.metric.value) names.push_back(m.name);
  }
  return names;
}

// --- all batches of an evaluation ---

// Returns the sums of this rank's next batch. Returns an undefined tensor after the last one.
using NextSums = std::function<Tensor()>;

static void measure_alone(Evaluator& evaluator, const NextSums& next,
                          const std::function<void()>& end_batch) {
  for (Tensor sums = next(); sums.defined(); sums = next()) {
    evaluator.add(sums);
    end_batch();
  }
}

// Adds the sums of `count` batches on rank 0, one batch of each rank, in the order in which a
// single rank would add them. numel: the number of elements of the sums.
static void add_in_turn(Evaluator& evaluator, const Tensor& own, int64_t count, int64_t numel,
                        const Communicator& ranks) {
  const TensorOptions doubles{.dtype = kFloat64, .device = ranks.device()};
  const Tensor all = zeros({ranks.size() * numel}, doubles);
  ranks.all_gather(all, own.defined() ? own : zeros({numel}, doubles)).wait();
  for (int64_t i = 0; ranks.rank() == 0 && i < count; ++i) {
    evaluator.add(all.narrow(0, i * numel, numel).clone());
  }
}

// batches: the number of batches of this rank.
static void measure_on_ranks(Evaluator& evaluator, const NextSums& next,
                             const std::function<void()>& end_batch, int64_t batches,
                             const Communicator& ranks) {
  // All ranks need the number of batches and the length of their sums. Rank 0 always has a batch.
  Tensor own = next();
  const int64_t known[] = {batches, ranks.rank() == 0 ? own.numel() : 0};
  const Tensor sent = tensor_of(known, {2}, {.device = ranks.device()});
  ranks.all_reduce(sent).wait();
  const std::vector<int64_t> all = sent.cpu().to_vector<int64_t>();
  for (int64_t left = all[0]; left > 0; left -= ranks.size()) {
    add_in_turn(evaluator, own, std::min<int64_t>(left, ranks.size()), all[1], ranks);
    end_batch();
    own = next();
  }
}

// Returns the metrics that rank 0 has computed, on all ranks.
static Metrics metrics_of_first(const Evaluator& evaluator, const Communicator& ranks) {
  Metrics out = ranks.rank() == 0 ? evaluator.read() : Metrics{};
  const std::vector<std::string> names = evaluator.names();
  std::vector<double> values(names.size());
  std::ranges::copy(out.values | std::views::values, values.begin());
  const Tensor sent = tensor_of(values.data(), {std::ssize(values)}, {.device = ranks.device()});
  ranks.broadcast(sent).wait();
  const std::vector<double> all = sent.cpu().to_vector<double>();
  for (size_t i = out.values.size(); i < names.size(); ++i)
    out.values.emplace_back(names[i], all[i]);
  return out;
}

Metrics evaluate(Module& model, DataLoader& batches, int64_t epoch, const RunConfig& config,
                 const DataInfo& info, const Communicator& ranks,
                 const std::function<void(int64_t)>& after_batch) {
  return evaluate(model, batches, epoch, config, info, ranks, after_batch,
                  Evaluator(config, info, output_device(model, config, info, ranks.device())));
}

Metrics evaluate(Module& model, DataLoader& batches, int64_t epoch, const RunConfig& config,
                 const DataInfo& info, const Communicator& ranks,
                 const std::function<void(int64_t)>& after_batch, Evaluator evaluator) {
  const NoGradGuard no_grad;
  const AutocastGuard half = autocast_of(config, ranks.device().type());
  const bool was_training = model.is_training();
  model.eval();
  batches.start(epoch);
  // All ranks exchange sums of the same size.
  const int64_t samples = ranks.size() > 1 ? eval_batch_size_of(config, info, ranks.size()) : 0;
  const NextSums next = [&] {
    const std::optional<Batch> batch = batches.next();
    if (!batch) return Tensor();
    if (evaluator.can_use_blocks(model, batch->inputs.numel())) {
      return evaluator.sums_by_blocks(model, config.model, batch->inputs, batch->targets);
    }
    const bool has_others = (info.has_weights || info.series) && !batch->others.empty();
    return evaluator.sums_of(run_model(model, config.model, info, batch->inputs), batch->targets,
                             samples, has_others ? batch->others[0] : Tensor());
  };
  const auto end_batch = [&, measured = int64_t(0)]() mutable {
    if (after_batch) return after_batch(++measured);
    check_stop();
  };
  const bool is_alone = ranks.size() == 1;
  if (is_alone) measure_alone(evaluator, next, end_batch);
  if (!is_alone) {
    measure_on_ranks(evaluator, next, end_batch, batches.steps_per_epoch(), ranks);
    evaluator.add_details_of_ranks(ranks);
  }
  model.train(was_training);
  return waiting_for(model, config.model, [&] {
    const Metrics out = is_alone ? evaluator.read() : metrics_of_first(evaluator, ranks);
    synchronize_others(model, ranks.device());
    return out;
  });
}

using Counts = std::vector<std::vector<int64_t>>;  // [true class][predicted class]

static size_t longest(const std::vector<std::string>& names) {
  size_t width = 5;
  for (const std::string& name : names) width = std::max(width, name.size());
  return width;
}

static std::string confusion_text(const Counts& counts, const std::vector<std::string>& names) {
  std::string out = "true class (row), predicted (column)\n";
  const auto cell = [&, width = longest(names)](const auto& x) {
    out += fmt::format(" {:>{}}", x, width);
  };
  cell("");
  for (const std::string& name : names) cell(name);
  for (size_t i = 0; i < counts.size(); ++i) {
    out += "\n";
    cell(names[i]);
    for (const int64_t n : counts[i]) cell(n);
  }
  return out + "\n";
}

// Returns a table with precision, recall, F1 and the number of samples of each class.
static std::string class_scores_text(const Counts& counts, const std::vector<std::string>& names) {
  const size_t width = longest(names);
  std::string out =
      fmt::format("{:<{}}      precision  recall      f1    samples\n", "class", width);
  const auto percent = [](double a, double b) { return b > 0 ? 100 * a / b : 0; };
  for (size_t i = 0; i < counts.size(); ++i) {
    double samples = 0, predictions = 0;
    for (size_t j = 0; j < counts.size(); ++j) {
      samples += double(counts[i][j]);
      predictions += double(counts[j][i]);
    }
    const double hits = double(counts[i][i]);
    out += fmt::format("{:<{}} {:>12.1f} % {:>5.1f} % {:>5.1f} % {:>10}\n", names[i], width,
                       percent(hits, predictions), percent(hits, samples),
                       percent(2 * hits, samples + predictions), int64_t(samples));
  }
  return out;
}

std::string to_text(const Metrics& metrics, const std::string& split, const DataInfo& info) {
  std::string out;
  for (const auto& [name, value] : metrics.values) {
    const std::string kind = name.substr(name.rfind('.') + 1);  // without the name of a target
    const bool is_share = kind != "loss" && metric(kind).is_percentage;
    const std::string key = concat_to_string(split, " ", name, ":");
    const size_t width = split == "test" ? 16 : 21;
    const auto number = [is_share](double x) {
      return is_share ? fmt::format("{:.2f} %", 100 * x) : fmt::format("{:.4f}", x);
    };
    out += fmt::format("{:<{}} {}", key, width, number(value));
    std::string others;
    for (const data::Baseline& baseline : metrics.baselines) {
      for (const auto& [of, error] : baseline.errors) {
        if (of != name) continue;
        others += concat_to_string(others.empty() ? "" : ", ", baseline.name, " ", number(error));
      }
    }
    out += others.empty() ? "\n" : concat_to_string("  (", others, ")\n");
  }
  if (metrics.confusion.empty() || info.class_names.empty()) return out;
  return concat_to_string(out, "\n", confusion_text(metrics.confusion, info.class_names), "\n",
                          class_scores_text(metrics.confusion, info.class_names));
}

}  // namespace taper::v0::runner
