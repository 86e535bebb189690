// The workloads that Taper's speed is compared by: training steps, single ops, host time of small
// ops. tests/bench/compare.py runs the same in PyTorch.
#pragma once

#include <string>
#include <vector>

namespace taper::runner {

// mlp cnn resnet gptchar gpt2 ops overhead cpu; of these all that the machine can run when none is
// named. Prints a line a result as it comes: a table's row, or a JSON object with its median of
// seven timed repeats and their extremes. Throws ConfigError for another name.
void run_bench(const std::vector<std::string>& names, bool json);

}  // namespace taper::runner
