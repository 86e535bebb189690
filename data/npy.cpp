#include "data/npy.h"

#include <algorithm>
#include <cmath>

#include "framework/io/npy.h"

namespace taper::data {
namespace {

Tensor read_array(const std::string& file) try {
  return load_npy(file);
} catch (const OutOfMemoryError&) {
  throw;
} catch (const Error& error) {
  throw InputError(error.what());
}

Tensor read_floats(const std::string& file) {
  const Tensor x = read_array(file).to(kFloat32);
  const std::span<const float> values = x.span<float>();
  const auto bad = std::ranges::find_if(values, [](float v) { return !std::isfinite(v); });
  if (bad == values.end()) return x;
  throw InputError(cat(file, ": element ", bad - values.begin(), " of ", values.size(),
                       " (counted from 0) is no finite float32"));
}

Tensor read_samples(const std::string& file) {
  const Tensor x = read_floats(file);
  if (x.dim() > 1 && x.numel() > 0) return x;
  throw InputError(cat(file, ": expected samples [N, ...], got the shape ", x.shape()));
}

Batch read_batch(const std::string& inputs, const std::string& targets, Task task) {
  Batch out{read_samples(inputs), {}};
  const bool is_regression = task == Task::kRegression;
  Tensor y = is_regression ? read_floats(targets) : read_array(targets);
  if (y.dim() == 2 && y.size(1) == 1) y = y.squeeze(1);
  const int64_t count = out.inputs.size(0);
  if (y.shape() != Shape{count}) {
    throw InputError(cat(targets, ": expected ", count, " targets, one for each sample of ", inputs,
                         ", got the shape ", y.shape()));
  }
  if (!is_regression && is_floating_point(y.dtype())) {
    throw InputError(cat(targets, ": expected classes as integers from 0, got ", y.dtype(),
                         "; for numbers say `task: regression`"));
  }
  out.targets = is_regression ? y : y.to(kInt64);
  return out;
}

void require_shape(const DataInfo& info, const Tensor& samples, const std::string& what) {
  const Shape shape(samples.shape().begin() + 1, samples.shape().end());
  if (shape == info.input_shape) return;
  throw InputError(
      cat("training samples have the shape ", info.input_shape, ", those of ", what, " ", shape));
}

void require_classes(const Tensor& labels, int64_t classes, const std::string& file) {
  const std::span<const int64_t> all = labels.span<int64_t>();
  const auto bad = std::ranges::find_if(all, [=](int64_t y) { return y < 0 || y >= classes; });
  if (bad == all.end()) return;
  throw InputError(cat(file, ": record ", bad - all.begin(), " (counted from 0): expected a label ",
                       "in 0 .. ", classes - 1, ", got ", *bad));
}

}  // namespace

Splits Npy::load(uint64_t seed) const {
  constexpr int64_t kMostClasses = 1 << 24;
  const Batch all = read_batch(inputs, targets, task);
  Splits out;
  out.task = task;
  out.outputs = 1;
  if (task == Task::kClassification) {
    require_classes(all.targets, kMostClasses, targets);
    out.outputs = count_classes(all.targets.span<int64_t>(), targets);
    out.class_names = numbers_below(out.outputs);
  }
  const Halves rows = test_inputs
                          ? Halves{all, read_batch(*test_inputs, test_targets.value_or(""), task)}
                          : random_split(all, test_fraction, seed, "data.test_fraction");
  if (test_targets && task == Task::kClassification) {
    require_classes(rows.test.targets, out.outputs, *test_targets);
  }
  out.input_shape = Shape(all.inputs.shape().begin() + 1, all.inputs.shape().end());
  require_shape(out, rows.test.inputs, "the test");
  out.train = std::make_shared<TensorDataset>(rows.train);
  out.test = std::make_shared<TensorDataset>(rows.test);
  return out;
}

std::vector<DataFile> Npy::files() const {
  std::vector<DataFile> out = {{inputs, {inputs}}, {targets, {targets}}};
  if (test_inputs) out.push_back({*test_inputs, {*test_inputs}});
  if (test_targets) out.push_back({*test_targets, {*test_targets}});
  return out;
}

DatasetPtr Npy::more(const DataInfo& info, const std::filesystem::path& file) const {
  const Tensor samples = read_samples(file);
  require_shape(info, samples, file.string());
  return std::make_shared<TensorDataset>(Batch{samples, {}});
}

}  // namespace taper::data
