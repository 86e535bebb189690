// The behavior of PyTorch 2.11 as a table of rows: devices, printed tensors, modules and operators.
// Each row runs one behavior in Taper and checks whether Taper prints and raises the same
// (test_conformance; --table prints the outcomes).
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "framework/base/namespace.h"

namespace taper::v0::conformance {

// One behavior, with its name in pytorch-2.11.json.
struct Row {
  std::string name;
  int gpus = 0;  // the number of GPUs that it needs
  // Runs the behavior. Returns the text that PyTorch would print, or throws.
  std::function<std::string()> run;
  // Why Taper differs intentionally; empty if it does not.
  std::string differs = "";
  // If Taper differs: what it prints, or how its error begins ("TypeError: ..."). Empty means
  // PyTorch's text without "torch.".
  std::string ours = "";

  void differs_in(const std::string& reason, const std::string& text = "") {
    differs = reason;
    ours = text;
  }
};

// skipped: the machine lacks the hardware.
enum class Outcome { kHeld, kDiffers, kSkipped, kFailed };

struct Result {
  Outcome outcome;
  // The reason of a difference, the missing hardware, or the expected and the actual text.
  std::string text;
};

// Returns every row of pytorch-2.11.json, grouped by family.
const std::vector<Row>& all_rows();

// Runs a row, unless the machine has too few GPUs for it. A printed text must be equal. An error
// must be of the same type and begin with PyTorch's first line (in texts about devices, up to the
// method that it names).
Result check(const Row& row);

struct Report {
  std::string text;  // one line per row, then the totals
  int failed;
};
Report run_all();

}  // namespace taper::v0::conformance
