// The layouts for tests of everything that reads a tensor: operators, datasets, files, metrics.
#pragma once

#include <array>

#include "framework/tensor/tensor.h"

namespace taper::v0::test {

struct Layout {
  const char* name;
  // Returns a tensor of the same dtype and device in this layout. It has the values of x, unless
  // the layout repeats some of them or has none. Tests compute the expected values from a
  // contiguous copy of it.
  Tensor (*of)(const Tensor& x);
};

// Transposed, strided, narrowed, offset, expanded and channels-last. Memory between the tensor's
// elements has another value.
extern const std::array<Layout, 6> kLayouts;
// A tensor without rows: the first dimension has size 0.
extern const Layout kEmptyLayout;

}  // namespace taper::v0::test
