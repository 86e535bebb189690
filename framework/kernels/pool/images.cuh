// How threads of the pooling kernels divide dense images and volumes, whose positions fit in int.
// A thread computes kLanes results that depend on the same positions of the input: adjacent
// channels of a pixel in channels-last memory, and the same pixel of adjacent images in row-major
// memory. So the thread finds these positions and their weights once. If the number of channels or
// of images is no multiple of kLanes, a thread computes one result.
#pragma once

#include "framework/kernels/common/elements.cuh"
#include "framework/kernels/common/per_element.cuh"
#include "framework/kernels/elementwise/strided_index.cuh"
#include "framework/kernels/pool/pool.h"

namespace taper::v0::kernels::cuda {

inline constexpr int kLanes = 4;

// V results of one thread: adjacent channels or, if `in_images`, one pixel of each of V images.
// Each channel of row-major memory counts as an image.
template <int V, bool in_images> struct Lanes {
  static constexpr int kCount = V;
  static constexpr bool kInImages = in_images;
};

// A pixel of a result, or of V results.
struct Pixel {
  int c, d, h, w;
  int image;  // the first one
};

// The results of a kernel in memory order. Images are volumes of depth 1.
template <class L> struct Images {
  int channels;  // 1 in row-major memory
  FastDivisor groups, width, height, depth;

  Images(const Tensor& y, bool channels_last)
      : channels(channels_last ? int(y.size(1)) : 1),
        groups(uint32_t(L::kInImages ? 1 : channels / L::kCount)),
        width(uint32_t(y.size(-1))),
        height(uint32_t(y.size(-2))),
        depth(uint32_t(y.dim() == 5 ? y.size(2) : 1)) {}

  __device__ Pixel at(uint32_t thread) const {
    Pixel p;
    const uint32_t pixel = groups.divide(thread), row = width.divide(pixel);
    const uint32_t slab = height.divide(row), image = depth.divide(slab);
    p.c = int(thread - pixel * groups.divisor) * L::kCount;
    p.w = int(pixel - row * width.divisor);
    p.h = int(row - slab * height.divisor);
    p.d = int(slab - image * depth.divisor);
    p.image = int(image) * (L::kInImages ? L::kCount : 1);
    return p;
  }
  // Returns the offset of the first result's element at `position` of an image of `size` positions.
  __device__ int offset(const Pixel& at, int size, int position) const {
    return (at.image * size + position) * channels + at.c;
  }
};

// Load and store the elements of V results. `size` is the distance of two images.
template <class T, class L> __device__ Vec<T, L::kCount> load_lanes(const T* p, int size) {
  if constexpr (L::kInImages) {
    Vec<T, L::kCount> v;
#pragma unroll
    for (int j = 0; j < L::kCount; ++j) v.at[j] = p[j * size];
    return v;
  } else {
    return load_vec<T, L::kCount>(p);
  }
}
template <class T, class L>
__device__ void store_lanes(T* p, int size, const Vec<T, L::kCount>& v) {
  if constexpr (L::kInImages) {
#pragma unroll
    for (int j = 0; j < L::kCount; ++j) p[j * size] = v.at[j];
  } else {
    store_vec(p, v);
  }
}

// Returns whether int counts all positions of both tensors.
inline bool countable(const Tensor& x, const Tensor& y) {
  return std::max(x.numel(), y.numel()) <= std::numeric_limits<int>::max();
}

// Runs make(L()) with the lanes that fit y: a functor of L, called for each thread.
template <class Make>
void run_lanes(const char* op, const Tensor& y, bool channels_last, const Make& make) {
  const int64_t images = y.dim() == 3 ? y.size(0) : y.size(0) * y.size(1);
  const auto run = [&]<class L>(L lanes) {
    Backend::run(op, y, y.numel() / L::kCount, 1, make(lanes));
  };
  if (channels_last && y.size(1) % kLanes == 0) return run(Lanes<kLanes, false>());
  if (!channels_last && images % kLanes == 0) return run(Lanes<kLanes, true>());
  run(Lanes<1, false>());
}

}  // namespace taper::v0::kernels::cuda
