// Tasks over a few waiting threads. The caller works too and takes whatever no other thread has
// begun, so on a busy machine, where the others get no processor, it never waits for them to start.
#pragma once

#include <cstdint>

namespace taper {

// Calls run(context, i) once for each i in [0, tasks), on at most `threads` threads. `run` must not
// throw. Runs everything on the calling thread when called from within a task, or while another
// thread uses the pool.
void run_tasks(int64_t tasks, int threads, void (*run)(const void* context, int64_t task),
               const void* context);

// True on a thread that is inside run_tasks.
bool in_task();

}  // namespace taper
