// The file of a run with the details of the evaluation of its saved weights.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "apps/runner/base/errors.h"

namespace taper::v0::runner {

inline constexpr const char* kEvaluationFile = "evaluation.json";

// The part of the data and the weights that were measured.
struct EvaluationPlace {
  std::string split;  // the part of the data: "test" or "validation"
  int64_t step = 0;   // after which the weights were saved
};

// Writes {split, step, ...details, predictions} to the file. details: Metrics::details, or "";
// predictions: returns sample_predictions(). If it fails, logs a warning and writes the file
// without predictions, because the run is complete without them. Throws DiskError.
void write_evaluation(const fs::path& file, const EvaluationPlace& place,
                      const std::string& details, const std::function<std::string()>& predictions);

}  // namespace taper::v0::runner
