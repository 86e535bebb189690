// Counts the work of kernels, for summaries.
#pragma once

#include <cstdint>

namespace taper::kernels {

// How many multiplications with an addition this thread has asked for in matrix products,
// convolutions and attention since it began: for summaries. Each kernel's front adds its own.
inline thread_local int64_t multiply_adds = 0;

}  // namespace taper::kernels
