#include "framework/host/thread_pool.h"

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <exception>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include <pthread.h>
#include <sched.h>

#include "framework/base/error.h"

namespace taper::v0 {
namespace {

// Number of polls before an idle thread sleeps: about 20 us, the gap between two ops.
constexpr int kSpins = 2000;

thread_local bool inside = false;

struct Job {
  void (*run)(const void*, int64_t);
  const void* context;
  int64_t tasks;
  int helpers;                   // threads that may still join
  std::atomic<int64_t> next{0};  // the first task that no thread has taken
  std::atomic<uint32_t> joined{0};

  void work() {
    for (int64_t i = next++; i < tasks; i = next++) run(context, i);
  }
};

void pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

// Spins for a while, then sleeps, until `word` differs from `old`.
void wait_while(const std::atomic<uint32_t>& word, uint32_t old) {
  for (int i = 0; i < kSpins; ++i) {
    if (word.load(std::memory_order_acquire) != old) return;
    pause();
  }
  word.wait(old, std::memory_order_acquire);
}

class ThreadPool {
 public:
  ~ThreadPool() { end_threads(); }

  // Joins all threads. They are started again when the next job needs them.
  void end_threads() {
    const std::lock_guard in_use(callers_);
    {
      const std::lock_guard lock(mutex_);
      stop_ = true;
    }
    announce();
    for (std::thread& t : threads_) t.join();
    threads_.clear();
    stop_ = false;
  }

  // Returns false if another thread uses the pool.
  bool run(Job& job) {
    const std::unique_lock in_use(callers_, std::try_to_lock);
    if (!in_use) return false;
    {
      const std::lock_guard lock(mutex_);
      start_threads(job.helpers);
      job_ = &job;
    }
    announce();
    job.work();
    {
      const std::lock_guard lock(mutex_);
      job_ = nullptr;
    }
    // Threads that joined may still run a task of this job, which must outlive it.
    for (uint32_t n = job.joined; n != 0; n = job.joined) wait_while(job.joined, n);
    // The last thread may still be in notify() of `joined`, so wait until it releases the mutex.
    const std::lock_guard lock(mutex_);
    return true;
  }

 private:
  // If the system starts fewer threads, the caller does the remaining work.
  void start_threads(int wanted) try {
    while (int(threads_.size()) < wanted) {
      threads_.emplace_back([this, seen = generation_.load()] { serve(seen); });
    }
  } catch (const std::exception&) {  // std::system_error: the system has no more threads
    return;
  }

  void announce() {
    ++generation_;
    generation_.notify_all();
  }

  Job* join() {
    const std::lock_guard lock(mutex_);
    if (!job_ || job_->helpers == 0) return nullptr;
    --job_->helpers;
    ++job_->joined;
    return job_;
  }

  void serve(uint32_t seen) {
    inside = true;
    while (true) {
      wait_while(generation_, seen);
      seen = generation_;
      {
        const std::lock_guard lock(mutex_);
        if (stop_) return;
      }
      Job* job = join();
      if (!job) continue;
      job->work();
      const std::lock_guard lock(mutex_);
      --job->joined;
      job->joined.notify_one();
    }
  }

  std::mutex callers_;  // held by the thread that uses the pool
  std::mutex mutex_;    // guards job_, stop_ and threads_
  Job* job_ = nullptr;
  bool stop_ = false;
  std::atomic<uint32_t> generation_{0};
  std::vector<std::thread> threads_;
};

std::unique_ptr<ThreadPool>& instance() {
  static std::unique_ptr<ThreadPool> one;
  return one;
}

// Creates a new pool in a forked process, which has none of the threads. The old pool is not
// destroyed.
void begin_anew() {
  [[maybe_unused]] static ThreadPool* volatile before = nullptr;
  before = instance().release();
  instance() = std::make_unique<ThreadPool>();
}

ThreadPool& pool() {
  static const bool made = [] {
    instance() = std::make_unique<ThreadPool>();
    return pthread_atfork(nullptr, nullptr, begin_anew) == 0;
  }();
  (void)made;
  return *instance();
}

int available_threads() {
  cpu_set_t set;
  int n = sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
  if (const char* limit = std::getenv("OMP_NUM_THREADS")) {
    const int wanted = std::atoi(limit);
    if (wanted > 0) n = std::min(n, wanted);
  }
  return std::max(n, 1);
}

std::atomic<int>& thread_limit() {
  static std::atomic<int> limit{available_threads()};
  return limit;
}

}  // namespace

int get_num_threads() { return thread_limit().load(std::memory_order_relaxed); }

void set_num_threads(int n) {
  if (n < 1) throw ValueError("set_num_threads expects a positive integer, got ", n);
  require<ValueError>(n <= kMaxThreads, "set_num_threads expects at most ", kMaxThreads, ", got ",
                      n);
  if (thread_limit().exchange(n) > n) pool().end_threads();
}

bool detail::in_task() { return inside; }

void detail::run_tasks(int64_t tasks, int threads, void (*run)(const void*, int64_t),
                       const void* context) {
  if (tasks > 1 && threads > 1 && !inside) {
    inside = true;
    Job job{run, context, tasks, threads - 1};
    const bool done = pool().run(job);
    inside = false;
    if (done) return;
  }
  for (int64_t i = 0; i < tasks; ++i) run(context, i);
}

}  // namespace taper::v0
