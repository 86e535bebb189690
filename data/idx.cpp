#include "data/idx.h"

#include "data/idx_reader.h"

namespace taper::data {

Splits Idx::load(uint64_t) const {
  const Images train = read_idx_images(train_images, train_labels, 256);
  const int64_t classes = count_classes(train.labels, train_labels);
  return splits_of(train, read_idx_images(test_images, test_labels, classes), classes);
}

std::vector<DataFile> Idx::files() const {
  std::vector<DataFile> out;
  for (const std::string& file : {train_images, train_labels, test_images, test_labels}) {
    out.push_back({file, {file}});
  }
  return out;
}

Splits Mnist::load(uint64_t) const {
  return splits_of(load_mnist(root, true), load_mnist(root, false));
}

Outline Mnist::outline(uint64_t) const {
  const std::vector<int64_t> train = mnist_shape(root, true);
  Outline out = outline_of(train[0], mnist_shape(root, false)[0], train[1], train[2]);
  out.unread = "the pixels and labels of MNIST, of which only headers were read";
  return out;
}

std::vector<DataFile> Mnist::files() const { return files_in(root); }

}  // namespace taper::data
