// The file of data of Ultralytics, for pictures in class folders. See other_tools.h.
#pragma once

#include <vector>

#include "apps/runner/config/yaml.h"

namespace taper::v0::runner {

// Returns a key by which a file of Ultralytics is recognized; null for other files.
const char* sign_of_ultralytics(const Node& root);

// Returns Taper's tree for the file. Reports keys that have no counterpart, and names of classes
// other than those of the folders, which Taper takes from there.
Node converted_ultralytics(const Node& root, std::vector<Problem>& problems);

}  // namespace taper::v0::runner
