// What a run stood on: its config, or one after another (config.yaml, history.json), the program,
// machine and data (env.json), and what is known of the data (data.json).
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "apps/runner/base/errors.h"
#include "apps/runner/settings/run_config.h"
#include "framework/base/device.h"

namespace taper::v0::runner {

// --- configs ---

// The config in a run's directory, or in a YAML file (which may be a run's), with overrides. Paths
// of data are looked for in the folder where the run was started, unless an override sets data.
RunConfig load_run_config(const fs::path& run, const std::vector<std::string>& overrides = {});

// A part of a run: its config, and the step before which another one took over; 0: none did.
struct Phase {
  RunConfig config;
  int64_t until = 0;
};
// All parts, the last of which has the config of config.yaml; of a run's directory, whose files are
// verified, or of a YAML file.
std::vector<Phase> phases_of_run(const fs::path& run);
// A run whose steps so far had the YAML `before` goes on after `step` with `after`: both are kept
// in DIR/history.json.
void note_phase(const fs::path& dir, int64_t step, const std::string& before,
                const std::string& after);

// --- program, machine and data ---

// What the program was made of; the commit is the version where it was built from an archive.
struct BuildInfo {
  std::string version, commit, compiler, onednn;
};
BuildInfo build_info();
// "AMD EPYC 9654 96-Core Processor".
std::string cpu_name();

// YAML of what the ranks of a run must have in common: program, config, data files.
std::string metadata_of_rank(const RunConfig& config);

// Writes DIR/env.json: versions (Taper, its commit, compiler, oneDNN, CUDA, cuDNN, driver), CPU,
// threads, device, the data files with their sizes and CRC-32, seed, where it was started, and
// command line. Nothing of its own names the machine or its user.
void write_env(const fs::path& dir, const RunConfig& config, Device device);

// Texts by names or paths ("train.epochs").
using MetadataMap = std::map<std::string, std::string>;

// Contents of DIR/env.json in addition to the run's own settings: values of program and machine by
// their names, and "N bytes, CRC-32 X" by data file. InputError: missing or damaged.
struct RunMetadata {
  MetadataMap program{}, data{};
};
RunMetadata metadata_of_run(const fs::path& dir);

// A line for each data file that is no longer what DIR/env.json says: "  FILE: then | now"; nothing
// where all are, or where it says nothing.
std::string changed_data(const fs::path& dir, const RunConfig& config);

// --- what differs ---

// A line for each value that differs, "  train.epochs: 3 | 5"; nothing where none does. `none`
// stands for what one side has not.
std::string differences(const MetadataMap& a, const MetadataMap& b,
                        const std::string& none = "not there");
// Of YAML, which JSON is too.
std::string config_differences(const std::string& a, const std::string& b);
// Of the env.json of two runs, without their command lines.
std::string env_differences(const fs::path& a, const fs::path& b);

}  // namespace taper::v0::runner
