// When a rank is killed or stopped during work, all other ranks report which one. The tests start
// ranks themselves: this program with the argument "endless".
#include <algorithm>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <thread>

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "framework/cuda/cuda.h"
#include "framework/factory/factories.h"
#include "tests/distributed/ranks.h"
#include "tests/testing.h"

namespace taper::v0 {
namespace {

namespace fs = std::filesystem;
using distributed::Communicator;
using distributed::RankError;
using test::test_device_name;

// With TAPER_TEST_DEVICE=cuda there is one rank per GPU.
const bool kOnGpus = test_device_name() == "cuda";
const int kRanks = kOnGpus ? std::min(cuda::device_count(), 4) : 4, kVictim = kRanks > 2 ? 2 : 1;

std::string content_of(const fs::path& file) {
  std::ifstream in(file);
  return {std::istreambuf_iterator<char>(in), {}};
}

// Runs mpirun with ranks that never end by themselves, in a directory of their own.
class Ranks {
 public:
  explicit Ranks(const std::string& checked)
      : directory_(fs::temp_directory_path() / concat_to_string("taper_ranks_", getpid())) {
    fs::remove_all(directory_);
    fs::create_directories(directory_);
    const std::string ranks = concat_to_string(kRanks),
                      self = fs::read_symlink("/proc/self/exe").string();
    const std::string log = (directory_ / "log").string();
    mpirun_ = fork();
    if (mpirun_ != 0) return;
    const int out = open(log.c_str(), O_WRONLY | O_CREAT, 0600);
    dup2(out, STDOUT_FILENO);
    dup2(out, STDERR_FILENO);
    // Without recovery, mpirun ends all ranks as soon as one is lost.
    execl(TAPER_MPIEXEC, TAPER_MPIEXEC, "--enable-recovery", "-n", ranks.c_str(), self.c_str(),
          "endless", directory_.c_str(), checked.c_str(), nullptr);
    _exit(127);
  }
  ~Ranks() {
    for (int r = 0; r < kRanks; ++r) {
      const pid_t pid = pid_of(r);
      if (pid > 0) kill(pid, SIGKILL);
    }
    if (!has_ended_) kill(mpirun_, SIGKILL);
    if (!has_ended_) waitpid(mpirun_, nullptr, 0);
    fs::remove_all(directory_);
  }
  Ranks(const Ranks&) = delete;
  Ranks& operator=(const Ranks&) = delete;

  // Returns 0 until the rank has started its work.
  pid_t pid_of(int rank) const {
    pid_t pid = 0;
    std::ifstream(directory_ / concat_to_string("pid", rank)) >> pid;
    return pid;
  }
  // Returns the message that the rank wrote when it ended.
  std::string end_of(int rank) const {
    return content_of(directory_ / concat_to_string("end", rank));
  }
  std::string log() const { return content_of(directory_ / "log"); }

  // Returns whether `holds` becomes true within two minutes for all ranks except rank `but`.
  template <class F> bool wait_until(const F& holds, int but = -1) {
    for (int i = 0; i < 1200; ++i) {
      int so = 0;
      for (int r = 0; r < kRanks; ++r) so += r == but || holds(r);
      if (so == kRanks) return true;
      if (has_ended_) return false;
      has_ended_ = waitpid(mpirun_, nullptr, WNOHANG) == mpirun_;
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
    }
    return false;
  }

 private:
  fs::path directory_;
  pid_t mpirun_ = 0;
  bool has_ended_ = false;
};

void expect_all_name_the_victim(int signal, const std::string& checked, const std::string& what) {
  Ranks ranks(checked);
  ASSERT_TRUE(ranks.wait_until([&](int r) { return ranks.pid_of(r) > 0; })) << ranks.log();
  ASSERT_EQ(kill(ranks.pid_of(kVictim), signal), 0);
  const auto has_ended = [&](int r) { return ranks.end_of(r).ends_with("\n"); };
  ASSERT_TRUE(ranks.wait_until(has_ended, kVictim)) << ranks.log();
  for (int r = 0; r < kRanks; ++r) {
    if (r == kVictim) continue;
    const std::string said = ranks.end_of(r);
    EXPECT_TRUE(said.starts_with(
        concat_to_string("lost ", kVictim, ": all_reduce(sum) of float32 [1000] at ")))
        << said;
    EXPECT_NE(said.find(concat_to_string("on rank ", r, " (")), std::string::npos) << said;
    EXPECT_NE(said.find(concat_to_string("rank ", kVictim, " (")), std::string::npos) << said;
    EXPECT_TRUE(said.ends_with(concat_to_string(") ", what, "\n"))) << said;
  }
}

class Faults : public testing::TestWithParam<const char*> {
  void SetUp() override {
    if (Communicator::is_launched())
      GTEST_SKIP() << "starts its own ranks, so it cannot run under a launcher";
    if (kRanks < 2) GTEST_SKIP() << "needs two GPUs";
    if (*TAPER_MPIEXEC == '\0') GTEST_SKIP() << "CMake found no MPI or no mpirun";
  }
};

TEST_P(Faults, AKilledRankIsNamedAtOnce) {
  expect_all_name_the_victim(SIGKILL, GetParam(), "has ended");
}

TEST_P(Faults, AStoppedRankIsNamedAfterTheTimeout) {
  expect_all_name_the_victim(SIGSTOP, GetParam(), "is stopped");
}

INSTANTIATE_TEST_SUITE_P(Calls, Faults, testing::Values("checked", "unchecked"),
                         [](const auto& tested) { return std::string(tested.param); });

}  // namespace

// The timeout is long for failures that must be reported immediately, and short enough for tests
// that wait for it.
int test::endless(const std::string& directory, bool checked) {
  const Communicator world =
      Communicator::world(test_device_name(), {.timeout = 10, .checked = checked});
  // Written under another name first, so that a reader never sees a partial file.
  const auto say = [&](const char* name, const std::string& text) {
    const fs::path file = fs::path(directory) / concat_to_string(name, world.rank());
    std::ofstream(file.string() + "_") << text;
    fs::rename(file.string() + "_", file);
  };
  const Tensor x = zeros({1000}, {.device = world.device()});
  for (int i = 0;; ++i) {
    try {
      world.all_reduce(x).wait();
      (void)x.cpu();  // on a GPU, the host would wait here forever if the loss went undetected
    } catch (const RankError& error) {
      say("end", concat_to_string("lost ", error.rank, ": ", error.what(), "\n"));
      _exit(0);
    }
    if (i == 20) say("pid", concat_to_string(getpid(), "\n"));
  }
}

}  // namespace taper::v0
