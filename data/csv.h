// CSV files of rows as a data set.
#pragma once

#include <cctype>
#include <optional>
#include <string>
#include <string_view>

#include "data/source.h"
#include "framework/describe.h"

namespace taper::data {

struct Csv : CsvFormat {
  std::string path;
  std::optional<std::string> test_path{};
  double test_fraction = 0.2;  // means nothing when test_path is given
  bool standardize = true;
  bool scale_target = false;  // regression: learns (y - mean) / deviation, reports y

  template <class V> void describe(V& v) {
    v("path", path, kPath, "file with the rows").required();
    v("test_path", test_path, kPath, "file with the test rows");
    v("test_fraction", test_fraction, kBetweenZeroAndOne,
      "part of the rows that is kept for the test")
        .idle_when("test_path is given", [this] { return test_path.has_value(); });
    v("label", label, "name or index of the column to predict; -1 is the last")
        .of_form("a column", [](const std::string& text) { return !text.empty(); });
    v("header", header, {"auto", "present", "absent"}, "whether the first line holds names");
    v("delimiter", delimiter, "what stands between two cells")
        .of_form("one character such as ',' or ';' or \"\\t\"", is_delimiter);
    v("standardize", standardize, "scale features to mean 0 and deviation 1");
    v("task", task, {"classification", "regression"}, "what the label column is");
    v("scale_target", scale_target,
      "regression: learn targets of mean 0 and deviation 1; results stay in the data's units");
    v("missing", missing, {"refuse", "mean"}, "empty cells: an error, or the training rows' mean");
    v("categories", categories, {"refuse", "one_hot"},
      "columns of words: an error, or a feature for each word");
  }
  template <class V> void rules(V& v) {
    v("scale_target", "is for 'task: regression' only",
      [this] { return !scale_target || task == Task::kRegression; });
  }

  Task learns() const { return task; }
  Splits load(uint64_t seed) const;
  std::vector<DataFile> files() const;
  // The label's column may be missing.
  DatasetPtr more(const DataInfo& info, const std::filesystem::path& file) const;

 private:
  static bool is_delimiter(const std::string& text) {
    return text.size() == 1 && !std::isalnum(static_cast<unsigned char>(text[0])) &&
           std::string_view("\"\n\r.+-_").find(text) == std::string_view::npos;
  }
};

}  // namespace taper::data
