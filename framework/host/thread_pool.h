// The threads that CPU kernels share. A thread is started only when there is enough work for it,
// and small work wakes none. A forked process starts its own threads. If the system provides fewer
// threads than requested, those do the work, and the next large piece of work requests the others
// again.
#pragma once

#include <cstdint>

#include "framework/base/namespace.h"

namespace taper::v0 {

// Returns how many threads a kernel may use, including the caller. Initially this is the number of
// processors that the process may use, or OMP_NUM_THREADS if that is lower. Results do not depend
// on it.
int get_num_threads();
inline constexpr int kMaxThreads = 1024;
// Sets the number of threads, from 1 to kMaxThreads; throws ValueError otherwise. Must not be
// called while another thread computes. A value of 1 ends all threads of the pool.
void set_num_threads(int n);

namespace detail {
// Calls run(context, i) once for each i in [0, tasks), on at most `threads` threads. `run` must not
// throw. The caller also takes tasks, so on a busy machine it never waits for other threads to
// start. It runs all tasks alone if it is called from within a task, or while another thread uses
// the pool.
void run_tasks(int64_t tasks, int threads, void (*run)(const void* context, int64_t task),
               const void* context);
// Returns true on a thread that is inside run_tasks().
bool in_task();
}  // namespace detail

}  // namespace taper::v0
