// NumPy's .npy arrays as a data source.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "data/source.h"
#include "framework/base/describe.h"

namespace taper::v0::data {

// One pair of files that is split at random, or two pairs. Throws InputError for a file that is not
// such an array, numbers that are not finite, classes that are not integers from 0, and shapes that
// do not match.
struct Npy {
  std::string inputs, targets;  // [N, ...] numbers; [N] or [N, 1] classes from 0, or numbers
  std::optional<std::string> test_inputs{}, test_targets{};
  double test_fraction = 0.2;  // ignored if test_inputs is given
  Task task = Task::kClassification;
  bool standardize = false;
  bool scale_target = false;  // regression: trains on (y - mean) / std, and reports y

  template <class V> void describe(V& v) {
    v("inputs", inputs, kPath, ".npy array of samples; its first dimension counts them").required();
    v("targets", targets, kPath, ".npy array with a class or a number for each").required();
    v("test_inputs", test_inputs, kPath, "the same for the test");
    v("test_targets", test_targets, kPath, "their targets");
    v("test_fraction", test_fraction, kBetweenZeroAndOne,
      "part of the samples that is kept for the test")
        .idle_when("test_inputs are given", [this] { return test_inputs.has_value(); });
    v("task", task, {"classification", "regression"}, "what the targets are");
    v("standardize", standardize, "scale each element of a sample to mean 0 and deviation 1");
    v("scale_target", scale_target,
      "regression: learn targets of mean 0 and deviation 1; results stay in the data's units");
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
  // Reads a further array of inputs.
  DatasetPtr more(const DataInfo& info, const std::filesystem::path& file) const;
  // float32, or float64 if float32 cannot represent the differences between an element's numbers.
  DType raw_dtype(const DataInfo& info) const;
  Tensor prepared(const DataInfo& info, const Tensor& raw) const;
};

}  // namespace taper::v0::data
