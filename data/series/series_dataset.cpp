#include "data/series/series_dataset.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>

#include "framework/base/cancel.h"
#include "framework/factory/factories.h"

namespace taper::v0::data {
namespace {

// Sums of the errors of a forecast.
struct ErrorSums {
  double absolute = 0, symmetric = 0, scaled = 0;
  int64_t count = 0;

  void add(double forecast, double value, const SeriesScale& scale) {
    constexpr double kTiny = 2.2e-16;  // as in symmetric_mean_absolute_percentage_error()
    const double error = std::abs(forecast - value);
    absolute += error;
    symmetric += 2 * error / std::max(std::abs(forecast) + std::abs(value), kTiny);
    scaled += error / scale.naive;
    ++count;
  }
  Baseline named(const char* name) const {
    const double n = double(std::max<int64_t>(count, 1));
    return {name, {{"mae", absolute / n}, {"smape", symmetric / n}, {"mase", scaled / n}}};
  }
};

// Returns the value of the latest step that is a whole number of seasons before `step` and not
// after `last`.
double seasonal_value(const OneSeries& series, int64_t step, int64_t last, int64_t season) {
  const int64_t seasons = (step - last + season - 1) / season;
  const int64_t before = step - seasons * season;
  return series.values[size_t(before >= 0 ? before : last)];
}

// Returns the mean absolute difference between values that are `lag` steps apart; 0 without any.
double difference(const OneSeries& s, int64_t steps, int64_t lag) {
  double sum = 0;
  int64_t count = 0;
  for (int64_t i = lag; i < steps; ++i) {
    if (s.is_filled[size_t(i)] || s.is_filled[size_t(i - lag)]) continue;
    sum += std::abs(s.values[size_t(i)] - s.values[size_t(i - lag)]);
    ++count;
  }
  return count > 0 ? sum / double(count) : 0;
}

}  // namespace

void write_features(const OneSeries& series, const SeriesEncoding& encoding,
                    const SeriesScale& scale, int64_t first, std::span<float> out) {
  size_t at = 0;
  for (int64_t i = 0; i < encoding.past; ++i) {
    out[at++] = float((series.values[size_t(first + i)] - scale.mean) / scale.std);
  }
  const auto known = size_t(encoding.known_features());
  const int64_t steps = encoding.past + encoding.horizon;
  if (known > 0) {
    const auto from = series.known.begin() + std::ptrdiff_t(size_t(first) * known);
    std::copy_n(from, size_t(steps) * known, out.begin() + std::ptrdiff_t(at));
    at += size_t(steps) * known;
  }
  const auto calendar = size_t(encoding.calendar_features());
  for (int64_t i = encoding.past; calendar > 0 && i < steps; ++i) {
    encoding.step.calendar_features(series.time_at(first + i, encoding.step),
                                    out.subspan(at, calendar));
    at += calendar;
  }
}

SeriesScale fit_scale(const OneSeries& series, const SeriesEncoding& encoding, int64_t steps) {
  SeriesScale out{.name = series.name};
  steps = std::clamp<int64_t>(steps, 0, series.size());
  double sum = 0, squares = 0;
  int64_t count = 0;
  for (int64_t i = 0; i < steps; ++i) {
    if (series.is_filled[size_t(i)]) continue;
    sum += series.values[size_t(i)];
    ++count;
  }
  if (count == 0) return out;
  out.mean = sum / double(count);
  for (int64_t i = 0; i < steps; ++i) {
    const double x = series.values[size_t(i)] - out.mean;
    if (!series.is_filled[size_t(i)]) squares += x * x;
  }
  const double std = std::sqrt(squares / double(count));
  out.std = std > 1e-12 * std::abs(out.mean) ? std : 1;
  for (const double naive :
       {difference(series, steps, encoding.season), difference(series, steps, 1), out.std}) {
    out.naive = naive;
    if (naive > 0) break;
  }
  return out;
}

std::vector<SeriesScale> scales_of(const SeriesGrid& grid, const SeriesEncoding& encoding) {
  std::map<std::string, const SeriesScale*> known;
  for (const SeriesScale& scale : encoding.scales) known[scale.name] = &scale;
  std::vector<SeriesScale> out;
  for (const OneSeries& series : grid.series) {
    const auto found = known.find(series.name);
    out.push_back(found != known.end() ? *found->second
                                       : fit_scale(series, encoding, encoding.past));
  }
  return out;
}

std::vector<Window> find_windows(const SeriesGrid& grid, const SeriesEncoding& encoding,
                                 const std::function<bool(double, double)>& takes) {
  std::vector<Window> out;
  for (size_t s = 0; s < grid.series.size(); ++s) {
    const OneSeries& series = grid.series[s];
    int64_t filled = -1;  // the last filled step up to the window's end
    const int64_t length = encoding.past + encoding.horizon;
    for (int64_t end = 0; end < series.size(); ++end) {
      if (series.is_filled[size_t(end)]) filled = end;
      const int64_t first = end + 1 - length, target = first + encoding.past;
      if (first < 0 || filled >= target) continue;
      if (takes(series.time_at(target, encoding.step), series.time_at(end, encoding.step))) {
        out.push_back({int64_t(s), first});
      }
    }
  }
  check_stop();
  return out;
}

SeriesDataset::SeriesDataset(std::shared_ptr<const SeriesGrid> grid,
                             std::shared_ptr<const SeriesEncoding> how,
                             std::vector<SeriesScale> scales, std::vector<Window> windows,
                             bool has_scales)
    : grid_(std::move(grid)),
      how_(std::move(how)),
      scales_(std::move(scales)),
      windows_(std::move(windows)),
      has_scales_(has_scales) {}

std::vector<std::string> SeriesDataset::fields() const {
  return has_scales_ ? std::vector<std::string>{"inputs", "targets", "scales"} : Dataset::fields();
}

Batch SeriesDataset::get(const Tensor& rows, bool) const {
  const std::vector<int64_t> numbers = rows.to_vector<int64_t>();
  const auto count = std::ssize(numbers);
  const int64_t width = how_->width(), horizon = how_->horizon;
  Batch out{zeros({count, width}), zeros({count, horizon})};
  const Tensor scale_rows = zeros({count, 3}, {.dtype = kFloat64});
  if (has_scales_) out.others = {scale_rows};
  const std::span<float> inputs = out.inputs.span<float>(), targets = out.targets.span<float>();
  const std::span<double> scales = scale_rows.span<double>();
  for (int64_t i = 0; i < count; ++i) {
    const int64_t number = numbers[size_t(i)];
    require<IndexError>(number >= 0 && number < size(), "row ", number,
                        " is out of range: the set ", "has ", size(), " windows");
    const auto [s, first] = windows_[size_t(number)];
    const OneSeries& series = grid_->series[size_t(s)];
    const SeriesScale& scale = scales_[size_t(s)];
    write_features(series, *how_, scale, first, inputs.subspan(size_t(i * width), size_t(width)));
    for (int64_t h = 0; h < horizon; ++h) {
      const double value = series.values[size_t(first + how_->past + h)];
      targets[size_t(i * horizon + h)] = float((value - scale.mean) / scale.std);
    }
    std::ranges::copy(std::array{scale.mean, scale.std, scale.naive},
                      scales.begin() + std::ptrdiff_t(3 * i));
  }
  return out;
}

size_t SeriesDataset::nbytes() const {
  size_t bytes = windows_.size() * sizeof(Window);
  for (const OneSeries& s : grid_->series) {
    bytes += s.values.size() * sizeof(double) + s.known.size() * sizeof(float);
  }
  return bytes;
}

std::vector<Baseline> baselines_of(const Dataset& set) {
  const auto* series = dynamic_cast<const SeriesDataset*>(&set);
  return series ? series->baselines() : std::vector<Baseline>();
}

std::vector<Baseline> SeriesDataset::baselines() const {
  ErrorSums last_value, seasonal;
  for (const auto& [s, first] : windows_) {
    const OneSeries& series = grid_->series[size_t(s)];
    const SeriesScale& scale = scales_[size_t(s)];
    const int64_t last = first + how_->past - 1;
    for (int64_t step = last + 1; step <= last + how_->horizon; ++step) {
      const double value = series.values[size_t(step)];
      last_value.add(series.values[size_t(last)], value, scale);
      seasonal.add(seasonal_value(series, step, last, how_->season), value, scale);
    }
  }
  std::vector<Baseline> out = {last_value.named("last value")};
  if (how_->season > 1) out.push_back(seasonal.named("one season ago"));
  return out;
}

}  // namespace taper::v0::data
