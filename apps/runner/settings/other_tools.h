// Configs of other tools. They are replaced by Taper's keys in the tree of nodes, before overrides
// are applied and the config is read from it. Values keep their positions, so that errors name the
// line of the original file.
//
//   Ludwig        input_features, output_features, preprocessing.split, trainer
//   Ultralytics   path, train, val, test, names, nc: a file of data for classification
//
// See docs/from_other_tools.md for what becomes of each key.
#pragma once

#include <vector>

#include "apps/runner/config/yaml.h"

namespace taper::v0::runner {

// Converts the tree of a file if it has the keys of another tool. Adds a problem for each key that
// has no counterpart, with Taper's way beside it, and for a file that has Taper's keys, too.
void convert_other_tools(Node& root, std::vector<Problem>& problems);

}  // namespace taper::v0::runner
