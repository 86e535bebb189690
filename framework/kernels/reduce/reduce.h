// Reductions over any dimensions. Sums use a fixed order that depends only on the shape.
#pragma once

#include "framework/tensor/tensor.h"

namespace taper::v0::kernels {

enum class ReductionOp : uint8_t { kSum, kMean, kProd, kAmax, kAmin, kAll, kAny };

// How an element is mapped before it is combined: unchanged, |x|, x^2, or 1 where x is nonzero.
enum class ReduceMap : uint8_t { kNone, kAbs, kSquare, kNonzero };

// Reduces `dims`, or all dimensions if it is empty. sum and prod of integers give int64, mean
// requires a floating dtype, all and any give bool. float16 and bfloat16 accumulate in float. amax
// and amin throw for an empty dimension; NaN takes precedence. A map may be used with sum, and kAbs
// also with amax of a floating type. Sums of squares of half types are float32; counts are int64.
Tensor reduce(ReductionOp op, const Tensor& x, const Shape& dims, bool keepdim = false,
              ReduceMap map = ReduceMap::kNone);
// Returns log(sum(exp(x))) without overflow. Floating dtypes only.
Tensor logsumexp(const Tensor& x, const Shape& dims, bool keepdim = false);
// Returns the int64 index of the first largest or smallest element along dim; NaN takes precedence.
// If `values` is not null, it is set to the elements.
Tensor arg_reduce(bool largest, const Tensor& x, int64_t dim, bool keepdim = false,
                  Tensor* values = nullptr);
// Returns the variance over `dims` (all if empty), or its square root if `root`. The divisor is n -
// correction. The result has x's dtype, which must be floating; sums are double.
Tensor variance(bool root, const Tensor& x, const Shape& dims, double correction, bool keepdim);
// Returns the gradient of prod(x), whose gradient is dy (one element): dy times the product of all
// other elements of x, in any layout, as a dense tensor. No product of a part of the elements
// overflows or underflows. GPU only.
Tensor product_gradient(const Tensor& dy, const Tensor& x);
const char* name_of(ReductionOp op);
// The arguments recorded in traces of all reductions.
struct ReduceTrace {
  Shape dims;
  bool keepdim;
  double factor = 1;  // variance: n / (n - correction)
  ReduceMap map = ReduceMap::kNone;
};

// The sizes of a reduction over the middle dimension of a dense [outer, n, inner] tensor. The
// result is a dense [outer, inner] tensor.
struct ReduceSizes {
  int64_t outer = 1, n = 1, inner = 1;
};
// Returns the sizes for reducing a dense x along one dimension.
ReduceSizes sizes_along(const Tensor& x, int64_t dim);

namespace cpu {
void reduce(ReductionOp op, const Tensor& out, const Tensor& x, ReduceSizes sizes,
            ReduceMap map = ReduceMap::kNone);
void logsumexp(const Tensor& out, const Tensor& x, ReduceSizes sizes);
// If the elements are not requested, `values` is undefined.
void arg_reduce(bool largest, const Tensor& out, const Tensor& values, const Tensor& x,
                ReduceSizes sizes);
void variance(bool root, const Tensor& out, const Tensor& x, ReduceSizes sizes, double freedom);
}  // namespace cpu
namespace cuda {
void product_gradient(const Tensor& dx, const Tensor& x, const Tensor& dy);
void reduce(ReductionOp op, const Tensor& out, const Tensor& x, ReduceSizes sizes,
            ReduceMap map = ReduceMap::kNone);
void logsumexp(const Tensor& out, const Tensor& x, ReduceSizes sizes);
void arg_reduce(bool largest, const Tensor& out, const Tensor& values, const Tensor& x,
                ReduceSizes sizes);
void variance(bool root, const Tensor& out, const Tensor& x, ReduceSizes sizes, double freedom);
}  // namespace cuda

}  // namespace taper::v0::kernels
