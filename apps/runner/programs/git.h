// Runs git. Nothing here reimplements what git does.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "apps/runner/base/child_process.h"

namespace taper::v0::runner {

// Returns the environment variables that select git's repository. They are set within a hook, and
// programs that run in another worktree must not inherit them.
std::vector<std::string> git_variables();

// Runs git in a folder, without the hooks of the repository.
class Git {
 public:
  // `scratch`: an existing folder for the output of git.
  Git(fs::path directory, fs::path scratch)
      : directory_(std::move(directory)), scratch_(std::move(scratch)) {}

  // Runs `git WORDS` and returns its stdout without the last line end. Throws InputError with git's
  // message if it fails, or if there is no git.
  std::string operator()(const std::vector<std::string>& words) const;
  // The same, but returns std::nullopt if git fails.
  std::optional<std::string> try_run(const std::vector<std::string>& words) const;

 private:
  ProgramEnd run(const std::vector<std::string>& words) const;
  std::string output() const;

  fs::path directory_, scratch_;
};

// Returns the end of a message about commits that a shallow clone may lack; "" in other clones.
std::string advice_for_shallow(const Git& git);
// Returns the full hash of the commit that a revision names. Throws ConfigError if there is none.
std::string commit_of(const Git& git, const std::string& revision);
// Returns a commit as `1a2b3c4 "Subject" (Author, 2026-01-31)`.
std::string commit_text(const Git& git, const std::string& commit);
// Returns the commits that are ancestors of `bad` (included), but not of any of `good`, sorted by
// how well they halve this set, the best first.
std::vector<std::string> commits_between(const Git& git, const std::vector<std::string>& good,
                                         const std::string& bad);

}  // namespace taper::v0::runner
