// Keeps oneDNN on the thread that calls it: its own threading changes bits with their number.
#pragma once

#include <omp.h>

#include "framework/base/namespace.h"

namespace taper::v0::kernels::cpu {

// For a scope, on the calling thread (oneDNN's threads are OpenMP's).
class OneThread {
 public:
  OneThread() { omp_set_num_threads(1); }
  ~OneThread() { omp_set_num_threads(threads_); }
  OneThread& operator=(OneThread&&) = delete;  // neither copied nor moved

 private:
  const int threads_ = omp_get_max_threads();
};

}  // namespace taper::v0::kernels::cpu
