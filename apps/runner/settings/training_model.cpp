#include "apps/runner/settings/training_model.h"

#include "apps/runner/base/errors.h"
#include "apps/runner/components/components.h"
#include "modules/models/gpt.h"

namespace taper::v0::runner {

std::unique_ptr<Module> build_training_model(const RunConfig& config, const DataInfo& data,
                                             Device device) {
  std::unique_ptr<Module> model = build_model(config.model, data, device);
  if (config.train.recompute == Recompute::kNone) return model;
  bool has_blocks = false;
  for (const auto& [name, module] : model->named_modules()) {
    auto* const block = dynamic_cast<GPTBlock*>(module);
    if (!block) continue;
    block->recompute = true;
    has_blocks = true;
  }
  require<ConfigError>(
      has_blocks,
      located(place_of(config, "train.recompute"),
              concat_to_string("train.recompute: block computes the blocks of a gpt again, but the "
                               "model '",
                               config.model.type,
                               "' has none; use a model of type gpt, or remove the key")));
  return model;
}

}  // namespace taper::v0::runner
