// The program taper_bench.
#include <cstdio>

#include <CLI/CLI.hpp>

#include "apps/runner/base/errors.h"
#include "tests/bench/bench.h"

int main(int argc, char** argv) try {
  CLI::App app{"Times training steps and operators.", "taper_bench"};
  taper::bench::BenchOptions options;
  app.add_option(
      "names", options.names,
      "workloads; all that the machine can run when none is named; a wrong one lists them");
  app.add_option("--only", options.only,
                 "of single operators, and of the parts of a step of several ranks, those "
                 "whose name contains this");
  app.add_flag("--json", options.json, "a JSON object a line");
  app.add_option("--mode", options.mode, "of training steps: eager or graph; both without it");
  app.add_option("--inputs", options.inputs,
                 "a safetensors file to start from; losses are then reported");
  app.add_flag("--paced", options.paced, "wait for a line 'go' on stdin before each repeat");
  app.add_flag("--ranks", options.ranks, "as one of several ranks: see tests/bench/distributed.py");
  app.add_flag("--sharded", options.sharded, "optimizer state in shards, one a rank");
  app.add_option("--shards", options.shards,
                 "add gradients in a fixed tree, of so many parts of the batch of all ranks");
  app.add_flag("--direct", options.direct, "collectives: NCCL with nothing of Taper in between");
  std::string reduce;
  app.add_option("--bucket-mb", options.bucket_mb, "MiB of gradients that travel together");
  app.add_option("--reduce", reduce, "the dtype in which gradients travel: float32 or bfloat16");
  app.add_option("--settle", options.settle,
                 "of several ranks: seconds for which a training runs before it is timed");
  app.add_flag("--first-step", options.first_step, "end after the first step");
  CLI11_PARSE(app, argc, argv);
  if (!reduce.empty()) options.reduce_dtype = taper::parse_dtype(reduce);
  taper::bench::run_bench(options);
} catch (const std::exception& error) {
  std::fprintf(stderr, "taper_bench: %s\n", error.what());
  return taper::runner::exit_code_of(error);
}
