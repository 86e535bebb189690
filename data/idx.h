// Images in IDX files as a data set.
#pragma once

#include <string>

#include "data/images.h"
#include "framework/describe.h"

namespace taper::data {

struct Idx : ImageSource {
  std::string train_images, train_labels, test_images, test_labels;

  template <class V> void describe(V& v) {
    v("train_images", train_images, kPath, "IDX file, plain or .gz").required();
    v("train_labels", train_labels, kPath, "its labels").required();
    v("test_images", test_images, kPath, "the same for the test").required();
    v("test_labels", test_labels, kPath, "its labels").required();
  }

  Splits load(uint64_t seed) const;
  std::vector<DataFile> files() const;
};

struct Mnist : ImageSource {
  std::string root;

  template <class V> void describe(V& v) {
    v("root", root, kPath, "directory of the four IDX files").required();
  }

  Splits load(uint64_t seed) const;
  // Reads headers alone.
  Outline outline(uint64_t seed) const;
  std::vector<DataFile> files() const;
};

}  // namespace taper::data
