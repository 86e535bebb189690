// Where log messages go: to the console of the program, and to the log file of a run.
#pragma once

#include <filesystem>
#include <memory>
#include <string>

#include "apps/runner/settings/run_config.h"
#include "framework/base/log.h"

namespace taper::v0::runner {

// --- the console: stderr, written by the program and not by a host ---

// Makes the console the logger of this process (set_logger), unless the host has installed one.
// An info message is printed as it is, any other behind its severity, an error behind "taper: ".
// Severities are colored on a terminal, unless NO_COLOR is set.
void install_console();
// Sets the least severity that the console prints, whatever a config asks for.
void set_console_level(LogLevel level);

// Applies `log.level` and `log.console` to the console until the end of the scope. Without a scope
// the console prints info messages and above. set_console_level() overrides it.
class ConsoleGuard {
 public:
  explicit ConsoleGuard(const LogConfig& config);
  ~ConsoleGuard();
  ConsoleGuard& operator=(ConsoleGuard&&) = delete;  // neither copied nor moved

 private:
  const int previous_;
};

// Whether a line can be redrawn in place: the console is the logger, its stderr is a terminal, and
// it prints info messages.
bool has_status_line();
// Draws the line in place of the last one. The next message replaces it.
void show_status_line(const std::string& line);
void clear_status_line();

// --- the log file of a run ---

// Writes what its thread logs to the run's log file, in the format and from the severity that the
// config asks for. Messages that come before open() are kept until then. The messages go on to the
// logger of the process whatever their severity.
//
// Of later ranks, messages before open() are dropped: every rank prepares the run alike, and the
// first one reports it. Of what they log afterwards, warnings and errors are kept, which begin with
// "[rank 2] ". So report on the first rank alone what all ranks know.
class RunLog {
 public:
  explicit RunLog(const LogConfig& config, int rank = 0);
  ~RunLog();
  RunLog& operator=(RunLog&&) = delete;  // neither copied nor moved

  // Opens the file in the directory and appends to it; on later ranks only where the first rank's
  // file is there. Throws DiskError. A later failure to write ends the file with a warning.
  void open(const std::filesystem::path& dir);
  // Writes to the file alone: what the logger of the process gets from elsewhere.
  void write(LogLevel level, const std::string& message);

 private:
  struct File;

  bool hear(LogLevel level, std::string& message);

  const std::unique_ptr<File> file_;
  const LogGuard scope_;
};

}  // namespace taper::v0::runner
