#include "data/idx.h"

#include <algorithm>
#include <set>

#include "data/idx_reader.h"
#include "framework/hooks.h"

namespace taper::data {
namespace {

// Classes are counted from 0 to the largest label: gaps are told, and what makes no sense refused.
int64_t classes_of(const std::vector<int64_t>& labels, const std::string& file) {
  constexpr int64_t kUnlabelled = 255;
  const std::set<int64_t> seen(labels.begin(), labels.end());
  const int64_t classes = 1 + *seen.rbegin(), missing = classes - std::ssize(seen);
  if (seen.size() == 1) {
    throw DataError(cat(file, ": all labels are ", *seen.begin(), ": there is nothing to learn"));
  }
  if (*seen.rbegin() == kUnlabelled && missing > 0) {
    const auto first = std::ranges::find(labels, kUnlabelled) - labels.begin();
    throw DataError(cat(file, ": record ", first, " (counted from 0) has the label 255, but ",
                        missing, " labels below it never come: take out what has no label"));
  }
  if (missing == 0) return classes;
  int64_t gap = 0;
  while (seen.contains(gap)) ++gap;
  warn(cat(file, ": labels go to ", classes - 1, ", so the model has ", classes, " outputs, but ",
           missing, " of them never come (the first is ", gap, "): number the classes from 0"));
  return classes;
}

}  // namespace

Splits Idx::load(uint64_t) const {
  const Images train = read_idx_images(train_images, train_labels, 256);
  const int64_t classes = classes_of(train.labels, train_labels);
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
