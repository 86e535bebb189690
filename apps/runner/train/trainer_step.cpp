// One step of training, and the reading of what steps gave.
#include <algorithm>
#include <cmath>

#include <spdlog/spdlog.h>

#include "apps/runner/run/errors.h"
#include "apps/runner/train/diagnose.h"
#include "apps/runner/train/trainer.h"
#include "autograd/autocast.h"
#include "autograd/engine.h"
#include "autograd/ops/binary.h"
#include "autograd/ops/reduce.h"
#include "autograd/ops/shape.h"
#include "framework/kernels/optim/foreach.h"
#include "framework/kernels/per_element.h"
#include "optim/clip.h"
#include "optim/tensor_lists.h"

namespace taper::runner {
namespace {

constexpr int64_t kMaxRollbacks = 5;
// Of a step that is a graph: their inputs lie on the device all at once.
constexpr int64_t kMostBatches = 64;

constexpr const char* kAdvice =
    ": lower optimizer.lr, set train.clip_norm, or check the data for extreme values; with "
    "train.on_nan=skip or rollback the run goes on";

// How many of a batch are learned from.
Tensor tokens_of(const Batch& b) { return sum(ne(b.targets, data::kIgnoredTarget)).to(kFloat32); }

}  // namespace

int64_t Trainer::batches_from(int64_t first_batch) const {
  return std::min(config_.train.accumulate, batches_per_epoch_ - first_batch);
}

int64_t Trainer::samples_from(int64_t first_batch) const {
  const int64_t size = config_.train.batch_size;
  return std::min(batches_from(first_batch) * size,
                  loader_.samples_per_epoch() - first_batch * size);
}

Tensor Trainer::forward_and_backward(int64_t first_batch, const NextBatch& next) {
  const int64_t batches = batches_from(first_batch), samples = samples_from(first_batch);
  // Lines of a text count by their tokens, which must be known of all.
  std::vector<Batch> lines;
  Tensor tokens, total;
  while (data_.lines && batches > 1 && std::ssize(lines) < batches) {
    lines.push_back(next());
    const Tensor n = tokens_of(lines.back());
    tokens = tokens.defined() ? tokens + n : n;
  }
  for (int64_t i = 0; i < batches; ++i) {
    const Batch b = lines.empty() ? next() : lines[size_t(i)];
    Tensor loss;
    {
      const RecordFunction range("forward");
      std::optional<Autocast> half;
      if (config_.train.precision == Precision::kBf16) half.emplace(device_.type(), kBFloat16);
      if (config_.train.precision == Precision::kFp16) half.emplace(device_.type(), kFloat16);
      loss = loss_((*model_)(b.inputs), b.targets, Reduction::mean);
    }
    // The mean over all samples of the step, as one big batch would give it.
    if (!lines.empty()) {
      loss = loss * (tokens_of(b) / tokens);
    } else if (batches > 1) {
      loss = loss * (double(b.inputs.size(0)) / double(samples));
    }
    if (step_ == 0) check_all_registered(*model_, loss);
    const RecordFunction range("backward");
    (scaler_ ? scaler_->scale(loss) : loss).backward();
    total = total.defined() ? total + loss.detach() : loss.detach();
  }
  return total;
}

Tensor Trainer::clip_gradients() {
  const TrainConfig& c = config_.train;
  const Tensor norm = c.clip_norm ? optim::clip_grad_norm_(params_, *c.clip_norm)
                                  : optim::get_total_norm(optim::grads_of(params_));
  if (c.clip_value) optim::clip_grad_value_(params_, *c.clip_value);
  return norm;
}

// Not 0 where the last step is not to be taken, found on the device. Unless bad steps are skipped,
// one voids those after it too until they are read, so that the weights that it met can be looked
// at.
Tensor Trainer::found_inf() const {
  const kernels::Unscale is_bad{{}, kernels::pointer<float>(one_)};
  const Tensor found = kernels::join_list("found_inf", is_bad, {row_});
  if (config_.train.on_nan == OnNan::kSkip) return found;
  if (!scaler_) return bad_.add_(found);
  // An overflow under a loss scale is no harm: the scaler lowers it.
  bad_.add_(kernels::join_list("found_inf", is_bad, {row_.narrow(0, 0, 1)}));
  return found + bad_;
}

void Trainer::place_loader() {
  if (batch_ >= batches_per_epoch_) {
    ++epoch_;
    batch_ = 0;
    is_placed_ = false;
  }
  if (is_placed_) return;
  loader_.start(epoch_, batch_);
  is_placed_ = true;
  epoch_start_ = training_seconds();
  data_seconds_ = 0;
  epoch_first_batch_ = batch_;
}

void Trainer::train_step() {
  begin_trace();
  std::optional<RecordFunction> range;
  if (is_observed()) range.emplace(cat("ProfilerStep#", step_ + 1));
  model_->train();
  place_loader();
  // After its warm-up a plateau changes the rates itself.
  if (step_ > 0 && (!plateau_ || step_ <= config_.schedule.warmup)) schedule_->step();
  pending_.push_back({epoch_, batch_, default_generator().state(), optimizer_->lr()});
  if (graph_) {
    replay_step();
  } else {
    compute_step([this] { return next_batch(); });
  }
  window_.select(0, std::ssize(pending_) - 1).copy_(row_);
  samples_here_ += samples_from(batch_);
  ++steps_here_;
  batch_ += batches_from(batch_);
  ++step_;
  range.reset();
  if (profiler_ && step_ >= config_.train.profile->steps[1]) end_trace();
}

Batch Trainer::next_batch() {
  const RecordFunction range("enumerate(DataLoader)#Loader.next");
  const Clock::time_point before = Clock::now();
  Batch b = loader_.next().value();
  data_seconds_ += std::chrono::duration<double>(Clock::now() - before).count();
  return b;
}

void Trainer::compute_step(const NextBatch& next) {
  const std::vector<Tensor> buffers = buffers_to_keep();
  optimizer_->zero_grad();
  const Tensor loss = forward_and_backward(batch_, next);
  if (scaler_) scaler_->unscale_(*optimizer_);
  const Tensor norm = clip_gradients();
  row_.select(0, 0).copy_(loss);
  row_.select(0, 1).copy_(norm);
  const Tensor found = found_inf();
  optimizer_->step_unless(found);
  if (scaler_) scaler_->update();
  keep_buffers(buffers, found);
  if (ema_) ema_->update();
}

std::string Trainer::why_eager() const {
  const TrainConfig& c = config_.train;
  if (c.graph == Graph::kOff) return "train.graph is off";
  if (device_.is_cpu()) return "the run is on the CPU";
  if (observer_) return "an observer may hook into them";
  if (c.graph == Graph::kAuto && models().is_added(config_.model.type)) {
    return "a custom model may do other things each time; train.graph=on says that it does not";
  }
  if (c.accumulate > kMostBatches) return cat("train.accumulate is above ", kMostBatches);
  return "";
}

void Trainer::reset_graph() {
  graph_.reset();
  graphs_logged_ = 0;
  if (!why_eager().empty()) return;
  graph_ = std::make_unique<StepGraph>([this](const std::vector<Tensor>& in) {
    size_t i = 0;
    compute_step([&] { return Batch{in.at(i++), in.at(i++)}; });
    return std::vector<Tensor>{row_};
  });
}

void Trainer::replay_step() {
  std::vector<Tensor> in;
  for (int64_t i = batches_from(batch_); i > 0; --i) {
    const Batch b = next_batch();
    in.insert(in.end(), {b.inputs, b.targets});
  }
  (void)(*graph_)(in);
  if (!graph_->reason().empty()) {
    progress_.clear();
    spdlog::warn("steps do not run as a CUDA graph: {}", graph_->reason());
    graph_.reset();
  } else if (graph_->num_graphs() > graphs_logged_) {
    graphs_logged_ = graph_->num_graphs();
    progress_.clear();
    spdlog::info("steps run as a CUDA graph for batches {}{}", to_string(in[0].shape()),
                 in.size() > 2 ? cat(" and ", in.size() / 2 - 1, " more") : "");
  }
}

std::vector<Tensor> Trainer::buffers_to_keep() const {
  std::vector<Tensor> out;
  if (config_.train.on_nan != OnNan::kSkip) return out;
  for (const auto& [name, b] : model_->named_buffers()) out.push_back(b.clone());
  return out;
}

// A skipped batch leaves no nan in running means either.
void Trainer::keep_buffers(const std::vector<Tensor>& old, const Tensor& found) const {
  const NoGradGuard no_grad;
  const std::vector<NamedTensor> buffers = model_->named_buffers();
  for (size_t i = 0; i < old.size(); ++i) {
    const Tensor& b = buffers[i].tensor;
    b.copy_(where(ne(found, 0), old[i], b));
  }
}

bool Trainer::flush() {
  flushed_ = Clock::now();
  const std::vector<Pending> done = std::exchange(pending_, {});
  if (done.empty()) return true;
  const std::vector<float> read = window_.cpu().to_floats();
  bad_.zero_();
  const int64_t first = step_ - std::ssize(done) + 1;
  for (size_t i = 0; i < done.size(); ++i) {
    const float loss = read[2 * i], norm = read[2 * i + 1];
    // Below 1 a loss scale is no longer the reason.
    const bool overflow = scaler_ && std::isfinite(loss) && !std::isfinite(norm);
    const bool is_good = std::isfinite(loss) && std::isfinite(norm);
    if (!is_good && !(overflow && scaler_->get_scale() >= 1)) {
      on_bad_step(done[i], first + int64_t(i), loss, norm);
      if (config_.train.on_nan == OnNan::kRollback) return false;
    }
    log_step(done[i], first + int64_t(i), loss, norm);
  }
  return true;
}

void Trainer::log_step(const Pending& p, int64_t step, float loss, float norm) {
  last_loss_ = loss;
  loss_sum_ += loss;
  ++loss_count_;
  if (observer_ && !observer_->on_step(step, loss, norm)) reason_ = "ended by its observer";
  if (step % config_.train.log_every != 0) return;
  std::string line = json_fields("kind", "train", "step", step, "epoch", p.epoch, "loss", loss);
  if (config_.train.clip_norm) line += cat(",", json_fields("grad_norm", norm));
  metrics_.write(cat(line, ",", json_fields("lr", p.lr)));
  if (!events_) return;
  events_->scalar("train/loss", step, loss);
  events_->scalar("train/grad_norm", step, norm);
  events_->scalar("train/lr", step, p.lr);
}

void Trainer::on_bad_step(const Pending& p, int64_t step, float loss, float norm) {
  progress_.clear();
  const std::string tensor = first_bad_of(p);
  const bool bad_loss = !std::isfinite(loss);
  const std::string what = cat(bad_loss ? "the loss" : "the gradient's norm", " became ",
                               bad_loss ? loss : norm, " at step ", step, " of epoch ", p.epoch,
                               tensor.empty() ? "" : cat("; the first bad tensor is ", tensor));
  if (config_.train.on_nan == OnNan::kStop) throw Diverged(what + kAdvice);
  if (config_.train.on_nan == OnNan::kSkip) {
    spdlog::warn("{}; the step is skipped, as {} before it", what, skipped_++);
    return;
  }
  if (rollbacks_ == kMaxRollbacks) {
    throw Diverged(cat(what, ", after ", kMaxRollbacks, " returns to a checkpoint", kAdvice));
  }
  roll_back();
  spdlog::warn("{}; back to step {} with half the learning rate ({} of {} times)", what, step_,
               rollbacks_, kMaxRollbacks);
}

std::string Trainer::first_bad_of(const Pending& p) {
  const PhiloxKey now = default_generator().state();
  default_generator().set_state(p.random);
  model_->train();
  loader_.start(p.epoch, p.batch);
  std::string found = first_bad_tensor(*model_, [&] {
    return forward_and_backward(p.batch, [this] { return loader_.next().value(); });
  });
  is_placed_ = false;
  default_generator().set_state(now);
  return found;
}

}  // namespace taper::runner
