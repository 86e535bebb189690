#include "apps/runner/train/trainer.h"

#include <cmath>

#include <nlohmann/json.hpp>
#include <spdlog/spdlog.h>

#include "apps/runner/run/errors.h"
#include "apps/runner/run/signals.h"
#include "apps/runner/train/memory.h"
#include "framework/factories.h"
#include "framework/io/safetensors.h"
#include "framework/kernels/random/random.h"

namespace taper::runner {
namespace {

namespace fs = std::filesystem;

int64_t over(int64_t a, int64_t b) { return (a + b - 1) / b; }

data::DataLoaderOptions training(const RunConfig& c) {
  return {c.train.batch_size, c.train.shuffle, 0, c.data.workers, c.data.on_device};
}
data::DataLoaderOptions testing(const RunConfig& c) {
  const int64_t batches = c.train.eval_batches;
  return {c.train.eval_batch_size, batches > 0, batches, c.data.workers, c.data.on_device};
}

int64_t steps_of(const TrainConfig& c, int64_t batches_per_epoch) {
  return c.steps ? *c.steps : *c.epochs * over(batches_per_epoch, c.accumulate);
}

double seconds_since(std::chrono::steady_clock::time_point then) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - then).count();
}

}  // namespace

Trainer::Trainer(const RunConfig& config, const data::Splits& data, Device device, fs::path dir,
                 Observer* observer)
    : config_(config),
      data_(data),
      device_(device),
      dir_(std::move(dir)),
      observer_(observer),
      loader_(data.train, training(config), device, config.seed),
      test_loader_(data.test, testing(config), device, config.seed),
      batches_per_epoch_(loader_.steps_per_epoch()),
      total_steps_(steps_of(config.train, batches_per_epoch_)) {
  manual_seed(config.seed);
  model_ = build_model(config.model, data, device);
  params_ = model_->parameters();
  loss_ = losses().make(config.loss, {data.task});
  const Evaluator measurable(config, data, device);  // refuses here what cannot be measured
  optimizer_ = build_optimizer(config.optimizer, *model_);
  const optim::Schedule given = build_schedule(config.schedule, optimizer_->lr(), total_steps_,
                                               over(batches_per_epoch_, config.train.accumulate));
  const auto scaled = [this, given](int64_t t, double base) {
    return lr_scale_ * given.lr(t, base);
  };
  schedule_.emplace(*optimizer_, optim::Schedule{scaled, given.base_lrs});
  if (const auto options = plateau_of(config.schedule)) plateau_.emplace(*optimizer_, *options);
  if (config.train.precision == Precision::kFp16) scaler_.emplace();
  if (config.train.ema) {
    ema_.emplace(model_->named_parameters(), optim::EMAOptions{.decay = config.train.ema->decay});
  }
  row_ = zeros({2}, {.device = device});
  window_ = zeros({kWindow, 2}, {.device = device});
  one_ = ones({}, {.device = device});
  bad_ = zeros({}, {.device = device});
  reset_graph();
  const Graph wanted = config_.train.graph;
  if (!graph_ && (wanted == Graph::kOn || (wanted == Graph::kAuto && device_.is_cuda()))) {
    spdlog::info("steps run without a CUDA graph: {}", why_eager());
  }
}

void Trainer::open_files() {
  metrics_.open(dir_ / "metrics.jsonl", metrics_bytes_, metrics_crc_);
  std::error_code none;
  const auto timed = fs::file_size(dir_ / "timing.jsonl", none);
  timing_.open(dir_ / "timing.jsonl", none ? 0 : timed);
  if (config_.train.tensorboard) events_ = std::make_unique<EventWriter>(dir_);
  sync(dir_);
}

TrainResult Trainer::run() {
  open_files();
  spdlog::info("model: {} parameters", model_->num_parameters());
  spdlog::info("data: {} training and {} test samples", data_.train->size(), data_.test->size());
  if (observer_) observer_->on_start(*model_);
  // A process that was killed may have saved it without saying so.
  if (best_.step > 0) mark_best(dir_, best_.step);
  // What the first steps may have to go back to.
  if (step_ == 0 && config_.train.on_nan == OnNan::kRollback) save();
  reset_peak_memory(device_);
  start_ = flushed_ = saved_ = Clock::now();
  while (step_ < total_steps_ && reason_.empty()) {
    train_step();
    if (progress_.is_due()) progress_.show(standing());
    after_step();
  }
  progress_.clear();
  if (profiler_) end_trace();
  check_learned();
  const int64_t saved = save_model();
  log_memory();
  return {step_, reason_, last_metrics_, saved, best_.step, best_.value.value_or(NAN)};
}

void Trainer::check_learned() const {
  if (skipped_ == 0 || skipped_ < step_) return;
  throw Diverged(cat("all ", step_, " steps were skipped, their losses or gradients no finite ",
                     "numbers: nothing was learned; lower optimizer.lr, or check the data for ",
                     "extreme values"));
}

double Trainer::training_seconds() const {
  return seconds_since(start_) - evaluating_.seconds - saving_.seconds;
}

// The time that is left foresees each evaluation, and checkpoints as often as they came so far.
Standing Trainer::standing() const {
  const double training = training_seconds(), steps = double(steps_here_);
  const int64_t per_epoch = over(batches_per_epoch_, config_.train.accumulate),
                every = config_.train.eval_every > 0 ? config_.train.eval_every : per_epoch;
  const double evaluations = double(over(total_steps_, every) - step_ / every);
  const double left =
      (training + saving_.seconds) / steps * double(total_steps_ - step_) +
      evaluations * evaluating_.seconds / double(std::max<int64_t>(evaluating_.times, 1));
  return {step_,      total_steps_,    epoch_, double(samples_here_) / training, std::llround(left),
          last_loss_, optimizer_->lr()};
}

// Where the run may go back to a checkpoint, the clock has no say in which: its numbers are those
// of every other run of the config.
bool Trainer::save_is_due(bool epoch_ends) const {
  const CheckpointConfig& c = config_.checkpoint;
  if (c.every && *c.every > 0) return step_ % *c.every == 0;
  if (c.every || config_.train.on_nan == OnNan::kRollback) return epoch_ends;
  return seconds_since(saved_) > seconds_of(c.interval).value_or(INFINITY);
}

bool Trainer::is_late() const {
  const auto& limit = config_.train.time_limit;
  return limit && seconds_since(start_) > seconds_of(*limit).value_or(INFINITY);
}

void Trainer::after_step() {
  const bool epoch_ends = batch_ >= batches_per_epoch_, run_ends = step_ >= total_steps_;
  const int64_t every = config_.train.eval_every;
  const std::string signal = SignalScope::received();
  const bool late = is_late(), stops = step_ == stop_at_,
             evaluates = run_ends || (every > 0 ? step_ % every == 0 : epoch_ends);
  const bool regular = save_is_due(epoch_ends) || run_ends;
  const bool saves = regular || !signal.empty() || late || stops;
  const bool reads = std::ssize(pending_) == kWindow || seconds_since(flushed_) > 0.5;
  if (!observer_ && !epoch_ends && !evaluates && !saves && !reads) return;
  if (!flush() || !reason_.empty()) return;
  if (epoch_ends) time_epoch();
  const bool is_best = evaluates && evaluate_and_log();
  if (saves || is_best || !reason_.empty()) save(is_best, !regular && !is_best);
  if (!signal.empty() && !run_ends) {
    throw Interrupted(cat("ended by ", signal, " at step ", step_, " of ", total_steps_,
                          ", which is saved: --resume auto goes on"));
  }
  if (stops && reason_.empty()) reason_ = "another config";
  if (!late || run_ends || !reason_.empty()) return;
  // This is behind what is saved: a resumed run does not see it.
  if (!evaluates) evaluate_and_log();
  reason_ = "time limit";
}

void Trainer::time_epoch() {
  const double seconds = training_seconds() - epoch_start_;
  const int64_t first = epoch_first_batch_ * config_.train.batch_size;
  timing_.write(json_fields("kind", "epoch", "epoch", epoch_, "step", step_, "seconds", seconds,
                            "data_seconds", data_seconds_, "samples_per_second",
                            double(loader_.samples_per_epoch() - first) / seconds));
}

void Trainer::begin_trace() {
  const auto& profile = config_.train.profile;
  if (!profile || profiler_ || step_ + 1 < profile->steps[0] || step_ >= profile->steps[1]) return;
  profiler_.emplace();
}

void Trainer::end_trace() {
  const std::string file = dir_ / "trace.json";
  try {
    profiler_->export_chrome_trace(file);
  } catch (const Error& error) {
    throw DiskError(error.what());
  }
  profiler_.reset();
  progress_.clear();
  spdlog::info("traced steps to {}{}: {}", step_, graph_ ? ", which ran without a graph" : "",
               file);
}

void Trainer::log_memory() try {
  const int64_t peak = peak_memory(device_);
  const PhiloxKey random = default_generator().state();
  const kernels::SkipDraws uninitialised;
  const std::unique_ptr<Module> model = build_model(config_.model, data_, DeviceType::cpu);
  const bool has_data = device_.is_cpu() || loader_.is_resident();
  const size_t data = has_data ? data_.train->nbytes() + data_.test->nbytes() : 0;
  const DataAmount amount{data_.train->size(), data_.test->size(), int64_t(data)};
  const int64_t foretold =
      foretell_memory(config_, data_, *model, amount, device_.is_cuda()).total();
  default_generator().set_state(random);
  const double ratio = double(peak) / double(foretold);
  timing_.write(json_fields("kind", "memory", "step", step_, "peak_bytes", peak, "foretold_bytes",
                            foretold, "ratio", ratio));
  spdlog::info("memory: {:.1f} MiB at the most, {:.2f} of what --validate foretells",
               double(peak) / (1 << 20), ratio);
} catch (const std::exception& error) {
  spdlog::warn("memory could not be foretold: {}", error.what());  // the run is whole without it
}

Metrics Trainer::evaluate() {
  std::optional<optim::EMA::Scope> averaged;
  if (ema_ && step_ > 0) averaged.emplace(*ema_);
  // Random batches are others at every step.
  const int64_t draw = config_.train.eval_batches > 0 ? step_ : 1;
  return runner::evaluate(*model_, test_loader_, draw, config_, data_, device_);
}

bool Trainer::evaluate_and_log() {
  const SpentScope spent(evaluating_);
  last_metrics_ = evaluate();
  log_evaluation();
  const auto note = [&](const GoalConfig& goal, Best& best) {
    const double x = last_metrics_[goal.metric];
    const bool better = !best.value || (goal.is_max() ? x > *best.value : x < *best.value);
    if (better && !std::isnan(x)) return best = {x, step_, 0}, true;
    return ++best.misses, false;
  };
  const auto& stopping = config_.train.early_stopping;
  if (stopping && !note(*stopping, stopping_) && stopping_.misses >= stopping->patience) {
    reason_ = "early stopping";
  }
  if (plateau_ && step_ > config_.schedule.warmup) {
    plateau_->step(last_metrics_[metric_of(config_.schedule).value()]);
  }
  return note(config_.train.best, best_);
}

void Trainer::log_evaluation() {
  const Metrics& metrics = last_metrics_;
  progress_.clear();
  std::string fields = json_fields("kind", "eval", "step", step_, "epoch", epoch_, "split", "test");
  std::string line = cat("epoch=", epoch_, " step=", step_);
  if (loss_count_ > 0) line += cat(" train_loss=", float(loss_sum_ / double(loss_count_)));
  loss_sum_ = 0;
  loss_count_ = 0;
  for (const auto& [name, x] : metrics.values) {
    fields += cat(",", json_fields(name.c_str(), x));
    line += cat(" test_", name, "=", float(x));
    if (events_) events_->scalar(cat("test/", name), step_, x);
  }
  if (!metrics.confusion.empty()) {
    fields += cat(",\"confusion\":", nlohmann::json(metrics.confusion).dump());
  }
  metrics_.write(fields);
  if (events_) events_->flush();
  spdlog::info("{} lr={} seconds={:.2f}", line, optimizer_->lr(), seconds_since(start_));
  if (observer_) observer_->on_eval(step_, "test", metrics);
}

// With early stopping the best weights, else the last ones; averages where there are some.
int64_t Trainer::save_model() {
  const fs::path file = dir_ / "model.safetensors", best = best_checkpoint(dir_) / file.filename();
  std::optional<optim::EMA::Scope> averaged;
  if (ema_ && step_ > 0) averaged.emplace(*ema_);
  try {
    const bool use_best = config_.train.early_stopping && fs::exists(best);
    save_safetensors(file, use_best ? load_safetensors(best).tensors : model_->state_dict());
    return use_best ? step_of(best.parent_path()) : step_;
  } catch (const Error& error) {
    throw DiskError(cat("cannot save the model: ", error.what()));
  }
}

}  // namespace taper::runner
