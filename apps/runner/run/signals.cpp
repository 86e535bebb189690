#include "apps/runner/run/signals.h"

#include <atomic>
#include <cerrno>
#include <climits>
#include <csignal>
#include <ctime>
#include <initializer_list>
#include <iterator>

#include <unistd.h>

#include "apps/runner/base/errors.h"
#include "framework/base/cancel.h"
#include "framework/base/log.h"

namespace taper::v0::runner {
namespace {

// SIGXFSZ is ignored, so that a file above the limit of `ulimit -f` is a failed write with a
// message.
constexpr int kSignals[] = {SIGTERM, SIGINT, SIGUSR1, SIGHUP, SIGXFSZ};

bool listens = false;  // between the constructor and the destructor of a SignalGuard
volatile std::sig_atomic_t last_signal = 0, asked_to_end = 0, quiet = 0;
timespec asked_at;  // the time of the first SIGINT or SIGTERM
struct sigaction previous[std::size(kSignals)];
void (*previous_check)() = nullptr;

// Texts that the handler prints. They are set beforehand, because a handler must not allocate.
constexpr const char* kStopping = "stopping";
std::atomic<const char*> plan{kStopping}, newest{nullptr}, line_start{"taper: "};

const char* name_of_signal(int number) {
  switch (number) {
    case SIGINT: return "SIGINT";
    case SIGTERM: return "SIGTERM";
    case SIGUSR1: return "SIGUSR1";
    default: return "SIGHUP";
  }
}

// Prints a line in one call, so that lines of several processes do not mix. Async-signal-safe.
void print_line(std::initializer_list<const char*> parts) {
  if (quiet != 0) return;
  char line[PATH_MAX + 512];
  size_t n = 0;
  for (const char* part : parts) {
    while (*part != '\0' && n + 1 < sizeof line) line[n++] = *part++;
  }
  line[n++] = '\n';
  (void)!::write(STDERR_FILENO, line, n);
}

[[noreturn]] void end_at_once(int number) {
  const char* path = newest.load();
  print_line({line_start, name_of_signal(number), " again: ended at once; ",
              path ? "the newest checkpoint is " : "there is no checkpoint", path ? path : ""});
  ::_exit(128 + number);
}

// Returns whether this SIGTERM repeats the last one: `timeout` sends SIGTERM to its child and,
// right after that, to the child's process group.
bool is_echo(int number) {
  timespec now;
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  const double seconds =
      double(now.tv_sec - asked_at.tv_sec) + 1e-9 * double(now.tv_nsec - asked_at.tv_nsec);
  return number == SIGTERM && last_signal == SIGTERM && seconds < 0.1;
}

// Handles all signals except SIGXFSZ.
void note(int number) {
  const int saved_errno = errno;
  const bool ends = number == SIGINT || number == SIGTERM;
  if (ends && asked_to_end != 0 && !is_echo(number)) end_at_once(number);
  const bool is_news = last_signal == 0 || (ends && asked_to_end == 0);
  if (ends && asked_to_end == 0) ::clock_gettime(CLOCK_MONOTONIC, &asked_at);
  if (ends) asked_to_end = 1;
  last_signal = number;
  const char* again = number == SIGINT    ? "; press Ctrl-C again to end at once"
                      : number == SIGTERM ? "; a second SIGTERM ends the run at once"
                                          : "";
  if (is_news) print_line({line_start, name_of_signal(number), ": ", plan, again});
  errno = saved_errno;
}

void stop_if_asked() {
  if (last_signal == 0) return;
  throw Interrupted(
      concat_to_string("ended by ", SignalGuard::received(), " before the first step"));
}

}  // namespace

SignalGuard::SignalGuard(bool is_quiet) {
  last_signal = 0;
  asked_to_end = 0;
  quiet = is_quiet;
  plan = kStopping;
  newest = nullptr;
  listens = true;
  // The escape sequence removes a progress bar from the line.
  line_start = ::isatty(STDERR_FILENO) != 0 ? "\r\033[Ktaper: " : "taper: ";
  previous_check = detail::stop_check.exchange(stop_if_asked);
  for (size_t i = 0; i < std::size(kSignals); ++i) {
    struct sigaction action {};
    action.sa_handler = kSignals[i] == SIGXFSZ ? SIG_IGN : note;
    action.sa_flags = SA_RESTART;
    ::sigaction(kSignals[i], nullptr, &previous[i]);
    const bool is_nohup = kSignals[i] == SIGHUP && previous[i].sa_handler == SIG_IGN;
    if (!is_nohup) ::sigaction(kSignals[i], &action, nullptr);
  }
}

SignalGuard::~SignalGuard() {
  listens = false;
  set_stop_check(previous_check);
  for (size_t i = 0; i < std::size(kSignals); ++i) {
    ::sigaction(kSignals[i], &previous[i], nullptr);
  }
  last_signal = 0;
  asked_to_end = 0;
}

std::string SignalGuard::received() {
  const int number = last_signal;
  return number == 0 ? "" : name_of_signal(number);
}

void SignalGuard::set_plan(const char* text) { plan = text; }

void SignalGuard::set_newest(const std::string& checkpoint) {
  if (!listens) return;  // several threads of a host program may train
  // The handler may be reading the previous path, which is therefore kept until the call after the
  // next one.
  static std::string paths[2];
  static size_t next = 0;
  std::string& path = paths[next++ % 2];
  path = checkpoint;
  newest = path.c_str();
}

}  // namespace taper::v0::runner
