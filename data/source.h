// Sources of the data of training runs.
#pragma once

#include <cmath>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "data/dataset.h"
#include "data/tokenizer.h"

namespace taper::v0::data {

struct CsvEncoding;     // data/tables/csv.h
struct ImageEncoding;   // data/images/image_encoding.h
struct SeriesEncoding;  // data/series/series_encoding.h
struct Standardizer;    // data/tables/standardizer.h
struct TableEncoding;   // data/tables/table_encoding.h

// Thrown if the data do not allow the value of an option. The message gives the reason.
struct OptionError : Error {
  OptionError(std::string option, const std::string& what) : Error(what), key(std::move(option)) {}
  std::string key;  // name of the option, as "max_features"
};

// How a value becomes the target of the model: (y - mean) / std of y or of its logarithm.
struct TargetScale {
  std::string name{};  // empty if there is one target
  double mean = 0, std = 1;
  bool is_log = false;

  // Returns the value in the unit of the data that an output means.
  double original(double output) const {
    const double value = output * std + mean;
    return is_log ? std::exp(value) : value;
  }
};

// One of several targets that have two classes each. Any combination of labels may hold.
struct Label {
  std::string name;
  std::vector<std::string> classes;  // two: the label does not hold, and it holds
};

// Properties of the data that models, metrics and later commands need.
struct DataInfo {
  Task task = Task::kClassification;
  Shape input_shape;  // shape of one sample: images [1, 28, 28], tables [features], text [T] tokens
  int64_t outputs = 0;  // number of classes, 1 for a value, or size of the vocabulary
  std::vector<std::string> class_names{};
  double target_mean = 0, target_std = 1;          // regression: original = output * std + mean
  bool target_is_log = false;                      // regression: that is the original's logarithm
  std::shared_ptr<const CsvEncoding> table{};      // how columns of a CSV file become features
  std::shared_ptr<const TableEncoding> columns{};  // how the columns of a table become features
  std::shared_ptr<const SeriesEncoding> series{};  // how the rows of a table become series
  std::shared_ptr<const ImageEncoding> images{};   // how image files become samples
  // The last features of a sample are indices of categories. The number of indices of each.
  std::vector<int64_t> category_sizes{};
  // how each element of a sample is scaled if the data are arrays, or null
  std::shared_ptr<const Standardizer> scale{};
  std::shared_ptr<const Tokenizer> tokenizer{};  // text
  bool lines = false;                            // text: each line is a sequence between two "\n"
  std::vector<TargetScale> several_targets{};    // regression: of each output; empty for one target
  // Classes: the weight of each in the loss of training; empty: all are 1.
  std::vector<double> class_weights{};
  // Two classes: the probability of class 1 from which on it is the prediction. Labels: one
  // probability for each. Empty: 0.5. Not stored with the data.
  std::vector<double> thresholds{};
  // Several targets of two classes each: outputs are their logits, targets [N, labels] are float32
  // 0 and 1, and class_names are the names of the labels.
  std::vector<Label> labels{};
  bool has_weights = false;  // Batch::others[0] has the weights of the samples, [N] float32

  // Returns the shape of a model's output for one sample: [outputs], or [T, outputs] for a language
  // model.
  Shape output_shape() const {
    return task == Task::kLanguage ? Shape{input_shape[0], outputs} : Shape{outputs};
  }
  // Returns the number of tokens if inputs are int64 tokens; 0 if they are float32.
  int64_t vocab_size() const { return tokenizer ? tokenizer->size() : 0; }
  // Regression: returns the scale of each output.
  std::vector<TargetScale> target_scales() const {
    if (!several_targets.empty()) return several_targets;
    return {{.name = "", .mean = target_mean, .std = target_std, .is_log = target_is_log}};
  }
};

// The data sets that a source loads.
struct Splits : DataInfo {
  DatasetPtr train, test;  // on the CPU
  // More text for the log, such as how folders were interpreted and which files were left out.
  std::string note{};
  // The validation part, by which the saved weights are chosen, so that the test part remains
  // unseen. Null if there is none.
  DatasetPtr validation{};

  // A report of how the data were read, in lines, for the log.
  std::string report{};

  // Returns the part on which evaluations during training run: the validation part, or the test
  // part if there is none.
  const DatasetPtr& evaluated() const { return validation ? validation : test; }
  const char* evaluated_name() const { return validation ? "validation" : "test"; }
  // Returns whether evaluations may choose weights, stop the run and set the learning rate. The
  // test part of a table, of series or of image files never does.
  bool may_decide() const { return validation || !(columns || series || images); }
};
// Returns "100 training, 20 validation and 30 test samples".
std::string sizes_text(const Splits& parts);

// Returns the shape of one of the samples [N, ...].
inline Shape sample_shape(const Tensor& samples) {
  return Shape(samples.shape().begin() + 1, samples.shape().end());
}

// A random split of rows into a test set and the rest. `key` is the name of the fraction in
// messages. Throws InputError if either part would be empty.
struct TrainTestSplit {
  Batch train, test;
};
TrainTestSplit random_split(const Batch& all, double test_fraction, uint64_t seed,
                            const std::string& key);
// Returns the parts of a random split, in which each part is a data set of the tensors in its
// Batch.
Splits splits_of(DataInfo info, const TrainTestSplit& rows);

// A description of a source's data that is available quickly, because the samples may be zeros
// instead of data.
struct Outline : Splits {
  std::string unread{};  // what was not read, as "the pixels"
};

// A file that a source reads, or several that are read as one.
struct DataFile {
  std::string name;
  std::vector<std::filesystem::path> parts;
};
// Returns one DataFile for each path that is given.
std::vector<DataFile> files_of(std::initializer_list<std::optional<std::string>> paths);
// Returns the files directly in a directory, sorted by name.
std::vector<DataFile> files_in(const std::filesystem::path& directory);
// Returns the files of a vocabulary, which is a directory or a file.
std::vector<DataFile> vocabulary_files(const std::string& path);

// Returns the largest label plus 1, and warns of gaps. Throws DataError for a single class, and for
// the label 255, which usually marks missing labels.
int64_t count_classes(std::span<const int64_t> labels, const std::string& file);
// Throws InputError if a label is outside of [0, classes).
void require_classes(std::span<const int64_t> labels, int64_t classes, const std::string& file);
// Throws ValueError if the data are for classification and do not have one name for each class.
void require_names(const DataInfo& info);
// Returns "0", "1", and so on.
std::vector<std::string> numbers_below(int64_t count);

// Columns of a file that predictions repeat: their names, and their texts for each row.
struct KeptColumns {
  std::vector<std::string> names{};
  std::vector<std::vector<std::string>> rows{};
};

// A kind of data, such as Csv, is a struct of options that describes itself
// (framework/base/describe.h) and loads the data that they name:
//
//   struct Moons {
//     int64_t samples = 1000;
//     template <class V> void describe(V& v) { v("samples", samples, kCount, "points"); }
//     data::Splits load(uint64_t seed) const;
//   };
//
// It may also define learns(), outline(), files(), more(), unlabeled(), kept(), raw_dtype and
// prepared() as declared here; otherwise these defaults apply. Statistics are computed from the
// training rows only. Errors: InputError if data are missing, damaged or too few. DataError if they
// cannot be used for training. OptionError if they do not allow the value of an option.
class Source {
 public:
  virtual ~Source() = default;
  virtual Splits load(uint64_t seed) const = 0;  // the seed of the run
  // Returns the task, without reading the data; std::nullopt if the data decide.
  virtual std::optional<Task> learns() const { return Task::kClassification; }
  // Returns the shapes and sizes that load() would give. A source that can read these without the
  // samples overrides this, to be fast.
  virtual Outline outline(uint64_t seed) const { return {load(seed)}; }
  virtual std::vector<DataFile> files() const { return {}; }  // all files that load() reads
  // Returns the samples of a further file, converted like the training data. They have no labels if
  // the file has none. Throws the errors of load(), and InputError for a category, class or size
  // that the training data do not have.
  virtual DatasetPtr more(const DataInfo& info, const std::filesystem::path& file) const;
  // Returns the samples of a further file for predictions, which need no labels. A source whose
  // files may have labels overrides this, so that labels that are missing or unknown are no error.
  virtual DatasetPtr unlabeled(const DataInfo& info, const std::filesystem::path& file) const {
    return more(info, file);
  }
  // Returns what predictions for the file repeat of its columns.
  virtual KeptColumns kept(const DataInfo&, const std::filesystem::path&) const { return {}; }
  // Returns the dtype of the raw samples [N, ...] that prepared() accepts: uint8 for images,
  // float32 or float64 for tables, with nan for missing values, and int64 for tokens.
  virtual DType raw_dtype(const DataInfo& info) const {
    return info.vocab_size() > 0 ? kInt64 : kFloat32;
  }
  virtual Tensor prepared(const DataInfo&, const Tensor& raw) const { return raw; }
};

// A Source made of a struct of options as described above.
template <class Options> class SourceOf final : public Source {
 public:
  explicit SourceOf(Options options) : options_(std::move(options)) {}
  Splits load(uint64_t seed) const override {
    Splits out = options_.load(seed);
    require_names(out);
    return out;
  }
  std::optional<Task> learns() const override {
    if constexpr (requires { options_.learns(); }) return options_.learns();
    return Source::learns();
  }
  Outline outline(uint64_t seed) const override {
    if constexpr (requires { options_.outline(seed); }) return options_.outline(seed);
    return Source::outline(seed);
  }
  std::vector<DataFile> files() const override {
    if constexpr (requires { options_.files(); }) return options_.files();
    return Source::files();
  }
  DatasetPtr more(const DataInfo& info, const std::filesystem::path& file) const override {
    if constexpr (requires { options_.more(info, file); }) return options_.more(info, file);
    return Source::more(info, file);
  }
  DatasetPtr unlabeled(const DataInfo& info, const std::filesystem::path& file) const override {
    if constexpr (requires { options_.unlabeled(info, file); }) {
      return options_.unlabeled(info, file);
    }
    return Source::unlabeled(info, file);
  }
  KeptColumns kept(const DataInfo& info, const std::filesystem::path& file) const override {
    if constexpr (requires { options_.kept(info, file); }) return options_.kept(info, file);
    return Source::kept(info, file);
  }
  DType raw_dtype(const DataInfo& info) const override {
    if constexpr (requires { options_.raw_dtype(info); }) {
      return options_.raw_dtype(info);
    } else if constexpr (requires { Options::raw_dtype; }) {
      return Options::raw_dtype;
    }
    return Source::raw_dtype(info);
  }
  Tensor prepared(const DataInfo& info, const Tensor& raw) const override {
    if constexpr (requires { options_.prepared(info, raw); }) return options_.prepared(info, raw);
    return Source::prepared(info, raw);
  }

 private:
  Options options_;
};

}  // namespace taper::v0::data
