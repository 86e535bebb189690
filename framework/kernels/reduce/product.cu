// The gradient of a product of all elements: the product of all others, times dy. Three launches
// compute the product of all factors, in a range of exponents without overflow, and divide it by
// each. Zeros and factors that are not finite are counted instead of multiplied. The order depends
// only on the number of elements.
#include <algorithm>
#include <cstdint>
#include <limits>

#include "framework/kernels/common/arithmetic.h"
#include "framework/kernels/common/dispatch.h"
#include "framework/kernels/common/elements.cuh"
#include "framework/kernels/common/kernel_launch.h"
#include "framework/kernels/reduce/reduce.h"

namespace taper::v0::kernels::cuda {
namespace {

using taper::cuda::Launch;
using taper::cuda::Scratch;

constexpr int kThreads = 256, kMostBlocks = 1024;

// Numbers of zeros, infinities and NaNs, in a byte each. A number above two counts as two.
constexpr uint32_t kZero = 1, kInfinity = 1 << 8, kNan = 1 << 16, kTwoOfEach = 0x00020202;
template <class C> __device__ uint32_t special(C x) {
  if (x == C(0)) return kZero;
  if (x != x) return kNan;
  return math::abs(x) > std::numeric_limits<C>::max() ? kInfinity : 0;
}
__device__ uint32_t added(uint32_t a, uint32_t b) { return __vminu4(a + b, kTwoOfEach); }

// Returns the sign of a number as 1 or -1, and 1 for NaN.
template <class C> __device__ C sign_of(C x) { return x != x ? C(1) : math::copysign(C(1), x); }

// A product: mantissa * 2^exponent times the special factors, whose signs the mantissa has.
struct Factors {
  double mantissa;  // of absolute value in [1, 2) after normalize()
  int64_t exponent;
  uint32_t specials;

  static __device__ Factors none() { return {1, 0, 0}; }

  // Moves the power of two of the mantissa, a normal number, to the exponent.
  __device__ void normalize() {
    constexpr uint64_t kExponent = 0x7ff0000000000000, kOne = 0x3ff0000000000000;
    const auto bits = uint64_t(__double_as_longlong(mantissa));
    exponent += int64_t((bits & kExponent) >> 52) - 1023;
    mantissa = __longlong_as_double(int64_t((bits & ~kExponent) | kOne));
  }
  // Multiplies by a factor. Up to four floats may follow each other without normalize().
  template <class C> __device__ void take(C x) {
    const C size = math::abs(x);
    const bool is_regular = size > C(0) && size <= std::numeric_limits<C>::max();
    if (!is_regular) specials = added(specials, special(x));
    const C factor = is_regular ? x : sign_of(x);
    if constexpr (sizeof(C) == 4) {
      mantissa *= double(factor);
    } else {
      const bool is_tiny = math::abs(factor) < std::numeric_limits<double>::min();
      Factors scaled{is_tiny ? factor * 0x1p64 : factor, is_tiny ? -64 : 0, 0};
      scaled.normalize();
      join(scaled);
    }
  }
  __device__ void join(const Factors& f) {
    mantissa *= f.mantissa;
    exponent += f.exponent;
    specials = added(specials, f.specials);
    normalize();
  }
};

// Multiplies the parts of all threads of a block in a fixed order. The first thread has the result.
__device__ Factors multiply_block(Factors mine) {
  __shared__ Factors of_warp[kThreads / kWarp];
  const auto multiply_lanes = [&](int lanes) {
    for (int step = lanes / 2; step > 0; step /= 2) {
      mine.join({__shfl_down_sync(~0u, mine.mantissa, step),
                 __shfl_down_sync(~0u, mine.exponent, step),
                 __shfl_down_sync(~0u, mine.specials, step)});
    }
  };
  multiply_lanes(kWarp);
  if (threadIdx.x % kWarp == 0) of_warp[threadIdx.x / kWarp] = mine;
  __syncthreads();
  mine = threadIdx.x < kThreads / kWarp ? of_warp[threadIdx.x] : Factors::none();
  if (threadIdx.x < kWarp) multiply_lanes(kThreads / kWarp);
  return mine;
}

template <class T> inline constexpr int kVec = 16 / sizeof(T);
// Loads the vector at element i, filled up with `fill` beyond n.
template <class T>
__device__ Vec<T, kVec<T>> load_vector(const T* x, int64_t i, int64_t n, bool aligned, T fill) {
  if (aligned && i + kVec<T> <= n) return load_vec<T, kVec<T>>(x + i);
  Vec<T, kVec<T>> v;
#pragma unroll
  for (int j = 0; j < kVec<T>; ++j) v.at[j] = i + j < n ? x[i + j] : fill;
  return v;
}

// Multiplies the elements of each block's chunk, which consists of whole rounds of its threads.
template <class T>
__global__ void __launch_bounds__(kThreads)
    multiply_kernel(Factors* parts, const T* x, int64_t n, int64_t chunk, bool aligned) {
  begin_kernel();
  constexpr int V = kVec<T>, kLoads = 4, kGroup = V < 4 ? V : 4;
  using C = Compute<T>;
  const int64_t begin = blockIdx.x * chunk, end = begin + chunk < n ? begin + chunk : n;
  Factors mine = Factors::none();
  for (int64_t i = begin + int64_t(threadIdx.x) * V; i < end; i += kLoads * kThreads * V) {
    Vec<T, V> v[kLoads];
#pragma unroll
    for (int k = 0; k < kLoads; ++k) {
      v[k] = load_vector(x, i + k * kThreads * V, end, aligned, convert<T>(C(1)));
    }
#pragma unroll
    for (int k = 0; k < kLoads; ++k) {
#pragma unroll
      for (int j = 0; j < V; ++j) {
        mine.take(convert<C>(v[k].at[j]));
        if (sizeof(C) == 4 && j % kGroup == kGroup - 1) mine.normalize();
      }
    }
  }
  mine = multiply_block(mine);
  if (threadIdx.x == 0) parts[blockIdx.x] = mine;
}

// What the last kernel needs of the product. C is float or double.
template <class C> struct Dividend {
  // Their product is mantissa * 2^exponent, or beyond the range of all quotients. The first one is
  // the mantissa times a power of two, which leaves no quotient less precise than the result.
  C parts[3];
  uint32_t specials;

  // Returns the product of all factors except x, which is one of them.
  __device__ C without(C x) const {
    const uint32_t own = special(x), rest = specials - own;
    const C divisor = own ? sign_of(x) : x;
    if (rest != 0) return special_without(divisor, rest);
    const bool is_small = math::abs(divisor) < C(kSmall);
    const C quotient = parts[0] / (is_small ? divisor * C(1 / kSmall) : divisor);
    return (is_small ? quotient * C(1 / kSmall) : quotient) * parts[1] * parts[2];
  }
  // Returns the product if there are zeros, infinities or NaNs among the other factors.
  __device__ C special_without(C divisor, uint32_t rest) const {
    const bool zeros = rest & 0xff, infinities = rest & 0xff00;
    if (rest >= kNan || (zeros && infinities)) return std::numeric_limits<C>::quiet_NaN();
    const C sign = sign_of(parts[0]) * sign_of(divisor);
    return sign * (zeros ? C(0) : std::numeric_limits<C>::infinity());
  }
  // A quotient by a smaller number could overflow.
  static constexpr double kSmall = sizeof(C) == 4 ? 0x1p-64 : 0x1p-512;
  static constexpr int kMostBits = sizeof(C) == 4 ? 100 : 720;  // of a part
};

template <class C>
__global__ void __launch_bounds__(kThreads)
    finish_kernel(Dividend<C>* dividend, const Factors* parts, int blocks) {
  begin_kernel();
  Factors mine = Factors::none();
  for (int i = int(threadIdx.x); i < blocks; i += kThreads) mine.join(parts[i]);
  mine = multiply_block(mine);
  if (threadIdx.x != 0) return;
  int64_t left = mine.exponent;
  for (C& part : dividend->parts) {
    constexpr int kMost = Dividend<C>::kMostBits;
    const int bits = int(left < -kMost ? -kMost : left > kMost ? kMost : left);
    part = C(scalbn(1.0, bits));
    left -= bits;
  }
  dividend->parts[0] *= C(mine.mantissa);
  dividend->specials = mine.specials;
}

template <class T>
__global__ void __launch_bounds__(kThreads)
    divide_kernel(T* dx, const T* x, int64_t n, bool aligned, const T* dy,
                  const Dividend<Compute<T>>* dividend) {
  begin_kernel();
  constexpr int V = kVec<T>;
  using C = Compute<T>;
  const int64_t i = (int64_t(blockIdx.x) * kThreads + threadIdx.x) * V;
  if (i >= n) return;
  Vec<T, V> v = load_vector(x, i, n, aligned, T{});
  const Dividend<C> all = *dividend;
  const C slope = convert<C>(*dy);
#pragma unroll
  for (int j = 0; j < V; ++j) v.at[j] = convert<T>(slope * all.without(convert<C>(v.at[j])));
  if (aligned && i + V <= n) return store_vec(dx + i, v);
#pragma unroll
  for (int j = 0; j < V; ++j) {
    if (i + j < n) dx[i + j] = v.at[j];
  }
}

}  // namespace

void product_gradient(const Tensor& dx, const Tensor& x, const Tensor& dy) {
  const Launch on(x);
  const int64_t n = x.numel();
  visit_floating(x.dtype(), [&]<class T>(TypeTag<T>) {
    using C = Compute<T>;
    constexpr int64_t kRound = kThreads * kVec<T>;
    const int64_t rounds = ceil_div(n, kRound);
    const int64_t chunk = ceil_div(rounds, kMostBlocks) * kRound, blocks = ceil_div(n, chunk);
    const bool aligned = is_aligned(x.data_ptr(), 16) && is_aligned(dx.data_ptr(), 16);
    const Scratch parts(size_t(blocks) * sizeof(Factors), on.device);
    const Scratch dividend(sizeof(Dividend<C>), on.device);
    const auto* from = pointer<const T>(x);
    on.run(multiply_kernel<T>, {unsigned(blocks), kThreads}, parts.as<Factors>(), from, n, chunk,
           aligned);
    on.run(finish_kernel<C>, {1, kThreads}, dividend.as<Dividend<C>>(), parts.as<Factors>(),
           int(blocks));
    on.run(divide_kernel<T>, {unsigned(rounds), kThreads}, pointer<T>(dx), from, n, aligned,
           pointer<const T>(dy), dividend.as<Dividend<C>>());
  });
  on.check("prod_backward");
}

}  // namespace taper::v0::kernels::cuda
