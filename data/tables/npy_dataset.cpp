#include "data/tables/npy_dataset.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>

#include "autograd/ops/binary_ops.h"
#include "autograd/ops/shape_ops.h"
#include "data/tables/standardizer.h"
#include "framework/base/cancel.h"
#include "framework/base/log.h"
#include "framework/factory/factories.h"
#include "framework/io/npy.h"

namespace taper::v0::data {
namespace {

template <class T> void require_finite(const Tensor& x, const std::string& file) {
  const std::span<const T> values = x.span<T>();
  const auto bad = std::ranges::find_if_not(values, [](T v) {
    return std::abs(double{v}) <= double{std::numeric_limits<float>::max()};  // false for nan
  });
  if (bad == values.end()) return;
  throw InputError(file, ": element ", bad - values.begin(), " of ", values.size(),
                   " (counted from 0) is no finite float32");
}

// Keeps float64 and integers, because scaling must precede rounding to float32.
Tensor read_numbers(const std::string& file) {
  const Tensor stored = load_npy(file).contiguous();
  const bool is_exact = stored.dtype() == kFloat64 || !stored.is_floating_point();
  const Tensor x = is_exact ? stored : stored.to(kFloat32);
  if (x.dtype() == kFloat64) require_finite<double>(x, file);
  if (x.dtype() == kFloat32) require_finite<float>(x, file);
  return x;
}

Tensor read_samples(const std::string& file) {
  const Tensor x = read_numbers(file);
  if (x.dim() > 1 && x.numel() > 0) return x;
  throw InputError(file, ": expected samples [N, ...], got the shape ", x.shape());
}

Batch read_batch(const std::string& inputs, const std::string& targets, Task task) {
  Batch out{read_samples(inputs), {}};
  const bool is_regression = task == Task::kRegression;
  Tensor y = is_regression ? read_numbers(targets) : load_npy(targets);
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

// Computes statistics of each element of a sample over all samples, in blocks of columns, so that
// no complete copy in double is needed.
Standardizer fit(const Tensor& samples) {
  constexpr int64_t kMostInBlock = 1 << 20;
  const int64_t count = samples.size(0), width = samples.numel() / count;
  const int64_t block = std::clamp<int64_t>(kMostInBlock / count, 1, width);
  const Tensor matrix = samples.reshape({count, width});
  Standardizer out;
  for (int64_t from = 0; from < width; from += block) {
    check_stop();
    const int64_t columns = std::min(block, width - from);
    const Tensor wide = matrix.narrow(1, from, columns).to(kFloat64).contiguous();
    const Standardizer part = fit_standardizer(wide.span<double>(), columns);
    for (size_t j = 0; j < part.mean.size(); ++j) out.add(part.fill[j], part.mean[j], part.std[j]);
  }
  return out;
}

// Converts some samples at a time, so that no complete copy in double is needed.
Tensor standardized_samples(const Tensor& samples, const Standardizer& scale) {
  constexpr int64_t kMostInBlock = 1 << 20;
  const int64_t count = samples.size(0);
  const int64_t block = std::clamp<int64_t>(kMostInBlock * count / samples.numel(), 1, count);
  const Tensor out = empty(samples.shape(), {.dtype = kFloat32});
  for (int64_t from = 0; from < count; from += block) {
    check_stop();
    const int64_t rows = std::min(block, count - from);
    out.narrow(0, from, rows).copy_(standardized(samples.narrow(0, from, rows), scale));
  }
  return out;
}

// Warns if rounding to float32 loses precision that the file has.
void check_precision(const Tensor& samples, const std::string& file, const char* key) {
  const bool is_wide = samples.dtype() == kFloat64 || samples.dtype() == kInt64;
  if (!is_wide || !is_beyond_float32(fit(samples))) return;
  warn(concat_to_string(
      file, ": its numbers differ by less than float32 can hold, which is what the model ",
      "takes: say `", key, ": true`, or subtract a constant"));
}

// Scales the rows and converts them from the files' units to the model's.
Batch scaled(const DataInfo& info, const Batch& rows) {
  Batch out = rows;
  out.inputs =
      info.scale ? standardized_samples(rows.inputs, *info.scale) : rows.inputs.to(kFloat32);
  if (info.task == Task::kRegression && rows.targets.defined()) {
    out.targets = ((rows.targets.to(kFloat64) - info.target_mean) / info.target_std).to(kFloat32);
  }
  return out;
}

// Scales both parts by the statistics of the first.
Splits scaled(const Npy& npy, DataInfo info, const TrainTestSplit& rows) {
  if (npy.standardize) {
    info.scale = std::make_shared<const Standardizer>(fit(rows.train.inputs));
  } else {
    check_precision(rows.train.inputs, npy.inputs, "standardize");
  }
  if (npy.scale_target) {
    const Standardizer target = fit(rows.train.targets);
    info.target_mean = target.mean[0];
    info.target_std = target.std[0];
  } else if (npy.task == Task::kRegression) {
    check_precision(rows.train.targets, npy.targets, "scale_target");
  }
  return splits_of(info, {scaled(info, rows.train), scaled(info, rows.test)});
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
    return scaled(*this, info, random_split(all, test_fraction, seed, "data.test_fraction"));
  }
  const Batch test = read_batch(*test_inputs, test_targets.value_or(""), task);
  if (task == Task::kClassification) {
    require_classes(test.targets.span<int64_t>(), info.outputs, *test_targets);
  }
  require_shape(info, test.inputs, "the test");
  return scaled(*this, info, {all, test});
}

DatasetPtr Npy::more(const DataInfo& info, const std::filesystem::path& file) const {
  const Tensor samples = read_samples(file);
  require_shape(info, samples, file.string());
  return std::make_shared<TensorDataset>(scaled(info, {samples, {}}));
}

DType Npy::raw_dtype(const DataInfo& info) const {
  return info.scale && is_beyond_float32(*info.scale) ? kFloat64 : kFloat32;
}

Tensor Npy::prepared(const DataInfo& info, const Tensor& raw) const {
  return info.scale ? standardized(raw, *info.scale) : raw.to(kFloat32);
}

}  // namespace taper::v0::data
