// Code shared by the normalization kernels.
#pragma once

#include "framework/kernels/norm/norm.h"
#include "framework/kernels/reduce/row_reduce.cuh"

namespace taper::v0::kernels::cuda {

// The arguments of one kernel call: y is computed from x, or dx if dy is given. G is the type of y
// and dy.
template <class T, class G = T> struct NormArgs {
  using C = Compute<T>;
  NormSizes sizes;
  C eps;
  bool rms;
  C *mean, *rstd;
  const C *weight, *bias, *sums;
  G* y;
  T* dx;
  const G* dy;
  const T* x;
  const T* residual;
  bool relu;
  const T* added = nullptr;  // null: nothing is added to dx

  NormArgs(const Norm& n, const Tensor& out, const Tensor& gradient, const Tensor& input,
           const Tensor& total)
      : sizes(n.sizes), eps(C(n.eps)), rms(n.rms) {
    mean = pointer<C>(n.mean);
    rstd = pointer<C>(n.rstd);
    weight = pointer<C>(n.weight);
    bias = pointer<C>(n.bias);
    sums = pointer<C>(total);
    y = gradient.defined() ? nullptr : pointer<G>(out);
    dx = gradient.defined() ? pointer<T>(out) : nullptr;
    dy = pointer<G>(gradient);
    x = pointer<T>(input);
    residual = pointer<T>(n.residual);
    relu = n.relu;
  }
};

// Calls f(Int<kVec>) with a vector width. No vector extends over two channels or, if inner is 1,
// over two groups.
template <class T, class G, class F> void with_vectors(const NormArgs<T, G>& a, F f) {
  const NormSizes& s = a.sizes;
  const int64_t run = s.inner > 1 ? s.inner : s.groups > 0 ? s.per_group() : s.channels;
  with_row_vectors<T>(run, f, a.mean, a.rstd, a.weight, a.bias, a.sums, a.y, a.dx, a.dy, a.x,
                      a.residual, a.added);
}

// Loads the parameters of a vector's elements: one for each element if `own`, otherwise one for
// all. `none` is used if p is null.
template <int kVec, class C>
__device__ void load_numbers(C (&out)[kVec], const C* p, int64_t at, bool own, C none) {
  if (p && own) return load_row<C, kVec>(out, p + at);
  const C one = p ? p[at] : none;
#pragma unroll
  for (int j = 0; j < kVec; ++j) out[j] = one;
}

// Normalizes rows (Norm::sizes.groups > 0).
void norm_rows(const Norm& norm, const Tensor& out, const Tensor& dy, const Tensor& x);

}  // namespace taper::v0::kernels::cuda
