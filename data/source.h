// Where the data of a training run come from.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "data/dataset.h"
#include "data/tokenizer.h"

namespace taper::v0::data {

struct CsvRecipe;     // data/tables/csv.h
struct Standardizer;  // data/tables/standardizer.h

// An option whose value the data do not allow; the message says why.
struct OptionError : Error {
  OptionError(std::string option, const std::string& what) : Error(what), key(std::move(option)) {}
  std::string key;  // the option's name, as "max_features"
};

// What models, metrics and later programs know of the data.
struct DataInfo {
  Task task = Task::kClassification;
  Shape input_shape;    // of one sample: [1, 28, 28] images, [features] tables, [T] tokens
  int64_t outputs = 0;  // classes, 1 value, or tokens of the vocabulary
  std::vector<std::string> class_names{};
  double target_mean = 0, target_std = 1;        // regression: original = output * std + mean
  std::shared_ptr<const CsvRecipe> table{};      // how the columns of a CSV file become features
  std::shared_ptr<const Standardizer> scale{};   // arrays: of each element of a sample, if any
  std::shared_ptr<const Tokenizer> tokenizer{};  // text
  bool lines = false;                            // text: each line is a sequence, between two "\n"

  // Of what a model gives for one sample: [outputs], for language [T, outputs].
  Shape output_shape() const {
    return task == Task::kLanguage ? Shape{input_shape[0], outputs} : Shape{outputs};
  }
  // Inputs are int64 tokens below it; 0: they are float32.
  int64_t vocab_size() const { return tokenizer ? tokenizer->size() : 0; }
};

// What a source gives.
struct Splits : DataInfo {
  DatasetPtr train, test;  // on the CPU
  // What else is worth a line of the log: how folders were understood, what was left out.
  std::string note{};
};

// Of one of the samples [N, ...].
inline Shape sample_shape(const Tensor& samples) {
  return Shape(samples.shape().begin() + 1, samples.shape().end());
}

// Rows at random for the test, and the others. `key` names the fraction in messages. InputError:
// one of them would be empty.
struct Halves {
  Batch train, test;
};
Halves random_split(const Batch& all, double test_fraction, uint64_t seed, const std::string& key);
// Both as sets of their tensors.
Splits splits_of(DataInfo info, const Halves& rows);

// What of a source's data can be told at once: in an outline the samples may be zeros.
struct Outline : Splits {
  std::string unread{};  // what was not looked at, as "the pixels"
};

// What a source reads: one file, or several that are read as one.
struct DataFile {
  std::string name;
  std::vector<std::filesystem::path> parts;
};
// One for each path that is given.
std::vector<DataFile> files_of(std::initializer_list<std::optional<std::string>> paths);
// Those directly in a directory, by name.
std::vector<DataFile> files_in(const std::filesystem::path& directory);

// Classes counted from 0 to the largest label; warns of gaps. DataError: one class, or 255 for what
// has no label.
int64_t count_classes(std::span<const int64_t> labels, const std::string& file);
// InputError: a label out of [0, classes).
void require_classes(std::span<const int64_t> labels, int64_t classes, const std::string& file);
// ValueError: data of classes that are not named one by one.
void require_names(const DataInfo& info);
// "0", "1", ...
std::vector<std::string> numbers_below(int64_t count);

// A kind of data, as Csv, is a struct of options that describes itself (framework/base/describe.h)
// and loads what they name:
//
//   struct Moons {
//     int64_t samples = 1000;
//     template <class V> void describe(V& v) { v("samples", samples, kCount, "points"); }
//     data::Splits load(uint64_t seed) const;
//   };
//
// It may also have learns(), outline(), files(), more(), raw_dtype and prepared(), as declared
// here; else these answers stand. Statistics are learned on the training rows alone. InputError:
// data that are missing, damaged or too few; DataError: such as nothing can be learned from.
// OptionError: an option that they do not allow.
class Source {
 public:
  virtual ~Source() = default;
  virtual Splits load(uint64_t seed) const = 0;  // the run's seed
  // Known without reading.
  virtual Task learns() const { return Task::kClassification; }
  // As load(), but as cheap as can be.
  virtual Outline outline(uint64_t seed) const { return {load(seed)}; }
  virtual std::vector<DataFile> files() const { return {}; }  // all that load() reads
  // The samples of a further file, treated as the training data were; without labels, where it has
  // none. InputError: as above; also a category, a class or a size that these do not have.
  virtual DatasetPtr more(const DataInfo& info, const std::filesystem::path& file) const;
  // Raw samples [N, ...] as a model takes them, by ops: bytes of pixels, numbers of a table with
  // nan for what is missing.
  virtual DType raw_dtype(const DataInfo& info) const {
    return info.vocab_size() > 0 ? kInt64 : kFloat32;
  }
  virtual Tensor prepared(const DataInfo&, const Tensor& raw) const { return raw; }
};

// The source that such options are.
template <class Options> class SourceOf final : public Source {
 public:
  explicit SourceOf(Options options) : options_(std::move(options)) {}
  Splits load(uint64_t seed) const override {
    Splits out = options_.load(seed);
    require_names(out);
    return out;
  }
  Task learns() const override {
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
