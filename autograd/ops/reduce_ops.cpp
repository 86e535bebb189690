#include "autograd/ops/reduce_ops.h"

#include <algorithm>
#include <cmath>

#include "autograd/ops/op_helpers.h"
#include "framework/kernels/loss/softmax.h"
#include "framework/kernels/reduce/reduce.h"

namespace taper::v0 {
namespace {

using kernels::ReductionOp;

// Returns the shape of a reduction's result with keepdim.
Shape kept_shape(const Tensor& x, const Shape& dims) {
  Shape shape = x.shape();
  if (dims.empty()) std::fill(shape.begin(), shape.end(), 1);
  for (const int64_t d : dims) {
    if (x.dim() > 0) shape[wrap_dim(d, x.dim())] = 1;
  }
  return shape;
}

// Computes sum or mean. Every element receives the gradient times `factor`.
Tensor linear_reduction(const char* name, ReductionOp op, const Tensor& x, const Shape& dims,
                        bool keepdim) {
  Tensor y = kernels::reduce(op, x, dims, keepdim);
  const double factor =
      op == ReductionOp::kSum ? 1 : double(std::max<int64_t>(y.numel(), 1)) / double(x.numel());
  return linear_in(x, name, y, [from = x.shape(), kept = kept_shape(x, dims), factor](auto& dy) {
    return (factor == 1 ? dy : dy * factor).reshape(kept).expand(from);
  });
}

Tensor extremum(const char* name, ReductionOp op, const Tensor& x, const Shape& dims,
                bool keepdim) {
  Tensor y = kernels::reduce(op, x, dims, keepdim);
  const auto back = [kept = kept_shape(x, dims), dims](auto& dy, auto& z, auto& best) {
    const Tensor mask = eq(z, best.reshape(kept)).to(z.dtype());
    return dy.reshape(kept) * (mask / sum(mask, dims, true));
  };
  return differentiable(name, x, y, back);
}

Tensor arg_of_all(const char* name, bool largest, const Tensor& x) {
  require<IndexError>(x.numel() != 0, name,
                      "(): Expected reduction dim to be specified for input.numel() == 0. Specify "
                      "the reduction dim with the 'dim' argument.");
  return kernels::arg_reduce(largest, flatten(x.detach()), 0);
}

// Returns a * b, in the memory of a if no gradient is needed.
Tensor multiplied(const Tensor& a, const Tensor& b) {
  if (needs_grad({a, b})) return a * b;
  kernels::binary_into(kernels::BinaryOp::kMul, a, a, b);
  return a;
}

// Returns, for each element along dim, the product of all others without division: the product of
// the elements before it times that of the elements after it.
Tensor product_of_others(const Tensor& x, int64_t dim) {
  const int64_t n = x.dim() == 0 ? 1 : x.size(dim);
  if (n < 2) return ones_like(x);
  constexpr int64_t kLong = 32768, kWidth = 4096;
  // A long vector is split into columns of a matrix, which kernels process side by side. For each
  // element, the product of the others in its column is multiplied by that of all other columns.
  if (x.numel() == n && n > kLong) {
    const int64_t rows = (n + kWidth - 1) / kWidth, added = rows * kWidth - n;
    const Tensor all = added == 0 ? flatten(x) : flatten(x).pad({0, added}, 1);
    const Tensor t = reshape(all, {rows, kWidth});
    const Tensor y = multiplied(product_of_others(t, 0), product_of_others(prod(t, 0), 0));
    return reshape(narrow(flatten(y), 0, 0, n), x.shape());
  }
  return multiplied(product_before(x, dim), product_before(x, dim, true));
}

void check_norm_dtype(DType x, DType dtype) {
  require(is_floating_point(dtype),
          "linalg.vector_norm: dtype should be floating point or complex, but got ",
          scalar_type_name(dtype));
  require(promote_types(x, dtype) == dtype, "linalg.vector_norm: the dtype of the input (",
          scalar_type_name(x), ") should be convertible without narrowing to the specified dtype (",
          scalar_type_name(dtype), ")");
}

Tensor softmax_of(const char* name, bool log, const Tensor& x, int64_t dim,
                  std::optional<DType> dtype = std::nullopt) {
  if (dtype) return in_dtype(*dtype, x, [&](auto& t) { return softmax_of(name, log, t, dim); });
  if (autocasts(x)) return in_float32(softmax_of, name, log, x, dim, dtype);
  Tensor y = kernels::softmax(log, x, dim);
  if (!needs_grad({x})) return y;
  return record(name, y, {x}, [y = SavedTensor::output(y), log, dim](Gradients& g) {
    const Tensor p = y.get(g), &dy = g.dy();
    if (!is_grad_enabled()) {
      g.dx(0) = kernels::softmax_backward(log, dy, p, dim);
    } else if (log) {
      g.dx(0) = dy - exp(p) * sum(dy, {dim}, true);
    } else {
      g.dx(0) = p * (dy - sum(dy * p, {dim}, true));
    }
  });
}

// Returns the variance or standard deviation. Where the standard deviation is 0, its gradient is 0.
Tensor spread(const char* name, bool root, const Tensor& x, const Shape& dims, double correction,
              bool keepdim) {
  require(x.is_floating_point(), "std and var only support floating point and complex dtypes (got ",
          x.dtype(), ")");
  Tensor y = kernels::variance(root, x, dims, correction, keepdim);
  if (!needs_grad({x})) return y;
  const double n = double(x.numel()) / double(std::max<int64_t>(y.numel(), 1));
  const double factor = (root ? 1 : 2) / std::max(n - correction, 0.0);
  return record(name, y, {x},
                [x = SavedTensor(x), y = root ? SavedTensor::output(y) : SavedTensor(x), root, dims,
                 factor, kept = kept_shape(x, dims)](Gradients& g) {
                  const Tensor given = x.get(g), s = y.get(g);
                  // Half types would lose the distance to a mean that is far from 0.
                  const Tensor z = is_half(given.dtype()) ? given.to(kFloat32) : given;
                  const Tensor slope = root ? zero_outside(g.dy() / s, s) : g.dy();
                  const Tensor dx = reshape(slope, kept) * ((z - mean(z, dims, true)) * factor);
                  g.dx(0) = dx.to(given.dtype());
                });
}

}  // namespace

Tensor sum(const Tensor& x, const Shape& dims, BoolArg keepdim, std::optional<DType> dtype) {
  const auto again = [&](auto& t) { return sum(t, dims, keepdim); };
  if (dtype) return in_dtype(*dtype, x, again);
  if (autocasts(x)) return in_float32(again, x);
  return linear_reduction(dims.empty() ? "SumBackward0" : "SumBackward1", ReductionOp::kSum, x,
                          dims, keepdim);
}
Tensor sum(const Tensor& x, std::optional<DType> dtype) { return sum(x, {}, false, dtype); }

Tensor mean(const Tensor& x, const Shape& dims, BoolArg keepdim, std::optional<DType> dtype) {
  if (dtype) {
    require(is_floating_point(*dtype),
            "mean(): could not infer output dtype. Optional dtype must be either a floating point "
            "or complex dtype. Got: ",
            scalar_type_name(*dtype));
    return in_dtype(*dtype, x, [&](auto& t) { return mean(t, dims, keepdim); });
  }
  return linear_reduction(dims.empty() ? "MeanBackward0" : "MeanBackward1", ReductionOp::kMean, x,
                          dims, keepdim);
}
Tensor mean(const Tensor& x, std::optional<DType> dtype) { return mean(x, {}, false, dtype); }

Tensor prod(const Tensor& x, IntArg dim, BoolArg keepdim, std::optional<DType> dtype) {
  const auto again = [&](auto& t) { return prod(t, dim, keepdim); };
  if (dtype) return in_dtype(*dtype, x, again);
  if (autocasts(x)) return in_float32(again, x);
  Tensor y = kernels::reduce(ReductionOp::kProd, x, {dim}, keepdim);
  return differentiable("ProdBackward1", x, y, [dim](auto& dy, auto& z) {
    // One pass on a GPU. Where products of parts overflow, only its gradients are exact.
    if (z.is_cuda() && dy.numel() == 1 && !needs_grad({dy, z})) {
      return kernels::product_gradient(dy, z);
    }
    return multiplied(product_of_others(z, dim), reshape(dy, kept_shape(z, {dim})));
  });
}
Tensor prod(const Tensor& x, std::optional<DType> dtype) {
  return prod(flatten(x), 0, false, dtype);
}

Tensor var(const Tensor& x, const Shape& dims, RealArg correction, BoolArg keepdim) {
  return spread("VarBackward0", false, x, dims, correction, keepdim);
}
Tensor std(const Tensor& x, const Shape& dims, RealArg correction, BoolArg keepdim) {
  return spread("StdBackward0", true, x, dims, correction, keepdim);
}

VarMean var_mean(const Tensor& x, const Shape& dims, RealArg correction, BoolArg keepdim) {
  return {var(x, dims, correction, keepdim), mean(x, dims, keepdim)};
}
StdMean std_mean(const Tensor& x, const Shape& dims, RealArg correction, BoolArg keepdim) {
  return {std(x, dims, correction, keepdim), mean(x, dims, keepdim)};
}

Tensor norm(const Tensor& x, RealArg p, const Shape& dims, BoolArg keepdim,
            std::optional<DType> dtype) {
  if (autocasts(x) && !dtype) {
    return in_float32([&](const Tensor& y) { return norm(y, p, dims, keepdim); }, x);
  }
  require(x.is_floating_point(),
          "linalg.vector_norm: Expected a floating point or complex tensor as input. Got ",
          scalar_type_name(x.dtype()));
  if (dtype) {
    check_norm_dtype(x.dtype(), *dtype);
    return in_dtype(*dtype, x, [&](auto& t) { return norm(t, p, dims, keepdim); });
  }
  using kernels::ReduceMap;
  const Tensor plain = x.detach();
  const auto mapped = [&](ReductionOp op, ReduceMap map) {
    return kernels::reduce(op, plain, dims, keepdim, map);
  };
  const bool records = needs_grad({x});
  if (p == 0) return mapped(ReductionOp::kSum, ReduceMap::kNonzero).to(x.dtype());
  if (p == HUGE_VAL && !records) return mapped(ReductionOp::kAmax, ReduceMap::kAbs);
  if (std::isinf(p)) return p > 0 ? amax(abs(x), dims, keepdim) : amin(abs(x), dims, keepdim);
  if (is_half(x.dtype()) && (records || (p != 1 && p != 2))) {
    return norm(x.to(kFloat32), p, dims, keepdim).to(x.dtype());
  }
  Tensor y = p == 1   ? mapped(ReductionOp::kSum, ReduceMap::kAbs)
             : p == 2 ? sqrt(mapped(ReductionOp::kSum, ReduceMap::kSquare)).to(x.dtype())
                      : pow(sum(pow(abs(plain), p), dims, keepdim), 1 / p);
  // sign(x) * (|x| / y)^(p - 1), and 0 where x or y is 0.
  const auto back = [p, kept = kept_shape(x, dims)](auto& dy, auto& z, auto& all) {
    const Tensor own = p == 2   ? z
                       : p == 1 ? sign(z)
                                : zero_outside(sign(z) * pow(abs(z), p - 1), z);
    if (p == 1) return own * reshape(dy, kept);
    return own * reshape(zero_outside(dy / (p == 2 ? all : pow(all, p - 1)), all), kept);
  };
  return differentiable("LinalgVectorNormBackward0", x, y, back);
}

Tensor norm(const Tensor& x, const NormOptions& options) {
  return norm(x, options.p, options.dims, options.keepdim, options.dtype);
}

Tensor logsumexp(const Tensor& x, const Shape& dims, BoolArg keepdim) {
  if (autocasts(x)) return in_float32(logsumexp, x, dims, keepdim);
  if (!x.is_floating_point()) return logsumexp(x.to(kFloat32), dims, keepdim);
  if (is_half(x.dtype()) && needs_grad({x})) {
    return logsumexp(x.to(kFloat32), dims, keepdim).to(x.dtype());
  }
  Tensor y = kernels::logsumexp(x, dims, keepdim);
  const auto back = [kept = kept_shape(x, dims)](auto& dy, auto& z, auto& whole) {
    return reshape(dy, kept) * exp(z - reshape(whole, kept));
  };
  return differentiable("LogsumexpBackward0", x, y, back);
}

Tensor cdist(const Tensor& a, const Tensor& b, RealArg p) {
  if (autocasts(a)) return in_float32(cdist, a, b, p);
  kernels::same_device("cdist", {&a, &b}, {"x1", "x2"});
  for (const Tensor* x : {&a, &b}) {
    const char* name = x == &a ? "X1" : "X2";
    require(x->is_floating_point(), "cdist only supports floating-point dtypes, ", name,
            " got: ", scalar_type_name(x->dtype()));
    require(x->dim() >= 2, "cdist only supports at least 2D tensors, ", name, " got: ", x->dim(),
            "D");
  }
  require(a.size(-1) == b.size(-1),
          "X1 and X2 must have the same number of columns. X1: ", a.size(-1), " X2: ", b.size(-1));
  require(a.dtype() == b.dtype(), "expected scalar type ", scalar_type_name(a.dtype()),
          " but found ", scalar_type_name(b.dtype()), " (cdist)");
  if (is_half(a.dtype())) return cdist(a.to(kFloat32), b.to(kFloat32), p).to(a.dtype());
  require(!(p < 0), "cdist only supports non-negative p values, got ", p);
  const Tensor apart = unsqueeze(a, -2) - unsqueeze(b, -3);
  // The maximum of no elements is undefined, but the distance between empty vectors is 0.
  return a.size(-1) == 0 ? sum(apart, {-1}) : norm(apart, p, {-1});
}

Tensor softmax(const Tensor& x, IntArg dim, std::optional<DType> dtype) {
  return softmax_of("SoftmaxBackward0", false, x, dim, dtype);
}
Tensor log_softmax(const Tensor& x, IntArg dim, std::optional<DType> dtype) {
  return softmax_of("LogSoftmaxBackward0", true, x, dim, dtype);
}

Tensor amax(const Tensor& x, const Shape& dims, BoolArg keepdim) {
  return extremum("AmaxBackward0", ReductionOp::kAmax, x, dims, keepdim);
}
Tensor amin(const Tensor& x, const Shape& dims, BoolArg keepdim) {
  return extremum("AminBackward0", ReductionOp::kAmin, x, dims, keepdim);
}

Tensor argmax(const Tensor& x) { return arg_of_all("argmax", true, x); }
Tensor argmin(const Tensor& x) { return arg_of_all("argmin", false, x); }
Tensor argmax(const Tensor& x, IntArg dim, BoolArg keepdim) {
  return kernels::arg_reduce(true, x, dim, keepdim);
}
Tensor argmin(const Tensor& x, IntArg dim, BoolArg keepdim) {
  return kernels::arg_reduce(false, x, dim, keepdim);
}

Tensor all(const Tensor& x, const Shape& dims, BoolArg keepdim) {
  return kernels::reduce(ReductionOp::kAll, x, dims, keepdim);
}
Tensor any(const Tensor& x, const Shape& dims, BoolArg keepdim) {
  return kernels::reduce(ReductionOp::kAny, x, dims, keepdim);
}

// --- methods of Tensor ---

Tensor Tensor::sum(std::optional<DType> dtype) const { return taper::sum(*this, dtype); }
Tensor Tensor::sum(const Shape& dims, BoolArg keepdim, std::optional<DType> dtype) const {
  return taper::sum(*this, dims, keepdim, dtype);
}
Tensor Tensor::mean(std::optional<DType> dtype) const { return taper::mean(*this, dtype); }
Tensor Tensor::mean(const Shape& dims, BoolArg keepdim, std::optional<DType> dtype) const {
  return taper::mean(*this, dims, keepdim, dtype);
}
Tensor Tensor::prod(std::optional<DType> dtype) const { return taper::prod(*this, dtype); }
Tensor Tensor::prod(IntArg dim, BoolArg keepdim, std::optional<DType> dtype) const {
  return taper::prod(*this, dim, keepdim, dtype);
}
Tensor Tensor::var(const Shape& dims, RealArg correction, BoolArg keepdim) const {
  return taper::var(*this, dims, correction, keepdim);
}
Tensor Tensor::std(const Shape& dims, RealArg correction, BoolArg keepdim) const {
  return taper::std(*this, dims, correction, keepdim);
}
VarMean Tensor::var_mean(const Shape& dims, RealArg correction, BoolArg keepdim) const {
  return taper::var_mean(*this, dims, correction, keepdim);
}
StdMean Tensor::std_mean(const Shape& dims, RealArg correction, BoolArg keepdim) const {
  return taper::std_mean(*this, dims, correction, keepdim);
}
Tensor Tensor::norm(RealArg p, const Shape& dims, BoolArg keepdim,
                    std::optional<DType> dtype) const {
  return taper::norm(*this, p, dims, keepdim, dtype);
}
Tensor Tensor::norm(const NormOptions& options) const { return taper::norm(*this, options); }
Tensor Tensor::cdist(const Tensor& b, RealArg p) const { return taper::cdist(*this, b, p); }
Tensor Tensor::logsumexp(const Shape& dims, BoolArg keepdim) const {
  return taper::logsumexp(*this, dims, keepdim);
}
Tensor Tensor::softmax(IntArg dim, std::optional<DType> dtype) const {
  return taper::softmax(*this, dim, dtype);
}
Tensor Tensor::log_softmax(IntArg dim, std::optional<DType> dtype) const {
  return taper::log_softmax(*this, dim, dtype);
}
Tensor Tensor::amax(const Shape& dims, BoolArg keepdim) const {
  return taper::amax(*this, dims, keepdim);
}
Tensor Tensor::amin(const Shape& dims, BoolArg keepdim) const {
  return taper::amin(*this, dims, keepdim);
}
Tensor Tensor::argmax() const { return taper::argmax(*this); }
Tensor Tensor::argmin() const { return taper::argmin(*this); }
Tensor Tensor::argmax(IntArg dim, BoolArg keepdim) const {
  return taper::argmax(*this, dim, keepdim);
}
Tensor Tensor::argmin(IntArg dim, BoolArg keepdim) const {
  return taper::argmin(*this, dim, keepdim);
}
Tensor Tensor::all(const Shape& dims, BoolArg keepdim) const {
  return taper::all(*this, dims, keepdim);
}
Tensor Tensor::any(const Shape& dims, BoolArg keepdim) const {
  return taper::any(*this, dims, keepdim);
}

}  // namespace taper::v0
