// Tables as people have them: one line names a file and a target, and the rest is found from the
// data.
#pragma once

#include <algorithm>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "data/source.h"
#include "data/tables/raw_table.h"
#include "data/tables/table_encoding.h"
#include "data/tables/table_split.h"
#include "framework/base/describe.h"
#include "framework/base/text_enum.h"

namespace taper::v0::data {

// How missing values are recognized and treated.
struct MissingOptions {
  struct NumbersValues {
    enum class Value : uint8_t { kMedian, kRefuse };
    static constexpr Value kMedian = Value::kMedian, kRefuse = Value::kRefuse;
    static constexpr const char* kOption = "numbers";
    static constexpr const char* kWords[] = {"median", "refuse"};
  };
  using Numbers = TextEnum<NumbersValues>;

  // kCategory: missing words are a category of their own. kUnknown: they are unknown words.
  struct WordsValues {
    enum class Value : uint8_t { kCategory, kUnknown };
    static constexpr Value kCategory = Value::kCategory, kUnknown = Value::kUnknown;
    static constexpr const char* kOption = "words";
    static constexpr const char* kWords[] = {"category", "unknown"};
  };
  using Words = TextEnum<WordsValues>;

  struct TargetValues {
    enum class Value : uint8_t { kDrop, kRefuse };
    static constexpr Value kDrop = Value::kDrop, kRefuse = Value::kRefuse;
    static constexpr const char* kOption = "target";
    static constexpr const char* kWords[] = {"drop", "refuse"};
  };
  using Target = TextEnum<TargetValues>;

  std::vector<std::string> values{};  // empty: usual_missing_words()
  Numbers numbers = Numbers::kMedian;
  Words words = Words::kCategory;
  Target target = Target::kDrop;

  template <class V> void describe(V& v) {
    v("values", values,
      "cells that say that a value is missing; default: NA, NaN, null, ? and such");
    v("numbers", numbers,
      "missing numbers and dates: the median of the training rows, with a feature that says so; or "
      "an error");
    v("words", words, "missing words: a category of their own, or unknown words");
    v("target", target, "rows without a target: left out, or an error");
  }
};

// How the files are read (read_table()).
struct ReadOptions {
  std::string delimiter = "auto", decimal = ".", encoding = "utf-8";
  int64_t skip = 0;
  TableReadOptions::Header header = TableReadOptions::Header::kAuto;

  template <class V> void describe(V& v) {
    v("delimiter", delimiter, "separator of cells: one character, blanks, or auto")
        .of_form("one character, blanks or auto", is_delimiter);
    v("decimal", decimal, {".", ","}, "decimal separator of numbers");
    v("encoding", encoding, {"utf-8", "latin-1", "utf-16"}, "encoding of the text");
    v("skip", skip, {0, 1'000'000}, "lines at the top of each file that are not read");
    v("header", header, "whether the first line contains column names");
  }
  static bool is_delimiter(const std::string& text);
  // Returns the options for read_table().
  TableReadOptions for_reader() const;
};

// The data type `table`.
struct Table {
  struct TaskValues {
    enum class Value : uint8_t { kAuto, kClassification, kRegression };
    static constexpr Value kAuto = Value::kAuto, kClassification = Value::kClassification,
                           kRegression = Value::kRegression;
    static constexpr const char* kOption = "task";
    static constexpr const char* kWords[] = {"auto", "classification", "regression"};
  };
  using Task = TextEnum<TaskValues>;

  struct UnknownValues {
    enum class Value : uint8_t { kCategory, kRefuse };
    static constexpr Value kCategory = Value::kCategory, kRefuse = Value::kRefuse;
    static constexpr const char* kOption = "unknown";
    static constexpr const char* kWords[] = {"category", "refuse"};
  };
  using Unknown = TextEnum<UnknownValues>;

  // How rare classes are strengthened in training. kWeights: the loss of a sample is multiplied by
  // the number of rows / (classes * rows of its class). kOversample: rows of rarer classes are
  // repeated until all classes have the same number.
  struct BalanceValues {
    enum class Value : uint8_t { kNone, kWeights, kOversample };
    static constexpr Value kNone = Value::kNone, kWeights = Value::kWeights,
                           kOversample = Value::kOversample;
    static constexpr const char* kOption = "balance";
    static constexpr const char* kWords[] = {"none", "weights", "oversample"};
  };
  using Balance = TextEnum<BalanceValues>;

  std::vector<std::string> path{};
  std::vector<std::string> target{};
  Task task = Task::kAuto;
  std::map<std::string, std::string> columns{};  // kinds by name or pattern
  MissingOptions missing{};
  Unknown unknown = Unknown::kCategory;
  int64_t rare = 5;
  ReadOptions read{};
  TableSplit split{};
  bool scale_target = true, log_target = false, standardize = true;
  std::vector<std::string> log_targets{};
  int64_t text_words = 256;
  Balance balance = Balance::kNone;
  std::map<std::string, std::string> class_weights{};  // positive numbers by class
  int64_t max_features = 10'000;

  // Describe options that texts with a class or value (LabeledText) have, too.
  template <class V> void describe_task(V& v) {
    v("task", task,
      "kind of the target; auto: classes, unless it has numbers other than a few integers");
  }
  template <class V> void describe_reading(V& v) {
    v("read", read, "how the files are read");
    v("split", split, "training, validation and test part");
    v("scale_target", scale_target,
      "values: train on (y - mean) / standard deviation; results stay in the unit of the data");
  }
  template <class V> void describe_balance(V& v) {
    v("balance", balance,
      "rare classes: as they are; weighted in the loss by 1 / their share; or repeated until all "
      "classes have as many training rows");
    v("class_weights", class_weights,
      "weights of classes in the loss, as {yes: 3, no: 1}; 1 for others")
        .of_form("a number above 0", is_weight);
  }

  template <class V> void describe(V& v) {
    v("path", path, kPath, "files with the rows, joined by column name; wildcards are allowed")
        .required();
    v("target", target,
      "columns to predict: names or indices; -1 is the last column; several are values, or "
      "labels of two values each")
        .required();
    describe_task(v);
    v("columns", columns, column_kinds(),
      "what columns are, by name or pattern such as \"old_*\"; others are found from the data; a "
      "weight multiplies the loss and metrics of its row");
    v("missing", missing, "missing values");
    v("unknown", unknown,
      "words that training did not have: a category that they share with rare words, or an error");
    v("rare", rare, kCount, "words in fewer training rows than this are unknown words");
    describe_reading(v);
    v("log_target", log_target, "values: train on the logarithm of all targets");
    v("log_targets", log_targets,
      "values: train on the logarithm of these targets; `target: {name: price, log: true}` adds "
      "one");
    v("standardize", standardize, "scale numbers to mean 0 and standard deviation 1");
    v("text_words", text_words, {1, 100'000}, "most words of a text column that become features");
    describe_balance(v);
    v("max_features", max_features, kCount,
      "largest number of input features, with one for each word of a category");
  }
  template <class V> void rules(V& v) {
    v("class_weights", "needs 'balance: none'",
      [this] { return class_weights.empty() || balance == Balance::kNone; });
    v("log_target", "is for values, not for 'task: classification'",
      [this] { return !log_target || task != Task::kClassification; });
    v("log_targets", "must be among 'target'", [this] {
      return std::ranges::all_of(log_targets, [this](const std::string& name) {
        return std::ranges::count(target, name) > 0;
      });
    });
    v("log_targets", "is for values, not for 'task: classification'",
      [this] { return log_targets.empty() || task != Task::kClassification; });
    v("balance", "is for one target; weight rows with `columns: {NAME: weight}`",
      [this] { return target.size() == 1 || balance == Balance::kNone; });
    v("class_weights", "is for one target; weight rows with `columns: {NAME: weight}`",
      [this] { return target.size() == 1 || class_weights.empty(); });
  }

  // Returns std::nullopt if the data decide.
  std::optional<data::Task> learns() const;
  Splits load(uint64_t seed) const;
  std::vector<DataFile> files() const;
  // Columns are found by name. The targets may be missing: the column, or cells of it
  // (encode_targets()).
  DatasetPtr more(const DataInfo& info, const std::filesystem::path& file) const;
  // Reads neither targets nor weights.
  DatasetPtr unlabeled(const DataInfo& info, const std::filesystem::path& file) const;
  // Returns the columns of the file that predictions repeat: their names, and their texts by row.
  KeptColumns kept(const DataInfo& info, const std::filesystem::path& file) const;
  DType raw_dtype(const DataInfo&) const { return kFloat32; }

  static std::vector<std::string> column_kinds();
  static bool is_weight(const std::string& text);
};

// Returns the targets and weights of all rows of a further file, as far as it has their columns, as
// a batch without inputs. Warns if it lacks the column of weights.
Batch encode_targets_if_any(const TableEncoding& encoding, const RawTable& table);
// Returns the columns that predictions repeat, as far as the table has them.
KeptColumns kept_columns(const TableEncoding& encoding, const RawTable& table);

// Loads a table in steps that share what earlier steps found. A type of data whose inputs are not
// the features of columns overrides the virtual steps.
class TableLoader {
 public:
  explicit TableLoader(const Table& options);
  virtual ~TableLoader();
  TableLoader& operator=(TableLoader&&) = delete;
  Splits load();

 protected:
  // Reads all files and joins their rows.
  virtual RawTable read_files(const std::vector<std::filesystem::path>& files) const;
  // Returns what the options say about the columns.
  virtual TableRequest request() const;
  // Fits the part of encoding_ that describes inputs, on parts_.train.
  virtual void fit_inputs();
  // Returns the data set of these rows. `rest` has everything but the inputs.
  virtual DatasetPtr with_inputs(const std::vector<int64_t>& rows, Batch rest) const;
  // Sets the shape of the inputs.
  virtual void describe_inputs(DataInfo& out) const;

  const ColumnSummary& summary_of(const std::string& name) const;

  const Table& o_;
  RawTable table_;
  std::vector<ColumnSummary> columns_;
  RowParts parts_;
  TableEncoding encoding_;

 private:
  void read();
  void find_task();
  void drop_rows();
  void refuse_words() const;
  void divide();
  void fit();
  void balance();
  std::vector<double> weights_of_classes() const;
  void check_features() const;
  void refuse_gaps() const;
  void check_target() const;
  void check_width() const;
  Splits encode();
  const ColumnSummary& target() const { return summary_of(o_.target[0]); }
  std::vector<TargetColumn> fit_targets(std::span<const int64_t> rows,
                                        std::span<const int64_t> all_rows) const;
  // class_weights: by which the weights of rows are multiplied, or empty.
  DatasetPtr dataset_of(const std::vector<int64_t>& rows, std::span<const double> class_weights);
  // Returns the rows of the files from number `first` on, and removes them from rows_.
  std::vector<int64_t> take_rows_of_file(size_t first);

  size_t training_files_ = 0;
  data::Task task_ = data::Task::kClassification;
  std::vector<int64_t> rows_;  // with a target
};

}  // namespace taper::v0::data
