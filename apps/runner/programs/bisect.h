// Finds the commit that changed the numbers of a training.
#pragma once

#include <string>
#include <vector>

#include "apps/runner/gate/gate.h"

namespace taper::v0::runner {

struct BisectOptions {
  std::string good, bad;           // revisions; `good` must be an ancestor of `bad`
  std::string golden;              // a recording of `taper record`
  std::vector<std::string> build;  // the command that builds a commit; one word: a line for /bin/sh
  std::string program = "build/apps/taper";  // what it builds, relative to the worktree
  std::string dir = {};                      // an empty or new folder; default: a temporary one
};

// Searches the commits between `good` and `bad` for the first one whose numbers differ from the
// recording. Each commit is checked out into a worktree in `dir`, built there, and trains the
// recording's config in the current folder, only up to the step in which `bad` differs. The
// repository's own worktrees are not touched.
//
// A commit is trained until one verdict leads by two runs, at most kMostRuns times; it is skipped
// if none does, or if it cannot be built or trained. If the recording has no section for the
// platform, the numbers of `good` take its place. The text names the commit, and the first step,
// module and tensor in which its program differs from that of its last good ancestor. The verdict
// is inconclusive if skipped commits leave several candidates.
//
// Throws ConfigError for options that are missing, unknown revisions, and revisions that are not
// good or bad as stated. Throws InputError if there is no repository or recording, or if `good` or
// `bad` cannot be tested. Throws Interrupted if a signal ends the search, whose state is kept in
// `dir`; otherwise `dir` is removed.
Verdict bisect(const BisectOptions& options);
inline constexpr int kMostRuns = 5;

// Continues a search that was interrupted or killed. Throws InputError if `dir` has no state of a
// search, or if another process uses it.
Verdict resume_bisect(const fs::path& dir);

}  // namespace taper::v0::runner
