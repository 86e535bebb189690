// The names and layouts that other libraries give the weights of models that Taper has, too.
#pragma once

#include <span>
#include <vector>

#include "framework/tensor/tensor.h"

namespace taper::v0 {

struct LoadedTensors;  // framework/io/loaded_tensors.h

// A name of theirs, and ours.
struct NameRule {
  // Each '*' stands for one or more characters that are no dot, in both names the same.
  const char* theirs;
  const char* ours;         // nullptr: nothing that Taper has to know
  bool transposed = false;  // a matrix [in, out] there, [out, in] here
};

// A table of rules, of which the first that fits a name counts.
struct WeightNames {
  const char* of;        // for messages
  const char* may_lack;  // what the other library's names may begin with or not; or ""
  std::span<const NameRule> rules;

  // Another library's state dict as one of Taper's, and back. Transposed tensors are views.
  // Counters of batch norms that files from before PyTorch 0.4.1 lack are added. Throw ValueError
  // for a name that no rule fits and for a transposed tensor that is no matrix.
  std::vector<NamedTensor> to_taper(const std::vector<NamedTensor>& state) const;
  // Does the same with the tensors of a file, and renames its unreadable entries.
  LoadedTensors to_taper(const LoadedTensors& state) const;
  std::vector<NamedTensor> from_taper(const std::vector<NamedTensor>& state) const;
};

// GPT2LMHeadModel's and GPT2Model's of transformers, for GPT with {.gelu = "tanh"}:
//   net.load_state_dict(kHuggingFaceGpt2.to_taper(load_weights("pytorch_model.bin")));
extern const WeightNames kHuggingFaceGpt2;
// Those of resnet18 and resnet34, which are Taper's.
extern const WeightNames kTorchvisionResNet;

}  // namespace taper::v0
