#include "framework/kernels/cuda/sort.h"

#include <cub/device/device_radix_sort.cuh>

namespace taper::kernels::cuda {

void sort_pairs(const taper::cuda::Launch& on, const uint32_t* keys, const int64_t* numbers,
                uint32_t* sorted_keys, int64_t* sorted_numbers, int64_t n, int bits) {
  size_t bytes = 0;
  const auto sort = [&](void* scratch) {
    return cub::DeviceRadixSort::SortPairs(scratch, bytes, keys, sorted_keys, numbers,
                                           sorted_numbers, n, 0, bits, on.stream);
  };
  TAPER_CUDA_CHECK(sort(nullptr));
  const taper::cuda::Scratch scratch(bytes, on.device);
  TAPER_CUDA_CHECK(sort(scratch.data()));
}

}  // namespace taper::kernels::cuda
