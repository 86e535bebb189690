// NumPy arrays as a dataset.
#include "framework/io/npy.h"

#include <limits>

#include "data/tables/npy_dataset.h"
#include "framework/factory/factories.h"
#include "tests/data_files.h"

namespace taper::v0::data {
namespace {

class NpyData : public DataFiles {
 protected:
  template <class T> std::string put(const std::string& name, std::vector<T> x, Shape shape) const {
    const std::string file = (directory_ / name).string();
    save_npy(file, tensor_of(x.data(), shape));
    return file;
  }
};

const Batch& all_of(const DatasetPtr& set) {
  return dynamic_cast<const TensorDataset&>(*set).all();
}

TEST_F(NpyData, ClassesAreCountedInTheTrainingFile) {
  Npy config{.inputs = put<float>("x", {0, 1, 2, 3, 4, 5}, {3, 2, 1}),
             .targets = put<int64_t>("y", {0, 2, 1}, {3}),
             .test_inputs = put<int64_t>("a", {7, 8}, {1, 2, 1}),
             .test_targets = put<int64_t>("b", {2}, {1, 1})};
  const Splits data = config.load(1);
  EXPECT_EQ(data.task, Task::kClassification);
  EXPECT_EQ(data.outputs, 3);
  EXPECT_EQ(data.class_names.back(), "2");
  EXPECT_EQ(data.input_shape, (Shape{2, 1}));
  EXPECT_EQ(data.train->size(), 3);
  EXPECT_EQ(all_of(data.train).targets.to_vector<int64_t>(), (std::vector<int64_t>{0, 2, 1}));
  EXPECT_EQ(all_of(data.test).inputs.to_floats(), (std::vector<float>{7, 8}));
  EXPECT_EQ(config.files().size(), 4u);
  EXPECT_EQ(config.more(data, *config.test_inputs)->fields(), std::vector<std::string>{"inputs"});
  config.test_targets = put<int64_t>("b", {3}, {1});
  EXPECT_NE(refusal_of<InputError>([&] { config.load(1); }).find("expected a label in 0 .. 2"),
            std::string::npos);
}

TEST_F(NpyData, NumbersAreSplitAtRandom) {
  Npy config{.inputs = put<float>("x", {0, 1, 2, 3, 4, 5, 6, 7}, {4, 2}),
             .targets = put<float>("y", {0, 1, 2, 3}, {4}),
             .test_fraction = 0.25,
             .task = Task::kRegression};
  const Splits data = config.load(1);
  EXPECT_EQ(data.outputs, 1);
  EXPECT_EQ(data.train->size(), 3);
  const Batch test = all_of(data.test);
  EXPECT_EQ(test.inputs.to_floats()[0], 2 * test.targets.to_floats()[0]);
}

TEST_F(NpyData, WhatDoesNotFitIsRefusedWithItsFile) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const std::string x = put<float>("x", {0, 1, 2, 3}, {2, 2});
  const struct {
    std::string inputs, targets, says;
  } rows[] = {
      {x, put<int64_t>("three", {0, 1, 1}, {3}), "expected 2 targets"},
      {x, put<float>("floats", {0, 1}, {2}), "expected classes as integers"},
      {x, put<int64_t>("negative", {0, -1}, {2}), "got -1"},
      {put<float>("flat", {0, 1}, {2}), put<int64_t>("y", {0, 1}, {2}), "expected samples"},
      {put<float>("nan", {0, nan}, {2, 1}), put<int64_t>("y", {0, 1}, {2}), "no finite float32"},
      {write("text", "words"), put<int64_t>("y", {0, 1}, {2}), "not a NumPy array file"},
  };
  for (const auto& row : rows) {
    const Npy config{.inputs = row.inputs, .targets = row.targets};
    const std::string message = refusal_of<InputError>([&] { config.load(1); });
    EXPECT_NE(message.find(row.says), std::string::npos) << message;
    EXPECT_NE(message.find(directory_.string()), std::string::npos) << message;
  }
}

}  // namespace
}  // namespace taper::v0::data
