#include "apps/runner/train/evaluate.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include <spdlog/fmt/fmt.h>

#include "apps/runner/run/errors.h"
#include "apps/runner/run/text.h"
#include "autograd/autocast.h"
#include "autograd/ops/binary.h"
#include "autograd/ops/index.h"
#include "autograd/ops/matmul.h"
#include "autograd/ops/reduce.h"
#include "autograd/ops/shape.h"
#include "autograd/ops/unary.h"
#include "framework/factories.h"

namespace taper::runner {
namespace {

constexpr int64_t kMaxConfusion = 1000;  // classes

// What sums_ holds, over all samples or tokens. Of classes: how many are right, how many among the
// five likeliest, characters of the tokens. Of values: errors, squared errors, values, squares.
enum Sum { kCount, kLoss, kRight, kTop5, kCharacters, kNumSums = 6 };
enum { kError = 2, kSquaredError, kValue, kSquare };

double value_of(const std::string& name, const double* s, double target_std) {
  const double n = s[kCount];
  if (name == "loss") return s[kLoss] / n;
  if (name == "accuracy") return s[kRight] / n;
  if (name == "top5") return s[kTop5] / n;
  if (name == "perplexity") return std::exp(s[kLoss] / n);
  if (name == "bpc") return s[kLoss] / std::numbers::ln2 / s[kCharacters];
  if (name == "mae") return s[kError] / n * target_std;
  if (name == "rmse") return std::sqrt(s[kSquaredError] / n) * target_std;
  // r2; of values that are all the same there is none, and 0 is given.
  const double spread = s[kSquare] - s[kValue] * s[kValue] / n;
  return spread > 0 ? 1 - s[kSquaredError] / spread : 0;
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

}  // namespace

double Metrics::operator[](const std::string& name) const {
  std::string names;
  for (const auto& [known, value] : values) {
    if (known == name) return value;
    names += cat(names.empty() ? "" : ", ", known);
  }
  throw ConfigError(cat("'", name, "' is not among the metrics of the run: ", names));
}

Evaluator::Evaluator(const RunConfig& config, const DataInfo& info, Device device)
    : names_(metrics_of(config)),
      target_std_(info.target_std),
      is_regression_(info.task == Task::kRegression),
      loss_(losses().make(config.loss, {info.task, true})),
      sums_(zeros({kNumSums}, {.dtype = kFloat64, .device = device})) {
  if (measures("bpc") && info.tokenizer) {
    token_characters_ = characters_of_tokens(*info.tokenizer, device);
  }
  const int64_t C = info.outputs;
  if (!measures("confusion")) return;
  if (C > kMaxConfusion) {
    throw ConfigError(cat("metrics: a confusion matrix of ", C,
                          " classes is too large; the most is ", kMaxConfusion));
  }
  confusion_ = zeros({C, C}, {.dtype = kFloat64, .device = device});
}

bool Evaluator::measures(const char* name) const { return std::ranges::count(names_, name) > 0; }

void Evaluator::add(const Tensor& outputs, const Tensor& targets) {
  const NoGradGuard no_grad;
  const Tensor x = outputs.to(kFloat32);
  std::vector<Tensor> sums =
      is_regression_ ? sums_of_values(x.squeeze(-1), targets)
                     : sums_of_classes(x.reshape({-1, x.size(-1)}), targets.reshape({-1}));
  sums[kLoss] = loss_(x, targets, Reduction::mean).to(kFloat64) * sums[kCount];
  sums_.add_(stack(sums));
}

std::vector<Tensor> Evaluator::sums_of_values(const Tensor& x, const Tensor& y) const {
  const Tensor value = y.to(kFloat64), error = x.to(kFloat64) - value;
  return {full({}, double(y.numel()), {.dtype = kFloat64, .device = y.device()}),
          {},
          sum(abs(error)),
          sum(square(error)),
          sum(value),
          sum(square(value))};
}

std::vector<Tensor> Evaluator::sums_of_classes(const Tensor& x, const Tensor& y) const {
  const Tensor counts = ge(y, zeros_like(y)).to(kFloat64);
  const Tensor target = clamp(y, 0), predicted = argmax(x, 1);
  const Tensor none = zeros({}, {.dtype = kFloat64, .device = y.device()});
  const auto total = [&](const Tensor& each) { return sum(each.to(kFloat64) * counts); };
  std::vector<Tensor> sums = {sum(counts), {}, total(eq(predicted, target)), none, none, none};
  if (measures("top5")) {
    const Tensor rank = sum(gt(x, gather(x, 1, target.unsqueeze(1))), {1});
    sums[kTop5] = total(lt(rank, full_like(rank, 5)));
  }
  if (token_characters_.defined()) {
    sums[kCharacters] = total(embedding(token_characters_, target));
  }
  if (confusion_.defined()) {
    const int64_t C = x.size(1);
    const Tensor rows = one_hot(target, C).to(kFloat32) * counts.to(kFloat32).unsqueeze(1);
    confusion_.add_(matmul(rows.transpose(0, 1), one_hot(predicted, C).to(kFloat32)));
  }
  return sums;
}

Metrics Evaluator::read() const {
  Metrics out;
  const Tensor sums = sums_.cpu();
  const auto add = [&](const std::string& name) {
    out.values.emplace_back(name, value_of(name, sums.data<double>(), target_std_));
  };
  add("loss");
  for (const std::string& name : names_) {
    if (name != "confusion") add(name);
  }
  if (!confusion_.defined()) return out;
  const Tensor counts = confusion_.cpu().to(kInt64);
  for (int64_t i = 0; i < counts.size(0); ++i) {
    const std::span<int64_t> row = counts.select(0, i).span<int64_t>();
    out.confusion.emplace_back(row.begin(), row.end());
  }
  return out;
}

Metrics evaluate(Module& model, DataLoader& batches, int64_t epoch, const RunConfig& config,
                 const DataInfo& info, Device device) {
  const NoGradGuard no_grad;
  std::optional<Autocast> half;
  const Precision precision = config.train.precision;
  if (precision == Precision::kBf16) half.emplace(device.type(), kBFloat16);
  if (precision == Precision::kFp16) half.emplace(device.type(), kFloat16);
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
    const bool is_share = name == "accuracy" || name == "top5";
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
