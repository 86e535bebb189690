#include "apps/runner/train/train.h"

#include <algorithm>
#include <memory>
#include <optional>

#include <nlohmann/json.hpp>

#include "apps/runner/base/errors.h"
#include "apps/runner/base/files.h"
#include "apps/runner/base/process.h"
#include "apps/runner/memory/batch_size.h"
#include "apps/runner/report/result_warnings.h"
#include "apps/runner/run/data_info.h"
#include "apps/runner/run/evaluate.h"
#include "apps/runner/run/host_state.h"
#include "apps/runner/run/log_sink.h"
#include "apps/runner/run/ranks.h"
#include "apps/runner/run/run_directory.h"
#include "apps/runner/run/run_metadata.h"
#include "apps/runner/run/signals.h"
#include "apps/runner/train/observers.h"
#include "apps/runner/train/resume.h"
#include "apps/runner/train/trainer.h"
#include "framework/base/cancel.h"
#include "framework/base/log.h"

namespace taper::v0::runner {
namespace {

using Json = nlohmann::ordered_json;

// Shows on the terminal what the first rank of the program does.
std::optional<StatusGuard> shown_status(const char* what) {
  return owns_process() && !is_later_rank() ? std::optional<StatusGuard>(std::in_place, what)
                                            : std::nullopt;
}

void write_exit(const fs::path& dir, const Json& json) {
  write_file(dir / "exit.json", json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n");
}

// Writes the reason of a run's failure to exit.json. If that fails, too, only the first error is
// reported, and it keeps its exit code.
void write_failure(const fs::path& dir, const std::exception& error, int64_t step) try {
  write_exit(dir, {{"code", exit_code_of(error)}, {"reason", message_of(error)}, {"step", step}});
} catch (const std::exception&) {
  std::error_code ignored;
  fs::remove(dir / "exit.json", ignored);
}

// Logs and returns warnings about results that are doubtful.
std::vector<std::string> warn_of_results(const Metrics& metrics, const DataInfo& info,
                                         const fs::path& dir, const RunConfig& config) {
  std::vector<std::string> out = warnings_about_run(dir, config);
  std::ranges::move(warnings_about(metrics, info), std::back_inserter(out));
  for (const std::string& text : out) warn(text);
  return out;
}

// Returns a batch size for all ranks: the recorded one if the run is resumed, otherwise the
// smallest that any rank has chosen for its device.
int64_t agree_on_batch_size(const Communicator& ranks, std::optional<int64_t> recorded,
                            int64_t own) {
  if (ranks.size() == 1) return recorded.value_or(own);
  const std::string first = from_first(ranks, recorded ? concat_to_string(*recorded) : "");
  if (!first.empty()) return std::stoll(first);
  int64_t smallest = own;
  for (const std::string& text : ranks.all_gather_text(concat_to_string(own))) {
    smallest = std::min<int64_t>(smallest, std::stoll(text));
  }
  return smallest;
}

// Warns if the config asks for something that only a validation part may decide.
void warn_without_validation(const RunConfig& config, const data::Splits& data) {
  const TrainConfig& c = config.train;
  const char* const asked = c.early_stopping             ? "train.early_stopping"
                            : c.best                     ? "train.best"
                            : metric_of(config.schedule) ? "the plateau schedule"
                                                         : nullptr;
  if (data.may_decide() || asked == nullptr) return;
  warn(concat_to_string(data.columns ? "the table has" : "the data have",
                        " no validation part, which ", asked,
                        " needs: the run trains to its end and saves the last weights; for a "
                        "validation part, set data.split.validation, such as 0.1"));
}

// A call of train() on one rank. train() calls the public functions in their order.
class TrainingRun {
 public:
  // The arguments must outlive the object.
  TrainingRun(RunConfig& config, const fs::path& dir, const TrainOptions& options,
              const Communicator& ranks);

  // Reads the checkpoint and the data, builds the model and creates the directory. If the run
  // cannot begin, the directory of an earlier run remains unchanged.
  void prepare();
  // Writes the files that describe the run, trains, and writes the final files and checksums. If
  // that fails, writes the reason to exit.json and sets steps_done.
  TrainResult run_and_seal(int64_t& steps_done);
  // Calls the observers. An exception of an observer reaches the caller of train(), but the run
  // counts as finished.
  void report(const TrainResult& result) { observers_->on_end(result); }

 private:
  void read_inputs();
  void choose_batch_sizes();
  void build_trainer();
  void load_checkpoint();
  void make_directory();
  void write_descriptions();
  void seal(TrainResult& result);

  RunConfig& config_;
  const TrainOptions& options_;
  const Communicator& ranks_;
  const bool is_first_;
  RunLog log_;
  std::jthread device_start_;
  fs::path dir_;
  std::optional<RunLock> lock_;
  std::optional<Resumed> from_;  // on the first rank, until the run has begun
  std::optional<data::Splits> data_;
  std::optional<Observers> observers_;
  std::optional<Trainer> trainer_;
};

TrainingRun::TrainingRun(RunConfig& config, const fs::path& dir, const TrainOptions& options,
                         const Communicator& ranks)
    : config_(config),
      options_(options),
      ranks_(ranks),
      is_first_(ranks.rank() == 0),
      log_(config.log, ranks.rank()),
      device_start_(start_device(ranks.device())) {
  report_device(config, ranks.device());
  require_equal_ranks(config, ranks);
  dir_ = from_first(ranks, dir.string());
}

void TrainingRun::prepare() {
  read_inputs();
  build_trainer();
  load_checkpoint();
}

void TrainingRun::read_inputs() {
  const std::optional<StatusGuard> status = shown_status("reading the data");
  run_on_all_ranks(ranks_, [&] {
    if (is_first_) lock_ = lock_earlier_run(dir_);
    if (is_first_) from_ = find_resumed(config_, dir_, options_);
    data_ = source_of(config_.data)->load(config_.seed);
    require_fit(config_, *data_);
    data_->thresholds = checked_thresholds(config_, *data_);
    if (is_first_) warn_without_validation(config_, *data_);
    check_stop();
    require<Interrupted>(!options_.stop.stop_requested(), "ended by its program before the first ",
                         "step");
  });
  choose_batch_sizes();
}

// Chooses the batch sizes that the config leaves to the run. That of evaluations may depend on that
// of training.
void TrainingRun::choose_batch_sizes() {
  TrainConfig& c = config_.train;
  const RecordedBatchSizes recorded = from_ ? from_->batch_sizes : RecordedBatchSizes();
  std::string reason;
  run_on_all_ranks(
      ranks_, [&] { reason = set_batch_size(config_, *data_, ranks_.device(), ranks_.size()); });
  if (!reason.empty()) {
    c.batch_size = agree_on_batch_size(ranks_, recorded.train, c.batch_size);
    if (is_first_ && !recorded.train) log_info(reason);
  }
  int64_t eval_batch_size = 0;
  run_on_all_ranks(ranks_,
                   [&] { eval_batch_size = choose_eval_batch_size(config_, *data_, ranks_); });
  c.eval_batch_size = agree_on_batch_size(ranks_, recorded.eval, eval_batch_size);
}

void TrainingRun::build_trainer() {
  run_on_all_ranks(ranks_, [&] {
    observers_.emplace(options_.observer, config_.callbacks, CallbackSite{dir_, *data_, is_first_});
    trainer_.emplace(config_, *data_, ranks_, dir_, observers_->any());
  });
}

void TrainingRun::load_checkpoint() {
  const std::optional<Checkpoint> checkpoint =
      from_first(ranks_, from_ ? std::optional(from_->checkpoint) : std::nullopt);
  run_on_all_ranks(ranks_, [&] {
    if (checkpoint) trainer_->load(*checkpoint);
    if (!checkpoint) trainer_->load_init();
    trainer_->set_options(options_);
    require<ConfigError>(trainer_->step() <= trainer_->steps(), "the checkpoint has ",
                         trainer_->step(), " steps and the run only ", trainer_->steps(),
                         ": nothing is left to train; increase train.epochs or train.steps");
    if (is_first_) make_directory();
  });
}

void TrainingRun::make_directory() {
  if (from_) prepare_to_resume(dir_, *from_, trainer_->step(), lock_);
  if (!from_) make_run_directory(dir_, lock_);
  log_.open(dir_);
  if (from_) report_resumed(*from_, trainer_->step(), trainer_->lr());
}

TrainResult TrainingRun::run_and_seal(int64_t& steps_done) try {
  write_descriptions();
  TrainResult result = trainer_->run();
  result.is_first_rank = is_first_;
  seal(result);
  steps_done = result.steps;
  return result;
} catch (const std::exception& error) {
  steps_done = trainer_->step();
  log_.write(LogLevel::kError, error.what());
  if (is_first_) write_failure(dir_, error, steps_done);
  throw;
}

// Writes the files whose contents are known before the first step. Frees the checkpoint.
void TrainingRun::write_descriptions() {
  run_on_all_ranks(ranks_, [&] {
    if (!is_first_) return log_.open(dir_);
    const std::string yaml = to_yaml(config_) + "\n";
    const bool has_changed = from_ && !from_->changes.empty();
    note_phase(dir_, trainer_->step(),
               has_changed ? from_->checkpoint.texts.at("config.yaml") : yaml, yaml);
    write_file(dir_ / "config.yaml", yaml);
    write_file(dir_ / "data.json", to_json(*data_));
    write_env(dir_, config_, ranks_.device(), from_ ? from_->run : fs::path());
    write_run_checksums(dir_, false);
  });
  from_.reset();
}

// Writes exit.json and the checksums of all files. Adds warnings to the result.
void TrainingRun::seal(TrainResult& result) {
  run_on_all_ranks(ranks_, [&] {
    if (!is_first_) return;
    Json end = {{"code", kExitOk},
                {"reason", result.reason.empty() ? "finished" : result.reason},
                {"step", result.steps},
                {"model_step", result.saved_step},
                {"best_step", result.best_step}};
    const Metrics& measured = !result.test_metrics.values.empty()    ? result.test_metrics
                              : !result.saved_metrics.values.empty() ? result.saved_metrics
                                                                     : result.metrics;
    if (!result.thresholds.empty()) {
      end["threshold"] = *config_.threshold;
      end["thresholds"] = result.thresholds;
    }
    result.warnings = warn_of_results(measured, *data_, dir_, config_);
    if (!result.warnings.empty()) end["warnings"] = result.warnings;
    write_exit(dir_, end);
    write_run_checksums(dir_, true);
  });
}

}  // namespace

TrainResult train(const RunConfig& asked, const fs::path& dir, const TrainOptions& options) {
  check_config(asked);
  require<ConfigError>(options.stop_after_steps == 0 || options.stop_after_epochs == 0,
                       "give either ", for_caller("--stop-after-steps", "stop_after_steps"), " or ",
                       for_caller("--stop-after-epochs", "stop_after_epochs"), ", not both");
  RunConfig config = asked;
  if (config.name.empty()) config.name = "run";
  std::optional<SignalGuard> signals;
  if (owns_process()) signals.emplace(is_later_rank());
  const ConsoleGuard console(config.log);
  const HostStateGuard host;
  std::optional<StatusGuard> status = shown_status("starting");
  const Communicator ranks = set_up_ranks(config);
  status.reset();
  int64_t steps_done = 0;
  try {
    TrainingRun run(config, dir, options, ranks);
    run.prepare();
    const TrainResult result = run.run_and_seal(steps_done);
    run.report(result);
    return result;
  } catch (const std::exception& error) {
    if (ranks.size() == 1) throw;
    abort_rank(ranks, error, steps_done);
  }
}

}  // namespace taper::v0::runner
