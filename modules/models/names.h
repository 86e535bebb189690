// Weight names and layouts of other libraries, for models that Taper has too.
#pragma once

#include <span>
#include <vector>

#include "framework/tensor/tensor.h"

namespace taper::v0 {

struct LoadedTensors;  // framework/io/loaded_tensors.h

// A rule: a name in the other library, and the name in Taper.
struct NameRule {
  // A '*' matches one or more characters other than a dot. Each '*' of the second name is
  // replaced by the characters that the same '*' of the first name matched.
  const char* theirs;
  const char* ours;         // nullptr: an entry that Taper ignores
  bool transposed = false;  // the other library stores a matrix [in, out], Taper [out, in]
};

// A table of rules. The first rule that matches a name applies.
struct WeightNames {
  const char* of;        // the library's name, for messages
  const char* may_lack;  // an optional prefix of the other library's names; or ""
  std::span<const NameRule> rules;

  // Converts another library's state dict to Taper's, and back. Transposed tensors are views.
  // Counters of batch norms, which files from before PyTorch 0.4.1 lack, are added. Throws
  // ValueError for a name that no rule matches, and for a transposed tensor that is not a matrix.
  std::vector<NamedTensor> to_taper(const std::vector<NamedTensor>& state) const;
  // Like to_taper() above, for the tensors of a file. The names of unreadable entries are
  // converted, too.
  LoadedTensors to_taper(const LoadedTensors& state) const;
  std::vector<NamedTensor> from_taper(const std::vector<NamedTensor>& state) const;

  // Returns the tensors of a file in Taper's layout, still under the names of the file. Transposed
  // tensors are views; adds their number to `transposed`. Entries that Taper ignores are left out.
  // Tensors that no rule matches are returned as they are.
  LoadedTensors in_taper_layout(const LoadedTensors& file, size_t& transposed) const;
};

// GPT2LMHeadModel and GPT2Model of the library transformers, for GPT with {.gelu = "tanh"}:
//   net.load_state_dict(kHuggingFaceGpt2.to_taper(load_weights("pytorch_model.bin")));
extern const WeightNames kHuggingFaceGpt2;
// Returns whether the tensors are those of GPT-2 in the layout of transformers: its weights c_attn
// are [n, 3 n], and Taper's are [3 n, n].
bool has_layout_of_gpt2(const std::vector<NamedTensor>& state);
// resnet18 to resnet152 of torchvision, whose names Taper shares.
extern const WeightNames kTorchvisionResNet;

}  // namespace taper::v0
