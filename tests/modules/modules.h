// Shared parts of the tests of modules.
#pragma once

#include <string>
#include <vector>

#include "framework/factory/factories.h"
#include "framework/factory/generator.h"
#include "modules/module.h"

namespace taper::v0::test {

using Names = std::vector<std::string>;

inline Names names_of(const std::vector<NamedTensor>& tensors) {
  Names names;
  for (const NamedTensor& t : tensors) names.push_back(t.name);
  return names;
}

// Returns the same numbers in every call.
inline Tensor numbers(const Shape& shape, Device device = Device()) {
  Generator generator(3);
  return randn(shape, {.device = device}, &generator);
}

}  // namespace taper::v0::test
