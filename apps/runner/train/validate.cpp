#include "apps/runner/train/validate.h"

#include <algorithm>
#include <memory>
#include <optional>

#include "apps/runner/base/files.h"
#include "apps/runner/components/components.h"
#include "apps/runner/memory/batch_size.h"
#include "apps/runner/memory/memory_estimate.h"
#include "apps/runner/memory/run_devices.h"
#include "apps/runner/passes/preflight.h"
#include "apps/runner/run/batches.h"
#include "apps/runner/run/checkpoint.h"
#include "apps/runner/run/evaluate.h"
#include "apps/runner/run/host_state.h"
#include "apps/runner/run/log_sink.h"
#include "apps/runner/run/run_directory.h"
#include "apps/runner/settings/autocast.h"
#include "apps/runner/settings/placement.h"
#include "apps/runner/settings/training_model.h"
#include "apps/runner/train/state.h"
#include "apps/runner/train/trainer.h"
#include "framework/factory/generator.h"
#include "framework/io/input_file.h"
#include "framework/kernels/random/random.h"
#include "modules/summary.h"

namespace taper::v0::runner {

// Returns a table with the shapes, parameters and multiply-adds of each module.
static std::string summary_of(Module& model, const RunConfig& config, const DataInfo& data) {
  // A few samples, and of a text a few tokens of each, are enough.
  constexpr int64_t kProbeBatch = 2, kProbeTokens = 8;
  DataInfo probe = data;
  if (takes_any_length(model)) {
    probe.input_shape = {std::min(kProbeTokens, probe.input_shape[0])};
  }
  const Tensor input = sample_batch(probe, kProbeBatch, DeviceType::kCpu);
  try {
    const AutocastGuard half = autocast_of(config.train.precision, DeviceType::kCpu);
    return summary(model, input) + "\n";
  } catch (const std::exception& error) {
    refuse_layer(model, config.model, error);
    throw;
  }
}

// Chooses the batch size of a run that would begin here. Returns a line that says why, or that it
// depends on a GPU that this machine does not have.
static std::string choose_expected_batch_size(RunConfig& config, const data::Splits& data,
                                              int64_t ranks) {
  if (!config.train.is_batch_size_auto) return "";
  const Device own = expected_device(config);
  if (!has_gpu(devices_of_run(config, own)) || gpu_exists()) {
    return set_batch_size(config, data, own, ranks) + "\n";
  }
  config.train.is_batch_size_auto = false;
  return concat_to_string(
      "train.batch_size: auto depends on the memory of the GPU, which is not "
      "here; memory and steps are those of batches of ",
      config.train.batch_size, "\n");
}

std::string validate(const RunConfig& asked, int64_t ranks) {
  check_config(asked);
  RunConfig config = asked;
  const HostStateGuard host;
  const data::Outline data = source_of(config.data)->outline(config.seed);
  require_fit(config, data);
  (void)checked_thresholds(config, data);  // throws for data that the rule does not fit
  const std::string batch_size = choose_expected_batch_size(config, data, ranks);
  const DataLoader loader(data.train,
                          {.batch_size = config.train.batch_size,
                           .shuffle = config.train.shuffle,
                           .drop_last = config.train.drop_last},
                          DeviceType::kCpu, config.seed);
  // A loss that checks the values of the outputs needs initialized weights.
  Generator generator(config.seed);
  const DrawGuard draws(generator);
  std::optional<kernels::SkipDrawsGuard> skip_initialization;
  if (!losses().make(config.loss, loss_site(data)).takes_probabilities)
    skip_initialization.emplace();
  const std::unique_ptr<Module> model = build_training_model(config, data, DeviceType::kCpu);
  check_placement(config, *model, ranks);
  load_init(*model, config.model, config.data.base);
  const auto optimizer =
      build_optimizer(config.optimizer, optimizer_site(config.optimizer, *model));
  const double lr = base_lr(*optimizer, config.optimizer);
  try_model(*model, config.model, data, DeviceType::kCpu);
  const Evaluator measurable(config, data, DeviceType::kCpu);
  check_batches(*model, config, data, run_sizes(config, data, ranks), DeviceType::kCpu);
  const std::string parts =
      summary_of(*model, config, data) + describe_memory(config, data, *model, ranks);
  const auto [steps, per_epoch] = length_of(config.train, loader.steps_per_epoch());
  (void)build_schedule(config.schedule, config.schedule.warmup,
                       {lr, steps, per_epoch});  // logs warnings about the schedule
  const std::string unread =
      data.unread.empty() ? "" : concat_to_string("not checked: ", data.unread, "\n");
  const std::string note = data.note.empty() ? "" : concat_to_string("data: ", data.note, "\n");
  const std::string report = data.report.empty() ? "" : data.report + "\n\n";
  return report + parts + batch_size +
         concat_to_string("steps: ", steps, ", ", per_epoch, " per epoch\n", note, unread);
}

std::string dry_run(const RunConfig& asked) {
  check_config(asked);
  const ConsoleGuard console(asked.log);
  const HostStateGuard host;
  RunConfig config = asked;
  const Device device = set_up(config);
  const Communicator ranks = Communicator::alone(device);
  data::Splits data = source_of(config.data)->load(config.seed);
  require_fit(config, data);
  data.thresholds = checked_thresholds(config, data);
  const std::string batch_size = set_batch_size(config, data, device, 1);
  config.train.eval_batch_size = choose_eval_batch_size(config, data, ranks);
  const TemporaryDirectory dir;
  Trainer trainer(config, data, ranks, dir.path());
  trainer.load_init();
  trainer.open_files();
  trainer.train_step();
  trainer.train_step();
  trainer.read_losses();
  std::string out = batch_size.empty() ? "" : batch_size + "\n";
  out += "OK  two steps on ";
  for (const Device each : trainer.devices()) {
    out += concat_to_string(each == device ? "" : ", ", each);
  }
  out += "\n";
  const Metrics metrics = trainer.evaluate();
  out += "OK  evaluation:";
  for (const auto& [name, x] : metrics.values) out += concat_to_string(" ", name, "=", float(x));
  const fs::path saved = save_checkpoint(dir.path() / "a", trainer.step(), trainer.checkpoint(), 1);
  out += "\nOK  checkpoint saved\n";
  Trainer again(config, data, ranks, dir.path());
  again.load(load_checkpoint(saved));
  again.open_files();
  const fs::path other = save_checkpoint(dir.path() / "b", again.step(), again.checkpoint(), 1);
  const auto sums = [](const fs::path& at) { return read_file(at / kChecksums, "checksums"); };
  require(sums(saved) == sums(other),
          "the checkpoint changed when it was reloaded and saved again:\n", sums(saved), "became\n",
          sums(other));
  return out + "OK  reloaded with the same bits\n";
}

}  // namespace taper::v0::runner
