// Compares the rows of a run with those of a recording, and names what may have moved them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "framework/gate/gate_verdict.h"
#include "framework/gate/golden.h"

namespace taper::v0::golden {

// Returns whether hashes of the state are compared. They are if the tolerance of "state" is 0, or
// if no tolerance other than 0 is given.
bool compares_state(const Tolerances& tolerances);

// Compares step by step, up to the end of `want`. The text names the first step beyond the
// tolerances, and its metrics with both numbers. is_whole: the recording has all steps of its run,
// so that a longer run is another one. atol: an absolute tolerance of all metrics, which is added
// to the relative ones.
Verdict compare_rows(const std::vector<Row>& got, const std::vector<Row>& want, bool is_whole,
                     const Tolerances& tolerances, double atol = 0);

// How the numbers of two runs differ.
struct Movement {
  std::string step;    // the first step that differs; empty: none does
  std::string metric;  // "loss", or the first metric that differs if the loss does not
  double largest = 0;  // the largest relative difference of the metric over all steps
};
Movement movement_of(const std::vector<Row>& got, const std::vector<Row>& want);
// Returns ": loss moved by up to 1e-05 (relative) from step 3"; "" if nothing moved.
std::string movement_text(const Movement& movement);

// Names the libraries or the code that differ between two programs that have other numbers for the
// same config and data: "same code, onednn 2.6 -> 3.1".
std::string program_cause(const MetadataMap& got, const MetadataMap& want);

}  // namespace taper::v0::golden
