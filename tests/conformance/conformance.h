// The device behaviour of PyTorch 2.11 as a table of rows: what each does here, and whether Taper
// prints and raises the same (test_conformance, and its option --table).
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "framework/base/namespace.h"

namespace taper::v0::conformance {

// One behaviour, under its name in pytorch-2.11.json.
struct Row {
  std::string name;
  int gpus = 0;  // how many must be visible
  // Does what the row says and returns the text that PyTorch would print, or throws.
  std::function<std::string()> run;
  // Why Taper differs on purpose; empty where it does not.
  std::string differs = "";
  // What Taper prints, or how its error begins ("TypeError: ..."), when it differs; empty means
  // PyTorch's text without its "torch.".
  std::string ours = "";

  void differs_in(const std::string& reason, const std::string& text = "") {
    differs = reason;
    ours = text;
  }
};

// skipped: for want of hardware.
enum class Outcome { held, differs, skipped, failed };

struct Result {
  Outcome outcome;
  // Why it differs, what hardware it needs, or what was expected and what came.
  std::string text;
};

// Every row of pytorch-2.11.json, in families.
const std::vector<Row>& all_rows();

// Runs a row, unless the machine has too few GPUs for it. A printed text must be equal; an error
// must be of the same kind and begin with PyTorch's first line (in texts about devices, up to the
// method that it names).
Result check(const Row& row);

struct Report {
  std::string text;  // a line a row and the totals
  int failed;
};
Report run_all();

}  // namespace taper::v0::conformance
