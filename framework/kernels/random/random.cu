// Random draws (`=`): a thread makes the elements of one Philox block. The words come from cuRAND's
// device Philox, the elements from the formulas that the CPU uses too.
#include "framework/kernels/random/random.h"

#include <cstdint>

#include <curand_kernel.h>

#include "framework/cuda/runtime.h"
#include "framework/kernels/elementwise/elementwise.cuh"
#include "framework/kernels/per_element.cuh"
#include "framework/kernels/random/random_formulas.h"
#include "framework/kernels/reduce/sort.h"

namespace taper::inline v0::kernels {
namespace cuda {
namespace {

using taper::cuda::Launch;

// Counter: block number, then stream; key: seed. As framework/philox.h has it.
__device__ Philox4 draw_words(PhiloxKey key, uint64_t block) {
  const uint4 counter = make_uint4(uint32_t(block), uint32_t(block >> 32), uint32_t(key.stream),
                                   uint32_t(key.stream >> 32));
  const uint4 words =
      curand_Philox4x32_10(counter, make_uint2(uint32_t(key.seed), uint32_t(key.seed >> 32)));
  return {{words.x, words.y, words.z, words.w}};
}

unsigned grid_for(int64_t threads) {
  return unsigned(std::min(ceil_div(threads, kThreads), kMaxPiece));
}
__device__ int64_t first_thread() { return int64_t(blockIdx.x) * blockDim.x + threadIdx.x; }
__device__ int64_t thread_step() { return int64_t(gridDim.x) * blockDim.x; }

template <class T, class Draw>
__global__ void __launch_bounds__(kThreads)
    draw_kernel(T* out, int64_t numel, PhiloxKey key, Draw draw, bool aligned) {
  constexpr int kCount = Draw::Result::kCount;
  key = resolved(key);
  const int64_t blocks = (numel + kCount - 1) / kCount;
  for (int64_t b = first_thread(); b < blocks; b += thread_step()) {
    const typename Draw::Result drawn = draw(draw_words(key, uint64_t(b)));
    T* at = out + b * kCount;
    const int64_t left = numel - b * kCount;
    if (aligned && left >= kCount) {
      Vec<T, kCount> v;
#pragma unroll
      for (int i = 0; i < kCount; ++i) v.at[i] = drawn.value[i];
      store_vec(at, v);
      continue;
    }
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      if (i < left) at[i] = drawn.value[i];
    }
  }
}

template <class Draw>
void launch_draw(const char* op, const Tensor& out, PhiloxKey key, Draw draw) {
  using T = typename Draw::Result::Element;
  const int64_t numel = out.numel();
  constexpr int kCount = Draw::Result::kCount;
  const Launch on(out);
  T* data = pointer<T>(out);
  draw_kernel<<<grid_for(ceil_div(numel, kCount)), kThreads, 0, on.stream>>>(
      data, numel, key, draw, is_aligned(data, alignof(Vec<T, kCount>)));
  on.check(op);
}

// x is rounded to T, dropped or scaled, rounded again and added to the residual, where there is
// one.
template <class X, class T, class Y> struct Dropout {
  static constexpr int kVec = 8;  // two Philox blocks a thread
  Y* y;
  const X* x;
  const Y* residual;
  int64_t numel;
  uint64_t block;  // the first of the draw's
  DropoutRule<T> rule;
  bool aligned;

  __device__ Y apply(X from, Y more, uint32_t word) const {
    const T dropped = convert<T>(rule.scaled(convert<T>(from), word));
    if (!residual) return convert<Y>(dropped);
    return convert<Y>(Compute<Y>(more) + convert<Compute<Y>>(dropped));
  }
};

template <class D>
__global__ void __launch_bounds__(kThreads)
    dropout_kernel(const __grid_constant__ D d, PhiloxKey key) {
  constexpr int kVec = D::kVec;
  key = resolved(key);
  for (int64_t i = first_thread(); i * kVec < d.numel; i += thread_step()) {
    const int64_t at = i * kVec;
    const bool whole = d.aligned && at + kVec <= d.numel;
    auto x = Vec<std::decay_t<decltype(*d.x)>, kVec>();
    auto y = Vec<std::decay_t<decltype(*d.y)>, kVec>();
    if (whole) {
      x = load_vec<std::decay_t<decltype(*d.x)>, kVec>(d.x + at);
      if (d.residual) y = load_vec<std::decay_t<decltype(*d.y)>, kVec>(d.residual + at);
    }
#pragma unroll
    for (int b = 0; b < kVec / 4; ++b) {
      const Philox4 words = draw_words(key, d.block + uint64_t(i * (kVec / 4) + b));
#pragma unroll
      for (int j = 4 * b; j < 4 * b + 4; ++j) {
        if (whole) {
          y.at[j] = d.apply(x.at[j], y.at[j], words.word[j - 4 * b]);
        } else if (at + j < d.numel) {
          const auto more = d.residual ? d.residual[at + j] : y.at[j];
          d.y[at + j] = d.apply(d.x[at + j], more, words.word[j - 4 * b]);
        }
      }
    }
    if (whole) store_vec(d.y + at, y);
  }
}

// keys[i] is the word of element i.
__global__ void __launch_bounds__(kThreads)
    permutation_keys(uint64_t* keys, int64_t* numbers, int64_t n, PhiloxKey key) {
  key = resolved(key);
  const int64_t blocks = (n + 3) / 4;
  for (int64_t b = first_thread(); b < blocks; b += thread_step()) {
    const Philox4 words = draw_words(key, uint64_t(b));
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int64_t at = b * 4 + i;
      if (at >= n) break;
      keys[at] = words.word[i];
      numbers[at] = at;
    }
  }
}

}  // namespace

void randperm(const Tensor& out, PhiloxKey key) {
  const Tensor keys = empty_like_layout(out, kInt64), sorted = empty_like_layout(out, kInt64);
  const Tensor numbers = empty_like_layout(out, kInt64);
  const Launch on(out);
  permutation_keys<<<grid_for(ceil_div(out.numel(), 4)), kThreads, 0, on.stream>>>(
      pointer<uint64_t>(keys), pointer<int64_t>(numbers), out.numel(), key);
  on.check("randperm");
  sort_pairs(sorted, out, keys, numbers, 32);
  on.check("randperm");
}

void dropout(const Tensor& y, const Tensor& x, double p, PhiloxKey key, uint64_t block,
             const Tensor& residual) {
  const int64_t numel = y.numel();
  if (numel == 0) return;
  const Launch on(y);
  const auto run = [&]<class X, class T, class Y>(TypeTag<X>, TypeTag<T>, TypeTag<Y>) {
    Dropout<X, T, Y> d{pointer<Y>(y),
                       pointer<const X>(x),
                       pointer<const Y>(residual),
                       numel,
                       block,
                       dropout_rule<T>(p),
                       false};
    d.aligned = is_aligned(d.y, 16) && is_aligned(d.x, 16) && is_aligned(d.residual, 16);
    dropout_kernel<<<grid_for(ceil_div(numel, d.kVec)), kThreads, 0, on.stream>>>(d, key);
  };
  if (x.dtype() == y.dtype()) {
    visit_floating(y.dtype(), [&](auto tag) { run(tag, tag, tag); });
  } else if (is_half(x.dtype())) {
    visit_half(x.dtype(), [&](auto tag) { run(tag, tag, TypeTag<float>()); });
  } else {
    visit_half(y.dtype(), [&](auto tag) { run(TypeTag<float>(), tag, tag); });
  }
  on.check("dropout");
}

}  // namespace cuda

template <> struct Draws<cuda::Backend> {
  template <class Draw>
  static void run(const char* op, const Tensor& out, PhiloxKey key, Draw draw) {
    cuda::launch_draw(op, out, key, draw);
  }
};

template struct RandomKernels<cuda::Backend>;

}  // namespace taper::inline v0::kernels
