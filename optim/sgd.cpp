#include "optim/sgd.h"

namespace taper::optim {

SGD::SGD(const std::vector<Tensor>& params, SGDOptions options)
    : SGD(std::vector<ParamGroup<SGDOptions>>{{params, options}}) {}

SGD::SGD(const std::vector<ParamGroup<SGDOptions>>& groups) {
  for (const auto& [params, options] : groups) {
    if (!(options.momentum >= 0)) {
      throw ValueError(cat("Invalid momentum value: ", options.momentum));
    }
    if (!(options.weight_decay >= 0)) {
      throw ValueError(cat("Invalid weight_decay value: ", options.weight_decay));
    }
    if (options.nesterov && options.momentum == 0) {
      throw ValueError("Nesterov momentum requires a momentum and zero dampening");
    }
    add_group(params, options.lr);
    options_.push_back(options);
  }
}

void SGD::step() {
  for (size_t i = 0; i < groups_.size(); ++i) {
    const SGDOptions& o = options_[i];
    for (const Batch& batch : batches(groups_[i], o.momentum != 0 ? 1 : 0)) {
      kernels::sgd(batch.updates, batch.lr, {o.momentum, o.weight_decay, o.nesterov});
    }
  }
}

}  // namespace taper::optim
