// Random draws: a thread computes the elements of one Philox block. The words come from cuRAND's
// device Philox, and the elements from the formulas shared with the CPU.
#include "framework/kernels/random/random.h"

#include <cstdint>

#include <curand_kernel.h>

#include "framework/cuda/runtime.h"
#include "framework/kernels/common/kernel_launch.h"
#include "framework/kernels/common/per_element.cuh"
#include "framework/kernels/elementwise/copy.h"
#include "framework/kernels/elementwise/elementwise.cuh"
#include "framework/kernels/random/random_formulas.h"
#include "framework/kernels/reduce/sort.h"

namespace taper::v0::kernels {
namespace cuda {
namespace {

// Returns the words of a block. The counter consists of the block number and the stream, and the
// key is the seed, as in framework/base/philox.h.
__device__ Philox4 draw_words(PhiloxKey key, uint64_t block) {
  const uint4 counter = make_uint4(uint32_t(block), uint32_t(block >> 32), uint32_t(key.stream),
                                   uint32_t(key.stream >> 32));
  const uint4 words =
      curand_Philox4x32_10(counter, make_uint2(uint32_t(key.seed), uint32_t(key.seed >> 32)));
  return {{words.x, words.y, words.z, words.w}};
}

// Writes the elements of block b.
template <class Draw> struct DrawBlock {
  using T = typename Draw::Result::Element;
  static constexpr int kCount = Draw::Result::kCount;
  T* out;
  int64_t numel;
  PhiloxKey key;
  Draw draw;
  bool aligned;

  __device__ void operator()(int64_t b) const {
    const typename Draw::Result drawn = draw(draw_words(resolved(key), uint64_t(b)));
    T* at = out + b * kCount;
    const int64_t left = numel - b * kCount;
    if (aligned && left >= kCount) {
      Vec<T, kCount> v;
#pragma unroll
      for (int i = 0; i < kCount; ++i) v.at[i] = drawn.value[i];
      return store_vec(at, v);
    }
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      if (i < left) at[i] = drawn.value[i];
    }
  }
};

// Rounds x to T, drops or scales it, rounds again, and adds the residual if there is one.
template <class X, class T, class Y> struct Dropout {
  static constexpr int kVec = 8;  // two Philox blocks per thread
  Y* y;
  const X* x;
  const Y* residual;
  int64_t numel;
  uint64_t block;  // the first Philox block
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
  begin_kernel();
  constexpr int kVec = D::kVec;
  key = resolved(key);
  const int64_t step = int64_t(gridDim.x) * blockDim.x;
  for (int64_t i = int64_t(blockIdx.x) * blockDim.x + threadIdx.x; i * kVec < d.numel; i += step) {
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

// Rounds each step like the operators of which it consists.
template <class T> struct RaceScore {
  T* out;
  const T *weights, *z;
  int64_t count;
  __device__ void operator()(int64_t i) const {
    const T a = z[i], b = z[count + i];
    const T sum = math::add_rn(math::mul_rn(a, a), math::mul_rn(b, b));
    out[i] = weights[i] / (sum < T(1e-30) ? T(1e-30) : sum);
  }
};

}  // namespace
}  // namespace cuda

template <> struct Draws<cuda::Backend> {
  template <class Draw>
  static void run(const char* op, const Tensor& out, PhiloxKey key, Draw draw) {
    using Block = cuda::DrawBlock<Draw>;
    auto* data = pointer<typename Block::T>(out);
    const bool aligned =
        cuda::is_aligned(data, alignof(cuda::Vec<typename Block::T, Block::kCount>));
    cuda::Backend::run(op, out, cuda::ceil_div(out.numel(), Block::kCount), 1,
                       Block{data, out.numel(), key, draw, aligned});
  }
};

template struct RandomKernels<cuda::Backend>;

namespace cuda {

void randperm(const Tensor& out, PhiloxKey key) {
  const Tensor keys = empty_like_layout(out, kInt64), sorted = empty_like_layout(out, kInt64);
  const Tensor numbers = empty_like_layout(out, kInt64);
  RandomKernels<Backend>::randint(keys, key, 0, int64_t(1) << 32);  // the random words
  arange(numbers, 0, 1);
  sort_pairs(sorted, out, keys, numbers, 32);
}

void dropout(const Tensor& y, const Tensor& x, double p, PhiloxKey key, uint64_t block,
             const Tensor& residual) {
  const int64_t numel = y.numel();
  if (numel == 0) return;
  const taper::cuda::Launch on(y);
  const auto run = [&]<class X, class T, class Y>(TypeTag<X>, TypeTag<T>, TypeTag<Y>) {
    Dropout<X, T, Y> d{pointer<Y>(y),
                       pointer<const X>(x),
                       pointer<const Y>(residual),
                       numel,
                       block,
                       dropout_rule<T>(p),
                       false};
    d.aligned = is_aligned(d.y, 16) && is_aligned(d.x, 16) && is_aligned(d.residual, 16);
    const int64_t blocks = std::min(ceil_div(numel, d.kVec * kThreads), kMaxPiece);
    on.run(dropout_kernel<Dropout<X, T, Y>>, {unsigned(blocks), kThreads}, d, key);
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

void race_scores(const Tensor& out, const Tensor& weights, const Tensor& z) {
  const auto run = [&]<class T>(TypeTag<T>) {
    Backend::run(
        "multinomial", out, out.numel(), 1,
        RaceScore<T>{pointer<T>(out), pointer<const T>(weights), pointer<const T>(z), out.numel()});
  };
  out.dtype() == kFloat64 ? run(TypeTag<double>()) : run(TypeTag<float>());
}

}  // namespace cuda
}  // namespace taper::v0::kernels
