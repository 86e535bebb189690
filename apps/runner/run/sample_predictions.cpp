#include "apps/runner/run/sample_predictions.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "apps/runner/base/string_utils.h"
#include "apps/runner/components/components.h"
#include "apps/runner/components/normalized_source.h"
#include "apps/runner/run/batches.h"
#include "apps/runner/settings/autocast.h"
#include "autograd/node.h"
#include "autograd/ops/binary_ops.h"
#include "autograd/ops/index/index_ops.h"
#include "autograd/ops/reduce_ops.h"
#include "autograd/ops/shape_ops.h"
#include "autograd/ops/unary_ops.h"
#include "data/images/image_encoding.h"
#include "data/images/image_files.h"
#include "data/images/image_transforms.h"
#include "data/tokenizer.h"
#include "framework/factory/factories.h"

namespace taper::v0::runner {
namespace {

using PredictionJson = nlohmann::ordered_json;

constexpr int64_t kSamples = 200, kChunk = 50;
constexpr size_t kExamples = 16, kPoints = 400, kMaxTargets = 6, kLikeliest = 3, kMaxLabels = 20;
constexpr int64_t kSide = 48;  // of a picture
constexpr size_t kText = 400;  // bytes of a text

// Samples with their predictions, on the CPU.
struct Predicted {
  data::Batch batch;
  Tensor outputs;  // [n, outputs] float32: probabilities or values
};

Predicted predict_first(Module& model, const RunConfig& config, const DataInfo& info,
                        const data::Dataset& part, Device device) {
  const NoGradGuard no_grad;
  const AutocastGuard half = autocast_of(config, device.type());
  const Loss loss = losses().make(config.loss, loss_site(info, true));
  const int64_t count = std::min(kSamples, part.size());
  const int64_t chunk = std::min(kChunk, eval_batch_size_of(config, info));
  std::vector<data::Batch> batches;
  std::vector<Tensor> outputs;
  for (int64_t first = 0; first < count; first += chunk) {
    const int64_t end = std::min(first + chunk, count);
    batches.push_back(part.get(arange(first, end, 1, {.dtype = kInt64})));
    const Tensor x = batches.back().inputs.to(device);
    const Tensor y = run_model(model, config.model, info, x).to(kFloat32);
    outputs.push_back(loss.prediction(y).to(kFloat32).cpu());
  }
  return {data::joined(batches, [](const std::vector<Tensor>& parts) { return cat(parts); }),
          cat(outputs).contiguous()};
}

// --- examples of classes ---

std::string base64_of(std::string_view bytes) {
  constexpr std::string_view kLetters =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string out;
  for (size_t i = 0; i < bytes.size(); i += 3) {
    uint32_t group = 0;
    const size_t n = std::min<size_t>(3, bytes.size() - i);
    for (size_t k = 0; k < 3; ++k) {
      group = group << 8 | (k < n ? static_cast<unsigned char>(bytes[i + k]) : 0U);
    }
    for (size_t k = 0; k < 4; ++k) {
      out += k <= n ? kLetters[group >> (18 - 6 * k) & 63] : '=';
    }
  }
  return out;
}

bool is_picture(const DataInfo& info) {
  return info.input_shape.size() == 3 && info.vocab_size() == 0 &&
         (info.input_shape[0] == 1 || info.input_shape[0] == 3);
}

// Returns the pictures [n, C, h, w] in [0, 1], reduced to at most kSide pixels each way. Sets
// is_stretched if they had to be scaled to their own range.
Tensor pictures_of(const Tensor& inputs, const RunConfig& config, const DataInfo& info,
                   bool& is_stretched) {
  data::NormalizeOptions by;
  if (info.images) by = {info.images->mean, info.images->std};
  const std::vector<Component>& transforms = config.data.transforms;
  if (const size_t at = find_normalize(transforms); at < transforms.size()) {
    by = *transforms[at].get_if<data::NormalizeOptions>();
  }
  Tensor x = inputs.to(kFloat32);
  if (!by.mean.empty()) x = data::denormalize_channels(x, by);
  const double scale = double(kSide) / double(std::max({x.size(2), x.size(3), kSide}));
  const auto side = [scale](int64_t n) {
    return std::max<int64_t>(1, std::llround(double(n) * scale));
  };
  if (scale < 1) x = data::resize(x, side(x.size(2)), side(x.size(3)));
  constexpr double kMargin = 0.01;  // beyond [0, 1], from rounding
  is_stretched = amin(x).item<float>() < -kMargin || amax(x).item<float>() > 1 + kMargin;
  if (!is_stretched) return clamp(x, 0, 1);
  const Tensor low = amin(x, {1, 2, 3}, true), high = amax(x, {1, 2, 3}, true);
  return (x - low) / clamp(high - low, 1e-12);
}

// Returns the pixels of a picture [C, h, w] as rows of interleaved channels in base64.
std::string pixels_of(const Tensor& picture) {
  const std::vector<float> values = picture.permute({1, 2, 0}).contiguous().to_floats();
  std::string bytes;
  for (const float v : values) bytes += char(std::lround(255 * (v > 0 ? std::min(v, 1.0F) : 0.0F)));
  return base64_of(bytes);
}

// Returns the text of tokens without padding, at most kText bytes.
std::string text_of(const Tensor& tokens, const data::Tokenizer& tokenizer) {
  std::vector<int64_t> ids = tokens.to_vector<int64_t>();
  const std::optional<int64_t> padding = tokenizer.special_id(data::Tokenizer::kPadding);
  std::erase_if(ids, [&](int64_t id) { return id == padding || id < 0 || id >= tokenizer.size(); });
  std::string text = tokenizer.decode(ids);
  if (text.size() > kText) text = text.substr(0, kText) + " ...";
  return text;
}

// The decision about a sample. wanted and given: classes, or the labels that hold.
struct Decision {
  size_t row = 0;
  PredictionJson wanted, given;
  bool is_hit = false;
  float confidence = 0;
};

Decision decide_class(size_t row, std::span<const float> p, int64_t wanted, const DataInfo& info) {
  auto given = size_t(std::ranges::max_element(p) - p.begin());
  if (!info.thresholds.empty()) given = double(p[1]) >= info.thresholds[0];
  return {row, wanted, given, given == size_t(wanted), p[given]};
}

Decision decide_labels(size_t row, std::span<const float> p, std::span<const float> wanted,
                       const DataInfo& info) {
  Decision out{row, PredictionJson::array(), PredictionJson::array(), true, 1};
  for (size_t k = 0; k < p.size(); ++k) {
    const double threshold = info.thresholds.empty() ? 0.5 : info.thresholds[k];
    const bool is_given = double(p[k]) >= threshold, is_wanted = wanted[k] > 0.5F;
    if (is_wanted) out.wanted.push_back(k);
    if (is_given) out.given.push_back(k);
    if (is_given == is_wanted) continue;
    out.is_hit = false;
    out.confidence = std::max(out.confidence, is_given ? 1 + p[k] : 2 - p[k]);
  }
  return out;
}

// Returns the decisions that are shown: errors before hits, and the most confident errors first.
std::vector<Decision> chosen_decisions(const Predicted& predicted, const DataInfo& info) {
  const auto columns = size_t(predicted.outputs.size(1));
  const std::span<const float> p = predicted.outputs.span<float>();
  const Tensor targets = predicted.batch.targets.contiguous();
  const bool is_labels = !info.labels.empty();
  const std::vector<float> wanted =
      is_labels ? targets.to(kFloat32).to_floats() : std::vector<float>();
  std::vector<Decision> all;
  for (size_t i = 0; i < size_t(predicted.outputs.size(0)); ++i) {
    const std::span<const float> row = p.subspan(i * columns, columns);
    all.push_back(is_labels
                      ? decide_labels(i, row, std::span(wanted).subspan(i * columns, columns), info)
                      : decide_class(i, row, targets.span<int64_t>()[i], info));
  }
  std::ranges::stable_sort(all, [](const Decision& a, const Decision& b) {
    if (a.is_hit != b.is_hit) return b.is_hit;
    return !a.is_hit && a.confidence > b.confidence;
  });
  if (all.size() > kExamples) all.resize(kExamples);
  return all;
}

// Returns the likeliest classes, or all labels, as [class, probability].
PredictionJson probabilities_of(std::span<const float> p, bool is_labels) {
  std::vector<size_t> order(p.size());
  std::iota(order.begin(), order.end(), size_t(0));
  std::ranges::stable_sort(order, [&](size_t a, size_t b) { return p[a] > p[b]; });
  order.resize(std::min(order.size(), is_labels ? kMaxLabels : kLikeliest));
  PredictionJson out = PredictionJson::array();
  for (const size_t c : order) out.push_back({c, std::round(double(p[c]) * 1e4) / 1e4});
  return out;
}

void add_examples(const Predicted& predicted, const RunConfig& config, const DataInfo& info,
                  PredictionJson& out) {
  const std::vector<Decision> chosen = chosen_decisions(predicted, info);
  std::vector<int64_t> rows;
  for (const Decision& each : chosen) rows.push_back(int64_t(each.row));
  const Tensor inputs =
      index_select(predicted.batch.inputs, 0, tensor_of(rows.data(), {std::ssize(rows)}));
  bool is_stretched = false;
  Tensor pictures;
  if (is_picture(info)) {
    pictures = pictures_of(inputs, config, info, is_stretched);
    out["picture"] = {{"width", pictures.size(3)},
                      {"height", pictures.size(2)},
                      {"channels", pictures.size(1)},
                      {"is_stretched", is_stretched}};
  }
  const auto columns = size_t(predicted.outputs.size(1));
  out["examples"] = PredictionJson::array();
  for (size_t i = 0; i < chosen.size(); ++i) {
    const Decision& d = chosen[i];
    const auto p = predicted.outputs.span<float>().subspan(d.row * columns, columns);
    PredictionJson one = {{"row", d.row},
                          {"true", d.wanted},
                          {"predicted", d.given},
                          {"is_hit", d.is_hit},
                          {"probabilities", probabilities_of(p, !info.labels.empty())}};
    if (pictures.defined()) one["pixels"] = pixels_of(pictures.select(0, int64_t(i)));
    if (info.tokenizer) one["text"] = text_of(inputs.select(0, int64_t(i)), *info.tokenizer);
    out["examples"].push_back(std::move(one));
  }
}

// --- values ---

// Returns values [n, targets] in the unit of the data.
Tensor original_values(const Tensor& values, const Predicted& predicted, const DataInfo& info) {
  const Tensor x = values.to(kFloat64);
  if (info.series) {
    if (predicted.batch.others.empty()) return x.reshape({-1, 1});
    const Tensor& scales = predicted.batch.others[0];
    return (x * scales.narrow(1, 1, 1) + scales.narrow(1, 0, 1)).reshape({-1, 1});
  }
  std::vector<Tensor> columns;
  for (const data::TargetScale& scale : info.target_scales()) {
    const Tensor column = x.narrow(1, std::ssize(columns), 1) * scale.std + scale.mean;
    columns.push_back(scale.is_log ? exp(column) : column);
  }
  return cat(columns, 1);
}

// Returns the value with seven significant digits, which are those of float32.
double shortened_value(double value) {
  double out = value;
  if (std::isfinite(value)) (void)parse_number(fmt::format("{:.7g}", value), out);
  return out;
}

void add_values(const Predicted& predicted, const DataInfo& info, PredictionJson& out) {
  const Tensor& y = predicted.batch.targets;
  const Tensor wanted =
      original_values(y.reshape(predicted.outputs.shape()), predicted, info).contiguous();
  const Tensor given = original_values(predicted.outputs, predicted, info).contiguous();
  const auto columns = size_t(wanted.size(1));
  const std::span<const double> a = wanted.span<double>(), b = given.span<double>();
  const std::vector<data::TargetScale> scales = info.target_scales();
  const size_t points = std::min(kPoints, size_t(wanted.size(0)));
  out["values"] = PredictionJson::array();
  for (size_t k = 0; k < std::min(columns, kMaxTargets); ++k) {
    PredictionJson list = PredictionJson::array();
    for (size_t i = k; i < points * columns; i += columns) {
      list.push_back({shortened_value(a[i]), shortened_value(b[i])});
    }
    const std::string name = k < scales.size() ? scales[k].name : "";
    out["values"].push_back({{"name", name}, {"points", std::move(list)}});
  }
}

}  // namespace

std::string sample_predictions(Module& model, const RunConfig& config, const DataInfo& info,
                               const data::Dataset& part, Device device) {
  const Predicted predicted = predict_first(model, config, info, part, device);
  PredictionJson out = {{"samples", predicted.outputs.size(0)}};
  if (info.task == Task::kRegression) add_values(predicted, info, out);
  if (info.task == Task::kClassification) add_examples(predicted, config, info, out);
  return out.dump(-1, ' ', false, PredictionJson::error_handler_t::replace);
}

}  // namespace taper::v0::runner
