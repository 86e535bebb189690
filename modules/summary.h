// What a model is made of and costs, module by module.
#pragma once

#include <iosfwd>
#include <string>
#include <vector>

#include "modules/module.h"

namespace taper::v0 {

// What to_string gives: `std::cout << net`.
std::ostream& operator<<(std::ostream& out, const Module& module);

// A module as a row of the summary.
struct ModuleSummary {
  std::string path;  // "layers.0", empty for the model
  std::string type;
  Shape output;               // of its last call
  int64_t parameters = 0;     // elements, its own and those below it; shared ones once
  int64_t trained = 0;        // of these, that require grad
  int64_t multiply_adds = 0;  // of products, convolutions and attention
  // Bytes that its calls left in memory: their outputs, and what the tape keeps for the backward
  // pass when it is on.
  int64_t activation_bytes = 0;
  int calls = 0;
};

// Runs the model once on `input` (with hooks, which are removed again, and without changing
// training mode, gradients or the default generator) and lists every module that is below it, in
// order of registration. A module that is never called has calls = 0.
std::vector<ModuleSummary> summarize(Module& model, const Tensor& input);

// The same as a table to print, with totals: parameters, multiply-adds, bytes of parameters and
// of activations.
std::string summary(Module& model, const Tensor& input);

}  // namespace taper::v0
