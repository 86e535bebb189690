#include "apps/runner/train/evaluate.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include <fmt/format.h>

#include "apps/runner/run/errors.h"
#include "apps/runner/run/text.h"
#include "apps/runner/train/model.h"
#include "autograd/ops/binary.h"
#include "autograd/ops/index.h"
#include "autograd/ops/matmul.h"
#include "autograd/ops/reduce.h"
#include "autograd/ops/shape.h"
#include "autograd/ops/unary.h"
#include "framework/factories.h"

namespace taper::inline v0::runner {
namespace {

constexpr int64_t kMaxConfusion = 1000;  // classes

// The samples for which `is_hit` gives true, as a share of all.
template <Tensor (*kIsHit)(const MetricBatch&)>
Metric share_of_hits(const NoOptions&, const DataInfo&, Device) {
  return {.tasks = {Task::kClassification, Task::kLanguage},
          .sums = [](const MetricBatch& b) { return b.total(kIsHit(b)); },
          .value = [](const MetricSums& all) { return all.sums[0] / all.count; },
          .grows = true,
          .is_share = true};
}
Tensor is_right(const MetricBatch& b) { return eq(argmax(b.outputs, 1), b.targets); }
Tensor is_among_five(const MetricBatch& b) {
  const Tensor of_target = gather(b.outputs, 1, b.targets.unsqueeze(1));
  const Tensor rank = sum(gt(b.outputs, of_target), {1});
  return lt(rank, full_like(rank, 5));
}

Metric confusion(const NoOptions&, const DataInfo& data, Device) {
  const int64_t C = data.outputs;
  if (C > kMaxConfusion) {
    throw ConfigError(cat("metrics: a confusion matrix of ", C,
                          " classes is too large; the most is ", kMaxConfusion));
  }
  Metric m{.tasks = {Task::kClassification}};
  m.sums = [C](const MetricBatch& b) {
    const Tensor rows = one_hot(b.targets, C).to(kFloat32) * b.counts.to(kFloat32).unsqueeze(1);
    return matmul(rows.transpose(0, 1), one_hot(argmax(b.outputs, 1), C).to(kFloat32));
  };
  return m;
}

Tensor error_of(const MetricBatch& b) { return b.outputs.to(kFloat64) - b.targets.to(kFloat64); }
Metric mae(const NoOptions&, const DataInfo& data, Device) {
  Metric m{.tasks = {Task::kRegression}};
  m.sums = [](const MetricBatch& b) { return sum(abs(error_of(b))); };
  m.value = [unit = data.target_std](const MetricSums& s) { return s.sums[0] / s.count * unit; };
  return m;
}
Metric rmse(const NoOptions&, const DataInfo& data, Device) {
  Metric m{.tasks = {Task::kRegression}};
  m.sums = [](const MetricBatch& b) { return sum(square(error_of(b))); };
  m.value = [unit = data.target_std](const MetricSums& s) {
    return std::sqrt(s.sums[0] / s.count) * unit;
  };
  return m;
}
// Of values that are all the same there is none, and 0 is given.
Metric r2(const NoOptions&, const DataInfo&, Device) {
  Metric m{.tasks = {Task::kRegression}, .grows = true};
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

Metric perplexity(const NoOptions&, const DataInfo&, Device) {
  return {.tasks = {Task::kLanguage},
          .value = [](const MetricSums& all) { return std::exp(all.loss / all.count); }};
}

Tensor characters_of_tokens(const data::Tokenizer& tokenizer, Device device) {
  std::vector<double> counts;
  for (int64_t id = 0; id < tokenizer.size(); ++id) {
    const std::string bytes = tokenizer.decode(std::span(&id, 1));
    counts.push_back(
        double(std::ranges::count_if(bytes, [](char c) { return !is_continuation(c); })));
  }
  return tensor_of(counts.data(), {std::ssize(counts)}, {.device = device});
}
// Bits per character.
Metric bpc(const NoOptions&, const DataInfo& data, Device device) {
  Metric m{.tasks = {Task::kLanguage}};
  const data::Tokenizer* tokenizer = data.tokenizer.get();
  const Tensor lengths = tokenizer ? characters_of_tokens(*tokenizer, device) : Tensor();
  m.sums = [lengths](const MetricBatch& b) { return b.total(embedding(lengths, b.targets)); };
  m.value = [](const MetricSums& s) { return s.loss / std::numbers::ln2 / s.sums[0]; };
  return m;
}

constexpr MetricTypes::Entry kMetrics[] = {
    {"accuracy", MetricTypes::of<NoOptions, share_of_hits<is_right>>},
    {"top5", MetricTypes::of<NoOptions, share_of_hits<is_among_five>>},
    {"confusion", MetricTypes::of<NoOptions, confusion>},
    {"mae", MetricTypes::of<NoOptions, mae>},
    {"rmse", MetricTypes::of<NoOptions, rmse>},
    {"r2", MetricTypes::of<NoOptions, r2>},
    {"perplexity", MetricTypes::of<NoOptions, perplexity>},
    {"bpc", MetricTypes::of<NoOptions, bpc>},
};

}  // namespace

Tensor MetricBatch::total(const Tensor& each) const { return sum(each.to(kFloat64) * counts); }

MetricTypes& metric_types() {
  static MetricTypes table("metric", {kMetrics});
  return table;
}

Metric metric(const std::string& name) {
  return metric_types().make(metric_types().component(name), {}, Device());
}

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
      loss_(losses().make(config.loss, {info.task, true})) {
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

Tensor Evaluator::sums_of(const Tensor& outputs, const Tensor& targets) {
  const NoGradGuard no_grad;
  const Tensor x = outputs.to(kFloat32);
  const MetricBatch batch = batch_of(x, targets);
  const Tensor count = sum(batch.counts);
  std::vector<Tensor> all = {
      stack({count, loss_(x, targets, Reduction::mean).to(kFloat64) * count})};
  for (Measured& m : measured_) {
    if (!m.metric.sums) continue;
    const Tensor sums = m.metric.sums(batch).to(kFloat64);
    m.shape = sums.shape();
    all.push_back(sums.flatten());
  }
  return all.size() == 1 ? all[0] : cat(all);
}

void Evaluator::add(const Tensor& sums) {
  const NoGradGuard no_grad;
  totals_ = totals_.defined() ? totals_.add_(sums) : sums;
}

Metrics Evaluator::read() const {
  const Tensor host = totals_.cpu();
  const std::span<const double> totals = host.span<double>();
  MetricSums all{totals[0], totals[1]};
  Metrics out;
  out.values.emplace_back("loss", all.loss / all.count);
  size_t from = 2;
  for (const auto& [name, metric, shape] : measured_) {
    const size_t n = metric.sums ? size_t(shape.numel()) : 0;
    all.sums = totals.subspan(from, n);
    from += n;
    if (metric.value) {
      out.values.emplace_back(name, metric.value(all));
      continue;
    }
    const size_t C = size_t(shape[1]);
    for (size_t first = 0; first < n; first += C) {
      const auto row = all.sums.subspan(first, C);
      out.confusion.emplace_back(row.begin(), row.end());
    }
  }
  return out;
}

std::vector<std::string> Evaluator::names() const {
  std::vector<std::string> names{"loss"};
  for (const Measured& m : measured_) {
    if (m.metric.value) names.push_back(m.name);
  }
  return names;
}

// --- on several ranks ---

// Adds the sums of so many batches, one of each rank, on the first in their order: as one rank
// alone would. `count` of them are there, `numel` long.
static void add_in_turn(Evaluator& evaluator, const Tensor& own, int64_t count, int64_t numel,
                        const Communicator& ranks) {
  const TensorOptions doubles{.dtype = kFloat64, .device = ranks.device()};
  const Tensor all = zeros({ranks.size() * numel}, doubles);
  ranks.all_gather(all, own.defined() ? own : zeros({numel}, doubles)).wait();
  for (int64_t i = 0; ranks.rank() == 0 && i < count; ++i) {
    evaluator.add(all.narrow(0, i * numel, numel).clone());
  }
}

// What the first measured.
static Metrics of_first(const Evaluator& evaluator, const Communicator& ranks) {
  Metrics out = ranks.rank() == 0 ? evaluator.read() : Metrics{};
  const std::vector<std::string> names = evaluator.names();
  const Tensor values = zeros({std::ssize(names)}, {.dtype = kFloat64});
  for (size_t i = 0; i < out.values.size(); ++i) values.data<double>()[i] = out.values[i].second;
  const Tensor sent = values.to(ranks.device());
  ranks.broadcast(sent).wait();
  const std::vector<double> all = sent.cpu().to_vector<double>();
  for (size_t i = out.values.size(); i < names.size(); ++i)
    out.values.emplace_back(names[i], all[i]);
  return out;
}

Metrics evaluate(Module& model, DataLoader& batches, int64_t epoch, const RunConfig& config,
                 const DataInfo& info, const Communicator& ranks) {
  const NoGradGuard no_grad;
  const Device device = ranks.device();
  const Autocast half = autocast_of(config.train.precision, device.type());
  const bool was_training = model.is_training();
  model.eval();
  Evaluator evaluator(config, info, device);
  batches.start(epoch);
  const auto next = [&] {
    const std::optional<Batch> batch = batches.next();
    return batch ? evaluator.sums_of(model(batch->inputs), batch->targets) : Tensor();
  };
  if (ranks.size() == 1) {
    for (Tensor own = next(); own.defined(); own = next()) evaluator.add(own);
  } else {
    // How many batches there are on all ranks, and how long their sums, which the first has.
    Tensor own = next();
    const Tensor known = zeros({2}, {.dtype = kInt64});
    known.data<int64_t>()[0] = batches.steps_per_epoch();
    known.data<int64_t>()[1] = ranks.rank() == 0 ? own.numel() : 0;
    const Tensor sent = known.to(device);
    ranks.all_reduce(sent).wait();
    const std::vector<int64_t> all = sent.cpu().to_vector<int64_t>();
    for (int64_t left = all[0]; left > 0; left -= ranks.size()) {
      add_in_turn(evaluator, own, std::min<int64_t>(left, ranks.size()), all[1], ranks);
      own = next();
    }
  }
  model.train(was_training);
  return ranks.size() == 1 ? evaluator.read() : of_first(evaluator, ranks);
}

std::string to_text(const Metrics& metrics, const DataInfo& info) {
  std::string out;
  for (const auto& [name, value] : metrics.values) {
    const bool is_share = name != "loss" && metric(name).is_share;
    out += is_share ? fmt::format("{:<16} {:.2f} %\n", cat("test ", name, ":"), 100 * value)
                    : fmt::format("{:<16} {:.4f}\n", cat("test ", name, ":"), value);
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

}  // namespace taper::inline v0::runner
