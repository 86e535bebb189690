#include "optim/adam.h"

namespace taper::optim {

Adam::Adam(const std::vector<Tensor>& params, AdamOptions options)
    : Adam(std::vector<ParamGroup<AdamOptions>>{{params, options}}) {}

Adam::Adam(const std::vector<ParamGroup<AdamOptions>>& groups) {
  for (const auto& [params, o] : groups) {
    add(params, o.lr, {o.beta1, o.beta2, o.eps, o.weight_decay, false});
  }
}

AdamW::AdamW(const std::vector<Tensor>& params, AdamWOptions options)
    : AdamW(std::vector<ParamGroup<AdamWOptions>>{{params, options}}) {}

AdamW::AdamW(const std::vector<ParamGroup<AdamWOptions>>& groups) {
  for (const auto& [params, o] : groups) {
    add(params, o.lr, {o.beta1, o.beta2, o.eps, o.weight_decay, true});
  }
}

void Adam::add(const std::vector<Tensor>& params, double lr, kernels::AdamArgs args) {
  if (!(args.beta1 >= 0 && args.beta1 < 1)) {
    throw ValueError(cat("Invalid beta parameter at index 0: ", args.beta1));
  }
  if (!(args.beta2 >= 0 && args.beta2 < 1)) {
    throw ValueError(cat("Invalid beta parameter at index 1: ", args.beta2));
  }
  if (!(args.eps >= 0)) throw ValueError(cat("Invalid epsilon value: ", args.eps));
  if (!(args.weight_decay >= 0)) {
    throw ValueError(cat("Invalid weight_decay value: ", args.weight_decay));
  }
  add_group(params, lr);
  args_.push_back(args);
}

void Adam::step() {
  for (size_t i = 0; i < groups_.size(); ++i) {
    for (const Batch& batch : batches(groups_[i], 2)) {
      kernels::adam(batch.updates, batch.lr, batch.step, args_[i]);
    }
  }
}

}  // namespace taper::optim
