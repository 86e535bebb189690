// NumPy's .npy arrays as a data source.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "data/source.h"
#include "framework/base/describe.h"

namespace taper::v0::data {

// One pair of files (inputs and targets) that is split at random, or two pairs. Throws InputError
// for a file that is not an array of numbers, numbers that are not finite, classes that are not
// integers from 0, and shapes that do not match.
struct Npy {
  std::string inputs, targets;  // [N, ...] numbers; [N] or [N, 1] classes from 0, or numbers
  std::optional<std::string> test_inputs{}, test_targets{};
  double test_fraction = 0.2;  // ignored if test_inputs is given
  Task task = Task::kClassification;
  bool standardize = false;
  bool scale_target = false;  // regression: trains on (y - mean) / std, and reports y

  template <class V> void describe(V& v) {
    v("inputs", inputs, kPath, ".npy array of samples [N, ...]").required();
    v("targets", targets, kPath, ".npy array with a class or a number for each sample").required();
    v("test_inputs", test_inputs, kPath, ".npy array of test samples");
    v("test_targets", test_targets, kPath, "targets of test_inputs");
    v("test_fraction", test_fraction, kBetweenZeroAndOne, "fraction of the samples for testing")
        .idle_when("test_inputs are given", [this] { return test_inputs.has_value(); });
    v("task", task, {"classification", "regression"}, "kind of the targets");
    v("standardize", standardize,
      "scale each element of a sample to mean 0 and standard deviation 1");
    v("scale_target", scale_target,
      "regression: scale targets to mean 0 and standard deviation 1 for training; results stay in "
      "the unit of the data");
  }
  template <class V> void rules(V& v) {
    v("test_inputs", "go together with 'test_targets'",
      [this] { return test_inputs.has_value() == test_targets.has_value(); });
    v("scale_target", "is for 'task: regression' only",
      [this] { return !scale_target || task == Task::kRegression; });
  }

  Task learns() const { return task; }
  Splits load(uint64_t seed) const;
  std::vector<DataFile> files() const {
    return files_of({inputs, targets, test_inputs, test_targets});
  }
  // Reads a further array of inputs, without targets.
  DatasetPtr more(const DataInfo& info, const std::filesystem::path& file) const;
  // Returns float32, or float64 if float32 cannot represent the differences between an element's
  // numbers.
  DType raw_dtype(const DataInfo& info) const;
  Tensor prepared(const DataInfo& info, const Tensor& raw) const;
};

}  // namespace taper::v0::data
