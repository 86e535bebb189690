// Golden files, which `taper record` and the helpers of taper::testing write. A file holds the
// numbers of one training in sections, one for each platform on which it was recorded, and the
// history of the sections that were replaced.
//
// The format is JSON with one line for each step, so that a diff shows which steps changed. Files
// of version 1, which have one section, can be read.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "framework/gate/platform.h"

namespace taper::v0::golden {

// Relative tolerances by metric ("loss", "grad_norm", "state", "test.accuracy"). The key "" applies
// to all metrics that are not named. 0 requires equal bits. "state" is a hash: with any tolerance
// other than 0 it is not compared.
using Tolerances = std::map<std::string, double>;

// The values of one step, or of an evaluation after it. The key "step" has its number; "loss",
// "grad_norm", "test.loss" and other metrics are hex floats. "state" is the hash after the step, if
// one was taken.
using Row = std::map<std::string, std::string>;

// The curves of several seeds. In each row a value holds one number for each seed, separated by
// spaces, or "-" where a seed has none, as after early stopping. The keys are those of Row, without
// "state".
struct Curves {
  std::vector<int64_t> seeds{};
  std::vector<Row> rows{};
};

struct GoldenSection {
  RunMetadata metadata{};
  Tolerances tolerances{};
  Tolerances spread{};  // the largest relative differences over what `cover` names
  std::vector<std::string> cover{};
  std::vector<Row> rows{};
  Curves curves{};
  std::vector<MetadataMap> also{};  // other platforms on which the same numbers were recorded
};

// A section that was replaced: who, when and why, and the last numbers before and after.
using HistoryEntry = std::map<std::string, std::string>;

struct Golden {
  std::string config{};     // the resolved config of the runs, or what taper::testing has recorded
  int64_t steps = 0;        // the number of first steps that were recorded; 0: all
  int64_t state_every = 1;  // steps between two hashes of the state
  std::vector<GoldenSection> sections{};
  std::vector<HistoryEntry> history{};
};

// Golden::config of a golden of taper::testing begins with this text, which no config of a run
// does.
inline constexpr std::string_view kTestGoldenMark = "golden: ";
inline bool is_test_golden(const Golden& golden) {
  return golden.config.starts_with(kTestGoldenMark);
}

// Writes the file atomically. Throws OutputError.
void save_golden(const Golden& golden, const std::filesystem::path& file);
// Throws InputError, with the name of the file, if it is missing, damaged, edited, written by a
// newer version, not a recording, or if its sections contradict each other.
Golden load_golden(const std::filesystem::path& file);

inline constexpr int64_t kGoldenFormat = 2;
inline constexpr size_t kMaxGoldenBytes = 64 << 20;

// Returns the value of a hex float. Throws InputError with the metric's name if the text is none.
double recorded_number(const std::string& metric, const std::string& text);

// --- sections ---

// The section that a run is compared with. If none matches the run's platform, it is the one with
// the fewest differences.
struct ChosenSection {
  const GoldenSection& section;
  const MetadataMap& program;  // of the section's platform that is nearest to the run's
  int64_t number;              // counted from 1
  bool matches;
};
ChosenSection choose_section(const Golden& golden, const RunMetadata& metadata);
// Returns a line such as "section 2 of 3: cpu, isa avx2, ...", or that none is for this platform.
std::string section_line(const Golden& golden, const ChosenSection& chosen);

// Adds a section. If the file has one with the same numbers, that section is marked as also
// recorded on the new one's platform instead. Returns its number, counted from 1, and whether it
// existed before. Throws ValueError if the other sections record other steps.
struct AddedSection {
  int64_t number;
  bool existed;
};
AddedSection add_section(Golden& golden, const GoldenSection& section);
// Replaces the numbers of a platform by those of `section`. Other platforms of the chosen section
// keep its numbers. Throws ValueError if they record other steps.
AddedSection replace_section(Golden& golden, const ChosenSection& chosen,
                             const GoldenSection& section);

}  // namespace taper::v0::golden
