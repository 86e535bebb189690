// Stochastic gradient descent (https://pytorch.org/docs/stable/generated/torch.optim.SGD.html).
#pragma once

#include "optim/optimizer.h"

namespace taper::optim {

struct SGDOptions {
  double lr = 1e-3;
  double momentum = 0;
  double weight_decay = 0;
  bool nesterov = false;  // needs momentum
};

class SGD : public Optimizer {
 public:
  SGD(const std::vector<Tensor>& params, SGDOptions options);
  explicit SGD(const std::vector<ParamGroup<SGDOptions>>& groups);
  void step() override;

 private:
  std::vector<SGDOptions> options_;
};

}  // namespace taper::optim
