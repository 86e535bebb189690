#include "apps/runner/programs/diff_programs.h"

#include "apps/runner/base/files.h"
#include "apps/runner/gate/cause.h"
#include "apps/runner/programs/program_runs.h"

namespace taper::v0::runner {

Verdict diff_programs(const fs::path& config, const std::string& a, const std::string& b) {
  if (!fs::exists(config))
    throw InputError(concat_to_string("'", config.string(), "' does not exist"));
  const TemporaryDirectory scratch;
  const ProgramRun left{a, config, scratch.path() / "a"}, right{b, config, scratch.path() / "b"};
  fs::create_directories(left.scratch);
  fs::create_directories(right.scratch);
  const Recording first = record_by(left, {}), second = record_by(right, {});
  const Movement moved = movement_of(second.rows, first.rows);
  if (moved.step.empty() && first.rows.size() == second.rows.size())
    return {true, "both programs give the same numbers and weights in every step\n"};
  const std::string text = cause_of(second, first, {});
  if (moved.step.empty()) return {false, text + "one program trains more steps than the other\n"};
  return {false, text + program_difference({a, trace_by(left, moved.step)},
                                           {b, trace_by(right, moved.step)}, first.rows,
                                           second.rows, moved.step)};
}

}  // namespace taper::v0::runner
