// `taper record --time` and `taper check --time`.
#pragma once

#include <string>
#include <vector>

#include "apps/runner/programs/speed_comparison.h"

namespace taper::v0::runner {

// In both functions `run` is a YAML config or the directory of a run, and a program is the path of
// a `taper` program; an empty one is the program that runs. Each measurement is a new process that
// trains the config from its beginning in a temporary directory.

// Copies the program to a file beside `to`, measures it in pairs against itself, and writes the
// config, the program's checksum, and by how much equal programs seem to differ. Throws ConfigError
// if a file exists already.
Verdict record_speed(const fs::path& run, const fs::path& to, const std::string& program,
                     const SpeedOptions& options);

// Compares the speed and the peak memory of two programs: `programs` holds the old and the new one,
// or only the new one or none if `recording` has the old one. Throws ConfigError if the recording
// belongs to another config, and InputError if it or its program is missing or damaged.
Verdict check_speed(const fs::path& run, const fs::path& recording,
                    const std::vector<std::string>& programs, const SpeedOptions& options);

}  // namespace taper::v0::runner
