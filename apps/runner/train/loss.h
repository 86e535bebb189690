// Losses as a config names them.
#pragma once

#include <functional>

#include "apps/runner/config/tables.h"
#include "framework/kernels/loss/softmax.h"
#include "framework/tensor.h"

namespace taper::inline v0::runner {

struct Loss {
  // Of outputs [..., C] against classes [...] (those of kIgnoredTarget do not count), or [N, 1]
  // against values [N]. Empty where the loss is not for the task.
  std::function<Tensor(const Tensor& outputs, const Tensor& targets, Reduction)> value{};
  // What outputs say: probabilities of classes, or values.
  std::function<Tensor(const Tensor& outputs)> prediction{};

  Tensor operator()(const Tensor& outputs, const Tensor& targets, Reduction reduction) const {
    return value(outputs, targets, reduction);
  }
};

}  // namespace taper::inline v0::runner
