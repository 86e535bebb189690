// Trains several runs of one config, some of them at the same time, each in a process of its own.
//
// The directory of a set has a run's directory for each member, and set.json, which says what the
// set was made of. Each member is a normal run: it can be resumed, evaluated and reported alone.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "apps/runner/base/files.h"
#include "apps/runner/many/run_summary.h"
#include "apps/runner/settings/run_config.h"

namespace taper::v0::runner {

// The settings that all members of a set share, as given on the command line.
struct RunSetConfig {
  std::string file;                    // a config, or a file of data
  std::vector<std::string> overrides;  // such as "optimizer.lr=0.1"
  std::string kind;                    // "seeds", "folds" or "sweep"
  std::string plan{};                  // what the members depend on besides, such as the search
                                       // space of a sweep; compared when the set is resumed
};

// A member of a set, and how far it is to be trained.
struct Member {
  std::string name;                    // of its directory
  std::vector<std::string> overrides;  // besides those of the set, such as "seed=3"
  int64_t stop_after_steps = 0, stop_after_epochs = 0;  // as in TrainOptions
};

// What became of a member.
struct MemberResult {
  std::string name;
  RunSummary run{};
  std::string error{};  // why it failed; empty if it did not
  int code = 0;         // the exit code of its process
};

class RunSet {
 public:
  // Loads the config. The directory must not exist, or be empty or, if `resumes`, be that of an
  // earlier call.
  // jobs: members that are trained at the same time; 0: one for each core, or for each GPU. Throws
  // ConfigError for an invalid config, and for a directory of a set with another config or plan.
  // Throws InputError for a directory with other files.
  RunSet(RunSetConfig config, fs::path dir, bool resumes, int64_t jobs);

  const fs::path& dir() const { return dir_; }
  const RunConfig& config() const { return loaded_; }

  // Creates the directory, trains the members, and returns their results in the same order. A
  // member that was trained before is not trained again; one that was interrupted is resumed. A
  // member that fails does not stop the others. Throws ConfigError if the config of a member is
  // invalid, InputError if another process trains the members, and Interrupted after a signal, once
  // all members are saved.
  std::vector<MemberResult> train(const std::vector<Member>& members) const;

 private:
  void open() const;
  // Creates the directory and keeps other processes from training its runs. Throws InputError if
  // one does.
  void lock() const;
  void create(int64_t sharing) const;
  void check_same() const;

  const RunSetConfig config_;
  const fs::path dir_;
  const RunConfig loaded_;
  const bool resumes_;
  const int64_t jobs_;
  mutable Descriptor lock_;  // of the directory, from the first call of train() on
};

}  // namespace taper::v0::runner
