// Where a run is: state.json of a checkpoint.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "apps/runner/train/evaluate.h"
#include "framework/random.h"

namespace taper::runner {

// Of the batches of training.
struct Position {
  int64_t epoch = 1, batch = 0;  // batches of this epoch that are done
  bool operator==(const Position&) const = default;
};

// The best value of a metric so far, and the evaluations since.
struct Best {
  std::optional<double> value{};
  int64_t step = 0, misses = 0;
};

struct RunState {
  int64_t step = 0;
  Position at{};
  PhiloxKey random{};
  uint64_t metrics_bytes = 0;  // of metrics.jsonl
  std::optional<uint32_t> metrics_crc{};
  Best best{}, stopping{};
  Metrics metrics{};    // of the last evaluation
  double lr_scale = 1;  // halved with every return to a checkpoint
  int64_t rollbacks = 0, skipped = 0;
  std::string reason{};   // of an end before the last step
  bool is_extra = false;  // of a checkpoint that is none to go back to
};

inline constexpr const char* kState = "state.json";

std::string to_json(const RunState& state);
// InputError: not what to_json() gave, or beyond the batches of an epoch.
RunState state_from_json(const std::string& text, int64_t batches_per_epoch);

}  // namespace taper::runner
