// The files that `taper record` writes. A file holds the numbers of one config in sections, one for
// each platform on which it was recorded, and the history of the sections that were replaced.
//
// The format is JSON with one line for each step, so that a diff shows which steps changed. Files
// of version 1, which have one section, can be read.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "apps/runner/gate/gate.h"

namespace taper::v0::runner {

// The curves of several seeds. In each row a value holds one number for each seed, separated by
// spaces, or "-" where a seed has none, as after early stopping. The keys are those of
// Recording::Row, without "state".
struct Curves {
  std::vector<int64_t> seeds{};
  std::vector<Recording::Row> rows{};
};

struct GoldenSection {
  RunMetadata metadata{};
  Tolerances tolerances{};
  Tolerances spread{};  // the largest relative differences over what `cover` names
  std::vector<std::string> cover{};
  std::vector<Recording::Row> rows{};
  Curves curves{};
};

// A section that was replaced: who, when and why, and the last numbers before and after.
using HistoryEntry = std::map<std::string, std::string>;

struct Golden {
  std::string config{};  // the resolved config of the runs
  int64_t steps = 0;     // as in RecordOptions
  int64_t state_every = 1;
  std::vector<GoldenSection> sections{};
  std::vector<HistoryEntry> history{};

  Recording recording(const GoldenSection& section) const;
};

void save_golden(const Golden& golden, const fs::path& file);
// Throws InputError, with the name of the file, if it is missing, damaged, edited, written by a
// newer version, not a recording, or if its sections contradict each other.
Golden load_golden(const fs::path& file);

// --- platforms ---

// Returns the part of the metadata on which bits depend: the device, the processor's instruction
// set, compiler, libraries, and Taper's version. The commit is not part of it.
MetadataMap platform_of(const RunMetadata& metadata);
// Returns the platform in one line: "cpu, isa AVX512, compiler GNU 12.2.0, onednn 2.7".
std::string platform_text(const RunMetadata& metadata);

// The section that a run is compared with. If none matches the run's platform, it is the one with
// the fewest differences.
struct ChosenSection {
  const GoldenSection& section;
  int64_t number;  // counted from 1
  bool matches;
};
ChosenSection choose_section(const Golden& golden, const RunMetadata& metadata);

}  // namespace taper::v0::runner
