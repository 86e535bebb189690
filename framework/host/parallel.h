// Parallel loops on the threads of the pool. Small loops run on the calling thread alone.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <exception>

#include "framework/host/thread_pool.h"

namespace taper::v0::kernels::cpu {

// Below this number of element operations, waking a thread costs more than it saves.
inline constexpr int64_t kSerialWork = 32768;

// Returns the grain for tasks of `work` element operations each: the least that one thread should
// do.
constexpr int64_t grain_of(int64_t work) {
  return std::max<int64_t>(1, kSerialWork / 2 / std::max<int64_t>(1, work));
}

// Returns the number of threads that parallel_for() would use.
inline int threads_for(int64_t n, int64_t grain) {
  if (n < 2 * grain || detail::in_task()) return 1;
  return int(std::min<int64_t>(get_num_threads(), n / grain));
}

// Calls f(i) for i in [0, n) on at most `threads` threads, in any order. An exception of f is
// rethrown here, once; the other calls are still made.
template <class F> void parallel_tasks(int64_t n, int threads, const F& f) {
  if (threads <= 1 || n <= 1) {
    for (int64_t i = 0; i < n; ++i) f(i);
    return;
  }
  struct Call {
    const F& f;
    std::atomic<bool>& failed;
    std::exception_ptr& error;
  };
  std::atomic<bool> failed{false};
  std::exception_ptr error;
  const Call call{f, failed, error};
  detail::run_tasks(
      n, threads,
      [](const void* context, int64_t i) {
        const Call& c = *static_cast<const Call*>(context);
        try {
          c.f(i);
        } catch (...) {
          if (!c.failed.exchange(true)) c.error = std::current_exception();
        }
      },
      &call);
  if (error) std::rethrow_exception(error);
}

// Calls f(begin, end) on disjoint slices that cover [0, n), each of at least `grain`. Results must
// not depend on the boundaries of slices. Calls within f run serially. An exception of f is
// rethrown here, once.
template <class F> void parallel_for(int64_t n, int64_t grain, F&& f) {
  if (n <= 0) return;
  const int threads = threads_for(n, grain);
  if (threads <= 1) {
    f(int64_t(0), n);
    return;
  }
  // More slices than threads, so that a thread that starts late takes fewer.
  const int64_t slices = std::min<int64_t>(n / grain, int64_t(threads) * 4);
  parallel_tasks(slices, threads, [&](int64_t i) { f(n * i / slices, n * (i + 1) / slices); });
}

// Calls f(i) for i in [0, n), each of about `work` element operations.
template <class F> void parallel_each(int64_t n, int64_t work, const F& f) {
  parallel_for(n, grain_of(work), [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) f(i);
  });
}

}  // namespace taper::v0::kernels::cpu
