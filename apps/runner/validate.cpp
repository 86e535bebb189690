#include "apps/runner/validate.h"

#include <algorithm>

#include <spdlog/fmt/fmt.h>

#include "apps/runner/data/idx.h"
#include "apps/runner/dataset.h"
#include "apps/runner/evaluate.h"
#include "apps/runner/loader.h"
#include "apps/runner/model.h"
#include "apps/runner/optimizer.h"
#include "framework/factories.h"
#include "modules/summary.h"

namespace taper::runner {
namespace {

// Samples that are run; of a text, tokens of each. What they leave in memory grows with both alike.
constexpr int64_t kProbeBatch = 2, kProbeTokens = 32;

int64_t over(int64_t a, int64_t b) { return (a + b - 1) / b; }

struct DataSize {
  DataInfo info;
  int64_t train, test;  // samples
  int64_t batches;      // an epoch
  size_t bytes;         // of both
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
    return size_of_images(mnist_shape(c.mnist.root, true), mnist_shape(c.mnist.root, false)[0],
                          batch);
  }
  const Dataset data = load_dataset(c, config.seed);
  const Loader loader(data.train, {.batch_size = batch, .shuffle = config.train.shuffle},
                      DeviceType::cpu, config.seed);
  return {data, data.train.size(), data.test.size(), loader.steps_per_epoch(),
          data.train.nbytes() + data.test.nbytes()};
}

int64_t bytes_of(const std::vector<NamedTensor>& tensors, const std::string& prefix = "") {
  int64_t bytes = 0;
  for (const NamedTensor& t : tensors) {
    if (t.name.starts_with(prefix)) bytes += int64_t(t.tensor.nbytes());
  }
  return bytes;
}

}  // namespace

std::string validate(const RunConfig& config) {
  const DataSize data = size_of(config);
  const std::unique_ptr<Module> model = build_model(config.model, data.info, DeviceType::cpu);
  const Evaluator measurable(config, data.info, DeviceType::cpu);
  DataInfo probe = data.info;
  const ModelType type = config.model.type;
  if (type == ModelType::kGpt || type == ModelType::kLstmClassifier) {
    probe.input_shape = {std::min(kProbeTokens, probe.input_shape[0])};
  }
  const Tensor input = sample_batch(probe, kProbeBatch, DeviceType::cpu);
  std::string out = summary(*model, input) + "\n";
  const int64_t activations = summarize(*model, input)[0].activation_bytes;
  const auto optimizer = build_optimizer(config.optimizer, *model);
  for (const Tensor& p : model->parameters()) p.set_grad(zeros_like(p));
  optimizer->step();  // for what it keeps

  const TrainConfig& c = config.train;
  const int64_t parameters = bytes_of(model->named_parameters());
  const int64_t state = bytes_of(optimizer->state_dict(), "state.");
  const int64_t samples = c.batch_size * data.info.input_shape.numel();
  const int64_t of_batch = int64_t(double(activations) * double(samples) / double(input.numel()));
  const auto line = [&](const char* name, int64_t bytes, const std::string& note = "") {
    out += fmt::format("{:<18}{:>12.2f} MiB{}\n", name, double(bytes) / (1 << 20), note);
  };
  line("parameters", parameters);
  line("gradients", parameters);
  line("optimizer state", state);
  if (c.ema) line("averages", parameters);
  line("activations", of_batch, cat("  of ", c.batch_size, " samples, in float32"));
  line("data", int64_t(data.bytes),
       cat("  of ", data.train, " training and ", data.test, " test samples"));
  const int64_t per_epoch = over(data.batches, c.accumulate);
  const int64_t steps = c.steps ? *c.steps : *c.epochs * per_epoch;
  return out + cat("steps: ", steps, ", ", per_epoch, " an epoch\n");
}

}  // namespace taper::runner
