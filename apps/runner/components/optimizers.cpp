#include "optim/algorithms/optimizers.h"

#include <algorithm>
#include <memory>

#include "apps/runner/base/errors.h"
#include "apps/runner/base/string_utils.h"
#include "apps/runner/components/components.h"

namespace taper::v0::runner {
namespace {

// Returns the names of the weights that Muon updates: the matrices of all linear layers except the
// last.
std::vector<std::string> hidden_weights(Module& model) {
  std::vector<std::string> names;
  for (const auto& [path, module] : model.named_modules()) {
    if (module->type_name() == "Linear") names.push_back(join_path(path, "weight"));
  }
  if (!names.empty()) names.pop_back();
  return names;
}

std::unique_ptr<optim::Optimizer> muon(const optim::MuonOptions& o, const OptimizerSite& at) {
  const std::vector<std::string> names = hidden_weights(at.model);
  std::vector<NamedTensor> hidden, rest;
  for (const NamedTensor& p : trainable_parameters(at.model)) {
    (std::ranges::count(names, p.name) > 0 ? hidden : rest).push_back(p);
  }
  require<ConfigError>(!hidden.empty(),
                       "optimizer 'muon' updates the weights of all linear layers except the last, "
                       "but this model has none; use adamw");
  auto made = std::make_unique<optim::Muon>(hidden, o, rules_of(at, hidden));
  const optim::AdamWOptions adamw{
      .lr = o.lr, .weight_decay = o.weight_decay, .master_weights = o.master_weights};
  if (!rest.empty()) made->add_param_group(rest, adamw, rules_of(at, rest));
  return made;
}

template <class Options>
constexpr auto by_options = Optimizers::of<Options, plain_optimizer<Options>>;

constexpr Optimizers::Entry kOptimizers[] = {
    {"sgd", by_options<optim::SGDOptions>},
    {"adam", by_options<optim::AdamOptions>},
    {"adamw", by_options<optim::AdamWOptions>},
    {"adamax", by_options<optim::AdamaxOptions>},
    {"nadam", by_options<optim::NAdamOptions>},
    {"radam", by_options<optim::RAdamOptions>},
    {"adagrad", by_options<optim::AdagradOptions>},
    {"adadelta", by_options<optim::AdadeltaOptions>},
    {"rmsprop", by_options<optim::RMSpropOptions>},
    {"lion", by_options<optim::LionOptions>},
    {"muon", Optimizers::of<optim::MuonOptions, muon>},
};

}  // namespace

Optimizers& optimizers() { return Optimizers::registry("optimizer", {kOptimizers}); }

std::unique_ptr<optim::Optimizer> build_optimizer(const Component& config,
                                                  const OptimizerSite& at) {
  if (at.model.parameters().empty()) throw ConfigError("the model has no parameters to train");
  check_parts(at);
  return optimizers().make(config, at);
}

}  // namespace taper::v0::runner
