// Short forms of a config. They are replaced by the full forms in the tree of nodes, before the
// config is read from it. Overrides and included files can therefore extend them, and a run's
// config.yaml has the full forms.
//
//   optimizer: adam                    {type: adam}; also data, model, loss, schedule
//   optimizer: {lr: {"fc.*": 1e-2, "*": 1e-4}}   {lr: 1e-4, lr_by_part: {"fc.*": 1e-2}}
//   train: {early_stopping: true}      {early_stopping: {}}; false removes an optional section
//   data: {path: titanic.csv}          with the type that the path implies
//   model, optimizer left out          the usual ones for the type of data
#pragma once

#include <filesystem>
#include <string>

#include "apps/runner/config/yaml.h"

namespace taper::v0::runner {

// Replaces the short form of a section, a word, by that section. Leaves other values unchanged, so
// that the reader rejects them.
void expand_sections(Node& root);

// Adds the type of data if `data.path` implies it, and the default sections for the type of data. A
// section that the config has without a type gets the default's type only with `adds_types`: a
// config file must say what it configures, overrides of a file of data need not.
//
// Replaces the keys that a table had as `type: csv`, and logs a warning with the new key for each.
// If the new key is given, too, adds a problem.
void complete_config(Node& root, bool adds_types, std::vector<Problem>& problems);

// Returns the type of data in a file or folder: "table", "text", "labeled_text" or "images".
// Returns
// "" if its name does not show the type.
std::string data_type_of(const std::filesystem::path& path);

// Returns whether `taper train PATH` trains on the file or folder itself: it is data, not a config
// and not the directory of a run.
bool is_data_path(const std::filesystem::path& path);
// Returns the name of a run on that data: "titanic" for "data/titanic.csv.gz".
std::string name_of_data(const std::filesystem::path& path);

// Returns the tree of nodes of a config that trains on the given file or folder of data.
Node config_of_data(const std::filesystem::path& path);
// Returns the override with its full key. If a data file is given in place of a config,
// "target=survived" means "data.target=survived".
std::string full_override(const std::string& text);

}  // namespace taper::v0::runner
