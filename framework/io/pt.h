// Files of torch.save (.pt, .pth), read and written without Python
// (https://docs.pytorch.org/docs/stable/generated/torch.save.html): a zip archive with a pickle
// that names the tensors, and their bytes. Nothing in the pickle is executed (pickle.h). A build
// without libzip refuses archives.
#pragma once

#include <string>
#include <vector>

#include "framework/tensor.h"

namespace taper::v0 {

// The tensors of a file: a state dict's under their names, those of a checkpoint such as
// {"model": {...}, "epoch": 3} with the keys and places on their way before them
// ("model.fc.weight", "optimizer.state.0.exp_avg"); other values are passed over. entry "model" (or
// "a.b"): only what lies below that key, without it; a file's only tensor has the name "". Tensors
// lie on the CPU with their strides, and those that shared a storage share one again; all memory is
// the tensors' own. Throws InputError with the path, and the byte of the pickle, for what is
// damaged, for a callable other than those that rebuild tensors, and for dtypes that Taper has
// not. Files from before PyTorch 1.6, which are no archives, are read, too, also without libzip.
std::vector<NamedTensor> load_pt(const std::string& path, const std::string& entry = "");

// A dict of tensors, for torch.load(path, weights_only=True). PATH is the old file or the whole new
// one. Tensors may be on any device and in any layout; equal ones (of one place in memory) are
// stored once and are one storage again when read. Errors as save_safetensors.
void save_pt(const std::string& path, const std::vector<NamedTensor>& tensors);

// Either format, by the file's first bytes; entry: of load_pt, empty for safetensors.
std::vector<NamedTensor> load_weights(const std::string& path, const std::string& entry = "");

}  // namespace taper::v0
