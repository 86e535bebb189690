// Parts of a batch that are computed by themselves, so that it does not matter on which rank.
#pragma once

#include <cstdint>
#include <vector>

#include "framework/distributed/communicator.h"
#include "modules/module.h"

namespace taper::v0::runner {

// Where part i of `parts` of so many samples begins; the last part has the most.
inline int64_t begin_of_part(int64_t samples, int64_t i, int64_t parts) {
  return samples * i / parts;
}

// What a part draws from, in streams that no other part has and no step before it.
uint64_t seed_of_part(uint64_t seed, int64_t part);
inline constexpr uint64_t kDrawsOfAStep = uint64_t(1) << 32;

// The buffers of a model in a step of several parts. Each part begins with the buffers that the
// step found; at its end they have moved by the mean of what the parts moved them, weighted by
// samples. Whole numbers (batches seen) become those of the last part.
class RunningStatistics {
 public:
  // parts: of all ranks.
  RunningStatistics(Module& model, int64_t parts, int64_t parts_here);
  // Part i of those here has run, which has that share of the step's samples.
  void end_part(int64_t i, double share);
  // All ranks call it.
  void join(const distributed::Communicator& ranks);

 private:
  std::vector<Tensor> values_, counts_, before_, counts_before_;
  Tensor changes_, all_changes_;  // [parts, elements of values]
  int64_t parts_here_;
};

}  // namespace taper::v0::runner
