// Gradients of a list of parameters, and lists by device.
#pragma once

#include <algorithm>
#include <vector>

#include "framework/tensor.h"

namespace taper::optim {

// Those gradients that there are.
inline std::vector<Tensor> grads_of(const std::vector<Tensor>& params) {
  std::vector<Tensor> grads;
  for (const Tensor& p : params) {
    if (Tensor grad = p.grad(); grad.defined()) grads.push_back(std::move(grad));
  }
  return grads;
}

// One list for each device, in order of appearance.
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

}  // namespace taper::optim
