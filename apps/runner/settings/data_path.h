// A file or folder of data in place of a config: `taper train titanic.csv target=survived`.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "apps/runner/config/yaml.h"

namespace taper::v0::runner {

// Returns the type of data in a file or folder: "table", "text", "labeled_text" or "images".
// Returns "" if its name does not show the type.
std::string data_type_of(const std::filesystem::path& path);

// Returns whether the file has the name of a config, which ends in ".yaml" or ".yml".
bool has_config_name(const std::filesystem::path& path);
// Returns whether `taper train PATH OVERRIDES...` trains on the file or folder itself: it is data,
// not a config and not the directory of a run. With an override such as "target=y", a file whose
// name does not end in ".yaml" or ".yml" is data.
bool is_data_path(const std::filesystem::path& path,
                  const std::vector<std::string>& overrides = {});
// Returns the name of a run on that data: "titanic" for "data/titanic.csv.gz".
std::string name_of_data(const std::filesystem::path& path);

// Returns the tree of nodes of a config that trains on the given file or folder of data.
Node config_of_data(const std::filesystem::path& path);
// Returns the override with its full key. If a data file is given in place of a config,
// "target=survived" means "data.target=survived".
std::string full_override(const std::string& text);

}  // namespace taper::v0::runner
