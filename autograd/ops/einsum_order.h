// The order in which einsum contracts more than two operands.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "framework/base/namespace.h"

namespace taper::v0 {

// The positions of two operands in the list of the remaining ones, first < second. Their product
// replaces the first, and the second is removed.
struct Contraction {
  size_t first, second;
};

// Returns the order with the fewest multiplications for up to six operands, each the names of its
// dimensions. For more, multiplies at each step the pair whose product is the smallest compared
// with its operands, unless the order from left to right needs fewer multiplications. Of orders
// with equal cost, returns the one that is closest to left to right. The order depends only on the
// arguments.
std::vector<Contraction> cheapest_order(const std::vector<std::string>& operands,
                                        const std::string& output,
                                        const std::map<char, int64_t>& sizes);

}  // namespace taper::v0
