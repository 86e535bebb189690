// Patterns for names with dots, such as those of parameters and modules.
//
//   "layer1"             layer1.weight, layer1.0.conv1.weight: everything below layer1
//   "layer1.*"           the same
//   "*.bias"             all names that end in .bias: `*` matches any text, dots included
//   "transformer.h.0-5"  the numbers from 0 to 5
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "framework/base/namespace.h"

namespace taper::v0 {

// Returns whether the pattern matches the whole name, or the path of something that contains it.
// The time is proportional to the product of the lengths.
bool matches_name(std::string_view pattern, std::string_view name);

// Returns the index of the longest pattern that matches the name, where `*` has no length, and of
// equally long ones the first. Returns std::nullopt if no pattern matches.
std::optional<size_t> longest_match(const std::vector<std::string>& patterns,
                                    std::string_view name);

// Returns the name with the part that the pattern matches replaced by `replacement`, whose `*` get
// the texts that those of the pattern match, in order. Each `*` of the pattern matches as little as
// possible. Returns std::nullopt if the pattern does not match.
//   rename_matched("module.*", "*", "module.fc.weight")           fc.weight
//   rename_matched("backbone", "encoder", "backbone.fc.weight")  encoder.fc.weight
// Throws ValueError if the replacement has more `*` than the pattern.
std::optional<std::string> rename_matched(std::string_view pattern, std::string_view replacement,
                                          std::string_view name);

}  // namespace taper::v0
