#include "apps/runner/encodings/table_json.h"

#include <algorithm>
#include <cmath>

#include "apps/runner/config/json_reader.h"

namespace taper::v0::runner {

using data::ColumnKind;
using data::FeatureColumn;
using data::ImageEncoding;
using data::MissingCells;
using data::TableEncoding;
using data::TargetColumn;

namespace {

Schema describe(MissingCells& m) {
  Schema out;
  out.field("words", value_in(m.words), "that say that a value is missing").required();
  out.field("numbers", value_in(m.numbers), "that say that a value is missing").required();
  return out;
}

// Returns the number of features that need a mean and a standard deviation.
int64_t scaled_features(const FeatureColumn& f) {
  const bool is_scaled = f.kind == ColumnKind::kNumber || f.kind == ColumnKind::kDate;
  return is_scaled ? f.real_features() - f.has_gap_feature : 0;
}

Schema describe(FeatureColumn& f) {
  Schema out;
  out("name", f.name, "of the column").required();
  out("kind", f.kind, {"number", "category", "date", "text"}, "of the column").required();
  out.field("missing", Section{[&f] { return describe(f.missing); }}, "missing cells").required();
  out("date_form", f.date_form, {"text", "digits", "seconds", "milliseconds"}, "of dates")
      .required();
  out("date_order", f.date_order, {"month_first", "day_first"}, "of dates").required();
  out("first_date", f.first_date, "in training").required();
  out("fill", f.fill, "of missing numbers").required();
  out("has_gap_feature", f.has_gap_feature, "a feature says what is missing").required();
  out.field("mean", value_in(f.mean), "of each feature").required();
  out.field("std", value_in(f.std), "of each feature").required();
  out.field("words", value_in(f.words), "of a category or text").required();
  out("mean", "must have a number for each feature",
      [&f] { return std::ssize(f.mean) == scaled_features(f); });
  out("std", "must have a number above 0 for each feature", [&f] {
    return std::ssize(f.std) == scaled_features(f) &&
           std::ranges::all_of(f.std, [](double x) { return x > 0; });
  });
  return out;
}

Schema describe(TargetColumn& t) {
  Schema out;
  out("name", t.name, "of the column").required();
  out.field("missing", Section{[&t] { return describe(t.missing); }}, "missing cells").required();
  out.field("classes", value_in(t.classes), "names").required();
  out("is_log", t.is_log, "of values").required();
  out("mean", t.mean, "of values").required();
  out("std", t.std, kPositive, "of values").required();
  return out;
}

}  // namespace

Schema table_schema(TableEncoding& e) {
  constexpr Range kLines{0, 1'000'000};
  Schema out;
  out("delimiter", e.delimiter, "of cells").required();
  out("decimal", e.decimal, {".", ","}, "separator").required();
  out("encoding", e.encoding, {"utf-8", "latin-1", "utf-16"}, "of the text").required();
  out("skip", e.skip, kLines, "lines that are not read").required();
  out("has_header", e.has_header, "of the training file").required();
  out.field("column_names", value_in(e.column_names), "of the training file").required();
  out.field("features", list_in(e.features, describe), "columns of features").required();
  out("text", e.text, "column of texts whose tokens are the inputs").omitted_when_empty();
  out.field("targets", list_in(e.targets, describe), "columns of targets").required();
  out.field("keep", value_in(e.keep), "columns that predictions repeat").required();
  out("weight", e.weight, "column of the rows' weights");
  out("refuses_unknown", e.refuses_unknown, "unknown words are errors").required();
  out("features", "must be given, or a column of text",
      [&e] { return e.features.empty() != e.text.empty(); });
  out("targets", "must not be empty", [&e] { return !e.targets.empty(); });
  return out;
}

Schema image_schema(ImageEncoding& e) {
  constexpr Range kSide{1, 1 << 14};
  Schema out;
  out("channels", e.channels, {1, 3}, "1 or 3").required();
  out("height", e.height, kSide, "of a sample").required();
  out("width", e.width, kSide, "of a sample").required();
  out("fit", e.fit, "of images of another aspect ratio").required();
  out.field("mean", value_in(e.mean), "of each channel").required();
  out.field("std", value_in(e.std), "of each channel").required();
  out("path_column", e.path_column, "of the file names").required();
  out("suffix", e.suffix, "of the file names").required();
  out.field("targets", list_in(e.targets, describe), "columns of targets").required();
  out("channels", "must be 1 or 3", [&e] { return e.channels != 2; });
  const auto fits = [&e](const std::vector<double>& list) {
    return list.empty() || std::ssize(list) == e.channels;
  };
  out("mean", "must have a number for each channel", [&e, fits] { return fits(e.mean); });
  out("std", "must have a number above 0 for each channel", [&e, fits] {
    return fits(e.std) && e.mean.size() == e.std.size() &&
           std::ranges::all_of(e.std, [](double x) { return x > 0; });
  });
  return out;
}

}  // namespace taper::v0::runner
