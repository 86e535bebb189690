// The tensors of a weights file, and the reasons why other entries could not be read.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "framework/tensor/tensor.h"

namespace taper::v0 {

// The tensors that could be read, in the file's order. Entries of a type that Taper lacks are
// omitted here, and the others can be used. A lookup by the name of an omitted entry, as in at()
// and Module::load_state_dict(), throws an error with the reason.
struct LoadedTensors : std::vector<NamedTensor> {
  explicit LoadedTensors(std::string file) : path(std::move(file)) {}

  using std::vector<NamedTensor>::at;
  // Returns the tensor of that name. Throws InputError with the path if there is none. The message
  // contains the reason if the entry cannot be read, and otherwise the names in the file.
  Tensor at(std::string_view name) const;

  // Keeps the entries below the key `entry` ("model", "a.b") and removes the key from their names.
  // The entry itself gets the name "". An empty key keeps everything. Throws InputError if no
  // tensor is left. If the entry, a key above it or an entry below it cannot be read, the message
  // contains the reason. Otherwise it lists `keys`, the names in the file, unless the key is empty.
  void keep_below(const std::string& entry, const std::string& keys);

  // Keeps the entries whose names begin with the prefix and removes it from their names. Throws
  // InputError, with the names in the file, if there is none and the prefix is not empty.
  void keep_prefix(const std::string& prefix);

  std::string path;
  // For each entry that cannot be read, by its name, the reason: a sentence that begins with the
  // path.
  std::map<std::string, std::string> unreadable;
};

// Returns whether `name` is the key `entry` or a key below it. Every name is below the empty key.
bool is_below(std::string_view name, std::string_view entry);

}  // namespace taper::v0
