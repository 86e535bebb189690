// The workloads that Taper's speed is compared by: training steps, single ops, host time of small
// ops. tests/bench/compare.py runs the same in PyTorch.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "framework/base/dtype.h"

namespace taper::v0::bench {

struct BenchOptions {
  // overhead mlp cnn resnet gptchar gpt2 ops attention tiny_gpt tiny_resnet collectives
  // tiny_collectives cpu_mlp cpu_cnn cpu_gpt first_step; when none is named, all that the machine
  // can run in seconds.
  std::vector<std::string> names;
  bool json = false;
  std::string mode;  // of training steps, "eager" or "graph"; both when empty
  // A safetensors file with a model's parameters and a batch "x" (and "y"): three steps of
  // optimization from there, without dropout, report their losses before anything is timed.
  std::string inputs;
  // Another program's repeats run in between: an item says that it is ready in a line of JSON, then
  // each line "go" on stdin is one timed repeat, and any other line or the end leads to the next.
  bool paced = false;
  // As one of the ranks that a launcher started, or alone as they are (distributed.h): one
  // training, or `collectives`.
  bool ranks = false;
  bool sharded = false;                 // with optim::StateShards
  int shards = 0;                       // gradients are added in a tree of so many parts of a batch
  int64_t bucket_mb = 25;               // of DataParallel's buckets
  std::optional<DType> reduce_dtype{};  // of DataParallel's buckets
  bool direct = false;                  // collectives by NCCL itself
  bool first_step = false;              // ends after the first step, and says so
};

// Prints a line a result as it comes: a table's row, or a JSON object, with the median of seven
// timed repeats and their extremes. Throws ConfigError for another name or mode.
void run_bench(const BenchOptions& options);

}  // namespace taper::v0::bench
