#include "apps/runner/base/child_process.h"

#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <thread>

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "apps/runner/base/files.h"
#include "apps/runner/base/string_utils.h"
#include "framework/base/cancel.h"

namespace taper::v0::runner {
namespace {

// Short, because run times are measured.
constexpr std::chrono::milliseconds kPollInterval{1};
// How long a program may take to end after SIGTERM before it is killed.
constexpr std::chrono::seconds kEndTime{5};

}  // namespace

void become_program(const ProgramCall& call) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  ::setpgid(0, 0);
  std::vector<char*> argv;
  for (const std::string& word : call.words) argv.push_back(const_cast<char*>(word.c_str()));
  argv.push_back(nullptr);
  for (const auto& [name, value] : call.environment) ::setenv(name.c_str(), value.c_str(), 1);
  for (const std::string& name : call.unset) ::unsetenv(name.c_str());
  const int in = ::open("/dev/null", O_RDONLY);
  const int out = ::open(call.log.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0666);
  const int err =
      call.errors.empty() ? out : ::open(call.errors.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0666);
  const bool is_ready = in >= 0 && out >= 0 && err >= 0 && ::dup2(in, STDIN_FILENO) >= 0 &&
                        ::dup2(out, STDOUT_FILENO) >= 0 && ::dup2(err, STDERR_FILENO) >= 0 &&
                        (call.directory.empty() || ::chdir(call.directory.c_str()) == 0);
  if (is_ready) ::execvp(argv[0], argv.data());
  ::_exit(127);
}

static pid_t start(const ProgramCall& call) {
  if (!std::ofstream(call.log)) cannot_write(call.log);
  const pid_t pid = ::fork();
  if (pid == 0) become_program(call);
  if (pid < 0) {
    throw RunError(kExitMemory,
                   concat_to_string("cannot start ", call.words[0], ": ", std::strerror(errno)));
  }
  return pid;
}

ProgramProcess::ProgramProcess(ProgramCall call) : call_(std::move(call)), pid_(start(call_)) {}

ProgramProcess::~ProgramProcess() {
  if (has_ended()) return;
  terminate();
  const auto deadline = std::chrono::steady_clock::now() + kEndTime;
  while (!has_ended() && std::chrono::steady_clock::now() < deadline)
    std::this_thread::sleep_for(kPollInterval);
  signal_group(SIGKILL);
  while (!has_ended()) std::this_thread::sleep_for(kPollInterval);
}

bool ProgramProcess::has_ended() {
  if (!ended_) ended_ = ::waitpid(pid_, &status_, WNOHANG) == pid_;
  return ended_;
}

ProgramEnd ProgramProcess::end() const {
  const int code = WIFEXITED(status_) ? WEXITSTATUS(status_) : 128 + WTERMSIG(status_);
  return {code, read_file(call_.log, "output of the program")};
}

void ProgramProcess::signal_group(int number) const {
  ::kill(-pid_, number);
  ::kill(pid_, number);  // the child may not have created its group yet
}

ProgramEnd run_program(const ProgramCall& call) {
  ProgramProcess process(call);
  while (!process.has_ended()) {
    check_stop();
    std::this_thread::sleep_for(kPollInterval);
  }
  return process.end();
}

}  // namespace taper::v0::runner
