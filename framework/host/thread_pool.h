// The threads that CPU kernels share work with. None is started before there is work for it, small
// work wakes none, and a process that was forked starts its own. Where the system gives fewer than
// are asked for, those do the work, and the next large piece of work asks again.
#pragma once

#include <cstdint>

#include "framework/callable.h"

namespace taper::v0 {

// How many threads a kernel may use, the caller included; at first as many as the process may run
// on (OMP_NUM_THREADS lowers it). Results do not depend on it.
int get_num_threads();
inline constexpr int kMaxThreads = 1024;
// From 1 to kMaxThreads, else ValueError; not while another thread computes. After 1 none is left.
void set_num_threads(int n);

// Calls f(begin, end) on disjoint slices that cover [0, n), each of at least `grain`. Results must
// not depend on where the slices are cut. Never nests. What f throws comes out here, once.
void parallel_for(int64_t n, int64_t grain, const Callable<void(int64_t, int64_t)>& f);

namespace detail {
// Calls run(context, i) once for each i in [0, tasks), on at most `threads` threads. `run` must not
// throw. The caller works too and takes whatever no other thread has begun, so on a busy machine it
// never waits for the others to start; it works alone when called from within a task, or while
// another thread uses the pool.
void run_tasks(int64_t tasks, int threads, void (*run)(const void* context, int64_t task),
               const void* context);
// True on a thread that is inside run_tasks.
bool in_task();
}  // namespace detail

}  // namespace taper::v0
