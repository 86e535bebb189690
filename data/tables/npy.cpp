#include "data/tables/npy.h"

#include <algorithm>
#include <cmath>
#include <memory>

#include "framework/io/npy.h"

namespace taper::v0::data {
namespace {

Tensor read_floats(const std::string& file) {
  const Tensor x = load_npy(file).to(kFloat32);
  const std::span<const float> values = x.span<float>();
  const auto bad = std::ranges::find_if(values, [](float v) { return !std::isfinite(v); });
  if (bad == values.end()) return x;
  throw InputError(file, ": element ", bad - values.begin(), " of ", values.size(),
                   " (counted from 0) is no finite float32");
}

Tensor read_samples(const std::string& file) {
  const Tensor x = read_floats(file);
  if (x.dim() > 1 && x.numel() > 0) return x;
  throw InputError(file, ": expected samples [N, ...], got the shape ", x.shape());
}

Batch read_batch(const std::string& inputs, const std::string& targets, Task task) {
  Batch out{read_samples(inputs), {}};
  const bool is_regression = task == Task::kRegression;
  Tensor y = is_regression ? read_floats(targets) : load_npy(targets);
  if (y.dim() == 2 && y.size(1) == 1) y = y.squeeze(1);
  const int64_t count = out.inputs.size(0);
  require<InputError>(y.shape() == Shape{count}, targets, ": expected ", count,
                      " targets, one for each sample of ", inputs, ", got the shape ", y.shape());
  require<InputError>(is_regression || !is_floating_point(y.dtype()), targets,
                      ": expected classes as integers from 0, got ", y.dtype(),
                      "; for numbers say `task: regression`");
  out.targets = is_regression ? y : y.to(kInt64);
  return out;
}

void require_shape(const DataInfo& info, const Tensor& samples, const std::string& what) {
  const Shape shape = sample_shape(samples);
  require<InputError>(shape == info.input_shape, "training samples have the shape ",
                      info.input_shape, ", those of ", what, " ", shape);
}

}  // namespace

Splits Npy::load(uint64_t seed) const {
  constexpr int64_t kMostClasses = 1 << 24;
  const Batch all = read_batch(inputs, targets, task);
  DataInfo info{.task = task, .input_shape = sample_shape(all.inputs), .outputs = 1};
  if (task == Task::kClassification) {
    const std::span<const int64_t> labels = all.targets.span<int64_t>();
    require_classes(labels, kMostClasses, targets);
    info.outputs = count_classes(labels, targets);
    info.class_names = numbers_below(info.outputs);
  }
  if (!test_inputs) {
    return splits_of(info, random_split(all, test_fraction, seed, "data.test_fraction"));
  }
  const Batch test = read_batch(*test_inputs, test_targets.value_or(""), task);
  if (task == Task::kClassification) {
    require_classes(test.targets.span<int64_t>(), info.outputs, *test_targets);
  }
  require_shape(info, test.inputs, "the test");
  return splits_of(info, {all, test});
}

DatasetPtr Npy::more(const DataInfo& info, const std::filesystem::path& file) const {
  const Tensor samples = read_samples(file);
  require_shape(info, samples, file.string());
  return std::make_shared<TensorDataset>(Batch{samples, {}});
}

}  // namespace taper::v0::data
