// The tensors of a weights file, and why others of its entries could not be read.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "framework/tensor/tensor.h"

namespace taper::v0 {

// A list of the tensors that could be read, in the file's order. An entry that Taper has no type
// for does not make the others unreadable: it is left out of the list, and whoever asks for it by
// name, as at() and Module::load_state_dict do, gets an error with the reason.
struct LoadedTensors : std::vector<NamedTensor> {
  explicit LoadedTensors(std::string file) : path(std::move(file)) {}

  using std::vector<NamedTensor>::at;
  // Returns the tensor of that name. Throws InputError with the path: with the reason for an entry
  // that cannot be read, and with the file's names for a name that the file lacks.
  Tensor at(std::string_view name) const;

  // Keeps the entries below the key `entry` ("model", "a.b") and drops the key from their names;
  // the entry itself gets the name "". An empty key keeps everything. Throws InputError when no
  // tensor is left: with the reason where the entry, a key above it or an entry below it cannot be
  // read; otherwise, unless the key is empty, with `keys`, the names that the file has.
  void keep_below(const std::string& entry, const std::string& keys);

  std::string path;
  // Why an entry cannot be read, in a sentence that begins with the path, by the entry's name.
  std::map<std::string, std::string> unreadable;
};

// Returns whether `name` is the key `entry` or lies below it. Every name lies below the empty key.
bool is_below(std::string_view name, std::string_view entry);

}  // namespace taper::v0
