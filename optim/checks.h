// Checks of settings, and of states that are loaded.
#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "framework/tensor.h"

namespace taper::optim {

inline void check_value(bool ok, const std::string& message) {
  if (!ok) throw ValueError(message);
}

// Throws Error, naming the owner, for an entry that is missing or of another shape.
struct StateReader {
  const std::vector<NamedTensor>& state;
  const char* owner;

  const Tensor& entry(const std::string& name, const Shape& shape) const {
    const auto is_it = [&](const NamedTensor& e) { return e.name == name; };
    const auto found = std::find_if(state.begin(), state.end(), is_it);
    const bool missing = found == state.end();
    if (!missing && found->tensor.shape() == shape) return found->tensor;
    throw Error(cat("Error(s) in loading state_dict for ", owner, ": ",
                    missing ? cat("Missing key: \"", name, "\"")
                            : cat("size mismatch for ", name, ": ", found->tensor.shape(),
                                  " in the state, ", shape, " here")));
  }
  template <class T> T number(const std::string& name) const { return entry(name, {}).item<T>(); }
};

}  // namespace taper::optim
