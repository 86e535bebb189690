// `taper record` and `taper bless`: write the sections of a recording.
#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>
#include <optional>

#include <fmt/format.h>

#include "apps/runner/base/files.h"
#include "apps/runner/base/process.h"
#include "apps/runner/base/writable.h"
#include "apps/runner/gate/cause.h"
#include "apps/runner/gate/seeds.h"
#include "framework/cuda/cuda.h"
#include "framework/gate/blessing.h"
#include "framework/gate/golden_text.h"
#include "framework/host/file_lock.h"
#include "framework/host/thread_pool.h"

namespace taper::v0::runner {
namespace {

const std::vector<std::string> kCoverNames(std::begin(Cover::kWords), std::end(Cover::kWords));
// A derived tolerance is this multiple of the largest difference that was measured, because a few
// repetitions do not meet the largest one that is possible.
constexpr double kToleranceMargin = 2;

bool covers(const RecordOptions& options, Cover cover) {
  return std::ranges::count(options.cover, cover) > 0;
}

Repetition changed(std::vector<Phase> phases, const std::string& name, auto change) {
  for (Phase& phase : phases) change(phase.config);
  return {name, std::move(phases)};
}

// The numbers of threads from 1 to those of the machine, in powers of two.
void add_threads(std::vector<Repetition>& out, const std::vector<Phase>& phases) {
  const int most = std::max(2, get_num_threads());
  for (int threads = 1; threads <= most; threads *= 2) {
    out.push_back(changed(phases, concat_to_string("threads ", threads),
                          [&](RunConfig& c) { c.threads = threads; }));
  }
}

void add_devices(std::vector<Repetition>& out, const std::vector<Phase>& phases) {
  if (!cuda::is_available()) {
    throw DeviceUnavailable(
        concat_to_string("--cover device needs a GPU: ", cuda::unavailable_reason()));
  }
  for (const char* device : {"cpu", "cuda"}) {
    out.push_back(changed(phases, concat_to_string("device ", device), [&](RunConfig& c) {
      c.device = device;
      c.model.placement.clear();
    }));
  }
}

void add_precisions(std::vector<Repetition>& out, const std::vector<Phase>& phases) {
  constexpr std::array kPrecisions = {std::pair("fp32", Precision::kFp32),
                                      std::pair("bf16", Precision::kBf16)};
  for (const auto& [name, precision] : kPrecisions) {
    out.push_back(changed(phases, concat_to_string("precision ", name),
                          [&, p = precision](RunConfig& c) { c.train.precision = p; }));
  }
}

// Raises `spread` to the largest relative difference of each metric between the rows.
void widen(Tolerances& spread, const std::vector<Recording::Row>& got,
           const std::vector<Recording::Row>& want) {
  for (size_t i = 0; i < std::min(got.size(), want.size()); ++i) {
    for (const auto& [metric, value] : want[i]) {
      if (metric == "step" || metric == "state" || !got[i].contains(metric)) continue;
      const double x = recorded_number(metric, got[i].at(metric));
      const double y = recorded_number(metric, value);
      double& most = spread[metric];
      if (x != y && y != 0) most = std::max(most, std::abs(x - y) / std::abs(y));
    }
  }
}

// Trains what `cover` names, and returns the spread of each metric against `own`.
Tolerances measure_spread(const Recording& own, const std::vector<Phase>& phases,
                          const RecordOptions& options,
                          const std::vector<std::vector<Recording::Row>>& seeds) {
  std::vector<Repetition> repetitions;
  if (covers(options, Cover::kThreads)) add_threads(repetitions, phases);
  if (covers(options, Cover::kDevice)) add_devices(repetitions, phases);
  if (covers(options, Cover::kPrecision)) add_precisions(repetitions, phases);
  Tolerances out;
  // One after the other: child processes would share the threads that are measured.
  for (const auto& rows : train_all(repetitions, options, {})) widen(out, rows, own.rows);
  if (!covers(options, Cover::kSeeds)) return out;
  for (const auto& rows : seeds) widen(out, rows, own.rows);
  return out;
}

// Returns the given tolerances, or those that follow from the spread. Throws ConfigError if a given
// one is tighter than the spread.
Tolerances tolerances_for(const Tolerances& given, const Tolerances& spread) {
  Tolerances out = given;
  for (const auto& [metric, most] : spread) {
    if (most == 0) continue;
    if (given.empty()) out[metric] = kToleranceMargin * most;
    const auto named = given.find(metric), rest = given.find("");
    const double allowed = named != given.end()  ? named->second
                           : rest != given.end() ? rest->second
                                                 : 0;
    if (!given.empty() && allowed < most) {
      throw ConfigError(
          fmt::format("the tolerance of {}, {:g}, is tighter than the spread that was "
                      "measured, {:.3g}; give at least that, or --tolerance auto",
                      metric, allowed, most));
    }
  }
  return out;
}

// Repeats the run with its own seed.
Recording record_own(const fs::path& run, const std::vector<Phase>& phases,
                     const RecordOptions& options) {
  const TemporaryDirectory scratch;
  return record_again(run, phases, scratch.path() / "run", options);
}

// Records the other seeds of a run and its spread, and returns them as a section with its own
// numbers.
GoldenSection section_of(const Recording& own, const std::vector<Phase>& phases,
                         const RecordOptions& options) {
  std::vector<std::vector<Recording::Row>> rows = {own.rows};
  const std::vector<int64_t> seeds = seeds_from(int64_t(phases.back().config.seed), options.seeds);
  std::vector<Repetition> others;
  for (size_t i = 1; i < seeds.size(); ++i) others.push_back(with_seed(phases, seeds[i]));
  const Jobs jobs = jobs_for(own.metadata, phases, options.jobs);
  std::ranges::move(train_all(others, options, jobs), std::back_inserter(rows));
  GoldenSection section;
  section.metadata = own.metadata;
  section.rows = own.rows;
  if (!seeds.empty()) section.curves = curves_of_seeds(seeds, rows);
  section.spread = measure_spread(own, phases, options, rows);
  section.tolerances = tolerances_for(options.tolerances, section.spread);
  for (const Cover cover : options.cover) section.cover.push_back(cover.word());
  return section;
}

void require_seeds_for(const RecordOptions& options) {
  require<ConfigError>(options.seeds == 0 || options.seeds >= kFewestSeeds,
                       for_caller("--seeds", "RecordOptions.seeds"), " is ", options.seeds,
                       "; statistics need at least ", kFewestSeeds,
                       " seeds (0 records the bits of the run's own seed only)");
  require<ConfigError>(!covers(options, Cover::kSeeds) || options.seeds > 0,
                       "--cover seeds needs --seeds");
}

// Throws ConfigError if the file is for another config.
void require_same_config(const Golden& golden, const Recording& own, const RecordOptions& options,
                         const std::string& file) {
  if (const std::string found = relevant_differences(own.config, golden.config); !found.empty()) {
    throw ConfigError(concat_to_string(file, " records another config (the run | the recording):\n",
                                       found, "record to another file"));
  }
  require<ConfigError>(golden.steps == options.steps && golden.state_every == options.state_every,
                       file, " has --steps ", golden.steps, " and --state-every ",
                       golden.state_every, "; a new section must have the same");
}

// Returns the verdict if the file has these numbers already. Throws ConfigError if it cannot take
// them.
std::optional<Verdict> verdict_on_existing(const Golden& golden, const Recording& own,
                                           const RecordOptions& options, const std::string& file) {
  require_same_config(golden, own, options, file);
  const ChosenSection chosen = choose_section(golden, own.metadata);
  if (!chosen.matches) return {};
  require<ConfigError>(chosen.section.rows == own.rows, "section ", chosen.number, " of ", file,
                       " is for this machine (", platform_text(own.metadata.program),
                       ") and has other numbers; `taper bless` replaces it");
  return Verdict{true, concat_to_string("section ", chosen.number, " of ", file,
                                        " already has these numbers; nothing was written\n")};
}

std::string summary_of(const GoldenSection& section, const std::string& head) {
  std::string out = concat_to_string(head, section.rows.size(), " steps and evaluations");
  if (const size_t seeds = section.curves.seeds.size()) {
    out += concat_to_string(", curves of ", seeds, " seeds");
  }
  for (const auto& [metric, tolerance] : section.tolerances) {
    out += fmt::format("\n  tolerance of {}: {:.3g}", metric.empty() ? "all metrics" : metric,
                       tolerance);
  }
  return out + "\n";
}

// --- bless ---

// Returns who blesses. Throws ConfigError if author or reason is missing.
std::string author_of(const BlessOptions& options) {
  require<ConfigError>(
      is_reason(options.reason), "bless needs a reason: ",
      for_caller("--reason \"why the new numbers are right\"", "BlessOptions.reason"));
  std::string author = options.author.empty() ? git_author() : options.author;
  require<ConfigError>(!author.empty(),
                       "bless needs an author: `git config user.name` is empty; "
                       "set it, or give ",
                       for_caller("--author", "BlessOptions.author"));
  return author;
}

std::vector<Cover> covers_of(const GoldenSection& section) { return parse_covers(section.cover); }

// Returns the options with which a section was recorded. Derived tolerances are derived again,
// given ones are kept.
RecordOptions options_of(const Golden& golden, const GoldenSection& section) {
  const bool is_derived = section.tolerances == tolerances_for({}, section.spread);
  return {.steps = golden.steps,
          .state_every = golden.state_every,
          .tolerances = is_derived ? Tolerances() : section.tolerances,
          .seeds = std::ssize(section.curves.seeds),
          .cover = covers_of(section)};
}

// Throws ConfigError if the numbers of the run cannot replace the section.
void require_blessable(const Golden& golden, const ChosenSection& chosen, const Recording& own,
                       const std::string& file) {
  require<ConfigError>(chosen.matches, file, " has no section for this machine (",
                       platform_text(own.metadata.program), "); `taper record` adds one");
  const bool is_only = golden.sections.size() == 1 && chosen.section.also.empty();
  require<ConfigError>(is_only || relevant_differences(own.config, golden.config).empty(),
                       "the run has another config than the other sections of ", file,
                       "; record all of them to a new file");
}

}  // namespace

std::vector<Cover> parse_covers(const std::vector<std::string>& words) {
  std::vector<Cover> out;
  for (const std::string& word : words) {
    for (const std::string& name : lines_of(word, ',')) {
      const auto found = std::ranges::find(kCoverNames, name);
      if (found == kCoverNames.end()) {
        throw ConfigError(concat_to_string("--cover ", in_quotes(name), ": expected ",
                                           joined(kCoverNames),
                                           did_you_mean(nearest(name, kCoverNames))));
      }
      const Cover cover = Cover::Value(found - kCoverNames.begin());
      if (std::ranges::count(out, cover) == 0) out.push_back(cover);
    }
  }
  return out;
}

Verdict record(const fs::path& run, const fs::path& to, const RecordOptions& options) {
  std::vector<Phase> phases = phases_of_run(run);
  require_seeds_for(options);
  check_writable(to);
  if (fs::exists(to)) keep_batch_sizes(phases, load_run_golden(to).config);
  const Recording own = record_own(run, phases, options);
  const auto on_existing = [&](const Golden& golden) {
    return verdict_on_existing(golden, own, options, to.string());
  };
  if (fs::exists(to)) {  // before the other seeds are trained
    if (const auto known = on_existing(load_run_golden(to))) return *known;
  }
  const GoldenSection section = section_of(own, phases, options);
  const FileLockGuard lock(to);
  Golden golden{.config = own.config, .steps = options.steps, .state_every = options.state_every};
  if (fs::exists(to)) {  // another process may have added a section meanwhile
    golden = load_run_golden(to);
    if (const auto known = on_existing(golden)) return *known;
  }
  const AddedSection added =
      failing_as<ConfigError>(to.string() + ": ", [&] { return add_section(golden, section); });
  save_golden(golden, to);
  if (added.existed) {
    return {true, concat_to_string("section ", added.number, " of ", to.string(),
                                   " has the same numbers; it is now for this machine, too\n")};
  }
  return {true, summary_of(section, "recorded ")};
}

Verdict bless(const fs::path& run, const fs::path& file, const BlessOptions& options) {
  const std::string author = author_of(options);
  const Golden before = load_run_golden(file);
  check_writable(file);
  std::vector<Phase> phases = phases_of_run(run);
  keep_batch_sizes(phases, before.config);
  const Recording own =
      record_own(run, phases, {.steps = before.steps, .state_every = before.state_every});
  const ChosenSection old = choose_section(before, own.metadata);
  require_blessable(before, old, own, file.string());
  const GoldenSection section = section_of(own, phases, options_of(before, old.section));
  if (section.rows == old.section.rows && section.curves.rows == old.section.curves.rows &&
      relevant_differences(own.config, before.config).empty()) {
    return {true, "the numbers are as recorded; nothing was written\n"};
  }
  const FileLockGuard lock(file);
  Golden golden = load_run_golden(file);  // other sections may have changed meanwhile
  const ChosenSection chosen = choose_section(golden, own.metadata);
  require<InputError>(chosen.matches && section_checksum(golden, chosen.section) ==
                                            section_checksum(before, old.section),
                      file.string(), " was changed by another process while the run was trained, ",
                      "so nothing was written; look at its history, and bless again");
  golden.history.push_back(history_entry(chosen.section, section, author, options.reason));
  const AddedSection now = failing_as<ConfigError>(
      file.string() + ": ", [&] { return replace_section(golden, chosen, section); });
  golden.config = own.config;
  save_golden(golden, file);
  return {true, summary_of(section, concat_to_string("replaced section ", now.number, ": "))};
}

}  // namespace taper::v0::runner
