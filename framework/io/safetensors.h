// Files of named tensors that other frameworks read too
// (https://huggingface.co/docs/safetensors): the length of the header, a JSON header, the bytes.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "framework/io/loaded_tensors.h"

namespace taper::v0 {

struct SafeTensors {
  // In the order of the header; on the CPU. Tensors of dtypes that Taper lacks, and of more than
  // eight dimensions, are in its list of unreadable entries.
  LoadedTensors tensors;
  std::map<std::string, std::string> metadata;
};

// Writes the bytes that the Python library writes. PATH is the old file or the whole new one
// (atomic_file.h), also after a power cut. Tensors may be on any device and in any layout. Throws
// OutputError with the path and the reason; ValueError for a name that is taken twice, reserved or
// not UTF-8, and for an undefined tensor.
void save_safetensors(const std::string& path, const std::vector<NamedTensor>& tensors,
                      const std::map<std::string, std::string>& metadata = {});

// Maps the file: bytes are read when a tensor is used, and in-place changes stay in memory. The
// mapping lives as long as its last tensor; meanwhile the file may be replaced (as
// save_safetensors does) but must not be shortened. Throws Error, naming file and tensor, for
// anything that the format does not allow.
SafeTensors load_safetensors(const std::string& path);

}  // namespace taper::v0
