// `taper train CONFIG --validate`: what a run would be.
#include <algorithm>
#include <filesystem>

#include <spdlog/fmt/fmt.h>

#include "apps/runner/data/data_info.h"
#include "apps/runner/train/evaluate.h"
#include "apps/runner/train/learner.h"
#include "apps/runner/train/memory.h"
#include "apps/runner/train/model.h"
#include "apps/runner/train/optimizer.h"
#include "apps/runner/train/schedule.h"
#include "apps/runner/verbs/verbs.h"
#include "framework/cuda.h"
#include "framework/kernels/random/random.h"
#include "modules/models/gpt.h"
#include "modules/models/text_classifiers.h"
#include "modules/summary.h"

namespace taper::runner {
namespace {

// Samples that are shown; of a text, tokens of each.
constexpr int64_t kProbeBatch = 2, kProbeTokens = 8;

}  // namespace

std::string validate(const RunConfig& config) {
  const data::Outline data = source_of(config.data)->outline(config.seed);
  const DataLoader loader(data.train, {config.train.batch_size, config.train.shuffle},
                          DeviceType::cpu, config.seed);
  const kernels::SkipDraws uninitialised;
  const std::unique_ptr<Module> model = build_model(config.model, data, DeviceType::cpu);
  const Evaluator measurable(config, data, DeviceType::cpu);
  DataInfo probe = data;
  const bool takes_any_length = dynamic_cast<const GPT*>(model.get()) != nullptr ||
                                dynamic_cast<const LSTMClassifier*>(model.get()) != nullptr;
  if (takes_any_length) {
    probe.input_shape = {std::min(kProbeTokens, probe.input_shape[0])};
  }
  const Tensor input = sample_batch(probe, kProbeBatch, DeviceType::cpu);
  std::string out;
  {
    const Autocast half = autocast_of(config.train.precision, DeviceType::cpu);
    out = summary(*model, input) + "\n";
  }
  const TrainConfig& c = config.train;
  // To ask CUDA would take longer than all the rest.
  const bool has_gpu = kHasCuda && std::filesystem::exists("/dev/nvidiactl");
  const bool on_gpu = config.device == "auto" ? has_gpu : config.device != "cpu";
  const bool holds_data = !on_gpu || config.data.on_device != data::OnDevice::kNever;
  const MemoryForecast memory = foretell_memory(config, data, *model, holds_data, on_gpu);
  const auto line = [&](const char* name, int64_t amount, const std::string& note = "") {
    out += fmt::format("{:<18}{:>12.2f} MiB{}\n", name, double(amount) / (1 << 20), note);
  };
  line("parameters", memory.parameters);
  line("gradients", memory.gradients);
  line("optimizer state", memory.state);
  if (c.ema) line("averages", memory.averages);
  line("activations", memory.activations,
       cat("  of ", c.batch_size, " samples, or ", c.eval_batch_size, " in evaluation"));
  line("data", memory.data,
       cat("  of ", data.train->size(), " training and ", data.test->size(), " test samples"));
  line("together", memory.total(), on_gpu ? "  on the GPU" : "");
  const auto [steps, per_epoch] = length_of(c, loader.steps_per_epoch());
  const double lr = build_optimizer(config.optimizer, *model)->lr();
  (void)build_schedule(config.schedule, lr, steps,
                       per_epoch);  // says what is odd about it
  const std::string unread = data.unread.empty() ? "" : cat("not checked: ", data.unread, "\n");
  return out + cat("steps: ", steps, ", ", per_epoch, " an epoch\n", unread);
}

}  // namespace taper::runner
