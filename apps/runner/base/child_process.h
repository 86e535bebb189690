// Runs other programs as child processes.
#pragma once

#include <csignal>
#include <map>
#include <string>
#include <vector>

#include <sys/types.h>

#include "apps/runner/base/errors.h"

namespace taper::v0::runner {

// A program, its arguments, and where it runs.
struct ProgramCall {
  std::vector<std::string> words{};  // the program, which is searched in PATH, and its arguments
  fs::path log{};                    // receives stdout and stderr; a previous file is replaced
  fs::path errors{};                 // receives stderr instead, if given
  fs::path directory{};              // working directory; empty: that of this process
  std::map<std::string, std::string> environment{};  // variables to set
  std::vector<std::string> unset{};                  // variables to remove
};

// Replaces the calling process by the program, in a process group of its own. If the program cannot
// be run, ends the process with exit code 127. For the child process after a fork().
[[noreturn]] void become_program(const ProgramCall& call);

// How a program ended.
struct ProgramEnd {
  int code = 0;      // its exit code; 128 + n if signal n ended it
  std::string text;  // what it wrote to the log

  // Returns whether there is no such program, or if it cannot be run.
  bool is_missing() const { return code == 127 && text.empty(); }
};

// A program that runs as a child process, in a process group of its own. If this process is killed,
// the program is killed as well. The destructor ends a program that still runs: by SIGTERM, and
// after five seconds by SIGKILL.
class ProgramProcess {
 public:
  // Starts the program. Throws RunError if no process can be started, and DiskError if the log
  // cannot be written.
  explicit ProgramProcess(ProgramCall call);
  ~ProgramProcess();
  ProgramProcess& operator=(ProgramProcess&&) = delete;  // neither copied nor moved

  bool has_ended();
  // Sends SIGTERM to the program and to all processes of its group.
  void terminate() const { signal_group(SIGTERM); }
  // Returns how the program has ended.
  ProgramEnd end() const;

 private:
  void signal_group(int number) const;

  const ProgramCall call_;
  const pid_t pid_;
  int status_ = 0;
  bool ended_ = false;
};

// Runs the program and waits for it. If check_stop() (framework/base/cancel.h) throws meanwhile,
// ends the program with all processes of its group, and passes the exception on. Throws the errors
// of ProgramProcess.
ProgramEnd run_program(const ProgramCall& call);

}  // namespace taper::v0::runner
