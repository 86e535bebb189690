
#include "framework/host/thread_pool.h"

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <set>
#include <thread>

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "framework/base/error.h"
#include "tests/testing.h"

namespace taper::v0::test {
namespace {

struct Seen {
  mutable std::mutex mutex;
  mutable std::set<std::thread::id> threads;
  mutable int tasks = 0;
};

// A task that is long enough for other threads to take some.
void note(const void* context, int64_t) {
  const auto& seen = *static_cast<const Seen*>(context);
  {
    const std::lock_guard lock(seen.mutex);
    seen.threads.insert(std::this_thread::get_id());
    ++seen.tasks;
  }
  std::this_thread::sleep_for(std::chrono::milliseconds(5));
}

// Leaves no address space for the stack of another thread.
class NoMoreThreads {
 public:
  NoMoreThreads() {
    size_t pages = 0;
    std::ifstream("/proc/self/statm") >> pages;
    getrlimit(RLIMIT_AS, &before_);
    rlimit now = before_;
    now.rlim_cur = pages * size_t(sysconf(_SC_PAGESIZE)) + (size_t(1) << 20);
    setrlimit(RLIMIT_AS, &now);
  }
  ~NoMoreThreads() { setrlimit(RLIMIT_AS, &before_); }

 private:
  rlimit before_{};
};

TEST(ThreadPool, WorksWithTheThreadsThatTheSystemGivesAndAsksAgain) {
  if (skip_without_cache()) return;  // a sanitizer needs address space
  constexpr int kTasks = 20, kThreads = 9;
  Seen few, more;
  {
    const NoMoreThreads limit;
    detail::run_tasks(kTasks, kThreads, note, &few);
  }
  EXPECT_EQ(few.tasks, kTasks);
  EXPECT_LT(few.threads.size(), size_t(kThreads));
  EXPECT_FALSE(detail::in_task());
  detail::run_tasks(kTasks, kThreads, note, &more);
  EXPECT_EQ(more.tasks, kTasks);
  EXPECT_GT(more.threads.size(), few.threads.size());
}

TEST(ThreadPool, TheNumberOfThreadsHasABound) {
  const int before = get_num_threads();
  set_num_threads(kMaxThreads);
  EXPECT_TRUE(refuses<ValueError>([] { return set_num_threads(kMaxThreads + 1), 0; },
                                  "set_num_threads expects at most 1024, got 1025"));
  set_num_threads(before);
}

// --- a guest in the host's process ---

long threads_of_the_process() {
  return std::distance(std::filesystem::directory_iterator("/proc/self/task"), {});
}

// The child has none of the parent's threads and starts its own, which end with it.
TEST(ThreadPool, AForkGoesOnInBothProcesses) {
  set_num_threads(3);
  const Seen before;
  detail::run_tasks(30, 3, note, &before);
  const pid_t child = fork();
  if (child == 0) {
    const Seen seen;
    detail::run_tasks(30, 3, note, &seen);
    const bool is_whole = seen.tasks == 30 && seen.threads.size() > 1;
    std::exit(is_whole && threads_of_the_process() == 3 ? 7 : 1);
  }
  const Seen seen;
  detail::run_tasks(30, 3, note, &seen);
  EXPECT_EQ(seen.tasks, 30);
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 7) << status;
}

// A joined thread may still be listed for a moment.
long threads_once_ended(long wanted) {
  for (int tries = 0; tries < 1000 && threads_of_the_process() != wanted; ++tries) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return threads_of_the_process();
}

TEST(ThreadPool, WithOneThreadNoOtherIsLeft) {
  const int before = get_num_threads();
  set_num_threads(1);
  std::thread([] {}).join();  // the thread sanitizer's own thread starts with the first one
  const long alone = threads_of_the_process();
  set_num_threads(3);
  const Seen seen;
  detail::run_tasks(30, 3, note, &seen);
  EXPECT_EQ(threads_of_the_process(), alone + 2);
  set_num_threads(1);
  EXPECT_EQ(threads_once_ended(alone), alone);
  set_num_threads(before);
}

}  // namespace
}  // namespace taper::v0::test
