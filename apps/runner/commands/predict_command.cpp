// `taper predict`.
#include <algorithm>
#include <cmath>

#include "apps/runner/commands/commands.h"
#include "apps/runner/components/components.h"
#include "apps/runner/report/progress.h"
#include "apps/runner/run/batches.h"
#include "apps/runner/run/host_state.h"
#include "apps/runner/run/log_sink.h"
#include "autograd/node.h"
#include "autograd/ops/binary_ops.h"
#include "autograd/ops/shape_ops.h"
#include "autograd/ops/unary_ops.h"
#include "data/series/series.h"
#include "framework/base/cancel.h"
#include "framework/base/log.h"
#include "framework/factory/factories.h"

namespace taper::v0::runner {

// Returns the text as a cell of a CSV file, in quotes if needed.
static std::string cell(const std::string& text) {
  if (text.find_first_of(",\"\n\r") == std::string::npos) return text;
  std::string out = "\"";
  for (const char c : text) out += c == '"' ? std::string("\"\"") : std::string(1, c);
  return out + '"';
}

// Formats an output in the unit of the data with all significant digits. float32 would lose digits
// if the offset is large, and double would show digits that a float32 output does not have.
static std::string value_text(float output, const data::TargetScale& scale) {
  constexpr double kRounding = 1e-6;
  const double value = scale.original(output);
  const double step = std::abs(scale.original(output + 1.0) - value);  // of the output's unit
  const bool is_rounded = std::abs(value - double(float(value))) > kRounding * step;
  return is_rounded ? concat_to_string(value) : concat_to_string(float(value));
}

Tensor predict_raw(const SavedRun& run, const Tensor& raw) {
  const DataInfo& info = run.info;
  const auto source = source_of(run.config.data);
  const DType dtype = source->raw_dtype(info);
  Shape wanted = info.input_shape;
  wanted.insert(0, raw.dim() > 0 ? raw.size(0) : 0);
  require<ValueError>(raw.dim() > 0 && raw.shape() == wanted,
                      "predict(): expected a batch of samples of shape ", info.input_shape,
                      ", but got a tensor of shape ", raw.shape());
  const bool fits = raw.dtype() == dtype || (raw.is_floating_point() && is_floating_point(dtype));
  require<TypeError>(fits, "predict(): expected raw samples of ", dtype, ", but got ", raw.dtype());
  const Tensor x = source->prepared(info, raw.to(run.device, dtype));
  const Tensor y = run_model(*run.model, run.config.model, run.info, x).to(run.device, kFloat32);
  if (info.task == Task::kLanguage) return y;
  const Tensor out = losses().make(run.config.loss, loss_site(info)).prediction(y);
  if (info.task != Task::kRegression || info.series) return out;  // a series has its own scale
  std::vector<Tensor> values;
  for (const data::TargetScale& scale : info.target_scales()) {
    const Tensor column = out.narrow(-1, std::ssize(values), 1) * scale.std + scale.mean;
    values.push_back(scale.is_log ? exp(column) : column);
  }
  return cat(values, -1);
}

Tensor SavedRun::predict(const Tensor& raw) const {
  const NoGradGuard no_grad;
  const AutocastGuard no_autocast{AutocastState()};
  const MatmulPrecisionGuard precision(matmul_precision_of(config));
  return predict_raw(*this, raw);
}

// Returns the names of the predicted columns: the prediction or each target or label, then the
// probability of each class or label.
static std::vector<std::string> predicted_columns(const DataInfo& info) {
  std::vector<std::string> names;
  const std::vector<data::TargetScale> scales = info.target_scales();
  if (scales.size() == 1 && info.labels.empty()) names.emplace_back("prediction");
  for (const data::Label& label : info.labels) names.push_back(label.name);
  for (const data::TargetScale& scale : scales) {
    if (scales.size() > 1) names.push_back(scale.name);
  }
  for (const std::string& name : info.class_names) names.push_back("p_" + name);
  return names;
}

// Returns the class of each label, then its probability.
static std::string labels_text(std::span<const float> row, const DataInfo& info) {
  std::string out;
  for (size_t k = 0; k < row.size(); ++k) {
    const bool holds =
        info.thresholds.empty() ? row[k] > 0.5f : double(row[k]) >= info.thresholds[k];
    out += concat_to_string(k > 0 ? "," : "", cell(info.labels[k].classes[size_t(holds)]));
  }
  for (const float p : row) out += concat_to_string(",", p);
  return out;
}

// Returns the cells that are predicted for a row from the predictions of its outputs.
static std::string prediction_text(std::span<const float> row, const DataInfo& info) {
  std::string out;
  if (info.task == Task::kRegression) {
    const std::vector<data::TargetScale> scales = info.target_scales();
    for (size_t k = 0; k < scales.size(); ++k) {
      out += concat_to_string(k > 0 ? "," : "", value_text(row[k], scales[k]));
    }
    return out;
  }
  if (!info.labels.empty()) return labels_text(row, info);
  const auto best = info.thresholds.empty() ? std::ranges::max_element(row) - row.begin()
                                            : std::ptrdiff_t(double(row[1]) >= info.thresholds[0]);
  out = cell(info.class_names[size_t(best)]);
  for (const float p : row) out += concat_to_string(",", p);
  return out;
}

// Returns the next values of each series of the files, as rows of a table.
static std::string forecast(const SavedRun& run, const std::vector<fs::path>& files) {
  const data::SeriesEncoding& how = *run.info.series;
  const Loss loss = losses().make(run.config.loss, loss_site(run.info));
  std::string out;
  for (const std::string& name : how.series) out += cell(name) + ",";
  out += concat_to_string(cell(how.time), ",prediction\n");
  for (const data::Forecast& f : forecasts_of(how, files)) {
    check_stop();
    const Tensor x = tensor_of(f.features.data(), {1, how.width()}, {.device = run.device});
    const Tensor y = run_model(*run.model, run.config.model, run.info, x).to(kFloat32);
    const Tensor host = loss.prediction(y).cpu().contiguous();
    const data::TargetScale scale{.mean = f.scale.mean, .std = f.scale.std};
    for (int64_t h = 0; h < how.horizon; ++h) {
      for (const std::string& key : f.keys) out += cell(key) + ",";
      out += concat_to_string(cell(f.times[size_t(h)]), ",",
                              value_text(host.span<float>()[size_t(h)], scale), "\n");
    }
  }
  return out;
}

// Returns the files that the series of a run are in.
static std::vector<fs::path> files_of_run(const SavedRun& run) {
  std::vector<fs::path> out;
  for (const data::DataFile& file : source_of(run.config.data)->files()) {
    out.insert(out.end(), file.parts.begin(), file.parts.end());
  }
  return out;
}

// Writes the rows of a file: what is kept of its columns, and the predicted cells.
class PredictionRows {
 public:
  PredictionRows(const DataInfo& info, const data::KeptColumns& kept, std::vector<int64_t> broken)
      : info_(info), kept_(kept), broken_(std::move(broken)) {
    const std::vector<std::string> predicted = predicted_columns(info);
    for (const std::string& name : kept.names) text_ += cell(name) + ",";
    for (const std::string& name : predicted) text_ += cell(name) + ",";
    text_.pop_back();
    empty_.assign(predicted.size() - 1, ',');
  }
  void add(std::span<const float> outputs) {
    add_broken();
    add_cells(prediction_text(outputs, info_));
  }
  std::string finish() {
    add_broken();
    return std::move(text_) + "\n";
  }

 private:
  // Adds the rows without a prediction that come next. Their cells are empty.
  void add_broken() {
    for (; next_ < broken_.size() && broken_[next_] == row_; ++next_) add_cells(empty_);
  }
  void add_cells(const std::string& predicted) {
    text_ += "\n";
    for (size_t k = 0; k < kept_.names.size(); ++k) {
      text_ += cell(kept_.rows[size_t(row_)][k]) + ",";
    }
    text_ += predicted;
    ++row_;
  }

  const DataInfo& info_;
  const data::KeptColumns& kept_;
  const std::vector<int64_t> broken_;
  std::string text_, empty_;
  size_t next_ = 0;  // of broken_
  int64_t row_ = 0;  // of the file
};

// The text of the predictions, and an error if more samples were left out than the run allows.
struct Predictions {
  std::string text, refusal{};  // empty: no error
};

static Predictions predict_file(const SavedRun& run, const fs::path& file) {
  require<InputError>(run.info.task != Task::kLanguage,
                      "a model of text takes a prompt, not a file of samples: `taper generate`; "
                      "`taper eval --data FILE` measures it on another text");
  const NoGradGuard no_grad;
  if (run.info.series) {
    return {forecast(run, file.empty() ? files_of_run(run) : std::vector<fs::path>{file})};
  }
  require<ConfigError>(!file.empty(),
                       "predict: name the file whose rows or images to predict; only "
                       "a run on series can do without");
  const auto source = source_of(run.config.data);
  const data::DatasetPtr rows = source->unlabeled(run.info, file);
  const data::BrokenSamples broken = rows->broken();
  const data::KeptColumns kept = source->kept(run.info, file);
  const Loss loss = losses().make(run.config.loss, loss_site(run.info));
  PredictionRows out(run.info, kept, broken.rows);
  DataLoader batches(rows, {.batch_size = eval_batch_size_of(run.config, run.info)}, run.device, 0);
  WorkProgress bar("predicting", "samples", rows->size());
  batches.start(0);
  int64_t done = 0;
  while (const std::optional<Batch> batch = batches.next()) {
    check_stop();
    bar.show(done);
    const Tensor y = run_model(*run.model, run.config.model, run.info, batch->inputs).to(kFloat32);
    const Tensor host = loss.prediction(y).cpu().contiguous();
    const auto columns = size_t(host.size(1));
    for (int64_t i = 0; i < host.size(0); ++i) {
      out.add(host.span<float>().subspan(size_t(i) * columns, columns));
    }
    done += host.size(0);
  }
  if (broken.is_allowed && !broken.text.empty()) warn(broken.text);
  return {out.finish(), broken.is_allowed ? "" : broken.text};
}

std::string predict(const SavedRun& run, const fs::path& file) {
  Predictions out = predict_file(run, file);
  require<InputError>(out.refusal.empty(), out.refusal);
  return std::move(out.text);
}

Command predict_command() {
  struct Predict : RunArguments {
    std::string file;
    void describe(Schema& v) {
      describe_run(v);
      v("file", file,
        "table with rows, IDX file with images, or .txt file or folder with texts; of series, the "
        "values so far: by default those of the run");
      describe_overrides(v);
    }
    int operator()() const {
      const SavedRun opened = open();
      const Predictions out =
          with_status("reading the data", [&] { return predict_file(opened, file); });
      const int code = print(out.text);
      require<InputError>(out.refusal.empty(), out.refusal, " (the others are predicted)");
      return code;
    }
  };
  return command_of<Predict>("predict", "Predict rows or images, and print the predictions as CSV",
                             "taper predict runs/iris new.csv > predictions.csv\n"
                             "taper predict runs/sales\n"
                             "taper predict runs/mnist t10k-images-idx3-ubyte.gz");
}

}  // namespace taper::v0::runner
