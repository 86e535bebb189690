// Restricts oneDNN to the calling thread, because its results depend on the number of threads.
#pragma once

#include <omp.h>

#include "framework/base/namespace.h"

namespace taper::v0::kernels::cpu {

// Sets OpenMP's thread count, which oneDNN uses, to 1 on the calling thread until the end of the
// scope.
class OneThreadGuard {
 public:
  OneThreadGuard() { omp_set_num_threads(1); }
  ~OneThreadGuard() { omp_set_num_threads(threads_); }
  OneThreadGuard& operator=(OneThreadGuard&&) = delete;  // neither copied nor moved

 private:
  const int threads_ = omp_get_max_threads();
};

}  // namespace taper::v0::kernels::cpu
