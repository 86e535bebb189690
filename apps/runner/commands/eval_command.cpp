// `taper eval`.
#include <algorithm>
#include <cstdint>
#include <iterator>
#include <memory>
#include <utility>
#include <vector>

#include "apps/runner/commands/commands.h"
#include "apps/runner/report/progress.h"
#include "apps/runner/report/result_warnings.h"
#include "apps/runner/run/batches.h"
#include "apps/runner/run/data_info.h"
#include "apps/runner/run/evaluate.h"
#include "apps/runner/run/log_sink.h"
#include "apps/runner/run/run_metadata.h"
#include "data/series/series_dataset.h"
#include "data/split.h"
#include "data/tables/table_targets.h"
#include "framework/base/cancel.h"
#include "framework/base/log.h"

namespace taper::v0::runner {

// Removes the rows of a table whose target is missing, and logs how many there are.
static data::DatasetPtr rows_with_targets(data::DatasetPtr rows, const DataInfo& info,
                                          const fs::path& file) {
  const auto* table = dynamic_cast<const data::TensorDataset*>(rows.get());
  if (!info.columns || table == nullptr) return rows;
  const std::vector<int64_t> known = data::rows_with_targets(*info.columns, table->all().targets);
  const int64_t missing = rows->size() - std::ssize(known);
  if (missing == 0) return rows;
  require<InputError>(!known.empty(), file.string(), ": the target is missing in all of its ",
                      rows->size(), " rows; `taper predict` works without it");
  warn(concat_to_string(file.string(), ": ", missing, missing == 1 ? " row" : " rows",
                        " without a target left out"));
  return std::make_shared<data::Subset>(std::move(rows), known);
}

// Measures the run's model on all batches, with a bar if that takes longer than a second.
static Metrics measured(const SavedRun& run, DataLoader& batches) {
  WorkProgress bar("evaluating", "batches", batches.steps_per_epoch());
  return evaluate(*run.model, batches, 0, run.config, run.info,
                  distributed::Communicator::alone(run.device), [&](int64_t number) {
                    check_stop();
                    bar.show(number);
                  });
}

std::string evaluate_run(const SavedRun& run, const fs::path& file) {
  const auto source = source_of(run.config.data);
  data::DatasetPtr rows;
  if (!file.empty()) {
    rows = source->more(run.info, file);
    require<InputError>(
        std::ranges::count(rows->fields(), "targets") > 0, file.string(),
        ": has no labels, which an evaluation needs; `taper predict` works without them");
    const data::BrokenSamples broken = rows->broken();
    require<InputError>(broken.is_allowed, broken.text);
    if (!broken.text.empty()) warn(broken.text);
    rows = rows_with_targets(std::move(rows), run.info, file);
  } else {
    const data::Splits whole = source->load(run.config.seed);
    require<InputError>(are_same_data(whole, run.info),
                        "the training data differ from those of the run (data.json) in classes, "
                        "columns, scales or vocabulary; use --data FILE");
    rows = whole.test;
    if (const std::string changed = changed_data(run.dir, run.config); !changed.empty()) {
      warn(concat_to_string("the data files have changed since the run was trained (then | now):\n",
                            changed));
    }
  }
  DataLoader batches(rows,
                     {.batch_size = eval_batch_size_of(run.config, run.info),
                      .on_device = run.config.data.on_device},
                     run.device, run.config.seed);
  const std::string weights =
      run.step < 0 ? "" : concat_to_string("weights:         step ", run.step, "\n");
  const std::string decision = threshold_text(run.info.thresholds, run.config, run.info);
  Metrics metrics = measured(run, batches);
  metrics.baselines = data::baselines_of(*rows);
  std::string text = concat_to_string(
      weights, decision.empty() ? "" : concat_to_string("threshold:       ", decision, "\n"),
      "samples:         ", rows->size(), "\n", to_text(metrics, "test", run.info));
  for (const std::string& warning : warnings_about(metrics, run.info)) {
    text += concat_to_string("warning:         ", warning, "\n");
  }
  return text;
}

Command eval_command() {
  struct Eval : RunArguments {
    std::string data;
    void describe(Schema& v) {
      describe_run(v);
      describe_overrides(v);
      v("--data", data, "file or folder with labels to use instead of the run's test data");
    }
    int operator()() const {
      const SavedRun opened = open();
      return print(with_status("reading the data", [&] { return evaluate_run(opened, data); }));
    }
  };
  return command_of<Eval>("eval", "Evaluate a run's model on its test data or on other data",
                          "taper eval runs/d\ntaper eval runs/iris device=cpu --data more.csv");
}

}  // namespace taper::v0::runner
