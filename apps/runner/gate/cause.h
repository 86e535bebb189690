// Says why the numbers of a run differ from a recording: the config, the data, the libraries, the
// code, or chance.
#pragma once

#include <string>
#include <vector>

#include "apps/runner/gate/gate.h"

namespace taper::v0::runner {

// Returns whether config and data files are equal, so that only the program can have changed.
// Settings that do not affect numbers, such as the name of the run, do not count.
bool has_same_inputs(const Recording& got, const Recording& want);

// Returns the differences of two YAML configs without settings that do not affect numbers.
std::string relevant_differences(const std::string& a, const std::string& b);

// Returns the cause in one line, and the differences in config, data and program. `repeated`: rows
// of another repetition of the run; if they differ from those of `got`, the program is not
// deterministic. Empty: the run was not repeated.
std::string cause_of(const Recording& got, const Recording& want,
                     const std::vector<Recording::Row>& repeated);

// Returns the differences of the configs of two runs that have the same numbers.
std::string same_numbers_cause(const Recording& got, const Recording& want);

}  // namespace taper::v0::runner
