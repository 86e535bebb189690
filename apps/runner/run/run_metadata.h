// Records how a run was made: its configs (config.yaml, history.json), and the program, machine and
// data files (env.json).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "apps/runner/base/errors.h"
#include "apps/runner/settings/run_config.h"
#include "framework/base/device.h"
#include "framework/gate/platform.h"

namespace taper::v0::runner {

// --- configs ---

// Loads a config and applies the overrides. `run` is a run's directory or a YAML file, which may
// belong to a run, or a file or folder of data. Relative paths of data are resolved against the
// folder where the run was started, unless an override sets `data`.
RunConfig load_run_config(const fs::path& run, const std::vector<std::string>& overrides = {});

// A part of a run that had one config. until: the last step of the part; 0 in the last part.
struct Phase {
  RunConfig config;
  int64_t until = 0;
};
// Returns all phases of a run, the last of which has the config of config.yaml. `run` is a run's
// directory, whose files are verified, or a YAML file.
std::vector<Phase> phases_of_run(const fs::path& run);
// Records in DIR/history.json that the run had the YAML config `before` until `step`, and continues
// with `after`.
void note_phase(const fs::path& dir, int64_t step, const std::string& before,
                const std::string& after);

// --- program, machine and data ---

using golden::build_info;
using golden::BuildInfo;
using golden::cpu_name;
using golden::MetadataMap;
using golden::RunMetadata;

// Returns as YAML the program, config and data files, which must be equal on all ranks of a run.
std::string metadata_of_rank(const RunConfig& config);

// Writes DIR/env.json. It contains versions, processor, device (golden::program_values()) and
// threads. It also contains data files with their sizes and CRC-32, the seed, the folder where the
// run was started, and the command line. Only these paths and arguments may identify the machine or
// its user. The file of model.init is recorded like a data file; in a run that is resumed from the
// directory `resumed`, as it is recorded there.
void write_env(const fs::path& dir, const RunConfig& config, Device device,
               const fs::path& resumed = {});

// Returns the contents of DIR/env.json without the run's own settings. Throws InputError if the
// file is missing or damaged.
RunMetadata metadata_of_run(const fs::path& dir);

// Returns a line "  FILE: then | now" for each data file that differs from DIR/env.json. Returns ""
// if all are the same, or if env.json is missing. checks_init: the file of model.init counts, too;
// a run that is resumed does not need it.
std::string changed_data(const fs::path& dir, const RunConfig& config, bool checks_init = true);

// --- differences ---

// Returns a line "  train.epochs: 3 | 5" for each value that differs, or "" if none does. none:
// printed in place of a value that one side lacks.
std::string differences(const MetadataMap& a, const MetadataMap& b,
                        const std::string& none = "not there");
// Returns the values of a YAML or JSON text by their paths, as {"train.epochs", "3"}. Leaves out
// the command line, the settings of the log and the folder in which a run was started, in which
// equal runs may differ.
MetadataMap flat_config(const std::string& text);
// Returns the differences of two YAML or JSON texts in these values.
std::string config_differences(const std::string& a, const std::string& b);
// Returns the differences of the env.json of two runs, without their command lines.
std::string env_differences(const fs::path& a, const fs::path& b);

}  // namespace taper::v0::runner
