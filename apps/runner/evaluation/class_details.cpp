#include "apps/runner/evaluation/class_details.h"

#include <algorithm>
#include <cmath>

#include <nlohmann/json.hpp>

namespace taper::v0::runner {
namespace {

using DetailsJson = nlohmann::ordered_json;

constexpr size_t kMaxClasses = 1000, kMaxMatrix = 200, kMaxRows = 100, kMaxPairs = 60,
                 kMaxCurves = 50;
// Confidences are divided into bins like those of data::calibration_error().
constexpr size_t kConfidenceBins = 15;
// Log-odds are counted between these limits. Probabilities beyond them are hardly represented by
// float32 (close to 1) or do not matter (close to 0).
constexpr size_t kScoreBins = 16384;
constexpr double kLowest = -24, kHighest = 17;
// A ROC curve is thinned out to points at least this far apart.
constexpr double kMinDistance = 1.0 / 48;

// The offsets of the sums: the number of samples, then confidence bins with their weight,
// confidence and hits, then samples, predictions and hits of each class, then the confusion matrix,
// then for each class the scores of the others and its own.
constexpr size_t kCalibration = 1, kRates = kCalibration + 3 * kConfidenceBins;

size_t score_bin(double probability) {
  const double odds = std::log(probability) - std::log1p(-probability);
  if (!(odds > kLowest)) return 0;  // includes nan
  if (odds >= kHighest) return kScoreBins - 1;
  const auto bin = size_t((odds - kLowest) / (kHighest - kLowest) * double(kScoreBins));
  return std::min(bin, kScoreBins - 1);
}

double rounded(double x) { return std::round(x * 1e5) / 1e5; }

// Returns the calibration as JSON from the weight, confidence and hits of each bin.
DetailsJson calibration_of(std::span<const double> bins) {
  double all = 0, error = 0;
  for (size_t i = 0; i < bins.size(); i += 3) {
    all += bins[i];
    error += std::abs(bins[i + 1] - bins[i + 2]);
  }
  DetailsJson list = DetailsJson::array();
  for (size_t i = 0; i < bins.size(); i += 3) {
    if (bins[i] <= 0) continue;
    list.push_back(
        {rounded(bins[i + 1] / bins[i]), rounded(bins[i + 2] / bins[i]), rounded(bins[i] / all)});
  }
  return {{"error", all > 0 ? rounded(error / all) : 0}, {"bins", list}};
}

// Returns the ROC curve as JSON. counts: the weights of the others in each bin of scores, then
// those of the class. Returns null if one of them has no samples.
DetailsJson roc_of(size_t number, std::span<const double> counts) {
  const auto others = counts.first(kScoreBins), own = counts.last(kScoreBins);
  double negatives = 0, positives = 0, all_negatives = 0, all_positives = 0, area = 0;
  for (const double x : others) all_negatives += x;
  for (const double x : own) all_positives += x;
  if (all_negatives <= 0 || all_positives <= 0) return nullptr;
  DetailsJson points = {{0, 0}};
  double last = 0;
  for (size_t i = kScoreBins; i-- > 0;) {
    area += others[i] * (positives + own[i] / 2);
    negatives += others[i];
    positives += own[i];
    const double x = negatives / all_negatives, y = positives / all_positives;
    if (x + y - last < kMinDistance) continue;
    last = x + y;
    points.push_back({rounded(x), rounded(y)});
  }
  points.push_back({1, 1});
  return {{"class", number},
          {"auc", rounded(area / all_negatives / all_positives)},
          {"points", std::move(points)}};
}

struct Confused {
  int64_t count;
  size_t wanted, given;
};

// Returns the most frequent errors.
std::vector<Confused> most_confused(const std::vector<std::vector<int64_t>>& counts) {
  std::vector<Confused> all;
  for (size_t i = 0; i < counts.size(); ++i) {
    for (size_t j = 0; j < counts[i].size(); ++j) {
      if (i != j && counts[i][j] > 0) all.push_back({counts[i][j], i, j});
    }
  }
  std::ranges::stable_sort(all, std::greater(), &Confused::count);
  if (all.size() > kMaxPairs) all.resize(kMaxPairs);
  return all;
}

DetailsJson confusion_of(const std::vector<std::vector<int64_t>>& counts) {
  DetailsJson classes = DetailsJson::array();
  for (size_t i = 0; i < counts.size(); ++i) {
    int64_t samples = 0, predictions = 0;
    for (const int64_t n : counts[i]) samples += n;
    for (const std::vector<int64_t>& row : counts) predictions += i < row.size() ? row[i] : 0;
    classes.push_back({samples, predictions, i < counts[i].size() ? counts[i][i] : 0});
  }
  DetailsJson out = {{"classes", std::move(classes)}};
  if (counts.size() <= kMaxRows) {
    out["rows"] = counts;
    return out;
  }
  out["pairs"] = DetailsJson::array();
  for (const Confused& each : most_confused(counts)) {
    out["pairs"].push_back({each.wanted, each.given, each.count});
  }
  return out;
}

}  // namespace

std::string confusion_json(const std::vector<std::vector<int64_t>>& counts) {
  return confusion_of(counts).dump();
}

bool ClassDetails::fits(const DataInfo& info) {
  const size_t classes = info.labels.empty() ? size_t(info.outputs) : info.labels.size();
  return info.task == Task::kClassification && classes <= kMaxClasses &&
         (classes > 1 || !info.labels.empty());
}

ClassDetails::ClassDetails(const DataInfo& info)
    : classes_(info.labels.empty() ? size_t(info.outputs) : info.labels.size()),
      num_sums_(0),
      is_labels_(!info.labels.empty()),
      has_matrix_(!is_labels_ && classes_ <= kMaxMatrix),
      has_scores_(classes_ <= kMaxCurves),
      thresholds_(info.thresholds) {
  num_sums_ = kRates + 3 * classes_ + (has_matrix_ ? classes_ * classes_ : 0) +
              (has_scores_ ? 2 * classes_ * kScoreBins : 0);
}

size_t ClassDetails::predicted_class(std::span<const float> row) const {
  if (!thresholds_.empty()) return double(row[1]) >= thresholds_[0];
  return size_t(std::ranges::max_element(row) - row.begin());
}

bool ClassDetails::is_predicted_label(std::span<const float> row, size_t label) const {
  return double(row[label]) >= (thresholds_.empty() ? 0.5 : thresholds_[label]);
}

void ClassDetails::add_confidence(double confidence, bool is_hit, double weight,
                                  std::span<double> sums) const {
  const double at = std::floor(confidence * double(kConfidenceBins));
  const auto bin = size_t(std::clamp(at, 0.0, double(kConfidenceBins - 1)));
  double* of = &sums[kCalibration + 3 * bin];
  of[0] += weight;
  of[1] += weight * confidence;
  of[2] += is_hit ? weight : 0;
}

void ClassDetails::add_decision(size_t wanted, size_t given, std::span<double> sums) const {
  ++sums[kRates + 3 * wanted];
  ++sums[kRates + 3 * given + 1];
  if (wanted == given) ++sums[kRates + 3 * wanted + 2];
  if (has_matrix_) ++sums[kRates + 3 * classes_ + wanted * classes_ + given];
}

// holds: 1 for the class of the sample, or for each label that holds; 0 otherwise.
void ClassDetails::add_sample(std::span<const float> row, std::span<const float> holds,
                              double weight, std::span<double> sums) const {
  ++sums[0];
  const size_t scores = kRates + 3 * classes_ + (has_matrix_ ? classes_ * classes_ : 0);
  for (size_t c = 0; has_scores_ && c < classes_; ++c) {
    const size_t own = holds[c] > 0.5f ? kScoreBins : 0;
    sums[scores + 2 * c * kScoreBins + own + score_bin(double(row[c]))] += weight;
  }
  if (!is_labels_) {
    const auto wanted = size_t(std::ranges::max_element(holds) - holds.begin());
    const auto likeliest = std::ranges::max_element(row);
    add_confidence(double(*likeliest), size_t(likeliest - row.begin()) == wanted, weight, sums);
    return add_decision(wanted, predicted_class(row), sums);
  }
  for (size_t c = 0; c < classes_; ++c) {
    const bool is_wanted = holds[c] > 0.5f, is_given = is_predicted_label(row, c);
    const double p = double(row[c]);
    add_confidence(std::max(p, 1 - p), (p >= 0.5) == is_wanted, weight, sums);
    double* of = &sums[kRates + 3 * c];
    of[0] += is_wanted;
    of[1] += is_given;
    of[2] += is_wanted && is_given;
  }
}

std::vector<double> ClassDetails::sums_of(const Tensor& probabilities, const Tensor& targets,
                                          const Tensor& weights) const {
  std::vector<double> out(num_sums_);
  const Tensor p = probabilities.to(kFloat32).cpu().contiguous();
  const Tensor y = targets.cpu().contiguous();
  const std::vector<float> labels = is_labels_ ? y.to(kFloat32).to_floats() : std::vector<float>();
  const std::vector<int64_t> of_sample =
      is_labels_ ? std::vector<int64_t>() : y.to(kInt64).to_vector<int64_t>();
  const std::vector<double> weight = weights.defined()
                                         ? weights.to(kFloat64).cpu().to_vector<double>()
                                         : std::vector<double>(size_t(p.size(0)), 1.0);
  std::vector<float> holds(classes_);
  for (size_t i = 0; i < weight.size(); ++i) {
    if (is_labels_)
      std::copy_n(labels.begin() + std::ptrdiff_t(i * classes_), classes_, holds.begin());
    if (!is_labels_) {
      std::ranges::fill(holds, 0.0f);
      holds.at(size_t(of_sample[i])) = 1;
    }
    add_sample(p.span<float>().subspan(i * classes_, classes_), holds, weight[i], out);
  }
  return out;
}

std::string ClassDetails::to_json(std::span<const double> sums) const {
  const auto count = [](double n) { return int64_t(std::llround(n)); };
  DetailsJson out = {{"samples", count(sums[0])}};
  const auto rates = sums.subspan(kRates, 3 * classes_);
  const auto matrix = sums.subspan(kRates + 3 * classes_, has_matrix_ ? classes_ * classes_ : 0);
  std::vector<std::vector<int64_t>> rows(has_matrix_ ? classes_ : 0);
  for (size_t i = 0; i < matrix.size(); ++i) rows[i / classes_].push_back(count(matrix[i]));
  if (has_matrix_) out["confusion"] = confusion_of(rows);
  for (size_t i = 0; !has_matrix_ && i < rates.size(); i += 3) {
    out["confusion"]["classes"].push_back(
        {count(rates[i]), count(rates[i + 1]), count(rates[i + 2])});
  }
  out["calibration"] = calibration_of(sums.subspan(kCalibration, 3 * kConfidenceBins));
  if (!has_scores_) return out.dump();
  const auto scores = sums.last(2 * classes_ * kScoreBins);
  out["roc"] = DetailsJson::array();
  for (size_t c = classes_ == 2 && !is_labels_ ? 1 : 0; c < classes_; ++c) {
    const DetailsJson curve = roc_of(c, scores.subspan(2 * c * kScoreBins, 2 * kScoreBins));
    if (!curve.is_null()) out["roc"].push_back(curve);
  }
  return out.dump();
}

}  // namespace taper::v0::runner
