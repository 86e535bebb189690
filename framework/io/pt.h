// Reads and writes files of torch.save (.pt, .pth) without Python
// (https://docs.pytorch.org/docs/stable/generated/torch.save.html): a zip archive with a pickle
// that names the tensors, and their bytes. Nothing in the pickle is executed (pickle.h). A build
// without libzip refuses archives.
#pragma once

#include <string>
#include <vector>

#include "framework/io/loaded_tensors.h"

namespace taper::v0 {

// Returns the tensors of a file: those of a state dict under their names, those of a checkpoint
// such as {"model": {...}, "epoch": 3} with the keys and list indices on their path before them
// ("model.fc.weight", "optimizer.state.0.exp_avg"). A key that is no text is written as Python
// prints it ("3", "(1, 2)"); other values are passed over. With an entry ("model", or "a.b"), only
// the tensors below that key are read, and the key is dropped from their names; the entry itself
// has the name "". Tensors are on the CPU with their strides, and those that shared a storage
// share one again.
//
// Entries of a dtype that Taper lacks, objects that Python would have to construct, and names that
// two tensors have are listed in `unreadable`. Throws InputError with the path, and the byte of the
// pickle: for a damaged file; where `entry` or, without one, the whole file gives no tensor because
// of such entries. Files from before PyTorch 1.6, which are no archives, are read as well, also
// without libzip.
LoadedTensors load_pt(const std::string& path, const std::string& entry = "");

// Writes a dict of tensors, for torch.load(path, weights_only=True). PATH is the old file or the
// whole new one. Tensors may be on any device and in any layout; equal ones (of one place in
// memory) are stored once and share a storage again when read. Errors as save_safetensors.
void save_pt(const std::string& path, const std::vector<NamedTensor>& tensors);

// Reads either format, by the file's first bytes; `entry` as in load_pt.
LoadedTensors load_weights(const std::string& path, const std::string& entry = "");

}  // namespace taper::v0
