// Tables in CSV files: columns of numbers or words become features, one column is the label.
#pragma once

#include <cctype>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "data/source.h"
#include "data/tables/standardizer.h"
#include "framework/base/describe.h"
#include "framework/factory/factories.h"

namespace taper::v0::data {

// How a file is read.
struct CsvFormat {
  // kAuto: the first row is a header if it has words, and no numbers, in the columns where the
  // second row has numbers.
  enum class Header { kAuto, kPresent, kAbsent };
  // Features that are empty or say NA, N/A, #N/A, <NA>, nan, null or ?: an error, or the training
  // rows' mean. Which rows are for training is decided after reading: read_csv() leaves nan, which
  // features_of() fills. A missing label or target is an error in any case.
  enum class Missing { kRefuse, kMean };
  // Columns of words: an error, or a feature for each word that is 1 where the row has it.
  enum class Categories { kRefuse, kOneHot };

  std::string label = "-1";  // the label column: a header name or an index; -1 is the last
  Header header = Header::kAuto;
  std::string delimiter = ",";  // one character; a first line such as "sep=;" overrides it
  Task task = Task::kClassification;
  Missing missing = Missing::kRefuse;
  Categories categories = Categories::kRefuse;
};

// The data set that a file makes, or a file and another of test rows.
struct Csv : CsvFormat {
  std::string path;
  std::optional<std::string> test_path{};
  double test_fraction = 0.2;  // means nothing when test_path is given
  bool standardize = true;
  bool scale_target = false;  // regression: learns (y - mean) / deviation, reports y
  int64_t max_features = 10'000;

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
    v("max_features", max_features, kCount, "most input features that a table may make");
  }
  template <class V> void rules(V& v) {
    v("scale_target", "is for 'task: regression' only",
      [this] { return !scale_target || task == Task::kRegression; });
  }

  Task learns() const { return task; }
  Splits load(uint64_t seed) const;
  std::vector<DataFile> files() const { return files_of({path, test_path}); }
  // The label's column may be missing.
  DatasetPtr more(const DataInfo& info, const std::filesystem::path& file) const;
  // float32, or float64 where a column's numbers differ by less than float32 can hold.
  DType raw_dtype(const DataInfo& info) const;
  Tensor prepared(const DataInfo& info, const Tensor& raw) const;

 private:
  static bool is_delimiter(const std::string& text) {
    return text.size() == 1 && !std::isalnum(static_cast<unsigned char>(text[0])) &&
           std::string_view("\"\n\r.+-_").find(text) == std::string_view::npos;
  }
};

// How rows of a file become features and targets, as the training file says.
struct CsvRecipe {
  CsvFormat options{};
  bool has_header = false;
  std::vector<std::string> feature_names{};  // (columns); "column 3" where there is no header
  // (columns) The words of a column, sorted, each of which is a feature; none: one feature, a
  // number.
  std::vector<std::vector<std::string>> categories{};
  std::string label_name{};
  int64_t label_column = 0;  // in the file, from 0
  int64_t columns = 0;       // one fewer than in the file
  int64_t width = 0;         // features
  // Classification: the class names, sorted (by value if all are integers, else by bytes).
  std::vector<std::string> classes{};
  Standardizer scale{};  // of the features; none until somebody learns it
};

// What one file holds.
struct CsvTable : CsvRecipe {
  int64_t rows = 0;
  // (rows, columns) row by row: a number, or the index of a word in `categories`; nan where a value
  // is missing.
  std::vector<double> cells{};
  std::vector<int64_t> labels{};  // classification: (rows) indices of classes
  std::vector<double> targets{};  // regression: (rows)
};

// Returns the features [N, width] (float32) of cells [N, columns] (float64, dense, on the CPU): a
// number is one feature, a word one of 1 among zeros. They are standardized by recipe.scale, if
// there is one; else nan stays in all features of its cell.
Tensor features_of(const CsvRecipe& recipe, const Tensor& cells);
inline Tensor features_of(const CsvTable& table) {
  return features_of(table, tensor_of(table.cells.data(), {table.rows, table.columns}));
}

// Reads a CSV file: quoted fields with doubled quotes, CRLF, blank lines, a UTF-8 BOM, blanks
// around fields and Excel's first line "sep=;" are understood; numbers do not depend on the locale.
// InputError, naming file and line: missing or empty file, not text, no rows, a ragged row, an
// empty field unless options.missing, text or nan or inf or a number beyond float32's range in a
// number column, a column of more than 1000 words or of numbers with units or thousands separators,
// an unclosed quote, no such label column, a missing label, no feature column, and with
// Header::kAuto a first row that has both numbers and text where the second row has numbers.
// ValueError: an impossible delimiter.
CsvTable read_csv(const std::filesystem::path& file, const CsvFormat& options);

// Reads a further file of the same data by what was learned of the training file. It may lack the
// label's column when `may_lack_label`: labels and targets are empty then.
// InputError: as read_csv; also other columns than in `train`, or a class or category that it does
// not have.
CsvTable read_csv_like(const CsvRecipe& train, const std::filesystem::path& file,
                       bool may_lack_label = false);

}  // namespace taper::v0::data
