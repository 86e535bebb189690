#include "apps/runner/run/signals.h"

#include <csignal>
#include <cstring>
#include <iterator>

#include <unistd.h>

#include "apps/runner/run/errors.h"
#include "framework/hooks.h"

namespace taper::runner {
namespace {

// The last one is ignored: a file over the limit of `ulimit -f` is a failed write with a message.
constexpr int kSignals[] = {SIGTERM, SIGINT, SIGUSR1, SIGHUP, SIGXFSZ};

volatile std::sig_atomic_t last_signal = 0;
struct sigaction previous[std::size(kSignals)];

void note(int number) {
  if (number == SIGINT && last_signal == SIGINT) ::_exit(128 + SIGINT);
  last_signal = number;
}

void stop_if_asked() {
  if (last_signal == 0) return;
  throw Interrupted(cat("ended by ", SignalScope::received(), " before the first step"));
}

}  // namespace

SignalScope::SignalScope() {
  last_signal = 0;
  set_stop_check(stop_if_asked);
  for (size_t i = 0; i < std::size(kSignals); ++i) {
    struct sigaction action {};
    action.sa_handler = kSignals[i] == SIGXFSZ ? SIG_IGN : note;
    action.sa_flags = SA_RESTART;
    ::sigaction(kSignals[i], nullptr, &previous[i]);
    const bool is_nohup = kSignals[i] == SIGHUP && previous[i].sa_handler == SIG_IGN;
    if (!is_nohup) ::sigaction(kSignals[i], &action, nullptr);
  }
}

SignalScope::~SignalScope() {
  set_stop_check(nullptr);
  for (size_t i = 0; i < std::size(kSignals); ++i) {
    ::sigaction(kSignals[i], &previous[i], nullptr);
  }
  last_signal = 0;
}

std::string SignalScope::received() {
  const int number = last_signal;
  return number == 0 ? "" : std::string("SIG") + ::sigabbrev_np(number);
}

}  // namespace taper::runner
