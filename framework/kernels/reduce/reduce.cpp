#include "framework/kernels/reduce/reduce.h"

#include <algorithm>
#include <cmath>

#include "framework/kernels/common/dispatch.h"
#include "framework/kernels/elementwise/copy.h"
#include "framework/profiler/trace.h"

namespace taper::v0::kernels {
namespace {

// Names in the order of ReductionOp.
constexpr const char* kNames[] = {"sum", "mean", "prod", "amax", "amin", "all", "any"};

DType result_dtype(ReductionOp op, DType x, ReduceMap map) {
  if (map == ReduceMap::kNonzero) return kInt64;
  if (map == ReduceMap::kSquare) return accumulate_type(x);
  switch (op) {
    case ReductionOp::kAll:
    case ReductionOp::kAny: return kBool;
    case ReductionOp::kSum:
    case ReductionOp::kProd: return is_floating_point(x) ? x : kInt64;
    default: return x;
  }
}

// Describes x with its reduced dimensions adjacent, as [outer, n, inner], and the shape of the
// result.
struct Plan {
  Tensor x;
  ReduceSizes sizes;
  Shape result;
};

Plan make_plan(const Tensor& x, const Shape& dims, bool keepdim) {
  bool reduced[kMaxDims] = {};
  for (const int64_t d : dims) {
    const int i = wrap_dim(d, x.dim());
    if (reduced[i]) throw Error("dim ", i, " appears multiple times in the list of dims");
    reduced[i] = true;
  }
  if (dims.empty()) std::fill(reduced, reduced + x.dim(), true);

  Plan plan;
  int first = x.dim(), last = -1;
  for (int i = 0; i < x.dim(); ++i) {
    if (!reduced[i]) {
      plan.result.push_back(x.shape()[i]);
      continue;
    }
    if (keepdim) plan.result.push_back(1);
    first = std::min(first, i);
    last = i;
    plan.sizes.n *= x.shape()[i];
  }
  bool adjacent = true;
  for (int i = first; i < last; ++i) adjacent = adjacent && reduced[i];

  if (adjacent && x.is_contiguous()) {
    plan.x = x.detach();
    for (int i = 0; i < first; ++i) plan.sizes.outer *= x.shape()[i];
    for (int i = last + 1; i < x.dim() && last >= 0; ++i) plan.sizes.inner *= x.shape()[i];
    return plan;
  }
  // If no view has that form, a copy moves the kept dimensions to the front.
  Shape shape, strides;
  for (const bool wanted : {false, true}) {
    for (int i = 0; i < x.dim(); ++i) {
      if (reduced[i] != wanted) continue;
      shape.push_back(x.shape()[i]);
      strides.push_back(x.strides()[i]);
      if (!wanted) plan.sizes.outer *= x.shape()[i];
    }
  }
  plan.x = dense(view_as(x, shape, strides, x.storage_offset()));
  return plan;
}

}  // namespace

const char* name_of(ReductionOp op) { return kNames[size_t(op)]; }

ReduceSizes sizes_along(const Tensor& x, int64_t dim) {
  const int d = wrap_dim(dim, x.dim());
  ReduceSizes sizes;
  for (int i = 0; i < x.dim(); ++i) {
    (i < d ? sizes.outer : i == d ? sizes.n : sizes.inner) *= x.shape()[i];
  }
  return sizes;
}

Tensor reduce(ReductionOp op, const Tensor& x, const Shape& dims, bool keepdim, ReduceMap map) {
  require(op != ReductionOp::kMean || x.is_floating_point(),
          "mean(): could not infer output dtype. Input dtype must be either a floating ",
          "point or complex dtype. Got: ", scalar_type_name(x.dtype()));
  const Plan plan = make_plan(x, dims, keepdim);
  if (plan.sizes.n == 0 && (op == ReductionOp::kAmax || op == ReductionOp::kAmin)) {
    require(!dims.empty(), name_of(op),
            "(): Expected reduction dim to be specified for input.numel() == 0. Specify "
            "the reduction dim with the 'dim' argument.");
    for (const int64_t d : dims) {
      require<IndexError>(x.size(d) > 0, name_of(op), "(): Expected reduction dim ", d,
                          " to have non-zero size.");
    }
  }
  Tensor out = Tensor::make(plan.result, result_dtype(op, x.dtype(), map), x.device());
  if (out.numel() == 0) return out;
  dispatch<cpu::reduce, cuda::reduce>({x.device(), name_of(op)}, op, out, plan.x, plan.sizes, map);
  trace(name_of(op), out, {x}, ReduceTrace{dims, keepdim, 1, map});
  return out;
}

Tensor logsumexp(const Tensor& x, const Shape& dims, bool keepdim) {
  const Plan plan = make_plan(x, dims, keepdim);
  Tensor out = Tensor::make(plan.result, x.dtype(), x.device());
  if (out.numel() == 0) return out;
  dispatch<cpu::logsumexp, cuda::logsumexp>(x.device(), out, plan.x, plan.sizes);
  trace("logsumexp", out, {x}, ReduceTrace{dims, keepdim});
  return out;
}

Tensor variance(bool root, const Tensor& x, const Shape& dims, double correction, bool keepdim) {
  const char* name = root ? "std" : "var";
  const Plan plan = make_plan(x, dims, keepdim);
  Tensor out = Tensor::make(plan.result, x.dtype(), x.device());
  const double n = double(plan.sizes.n), freedom = std::max(n - correction, 0.0);
  if (n == 0) fill(out, NAN);
  if (out.numel() == 0 || n == 0) return out;
  dispatch<cpu::variance, cuda::variance>({x.device(), name}, root, out, plan.x, plan.sizes,
                                          freedom);
  trace(name, out, {x}, ReduceTrace{dims, keepdim, n / freedom});
  return out;
}

Tensor product_gradient(const Tensor& dy, const Tensor& x) {
  const Tensor dx = Tensor::make(x.shape(), x.dtype(), x.device());
  if (x.numel() == 0) return dx;
  dispatch(
      x.device(), [] {}, [&] { cuda::product_gradient(dx, dense(x), dy); }, "prod_backward");
  return dx;
}

Tensor arg_reduce(bool largest, const Tensor& x, int64_t dim, bool keepdim, Tensor* values) {
  const char* name = largest ? "argmax" : "argmin";
  const Plan plan = make_plan(x, {wrap_dim(dim, x.dim())}, keepdim);
  require<IndexError>(plan.sizes.n != 0, name, "(): Expected reduction dim ", dim,
                      " to have non-zero size.");
  Tensor out = Tensor::make(plan.result, kInt64, x.device());
  const Tensor taken = values ? Tensor::make(plan.result, x.dtype(), x.device()) : Tensor();
  if (values) *values = taken;
  if (out.numel() == 0) return out;
  dispatch<cpu::arg_reduce, cuda::arg_reduce>({x.device(), name}, largest, out, taken, plan.x,
                                              plan.sizes);
  trace(name, out, {x}, ReduceTrace{{dim}, keepdim});
  if (values) trace(largest ? "amax" : "amin", taken, {x}, ReduceTrace{{dim}, keepdim});
  return out;
}

}  // namespace taper::v0::kernels
