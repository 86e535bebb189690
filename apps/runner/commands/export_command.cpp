// `taper export`: writes a run's model for other programs.
#include <algorithm>

#include <nlohmann/json.hpp>

#include "apps/runner/base/string_utils.h"
#include "apps/runner/commands/commands.h"
#include "autograd/ops/binary_ops.h"
#include "data/tables/csv.h"
#include "data/tables/table_encoding.h"
#include "framework/factory/factories.h"
#include "framework/host/atomic_file.h"
#include "framework/io/pt.h"
#include "modules/onnx/onnx.h"

namespace taper::v0::runner {
namespace {

using Json = nlohmann::ordered_json;

// Returns raw samples with many different values, so that the tracer can distinguish constants from
// values that depend on the input.
Tensor example_of(const DataInfo& info, DType dtype, Device device) {
  constexpr int64_t kBatch = 2;
  Shape shape = info.input_shape;
  shape.insert(0, kBatch);
  const int64_t below = dtype == kInt64 ? info.vocab_size() : 251;
  const Tensor numbers = remainder(arange(shape.numel()), below).reshape(shape);
  return (is_floating_point(dtype) ? numbers / below : numbers).to(device, dtype);
}

// Returns the names of a table's features in the order of the model's inputs.
Json features_of(const data::CsvEncoding& table) {
  Json out = Json::array();
  for (size_t i = 0; i < table.feature_names.size(); ++i) {
    if (table.categories[i].empty()) out.push_back(table.feature_names[i]);
    for (const std::string& word : table.categories[i]) {
      out.push_back(concat_to_string(table.feature_names[i], "=", word));
    }
  }
  return out;
}

// Returns the index of each spelling of a category's words. A missing value is the word "".
std::map<std::string, int64_t> indices_of(const data::FeatureColumn& f) {
  std::map<std::string, int64_t> out;
  for (const std::string& word : f.words) out.emplace(word, std::ssize(out) + 1);
  const auto missing = out.find("");
  if (missing == out.end()) return out;
  const int64_t index = missing->second;
  for (const std::string& word : f.missing.words) out[word] = index;
  for (const double number : f.missing.numbers) out[concat_to_string(number)] = index;
  return out;
}

// Returns the column as an input of the graph. Throws ConfigError for a column of text.
OnnxColumn onnx_column(const data::FeatureColumn& f) {
  using data::ColumnKind;
  require<ConfigError>(f.kind != ColumnKind::kText, "column ", in_quotes(f.name),
                       " is text, whose words an ONNX model cannot count; train without it: "
                       "columns: {",
                       yaml_text(f.name), ": ignore}");
  OnnxColumn out{.name = f.name, .kind = OnnxColumn::Kind::kNumber, .mean = f.mean, .std = f.std};
  if (f.kind == ColumnKind::kCategory) {
    return {.name = f.name, .kind = OnnxColumn::Kind::kWord, .words = indices_of(f)};
  }
  out.fill = f.fill;
  out.has_gap_feature = f.has_gap_feature;
  if (f.kind == ColumnKind::kNumber) out.missing = f.missing.numbers;
  if (f.kind == ColumnKind::kDate) {
    out.kind = OnnxColumn::Kind::kDate;
    out.first_date = f.first_date;
  }
  return out;
}

// Returns the columns in the order of the features: the categories come last.
std::vector<OnnxColumn> onnx_columns(const data::TableEncoding& encoding) {
  std::vector<OnnxColumn> out;
  for (const data::FeatureColumn& f : encoding.features) out.push_back(onnx_column(f));
  std::stable_partition(out.begin(), out.end(), [](const OnnxColumn& column) {
    return column.kind != OnnxColumn::Kind::kWord;
  });
  return out;
}

Json names_of(const std::vector<OnnxColumn>& columns) {
  constexpr const char* kKinds[] = {"number", "date", "category"};
  Json out = Json::array();
  for (const OnnxColumn& column : columns) {
    out.push_back({{"name", column.name}, {"kind", kKinds[size_t(column.kind)]}});
  }
  return out;
}

// Returns "input uint8 [batch, 1, 28, 28]", or the number of columns of a table.
std::string inputs_text(const DataInfo& info, const Tensor& example, const OnnxOptions& options) {
  if (options.columns.empty()) {
    return concat_to_string("input ", example.dtype(), " [batch, ",
                            to_string(info.input_shape).substr(1));
  }
  return concat_to_string(options.columns.size(),
                          options.columns.size() == 1 ? " column" : " columns",
                          " [batch, 1] by name (float64 numbers, dates as seconds since 1970, and "
                          "strings; NaN and \"\" are missing)");
}

// Returns a name that no column has.
std::string free_name(std::string name, const std::vector<OnnxColumn>& columns) {
  while (std::ranges::count(columns, name, &OnnxColumn::name) > 0) name += "_";
  return name;
}

// Returns the names of several targets or labels; an empty list for one target.
std::vector<std::string> names_of_several(const DataInfo& info) {
  if (!info.labels.empty()) return info.class_names;
  std::vector<std::string> out;
  for (const data::TargetScale& scale : info.several_targets) out.push_back(scale.name);
  return out;
}

// Returns the names of the graph's outputs: that of the prediction, or those of several targets.
std::vector<std::string> output_names_of(const DataInfo& info,
                                         const std::vector<OnnxColumn>& columns) {
  std::vector<std::string> names = names_of_several(info);
  if (names.empty()) {
    names.emplace_back(info.task == Task::kLanguage     ? "logits"
                       : info.task == Task::kRegression ? "prediction"
                                                        : "probabilities");
  }
  for (std::string& name : names) name = free_name(name, columns);
  return names;
}

Json classes_of_labels(const DataInfo& info) {
  Json out = Json::object();
  for (const data::Label& label : info.labels) out[label.name] = label.classes;
  return out;
}

std::string write_onnx(const SavedRun& run, const fs::path& file) {
  const DataInfo& info = run.info;
  const bool has_several = !names_of_several(info).empty();
  const auto predicted = [&](const std::vector<Tensor>& x) {
    const Tensor all = predict_raw(run, x[0]);
    if (!has_several) return std::vector{all};
    std::vector<Tensor> each;
    for (int64_t i = 0; i < info.outputs; ++i) each.push_back(all.narrow(-1, i, 1));
    return each;
  };
  OnnxOptions options;
  if (info.columns && !info.tokenizer) {
    options.columns = onnx_columns(*info.columns);
    options.metadata["columns"] = names_of(options.columns).dump();
  }
  options.output_names = output_names_of(info, options.columns);
  if (!info.labels.empty()) {
    options.metadata["labels"] = classes_of_labels(info).dump();
  } else if (!info.class_names.empty()) {
    options.metadata["classes"] = Json(info.class_names).dump();
  }
  if (!info.thresholds.empty()) options.metadata["thresholds"] = Json(info.thresholds).dump();
  if (info.table) options.metadata["features"] = features_of(*info.table).dump();
  const Tensor example = example_of(info, source_of(run.config.data)->raw_dtype(info), run.device);
  export_onnx(predicted, *run.model, {example}, file.string(), options);
  return concat_to_string("wrote ", file.string(), ": ", inputs_text(info, example, options), ", ",
                          joined(options.output_names), " float32 [batch, ",
                          has_several ? "1]" : to_string(info.output_shape()).substr(1), "\n");
}

}  // namespace

std::string export_run(const SavedRun& run, const std::string& to, const fs::path& file) try {
  require<ConfigError>(to == "onnx" || to == "pt", "--to: expected onnx or pt, got '", to, "'");
  { const AtomicFile early(file.string(), 0); }  // fails early if the file cannot be written
  if (to == "onnx") return write_onnx(run, file);
  save_pt(file.string(), run.model->state_dict());
  return concat_to_string("wrote ", file.string(), "\n");
} catch (const NotImplementedError& error) {
  throw ConfigError(error.what());
}

Command export_command() {
  struct Export : RunArguments {
    std::string to, out;
    void describe(Schema& v) {
      describe_run(v);
      v("--to", to,
        "onnx: the model, including the scaling of its inputs; pt: the weights, for PyTorch")
          .required();
      v("-o,--out", out, "output file; default: model.onnx or model.pt in the run's directory");
      describe_overrides(v);
    }
    int operator()() const {
      const SavedRun saved = open();
      const fs::path file =
          out.empty() ? saved.dir / concat_to_string("model.", to) : fs::path(out);
      return print(export_run(saved, to, file));
    }
  };
  return command_of<Export>("export", "Export a run's model for other programs",
                            "taper export runs/iris --to onnx\n"
                            "taper export runs/mnist --to pt --out mnist.pt");
}

}  // namespace taper::v0::runner
