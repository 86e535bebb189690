// Layouts in which everything that reads a tensor is tested: operators, data sets, files, metrics.
#pragma once

#include <array>

#include "framework/tensor/tensor.h"

namespace taper::v0::test {

struct Layout {
  const char* name;
  // Returns a tensor of the same dtype and device in this layout. It has the values of x, unless
  // the layout repeats some of them or has none; what is compared is computed from its dense copy.
  Tensor (*of)(const Tensor& x);
};

// Transposed, strided, narrowed, offset, expanded and channels-last. Memory beside the tensor's own
// elements holds another value.
extern const std::array<Layout, 6> kLayouts;
// No rows: the first dimension has the size 0.
extern const Layout kEmptyLayout;

}  // namespace taper::v0::test
