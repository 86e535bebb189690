#include "apps/runner/run/process.h"

#include <atomic>
#include <cerrno>
#include <climits>
#include <csignal>
#include <cstdlib>
#include <ctime>
#include <fstream>
#include <initializer_list>
#include <iterator>
#include <string_view>
#include <utility>

#include <fcntl.h>
#include <unistd.h>

#include "apps/runner/run/errors.h"
#include "apps/runner/run/text.h"
#include "framework/base/cancel.h"
#include "framework/base/log.h"
#include "framework/cuda/cuda.h"
#include "framework/cuda/driver.h"
#include "framework/host/thread_pool.h"
#include "framework/profiler/profiler.h"

namespace taper::v0::runner {
namespace {

// "auto" takes the current GPU, or the CPU where no GPU can be used; anything else is taken as
// named.
Device choose_device(const std::string& name) {
  if (name == "auto") return cuda::is_available() ? cuda::resolve(DeviceType::cuda) : Device();
  const Device device(name);
  if (device.is_cpu()) return Device();
  const std::string head = cat("device '", name, "' cannot be used: ");
  require<DeviceUnavailable>(cuda::is_available(), head, cuda::unavailable_reason());
  const int count = cuda::device_count();
  require<DeviceUnavailable>(!device.has_index() || device.index() < count, head, count,
                             " GPU(s) are visible, the last is cuda:", count - 1);
  return cuda::resolve(device);
}

// The last one is ignored: a file over the limit of `ulimit -f` is a failed write with a message.
constexpr int kSignals[] = {SIGTERM, SIGINT, SIGUSR1, SIGHUP, SIGXFSZ};

bool owned = false;
bool listens = false;  // between the constructor and the destructor of a SignalScope
volatile std::sig_atomic_t last_signal = 0, asked_to_end = 0, quiet = 0;
timespec asked_at;  // when the first SIGINT or SIGTERM came
struct sigaction previous[std::size(kSignals)];
void (*previous_check)() = nullptr;

// What the handler prints, prepared beforehand: it may not allocate.
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

// Async-signal-safe. One write, so that lines of several processes do not mix.
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

// `timeout` sends SIGTERM to its child and, right after that, to the child's process group.
bool is_echo(int number) {
  timespec now;
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  const double seconds =
      double(now.tv_sec - asked_at.tv_sec) + 1e-9 * double(now.tv_nsec - asked_at.tv_nsec);
  return number == SIGTERM && last_signal == SIGTERM && seconds < 0.1;
}

// The handler of all of these signals.
void note(int number) {
  const int saved_errno = errno;
  const bool ends = number == SIGINT || number == SIGTERM;
  if (ends && asked_to_end != 0 && !is_echo(number)) end_at_once(number);
  const bool is_news = last_signal == 0 || (ends && asked_to_end == 0);
  if (ends && asked_to_end == 0) ::clock_gettime(CLOCK_MONOTONIC, &asked_at);
  if (ends) asked_to_end = 1;
  last_signal = number;
  const char* again = number == SIGINT    ? "; press Ctrl-C again to end at once"
                      : number == SIGTERM ? "; a second SIGTERM ends it at once"
                                          : "";
  if (is_news) print_line({line_start, name_of_signal(number), ": ", plan, again});
  errno = saved_errno;
}

void stop_if_asked() {
  if (last_signal == 0) return;
  throw Interrupted(cat("ended by ", SignalScope::received(), " before the first step"));
}

}  // namespace

std::string matmul_precision_of(const RunConfig& config) {
  return config.train.precision == Precision::kTf32 ? "high" : "highest";
}

void apply_settings(const RunConfig& config) {
  set_float32_matmul_precision(matmul_precision_of(config));
  if (config.threads > 0) set_num_threads(int(config.threads));
}

Device set_up(const RunConfig& config) {
  apply_settings(config);
  if (const auto& visible = config.visible_devices) {
    failing_as<DeviceUnavailable>(cat("visible_devices: '", *visible, "' cannot be applied: "),
                                  [&] { cuda::set_visible_devices(*visible); });
  }
  return choose_device(config.device);
}

void report_device(const RunConfig& config, Device device) {
  if (config.device != "auto") return;
  inform(cat("device: ", to_string(device), " (auto: ",
             device.is_cuda() ? cuda::get_device_name(device.index())
                              : cuda::driver::unavailable_summary(),
             ")"));
}

// Nsight Systems and its like set this variable for the programs that they start.
static bool begin_nvtx() {
  const bool is_on = (detail::observers.load() & detail::kMarked) != 0;
  if (is_on || std::getenv("NVTX_INJECTION64_PATH") == nullptr) return false;
  emit_nvtx();
  return true;
}

HostStateGuard::HostStateGuard() : threads_(get_num_threads()), emits_nvtx_(begin_nvtx()) {}
HostStateGuard::~HostStateGuard() {
  if (get_num_threads() != threads_) set_num_threads(threads_);
  if (emits_nvtx_) emit_nvtx(false);
}

bool owns_process() { return owned; }
OwnProcessGuard::OwnProcessGuard() : previous_(std::exchange(owned, true)) {
  // Where stdout or stderr is closed, no file that is opened shall be taken for it.
  int file;
  do file = ::open("/dev/null", O_RDONLY);
  while (file >= 0 && file <= STDERR_FILENO);
  if (file >= 0) ::close(file);
}
OwnProcessGuard::~OwnProcessGuard() { owned = previous_; }

std::vector<std::string> command_line() {
  return lines_of(read_file("/proc/self/cmdline", "command line"), '\0');
}

int64_t peak_resident_memory() {
  // Not getrusage(): its maximum is inherited from the program that started this one.
  constexpr std::string_view kKey = "VmHWM:";
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with(kKey)) return std::atoll(line.c_str() + kKey.size()) << 10;  // from KiB
  }
  return 0;
}

SignalScope::SignalScope(bool is_quiet) {
  last_signal = 0;
  asked_to_end = 0;
  quiet = is_quiet;
  plan = kStopping;
  newest = nullptr;
  listens = true;
  line_start = ::isatty(STDERR_FILENO) != 0 ? "\r\033[Ktaper: " : "taper: ";  // over a bar
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

SignalScope::~SignalScope() {
  listens = false;
  set_stop_check(previous_check);
  for (size_t i = 0; i < std::size(kSignals); ++i) {
    ::sigaction(kSignals[i], &previous[i], nullptr);
  }
  last_signal = 0;
  asked_to_end = 0;
}

std::string SignalScope::received() {
  const int number = last_signal;
  return number == 0 ? "" : name_of_signal(number);
}

void SignalScope::set_plan(const char* text) { plan = text; }

void SignalScope::set_newest(const std::string& checkpoint) {
  if (!listens) return;  // a program's own runs may be in several threads
  // A handler may just read the path before, which stays until the next but one.
  static std::string paths[2];
  static size_t next = 0;
  std::string& path = paths[next++ % 2];
  path = checkpoint;
  newest = path.c_str();
}

}  // namespace taper::v0::runner
