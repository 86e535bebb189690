#include "apps/runner/train/trainer.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <utility>

#include "apps/runner/memory/memory_estimate.h"
#include "apps/runner/memory/run_devices.h"
#include "apps/runner/run/data_info.h"
#include "apps/runner/run/evaluate.h"
#include "apps/runner/run/generate.h"
#include "apps/runner/run/ranks.h"
#include "apps/runner/run/signals.h"
#include "apps/runner/settings/placement.h"
#include "data/series/series_dataset.h"
#include "framework/base/log.h"
#include "framework/cuda/cuda.h"
#include "framework/factory/factories.h"

namespace taper::v0::runner {
namespace {

constexpr const char* kPlan = "stopping after this step";

}  // namespace

Trainer::Trainer(const RunConfig& config, const data::Splits& data, const Communicator& ranks,
                 fs::path dir, Observer* observer)
    : config_(config),
      data_(data),
      ranks_(ranks),
      is_first_(ranks_.rank() == 0),
      dir_(std::move(dir)),
      observer_(observer),
      loader_(config, data, ranks_),
      eval_loader_(eval_batches(config, data, ranks)),
      length_(length_of(config.train, loader_.steps_per_epoch())),
      training_(config, data, length_, run_sizes(config, data, ranks.size()), ranks_,
                state_.lr_scale),
      step_(config, data, loader_, training_, ranks_, observer != nullptr),
      log_(config, dir_, !is_first_),
      window_(zeros({kWindow, 2}, {.device = ranks.device()})),
      saves_in_background_(
          config.checkpoint.is_in_background(uses_gpu(*training_.model, ranks.device()))) {
  // Created only to throw here if a metric cannot be computed.
  const Evaluator measurable(config, data, ranks.device());
}

// --- the loop ---

TrainResult Trainer::run() try {
  begin();
  if (state_.is_unfinished) {
    after_step();
  } else if (state_.step == pause_at_) {
    evaluate_and_end(kPaused);
  }
  state_.is_unfinished = false;
  while (state_.step < length_.steps && !has_ended()) {
    train_step();
    show_progress();
    after_step();
    state_.is_unfinished = false;
  }
  return end();
} catch (...) {
  rescue(std::current_exception());
  throw;
}

std::vector<Device> Trainer::devices() const {
  return devices_of(*training_.model, ranks_.device());
}

void Trainer::begin() {
  SignalGuard::set_plan(kPlan);
  open_files();
  step_.begin();
  log_info(concat_to_string("model: ", training_.model->num_parameters(), " parameters"));
  for (const std::string& text : {frozen_text(*training_.model), rates_text(config_.optimizer)}) {
    if (!text.empty()) log_info(text);
  }
  if (!data_.report.empty()) log_info(data_.report);
  log_info(
      concat_to_string("data: ", sizes_text(data_), data_.note.empty() ? "" : "; ", data_.note));
  if (observer_) observer_->on_start(*training_.model);
  // A process that was killed may have saved the best checkpoint without marking it.
  on_first([&] {
    if (state_.best.step > 0) mark_best(dir_, state_.best.step);
  });
  // The first steps need a checkpoint to which they can be rolled back.
  if (state_.step == 0 && config_.train.on_nan == OnNan::kRollback) save({});
  for (const Device device : distinct_memories(devices())) reset_peak_memory(device);
  log_.timings.start = read_ = saved_ = Clock::now();
}

TrainResult Trainer::end() {
  log_.end_bar();
  log_epoch();
  if (profiler_) end_trace();
  require<Diverged>(state_.skipped == 0 || state_.skipped < state_.step, "all ", state_.step,
                    " steps were skipped because a loss or gradient was not finite, so nothing was "
                    "learned; lower optimizer.lr, or check the data for extreme values");
  TrainResult result{.steps = state_.step,
                     .reason = state_.reason,
                     .metrics = state_.metrics,
                     .evaluated_on = data_.evaluated_name(),
                     .may_decide = data_.may_decide(),
                     .thresholds = data_.thresholds,
                     .decision = threshold_text(data_.thresholds, config_, data_),
                     .best_step = state_.best.step,
                     .best = state_.best.value.value_or(NAN)};
  step_.share_buffers();
  result.metrics.baselines = data::baselines_of(*data_.evaluated());
  on_first([&] { save_model(result); });
  result.saved_metrics.baselines = result.metrics.baselines;
  if (data_.validation) test_saved_model(result);
  if (is_first_) log_memory();
  save_evaluation(result);
  return result;
}

void Trainer::train_step() {
  const auto& traced = config_.train.profile;
  const bool begins = traced && state_.step + 1 >= traced->steps[0];
  if (begins && !profiler_ && state_.step < traced->steps[1]) profiler_.emplace();
  std::optional<RecordFunction> range;
  if (is_observed()) range.emplace(concat_to_string("ProfilerStep#", state_.step + 1));
  note_begin(false);
  training_.model->train();
  if (state_.at.batch >= loader_.steps_per_epoch()) state_.at = {state_.at.epoch + 1, 0};
  begin_epoch();
  if (step_.go_to(state_.at)) {
    log_.begin_epoch(state_.at.batch * config_.train.batch_size);
    step_.data_seconds = 0;
  }
  const PhiloxKey random = default_generator().state();
  step_.run(state_.step);
  pending_.push_back({state_.at, random, lr()});
  window_.select(0, std::ssize(pending_) - 1).copy_(step_.loss_and_norm());
  log_.timings.samples += step_.samples_from(state_.at.batch);
  ++log_.timings.steps;
  state_.at.batch += step_.batches_from(state_.at.batch);
  ++state_.step;
  state_.is_unfinished = true;
  begun_.reset();
  range.reset();
  if (profiler_ && state_.step >= traced->steps[1]) end_trace();
}

void Trainer::begin_epoch() {
  const int64_t epoch = state_.at.epoch;
  if (!training_.thawing.go_to(epoch)) return;
  step_.change_trained();
  const std::string thawed = training_.thawing.thawed_in(epoch);
  if (!thawed.empty()) {
    const std::string frozen = frozen_text(*training_.model);
    log_info(concat_to_string("epoch ", epoch, " begins to train ", thawed, "; ",
                              frozen.empty() ? "nothing is frozen now" : frozen));
  }
}

void Trainer::show_progress() {
  const int64_t every = config_.train.eval_every > 0 ? config_.train.eval_every : length_.per_epoch;
  const int64_t evaluations = (length_.steps + every - 1) / every - state_.step / every;
  log_.show(state_, length_.steps, evaluations, lr());
}

Trainer::Plan Trainer::plan_after_step() const {
  const TrainConfig& c = config_.train;
  Plan plan{.epoch_ends = state_.at.batch >= loader_.steps_per_epoch(),
            .run_ends = state_.step >= length_.steps,
            .stops = state_.step == stop_at_,
            .pauses = state_.step == pause_at_};
  const bool is_due = c.eval_every > 0 ? state_.step % c.eval_every == 0 : plan.epoch_ends;
  plan.evaluates = plan.run_ends || is_due;
  plan.saves = plan.run_ends || save_is_due(plan.epoch_ends);
  plan.samples = c.sample_every > 0 && state_.step % c.sample_every == 0;
  return plan;
}

void Trainer::after_step() {
  const Plan plan = plan_after_step();
  const bool is_planned = observer_ || plan.epoch_ends || plan.evaluates || plan.saves ||
                          plan.samples || plan.stops || plan.pauses ||
                          std::ssize(pending_) == kWindow;
  if (ranks_.size() > 1 && !is_planned && state_.step < exchange_at_) return;
  const LoopControl control = loop_control();
  if (is_planned || control.requests_anything()) finish_step(plan, control);
}

// Logs text that the model generates after a step. Draws numbers of its own, and changes nothing.
static void log_sample(TrainingState& training, const RunConfig& config, const DataInfo& data,
                       Device device, int64_t step) {
  std::optional<optim::EMA::Guard> averaged;
  if (training.ema) averaged.emplace(*training.ema);
  training.model->eval();
  std::string text;
  try {
    generate_text(
        {*training.model, config.model, data, device}, {.prompt = "", .tokens = 100},
        [&](std::string_view piece) { text += piece; }, [] {});
  } catch (const DataError& error) {  // the step itself will be judged by its loss
    text = error.what();
  }
  training.model->train();
  log_info(concat_to_string("sample after step ", step, ":\n", text));
}

void Trainer::finish_step(const Plan& plan, const LoopControl& control) {
  // A full disk is reported long before the next checkpoint.
  if (control.is_saved) on_first([&] { finish_saving(); });
  if (!read_losses()) return;  // rolled back
  if (has_ended()) return save_ended_by_observer();
  if (plan.epoch_ends) log_epoch();
  is_last_evaluation_ = plan.run_ends;
  const bool is_best = plan.evaluates && evaluate_and_log();
  if (plan.samples) {
    step_.share_buffers();
    if (is_first_) log_sample(training_, config_, data_, ranks_.device(), state_.step);
  }
  state_.is_unfinished = false;
  const bool is_regular = plan.saves || control.saves;
  const bool ends = plan.run_ends || control.ends_run() || plan.stops || plan.pauses || has_ended();
  if (is_regular || ends || is_best) {
    save({.is_best = is_best, .is_extra = !is_regular && !is_best, .ends_run = ends});
  }
  end_if_requested(plan, control);
}

void Trainer::log_epoch() {
  if (log_.timings.steps == 0) return;  // the run was resumed, and has logged its epoch before
  const int64_t samples = state_.at.batch * config_.train.batch_size;
  log_.end_epoch(state_, std::min(samples, loader_.samples_per_epoch()), step_.data_seconds);
}

// --- losses ---

bool Trainer::read_losses() {
  read_ = Clock::now();
  const std::vector<Pending> done = std::exchange(pending_, {});
  missing_lines_ = std::ssize(done);
  if (done.empty()) return true;
  const std::vector<float> read = waiting_for(*training_.model, config_.model, [&] {
    const std::vector<float> losses = window_.cpu().to_floats();
    synchronize_others(*training_.model, ranks_.device());
    return losses;
  });
  warn_of_long_steps(std::ssize(done));
  ranks_.check();  // if a rank has failed, the numbers of the last step are wrong
  step_.allow_updates();
  int64_t step = state_.step - std::ssize(done);
  for (size_t i = 0; i < done.size(); ++i) {
    const float loss = read[2 * i], norm = read[2 * i + 1];
    ++step;
    const bool is_finite = std::isfinite(loss) && std::isfinite(norm);
    if (!is_finite && !is_overflow(loss)) {
      on_bad_step(done[i], step, loss, norm);
      if (config_.train.on_nan == OnNan::kRollback) return false;
    }
    log_.step(step, done[i].at.epoch, loss, norm, done[i].lr);
    --missing_lines_;
    if (observer_ && !observer_->on_step(step, loss, norm)) {
      end_early("ended by its observer");
    }
  }
  return true;
}

// --- evaluation ---

Metrics Trainer::evaluate() {
  std::optional<optim::EMA::Guard> averaged;
  if (training_.ema && state_.step > 0) averaged.emplace(*training_.ema);
  // Each evaluation draws other random batches.
  const int64_t draw = config_.train.eval_batches > 0 ? state_.step : 1;
  step_.share_buffers();
  const bool has_details = is_last_evaluation_ && !data_.validation;
  if (has_details) details_step_ = state_.step;
  return measure(eval_loader_, draw, data_, has_details);
}

Metrics Trainer::measure(DataLoader& batches, int64_t draw, const DataInfo& info,
                         bool has_details) {
  Evaluator evaluator(config_, info,
                      output_device(*training_.model, config_, info, ranks_.device()));
  if (has_details) evaluator.collect_details(info);
  return runner::evaluate(*training_.model, batches, draw, config_, info, ranks_,
                          stop_check(batches.steps_per_epoch()), std::move(evaluator));
}

// Evaluates and logs. All calls that may throw precede begun_.reset(), so that undo() can revert
// the evaluation.
bool Trainer::evaluate_and_log() {
  const Clock::time_point start = Clock::now();
  const TrainConfig& c = config_.train;
  note_begin(true);
  log_.note_position(state_);
  step_.begin_evaluation();
  SignalGuard::set_plan("stopping after this batch of the evaluation");
  state_.metrics = evaluate();
  SignalGuard::set_plan(kPlan);
  state_.evaluated_step = state_.step;
  log_.evaluation(state_.step, state_.at.epoch, data_.evaluated_name(), state_.metrics);
  if (observer_) observer_->on_eval(state_.step, data_.evaluated_name(), state_.metrics);
  begun_.reset();
  const bool may_decide = data_.may_decide();
  if (may_decide && c.early_stopping && state_.update_stopping(*c.early_stopping))
    end_early("early stopping");
  if (may_decide && training_.plateau && state_.step > config_.schedule.warmup) {
    training_.plateau->step(state_.metrics[metric_of(config_.schedule).value()]);
  }
  ++log_.timings.evaluations;
  log_.timings.evaluating += seconds_since(start);
  return state_.update_best(state_.best, best_goal(c));
}

void Trainer::note_begin(bool is_evaluation) {
  begun_ = {state_.at, default_generator().state(), training_.schedule->last_epoch(),
            pending_.size(), is_evaluation};
}

// --- checkpoints ---

bool Trainer::save_is_due(bool epoch_ends) const {
  const CheckpointConfig& c = config_.checkpoint;
  if (c.every && *c.every > 0) return state_.step % *c.every == 0;
  return (c.every || config_.train.on_nan == OnNan::kRollback) && epoch_ends;
}

void Trainer::save(const SaveOptions& options) {
  const Clock::time_point start = Clock::now();
  on_first([&] { finish_saving(); });
  state_.is_extra = options.is_extra;
  if (saved_step_ != state_.step || options.is_best) {
    const bool in_background = saves_in_background_ && !options.ends_run;
    Checkpoint whole = checkpoint(in_background && is_first_);
    on_first([&] { write(std::move(whole), options, in_background); });
  }
  saved_step_ = state_.step;
  saved_ = Clock::now();
  log_.timings.saving += seconds_since(start);
}

void Trainer::write(Checkpoint checkpoint, const SaveOptions& options, bool in_background) {
  const auto write_now = [this, whole = std::move(checkpoint), step = state_.step, options] {
    std::optional<cuda::DeviceGuard> guard;  // page-locked memory belongs to a device's context
    if (ranks_.device().is_cuda()) guard.emplace(ranks_.device());
    log_.sync();
    const fs::path saved = save_checkpoint(
        dir_, step, whole, config_.checkpoint.keep + options.is_extra, options.is_best);
    SignalGuard::set_newest(saved);
    return concat_to_string("saved ", saved.string(), options.is_best ? ", the best so far" : "");
  };
  writer_.start(write_now, in_background);
  if (!in_background) finish_saving();
}

void Trainer::finish_saving() {
  if (!writer_.is_busy()) return;
  is_saving_ = true;
  const int64_t step = std::exchange(saved_step_, -1);
  log_message(LogLevel::kDebug, writer_.wait());
  saved_step_ = step;
  is_saving_ = false;
}

// Saves a checkpoint. It stores no reason for the end, because a run that is resumed from it
// continues.
void Trainer::save_ended_by_observer() {
  const std::string reason = std::exchange(state_.reason, "");
  save({.is_extra = true, .ends_run = true});
  state_.reason = reason;
}

Checkpoint Trainer::checkpoint(bool is_snapshot) {
  step_.share_buffers();
  return checkpoint_of_rank(is_snapshot);
}

Checkpoint Trainer::checkpoint_of_rank(bool is_snapshot) {
  Checkpoint out;
  training_.save(out, state_.step > 0, is_snapshot);
  log_.note_position(state_);
  state_.random = default_generator().state();
  out.texts = {{kState, to_json(state_)},
               {"config.yaml", to_yaml(config_) + "\n"},
               {"data.json", to_json(data_)}};
  return out;
}

void Trainer::load(const Checkpoint& checkpoint, std::optional<double> lr_scale) {
  const std::string place =
      concat_to_string("the checkpoint '", checkpoint.path.string(), "' cannot be used: ");
  failing_as<InputError>(place, [&] {
    for (const char* name : {"model.safetensors", "optimizer.safetensors", kState}) {
      require(checkpoint.tensors.contains(name) || checkpoint.texts.contains(name), "it has no ",
              name);
    }
    state_ = state_from_json(checkpoint.texts.at(kState), loader_.steps_per_epoch());
    default_generator().set_state(state_.random);
    const double saved_scale = std::exchange(state_.lr_scale, lr_scale.value_or(state_.lr_scale));
    training_.load(checkpoint, state_.step > 0, state_.lr_scale / saved_scale);
    const bool has_changed = training_.thawing.go_to(state_.at.epoch);
    has_changed ? step_.change_trained() : step_.reset();
    pending_.clear();
    missing_lines_ = 0;
    // If the step is unfinished, its checkpoint is written again after the evaluation.
    saved_step_ = state_.is_unfinished ? -1 : state_.step;
    SignalGuard::set_newest(checkpoint.path.string());
  });
}

void Trainer::on_first(const std::function<void()>& f) {
  run_on_all_ranks(ranks_, [&] {
    if (is_first_) f();
  });
}

// --- trace and memory ---

void Trainer::end_trace() {
  const std::string file = dir_ / "trace.json";
  failing_as<DiskError>("", [&] { profiler_->export_chrome_trace(file); });
  profiler_.reset();
  log_info(concat_to_string("traced the steps up to ", state_.step,
                            step_.is_graph() ? ", which ran without a CUDA graph" : "", ": ",
                            file));
}

void Trainer::log_memory() try {
  int64_t peak = 0;
  for (const Device device : distinct_memories(devices())) peak += peak_memory(device);
  const bool holds_data = ranks_.device().is_cpu() || loader_.is_resident();
  log_.memory(state_.step, peak, estimate_memory(config_, data_, holds_data, ranks_));
} catch (const std::exception& error) {
  warn(concat_to_string("memory could not be estimated: ",
                        error.what()));  // the run is complete without it
}

}  // namespace taper::v0::runner
