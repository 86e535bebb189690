// Random numbers as a function of (seed, stream, element index): equal bits on every device.
// Element i of a draw uses word i % 4 of Philox block i / 4; float64 uses two words each. So a
// shorter draw is the beginning of a longer one with the same key.
#pragma once

#include "framework/base/philox.h"
#include "framework/kernels/common/dispatch.h"

namespace taper::v0::kernels {

// Until the end of the scope this thread's draws leave memory as it is: for models whose values do
// not matter (torch.nn.utils.skip_init).
class SkipDraws {
 public:
  SkipDraws();
  ~SkipDraws();
  SkipDraws& operator=(SkipDraws&&) = delete;  // neither copied nor moved
};

// All write a dense tensor of a floating dtype unless said otherwise.
void uniform_into(const Tensor& out, PhiloxKey key, double low, double high);    // [low, high)
void normal_into(const Tensor& out, PhiloxKey key, double mean, double std);     // Box-Muller
void bernoulli_into(const Tensor& out, PhiloxKey key, double p);                 // any dtype
void randint_into(const Tensor& out, PhiloxKey key, int64_t low, int64_t high);  // [low, high)
// A permutation of 0 .. n-1 as dense int64: sorts random words, ties by index.
void randperm_into(const Tensor& out, PhiloxKey key);

// y = x * keep / (1 - p), where element i is kept when its uniform number is at least p. No mask is
// stored: the backward pass is the same call on dy with the same key.
Tensor dropout(const Tensor& x, double p, PhiloxKey key);
// The same of x rounded to `dtype` first; with the numbers from element `first` on, a multiple
// of 4.
Tensor dropout(const Tensor& x, double p, PhiloxKey key, DType dtype, uint64_t first = 0);
// residual + dropout(x), of residual's shape and dtype, which is x's or float32 for a half type.
Tensor dropout_add(const Tensor& x, double p, PhiloxKey key, const Tensor& residual);

// For each of draws [rows, n] (float64 in [0, 1)) the first place in its row of sums [rows, k]
// (int64, rising, k > 0) that is above draw * the row's last sum: int64 [rows, n].
Tensor pick(const Tensor& sums, const Tensor& draws);

// Those that are one formula for every backend (random_formulas.h), on dense tensors; bernoulli of
// float32, randint of int64.
template <class Backend> struct RandomKernels {
  static void uniform(const Tensor& out, PhiloxKey key, double low, double high);
  static void normal(const Tensor& out, PhiloxKey key, double mean, double std);
  static void bernoulli(const Tensor& out, PhiloxKey key, double p);
  static void randint(const Tensor& out, PhiloxKey key, int64_t low, int64_t high);
  static void pick(const Tensor& out, const Tensor& sums, const Tensor& draws);
};

namespace cpu {
void randperm(const Tensor& out, PhiloxKey key);
// block: the first of the draw's.
void dropout(const Tensor& y, const Tensor& x, double p, PhiloxKey key, uint64_t block);
}  // namespace cpu
namespace cuda {
void randperm(const Tensor& out, PhiloxKey key);
// residual, of y's dtype, may be undefined. Of x and y one may be float32 and the other a half
// type.
void dropout(const Tensor& y, const Tensor& x, double p, PhiloxKey key, uint64_t block,
             const Tensor& residual);
}  // namespace cuda

}  // namespace taper::v0::kernels
