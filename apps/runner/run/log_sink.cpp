// The only source that includes spdlog. Its loggers are owned by this file and are not in spdlog's
// registry.
#include "apps/runner/run/log_sink.h"

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>
#include <sys/ioctl.h>
#include <unistd.h>

#include "apps/runner/base/errors.h"
#include "apps/runner/base/files.h"

#define SPDLOG_PREVENT_CHILD_FD  // processes that Taper starts do not inherit log files
#include <spdlog/formatter.h>
#include <spdlog/logger.h>
#include <spdlog/pattern_formatter.h>
#include <spdlog/sinks/base_sink.h>
#include <spdlog/sinks/basic_file_sink.h>
#include <spdlog/sinks/stdout_color_sinks.h>

namespace taper::v0::runner {
namespace {

using spdlog::level::level_enum;
using Time = spdlog::log_clock::time_point;

static_assert(int(LogLevel::kTrace) == SPDLOG_LEVEL_TRACE &&
              int(LogLevel::kError) == SPDLOG_LEVEL_ERROR);
level_enum level_of(LogLevel level) { return level_enum(int(level)); }

void append(spdlog::memory_buf_t& to, std::string_view text) {
  to.append(text.data(), text.data() + text.size());
}

// Returns a message for spdlog, which might interpret a std::string as a format.
spdlog::string_view_t view_of(const std::string& text) { return {text.data(), text.size()}; }

std::string_view text_of(const spdlog::details::log_msg& message) {
  return {message.payload.data(), message.payload.size()};
}

// --- the console ---

// Formats "warning: the message"; only the severity is colored.
class ConsoleFormatter : public spdlog::formatter {
 public:
  void format(const spdlog::details::log_msg& message, spdlog::memory_buf_t& to) override {
    static constexpr const char* kHeads[] = {"trace: ", "debug: ", "", "warning: ", "taper: "};
    message.color_range_start = to.size();
    append(to, kHeads[message.level]);
    message.color_range_end = to.size();
    append(to, text_of(message));
    append(to, "\n");
  }
  std::unique_ptr<spdlog::formatter> clone() const override {
    return std::make_unique<ConsoleFormatter>();
  }
};

// Writes messages to stderr, above a status line that is removed for each message and drawn again
// later.
class ConsoleSink : public spdlog::sinks::base_sink<std::mutex> {
 public:
  ConsoleSink() : stderr_(color_mode()) {
    stderr_.set_formatter(std::make_unique<ConsoleFormatter>());
  }

  void show(const std::string& line) {
    const std::lock_guard lock(mutex_);
    put("\r\033[K" + line);
    has_line_ = true;
  }
  void clear() {
    const std::lock_guard lock(mutex_);
    remove_line();
  }

 protected:
  void sink_it_(const spdlog::details::log_msg& message) override {
    remove_line();
    stderr_.log(message);
  }
  void flush_() override { stderr_.flush(); }

 private:
  static spdlog::color_mode color_mode() {
    const char* plain = std::getenv("NO_COLOR");
    return plain && *plain ? spdlog::color_mode::never : spdlog::color_mode::automatic;
  }
  static void put(const std::string& text) {
    std::fputs(text.c_str(), stderr);
    std::fflush(stderr);
  }
  void remove_line() {
    if (std::exchange(has_line_, false)) put("\r\033[K");
  }

  spdlog::sinks::stderr_color_sink_st stderr_;
  bool has_line_ = false;
};

struct Console {
  const std::shared_ptr<ConsoleSink> sink = std::make_shared<ConsoleSink>();
  spdlog::logger logger{"taper", sink};
  std::atomic<bool> is_installed = false, is_overridden = false;
  bool is_terminal = false;

  Console() {
    const char* term = std::getenv("TERM");
    is_terminal = isatty(STDERR_FILENO) != 0 && (!term || std::strcmp(term, "dumb") != 0);
    logger.set_level(spdlog::level::info);
    // If stderr is closed, nobody can read the error.
    logger.set_error_handler([](const std::string&) {});
  }
};
// Returns the console. It is never destroyed, because destructors of other static objects may still
// log.
Console& console() {
  static Console& one = *new Console;
  return one;
}

// --- the file ---

// Formats {"time":"2026-01-31T23:59:59.123Z","level":"info","rank":0,"message":"..."}.
class JsonFormatter : public spdlog::formatter {
 public:
  explicit JsonFormatter(int rank) : rank_(rank) {}

  void format(const spdlog::details::log_msg& message, spdlog::memory_buf_t& to) override {
    spdlog::memory_buf_t time;
    time_.format(message, time);
    const auto level = spdlog::level::to_string_view(message.level);
    const nlohmann::ordered_json line = {{"time", std::string(time.data(), time.size())},
                                         {"level", std::string(level.data(), level.size())},
                                         {"rank", rank_},
                                         {"message", text_of(message)}};
    append(to, line.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
    append(to, "\n");
  }
  std::unique_ptr<spdlog::formatter> clone() const override {
    return std::make_unique<JsonFormatter>(rank_);
  }

 private:
  const int rank_;
  spdlog::pattern_formatter time_{"%Y-%m-%dT%H:%M:%S.%eZ", spdlog::pattern_time_type::utc, ""};
};

std::unique_ptr<spdlog::formatter> formatter_of(LogFormat format, int rank) {
  if (format == LogFormat::kJson) return std::make_unique<JsonFormatter>(rank);
  return std::make_unique<spdlog::pattern_formatter>("%Y-%m-%d %H:%M:%S %l: %v");
}

}  // namespace

// --- the console ---

void install_console() {
  const Logger own = set_logger([](LogLevel level, const std::string& message) {
    console().logger.log(spdlog::source_loc{}, level_of(level), view_of(message));
  });
  if (own) set_logger(own);
  if (!own) console().is_installed = true;
}

void set_console_level(LogLevel level) {
  console().logger.set_level(level_of(level));
  console().is_overridden = true;
}

ConsoleGuard::ConsoleGuard(const LogConfig& config) : previous_(console().logger.level()) {
  if (console().is_overridden) return;
  console().logger.set_level(config.console ? level_of(config.level) : spdlog::level::off);
}
ConsoleGuard::~ConsoleGuard() {
  if (!console().is_overridden) console().logger.set_level(level_enum(previous_));
}

bool has_status_line() {
  return console().is_installed && console().is_terminal &&
         console().logger.should_log(spdlog::level::info);
}
size_t terminal_columns() {
  winsize size{};
  return ::ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
}
void show_status_line(const std::string& line) { console().sink->show(line); }
void clear_status_line() { console().sink->clear(); }

StatusGuard::StatusGuard(const std::string& what) {
  if (has_status_line()) show_status_line((what + " ...").substr(0, terminal_columns() - 1));
}
StatusGuard::~StatusGuard() {
  if (has_status_line()) clear_status_line();
}

// --- the file ---

struct RunLog::File {
  struct Early {
    Time time;
    LogLevel level;
    std::string message;
  };

  const LogConfig config;
  const int rank;
  std::vector<Early> early{};
  bool is_open = false;
  std::optional<spdlog::logger> logger{};
  std::string failure{};  // of the last write

  bool is_first() const { return rank == 0; }
  std::string head() const { return is_first() ? "" : concat_to_string("[rank ", rank, "] "); }

  void write(Time time, LogLevel level, const std::string& message) {
    if (!logger) return;
    const bool is_text = config.format == LogFormat::kText;
    const std::string text = is_text ? head() + message : message;
    logger->log(time, spdlog::source_loc{}, level_of(level), view_of(text));
    if (failure.empty()) return;
    logger.reset();
    warn(concat_to_string(std::exchange(failure, ""), "; the run continues without its log file"));
  }
};

RunLog::RunLog(const LogConfig& config, int rank)
    : file_(new File{config, rank}),
      scope_([this](LogLevel level, std::string& message) { return hear(level, message); }) {}
RunLog::~RunLog() = default;

void RunLog::open(const fs::path& dir) {
  file_->is_open = true;
  const fs::path path = dir / file_->config.file.value_or("");
  const bool is_wanted = file_->config.file && (file_->is_first() || fs::exists(path));
  if (!is_wanted) return file_->early.clear();
  check_appendable(path);
  try {
    file_->logger.emplace("taper",
                          std::make_shared<spdlog::sinks::basic_file_sink_mt>(path.string()));
  } catch (const spdlog::spdlog_ex& error) {
    throw DiskError(error.what());
  }
  file_->logger->set_level(level_of(file_->config.level));
  file_->logger->flush_on(spdlog::level::trace);
  file_->logger->set_formatter(formatter_of(file_->config.format, file_->rank));
  file_->logger->set_error_handler(
      [file = file_.get()](const std::string& why) { file->failure = why; });
  for (const File::Early& m : std::exchange(file_->early, {})) {
    file_->write(m.time, m.level, m.message);
  }
}

void RunLog::write(LogLevel level, const std::string& message) {
  file_->write(spdlog::log_clock::now(), level, message);
}

bool RunLog::hear(LogLevel level, std::string& message) {
  const bool is_early = !file_->is_open;
  if (!file_->is_first() && (is_early || level < LogLevel::kWarning)) return false;
  const Time now = spdlog::log_clock::now();
  if (is_early) file_->early.push_back({now, level, message});
  if (!is_early) file_->write(now, level, message);
  message = file_->head() + message;
  return true;
}

}  // namespace taper::v0::runner
