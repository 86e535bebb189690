// The end of a run: chooses the weights of model.safetensors, evaluates them on the test part, and
// writes evaluation.json.
#include <optional>
#include <string>
#include <utility>

#include "apps/runner/evaluation/evaluation_file.h"
#include "apps/runner/run/ranks.h"
#include "apps/runner/run/sample_predictions.h"
#include "apps/runner/run/signals.h"
#include "apps/runner/train/trainer.h"
#include "data/series/series_dataset.h"
#include "framework/base/log.h"
#include "framework/io/input_file.h"
#include "framework/io/safetensors.h"

namespace taper::v0::runner {

void Trainer::save_model(TrainResult& result) {
  const fs::path file = dir_ / "model.safetensors", best = best_checkpoint(dir_);
  const bool is_asked_for =
      data_.validation ||
      (data_.may_decide() && (config_.train.best || config_.train.early_stopping));
  const bool use_best = is_asked_for && state_.best.step > 0 && step_of(best) == state_.best.step;
  std::optional<optim::EMA::Guard> averaged;
  if (training_.ema && state_.step > 0) averaged.emplace(*training_.ema);
  failing_as<DiskError>("cannot save the model: ", [&] {
    save_safetensors(file,
                     use_best ? tensors_of(best / file.filename()) : training_.model->state_dict());
  });
  const RunState of_best =
      use_best ? state_from_json(read_file(best / kState, "state"), INT64_MAX) : RunState();
  const RunState& saved = use_best ? of_best : state_;
  result.saved_step = saved.step;
  result.saved_epoch = saved.at.epoch;
  if (use_best || saved.evaluated_step == saved.step) result.saved_metrics = saved.metrics;
}

void Trainer::load_saved_weights() {
  constexpr const char* kModel = "model.safetensors";
  Checkpoint saved;
  on_first([&] { saved.tensors[kModel] = tensors_of(dir_ / kModel); });
  saved = *from_first(ranks_, std::move(saved));
  training_.model->load_state_dict(saved.tensors.at(kModel));
}

void Trainer::test_saved_model(TrainResult& result) {
  load_saved_weights();
  SignalGuard::set_plan("stopping after this batch of the test");
  DataInfo info = data_;
  if (chooses_threshold(config_)) choose_threshold(result, info);
  DataLoader batches = test_batches(config_, data_, ranks_);
  result.test_metrics = measure(batches, 0, info, true);
  result.test_metrics.baselines = data::baselines_of(*data_.test);
  log_.evaluation(result.saved_step, result.saved_epoch, "test", result.test_metrics);
  if (observer_) observer_->on_eval(result.saved_step, "test", result.test_metrics);
}

void Trainer::choose_threshold(TrainResult& result, DataInfo& info) {
  DataLoader batches = validation_batches(config_, data_, ranks_);
  info.thresholds = choose_thresholds(*training_.model, batches, config_, info, ranks_,
                                      stop_check(batches.steps_per_epoch()));
  result.thresholds = info.thresholds;
  result.decision = threshold_text(info.thresholds, config_, info);
  log_info(concat_to_string("threshold: ", result.decision));
  result.saved_metrics = measure(batches, 0, info, false);
  log_.evaluation(result.saved_step, result.saved_epoch, "validation", result.saved_metrics);
}

void Trainer::save_evaluation(const TrainResult& result) {
  if (data_.task == Task::kLanguage || state_.step == 0) return;
  const int64_t saved_step = std::stoll(from_first(ranks_, concat_to_string(result.saved_step)));
  DataInfo info = data_;
  info.thresholds = result.thresholds;
  Metrics measured = data_.validation ? result.test_metrics : state_.metrics;
  std::optional<optim::EMA::Guard> averaged;
  const bool is_current = !data_.validation && saved_step == state_.step;
  if (is_current && training_.ema) averaged.emplace(*training_.ema);
  if (!data_.validation && !is_current) load_saved_weights();
  if (!data_.validation && details_step_ != saved_step && ClassDetails::fits(data_)) {
    DataLoader batches = test_batches(config_, data_, ranks_);
    measured = measure(batches, 0, info, true);
  }
  training_.model->eval();
  on_first([&] {
    write_evaluation(
        dir_ / kEvaluationFile, {.split = "test", .step = saved_step}, measured.details, [&] {
          return sample_predictions(*training_.model, config_, info, *data_.test, ranks_.device());
        });
  });
}

}  // namespace taper::v0::runner
