#include "data/images.h"

#include "data/idx_reader.h"
#include "framework/factories.h"

namespace taper::data {
namespace {

DatasetPtr dataset_of(const Images& images) {
  Batch all{scale_pixels(images.pixels, {images.count, 1, images.height, images.width}), {}};
  if (!images.labels.empty()) all.targets = tensor_of(images.labels.data(), {images.count});
  return std::make_shared<TensorDataset>(all);
}

DataInfo info_of(int64_t height, int64_t width, int64_t classes) {
  return {
      .input_shape = {1, height, width}, .outputs = classes, .class_names = numbers_below(classes)};
}

void require_size(const DataInfo& info, const Images& images, const char* what) {
  const Shape size = {1, images.height, images.width};
  if (size == info.input_shape) return;
  throw InputError(cat("training images are ", info.input_shape[1], "x", info.input_shape[2], ", ",
                       what, " images are ", images.height, "x", images.width));
}

}  // namespace

Splits splits_of(const Images& train, const Images& test, int64_t classes) {
  const DataInfo info = info_of(train.height, train.width, classes);
  require_size(info, test, "test");
  return {info, dataset_of(train), dataset_of(test)};
}

Outline outline_of(int64_t train, int64_t test, int64_t height, int64_t width) {
  const auto zeros_of = [&](int64_t count) {
    const Tensor pixel = zeros({1}), label = zeros({1}, {.dtype = kInt64});
    return std::make_shared<TensorDataset>(
        Batch{view_as(pixel, {count, 1, height, width}, {0, 0, 0, 0}, 0),
              view_as(label, {count}, {0}, 0)});
  };
  return {{info_of(height, width, 10), zeros_of(train), zeros_of(test)}};
}

DatasetPtr ImageSource::more(const DataInfo& info, const std::filesystem::path& file) const {
  const Images images = read_idx_images(file, {}, info.outputs);
  require_size(info, images, file.c_str());
  return dataset_of(images);
}

}  // namespace taper::data
