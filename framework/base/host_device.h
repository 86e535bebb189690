// Marks functions that both compilers build, for the host and for the GPU.
#pragma once

#include "framework/base/namespace.h"

#ifdef __CUDACC__
#define TAPER_HD __host__ __device__ inline
#else
#define TAPER_HD inline
#endif
