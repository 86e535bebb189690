// Random numbers as a function of (seed, stream, element index), with equal bits on every device.
// Element i uses word i % 4 of Philox block i / 4; float64 uses two words per element. A shorter
// draw is therefore the beginning of a longer one with the same key.
#pragma once

#include "framework/base/philox.h"
#include "framework/kernels/common/dispatch.h"

namespace taper::v0::kernels {

// Until the end of the scope, random fills on this thread leave memory uninitialized. Used to
// create models whose values do not matter (compare torch.nn.utils.skip_init).
class SkipDrawsGuard {
 public:
  SkipDrawsGuard();
  ~SkipDrawsGuard();
  SkipDrawsGuard& operator=(SkipDrawsGuard&&) = delete;  // neither copied nor moved
};

// These functions write a dense tensor, of a floating dtype unless noted.
void uniform_into(const Tensor& out, PhiloxKey key, double low, double high);    // [low, high)
void normal_into(const Tensor& out, PhiloxKey key, double mean, double std);     // Box-Muller
void bernoulli_into(const Tensor& out, PhiloxKey key, double p);                 // any dtype
void randint_into(const Tensor& out, PhiloxKey key, int64_t low, int64_t high);  // [low, high)
// Writes a permutation of 0 to n-1 as dense int64, by sorting random words; ties are ordered by
// index.
void randperm_into(const Tensor& out, PhiloxKey key);

// Returns x * keep / (1 - p), where element i is kept if its uniform number is at least p. No mask
// is stored: the backward pass is the same call on dy with the same key.
Tensor dropout(const Tensor& x, double p, PhiloxKey key);
// Like dropout above, but rounds the result to `dtype` and uses the random numbers from element
// `first` on, which must be a multiple of 4.
Tensor dropout(const Tensor& x, double p, PhiloxKey key, DType dtype, uint64_t first = 0);
// Returns residual + dropout(x), with residual's shape and dtype: x's dtype, or float32 if x has a
// half type.
Tensor dropout_add(const Tensor& x, double p, PhiloxKey key, const Tensor& residual);

// Picks a position for each of draws [rows, n] (float64 in [0, 1)), and returns them as int64
// [rows, n]. It is the first position in the row of sums [rows, k] (int64, ascending, k > 0) whose
// value exceeds draw * the row's last sum.
Tensor pick(const Tensor& sums, const Tensor& draws);

// Returns weights [rows, k] / max(a^2 + b^2, 1e-30), where z [2, rows, k] holds a and b. If they
// are normally distributed, the largest quotients of a row draw from its weights without
// replacement. All tensors are dense and float32 or float64. GPU only: one pass instead of five.
Tensor race_scores(const Tensor& weights, const Tensor& z);

// Functions with one formula for both backends (random_formulas.h). Tensors are dense. bernoulli
// writes float32 and randint int64.
template <class Backend> struct RandomKernels {
  static void uniform(const Tensor& out, PhiloxKey key, double low, double high);
  static void normal(const Tensor& out, PhiloxKey key, double mean, double std);
  static void bernoulli(const Tensor& out, PhiloxKey key, double p);
  static void randint(const Tensor& out, PhiloxKey key, int64_t low, int64_t high);
  static void pick(const Tensor& out, const Tensor& sums, const Tensor& draws);
};

namespace cpu {
void randperm(const Tensor& out, PhiloxKey key);
// `block` is the first Philox block.
void dropout(const Tensor& y, const Tensor& x, double p, PhiloxKey key, uint64_t block);
}  // namespace cpu
namespace cuda {
void randperm(const Tensor& out, PhiloxKey key);
// residual has y's dtype and may be undefined. One of x and y may be float32 while the other has a
// half type.
void dropout(const Tensor& y, const Tensor& x, double p, PhiloxKey key, uint64_t block,
             const Tensor& residual);
void race_scores(const Tensor& out, const Tensor& weights, const Tensor& z);
}  // namespace cuda

}  // namespace taper::v0::kernels
