// Helpers for clipping, scaling, averaging and schedules. They read state dicts and group tensors.
#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "framework/tensor/tensor.h"

namespace taper::v0::optim {

// Reads entries of a state dict. Throws Error, with the name of the owner, if an entry is missing
// or of another shape.
struct StateReader {
  const std::vector<NamedTensor>& state;
  const char* owner;

  const Tensor& entry(const std::string& name, const Shape& shape) const {
    const auto is_it = [&](const NamedTensor& e) { return e.name == name; };
    const auto found = std::find_if(state.begin(), state.end(), is_it);
    const bool missing = found == state.end();
    if (!missing && found->tensor.shape() == shape) return found->tensor;
    throw Error("Error(s) in loading state_dict for ", owner, ": ",
                missing ? concat_to_string("Missing key: \"", name, "\"")
                        : concat_to_string("size mismatch for ", name, ": ", found->tensor.shape(),
                                           " in the state, ", shape, " here"));
  }
  template <class T> T number(const std::string& name) const { return entry(name, {}).item<T>(); }
};

class Optimizer;

// Returns the name of the class, EMA or AveragedModel, whose averages are swapped into a parameter
// of the optimizer. Returns null if there is none.
const char* swapped_by(const Optimizer& optimizer);

// Returns the gradients that are defined.
inline std::vector<Tensor> grads_of(const std::vector<Tensor>& params) {
  std::vector<Tensor> grads;
  for (const Tensor& p : params) {
    if (Tensor grad = p.grad(); grad.defined()) grads.push_back(std::move(grad));
  }
  return grads;
}

// Groups tensors by device, in order of first appearance.
inline std::vector<std::vector<Tensor>> by_device(const std::vector<Tensor>& tensors) {
  std::vector<std::vector<Tensor>> lists;
  for (const Tensor& x : tensors) {
    const auto is_here = [&](const auto& list) { return list[0].device() == x.device(); };
    auto list = std::find_if(lists.begin(), lists.end(), is_here);
    if (list == lists.end()) list = lists.insert(list, std::vector<Tensor>());
    list->push_back(x);
  }
  return lists;
}

}  // namespace taper::v0::optim
