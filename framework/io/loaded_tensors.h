// The tensors of a weights file, and the reasons why other entries could not be read.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "framework/tensor/tensor.h"

namespace taper::v0 {

// The tensors that could be read, in the file's order. An entry of a type that Taper lacks does not
// make the other entries unreadable: it is omitted here, and a lookup by its name, as in at() and
// Module::load_state_dict(), throws an error with the reason.
struct LoadedTensors : std::vector<NamedTensor> {
  explicit LoadedTensors(std::string file) : path(std::move(file)) {}

  using std::vector<NamedTensor>::at;
  // Returns the tensor of that name. Throws InputError with the path: with the reason for an entry
  // that cannot be read, and with the file's names for a name that the file lacks.
  Tensor at(std::string_view name) const;

  // Keeps the entries below the key `entry` ("model", "a.b") and removes the key from their names.
  // The entry itself gets the name "". An empty key keeps everything. Throws InputError if no
  // tensor is left. The message has the reason if the entry, a key above it or an entry below it
  // cannot be read. Otherwise, unless the key is empty, it lists `keys`, the names in the file.
  void keep_below(const std::string& entry, const std::string& keys);

  std::string path;
  // The reason why an entry cannot be read, by the entry's name: a sentence that begins with the
  // path.
  std::map<std::string, std::string> unreadable;
};

// Returns whether `name` is the key `entry` or lies below it. Every name lies below the empty key.
bool is_below(std::string_view name, std::string_view entry);

}  // namespace taper::v0
