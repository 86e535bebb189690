// Optimizers as a config names them.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "apps/runner/config/config.h"
#include "modules/module.h"
#include "optim/optimizer.h"

namespace taper::inline v0::runner {

// Muon gets the matrices of hidden layers; embeddings, the last linear layer, biases and norms go
// to AdamW with the same lr and weight_decay (so take `adjust_lr_fn: match_rms_adamw`). Throws
// ConfigError for a model without parameters, or one that the optimizer refuses.
std::unique_ptr<optim::Optimizer> build_optimizer(const OptimizerConfig& config, Module& model);

// The groups that the config asks for beside that of all parameters.
std::vector<optim::GroupRule> rules_of(const OptimizerSite& at);

template <class Options>
std::unique_ptr<optim::Optimizer> plain_optimizer(const Options& o, const OptimizerSite& at) {
  return std::make_unique<optim::OptimizerOf<Options>>(at.model.named_parameters(), o,
                                                       rules_of(at));
}

// Makes OptimizerOf<Options> known under that name, or what make(options, site) gives.
template <class Options, class Make> void register_optimizer(const std::string& name, Make make) {
  optimizers().add<Options>(name, std::move(make));
}
template <class Options> void register_optimizer(const std::string& name) {
  register_optimizer<Options>(name, plain_optimizer<Options>);
}

}  // namespace taper::inline v0::runner
