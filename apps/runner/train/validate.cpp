#include "apps/runner/train/validate.h"

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <optional>

#include <fmt/format.h>
#include <unistd.h>

#include "apps/runner/components/components.h"
#include "apps/runner/run/host_state.h"
#include "apps/runner/settings/autocast.h"
#include "apps/runner/train/batches.h"
#include "apps/runner/train/evaluate.h"
#include "apps/runner/train/preflight.h"
#include "apps/runner/train/state.h"
#include "autograd/node.h"
#include "framework/cuda/cuda.h"
#include "framework/factory/factories.h"
#include "framework/factory/generator.h"
#include "framework/factory/low_precision_cache.h"
#include "framework/kernels/random/random.h"
#include "framework/memory/cpu_allocator.h"
#include "framework/memory/cuda_memory.h"
#include "framework/profiler/profiler.h"
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
  const RunConfig& config;
  const DataInfo& info;
  Module& model;
  const Loss loss_of = losses().make(config.loss, {info.task});

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
    Evaluator evaluator(config, info, DeviceType::cpu);
    Tensor loss;
    {
      const Autocast half = autocast_of(config.train.precision, DeviceType::cpu);
      const Tensor outputs = run_model(model, config.model, info, x);
      if (trains) loss = run_loss(loss_of, config.loss, outputs, y, Reduction::mean);
      if (!trains) evaluator.add(outputs, y);
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
      const bool whole =
          !takes_any_length(model) || (!on_gpu && block * model.num_parameters() < kCheap);
      tokens = block;
      shown = whole ? block : std::min(kTokens, block);
      few.tokens = more.tokens = shown;
    }
    const double times = double(rows * tokens) / double(2 * shown) - 1;
    const uint64_t copies = low_precision_changes();
    std::vector<int64_t> a = run(few, trains);
    // The first step makes low-precision copies of the weights; later steps reuse them.
    if (low_precision_changes() != copies) a = run(few, trains);
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
  const auto optimizer = build_optimizer(config, {model, config.no_decay});
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

// What an estimate is made for.
struct Site {
  bool holds_data, on_gpu;
  int64_t ranks;
};

// What is there all the time, but for the data: a line for each part.
Forecast foretell_state(const RunConfig& config, Module& model, int64_t optimizer_state,
                        int64_t ranks) {
  const TrainConfig& c = config.train;
  const int64_t parts = c.shards.value_or(ranks), gradients = bytes_of(model.named_parameters());
  int64_t buckets = parts > 1 ? gradients : 0;
  // A sum of each size waits for its fellow; of more than two ranks all send a part of theirs.
  if (c.shards) {
    for (int64_t leaves = parts / ranks; leaves > 1; leaves /= 2) buckets += gradients;
    if (ranks > 2) buckets += gradients;
  }
  Forecast out;
  out.add("parameters", gradients + bytes_of(model.named_buffers()));
  out.add("gradients", gradients);
  out.add("optimizer state",
          config.distributed.shard_optimizer ? optimizer_state / ranks : optimizer_state);
  if (c.ema) out.add("averages", gradients);
  if (buckets > 0) out.add("buckets", buckets, "  of gradients that travel");
  return out;
}

// From two small steps of the model, which lies on the CPU and loses its gradients: memory after
// each op grows along a line with the batch. What is not there all the time counts with its most:
// activations with what a backward pass needs beside gradients, or an evaluation, whichever is
// more.
Forecast foretell_memory(const RunConfig& config, const data::Splits& data, Module& model,
                         const Site& site) {
  const TrainConfig& c = config.train;
  const RunSizes sizes = run_sizes(config, data, site.ranks);
  const int64_t parts = c.shards.value_or(site.ranks);
  const int64_t gradients = bytes_of(model.named_parameters()), averages = c.ema ? gradients : 0;
  Probe probe{config, data, model};
  const int64_t rows = (std::min(c.batch_size, sizes.train_samples) + parts - 1) / parts;
  const int64_t shown = std::min(sizes.eval_batch_size, sizes.test_samples);
  int64_t step = probe.most(rows, true, site.on_gpu);
  if (c.accumulate == 1) step -= gradients;
  const int64_t evaluation = probe.most(shown, false, site.on_gpu) + averages;
  // After the probes: it moves weights.
  Forecast out = foretell_state(config, model, state_bytes(config.optimizer, model), site.ranks);
  // Averages change places with weights, and a checkpoint holds copies of both.
  const int64_t saved = 3 * averages;
  const auto mib = [](int64_t bytes) {
    return fmt::format("{:.2f} MiB", double(std::max<int64_t>(bytes, 0)) / (1 << 20));
  };
  out.add("activations", std::max({step, evaluation, saved, int64_t(0)}),
          cat("  of ", rows, " samples in training (", mib(step), ") or ", shown,
              " in evaluation (", mib(evaluation), ")"));
  out.add("data", site.holds_data ? int64_t(data.train->nbytes() + data.test->nbytes()) : 0,
          cat("  of ", data.train->size(), " training and ", data.test->size(), " test samples"));
  return out;
}

// The draws that building a model for an estimate makes leave the generator as it was.
struct ApartScope {
  Generator generator{default_generator()};
  DrawScope draws{generator};
};

}  // namespace

int64_t foretold_memory(const RunConfig& config, const data::Splits& data, bool holds_data,
                        const distributed::Communicator& ranks) {
  const ApartScope apart;
  const kernels::SkipDraws uninitialised;
  const std::unique_ptr<Module> model = build_model(config.model, data, DeviceType::cpu);
  return foretell_memory(config, data, *model, {holds_data, ranks.device().is_cuda(), ranks.size()})
      .total;
}

static int64_t total_memory(Device device) {
  if (device.is_cuda()) return int64_t(cuda::get_device_properties(device.index()).total_memory);
  return int64_t(sysconf(_SC_PHYS_PAGES)) * int64_t(sysconf(_SC_PAGESIZE));
}

int64_t fitting_eval_batch_size(const RunConfig& config, const DataInfo& info, Module& model,
                                bool on_gpu, const std::function<int64_t()>& total) {
  constexpr int64_t kMost = 1024, kAlwaysThere = int64_t(1) << 30;
  Probe probe{config, info, model};
  const int64_t one = probe.most(1, false, on_gpu), two = probe.most(2, false, on_gpu);
  const int64_t fixed =
      foretell_state(config, model, state_bytes(config.optimizer, model), 1).total;
  const auto needed = [&](int64_t rows) { return fixed + one + (rows - 1) * (two - one); };
  if (needed(kMost) <= kAlwaysThere) return kMost;
  const int64_t room = total() / 2;
  int64_t rows = kMost;
  while (rows > 1 && needed(rows) > room) rows /= 2;
  return rows;
}

int64_t choose_eval_batch_size(const RunConfig& config, const DataInfo& info,
                               const distributed::Communicator& ranks) {
  const int64_t usual = eval_batch_size_of(config, info, ranks.size());
  if (config.train.eval_batch_size || info.vocab_size() > 0) return usual;
  const ApartScope apart;
  try {
    const kernels::SkipDraws uninitialised;
    const std::unique_ptr<Module> model = build_model(config.model, info, DeviceType::cpu);
    return fitting_eval_batch_size(config, info, *model, ranks.device().is_cuda(),
                                   [&] { return total_memory(ranks.device()); });
  } catch (
      const std::exception&) {  // a model for GPUs alone, or a wrong one, which the run refuses
    return std::min(usual, config.train.batch_size);
  }
}

int64_t peak_memory(Device device) {
  return int64_t(device.is_cuda() ? cuda::max_memory_allocated(device.index())
                                  : cpu::memory_stats().peak);
}
void reset_peak_memory(Device device) {
  if (device.is_cuda()) cuda::reset_peak_memory_stats(device.index());
  if (device.is_cpu()) cpu::reset_peak();
}

// Shapes, parameters and multiply-adds, module by module.
static std::string summary_of(Module& model, const RunConfig& config, const DataInfo& data) {
  // Samples that are shown; of a text, tokens of each.
  constexpr int64_t kProbeBatch = 2, kProbeTokens = 8;
  DataInfo probe = data;
  if (takes_any_length(model)) {
    probe.input_shape = {std::min(kProbeTokens, probe.input_shape[0])};
  }
  const Tensor input = sample_batch(probe, kProbeBatch, DeviceType::cpu);
  try {
    const Autocast half = autocast_of(config.train.precision, DeviceType::cpu);
    return summary(model, input) + "\n";
  } catch (const std::exception& error) {
    refuse_layer(model, config.model, error);
    throw;
  }
}

// Memory by its parts on the config's device, with the batch size of evaluations that a run there
// would choose.
static std::string memory_of(RunConfig config, const data::Splits& data, Module& model,
                             int64_t ranks) {
  // To ask CUDA would take longer than all the rest.
  const bool has_gpu = kHasCuda && fs::exists("/dev/nvidiactl");
  const bool on_gpu = config.device == "auto" ? has_gpu : config.device != "cpu";
  if (!config.train.eval_batch_size && data.vocab_size() == 0) {
    const auto total = [&] {
      if (on_gpu && !has_gpu) return INT64_MAX;
      return total_memory(on_gpu ? Device(DeviceType::cuda) : Device());
    };
    config.train.eval_batch_size = fitting_eval_batch_size(config, data, model, on_gpu, total);
  }
  const bool holds_data = !on_gpu || config.data.on_device != data::OnDevice::kNever;
  Forecast memory = foretell_memory(config, data, model, {holds_data, on_gpu, ranks});
  memory.add(
      "together", memory.total,
      cat(on_gpu ? "  on the GPU" : "", ranks > 1 ? cat("  of each of ", ranks, " ranks") : ""));
  return memory.lines;
}

std::string validate(const RunConfig& config, int64_t ranks) {
  const HostStateGuard host;
  const data::Outline data = source_of(config.data)->outline(config.seed);
  const DataLoader loader(data.train,
                          {.batch_size = config.train.batch_size,
                           .shuffle = config.train.shuffle,
                           .drop_last = config.train.drop_last},
                          DeviceType::cpu, config.seed);
  // A loss that looks at values gets the weights that the run begins with.
  Generator generator(config.seed);
  const DrawScope draws(generator);
  std::optional<kernels::SkipDraws> uninitialised;
  if (!losses().make(config.loss, {data.task}).takes_probabilities) uninitialised.emplace();
  const std::unique_ptr<Module> model = build_model(config.model, data, DeviceType::cpu);
  const double lr = build_optimizer(config.optimizer, {*model, config.optimizer.no_decay})->lr();
  try_model(*model, config.model, data, DeviceType::cpu);
  const Evaluator measurable(config, data, DeviceType::cpu);
  check_batches(*model, config, data, run_sizes(config, data, ranks), DeviceType::cpu);
  const std::string parts =
      summary_of(*model, config, data) + memory_of(config, data, *model, ranks);
  const auto [steps, per_epoch] = length_of(config.train, loader.steps_per_epoch());
  (void)build_schedule(config.schedule, config.schedule.warmup,
                       {lr, steps, per_epoch});  // says what is odd about it
  const std::string unread = data.unread.empty() ? "" : cat("not checked: ", data.unread, "\n");
  const std::string note = data.note.empty() ? "" : cat("data: ", data.note, "\n");
  return parts + cat("steps: ", steps, ", ", per_epoch, " an epoch\n", note, unread);
}

}  // namespace taper::v0::runner
