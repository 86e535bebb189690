#include "apps/runner/dataset.h"

#include <algorithm>
#include <cmath>

#include "apps/runner/data/csv.h"
#include "apps/runner/data/digits.h"
#include "apps/runner/data/idx.h"
#include "apps/runner/errors.h"
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

Split as_split(const CsvTable& table, const CsvConfig& config, Device device) {
  const Tensor inputs =
      tensor_of(table.features.data(), {table.rows, table.columns}, {.device = device});
  if (config.task == Task::kRegression) {
    return {inputs, tensor_of(table.targets.data(), {table.rows}, {.device = device})};
  }
  return {inputs, tensor_of(table.labels.data(), {table.rows}, {.device = device})};
}

// Rows of `table` in the order given.
CsvTable pick(const CsvTable& table, const std::vector<int64_t>& rows) {
  CsvTable out = table;
  out.rows = int64_t(rows.size());
  out.features.clear();
  out.labels.clear();
  out.targets.clear();
  for (const int64_t row : rows) {
    const auto first = table.features.begin() + row * table.columns;
    out.features.insert(out.features.end(), first, first + table.columns);
    if (!table.labels.empty()) out.labels.push_back(table.labels[size_t(row)]);
    if (!table.targets.empty()) out.targets.push_back(table.targets[size_t(row)]);
  }
  return out;
}

struct Tables {
  CsvTable train, test;
};

Tables split_rows(const CsvTable& table, double test_fraction, uint64_t seed) {
  const int64_t test_rows = int64_t(std::llround(double(table.rows) * test_fraction));
  if (test_rows < 1 || test_rows >= table.rows) {
    throw InputError(cat("data.test_fraction ", test_fraction, " of ", table.rows, " rows leaves ",
                         table.rows - test_rows, " to train and ", test_rows,
                         " to test; both must be at least 1"));
  }
  Generator generator(seed);
  const std::vector<int64_t> order = randperm(table.rows, {}, &generator).to_vector<int64_t>();
  return {pick(table, {order.begin() + test_rows, order.end()}),
          pick(table, {order.begin(), order.begin() + test_rows})};
}

CsvOptions csv_options(const CsvConfig& config) {
  CsvOptions options;
  options.label = config.label;
  options.delimiter = config.delimiter[0];
  options.regression = config.task == Task::kRegression;
  options.header = config.header == CsvHeader::kPresent  ? CsvOptions::Header::kPresent
                   : config.header == CsvHeader::kAbsent ? CsvOptions::Header::kAbsent
                                                         : CsvOptions::Header::kAuto;
  return options;
}

Dataset load_csv(const CsvConfig& config, Device device, uint64_t seed) {
  const CsvOptions options = csv_options(config);
  const CsvTable table = read_csv(config.path, options);
  Tables tables = config.test_path ? Tables{table, read_csv_like(table, *config.test_path, options)}
                                   : split_rows(table, config.test_fraction, seed);
  if (config.standardize) {
    const Standardizer scale = fit_standardizer(tables.train.features, table.columns);
    standardize(tables.train.features, scale);
    standardize(tables.test.features, scale);
  }
  Dataset out;
  out.train = as_split(tables.train, config, device);
  out.test = as_split(tables.test, config, device);
  out.regression = options.regression;
  out.class_names = table.classes;
  out.outputs = options.regression ? 1 : int64_t(table.classes.size());
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
