#include "apps/runner/train/validate.h"

#include <algorithm>
#include <map>
#include <memory>

#include <fmt/format.h>

#include "apps/runner/components/components.h"
#include "apps/runner/train/evaluate.h"
#include "apps/runner/train/state.h"
#include "autograd/node.h"
#include "framework/cuda/cuda.h"
#include "framework/factories.h"
#include "framework/kernels/random/random.h"
#include "framework/memory/cpu_allocator.h"
#include "framework/memory/half_copy.h"
#include "framework/profiler/profiler.h"
#include "modules/models/gpt.h"
#include "modules/models/text_classifiers.h"
#include "modules/summary.h"

namespace taper::v0::runner {
namespace {

int64_t in_use() { return int64_t(cpu::memory_stats().allocated); }

int64_t bytes_of(const std::vector<NamedTensor>& tensors, const std::string& prefix = "") {
  int64_t bytes = 0;
  for (const NamedTensor& t : tensors) {
    if (t.name.starts_with(prefix)) bytes += int64_t(t.tensor.nbytes());
  }
  return bytes;
}

// So many tokens of a text, or samples, in a batch.
struct Amount {
  int64_t rows, tokens;
};

struct Probe {
  const Precision precision;
  const Component& config;  // of the model
  const DataInfo& info;
  Module& model;
  const Loss loss_of;

  // Bytes after each op of a batch, above those before it.
  std::vector<int64_t> run(Amount n, bool trains) {
    model.train(trains);
    DataInfo part = info;
    if (n.tokens > 0) part.input_shape = {n.tokens};
    const Tensor x = sample_batch(part, n.rows, DeviceType::cpu);
    const bool classes = info.task != Task::kRegression;
    const Shape shape = n.tokens > 0 ? Shape{n.rows, n.tokens} : Shape{n.rows};
    const Tensor y = zeros(shape, {.dtype = classes ? kInt64 : kFloat32});
    const int64_t before = in_use() - int64_t(x.nbytes() + y.nbytes());
    const GradMode mode(trains);
    Profiler profiler;
    Tensor loss;
    {
      const Autocast half = autocast_of(precision, DeviceType::cpu);
      loss = loss_of(run_model(model, config, info, x), y, Reduction::mean);
    }
    if (trains) loss.backward();
    std::vector<int64_t> bytes = profiler.allocated_bytes();
    for (int64_t& b : bytes) b -= before;
    model.zero_grad();
    return bytes;
  }

  // The most for `rows` samples, along the line through two small amounts.
  int64_t most(int64_t rows, bool trains, bool on_gpu) {
    constexpr int64_t kTokens = 8, kCheap = 200'000'000;
    Amount few{2, 0}, more{4, 0};
    int64_t tokens = 1, shown = 1;  // of a sample, and of one that is run
    if (info.vocab_size() > 0) {
      const int64_t block = info.input_shape[0];
      // On the GPU no square of the block is kept, and short texts have little of it.
      const bool whole = !on_gpu && block * model.num_parameters() < kCheap;
      tokens = block;
      shown = whole ? block : std::min(kTokens, block);
      few.tokens = more.tokens = shown;
    }
    const double times = double(rows * tokens) / double(2 * shown) - 1;
    const uint64_t copies = half_copy_changes();
    std::vector<int64_t> a = run(few, trains);
    // Half copies of the weights are made in a first step, and not in another.
    if (half_copy_changes() != copies) a = run(few, trains);
    std::vector<int64_t> b = run(more, trains);
    if (a.size() != b.size()) {  // another way for another size
      a = {std::ranges::max(a)};
      b = {std::ranges::max(b)};
    }
    double most = 0;
    for (size_t i = 0; i < a.size(); ++i) {
      most = std::max(most, double(a[i]) + double(b[i] - a[i]) * times);
    }
    return int64_t(most);
  }
};

// What the optimizer keeps, by one parameter of each rank: a group's are all treated alike.
int64_t state_bytes(const OptimizerConfig& config, Module& model) {
  constexpr int64_t kLeast = 16;  // so that a count of steps does not matter
  const auto optimizer = build_optimizer(config, model);
  std::map<int, std::vector<Tensor>> by_rank;
  for (const Tensor& p : model.parameters()) by_rank[p.dim()].push_back(p);
  int64_t total = 0, before = bytes_of(optimizer->state_dict(), "state.");
  if (before > 0) return before;  // made with the optimizer
  for (const auto& [rank, params] : by_rank) {
    const auto size = [](const Tensor& p) {
      return p.numel() < kLeast ? int64_t(1) << 62 : p.numel();
    };
    const Tensor p = *std::ranges::min_element(params, {}, size);
    p.set_grad(zeros_like(p));
    optimizer->step();
    p.set_grad({});
    const int64_t now = bytes_of(optimizer->state_dict(), "state.");
    const int64_t each = (now - std::exchange(before, now)) / int64_t(p.nbytes());
    for (const Tensor& q : params) total += each * int64_t(q.nbytes());
  }
  return total;
}

// Memory by its parts: a line for each, and all bytes together.
struct Forecast {
  std::string lines{};
  int64_t total = 0;

  void add(const char* name, int64_t bytes, const std::string& note = "") {
    lines += fmt::format("{:<18}{:>12.2f} MiB{}\n", name, double(bytes) / (1 << 20), note);
    total += bytes;
  }
};

// From two small steps of the model, which lies on the CPU and loses its gradients: memory after
// each op grows along a line with the batch. What is not there all the time counts with its most:
// activations with what a backward pass needs beside gradients, or an evaluation, whichever is
// more.
Forecast foretell_memory(const RunConfig& config, const data::Splits& data, Module& model,
                         bool holds_data, bool on_gpu, int64_t ranks) {
  const TrainConfig& c = config.train;
  const int64_t parts = c.shards.value_or(ranks);
  const int64_t gradients = bytes_of(model.named_parameters()), averages = c.ema ? gradients : 0;
  int64_t buckets = parts > 1 ? gradients : 0;
  // A sum of each size waits for its fellow; of more than two ranks all send a part of theirs.
  if (c.shards) {
    for (int64_t leaves = parts / ranks; leaves > 1; leaves /= 2) buckets += gradients;
    if (ranks > 2) buckets += gradients;
  }
  Probe probe{c.precision, config.model, data, model, losses().make(config.loss, {data.task})};
  const int64_t rows = (std::min(c.batch_size, data.train->size()) + parts - 1) / parts;
  const int64_t shown = std::min(c.eval_batch_size, data.test->size());
  int64_t step = probe.most(rows, true, on_gpu);
  if (c.accumulate == 1) step -= gradients;
  // Without a tape no more is needed than with one.
  const int64_t evaluation = shown > rows ? probe.most(shown, false, on_gpu) : 0;
  int64_t state = state_bytes(config.optimizer, model);  // after the probes: it moves weights
  if (config.distributed.shard_optimizer) state /= ranks;
  // Averages change places with weights, and a checkpoint holds copies of both.
  const int64_t saved = 3 * averages;
  Forecast out;
  out.add("parameters", gradients + bytes_of(model.named_buffers()));
  out.add("gradients", gradients);
  out.add("optimizer state", state);
  if (c.ema) out.add("averages", averages);
  if (buckets > 0) out.add("buckets", buckets, "  of gradients that travel");
  out.add("activations", std::max({step, evaluation + averages, saved, int64_t(0)}),
          cat("  of ", c.batch_size / parts, " samples, or ", c.eval_batch_size, " in evaluation"));
  out.add("data", holds_data ? int64_t(data.train->nbytes() + data.test->nbytes()) : 0,
          cat("  of ", data.train->size(), " training and ", data.test->size(), " test samples"));
  return out;
}

}  // namespace

int64_t foretold_memory(const RunConfig& config, const data::Splits& data, bool holds_data,
                        const distributed::Communicator& ranks) {
  const PhiloxKey random = default_generator().state();
  const kernels::SkipDraws uninitialised;
  const std::unique_ptr<Module> model = build_model(config.model, data, DeviceType::cpu);
  const Forecast out =
      foretell_memory(config, data, *model, holds_data, ranks.device().is_cuda(), ranks.size());
  default_generator().set_state(random);
  return out.total;
}

int64_t peak_memory(Device device) {
  return int64_t(device.is_cuda() ? cuda::max_memory_allocated(device.index())
                                  : cpu::memory_stats().peak);
}
void reset_peak_memory(Device device) {
  if (device.is_cuda()) cuda::reset_peak_memory_stats(device.index());
  if (device.is_cpu()) cpu::reset_peak();
}

std::string validate(const RunConfig& config, int64_t ranks) {
  // Samples that are shown; of a text, tokens of each.
  constexpr int64_t kProbeBatch = 2, kProbeTokens = 8;
  const data::Outline data = source_of(config.data)->outline(config.seed);
  const DataLoader loader(data.train, {config.train.batch_size, config.train.shuffle},
                          DeviceType::cpu, config.seed);
  const kernels::SkipDraws uninitialised;
  const std::unique_ptr<Module> model = build_model(config.model, data, DeviceType::cpu);
  const double lr = build_optimizer(config.optimizer, *model)->lr();
  try_model(*model, config.model, data, DeviceType::cpu);
  const Evaluator measurable(config, data, DeviceType::cpu);
  DataInfo probe = data;
  const bool takes_any_length = dynamic_cast<const GPT*>(model.get()) != nullptr ||
                                dynamic_cast<const LSTMClassifier*>(model.get()) != nullptr;
  if (takes_any_length) probe.input_shape = {std::min(kProbeTokens, probe.input_shape[0])};
  const Tensor input = sample_batch(probe, kProbeBatch, DeviceType::cpu);
  std::string out;
  try {
    const Autocast half = autocast_of(config.train.precision, DeviceType::cpu);
    out = summary(*model, input) + "\n";
  } catch (const std::exception& error) {
    refuse_layer(*model, config.model, error);
    throw;
  }
  const TrainConfig& c = config.train;
  // To ask CUDA would take longer than all the rest.
  const bool has_gpu = kHasCuda && fs::exists("/dev/nvidiactl");
  const bool on_gpu = config.device == "auto" ? has_gpu : config.device != "cpu";
  const bool holds_data = !on_gpu || config.data.on_device != data::OnDevice::kNever;
  Forecast memory = foretell_memory(config, data, *model, holds_data, on_gpu, ranks);
  memory.add(
      "together", memory.total,
      cat(on_gpu ? "  on the GPU" : "", ranks > 1 ? cat("  of each of ", ranks, " ranks") : ""));
  out += memory.lines;
  const auto [steps, per_epoch] = length_of(c, loader.steps_per_epoch());
  (void)build_schedule(config.schedule, lr, steps, per_epoch);  // says what is odd about it
  const std::string unread = data.unread.empty() ? "" : cat("not checked: ", data.unread, "\n");
  const std::string note = data.note.empty() ? "" : cat("data: ", data.note, "\n");
  return out + cat("steps: ", steps, ", ", per_epoch, " an epoch\n", note, unread);
}

}  // namespace taper::v0::runner
