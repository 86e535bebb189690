#include "apps/runner/many/lr_find.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "apps/runner/base/files.h"
#include "apps/runner/base/text_table.h"
#include "apps/runner/run/run_metadata.h"
#include "apps/runner/train/train.h"
#include "framework/base/log.h"

namespace taper::v0::runner {
namespace {

using Json = nlohmann::ordered_json;

constexpr double kDecay = 0.9;
constexpr double kDiverged = 4;  // times the smallest average
constexpr size_t kShownPoints = 12;

// Collects the losses, and ends the run once they have grown too much.
class RateObserver : public Observer {
 public:
  RateObserver(double low, double factor) : low_(low), factor_(factor) {}

  bool on_step(int64_t step, double loss, double) override {
    if (!std::isfinite(loss)) return false;
    sum_ = kDecay * sum_ + (1 - kDecay) * loss;
    weight_ = kDecay * weight_ + (1 - kDecay);
    const double average = sum_ / weight_;
    least_ = points.empty() ? average : std::min(least_, average);
    points.push_back({low_ * std::pow(factor_, double(step - 1)), loss, average});
    return average <= kDiverged * least_;
  }

  std::vector<RatePoint> points;

 private:
  const double low_, factor_;
  double sum_ = 0, weight_ = 0, least_ = 0;
};

void write_json(const LrFindResult& result, const fs::path& file) {
  Json points = Json::array();
  for (const RatePoint& point : result.points)
    points.push_back({{"lr", point.lr}, {"loss", point.loss}, {"average", point.average}});
  const Json json = {{"proposed", result.proposed}, {"lowest", result.lowest}, {"points", points}};
  write_file(file, json.dump(2) + "\n");
}

// Trains, and leaves out the warnings about results, because the rates become too high on purpose.
// Other warnings during the steps are logged after them.
void train_until_it_diverges(const RunConfig& config, const fs::path& dir, RateObserver& observer) {
  std::vector<std::string> warnings;
  TrainResult result;
  {
    const LogGuard hold([&](LogLevel level, const std::string& text) {
      const bool is_held = level == LogLevel::kWarning && !observer.points.empty();
      if (is_held) warnings.push_back(text);
      return !is_held;
    });
    result = train(config, dir, {.observer = &observer});
  }
  for (const std::string& text : warnings) {
    if (std::ranges::count(result.warnings, text) == 0) warn(text);
  }
}

}  // namespace

LrFindResult propose_rate(std::vector<RatePoint> points) {
  require<Diverged>(!points.empty(), "the loss was not finite in the first step");
  LrFindResult out{.points = std::move(points)};
  const std::vector<RatePoint>& all = out.points;
  const auto lowest = std::ranges::min_element(all, {}, &RatePoint::average);
  double steepest = 0;
  for (size_t i = 1; i + 1 < all.size() && all.begin() + std::ptrdiff_t(i) <= lowest; ++i) {
    const double slope = (all[i + 1].average - all[i - 1].average) /
                         (std::log(all[i + 1].lr) - std::log(all[i - 1].lr));
    if (slope >= steepest) continue;
    steepest = slope;
    out.proposed = all[i].lr;
  }
  require<Diverged>(steepest < 0,
                    "the loss does not fall at any learning rate, so none is "
                    "proposed; check the data and the model, or try a wider range with --low and "
                    "--high");
  out.lowest = lowest->lr;
  return out;
}

LrFindResult find_rate(const std::string& file, const std::vector<std::string>& overrides,
                       const fs::path& dir, const LrFindOptions& options) {
  require<ConfigError>(options.low < options.high, "--low must be below --high");
  const double factor =
      std::pow(options.high / options.low, 1 / double(std::max<int64_t>(1, options.steps - 1)));
  std::vector<std::string> words = overrides;
  // The file may leave the type to the default, which an override of the rate alone would not.
  words.push_back("optimizer.type=" + load_run_config(file, overrides).optimizer.type);
  words.insert(words.end(), {"train.epochs=null", fmt::format("train.steps={}", options.steps),
                             fmt::format("optimizer.lr={}", options.low),
                             fmt::format("schedule={{type: exponential, gamma: {}}}", factor),
                             fmt::format("train.eval_every={}", options.steps),
                             "train.early_stopping=null", "train.best=null", "train.on_nan=skip"});
  RateObserver observer(options.low, factor);
  train_until_it_diverges(load_run_config(file, words), dir, observer);
  LrFindResult result = propose_rate(std::move(observer.points));
  write_json(result, dir / "lr_find.json");
  return result;
}

std::string to_text(const LrFindResult& result) {
  std::vector<std::vector<std::string>> rows = {{"learning rate", "average loss"}};
  const size_t stride = std::max<size_t>(1, result.points.size() / kShownPoints);
  for (size_t i = 0; i < result.points.size(); i += stride) {
    const RatePoint& point = result.points[i];
    rows.push_back({fmt::format("{:.2g}", point.lr), fmt::format("{:.4g}", point.average)});
  }
  return text_table(rows, 0, 1) + fmt::format(
                                      "the loss falls fastest at {:.2g} and is lowest at {:.2g}\n"
                                      "proposed: optimizer.lr={:.2g}\n",
                                      result.proposed, result.lowest, result.proposed);
}

}  // namespace taper::v0::runner
