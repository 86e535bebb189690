#include "apps/runner/train.h"

#include <chrono>
#include <cmath>
#include <optional>

#include <spdlog/spdlog.h>

#include "apps/runner/dataset.h"
#include "apps/runner/device.h"
#include "apps/runner/errors.h"
#include "apps/runner/metrics.h"
#include "apps/runner/model.h"
#include "autograd/engine.h"
#include "autograd/ops/binary.h"
#include "autograd/ops/index.h"
#include "autograd/ops/loss.h"
#include "autograd/ops/reduce.h"
#include "autograd/ops/shape.h"
#include "framework/factories.h"
#include "framework/io/safetensors.h"
#include "framework/threads.h"
#include "optim/schedule.h"

namespace taper::runner {
namespace {

using Clock = std::chrono::steady_clock;

// Shuffles are draws of their own, one for each epoch, far from the streams that init and dropout
// take in turn.
constexpr uint64_t kShuffleStreams = uint64_t(1) << 62;

// Losses stay on the device; so many at a time are read together.
constexpr int64_t kLossWindow = 64;

class Trainer {
 public:
  Trainer(const RunConfig& config, Device device)
      : config_(config), device_(device), data_(load_dataset(config.data, device, config.seed)) {
    manual_seed(config.seed);
    model_ = build_model(config.model, data_.input_shape, data_.outputs, device);
    optimizer_ = build_optimizer(config.optimizer, *model_);
    schedule_.emplace(*optimizer_, schedule());
    losses_ = zeros({kLossWindow}, {.device = device});
  }

  TrainResult run(const std::filesystem::path& dir) {
    metrics_.open(dir / "metrics.jsonl");
    timing_.open(dir / "timing.jsonl");
    spdlog::info("model: {} parameters", model_->num_parameters());
    spdlog::info("data: {} training and {} test samples", data_.train.size(), data_.test.size());
    TrainResult result;
    for (int64_t epoch = 1; epoch <= config_.train.epochs; ++epoch) {
      const auto start = Clock::now();
      train_epoch(epoch);
      const double seconds = std::chrono::duration<double>(Clock::now() - start).count();
      timing_.write(json_fields("kind", "epoch", "epoch", epoch, "seconds", seconds,
                                "samples_per_second", double(data_.train.size()) / seconds));
      result = evaluate();
      record_epoch(epoch, result, seconds);
    }
    return result;
  }

  const Module& model() const { return *model_; }

 private:
  Tensor loss_of(const Tensor& outputs, const Tensor& targets, Reduction reduction) const {
    if (!data_.regression) return cross_entropy(outputs, targets, reduction);
    return mse_loss(outputs.squeeze(-1), targets, reduction);
  }

  Tensor order_of(int64_t epoch) const {
    const int64_t n = data_.train.size();
    if (!config_.train.shuffle) return arange(n, {.device = device_});
    Generator generator;
    generator.set_state({config_.seed, kShuffleStreams + uint64_t(epoch)});
    return randperm(n, {.device = device_}, &generator);
  }

  // From the learning rate given to 0 with the last step.
  optim::Schedule schedule() const {
    const int64_t batch = config_.train.batch_size;
    const int64_t total = (data_.train.size() + batch - 1) / batch * config_.train.epochs;
    const Schedule kind = config_.train.schedule;
    if (kind == Schedule::kConstant) return optim::schedule::constant(1);
    return kind == Schedule::kLinear ? optim::schedule::polynomial(total)
                                     : optim::schedule::cosine_annealing(total);
  }

  void train_epoch(int64_t epoch) {
    model_->train();
    const int64_t n = data_.train.size(), batch = config_.train.batch_size;
    const Tensor order = order_of(epoch);
    for (int64_t first = 0; first < n; first += batch) {
      const Tensor rows = order.narrow(0, first, std::min(batch, n - first));
      const Tensor loss = loss_of((*model_)(embedding(data_.train.inputs, rows)),
                                  embedding(data_.train.targets, rows), Reduction::mean);
      if (step_ > 0) schedule_->step();
      optimizer_->zero_grad();
      loss.backward();
      optimizer_->step();
      keep_loss(loss.detach(), epoch);
      progress_.show(cat("epoch ", epoch, "/", config_.train.epochs), std::min(first + batch, n), n,
                     cat("loss ", last_loss_));
    }
    flush_losses(epoch);
  }

  void keep_loss(const Tensor& loss, int64_t epoch) {
    losses_.select(0, pending_++).copy_(loss);
    rates_.push_back(optimizer_->lr());
    ++step_;
    if (pending_ == kLossWindow) flush_losses(epoch);
  }

  void flush_losses(int64_t epoch) {
    if (pending_ == 0) return;
    const std::vector<float> losses = losses_.cpu().to_floats();
    const int64_t first = step_ - pending_ + 1;
    for (int64_t i = 0; i < pending_; ++i) {
      const float loss = losses[size_t(i)];
      const int64_t step = first + i;
      if (!std::isfinite(loss)) {
        progress_.clear();
        throw Diverged(cat("the loss became ", loss, " at step ", step, " of epoch ", epoch,
                           ": lower optimizer.lr, or check the data for extreme values"));
      }
      if (step % config_.train.log_every == 0) {
        metrics_.write(json_fields("kind", "train", "step", step, "epoch", epoch, "loss", loss,
                                   "lr", rates_[size_t(i)]));
      }
      last_loss_ = loss;
    }
    pending_ = 0;
    rates_.clear();
  }

  TrainResult evaluate() {
    const NoGradGuard no_grad;
    model_->eval();
    const int64_t n = data_.test.size(), batch = config_.train.eval_batch_size;
    const Tensor loss_sum = zeros({}, {.dtype = kFloat64, .device = device_});
    const Tensor correct = zeros({}, {.dtype = kInt64, .device = device_});
    for (int64_t first = 0; first < n; first += batch) {
      const int64_t count = std::min(batch, n - first);
      const Tensor outputs = (*model_)(data_.test.inputs.narrow(0, first, count));
      const Tensor targets = data_.test.targets.narrow(0, first, count);
      loss_sum.add_(loss_of(outputs, targets, Reduction::sum));
      if (!data_.regression) correct.add_(sum(eq(argmax(outputs, 1), targets)));
    }
    TrainResult result{.steps = step_, .test_loss = loss_sum.item<double>() / double(n)};
    if (!data_.regression) result.test_accuracy = double(correct.item<int64_t>()) / double(n);
    return result;
  }

  void record_epoch(int64_t epoch, const TrainResult& r, double seconds) {
    progress_.clear();
    std::string fields = json_fields("kind", "eval", "step", r.steps, "epoch", epoch, "split",
                                     "test", "loss", r.test_loss);
    std::string line = cat("epoch=", epoch, " step=", r.steps, " train_loss=", last_loss_,
                           " test_loss=", float(r.test_loss));
    if (!data_.regression) {
      fields += cat(",", json_fields("accuracy", r.test_accuracy));
      line += cat(" test_accuracy=", float(r.test_accuracy));
    }
    metrics_.write(fields);
    spdlog::info("{} lr={} seconds={:.2f}", line, optimizer_->lr(), seconds);
  }

  const RunConfig& config_;
  Device device_;
  Dataset data_;
  JsonLines metrics_, timing_;
  Progress progress_;
  std::unique_ptr<Sequential> model_;
  std::unique_ptr<optim::Optimizer> optimizer_;
  std::optional<optim::LRScheduler> schedule_;
  Tensor losses_;              // of the steps that are not logged yet
  std::vector<double> rates_;  // and their learning rates
  int64_t pending_ = 0, step_ = 0;
  float last_loss_ = 0;
};

}  // namespace

TrainResult train(const RunConfig& config, const std::filesystem::path& dir) {
  if (config.threads > 0) set_num_threads(int(config.threads));
  const Device device = choose_device(config.device, config.visible_devices);
  Trainer trainer(config, device);
  // Only now: a run that cannot start leaves the directory of an earlier one alone.
  make_run_directory(dir);
  std::ofstream(dir / "config.yaml") << to_yaml(config) << "\n";
  const TrainResult result = trainer.run(dir);
  save_safetensors(dir / "model.safetensors", trainer.model().state_dict());
  return result;
}

}  // namespace taper::runner
