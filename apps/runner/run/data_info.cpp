// Reads and writes DataInfo as JSON.
#include "apps/runner/run/data_info.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <numeric>
#include <utility>

#include <nlohmann/json.hpp>

#include "apps/runner/config/json_reader.h"
#include "apps/runner/encodings/base64.h"
#include "apps/runner/encodings/series_json.h"
#include "apps/runner/encodings/table_json.h"
#include "data/tables/csv.h"
#include "data/tables/table_targets.h"

namespace taper::v0::runner {

using data::CsvEncoding;
using data::CsvFormat;
using data::SeriesEncoding;
using data::Standardizer;
using data::TableEncoding;
using data::Tokenizer;
using nlohmann::json;

namespace {

// Upper limits that no model reaches: outputs, and the size of one dimension of a sample.
constexpr double kMaxOutputs = 1e8, kMaxSize = 1e6;

Schema describe(Standardizer& s) {
  Schema out;
  out.field("fill", value_in(s.fill), "replacement of missing values").required();
  out.field("mean", value_in(s.mean), "of each feature").required();
  out.field("std", value_in(s.std), "of each feature").required();
  out("std", "needs numbers above 0",
      [&s] { return std::ranges::all_of(s.std, [](double x) { return x > 0; }); });
  // The statistics were computed from float32 values, so they must be in the range of float32.
  const auto fits = [](double x) {
    return std::abs(x) <= double{std::numeric_limits<float>::max()};
  };
  for (const auto& [key, list] : {std::pair("fill", &s.fill), {"mean", &s.mean}, {"std", &s.std}}) {
    out(key, "needs numbers in the range of float32",
        [=] { return std::ranges::all_of(*list, fits); });
  }
  return out;
}

Schema describe(CsvFormat& o) {
  const std::vector<std::string> three = {"0", "1", "2"}, two = {"0", "1"};
  Schema out;
  out("label", o.label, "the label's column").required();
  out("header", o.header, three, "auto, present, absent").required();
  const auto is_delimiter = [](const std::string& text) {
    return text.size() == 1 && std::string_view("\"\r\n").find(text) == std::string_view::npos;
  };
  out("delimiter", o.delimiter, "between fields").required().of_form("one character", is_delimiter);
  out("task", o.task, "of the model").required();
  out("missing", o.missing, two, "refuse, mean").required();
  out("categories", o.categories, two, "refuse, one_hot").required();
  return out;
}

// Returns the number of features that a row becomes: a column with categories becomes one feature
// per category, any other column one feature.
int64_t width_of(const CsvEncoding& r) {
  return std::accumulate(
      r.categories.begin(), r.categories.end(), int64_t(0),
      [](int64_t sum, const auto& words) { return sum + std::max<int64_t>(1, std::ssize(words)); });
}

Schema describe(CsvEncoding& r) {
  Schema out;
  out.field("options", Section{[&r] { return describe(r.options); }}, "how the file is read")
      .required();
  out("has_header", r.has_header, "of the training file").required();
  out.field("feature_names", value_in(r.feature_names), "columns").required();
  out.field("categories", value_in(r.categories), "words").required();
  out("label_name", r.label_name, "the label's column").required();
  out("label_column", r.label_column, kNonNegative, "its index").required();
  out("columns", r.columns, {1, kMaxOutputs}, "number of columns without the label").required();
  out("width", r.width, {1, kMaxOutputs}, "features").required();
  out.field("classes", value_in(r.classes), "names").required();
  out.field("scale", Section{[&r] { return describe(r.scale); }}, "of the features").required();
  out("feature_names", "must have one for each of 'columns'",
      [&r] { return std::ssize(r.feature_names) == r.columns; });
  out("categories", "must have a list for each of 'columns'",
      [&r] { return std::ssize(r.categories) == r.columns; });
  out("width", "does not match 'categories'", [&r] { return width_of(r) == r.width; });
  out("label_column", "is not one of the file's columns",
      [&r] { return r.label_column <= r.columns; });
  out("scale", "must have a number for each of 'width' features", [&r] {
    const auto fits = [&r](const std::vector<double>& list) { return std::ssize(list) == r.width; };
    return fits(r.scale.fill) && fits(r.scale.mean) && fits(r.scale.std);
  });
  return out;
}

// DataInfo as the schema reads it. `input_shape` becomes a Shape only after its rank was checked,
// because a Shape has a maximum rank.
struct Draft {
  DataInfo info;
  std::vector<int64_t> input_shape;
  std::optional<CsvEncoding> table;
  std::optional<Standardizer> scale;
  std::optional<Tokenizer> tokenizer;
  std::optional<TableEncoding> columns;
  std::optional<SeriesEncoding> series;
  std::optional<data::ImageEncoding> images;

  // Returns the targets of a table or of a table of labels; empty for other data.
  std::vector<data::TargetColumn> targets() const {
    if (columns) return columns->targets;
    return images ? images->targets : std::vector<data::TargetColumn>();
  }
};

std::string json_of(const Tokenizer& tokenizer) {
  const Tokenizer::Parts& parts = tokenizer.parts();
  json out = {{"type", parts.kind.word()}};
  using enum Tokenizer::TokenKindValues::Value;
  if (parts.kind == kSentencepiece) {
    out["model"] = to_base64(parts.model);
  } else if (parts.kind != kBytes) {
    out["tokens"] = parts.tokens;
  }
  if (!parts.merges.empty()) out["merges"] = parts.merges;
  if (!parts.special.empty()) out["special"] = parts.special;
  return out.dump();
}

Custom tokenizer_in(Draft& d) {
  const auto read_tokenizer = [&d](const Node& node) {
    Tokenizer::Parts parts;
    Schema schema;
    schema("type", parts.kind, "kind of tokens").required();
    schema.field("tokens", value_in(parts.tokens), "of each id");
    schema.field("merges", value_in(parts.merges), "by rank");
    schema.field("special", value_in(parts.special), "tokens that no text contains");
    std::string model;
    schema("model", model, "sentencepiece: the model file in base64");
    schema("model", "is not base64", [&] { return from_base64(model).has_value(); });
    std::vector<Problem> problems = read(schema, node).problems;
    parts.model = from_base64(model).value_or("");
    try {
      if (problems.empty()) d.tokenizer = Tokenizer::of(parts);
    } catch (const ValueError& error) {
      problems.push_back({node.key_place, error.what()});
    }
    return problems;
  };
  return {read_tokenizer, [&d] { return d.tokenizer ? json_of(*d.tokenizer) : ""; }};
}

// Returns whether the scale, if given, has one number for each element of a sample. Only arrays may
// have it: a table has its own scale.
bool has_its_scale(const Draft& d) {
  if (!d.scale) return true;
  double numel = 1;
  for (const int64_t size : d.input_shape) numel *= double(size);
  const auto fits = [&](const auto& list) { return double(list.size()) == numel; };
  return !d.table && fits(d.scale->fill) && fits(d.scale->mean) && fits(d.scale->std);
}

bool has_its_images(const Draft& d) {
  const data::ImageEncoding& e = *d.images;
  return d.input_shape == std::vector<int64_t>{e.channels, e.height, e.width};
}

// Returns whether the optional parts that are present are exactly those that this kind of data
// needs.
bool has_its_parts(const Draft& d) {
  const DataInfo& info = d.info;
  const size_t rank = d.input_shape.size();
  if (info.task == Task::kLanguage) return d.tokenizer && !d.table && !d.scale && rank == 1;
  if (d.tokenizer) {
    return d.columns && !d.columns->text.empty() && !d.table && !d.scale && rank == 1;
  }
  if (!has_its_scale(d)) return false;
  if (d.series) {
    return !d.table && !d.columns && info.task == Task::kRegression &&
           d.input_shape == std::vector<int64_t>{d.series->width()};
  }
  if (d.columns && !d.columns->text.empty()) return false;
  if (d.columns) return !d.table && d.input_shape == std::vector<int64_t>{d.columns->width()};
  if (d.images && (d.table || !has_its_images(d))) return false;
  if (!d.table) return rank > 0 && rank < size_t(kMaxDims);
  return d.table->options.task == info.task &&
         d.input_shape == std::vector<int64_t>{d.table->width};
}

// Returns whether the names are the classes of the only target, or the names of its labels, each
// of which has two classes.
bool has_its_classes(const std::vector<data::TargetColumn>& targets,
                     const std::vector<std::string>& names) {
  if (targets.size() == 1) return targets[0].classes == names;
  std::vector<std::string> found;
  for (const data::TargetColumn& target : targets) {
    if (target.classes.size() == 2) found.push_back(target.name);
  }
  return found == names;
}

bool has_its_outputs(const Draft& d) {
  const DataInfo& info = d.info;
  if (info.task == Task::kLanguage) return info.outputs == d.tokenizer->size();
  const std::vector<data::TargetColumn> targets = d.targets();
  if (info.task == Task::kRegression) {
    const int64_t wanted = d.series ? d.series->horizon : std::max<int64_t>(1, std::ssize(targets));
    return info.outputs == wanted && info.class_names.empty();
  }
  return std::ssize(info.class_names) == info.outputs &&
         (!d.table || d.table->classes == info.class_names) &&
         (targets.empty() || has_its_classes(targets, info.class_names));
}

Schema describe(Draft& d) {
  DataInfo& i = d.info;
  Schema out;
  out("task", i.task, "of the model").required();
  out("input_shape", d.input_shape, {1, kMaxSize}, "of a sample").required();
  out("outputs", i.outputs, {1, kMaxOutputs}, "of the model").required();
  out.field("class_names", value_in(i.class_names), "names").required();
  out("target_mean", i.target_mean, "of regression").required();
  out("target_std", i.target_std, kPositive, "of regression").required();
  out("target_is_log", i.target_is_log, "of regression").omitted_when_empty();
  out("lines", i.lines, "of text").required();
  out.field("table", optional_section(d.table, describe), "of a CSV file");
  out.field("columns", part_in(d.columns, table_schema), "of a table");
  out.field("series", part_in(d.series, series_schema), "of series");
  out.field("images", part_in(d.images, image_schema), "of image files");
  out.field("scale", optional_section(d.scale, describe), "of arrays");
  out.field("tokenizer", tokenizer_in(d), "of text");
  out("input_shape", "does not match the task, table, scale or tokenizer",
      [&d] { return has_its_parts(d); });
  out("outputs", "is not the number of classes, values or tokens of the data",
      [&d] { return !has_its_parts(d) || has_its_outputs(d); });
  return out;
}

template <class T> std::optional<T> copy_of(const std::shared_ptr<const T>& part) {
  return part ? std::optional(*part) : std::nullopt;
}

Draft draft_of(const DataInfo& info) {
  return {.info = info,
          .input_shape = {info.input_shape.begin(), info.input_shape.end()},
          .table = copy_of(info.table),
          .scale = copy_of(info.scale),
          .tokenizer = copy_of(info.tokenizer),
          .columns = copy_of(info.columns),
          .series = copy_of(info.series),
          .images = copy_of(info.images)};
}

}  // namespace

std::string to_json(const DataInfo& info) try {
  Draft draft = draft_of(info);
  return json_text(describe(draft));
} catch (const json::type_error&) {
  throw InputError("the data have a name or category that is not UTF-8");
}

DataInfo data_info_from_json(std::string_view text, const std::string& name) {
  Draft draft;
  read_json(text, name, describe(draft));
  DataInfo& out = draft.info;
  out.input_shape = Shape(draft.input_shape.begin(), draft.input_shape.end());
  if (draft.table) out.table = std::make_shared<const CsvEncoding>(*std::move(draft.table));
  const std::vector<data::TargetColumn> targets = draft.targets();
  if (!targets.empty()) {
    out.several_targets = data::scales_of_several(targets);
    out.labels = data::labels_of(targets);
  }
  if (draft.images) {
    out.images = std::make_shared<const data::ImageEncoding>(*std::move(draft.images));
  }
  if (draft.columns) {
    out.category_sizes = draft.columns->category_sizes();
    out.has_weights = !draft.columns->weight.empty();
    out.columns = std::make_shared<const TableEncoding>(*std::move(draft.columns));
  }
  if (draft.series) out.series = std::make_shared<const SeriesEncoding>(*std::move(draft.series));
  if (draft.scale) out.scale = std::make_shared<const Standardizer>(*std::move(draft.scale));
  if (draft.tokenizer) {
    out.tokenizer = std::make_shared<const Tokenizer>(*std::move(draft.tokenizer));
  }
  return std::move(out);
}

namespace {

constexpr double kRounding = 1e-6;  // a few units in the last place of float32

bool are_close(double mean_a, double std_a, double mean_b, double std_b) {
  const double most = kRounding * (std::abs(mean_a) + std_a);
  return std::abs(mean_a - mean_b) <= most && std::abs(std_a - std_b) <= most;
}

bool are_close(const Standardizer* a, const Standardizer* b) {
  if (!a || !b) return a == b;
  bool out = a->mean.size() == b->mean.size();
  for (size_t i = 0; out && i < a->mean.size(); ++i) {
    out = are_close(a->mean[i], a->std[i], b->mean[i], b->std[i]) &&
          are_close(a->fill[i], a->std[i], b->fill[i], b->std[i]);
  }
  return out;
}

// Returns all fields but the statistics.
json names_of(const DataInfo& info) {
  json out = json::parse(to_json(info));
  for (const char* key : {"target_mean", "target_std", "scale"}) out.erase(key);
  if (out.contains("table")) out["table"].erase("scale");
  if (out.contains("images")) {
    out["images"].erase("mean");
    out["images"].erase("std");
  }
  return out;
}

}  // namespace

bool are_same_data(const DataInfo& a, const DataInfo& b) {
  const auto scale_of = [](const DataInfo& i) { return i.table ? &i.table->scale : i.scale.get(); };
  return names_of(a) == names_of(b) && are_close(scale_of(a), scale_of(b)) &&
         are_close(a.target_mean, a.target_std, b.target_mean, b.target_std);
}

}  // namespace taper::v0::runner
