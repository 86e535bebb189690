// `taper lr-find`: proposes a learning rate by a short run whose rate grows with each step (L. N.
// Smith, "Cyclical Learning Rates for Training Neural Networks", 2017).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "apps/runner/base/errors.h"

namespace taper::v0::runner {

struct LrFindOptions {
  double low = 1e-7, high = 10;  // the rates of the first and of the last step
  int64_t steps = 100;
};

// The loss of a step, and its average over the last ones (a moving average with factor 0.9).
struct RatePoint {
  double lr = 0, loss = 0, average = 0;
};

struct LrFindResult {
  std::vector<RatePoint> points{};  // ends where the average exceeds four times the smallest one
  double proposed = 0;  // where the average falls fastest over the logarithm of the rate
  double lowest = 0;    // where the average is lowest
};

// Returns the result for these losses. Throws Diverged if the average never falls.
LrFindResult propose_rate(std::vector<RatePoint> points);

// Trains the config in `dir`, a normal run, and writes DIR/lr_find.json, from which the report
// draws the curve. Throws the errors of train() and propose_rate().
LrFindResult find_rate(const std::string& file, const std::vector<std::string>& overrides,
                       const fs::path& dir, const LrFindOptions& options);
// Returns the result as text: some points, and the proposed rate.
std::string to_text(const LrFindResult& result);

}  // namespace taper::v0::runner
