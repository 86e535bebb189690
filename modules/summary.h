// Computes the sizes and costs of a model, module by module.
#pragma once

#include <iosfwd>
#include <string>
#include <vector>

#include "modules/module.h"

namespace taper::v0 {

// Writes to_string(module): `std::cout << net`.
std::ostream& operator<<(std::ostream& out, const Module& module);

// A row of the summary. It describes one module.
struct ModuleSummary {
  std::string path;  // "layers.0"; empty for the model
  std::string type;
  Shape output;            // of its last call
  int64_t parameters = 0;  // number of elements, including modules below it; shared ones count once
  int64_t trained = 0;     // of these, the elements that require grad
  int64_t multiply_adds = 0;  // in matrix products, convolutions and attention
  // The bytes that the module's calls left allocated: their outputs, and what the tape saves for
  // the backward pass if gradients are recorded.
  int64_t activation_bytes = 0;
  int calls = 0;
};

// Runs the model once on `input` and returns a row for every module in order of registration. Uses
// temporary hooks; does not change training mode, gradients or the default generator. A module that
// is never called has calls = 0.
std::vector<ModuleSummary> summarize(Module& model, const Tensor& input);

// Returns the summary as a table with totals: parameters, multiply-adds, bytes of parameters and of
// activations.
std::string summary(Module& model, const Tensor& input);

}  // namespace taper::v0
