// Variables in the values of a config: ${data.block_size}, ${env:HOME}.
#pragma once

#include <vector>

#include "apps/runner/config/yaml.h"

namespace taper::v0::runner {

inline constexpr std::size_t kMaxVariableBytes = 1 << 16;  // of a value after the replacement

// Replaces the variables in all values of the tree.
//
//   ${model.hidden.0}  the value at this path of the config, as the file or an override gives it
//   ${env:NAME}        the environment variable NAME
//   $${                the text "${"
//
// A value that is one variable alone has the type of its target, so it may be a number. Within a
// longer text, the variable's text is inserted. Appends a problem for a path that is not set or is
// a map or a list, for an environment variable that does not exist, for values that refer to each
// other, and for a variable without its closing brace.
void replace_variables(Node& root, std::vector<Problem>& problems);

// Returns the text with "$${" for "${", so that replace_variables() restores it.
std::string without_variables(std::string text);

}  // namespace taper::v0::runner
