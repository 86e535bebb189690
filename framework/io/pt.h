// Reads and writes files of torch.save (.pt, .pth) without Python
// (https://docs.pytorch.org/docs/stable/generated/torch.save.html): a zip archive that contains a
// pickle with the names of the tensors, and the tensors' bytes. Nothing in the pickle is executed
// (pickle.h). In a build without libzip, archives cannot be read or written.
#pragma once

#include <string>
#include <vector>

#include "framework/io/loaded_tensors.h"

namespace taper::v0 {

// Returns the tensors of a file. A state dict's tensors have their own names. In a checkpoint such
// as {"model": {...}, "epoch": 3}, names are prefixed with the keys and list indices on the path
// ("model.fc.weight", "optimizer.state.0.exp_avg"). A key that is not a string is written as Python
// prints it ("3", "(1, 2)"). Values that are not tensors are skipped. If `entry` ("model" or "a.b")
// is not empty, only the tensors below that key are read, and the key is removed from their names.
// The entry itself gets the name "". Tensors are on the CPU and keep their strides. Tensors that
// shared a storage share one again.
//
// Entries of a dtype that Taper lacks, objects that Python would have to construct, and names that
// occur twice are listed in `unreadable`. Throws InputError with the path and the byte of the
// pickle if the file is damaged, or if `entry` (or, without one, the whole file) yields no tensor
// because of such entries. Files from before PyTorch 1.6, which are not archives, are supported
// too, also without libzip.
LoadedTensors load_pt(const std::string& path, const std::string& entry = "");

// Writes a dict of tensors that torch.load(path, weights_only=True) reads. The file is replaced
// atomically. Tensors may be on any device and in any layout. Tensors over the same memory are
// stored once and share a storage again when they are read. Throws the errors of
// save_safetensors().
void save_pt(const std::string& path, const std::vector<NamedTensor>& tensors);

// Reads a .pt or a .safetensors file; the first bytes determine which. `entry` has the same meaning
// as in load_pt().
LoadedTensors load_weights(const std::string& path, const std::string& entry = "");

}  // namespace taper::v0
