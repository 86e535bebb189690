// Finds the first difference between two programs that train the same config.
#include <algorithm>
#include <cerrno>
#include <cstring>
#include <optional>

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "apps/runner/base/files.h"
#include "apps/runner/gate/cause.h"
#include "apps/runner/gate/golden.h"
#include "apps/runner/gate/trace.h"

namespace taper::v0::runner {
namespace {

using Words = std::vector<std::string>;

// Replaces the calling process by the program, which writes its messages to `log`.
[[noreturn]] void become_program(const Words& words, const fs::path& log) {
  std::vector<char*> argv;
  for (const std::string& word : words) argv.push_back(const_cast<char*>(word.c_str()));
  argv.push_back(nullptr);
  const int file = ::open(log.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0666);
  if (file >= 0 && ::dup2(file, STDOUT_FILENO) >= 0 && ::dup2(file, STDERR_FILENO) >= 0)
    ::execvp(argv[0], argv.data());
  ::_exit(127);
}

struct ProgramEnd {
  int code;
  std::string text;  // what it printed
};

ProgramEnd run_program(const Words& words, const fs::path& log) {
  const pid_t pid = ::fork();
  if (pid == 0) become_program(words, log);
  int status = 0;
  if (pid < 0 || ::waitpid(pid, &status, 0) < 0) {
    throw RunError(kExitMemory,
                   concat_to_string("cannot start ", words[0], ": ", std::strerror(errno)));
  }
  const int code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return {code, fs::exists(log) ? read_file(log, "messages of the program") : ""};
}

[[noreturn]] void fail_with(const std::string& program, const ProgramEnd& end) {
  const bool is_missing = end.code == 127 && end.text.empty();
  throw RunError(is_missing ? kExitInput : ExitCode(end.code),
                 is_missing
                     ? concat_to_string("cannot run the program ", in_quotes(program))
                     : concat_to_string("the program ", in_quotes(program),
                                        " failed with exit code ", end.code, ":\n", end.text));
}

// Lets the program record the config. Programs of older versions do not know --seeds and record
// bits only.
Recording record_by(const std::string& program, const fs::path& config, const fs::path& dir) {
  const std::string to = (dir / "golden.json").string();
  Words words = {program, "record", config.string(), "--to", to, "--seeds", "0"};
  ProgramEnd end = run_program(words, dir / "log");
  if (end.code == kExitConfig && end.text.find("--seeds") != std::string::npos) {
    words.resize(5);
    end = run_program(words, dir / "log");
  }
  if (end.code != kExitOk) fail_with(program, end);
  return load_recording(to);
}

// Lets the program trace a step. Returns std::nullopt if it is too old to know `trace`.
std::optional<std::vector<NamedTensor>> trace_by(const std::string& program, const fs::path& config,
                                                 const std::string& step, const fs::path& dir) {
  const std::string to = (dir / "trace.safetensors").string();
  const ProgramEnd end =
      run_program({program, "trace", config.string(), "--step", step, "--to", to}, dir / "log");
  if (end.code == kExitConfig && end.text.find("unknown command") != std::string::npos) return {};
  if (end.code != kExitOk) fail_with(program, end);
  return load_trace(to);
}

}  // namespace

Verdict diff_programs(const fs::path& config, const std::string& a, const std::string& b) {
  if (!fs::exists(config))
    throw InputError(concat_to_string("'", config.string(), "' does not exist"));
  const TemporaryDirectory scratch;
  const fs::path left = scratch.path() / "a", right = scratch.path() / "b";
  fs::create_directories(left);
  fs::create_directories(right);
  const Recording first = record_by(a, config, left), second = record_by(b, config, right);
  const Movement moved = movement_of(second.rows, first.rows);
  if (moved.step.empty() && first.rows.size() == second.rows.size())
    return {true, "both programs give the same numbers and weights in every step\n"};
  std::string text = cause_of(second, first, {});
  if (moved.step.empty()) return {false, text + "one program trains more steps than the other\n"};
  const auto x = trace_by(a, config, moved.step, left), y = trace_by(b, config, moved.step, right);
  if (!x || !y) {
    return {false, concat_to_string(text, "first difference, in step ", moved.step, ": ", x ? b : a,
                                    " is too old to name the tensor\n")};
  }
  return {false, text + first_different_tensor(*x, *y, std::stoll(moved.step))};
}

}  // namespace taper::v0::runner
