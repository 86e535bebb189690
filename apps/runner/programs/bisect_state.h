// The state of `taper bisect`, which is kept in a file so that a search can be resumed.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "apps/runner/base/errors.h"

namespace taper::v0::runner {

inline constexpr const char* kIsGood = "good";
inline constexpr const char* kIsBad = "bad";
inline constexpr const char* kIsSkipped = "skipped";

// A commit that was tested.
struct TestedCommit {
  std::string commit{};   // the full hash
  std::string verdict{};  // kIsGood, kIsBad or kIsSkipped
  std::string why{};      // how it differs, or why it was skipped
  std::string flaky{};    // what differed between runs or builds; empty: nothing
  std::string step{};     // the first step that differs from the reference; empty: none, or unknown
  int run = 0;            // the number of a run that had this verdict, from 1; 0: none
};

struct BisectState {
  std::string started_in{};   // the folder in which programs train
  std::string good{}, bad{};  // full hashes
  std::string program{};
  std::vector<std::string> build{};
  bool has_reference = false;  // whether the members below are known
  int64_t section = 0;         // of the recording, from 1; 0: the numbers of `good` are used
  std::string step{};          // the step up to which runs are compared; empty: to the end
  std::vector<TestedCommit> tested{};

  const TestedCommit* find(const std::string& commit) const;
  // Returns the commits with this verdict, in the order in which they were tested.
  std::vector<std::string> commits(const std::string& verdict) const;
};

// The files of a search in its folder.
inline fs::path state_file(const fs::path& dir) { return dir / "bisect.json"; }
inline fs::path golden_copy(const fs::path& dir) { return dir / "golden.json"; }

void save_state(const BisectState& state, const fs::path& dir);
// Throws InputError if the file is missing or damaged.
BisectState load_state(const fs::path& dir);

}  // namespace taper::v0::runner
