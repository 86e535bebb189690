// Finds the registered components that no recording exercises.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "apps/runner/gate/gate.h"

namespace taper::v0::runner {

// The components of a kind, such as "layers".
struct KindCoverage {
  std::string kind;
  std::vector<std::string> names;  // all that are registered
  std::set<std::string> used;      // those that a recording exercises

  std::vector<std::string> missing() const;
};

// Returns the coverage of layers, models, losses, optimizers, schedules and types of data by the
// configs of the recordings.
std::vector<KindCoverage> coverage_of(const std::vector<std::string>& configs);

// Reads the recordings and lists for each kind what is missing. Passes if nothing is.
Verdict coverage(const std::vector<std::string>& goldens);

}  // namespace taper::v0::runner
