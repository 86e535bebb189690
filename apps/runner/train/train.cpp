#include "apps/runner/train/train.h"

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <optional>

#include <nlohmann/json.hpp>

#include "apps/runner/base/errors.h"
#include "apps/runner/base/files.h"
#include "apps/runner/base/process.h"
#include "apps/runner/report/result_warnings.h"
#include "apps/runner/run/data_info.h"
#include "apps/runner/run/host_state.h"
#include "apps/runner/run/log_sink.h"
#include "apps/runner/run/memory_estimate.h"
#include "apps/runner/run/ranks.h"
#include "apps/runner/run/run_directory.h"
#include "apps/runner/run/run_metadata.h"
#include "apps/runner/run/signals.h"
#include "apps/runner/train/resume.h"
#include "apps/runner/train/trainer.h"
#include "framework/base/cancel.h"
#include "framework/base/log.h"
#include "framework/io/input_file.h"

namespace taper::v0::runner {
namespace {

// All observers of a run, as one: that of train()'s caller, and the callbacks of the config.
class Observers : public Observer {
 public:
  // `first` may be null. Throws what the factory of a callback throws.
  Observers(Observer* first, const std::vector<Component>& config, const CallbackSite& site) {
    if (first) all_.push_back({first, nullptr});
    for (const Component& each : config) {
      callbacks_.push_back(callbacks().make(each, site));
      all_.push_back({callbacks_.back().get(), &each});
    }
  }

  // Null where nobody looks on.
  Observer* any() { return all_.empty() ? nullptr : this; }

  void on_start(Module& model) override {
    call_each([&](Observer& each) { each.on_start(model); });
  }
  // True only where all say so; each is asked.
  bool on_step(int64_t step, double loss, double grad_norm) override {
    bool goes_on = true;
    call_each([&](Observer& each) { goes_on = each.on_step(step, loss, grad_norm) && goes_on; });
    return goes_on;
  }
  void on_eval(int64_t step, const std::string& split, const Metrics& metrics) override {
    call_each([&](Observer& each) { each.on_eval(step, split, metrics); });
  }
  void on_end(const TrainResult& result) override {
    call_each([&](Observer& each) { each.on_end(result); });
  }

 private:
  struct Named {
    Observer* observer;
    const Component* callback;  // null: of train()'s caller
  };

  // The program names the callback that has thrown. A host that has called train() gets the
  // exception itself.
  template <class F> void call_each(F f) {
    for (const Named& each : all_) {
      try {
        f(*each.observer);
      } catch (const std::exception& error) {
        if (each.callback && owns_process()) callbacks().refuse_call(*each.callback, error);
        throw;
      }
    }
  }

  std::vector<std::unique_ptr<Observer>> callbacks_;
  std::vector<Named> all_;
};
using Json = nlohmann::ordered_json;

void write_exit(const fs::path& dir, const Json& json) {
  write_file(dir / "exit.json", json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n");
}

void note_end(const fs::path& dir, const std::exception& error, int64_t step) try {
  write_exit(dir, {{"code", exit_code_of(error)}, {"reason", message_of(error)}, {"step", step}});
} catch (const std::exception&) {
  std::error_code ignored;  // the first error says more, and keeps its exit code
  fs::remove(dir / "exit.json", ignored);
}

// Warns of all that makes the results doubtful, and returns it.
std::vector<std::string> doubts_about(const Metrics& metrics, const DataInfo& info,
                                      const fs::path& dir, const RunConfig& config) {
  std::vector<std::string> out = warnings_about_run(dir, config);
  std::ranges::move(warnings_about(metrics, info), std::back_inserter(out));
  for (const std::string& text : out) warn(text);
  return out;
}

// The batch size of evaluations on all ranks: that which a run that goes on has recorded, or the
// least of those that the ranks' devices take.
int64_t agree_on_eval_batch_size(const Communicator& ranks, std::optional<int64_t> recorded,
                                 int64_t own) {
  if (ranks.size() == 1) return recorded.value_or(own);
  const std::string first = from_first(ranks, recorded ? cat(*recorded) : "");
  if (!first.empty()) return std::stoll(first);
  int64_t least = own;
  for (const std::string& text : ranks.all_gather_text(cat(own))) {
    least = std::min<int64_t>(least, std::stoll(text));
  }
  return least;
}

}  // namespace

TrainResult train(const RunConfig& asked, const fs::path& given, const TrainOptions& options) {
  RunConfig config = asked;
  std::optional<SignalScope> signals;
  if (owns_process()) signals.emplace(is_later_rank());
  const ConsoleGuard console(config.log);
  const HostStateGuard host;
  const Communicator ranks = set_up_ranks(config);
  const bool is_first = ranks.rank() == 0;
  int64_t step = 0;
  try {
    RunLog log(config.log, ranks.rank());
    report_device(config, ranks.device());
    require_equal_ranks(config, ranks);
    const fs::path dir = from_first(ranks, given.string());
    std::optional<RunLock> lock;
    std::optional<Resumed> from;
    std::optional<data::Splits> data;
    std::optional<Observers> observers;
    std::optional<Trainer> trainer;
    int64_t eval_batch_size = 0;
    together(ranks, [&] {
      if (is_first) lock_earlier_run(dir, lock);
      if (is_first) from = find_resumed(config, dir, options);
      data = source_of(config.data)->load(config.seed);
      check_stop();
      require<Interrupted>(!options.stop.stop_requested(), "ended by its program before the first ",
                           "step");
      eval_batch_size = choose_eval_batch_size(config, *data, ranks);
    });
    config.train.eval_batch_size = agree_on_eval_batch_size(
        ranks, from ? from->eval_batch_size : std::nullopt, eval_batch_size);
    together(ranks, [&] {
      observers.emplace(options.observer, config.callbacks, CallbackSite{dir, *data, is_first});
      trainer.emplace(config, *data, ranks, dir, observers->any());
    });
    const std::optional<Checkpoint> checkpoint =
        from_first(ranks, from ? std::optional(from->checkpoint) : std::nullopt);
    together(ranks, [&] {
      if (checkpoint) trainer->load(*checkpoint);
      require<ConfigError>(trainer->step() <= trainer->steps(), "the checkpoint has ",
                           trainer->step(), " steps and the run only ", trainer->steps(),
                           ": nothing is left to train; take more train.epochs or train.steps");
      if (!is_first) return;
      // Only now: a run that cannot start leaves the directory of an earlier one alone.
      if (from) prepare_to_resume(dir, *from, trainer->step(), lock);
      if (!from) make_run_directory(dir, lock);
      log.open(dir);
      if (from) say_resumed(*from, trainer->step(), trainer->lr());
    });
    TrainResult result;
    try {
      together(ranks, [&] {
        if (!is_first) return log.open(dir);
        const std::string yaml = to_yaml(config) + "\n";
        const bool has_changed = from && !from->changes.empty();
        note_phase(dir, trainer->step(),
                   has_changed ? from->checkpoint.texts.at("config.yaml") : yaml, yaml);
        write_file(dir / "config.yaml", yaml);
        write_file(dir / "data.json", to_json(*data));
        write_env(dir, config, ranks.device());
        write_run_checksums(dir, false);
      });
      from.reset();
      result = trainer->run(options.stop_at, options.stop);
      result.is_first_rank = is_first;
      together(ranks, [&] {
        if (!is_first) return;
        Json end = {{"code", kExitOk},
                    {"reason", result.reason.empty() ? "finished" : result.reason},
                    {"step", result.steps},
                    {"model_step", result.saved_step},
                    {"best_step", result.best_step}};
        const bool is_measured = !result.saved_metrics.values.empty();
        result.warnings =
            doubts_about(is_measured ? result.saved_metrics : result.metrics, *data, dir, config);
        if (!result.warnings.empty()) end["warnings"] = result.warnings;
        write_exit(dir, end);
        write_run_checksums(dir, true);
      });
    } catch (const std::exception& error) {
      step = trainer->step();
      log.write(LogLevel::error, error.what());
      if (is_first) note_end(dir, error, step);
      throw;
    }
    // The files are sealed: what a callback throws from here on reaches the caller, but the run
    // stays finished.
    step = result.steps;
    observers->on_end(result);
    return result;
  } catch (const std::exception& error) {
    if (ranks.size() == 1) throw;
    leave(ranks, error, step);
  }
}

}  // namespace taper::v0::runner
