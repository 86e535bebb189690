#include "apps/runner/passes/preflight.h"

#include <algorithm>
#include <optional>

#include "apps/runner/base/errors.h"
#include "apps/runner/components/components.h"
#include "apps/runner/passes/micro_batches.h"
#include "apps/runner/run/evaluate.h"
#include "apps/runner/settings/autocast.h"
#include "autograd/node.h"
#include "autograd/ops/binary_ops.h"
#include "framework/factory/factories.h"
#include "framework/factory/generator.h"
#include "framework/kernels/matmul/matmul.h"

namespace taper::v0::runner {
namespace {

// The number of multiply-adds that a trial call may cost: about a tenth of a second.
constexpr int64_t kCheap = 2'000'000'000;

// Returns int64 values that alternate between 0 and `most`.
Tensor extremes(const Shape& shape, int64_t most, Device device) {
  const Tensor numbers = arange(shape.numel(), {.dtype = kInt64, .device = device});
  return (remainder(numbers, 2) * most).reshape(shape);
}

class Preflight {
 public:
  Preflight(Module& model, const RunConfig& config, const DataInfo& data, Device device)
      : model_(model),
        config_(config),
        data_(data),
        device_(device),
        loss_(losses().make(config.loss, loss_site(data))) {
    for (const NamedTensor& b : model.named_buffers()) {
      buffers_.push_back({b.name, b.tensor.clone()});
    }
  }
  ~Preflight() {
    const NoGradGuard no_grad;
    for (size_t i = 0; const NamedTensor& b : model_.named_buffers()) {
      b.tensor.copy_(buffers_[i++].tensor);
    }
    model_.train();
  }
  Preflight& operator=(Preflight&&) = delete;

  // Runs model and loss on two samples, and measures the cost of a sample.
  void try_smallest() {
    const int64_t before = kernels::multiply_adds;
    const Batch batch = batch_of(2);
    const Tensor outputs = [&] {
      const AutocastGuard half = autocast_of(config_, device_.type());
      return run_model(model_.train(), config_.model, data_, batch.inputs);
    }();
    take_loss(outputs, batch.targets);
    sample_cost_ = (kernels::multiply_adds - before) / 2;
  }

  // Runs the model in training mode. Lets the model's own error pass through.
  void train_on(int64_t samples) {
    const Batch batch = batch_of(affordable(samples));
    const AutocastGuard half = autocast_of(config_, device_.type());
    (void)model_.train()(batch.inputs);
  }

  void evaluate_on(int64_t samples) {
    const NoGradGuard no_grad;
    const Batch batch = batch_of(affordable(samples));
    const AutocastGuard half = autocast_of(config_, device_.type());
    const Tensor outputs = run_model(model_.eval(), config_.model, data_, batch.inputs);
    Evaluator evaluator(config_, data_, outputs.device());
    evaluator.add(outputs, batch.targets);
    (void)evaluator.read();
  }

 private:
  int64_t affordable(int64_t samples) const {
    return std::min(samples, std::max<int64_t>(2, kCheap / std::max<int64_t>(1, sample_cost_)));
  }

  // Samples of a text are shortened if whole ones are not cheap and the model takes any length.
  Batch batch_of(int64_t samples) const {
    constexpr int64_t kFewTokens = 8;
    Shape shape = data_.input_shape;
    if (takes_any_length(model_) && shape[0] * model_.num_parameters() > kCheap / 4) {
      shape[0] = std::min(shape[0], kFewTokens);
    }
    shape.insert(0, samples);
    const bool is_language = data_.task == Task::kLanguage;
    const bool has_values = data_.task == Task::kRegression || !data_.labels.empty();
    const bool has_several = has_values && data_.outputs > 1;
    const Shape targets = is_language   ? shape
                          : has_several ? Shape{samples, data_.outputs}
                                        : Shape{samples};
    return {data_.vocab_size() > 0 ? extremes(shape, data_.vocab_size() - 1, device_)
                                   : features_of(shape),
            has_values ? zeros(targets, {.device = device_})
                       : extremes(targets, data_.outputs - 1, device_)};
  }

  // Returns random numbers, and the first and last index of each category.
  Tensor features_of(const Shape& shape) const {
    const NoGradGuard no_grad;
    Generator numbers(1);
    const Tensor out = randn(shape, {.device = DeviceType::kCpu}, &numbers).to(device_);
    int64_t column = shape[1] - std::ssize(data_.category_sizes);
    for (const int64_t size : data_.category_sizes) {
      const Tensor indices = extremes({shape[0], 1}, size - 1, device_);
      out.narrow(1, column++, 1).copy_(indices.to(out.dtype()));
    }
    return out;
  }

  // Runs the loss on the CPU, where it checks the values; a GPU would report an error late.
  void take_loss(const Tensor& outputs, const Tensor& targets) const {
    const NoGradGuard no_grad;
    const AutocastGuard half = autocast_of(config_.train.precision, DeviceType::kCpu);
    const Tensor weights = data_.has_weights ? ones({targets.size(0)}) : Tensor();
    (void)run_mean_loss(loss_, config_.loss, outputs.detach().cpu(), targets.cpu(), weights);
  }

  Module& model_;
  const RunConfig& config_;
  const DataInfo& data_;
  const Device device_;
  const Loss loss_;
  std::vector<NamedTensor> buffers_;  // the buffers, with their values before the trials
  int64_t sample_cost_ = 0;           // multiply-adds
};

std::string count_of(int64_t n) { return concat_to_string(n, n == 1 ? " sample" : " samples"); }

// Returns whether the model gets the whole batch of all ranks at once. Synchronized batch norms do.
bool sees_whole_batch(const RunConfig& config, const RunSizes& sizes) {
  return config.distributed.sync_batch_norm && sizes.ranks > 1;
}

// Returns a sentence that describes the call in which the model failed.
std::string description(const CallSize& call, const RunConfig& config, const RunSizes& sizes) {
  const TrainConfig& c = config.train;
  const std::string out =
      call.is_last ? concat_to_string("the last batch of an epoch has ", count_of(call.batch), " (",
                                      sizes.train_samples, " in batches of ", c.batch_size, ")")
                   : concat_to_string("a batch has ", count_of(call.batch));
  const int64_t parts = c.shards.value_or(sizes.ranks);
  if (parts == 1 || sees_whole_batch(config, sizes)) return out;
  return concat_to_string(out, ", and one of its ", parts,
                          c.shards ? " parts (train.shards)" : " parts by rank", " has ",
                          call.samples);
}

[[noreturn]] void refuse_call_size(const CallSize& call, const RunConfig& config,
                                   const RunSizes& sizes, const std::string& why) {
  const bool is_cut = config.train.shards || sizes.ranks > 1;
  const char* remedy =
      call.is_last ? "; skip that batch with train.drop_last: true, or choose another batch_size"
      : is_cut     ? "; choose a larger batch_size or fewer parts"
                   : "; choose another batch_size";
  throw ConfigError(located(
      place_of(config, "train.batch_size"),
      concat_to_string("train.batch_size: ", description(call, config, sizes), "; ", why, remedy)));
}

void check_call(Preflight& preflight, Module& model, const CallSize& call, const RunConfig& config,
                const RunSizes& sizes) {
  try {
    preflight.train_on(call.samples);
  } catch (const std::exception& error) {
    if (is_refusal(error)) {
      refuse_call_size(call, config, sizes,
                       concat_to_string("the model does not accept that: ", error.what()));
    }
    refuse_layer(model, config.model, error);
    throw;
  }
}

}  // namespace

std::vector<CallSize> training_calls(const RunConfig& config, const RunSizes& sizes) {
  const int64_t batch_size = config.train.batch_size, rest = sizes.train_samples % batch_size;
  const int64_t parts =
      sees_whole_batch(config, sizes) ? 1 : config.train.shards.value_or(sizes.ranks);
  std::vector<CallSize> out;
  const auto add = [&](int64_t batch, bool is_last) {
    for (int64_t i = 0; i < parts; ++i) {
      const int64_t n = begin_of_part(batch, i + 1, parts) - begin_of_part(batch, i, parts);
      const bool is_known =
          std::ranges::any_of(out, [&](const CallSize& call) { return call.samples == n; });
      if (!is_known && n > 0) out.push_back({n, batch, is_last});
    }
  };
  if (sizes.train_samples >= batch_size) add(batch_size, false);
  if (rest > 0) add(rest, sizes.train_samples > batch_size);
  return out;
}

void check_batches(Module& model, const RunConfig& config, const DataInfo& data,
                   const RunSizes& sizes, Device device) {
  Generator apart(default_generator());
  const DrawGuard draws(apart);
  const int64_t last = sizes.train_samples % config.train.batch_size;
  if (sees_whole_batch(config, sizes) && last > 0 && last < sizes.ranks) {
    refuse_call_size({last, last, sizes.train_samples > last}, config, sizes,
                     "distributed.sync_batch_norm needs at least one sample on each rank");
  }
  Preflight preflight(model, config, data, device);
  try {
    preflight.try_smallest();
    for (const CallSize& call : training_calls(config, sizes)) {
      check_call(preflight, model, call, config, sizes);
    }
    for (const int64_t samples : {sizes.eval_samples, sizes.test_samples}) {
      const int64_t rest = samples % sizes.eval_batch_size;
      if (samples >= sizes.eval_batch_size) preflight.evaluate_on(sizes.eval_batch_size);
      if (rest > 0) preflight.evaluate_on(rest);
    }
  } catch (const std::exception& error) {
    refuse_layer(model, config.model, error);  // a GPU may report an error late
    throw;
  }
}

}  // namespace taper::v0::runner
