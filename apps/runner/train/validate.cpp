#include "apps/runner/train/validate.h"

#include <algorithm>
#include <filesystem>

#include <spdlog/fmt/fmt.h>

#include "apps/runner/data/dataset.h"
#include "apps/runner/data/idx.h"
#include "apps/runner/data/loader.h"
#include "apps/runner/train/evaluate.h"
#include "apps/runner/train/memory.h"
#include "apps/runner/train/model.h"
#include "apps/runner/train/optimizer.h"
#include "apps/runner/train/schedule.h"
#include "autograd/autocast.h"
#include "framework/cuda.h"
#include "framework/kernels/random/random.h"
#include "modules/models/gpt.h"
#include "modules/models/text_classifiers.h"
#include "modules/summary.h"

namespace taper::runner {
namespace {

// Samples that are shown; of a text, tokens of each.
constexpr int64_t kProbeBatch = 2, kProbeTokens = 8;

int64_t over(int64_t a, int64_t b) { return (a + b - 1) / b; }

struct DataSize {
  DataInfo info;
  int64_t train, test;  // samples
  int64_t batches;      // an epoch
  size_t bytes;         // of both
  const char* unchecked = "";
};

DataSize size_of_images(const std::vector<int64_t>& train, int64_t test, int64_t batch_size) {
  DataSize out{{}, train[0], test, over(train[0], batch_size), 0};
  out.info.input_shape = {1, train[1], train[2]};
  out.info.outputs = 10;
  out.bytes = size_t(out.train + out.test) * size_t(out.info.input_shape.numel() * 4 + 8);
  return out;
}

DataSize size_of(const RunConfig& config) {
  const DataConfig& c = config.data;
  const int64_t batch = config.train.batch_size;
  if (c.type == DataType::kDigits) {
    return size_of_images({c.digits.train_size, 28, 28}, c.digits.test_size, batch);
  }
  if (c.type == DataType::kMnist) {
    DataSize out =
        size_of_images(mnist_shape(c.mnist.root, true), mnist_shape(c.mnist.root, false)[0], batch);
    out.unchecked =
        "not checked: the pixels and labels of MNIST, of which only headers were read\n";
    return out;
  }
  const Dataset data = load_dataset(c, config.seed);
  const Loader loader(data.train, {.batch_size = batch, .shuffle = config.train.shuffle},
                      DeviceType::cpu, config.seed);
  return {data, data.train.size(), data.test.size(), loader.steps_per_epoch(),
          data.train.nbytes() + data.test.nbytes()};
}

}  // namespace

std::string validate(const RunConfig& config) {
  const DataSize data = size_of(config);
  const kernels::SkipDraws uninitialised;
  const std::unique_ptr<Module> model = build_model(config.model, data.info, DeviceType::cpu);
  const Evaluator measurable(config, data.info, DeviceType::cpu);
  DataInfo probe = data.info;
  const bool takes_any_length = dynamic_cast<const GPT*>(model.get()) != nullptr ||
                                dynamic_cast<const LSTMClassifier*>(model.get()) != nullptr;
  if (takes_any_length) {
    probe.input_shape = {std::min(kProbeTokens, probe.input_shape[0])};
  }
  const Tensor input = sample_batch(probe, kProbeBatch, DeviceType::cpu);
  std::string out;
  {
    const Precision p = config.train.precision;
    const Autocast casts(DeviceType::cpu, p == Precision::kFp16 ? kFloat16 : kBFloat16,
                         p >= Precision::kBf16);
    out = summary(*model, input) + "\n";
  }
  const TrainConfig& c = config.train;
  // To ask CUDA would take longer than all the rest.
  const bool has_gpu = kHasCuda && std::filesystem::exists("/dev/nvidiactl");
  const bool on_gpu = config.device == "auto" ? has_gpu : config.device != "cpu";
  const bool holds_data = !on_gpu || config.data.on_device != OnDevice::kNever;
  const MemoryForecast memory =
      foretell_memory(config, data.info, *model,
                      {data.train, data.test, holds_data ? int64_t(data.bytes) : 0}, on_gpu);
  const auto line = [&](const char* name, int64_t bytes, const std::string& note = "") {
    out += fmt::format("{:<18}{:>12.2f} MiB{}\n", name, double(bytes) / (1 << 20), note);
  };
  line("parameters", memory.parameters);
  line("gradients", memory.gradients);
  line("optimizer state", memory.state);
  if (c.ema) line("averages", memory.averages);
  line("activations", memory.activations,
       cat("  of ", c.batch_size, " samples, or ", c.eval_batch_size, " in evaluation"));
  line("data", memory.data, cat("  of ", data.train, " training and ", data.test, " test samples"));
  line("together", memory.total(), on_gpu ? "  on the GPU" : "");
  const int64_t per_epoch = over(data.batches, c.accumulate);
  const int64_t steps = c.steps ? *c.steps : *c.epochs * per_epoch;
  const double lr = build_optimizer(config.optimizer, *model)->lr();
  (void)build_schedule(config.schedule, lr, steps, per_epoch);  // says what is odd about it
  return out + cat("steps: ", steps, ", ", per_epoch, " an epoch\n", data.unchecked);
}

}  // namespace taper::runner
