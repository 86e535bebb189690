#include "apps/runner/programs/commit_tester.h"

#include <algorithm>
#include <array>

#include <unistd.h>

#include "apps/runner/base/files.h"
#include "apps/runner/base/string_utils.h"
#include "apps/runner/programs/bisect.h"
#include "framework/base/log.h"

namespace taper::v0::runner {
namespace {

constexpr int kLead = 2;  // by how many runs a verdict must lead

// Returns the last line of a program's output that is not empty.
std::string last_line(const std::string& text) {
  std::string out;
  for (const std::string& line : lines_of(text)) {
    if (line.find_first_not_of(" \t\r") != std::string::npos) out = line;
  }
  return out;
}

int64_t step_of(const Recording::Row& row) { return std::stoll(row.at("step")); }

fs::path run_file(const fs::path& dir, const std::string& commit, int number, const char* suffix) {
  return dir / "runs" / concat_to_string(commit, "-", number, suffix);
}

// Returns the verdict on one run: good, bad or skipped.
TestedCommit verdict_on(const CommitRun& run, const BisectReference& reference) {
  if (!run.recording) {
    // A loss that is not finite is a difference; other failures say nothing about the numbers.
    const bool is_bad = run.code == kExitData;
    return {.verdict = is_bad ? kIsBad : kIsSkipped, .why = failure_of(run)};
  }
  const Verdict found = compare(*run.recording, reference.recording, {});
  return {.verdict = found.passed ? kIsGood : kIsBad,
          .why = found.passed ? "" : found.text,
          .step = found.step};
}

// The verdicts on the runs of one commit.
class Tally {
 public:
  void add(TestedCommit verdict) {
    int& count = counts_[verdict.verdict];
    if (++count == 1) first_[verdict.verdict] = std::move(verdict);
    ++runs_;
  }
  // Returns the verdict that leads by kLead runs.
  std::optional<TestedCommit> decided() const {
    for (const auto& [verdict, count] : counts_) {
      const bool leads =
          std::ranges::all_of(counts_, [&, v = verdict, n = count](const auto& other) {
            return other.first == v || n - other.second >= kLead;
          });
      if (leads && count >= kLead) return first_.at(verdict);
    }
    return {};
  }
  // Describes the runs if their verdicts differ, as "3 of 4 runs are good, 1 is bad".
  std::string disagreement() const {
    if (counts_.size() < 2) return "";
    std::string out;
    for (const auto& [verdict, count] : counts_) {
      out += concat_to_string(out.empty() ? "" : ", ", count,
                              out.empty() ? concat_to_string(" of ", runs_, " runs") : "",
                              count == 1 ? " is " : " are ", verdict);
    }
    return out;
  }

 private:
  std::map<std::string, int> counts_{};
  std::map<std::string, TestedCommit> first_{};
  int runs_ = 0;
};

}  // namespace

std::string failure_of(const CommitRun& run) {
  if (run.code == CommitRun::kNotBuilt) return run.text;
  return concat_to_string("its training fails with exit code ", run.code, ": ",
                          last_line(run.text));
}

BisectReference reference_up_to(Recording recording, const std::string& step) {
  if (step.empty()) return {recording, recording.steps};
  const int64_t last = std::stoll(step);
  bool has_evaluation = false;
  std::erase_if(recording.rows, [&](const auto& row) { return step_of(row) > last; });
  for (const Recording::Row& row : recording.rows)
    has_evaluation = has_evaluation || (step_of(row) == last && !row.contains("loss"));
  recording.steps = last;
  // A recording ends before the evaluation after its last step.
  return {recording, has_evaluation ? last + 1 : last};
}

CommitTester::CommitTester(const BisectState& state, const fs::path& dir)
    : state_(state),
      dir_(dir),
      worktree_(dir / "worktree"),
      repository_(state.started_in, dir),
      git_(worktree_, dir) {
  fs::create_directories(dir / "runs");
  add_worktree();
}

void CommitTester::add_worktree() const {
  std::error_code none;
  const bool is_left = fs::is_directory(worktree_) &&
                       git_.try_run({"rev-parse", "--show-toplevel"}) == fs::canonical(worktree_);
  if (!is_left) {
    remove_worktree();
    (void)repository_(
        {"worktree", "add", "--detach", "--no-checkout", worktree_.string(), state_.bad});
    return;
  }
  for (const char* name : {"index.lock", "HEAD.lock"}) {  // of a git that was killed
    const auto lock = git_.try_run({"rev-parse", "--git-path", name});
    if (lock) fs::remove(worktree_ / *lock, none);
  }
}

void CommitTester::remove_worktree() const {
  std::error_code none;
  (void)repository_.try_run({"worktree", "remove", "--force", "--force", worktree_.string()});
  fs::remove_all(worktree_, none);
  (void)repository_.try_run({"worktree", "prune"});
}

ProgramRun CommitTester::program_run() const {
  return {.program = (worktree_ / state_.program).string(),
          .run = dir_ / "config.yaml",
          .scratch = dir_,
          .directory = state_.started_in};
}

std::string CommitTester::build_once(const std::string& commit) {
  const fs::path program = worktree_ / state_.program, log = dir_ / "build.log";
  std::error_code none;
  fs::remove(program, none);  // must not remain from another commit
  (void)git_({"checkout", "--force", "--quiet", "--detach", commit});
  const std::vector<std::string>& words = state_.build;
  const ProgramEnd end = run_program(
      {.words = words.size() == 1 ? std::vector<std::string>{"/bin/sh", "-c", words[0]} : words,
       .log = log,
       .directory = worktree_,
       .unset = git_variables()});
  if (end.is_missing()) return concat_to_string("the build command cannot be run: ", words[0]);
  if (end.code != kExitOk) {
    return concat_to_string("it does not build (exit code ", end.code, "): ", last_line(end.text));
  }
  if (::access(program.c_str(), X_OK) == 0) return "";
  return concat_to_string("its build makes no program ", state_.program, " (--program)");
}

std::string CommitTester::build(const std::string& commit) {
  if (built_ == commit) return "";
  built_.clear();
  const std::string first = build_once(commit);
  if (!first.empty()) {
    log_info(concat_to_string(first, "; trying again"));
    if (const std::string second = build_once(commit); !second.empty()) return second;
    flaky_builds_[commit] = concat_to_string("its first build failed: ", first);
  }
  built_ = commit;
  return "";
}

CommitRun CommitTester::record(const std::string& commit, int64_t steps, int64_t state_every,
                               const fs::path& to) {
  if (const std::string why = build(commit); !why.empty()) return {CommitRun::kNotBuilt, why};
  const fs::path part = dir_ / "run.json";
  const ProgramEnd end =
      try_record(program_run(), {.steps = steps, .state_every = state_every}, part);
  if (end.code != kExitOk) return {end.code, end.text};
  fs::rename(part, to);  // a killed search must not leave half a file
  return {end.code, end.text, load_recording(to)};
}

CommitRun CommitTester::run(const std::string& commit, int number, int64_t steps,
                            int64_t state_every) {
  const fs::path to = run_file(dir_, commit, number, ".json");
  const fs::path failed = run_file(dir_, commit, number, ".failed");
  if (fs::exists(to)) return {kExitOk, "", load_recording(to)};
  if (fs::exists(failed)) {
    const std::string text = read_file(failed, "failed run");
    return {std::atoi(text.c_str()), text.substr(text.find('\n') + 1)};
  }
  CommitRun out = record(commit, steps, state_every, to);
  if (!out.recording && out.code != CommitRun::kNotBuilt)
    write_file(failed, concat_to_string(out.code, "\n", out.text));
  return out;
}

CommitRun CommitTester::probe(const std::string& commit) {
  return record(commit, 1, 1, dir_ / "probe.json");
}

TestedCommit CommitTester::test(const std::string& commit, const BisectReference& reference) {
  Tally tally;
  std::optional<TestedCommit> out;
  for (int number = 1; number <= kMostRuns && !out; ++number) {
    const CommitRun ran =
        run(commit, number, reference.steps, std::max<int64_t>(1, reference.recording.state_every));
    TestedCommit verdict = verdict_on(ran, reference);
    verdict.run = number;
    tally.add(verdict);
    out = ran.code == CommitRun::kNotBuilt ? std::move(verdict) : tally.decided();
  }
  const std::string flaky = tally.disagreement();
  if (!out) out = {.verdict = kIsSkipped, .why = concat_to_string("no verdict leads: ", flaky)};
  out->commit = commit;
  out->flaky = flaky;
  if (flaky_builds_.contains(commit)) {
    out->flaky += concat_to_string(flaky.empty() ? "" : "; ", flaky_builds_.at(commit));
  }
  return *out;
}

ProgramTrace CommitTester::trace(const std::string& commit, const std::string& step) {
  if (const std::string why = build(commit); !why.empty()) throw InputError(why);
  return {commit.substr(0, 12), trace_by(program_run(), step)};
}

}  // namespace taper::v0::runner
