// The data of a run: what they are, their two splits, and how new data are treated like them.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "apps/runner/config/config.h"
#include "apps/runner/data/csv.h"
#include "apps/runner/data/tokenizer.h"
#include "framework/tensor.h"

namespace taper::runner {

// What models, metrics and later programs know of the data; kept with a run as data.json.
struct DataInfo {
  Task task = Task::kClassification;
  Shape input_shape;    // of one sample: [1, 28, 28] images, [features] tables, [T] tokens
  int64_t outputs = 0;  // classes, 1 value, or tokens of the vocabulary
  std::vector<std::string> class_names{};
  double target_mean = 0, target_std = 1;        // regression: original = output * std + mean
  std::optional<CsvRecipe> table{};              // how the columns of a CSV file become features
  std::shared_ptr<const Tokenizer> tokenizer{};  // text
  bool lines = false;                            // text: each line is a sequence, between two "\n"

  // Of what a model gives for one sample: [outputs], for language [T, outputs].
  Shape output_shape() const;
  // Inputs are int64 tokens below it; 0: they are float32.
  int64_t vocab_size() const { return tokenizer ? tokenizer->size() : 0; }
};
std::string to_json(const DataInfo& info);
// InputError, with the place in what the name says: not what to_json() gave, or not consistent.
DataInfo data_info_from_json(std::string_view json, const std::string& name);

// Samples [N, ...] of inputs and targets: float32 images and features, or int64 tokens; int64
// classes [N], float32 values [N], or int64 tokens [N, T] with kIgnoredTarget where a line ended.
struct Batch {
  Tensor inputs, targets;
};

inline constexpr int64_t kIgnoredTarget = -100;  // cross_entropy's ignore_index

// All samples of one half. With block > 0, `inputs` are the tokens [N] of one long text instead, a
// sample is the window of `block` tokens at an offset, and its targets are the tokens one further.
struct Split : Batch {
  int64_t block = 0;

  // Samples of an epoch; for windows: those that do not overlap.
  int64_t size() const;
  // Rows of batch() lie in [0, places()): samples, or offsets of windows.
  int64_t places() const { return block > 0 ? inputs.size(0) - block : size(); }
  Split to(Device device) const;
  size_t nbytes() const;
};

// A copy of what rows [B] (int64, on the split's device) name; of a split on the CPU in page-locked
// memory when `pinned`. Wakes no other thread on the CPU. IndexError for a row out of range (on the
// GPU: at the next synchronising call).
Batch batch(const Split& split, const Tensor& rows, bool pinned = false);

struct Dataset : DataInfo {
  Split train, test;  // on the CPU
};

// With the paths that are there below `base` found there.
DataConfig resolved(DataConfig config);

// Reads or draws what the config names. Statistics are learned on the training rows alone. Throws
// InputError for data that are missing, damaged or too few.
Dataset load_dataset(const DataConfig& config, uint64_t seed);

// Further rows of the same kind, treated as the training data were: a CSV file, which may lack the
// label's column (targets are undefined then), or an IDX file of images (no targets). InputError:
// as above; also a category, a class or a size that the training data do not have.
Split load_more(const DataInfo& info, const std::filesystem::path& file);

}  // namespace taper::runner
