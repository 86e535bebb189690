// Reductions over any dimensions. Sums run in a fixed order that depends on the shape alone.
#pragma once

#include "framework/tensor/tensor.h"

namespace taper::v0::kernels {

enum class ReduceOp : uint8_t { sum, mean, prod, amax, amin, all, any };

// What becomes of an element before it is joined: itself, |x|, its square, or 1 where it is not 0.
enum class ReduceMap : uint8_t { none, abs, square, nonzero };

// Reduces `dims` (all when empty). sum and prod of integers give int64, mean needs a floating
// dtype, all and any give bool; float16 and bfloat16 accumulate in float. amax and amin of an empty
// dimension are refused. nan wins in amax and amin. A map goes with sum (abs of floating types with
// amax too): sums of squares of half types are float32, counts int64.
Tensor reduce(ReduceOp op, const Tensor& x, const Shape& dims, bool keepdim = false,
              ReduceMap map = ReduceMap::none);
// log(sum(exp(x))) without overflow, of floating types.
Tensor logsumexp(const Tensor& x, const Shape& dims, bool keepdim = false);
// Index (int64) of the first largest or smallest element along dim; nan wins. `values`: what stands
// there.
Tensor arg_reduce(bool largest, const Tensor& x, int64_t dim, bool keepdim = false,
                  Tensor* values = nullptr);
// The variance over `dims` (all when empty), with n - correction for n, or its root; in the dtype
// of x, which is a floating one, from sums in double.
Tensor variance(bool root, const Tensor& x, const Shape& dims, double correction, bool keepdim);
const char* name_of(ReduceOp op);
// What traces are told of all.
struct ReduceTrace {
  Shape dims;
  bool keepdim;
  double factor = 1;  // of a variance: n over n - correction
  ReduceMap map = ReduceMap::none;
};

// A dense [outer, n, inner] tensor is reduced over n into a dense [outer, inner] one.
struct ReduceSizes {
  int64_t outer = 1, n = 1, inner = 1;
};
// Of a dense x along one dimension.
ReduceSizes sizes_along(const Tensor& x, int64_t dim);

namespace cpu {
void reduce(ReduceOp op, const Tensor& out, const Tensor& x, ReduceSizes sizes,
            ReduceMap map = ReduceMap::none);
void logsumexp(const Tensor& out, const Tensor& x, ReduceSizes sizes);
// values: undefined where they are not asked for.
void arg_reduce(bool largest, const Tensor& out, const Tensor& values, const Tensor& x,
                ReduceSizes sizes);
void variance(bool root, const Tensor& out, const Tensor& x, ReduceSizes sizes, double freedom);
}  // namespace cpu
namespace cuda {
void reduce(ReduceOp op, const Tensor& out, const Tensor& x, ReduceSizes sizes,
            ReduceMap map = ReduceMap::none);
void logsumexp(const Tensor& out, const Tensor& x, ReduceSizes sizes);
void arg_reduce(bool largest, const Tensor& out, const Tensor& values, const Tensor& x,
                ReduceSizes sizes);
void variance(bool root, const Tensor& out, const Tensor& x, ReduceSizes sizes, double freedom);
}  // namespace cuda

}  // namespace taper::v0::kernels
