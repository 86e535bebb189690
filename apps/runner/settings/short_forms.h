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

#include <string>
#include <vector>

#include "apps/runner/config/yaml.h"

namespace taper::v0::runner {

// Replaces the short form of a section, a word, by that section. Leaves other values unchanged, so
// that the reader rejects them.
void expand_sections(Node& root);

// What complete_config() found.
struct Completed {
  std::vector<Problem> problems = {};
  std::vector<std::string> notes = {};  // warnings for the user
};

// Adds the type of data if `data.path` implies it, and the default sections for the type of data. A
// section that the config has without a type gets the default's type only with `adds_types`: a
// config file must say what it configures, overrides of a file of data need not.
//
// Replaces the keys that tables and images had in earlier versions. The result has a warning with
// the new key for each of them, and a problem if the new key is given, too.
Completed complete_config(Node& root, bool adds_types);

}  // namespace taper::v0::runner
