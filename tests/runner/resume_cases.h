// Configs of runs that are interrupted and must continue to the same bytes.
#pragma once

#include <string>

#include "framework/base/error.h"
#include "tests/runner/run_process.h"

namespace taper::v0::runner {

struct ResumeCase {
  const char* name;
  const char* yaml;
};

// Covers every kind of state of a run: workers, accumulation, dropout, batch norm, a loss scale,
// averages, a schedule; text with a plateau schedule; rows with momentum and rollbacks.
inline constexpr ResumeCase kResumeCases[] = {
    {"digits",
     "device: cpu\n"
     "threads: 1\n"
     "data: {type: digits, train_size: 500, test_size: 50, workers: 2}\n"
     "model: {type: sequential, layers: [conv2d: {out_channels: 4, kernel_size: 3}, batch_norm2d,\n"
     "        relu, flatten, dropout: 0.2, linear: 10]}\n"
     "optimizer: {type: adamw, lr: 0.003}\n"
     "schedule: {type: cosine, warmup: 5}\n"
     "train: {epochs: 3, batch_size: 32, accumulate: 3, clip_norm: 1, precision: fp16,\n"
     "        ema: {decay: 0.9}, eval_every: 7}\n"
     "checkpoint: {every: 3, keep: 2}\n"},
    {"text",
     "device: cpu\n"
     "threads: 1\n"
     "data: {type: text, path: text.txt, block_size: 16, workers: 1}\n"
     "model: {type: gpt, n_layer: 1, n_head: 2, n_embd: 16, dropout: 0.1}\n"
     "optimizer: {type: adamw, lr: 0.01}\n"
     "schedule: {type: plateau, patience: 0, warmup: 3}\n"
     "train: {steps: 40, batch_size: 8, eval_every: 9, eval_batches: 2, precision: bf16,\n"
     "        best: {metric: loss}, log_every: 2}\n"
     "checkpoint: {every: 4, keep: 1}\n"},
    {"rows",
     "device: cpu\n"
     "threads: 1\n"
     "data: {type: csv, path: rows.csv, task: regression}\n"
     "model: {type: mlp, hidden: [64], dropout: 0.1}\n"
     "optimizer: {type: sgd, lr: 0.02, momentum: 0.9}\n"
     "schedule: {type: step, per: epoch, step_size: 2, gamma: 0.5}\n"
     "train: {epochs: 8, batch_size: 8, on_nan: rollback,\n"
     "        early_stopping: {metric: mae, patience: 20}}\n"
     "checkpoint: {every: 0, keep: 3}\n"},
};
// For a program that registers the optimizer. The loss scale is so high at first that steps
// overflow.
inline constexpr ResumeCase kOwn = {
    "own",
    "device: cpu\n"
    "threads: 1\n"
    "data: {type: digits, train_size: 200, test_size: 50}\n"
    "model: {type: mlp, hidden: [16]}\n"
    "optimizer: {type: lookahead, lr: 0.1, alpha: 0.3, k: 4}\n"
    "schedule: {type: step, per: epoch, step_size: 1, gamma: 0.7}\n"
    "train: {epochs: 4, batch_size: 20, precision: fp16, ema: {decay: 0.9}}\n"
    "checkpoint: {every: 3, keep: 2}\n"};

// Writes the configs and the data of all cases.
inline void write_inputs(const RunDirectory& at) {
  std::string text, rows = "a,b,y\n";
  for (int i = 0; i < 400; ++i) {
    text += concat_to_string("line ", i * i % 97, " of a text\n");
    rows += concat_to_string(i % 13, ",", i % 7 - 3, ",", (i % 13) * 2 - (i % 7) + 5, "\n");
  }
  write_bytes(at / "text.txt", text);
  write_bytes(at / "rows.csv", rows);
  for (const ResumeCase& c : kResumeCases)
    write_bytes(at / concat_to_string(c.name, ".yaml"), c.yaml);
  write_bytes(at / concat_to_string(kOwn.name, ".yaml"), kOwn.yaml);
}

}  // namespace taper::v0::runner
