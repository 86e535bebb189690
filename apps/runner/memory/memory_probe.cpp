#include "apps/runner/memory/memory_probe.h"

#include <algorithm>
#include <numeric>

#include "apps/runner/run/batches.h"
#include "apps/runner/run/evaluate.h"
#include "apps/runner/settings/autocast.h"
#include "apps/runner/settings/placement.h"
#include "apps/runner/settings/training_model.h"
#include "autograd/node.h"
#include "framework/factory/factories.h"
#include "framework/factory/low_precision_cache.h"
#include "framework/memory/cpu_allocator.h"
#include "framework/profiler/profiler.h"

namespace taper::v0::runner {
namespace {

// Returns the number of the device whose place a CPU device takes in the estimate.
size_t number_of(Device device) { return device.has_index() ? size_t(device.index()) : 0; }

DeviceBytes bytes_in_use(size_t devices) {
  DeviceBytes out = nothing_on(devices);
  for (size_t i = 0; i < devices; ++i) out.each[i] = int64_t(cpu::allocated_on(int(i)));
  return out;
}

// Returns the peak of a batch from the memory after each op of two smaller batches.
int64_t peak_of(std::vector<int64_t> a, std::vector<int64_t> b, double times) {
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

}  // namespace

static DeviceBytes combined(DeviceBytes a, const DeviceBytes& b, int64_t sign) {
  for (size_t i = 0; i < a.each.size(); ++i) a.each[i] += sign * b.each[i];
  return a;
}

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

DeviceBytes nothing_on(size_t devices) { return {std::vector<int64_t>(devices)}; }

DeviceBytes largest(DeviceBytes a, const DeviceBytes& b) {
  for (size_t i = 0; i < a.each.size(); ++i) a.each[i] = std::max(a.each[i], b.each[i]);
  return a;
}

DeviceBytes tensor_bytes(size_t devices, const std::vector<NamedTensor>& tensors,
                         const std::string& prefix) {
  DeviceBytes out = nothing_on(devices);
  for (const NamedTensor& t : tensors) {
    if (!t.name.starts_with(prefix)) continue;
    out.each[number_of(t.tensor.device())] += int64_t(t.tensor.nbytes());
  }
  return out;
}

MemoryProbe::MemoryProbe(const RunConfig& config, const DataInfo& info, Module& model,
                         size_t devices)
    : config_(config),
      info_(info),
      model_(model),
      devices_(devices),
      loss_(losses().make(config.loss, loss_site(info))) {}

DeviceBytes MemoryProbe::peak(int64_t samples, bool trains, bool on_gpu) {
  const auto [tokens, probed] = tokens_of_sample(on_gpu);
  const double times = double(samples * tokens) / double(2 * probed) - 1;
  const bool in_blocks = uses_blocks(samples * tokens, trains);
  const auto& [a, b] = measured(info_.vocab_size() > 0 ? probed : 0, trains, in_blocks);
  DeviceBytes out = nothing_on(devices_);
  for (size_t i = 0; i < devices_; ++i) out.each[i] = peak_of(a[i], b[i], times);
  if (in_blocks) {
    const Device last = output_device(model_, config_, info_, DeviceType::kCpu);
    out.each[number_of(last)] += bytes_of_head(trains);
  }
  return out;
}

// Runs the small batches when they are first needed. text: the number of tokens in each sample.
const MemoryProbe::Measured& MemoryProbe::measured(int64_t text, bool trains, bool in_blocks) {
  const auto [found, is_new] = measured_.try_emplace({trains, in_blocks});
  if (!is_new) return found->second;
  const uint64_t copies = low_precision_changes();
  found->second.of_two = run({2, text}, trains, in_blocks);
  // The first step creates low-precision copies of the weights, and later steps reuse them.
  if (low_precision_changes() != copies) {
    found->second.of_two = run({2, text}, trains, in_blocks);
  }
  found->second.of_four = run({4, text}, trains, in_blocks);
  return found->second;
}

// Returns the bytes that a loss in blocks takes: a block of logits and, in training, its gradient
// and that of the head's weight in float32.
int64_t MemoryProbe::bytes_of_head(bool trains) const {
  int64_t weight = 0;
  for (const Tensor& p : model_.parameters()) weight = std::max(weight, p.numel());
  return trains ? 2 * kLossBlockBytes + weight * 4 : kLossBlockBytes;
}

bool MemoryProbe::uses_blocks(int64_t tokens, bool trains) const {
  if (trains) return computes_loss_in_blocks(model_, loss_, tokens);
  return Evaluator(config_, info_, DeviceType::kCpu).can_use_blocks(model_, tokens);
}

// Returns the number of tokens in a whole sample and in the samples that are measured. Returns 1
// and 1 for data other than text.
std::pair<int64_t, int64_t> MemoryProbe::tokens_of_sample(bool on_gpu) const {
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
MemoryProbe::Allocations MemoryProbe::run(BatchSize n, bool trains, bool in_blocks) {
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
  Allocations out(devices_);
  for (const auto& [device, bytes] : profiler.allocations()) {
    const size_t i = number_of(device);
    out[i].push_back(bytes - before.each[i]);
  }
  model_.zero_grad();
  return out;
}

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

}  // namespace taper::v0::runner
