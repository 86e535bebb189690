#include "apps/runner/dataset.h"

#include <algorithm>
#include <cmath>
#include <span>

#include "apps/runner/data/csv.h"
#include "apps/runner/data/digits.h"
#include "apps/runner/data/idx.h"
#include "apps/runner/errors.h"
#include "autograd/ops/index.h"
#include "framework/factories.h"

namespace taper::runner {
namespace {

// Pixels become [0, 1].
Split as_split(const Images& images, Device device) {
  Tensor inputs = empty({images.count, 1, images.height, images.width});
  std::transform(images.pixels.begin(), images.pixels.end(), inputs.data<float>(),
                 [](uint8_t p) { return float(p) / 255.0f; });
  return {inputs.to(device), tensor_of(images.labels.data(), {images.count}, {.device = device})};
}

Dataset of_images(const Images& train, const Images& test, Device device) {
  if (test.height != train.height || test.width != train.width) {
    throw InputError(cat("training images are ", train.height, "x", train.width,
                         ", test images are ", test.height, "x", test.width));
  }
  Dataset out;
  out.train = as_split(train, device);
  out.test = as_split(test, device);
  out.outputs = 10;
  for (int i = 0; i < 10; ++i) out.class_names.push_back(std::to_string(i));
  out.input_shape = {1, train.height, train.width};
  return out;
}

Split as_split(const CsvTable& table) {
  const Tensor inputs = tensor_of(table.features.data(), {table.rows, table.columns});
  if (table.classes.empty()) return {inputs, tensor_of(table.targets.data(), {table.rows})};
  return {inputs, tensor_of(table.labels.data(), {table.rows})};
}

// A random part of the rows becomes the test set.
Dataset split_rows(const Split& all, double test_fraction, uint64_t seed) {
  const int64_t rows = all.size(), test_rows = std::llround(double(rows) * test_fraction);
  if (test_rows < 1 || test_rows >= rows) {
    throw InputError(cat("data.test_fraction ", test_fraction, " of ", rows, " rows leaves ",
                         rows - test_rows, " to train and ", test_rows,
                         " to test; both must be at least 1"));
  }
  Generator generator(seed);
  const Tensor order = randperm(rows, {}, &generator);
  const auto part = [&](int64_t first, int64_t count) {
    const Tensor picked = order.narrow(0, first, count);
    return Split{embedding(all.inputs, picked), embedding(all.targets, picked)};
  };
  Dataset out;
  out.test = part(0, test_rows);
  out.train = part(test_rows, rows - test_rows);
  return out;
}

std::span<float> values_of(const Split& split) {
  return {split.inputs.data<float>(), size_t(split.inputs.numel())};
}

Dataset load_csv(const CsvConfig& config, Device device, uint64_t seed) {
  const CsvTable table = read_csv(config.path, config);
  Dataset out;
  if (config.test_path) {
    out.train = as_split(table);
    out.test = as_split(read_csv_like(table, *config.test_path, config));
  } else {
    out = split_rows(as_split(table), config.test_fraction, seed);
  }
  if (config.standardize) {
    const Standardizer scale = fit_standardizer(values_of(out.train), table.columns);
    for (const Split& split : {out.train, out.test}) standardize(values_of(split), scale);
  }
  for (Split* split : {&out.train, &out.test}) {
    *split = {split->inputs.to(device), split->targets.to(device)};
  }
  out.regression = config.task == Task::kRegression;
  out.class_names = table.classes;
  out.outputs = out.regression ? 1 : std::ssize(table.classes);
  out.input_shape = {table.columns};
  return out;
}

}  // namespace

Dataset load_dataset(const DataConfig& config, Device device, uint64_t seed) {
  switch (config.type) {
    case DataType::kMnist: {
      const Images train = load_mnist(config.mnist.root, true);
      return of_images(train, load_mnist(config.mnist.root, false), device);
    }
    case DataType::kCsv: return load_csv(config.csv, device, seed);
    default: break;
  }
  const DigitsConfig& digits = config.digits;
  return of_images(draw_digits(digits.seed, 0, digits.train_size),
                   draw_digits(digits.seed, digits.train_size, digits.test_size), device);
}

}  // namespace taper::runner
