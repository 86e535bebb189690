// NumPy's .npy arrays as a data set.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "data/source.h"
#include "framework/describe.h"

namespace taper::v0::data {

// One pair of files that is cut at random, or two. InputError: no such array, numbers that are not
// finite, classes that are no integers from 0, or shapes that do not go together.
struct Npy {
  std::string inputs, targets;  // [N, ...] numbers; [N] or [N, 1] classes from 0, or numbers
  std::optional<std::string> test_inputs{}, test_targets{};
  double test_fraction = 0.2;  // means nothing when test_inputs are given
  Task task = Task::kClassification;

  template <class V> void describe(V& v) {
    v("inputs", inputs, kPath, ".npy array of samples; its first dimension counts them").required();
    v("targets", targets, kPath, ".npy array with a class or a number for each").required();
    v("test_inputs", test_inputs, kPath, "the same for the test");
    v("test_targets", test_targets, kPath, "their targets");
    v("test_fraction", test_fraction, kBetweenZeroAndOne,
      "part of the samples that is kept for the test")
        .idle_when("test_inputs are given", [this] { return test_inputs.has_value(); });
    v("task", task, {"classification", "regression"}, "what the targets are");
  }
  template <class V> void rules(V& v) {
    v("test_inputs", "go together with 'test_targets'",
      [this] { return test_inputs.has_value() == test_targets.has_value(); });
  }

  Task learns() const { return task; }
  Splits load(uint64_t seed) const;
  std::vector<DataFile> files() const {
    return files_of({inputs, targets, test_inputs, test_targets});
  }
  // An array of inputs.
  DatasetPtr more(const DataInfo& info, const std::filesystem::path& file) const;
};

}  // namespace taper::v0::data
