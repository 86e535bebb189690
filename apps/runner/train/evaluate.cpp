#include "apps/runner/train/evaluate.h"

#include <algorithm>

#include <spdlog/fmt/fmt.h>

#include "apps/runner/run/errors.h"
#include "apps/runner/run/text.h"
#include "apps/runner/train/model.h"
#include "autograd/ops/binary.h"
#include "autograd/ops/reduce.h"
#include "autograd/ops/shape.h"
#include "autograd/ops/unary.h"
#include "framework/factories.h"

namespace taper::runner {

double Metrics::operator[](const std::string& name) const {
  std::string names;
  for (const auto& [known, value] : values) {
    if (known == name) return value;
    names += cat(names.empty() ? "" : ", ", known);
  }
  throw ConfigError(cat("'", name, "' is not among the metrics of the run: ", names));
}

Evaluator::Evaluator(const RunConfig& config, const DataInfo& info, Device device)
    : is_regression_(info.task == Task::kRegression),
      loss_(losses().make(config.loss, {info.task, true})),
      totals_(zeros({2}, {.dtype = kFloat64, .device = device})) {
  for (const std::string& name : metrics_of(config)) {
    const Component row = metric_types().component(name);
    measured_.push_back({name, metric_types().make(row, info, device)});
  }
}

MetricBatch Evaluator::batch_of(const Tensor& x, const Tensor& y) const {
  if (is_regression_) {
    return {x.squeeze(-1), y, full(y.shape(), 1, {.dtype = kFloat64, .device = y.device()})};
  }
  const Tensor targets = y.reshape({-1});
  return {x.reshape({-1, x.size(-1)}), clamp(targets, 0),
          ge(targets, zeros_like(targets)).to(kFloat64)};
}

void Evaluator::add(const Tensor& outputs, const Tensor& targets) {
  const NoGradGuard no_grad;
  const Tensor x = outputs.to(kFloat32);
  const MetricBatch batch = batch_of(x, targets);
  const Tensor count = sum(batch.counts);
  totals_.add_(stack({count, loss_(x, targets, Reduction::mean).to(kFloat64) * count}));
  for (auto& [name, metric, sums] : measured_) {
    if (!metric.sums) continue;
    const Tensor more = metric.sums(batch).to(kFloat64);
    sums = sums.defined() ? sums.add_(more) : more;
  }
}

Metrics Evaluator::read() const {
  const Tensor totals = totals_.cpu();
  MetricSums all{totals.data<double>()[0], totals.data<double>()[1]};
  Metrics out;
  out.values.emplace_back("loss", all.loss / all.count);
  for (const auto& [name, metric, sums] : measured_) {
    const Tensor host = sums.defined() ? sums.cpu().contiguous() : Tensor();
    if (host.defined()) all.sums = host.span<double>();
    if (metric.value) {
      out.values.emplace_back(name, metric.value(all));
      continue;
    }
    const size_t C = size_t(host.size(1));
    for (size_t first = 0; first < all.sums.size(); first += C) {
      const auto row = all.sums.subspan(first, C);
      out.confusion.emplace_back(row.begin(), row.end());
    }
  }
  return out;
}

Metrics evaluate(Module& model, DataLoader& batches, int64_t epoch, const RunConfig& config,
                 const DataInfo& info, Device device) {
  const NoGradGuard no_grad;
  const Autocast half = autocast_of(config.train.precision, device.type());
  const bool was_training = model.is_training();
  model.eval();
  Evaluator evaluator(config, info, device);
  batches.start(epoch);
  while (const std::optional<Batch> batch = batches.next()) {
    evaluator.add(model(batch->inputs), batch->targets);
  }
  model.train(was_training);
  return evaluator.read();
}

std::string to_text(const Metrics& metrics, const DataInfo& info) {
  std::string out;
  for (const auto& [name, value] : metrics.values) {
    const bool is_share = name != "loss" && metric(name).is_share;
    out += is_share ? fmt::format("{:<17}{:.2f} %\n", cat("test ", name, ":"), 100 * value)
                    : fmt::format("{:<17}{:.4f}\n", cat("test ", name, ":"), value);
  }
  if (metrics.confusion.empty() || info.class_names.empty()) return out;
  out += "\ntrue class (row), predicted (column)\n";
  size_t width = 5;
  for (const std::string& name : info.class_names) width = std::max(width, name.size());
  const auto cell = [&](const auto& x) { out += fmt::format(" {:>{}}", x, width); };
  cell("");
  for (const std::string& name : info.class_names) cell(name);
  for (size_t i = 0; i < metrics.confusion.size(); ++i) {
    out += "\n";
    cell(info.class_names[i]);
    for (const int64_t n : metrics.confusion[i]) cell(n);
  }
  return out + "\n";
}

}  // namespace taper::runner
