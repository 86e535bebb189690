// The workloads for comparisons of speed: training steps, single ops, host time of small ops.
// tests/bench/compare.py runs the same workloads in PyTorch.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "framework/base/dtype.h"

namespace taper::v0::bench {

struct BenchOptions {
  // The workloads: overhead mlp cnn resnet resnet50 gptchar gpt2 gpt2_b64 gpt2_50257 gpt2_350m
  // generate ops attention tiny_gpt tiny_resnet collectives tiny_collectives cpu_mlp cpu_cnn
  // cpu_gpt first_step. If empty, all that this machine can run within seconds.
  std::vector<std::string> names;
  std::string only;  // of operators and variants of a step of ranks, those whose name contains this
  bool json = false;
  std::string mode;  // "eager" or "graph" for training steps; both if empty
  // A safetensors file with a model's parameters and a batch "x" (and "y"). Before anything is
  // timed, three steps of optimization from there, without dropout, report their losses.
  std::string inputs;
  // Alternates with the repeats of another program. Each item prints a line of JSON when it is
  // ready. Then each line "go" on stdin runs one timed repeat. Any other line, or the end of stdin,
  // ends the item.
  bool paced = false;
  // Runs as one of the ranks that a launcher started, or as a single process (distributed.h). Runs
  // one training, or `collectives`.
  bool ranks = false;
  bool sharded = false;                 // with optim::StateShards
  int shards = 0;                       // adds gradients in a tree of this many parts of a batch
  int64_t bucket_mb = 25;               // size of DataParallel's buckets
  std::optional<DType> reduce_dtype{};  // dtype of DataParallel's buckets
  double settle = 4;                    // seconds of a training before it is timed
  bool direct = false;                  // times NCCL itself, not Communicator
  bool first_step = false;              // ends after the first step and reports it
};

// Prints one line per result when it is available: a row of a table, or a JSON object, with the
// median, minimum and maximum of seven timed repeats. Throws ConfigError for an unknown name or
// mode.
void run_bench(const BenchOptions& options);

}  // namespace taper::v0::bench
