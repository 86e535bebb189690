// Files of named tensors that other frameworks read too (https://huggingface.co/docs/safetensors).
// A file contains the length of the header, a JSON header, and the tensors' bytes.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "framework/io/loaded_tensors.h"

namespace taper::v0 {

struct SafeTensors {
  // The tensors in the order of the header, on the CPU. Those with a dtype that Taper lacks or with
  // more than eight dimensions are listed in LoadedTensors::unreadable.
  LoadedTensors tensors;
  std::map<std::string, std::string> metadata;
};

// Options of load_safetensors(): {.prefix = "net."}.
struct SafeTensorsOptions {
  // Only the tensors whose names begin with the prefix are returned, without the prefix.
  std::string prefix = {};
};

// Writes the same bytes as the Python library. The file is replaced atomically and durably
// (atomic_file.h). Tensors may be on any device and in any layout. Throws OutputError with the path
// and the reason if the file cannot be written; ValueError for a name that is repeated, reserved or
// not UTF-8, and for an undefined tensor.
void save_safetensors(const std::string& path, const std::vector<NamedTensor>& tensors,
                      const std::map<std::string, std::string>& metadata = {});

// Maps the file into memory. Bytes are read when a tensor is first used, and in-place changes stay
// in memory. The mapping lives as long as the last tensor of the file. Until then the file may be
// replaced, as save_safetensors() does, but must not be shortened. Throws Error with the path and
// the tensor's name if the file violates the format. Throws InputError, with the file's names, if
// no name begins with the prefix.
//   net.load_state_dict(load_safetensors("run.ckpt", {.prefix = "net."}).tensors);
SafeTensors load_safetensors(const std::string& path, const SafeTensorsOptions& options = {});

}  // namespace taper::v0
