// The order in which einsum contracts more than two operands.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "framework/base/namespace.h"

namespace taper::v0 {

// Two operands, by their positions in the list of those that are left: first < second. Their
// product takes the place of the first, and the second is removed.
struct Contraction {
  size_t first, second;
};

// Returns the order with the fewest multiplications for up to six operands, each the names of its
// dimensions. For more, chooses step by step the pair whose product is the smallest beside its
// operands, unless the order from left to right needs fewer multiplications. Orders of equal cost
// give the one that is closest to left to right. The order depends only on the arguments.
std::vector<Contraction> cheapest_order(const std::vector<std::string>& operands,
                                        const std::string& output,
                                        const std::map<char, int64_t>& sizes);

}  // namespace taper::v0
