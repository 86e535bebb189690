// The destinations of log messages: the console of the program, and the log file of a run.
#pragma once

#include <filesystem>
#include <memory>
#include <string>

#include "apps/runner/settings/run_config.h"
#include "framework/base/log.h"

namespace taper::v0::runner {

// --- the console: stderr, used by the program but not by a host program ---

// Makes the console the logger of this process (set_logger), unless the host program has installed
// one. Info messages are printed without a prefix, errors with the prefix "taper: ", others with
// their severity. Severities are colored on a terminal, unless NO_COLOR is set.
void install_console();
// Sets the lowest severity that the console prints. Overrides the config.
void set_console_level(LogLevel level);

// Applies `log.level` and `log.console` to the console until the end of the scope. Without a guard
// the console prints info messages and above. set_console_level() overrides it.
class ConsoleGuard {
 public:
  explicit ConsoleGuard(const LogConfig& config);
  ~ConsoleGuard();
  ConsoleGuard& operator=(ConsoleGuard&&) = delete;  // neither copied nor moved

 private:
  const int previous_;
};

// Returns whether a line can be redrawn in place: the console is the logger, its stderr is a
// terminal, and it prints info messages.
bool has_status_line();
// Returns the width of the terminal, or 80 if it is unknown. Reads it each time, because the window
// may have been resized.
size_t terminal_columns();
// Draws the line in place of the last one. The next message removes it.
void show_status_line(const std::string& line);
void clear_status_line();

// Shows on the terminal what the program is doing, such as "reading the data", until the end of the
// scope. Bars and messages replace the line. Does nothing if there is no status line.
class StatusGuard {
 public:
  explicit StatusGuard(const std::string& what);
  ~StatusGuard();
  StatusGuard& operator=(StatusGuard&&) = delete;  // neither copied nor moved
};
// Shows the line while f runs. Returns the result of f.
template <class F> auto with_status(const std::string& what, const F& f) {
  const StatusGuard status(what);
  return f();
}

// --- the log file of a run ---

// Writes the messages of its thread to the run's log file, in the config's format, if they have at
// least the config's severity. Messages logged before open() are kept until then. All messages are
// also passed on to the logger of the process, whatever their severity.
//
// On ranks other than the first, messages before open() are dropped: every rank prepares the run in
// the same way, and the first one reports it. After open() only their warnings and errors are kept,
// with the prefix "[rank 2] ". Therefore log messages that are the same on all ranks only on the
// first rank.
class RunLog {
 public:
  explicit RunLog(const LogConfig& config, int rank = 0);
  ~RunLog();
  RunLog& operator=(RunLog&&) = delete;  // neither copied nor moved

  // Opens the file in the directory and appends to it. Ranks other than the first open the file
  // only if the first rank has created it. Throws DiskError. If a later write fails, logs a warning
  // and closes the file.
  void open(const std::filesystem::path& dir);
  // Writes to the file only. Use it for messages that are sent to the logger of the process
  // separately.
  void write(LogLevel level, const std::string& message);

 private:
  struct File;

  bool hear(LogLevel level, std::string& message);

  const std::unique_ptr<File> file_;
  const LogGuard scope_;
};

}  // namespace taper::v0::runner
