// Tables in CSV files: columns of numbers or words become features, and one column is the label.
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
#include "framework/base/text_enum.h"
#include "framework/factory/factories.h"

namespace taper::v0::data {

// Options for reading a file.
struct CsvFormat {
  // Whether the first row is a header. kAuto: it is if it has words but no numbers in the columns
  // in which the second row has numbers.
  struct HeaderValues {
    enum class Value : uint8_t { kAuto, kPresent, kAbsent };
    static constexpr Value kAuto = Value::kAuto, kPresent = Value::kPresent,
                           kAbsent = Value::kAbsent;
    static constexpr const char* kOption = "header";
    static constexpr const char* kWords[] = {"auto", "present", "absent"};
  };
  using Header = TextEnum<HeaderValues>;

  // Treatment of features that are empty or are one of NA, N/A, #N/A, <NA>, nan, null and ?.
  // kRefuse: an error. kMean: replaced by the mean of the training rows. read_csv() returns nan for
  // them, because the training rows are selected after reading; features_of() replaces nan. A
  // missing label or target is always an error.
  struct MissingValues {
    enum class Value : uint8_t { kRefuse, kMean };
    static constexpr Value kRefuse = Value::kRefuse, kMean = Value::kMean;
    static constexpr const char* kOption = "missing";
    static constexpr const char* kWords[] = {"refuse", "mean"};
  };
  using Missing = TextEnum<MissingValues>;

  // Treatment of columns of words. kRefuse: an error. kOneHot: one feature per word, which is 1 in
  // the rows that have the word.
  struct CategoriesValues {
    enum class Value : uint8_t { kRefuse, kOneHot };
    static constexpr Value kRefuse = Value::kRefuse, kOneHot = Value::kOneHot;
    static constexpr const char* kOption = "categories";
    static constexpr const char* kWords[] = {"refuse", "one_hot"};
  };
  using Categories = TextEnum<CategoriesValues>;

  std::string label = "-1";  // the label column: a name in the header, or an index; -1 is the last
  Header header = Header::kAuto;
  // one character; a first line such as "sep=;" in the file overrides it
  std::string delimiter = ",";
  Task task = Task::kClassification;
  Missing missing = Missing::kRefuse;
  Categories categories = Categories::kRefuse;
};

// A CSV file as a data source, optionally with a second file of test rows.
struct Csv : CsvFormat {
  std::string path;
  std::optional<std::string> test_path{};
  double test_fraction = 0.2;  // ignored if test_path is given
  bool standardize = true;
  bool scale_target = false;  // regression: trains on (y - mean) / std, and reports y
  int64_t max_features = 10'000;

  template <class V> void describe(V& v) {
    v("path", path, kPath, "file with the rows").required();
    v("test_path", test_path, kPath, "file with the test rows");
    v("test_fraction", test_fraction, kBetweenZeroAndOne, "fraction of the rows for testing")
        .idle_when("test_path is given", [this] { return test_path.has_value(); });
    v("label", label, "name or index of the column to predict; -1 is the last")
        .of_form("a column", [](const std::string& text) { return !text.empty(); });
    v("header", header, "whether the first line contains column names");
    v("delimiter", delimiter, "separator of cells")
        .of_form("one character such as ',' or ';' or \"\\t\"", is_delimiter);
    v("standardize", standardize, "scale features to mean 0 and standard deviation 1");
    v("task", task, {"classification", "regression"}, "kind of the label column");
    v("scale_target", scale_target,
      "regression: scale targets to mean 0 and standard deviation 1 for training; results stay in "
      "the unit of the data");
    v("missing", missing, "missing values: an error, or replaced by the mean of the training rows");
    v("categories", categories, "columns of words: an error, or one feature for each word");
    v("max_features", max_features, kCount, "largest number of input features");
  }
  template <class V> void rules(V& v) {
    v("scale_target", "is for 'task: regression' only",
      [this] { return !scale_target || task == Task::kRegression; });
  }

  Task learns() const { return task; }
  Splits load(uint64_t seed) const;
  std::vector<DataFile> files() const { return files_of({path, test_path}); }
  // Reads a further file of rows, in which the label column may be missing.
  DatasetPtr more(const DataInfo& info, const std::filesystem::path& file) const;
  // Ignores the label column.
  DatasetPtr unlabeled(const DataInfo& info, const std::filesystem::path& file) const;
  // Returns float32, or float64 if float32 cannot represent the differences between a column's
  // numbers.
  DType raw_dtype(const DataInfo& info) const;
  Tensor prepared(const DataInfo& info, const Tensor& raw) const;

 private:
  static bool is_delimiter(const std::string& text) {
    return text.size() == 1 && !std::isalnum(static_cast<unsigned char>(text[0])) &&
           std::string_view("\"\n\r.+-_").find(text) == std::string_view::npos;
  }
};

// How rows of a file become features and targets, as determined from the training file.
struct CsvEncoding {
  CsvFormat options{};
  bool has_header = false;
  std::vector<std::string> feature_names{};  // one per column; "column 3" without a header
  // The words of each column, sorted; each word is one feature. A column of numbers has none and is
  // one feature.
  std::vector<std::vector<std::string>> categories{};
  std::string label_name{};
  int64_t label_column = 0;  // index in the file, from 0
  int64_t columns = 0;       // number of feature columns: one less than in the file
  int64_t width = 0;         // number of features
  // The class names, for classification: sorted by value if all are integers, otherwise by bytes.
  std::vector<std::string> classes{};
  Standardizer scale{};  // of the features; empty until it is computed
};

// The content of one file.
struct CsvTable : CsvEncoding {
  int64_t rows = 0;
  // [rows, columns] in row-major order: a number, or the index of a word in `categories`; nan if
  // the value is missing.
  std::vector<double> cells{};
  std::vector<int64_t> labels{};  // classification: class index of each row
  std::vector<double> targets{};  // regression: target of each row
};

// Converts cells [N, columns] (float64, contiguous, on the CPU) to features [N, width] (float32). A
// number becomes one feature, a word becomes a one-hot vector. Features are standardized by
// recipe.scale if there is one. Otherwise nan in a cell becomes nan in all features of the cell.
Tensor features_of(const CsvEncoding& recipe, const Tensor& cells);
inline Tensor features_of(const CsvTable& table) {
  return features_of(table, tensor_of(table.cells.data(), {table.rows, table.columns}));
}

// Reads a CSV file. Supports quoted fields with doubled quotes, CRLF, blank lines, a UTF-8 byte
// order mark, blanks around fields, and Excel's first line "sep=;". Numbers do not depend on the
// locale. Throws InputError, with the file and line, in these cases:
// - The file is missing, empty or not text.
// - It has no rows, a row of another length, or an unclosed quote.
// - It has an empty field (unless options.missing allows that), or, in a column of numbers, text,
// nan, inf or a number beyond float32's range.
// - A column has more than 1000 words, or numbers with units or thousands separators.
// - The label column, a label, or every feature column is missing.
// - With Header::kAuto, the first row has both numbers and text where the second row has numbers.
//
// Throws ValueError for an invalid delimiter.
CsvTable read_csv(const std::filesystem::path& file, const CsvFormat& options);

// Whether a further file must have the label column. If it is missing, labels and targets are
// empty. A column that is ignored may be missing, and its cells may contain anything.
struct LabelColumnValues {
  enum class Value : uint8_t { kRequired, kOptional, kIgnored };
  static constexpr Value kRequired = Value::kRequired, kOptional = Value::kOptional,
                         kIgnored = Value::kIgnored;
  static constexpr const char* kOption = "label";
  static constexpr const char* kWords[] = {"required", "optional", "ignored"};
};
using LabelColumn = TextEnum<LabelColumnValues>;

// Reads a further file with the encoding `train` of the training file. Throws the errors of
// read_csv(), and InputError if the columns differ from those of `train`, or for an unknown class
// or category.
CsvTable read_csv_like(const CsvEncoding& train, const std::filesystem::path& file,
                       LabelColumn label = LabelColumn::kRequired);

}  // namespace taper::v0::data
