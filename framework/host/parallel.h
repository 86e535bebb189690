// Parallel loops on the threads of the pool. Small loops run on the calling thread alone.
#pragma once

#include <atomic>
#include <cstdint>
#include <exception>

#include "framework/host/thread_pool.h"

namespace taper::v0 {
namespace host {

// The number of element operations below which waking a thread costs more than it saves.
inline constexpr int64_t kSerialWork = 32768;

// Returns the grain for tasks of `work` element operations each: the minimum number of tasks that a
// thread should get.
constexpr int64_t grain_of(int64_t work) {
  const int64_t grain = kSerialWork / 2 / (work > 1 ? work : 1);
  return grain > 1 ? grain : 1;
}

// Returns how many threads parallel_for would use.
inline int threads_for(int64_t n, int64_t grain) {
  if (n < 2 * grain || detail::in_task()) return 1;
  const int64_t wanted = n / grain;
  const int limit = get_num_threads();
  return wanted < limit ? int(wanted) : limit;
}

// Calls f(i) for i in [0, n) on at most `threads` threads, in any order. The first exception of f
// is rethrown here once; the other calls are still made.
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

}  // namespace host

// Calls f(begin, end) on disjoint slices that cover [0, n), each of at least `grain` elements.
// Results must not depend on where the slices are cut. A call from within a slice runs serially.
// The first exception of f is rethrown here once.
template <class F> void parallel_for(int64_t n, int64_t grain, F&& f) {
  if (n <= 0) return;
  const int threads = host::threads_for(n, grain);
  if (threads <= 1) {
    f(int64_t(0), n);
    return;
  }
  // There are more slices than threads, so that a thread that starts late can take fewer of them.
  const int64_t most = int64_t(threads) * 4;
  const int64_t slices = n / grain < most ? n / grain : most;
  host::parallel_tasks(slices, threads,
                       [&](int64_t i) { f(n * i / slices, n * (i + 1) / slices); });
}

namespace host {

// Calls f(i) for i in [0, n). Each call takes about `work` element operations.
template <class F> void parallel_each(int64_t n, int64_t work, const F& f) {
  parallel_for(n, grain_of(work), [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) f(i);
  });
}

}  // namespace host
}  // namespace taper::v0
