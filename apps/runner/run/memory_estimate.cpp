#include "apps/runner/run/memory_estimate.h"

#include <algorithm>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <numeric>
#include <optional>
#include <utility>

#include <fmt/format.h>
#include <unistd.h>

#include "apps/runner/components/components.h"
#include "apps/runner/run/batches.h"
#include "apps/runner/run/evaluate.h"
#include "apps/runner/settings/autocast.h"
#include "apps/runner/settings/placement.h"
#include "apps/runner/settings/training_model.h"
#include "autograd/node.h"
#include "framework/cuda/cuda.h"
#include "framework/factory/factories.h"
#include "framework/factory/generator.h"
#include "framework/factory/low_precision_cache.h"
#include "framework/kernels/random/random.h"
#include "framework/memory/cpu_allocator.h"
#include "framework/memory/cuda_memory.h"
#include "framework/profiler/profiler.h"

namespace taper::v0::runner {
namespace {

// Estimates use CPU devices in place of the devices of the run: "cpu" for the first one, "cpu:1"
// for the second, and so on. Returns the number of such a device.
size_t number_of(Device device) { return device.has_index() ? size_t(device.index()) : 0; }

DeviceBytes nothing_on(size_t devices) { return {std::vector<int64_t>(devices)}; }

DeviceBytes bytes_in_use(size_t devices) {
  DeviceBytes out = nothing_on(devices);
  for (size_t i = 0; i < devices; ++i) out.each[i] = int64_t(cpu::allocated_on(int(i)));
  return out;
}

DeviceBytes tensor_bytes(size_t devices, const std::vector<NamedTensor>& tensors,
                         const std::string& prefix = "") {
  DeviceBytes out = nothing_on(devices);
  for (const NamedTensor& t : tensors) {
    if (!t.name.starts_with(prefix)) continue;
    out.each[number_of(t.tensor.device())] += int64_t(t.tensor.nbytes());
  }
  return out;
}

DeviceBytes largest(DeviceBytes a, const DeviceBytes& b) {
  for (size_t i = 0; i < a.each.size(); ++i) a.each[i] = std::max(a.each[i], b.each[i]);
  return a;
}

std::string mib(int64_t bytes) {
  return fmt::format("{:.2f} MiB", double(std::max<int64_t>(bytes, 0)) / (1 << 20));
}

// The size of a batch: the number of samples, and for text the number of tokens in each sample
// (otherwise 0).
struct BatchSize {
  int64_t samples, tokens;
};

// Measures the memory of small batches on the CPU. The memory after each op grows linearly with the
// batch, so that two small batches are enough to compute the memory of a large one.
class Probe {
 public:
  // devices: the number of devices of the model.
  Probe(const RunConfig& config, const DataInfo& info, Module& model, size_t devices)
      : config_(config),
        info_(info),
        model_(model),
        devices_(devices),
        loss_(losses().make(config.loss, loss_site(info))) {}

  // Returns the peak memory in bytes of a batch of `samples` samples, in training (a forward and a
  // backward pass) or in an evaluation.
  DeviceBytes peak(int64_t samples, bool trains, bool on_gpu) {
    const auto [tokens, probed] = tokens_of_sample(on_gpu);
    const int64_t text = info_.vocab_size() > 0 ? probed : 0;
    const double times = double(samples * tokens) / double(2 * probed) - 1;
    const uint64_t copies = low_precision_changes();
    const bool in_blocks = uses_blocks(samples * tokens, trains);
    std::vector<std::vector<int64_t>> a = run({2, text}, trains, in_blocks);
    // The first step creates low-precision copies of the weights, and later steps reuse them.
    if (low_precision_changes() != copies) a = run({2, text}, trains, in_blocks);
    const std::vector<std::vector<int64_t>> b = run({4, text}, trains, in_blocks);
    DeviceBytes out = nothing_on(devices_);
    for (size_t i = 0; i < devices_; ++i) out.each[i] = peak_of(a[i], b[i], times);
    if (in_blocks) {
      const Device last = output_device(model_, config_, info_, DeviceType::kCpu);
      out.each[number_of(last)] += bytes_of_head(trains);
    }
    return out;
  }

 private:
  // Returns the bytes that a loss in blocks takes: a block of logits and, in training, its gradient
  // and that of the head's weight in float32.
  int64_t bytes_of_head(bool trains) const {
    int64_t weight = 0;
    for (const Tensor& p : model_.parameters()) weight = std::max(weight, p.numel());
    return trains ? 2 * kLossBlockBytes + weight * 4 : kLossBlockBytes;
  }
  bool uses_blocks(int64_t tokens, bool trains) const {
    if (trains) return computes_loss_in_blocks(model_, loss_, tokens);
    return Evaluator(config_, info_, DeviceType::kCpu).can_use_blocks(model_, tokens);
  }

  // Returns the peak of a batch from the memory after each op of two smaller batches.
  static int64_t peak_of(std::vector<int64_t> a, std::vector<int64_t> b, double times) {
    if (a.empty() || b.empty()) return 0;
    if (a.size() != b.size()) {  // the model calls other ops for this batch size
      a = {std::ranges::max(a)};
      b = {std::ranges::max(b)};
    }
    double most = 0;
    for (size_t i = 0; i < a.size(); ++i) {
      most = std::max(most, double(a[i]) + double(b[i] - a[i]) * times);
    }
    return int64_t(most);
  }

  // Returns the number of tokens in a whole sample and in the samples that are measured. Returns 1
  // and 1 for data other than text.
  std::pair<int64_t, int64_t> tokens_of_sample(bool on_gpu) const {
    constexpr int64_t kTokens = 8, kCheap = 200'000'000;
    if (info_.vocab_size() == 0) return {1, 1};
    const int64_t block = info_.input_shape[0];
    // Attention on a GPU stores no matrix of length x length, so memory grows linearly with the
    // length. On the CPU it grows quadratically, and short samples would not show that.
    const bool is_whole =
        !takes_any_length(model_) || (!on_gpu && block * model_.num_parameters() < kCheap);
    return {block, is_whole ? block : std::min(kTokens, block)};
  }

  // Runs a batch and returns, for each device, the bytes that are allocated after each of its ops,
  // less those allocated before the batch.
  std::vector<std::vector<int64_t>> run(BatchSize n, bool trains, bool in_blocks) {
    model_.train(trains);
    DataInfo part = info_;
    if (n.tokens > 0) part.input_shape = {n.tokens};
    const Tensor x = sample_batch(part, n.samples, DeviceType::kCpu);
    const bool has_classes = info_.task != Task::kRegression && info_.labels.empty();
    const Shape shape = info_.task == Task::kLanguage       ? Shape{n.samples, n.tokens}
                        : !has_classes && info_.outputs > 1 ? Shape{n.samples, info_.outputs}
                                                            : Shape{n.samples};
    const Tensor y = zeros(shape, {.dtype = has_classes ? kInt64 : kFloat32});
    const Tensor weights = info_.has_weights ? ones({n.samples}) : Tensor();
    const size_t of_weights = weights.defined() ? weights.nbytes() : 0;
    DeviceBytes before = bytes_in_use(devices_);
    before.each[0] -= int64_t(x.nbytes() + y.nbytes() + of_weights);
    const AutoGradMode mode(trains);
    Evaluator evaluator(config_, info_, output_device(model_, config_, info_, DeviceType::kCpu));
    Profiler profiler;
    Tensor loss;
    {
      const AutocastGuard half = autocast_of(config_.train.precision, DeviceType::kCpu);
      if (in_blocks) {
        loss = run_before_head(model_, config_.model, x).cpu();
      } else {
        const Tensor outputs = run_model(model_, config_.model, info_, x);
        if (trains) loss = run_mean_loss(loss_, config_.loss, outputs, y, weights).cpu();
        if (!trains) evaluator.add(outputs, y, weights);
      }
    }
    if (trains) loss.backward();
    std::vector<std::vector<int64_t>> out(devices_);
    for (const auto& [device, bytes] : profiler.allocations()) {
      const size_t i = number_of(device);
      out[i].push_back(bytes - before.each[i]);
    }
    model_.zero_grad();
    return out;
  }

  const RunConfig& config_;
  const DataInfo& info_;
  Module& model_;
  const size_t devices_;
  const Loss loss_;
};

// Returns the bytes of the optimizer's state after a step. Takes a step with one parameter for each
// number of dimensions that occurs, because an optimizer treats parameters with the same number of
// dimensions in the same way.
DeviceBytes state_bytes(const OptimizerConfig& config, Module& model, size_t devices) {
  constexpr int64_t kLeast = 16;  // elements, so that the step counter does not matter
  const auto optimizer = build_optimizer(config, optimizer_site(config, model));
  std::map<int, std::vector<Tensor>> by_dim;
  for (const auto& [name, p] : trainable_parameters(model)) by_dim[p.dim()].push_back(p);
  const auto now = [&] { return tensor_bytes(devices, optimizer->state_dict(), "state."); };
  DeviceBytes out = now();
  int64_t before = out.total();
  if (before > 0) return out;  // the constructor of the optimizer has allocated its state
  for (const auto& [dim, params] : by_dim) {
    const auto size = [](const Tensor& p) {
      return p.numel() < kLeast ? int64_t(1) << 62 : p.numel();
    };
    const Tensor p = *std::ranges::min_element(params, {}, size);
    p.set_grad(zeros_like(p));
    optimizer->step();
    p.set_grad({});
    const int64_t all = now().total();
    const int64_t each = (all - std::exchange(before, all)) / int64_t(p.nbytes());
    for (const Tensor& q : params) {
      out.each[number_of(q.device())] += each * int64_t(q.nbytes());
    }
  }
  return out;
}

// The inputs of an estimate.
struct EstimateSite {
  bool holds_data, on_gpu;
  int64_t ranks;
  std::vector<Device> devices;
};

// Estimates the memory that is allocated during the whole run, except for the data.
MemoryEstimate estimate_state(const RunConfig& config, Module& model,
                              const DeviceBytes& optimizer_state, int64_t ranks,
                              const std::vector<Device>& devices) {
  const TrainConfig& c = config.train;
  const size_t n = devices.size();
  const int64_t parts = c.shards.value_or(ranks);
  const DeviceBytes parameters = tensor_bytes(n, model.named_parameters()),
                    gradients = tensor_bytes(n, trainable_parameters(model));
  int64_t buckets = parts > 1 ? 1 : 0;  // in units of all gradients
  // Each level of the tree of shards keeps one sum until its neighbor's sum is computed. With more
  // than two ranks, all_gather needs a buffer, too.
  if (c.shards) {
    for (int64_t leaves = parts / ranks; leaves > 1; leaves /= 2) ++buckets;
    if (ranks > 2) ++buckets;
  }
  MemoryEstimate out{devices};
  out.add("parameters", parameters + tensor_bytes(n, model.named_buffers()));
  out.add("gradients", gradients);
  out.add("optimizer state",
          config.distributed.shard_optimizer ? optimizer_state / ranks : optimizer_state);
  if (c.ema) out.add("averages", parameters);
  if (buckets > 0)
    out.add("buckets", gradients * buckets, "  for reducing gradients over ranks or shards");
  return out;
}

// Estimates all parts. The model must be on CPU devices; its gradients are freed. Only the largest
// use of temporary memory is counted: the activations and temporary memory of a backward pass, or
// an evaluation, or a checkpoint.
MemoryEstimate estimate_parts(const RunConfig& config, const data::Splits& data, Module& model,
                              const EstimateSite& site) {
  const TrainConfig& c = config.train;
  const RunSizes sizes = run_sizes(config, data, site.ranks);
  const int64_t parts = c.shards.value_or(site.ranks);
  const size_t devices = site.devices.size();
  const DeviceBytes gradients = tensor_bytes(devices, trainable_parameters(model)),
                    averages = tensor_bytes(devices, model.named_parameters()) * (c.ema ? 1 : 0);
  Probe probe(config, data, model, devices);
  const int64_t trained = (std::min(c.batch_size, sizes.train_samples) + parts - 1) / parts;
  const int64_t evaluated =
      std::min(sizes.eval_batch_size, std::max(sizes.eval_samples, sizes.test_samples));
  DeviceBytes step = probe.peak(trained, true, site.on_gpu);
  if (c.accumulate == 1) step = step - gradients;
  const DeviceBytes evaluation = probe.peak(evaluated, false, site.on_gpu) + averages;
  // state_bytes() changes the weights, so it is called after the probes.
  MemoryEstimate out = estimate_state(config, model, state_bytes(config.optimizer, model, devices),
                                      site.ranks, site.devices);
  // While a checkpoint is written, averages and weights are swapped, and copies of both are held.
  const DeviceBytes saved = averages * 3;
  out.add("activations", largest(largest(step, evaluation), largest(saved, nothing_on(devices))),
          concat_to_string("  of ", trained, " samples in training (", mib(step.total()), ") or ",
                           evaluated, " in evaluation (", mib(evaluation.total()), ")"));
  const size_t validation = data.validation ? data.validation->nbytes() : 0;
  DeviceBytes samples = nothing_on(devices);
  if (site.holds_data) {
    samples.each[0] = int64_t(data.train->nbytes() + validation + data.test->nbytes());
  }
  out.add("data", samples, concat_to_string("  of ", sizes_text(data)));
  return out;
}

// Skips the initialization of weights and restores the default generator at the end of the scope,
// so that a model can be built for an estimate.
struct EstimateGuard {
  Generator generator{default_generator()};
  DrawGuard draws{generator};
  kernels::SkipDrawsGuard skip_initialization{};
};

// Returns the size of a device's memory.
int64_t total_memory(Device device) {
  if (device.is_cuda()) return int64_t(cuda::get_device_properties(device.index()).total_memory);
  return int64_t(sysconf(_SC_PHYS_PAGES)) * int64_t(sysconf(_SC_PAGESIZE));
}

// Returns the device of that name with its number: "cuda" is the first GPU.
Device numbered(const std::string& name) {
  const Device device(name);
  if (device.is_cuda()) return Device(DeviceType::kCuda, std::max(device.index(), 0));
  return device.index() > 0 ? device : Device();
}

// Returns the devices of a run, its own first.
std::vector<Device> devices_of_run(const RunConfig& config, Device own) {
  std::vector<Device> out{own};
  for (const auto& [pattern, name] : config.model.placement) {
    if (std::ranges::count(out, numbered(name)) == 0) out.push_back(numbered(name));
  }
  return out;
}

// Moves a model to the CPU devices that are used in place of a run's devices, and back to the CPU
// at the end of the scope.
class StandInGuard {
 public:
  StandInGuard(const RunConfig& config, const std::vector<Device>& devices, Module& model)
      : model_(model) {
    std::vector<PlacementRule> rules;
    for (const auto& [pattern, name] : config.model.placement) {
      const auto at = std::ranges::find(devices, numbered(name)) - devices.begin();
      rules.push_back({pattern, Device(DeviceType::kCpu, at)});
    }
    if (!rules.empty()) model.place(rules, DeviceType::kCpu);
  }
  ~StandInGuard() {
    if (model_.is_placed()) model_.to(DeviceType::kCpu);
  }
  StandInGuard& operator=(StandInGuard&&) = delete;  // neither copied nor moved

 private:
  Module& model_;
};

// Estimates all parts for a model on the CPU.
MemoryEstimate estimate(const RunConfig& config, const data::Splits& data, Module& model,
                        const EstimateSite& site) {
  const StandInGuard guard(config, site.devices, model);
  return estimate_parts(config, data, model, site);
}

bool has_gpu(const std::vector<Device>& devices) {
  return std::ranges::any_of(devices, [](Device device) { return device.is_cuda(); });
}

// Returns the size of the memory of all devices of a run.
int64_t memory_of_run(const RunConfig& config, Device own) {
  int64_t total = 0;
  for (const Device device : distinct_memories(devices_of_run(config, own))) {
    total += total_memory(device);
  }
  return total;
}

DeviceBytes combined(DeviceBytes a, const DeviceBytes& b, int64_t sign) {
  for (size_t i = 0; i < a.each.size(); ++i) a.each[i] += sign * b.each[i];
  return a;
}

}  // namespace

int64_t DeviceBytes::total() const { return std::accumulate(each.begin(), each.end(), int64_t(0)); }
DeviceBytes DeviceBytes::operator+(const DeviceBytes& other) const {
  return combined(*this, other, 1);
}
DeviceBytes DeviceBytes::operator-(const DeviceBytes& other) const {
  return combined(*this, other, -1);
}
DeviceBytes DeviceBytes::operator*(int64_t factor) const {
  DeviceBytes out = *this;
  for (int64_t& bytes : out.each) bytes *= factor;
  return out;
}
DeviceBytes DeviceBytes::operator/(int64_t divisor) const {
  DeviceBytes out = *this;
  for (int64_t& bytes : out.each) bytes /= divisor;
  return out;
}

void MemoryEstimate::add(const char* name, const DeviceBytes& bytes, const std::string& note) {
  lines += fmt::format("{:<18}{:>12.2f} MiB{}", name, double(bytes.total()) / (1 << 20), note);
  for (size_t i = 0; devices.size() > 1 && i < devices.size(); ++i) {
    lines += concat_to_string(i == 0 ? "  on " : ", ", devices[i], " ", mib(bytes.each[i]));
  }
  lines += "\n";
  sum = sum + bytes;
}

int64_t estimate_memory(const RunConfig& config, const data::Splits& data, bool holds_data,
                        const distributed::Communicator& ranks) {
  const EstimateGuard guard;
  const std::unique_ptr<Module> model = build_training_model(config, data, DeviceType::kCpu);
  const std::vector<Device> devices = devices_of_run(config, ranks.device());
  return estimate(config, data, *model, {holds_data, has_gpu(devices), ranks.size(), devices})
      .sum.total();
}

int64_t fitting_eval_batch_size(const RunConfig& config, const DataInfo& info, Module& model,
                                bool on_gpu, const std::function<int64_t()>& total) {
  constexpr int64_t kMost = 1024, kAlwaysFree = int64_t(1) << 30;
  Probe probe(config, info, model, 1);
  const int64_t one = probe.peak(1, false, on_gpu).total();
  const int64_t two = probe.peak(2, false, on_gpu).total();
  const int64_t fixed =
      estimate_state(config, model, state_bytes(config.optimizer, model, 1), 1, {Device()})
          .sum.total();
  const auto needed = [&](int64_t samples) { return fixed + one + (samples - 1) * (two - one); };
  if (needed(kMost) <= kAlwaysFree) return kMost;
  const int64_t room = total() / 2;
  int64_t samples = kMost;
  while (samples > 1 && needed(samples) > room) samples /= 2;
  return samples;
}

int64_t choose_eval_batch_size(const RunConfig& config, const DataInfo& info,
                               const distributed::Communicator& ranks) {
  const int64_t usual = eval_batch_size_of(config, info, ranks.size());
  if (config.train.eval_batch_size || info.vocab_size() > 0) return usual;
  const EstimateGuard guard;
  try {
    const std::unique_ptr<Module> model = build_training_model(config, info, DeviceType::kCpu);
    return fitting_eval_batch_size(config, info, *model, ranks.device().is_cuda(),
                                   [&] { return memory_of_run(config, ranks.device()); });
  } catch (const std::exception&) {
    // The model runs on GPUs only, or the config is wrong. In that case the run itself reports the
    // error.
    return std::min(usual, config.train.batch_size);
  }
}

std::string describe_memory(RunConfig config, const data::Splits& data, Module& model,
                            int64_t ranks) {
  // Initializing CUDA would take longer than everything else in this function.
  const bool gpu_exists = kHasCuda && std::filesystem::exists("/dev/nvidiactl");
  const std::string by_default = gpu_exists ? "cuda" : "cpu";
  const Device own = numbered(config.device == "auto" ? by_default : config.device);
  const std::vector<Device> devices = devices_of_run(config, own);
  const bool on_gpu = has_gpu(devices);
  if (!config.train.eval_batch_size && data.vocab_size() == 0) {
    const auto total = [&] {
      if (on_gpu && !gpu_exists) return INT64_MAX;
      return memory_of_run(config, own);
    };
    config.train.eval_batch_size = fitting_eval_batch_size(config, data, model, on_gpu, total);
  }
  const bool holds_data = own.is_cpu() || config.data.on_device != data::OnDevice::kNever;
  MemoryEstimate memory = estimate(config, data, model, {holds_data, on_gpu, ranks, devices});
  memory.add("total", memory.sum,
             concat_to_string(on_gpu && devices.size() == 1 ? "  on the GPU" : "",
                              ranks > 1 ? concat_to_string("  of each of ", ranks, " ranks") : ""));
  return memory.lines;
}

std::vector<Device> distinct_memories(const std::vector<Device>& devices) {
  std::vector<Device> out;
  for (const Device device : devices) {
    const bool is_known = device.is_cpu() && std::ranges::any_of(out, &Device::is_cpu);
    if (!is_known) out.push_back(device);
  }
  return out;
}

int64_t peak_memory(Device device) {
  return int64_t(device.is_cuda() ? cuda::max_memory_allocated(device.index())
                                  : cpu::memory_stats().peak);
}
void reset_peak_memory(Device device) {
  if (device.is_cuda()) cuda::reset_peak_memory_stats(device.index());
  if (device.is_cpu()) cpu::reset_peak();
}

}  // namespace taper::v0::runner
