// Builds the commits of a bisection, and compares what their programs train with a reference.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "apps/runner/gate/gate.h"
#include "apps/runner/programs/bisect_state.h"
#include "apps/runner/programs/git.h"
#include "apps/runner/programs/program_runs.h"

namespace taper::v0::runner {

// The numbers with which commits are compared.
struct BisectReference {
  Recording recording;  // up to the last step that is compared
  int64_t steps = 0;    // the number of steps to train; 0: all
};

// Returns the reference up to a step and the evaluation after it. An empty step means to the end.
BisectReference reference_up_to(Recording recording, const std::string& step);

// How a run of a commit's program ended.
struct CommitRun {
  int code = 0;        // its exit code, or kNotBuilt
  std::string text{};  // what it printed, or why the commit could not be built
  std::optional<Recording> recording{};

  static constexpr int kNotBuilt = -1;
};
// Returns why the run has no recording, in one line.
std::string failure_of(const CommitRun& run);

class CommitTester {
 public:
  // dir: the folder of the bisection. Creates the worktree, or reuses the one of an interrupted
  // search. The state must outlive the object.
  CommitTester(const BisectState& state, const fs::path& dir);
  // Removes the worktree.
  void remove_worktree() const;

  const Git& git() const { return git_; }

  // Tests the commit until one verdict leads by two runs.
  TestedCommit test(const std::string& commit, const BisectReference& reference);
  // Builds the commit, if necessary, and records its run number `number`, from 1. A run that was
  // recorded before, also by an interrupted search, is not repeated.
  CommitRun run(const std::string& commit, int number, int64_t steps, int64_t state_every);
  // Returns the metadata of the commit's program and of the machine. Trains one step.
  CommitRun probe(const std::string& commit);
  // Returns the tensors of a step. Throws InputError if the commit cannot be built, and the errors
  // of trace_by().
  ProgramTrace trace(const std::string& commit, const std::string& step);
  // Returns whether this commit is checked out and built.
  bool has_built(const std::string& commit) const { return built_ == commit; }

 private:
  void add_worktree() const;
  // Returns why the commit cannot be built; empty: it was built.
  std::string build(const std::string& commit);
  std::string build_once(const std::string& commit);
  CommitRun record(const std::string& commit, int64_t steps, int64_t state_every,
                   const fs::path& to);
  ProgramRun program_run() const;

  const BisectState& state_;
  const fs::path dir_, worktree_;
  const Git repository_, git_;  // in the user's folder, and in the worktree
  std::string built_{};
  std::map<std::string, std::string> flaky_builds_{};
};

}  // namespace taper::v0::runner
