// Adam and AdamW (https://pytorch.org/docs/stable/generated/torch.optim.Adam.html,
// https://pytorch.org/docs/stable/generated/torch.optim.AdamW.html).
#pragma once

#include "optim/optimizer.h"

namespace taper::optim {

struct AdamOptions {
  double lr = 1e-3;
  double beta1 = 0.9, beta2 = 0.999;
  double eps = 1e-8;
  double weight_decay = 0;  // added to the gradient
};

struct AdamWOptions {
  double lr = 1e-3;
  double beta1 = 0.9, beta2 = 0.999;
  double eps = 1e-8;
  double weight_decay = 1e-2;  // shrinks the weight itself
};

class Adam : public Optimizer {
 public:
  Adam(const std::vector<Tensor>& params, AdamOptions options);
  explicit Adam(const std::vector<ParamGroup<AdamOptions>>& groups);
  void step() override;

 protected:
  Adam() = default;
  void add(const std::vector<Tensor>& params, double lr, kernels::AdamArgs args);

 private:
  std::vector<kernels::AdamArgs> args_;
};

class AdamW : public Adam {
 public:
  AdamW(const std::vector<Tensor>& params, AdamWOptions options);
  explicit AdamW(const std::vector<ParamGroup<AdamWOptions>>& groups);
};

}  // namespace taper::optim
