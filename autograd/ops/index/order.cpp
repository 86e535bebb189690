#include "autograd/ops/index/order.h"

#include <limits>

#include "autograd/ops/index/rows.h"
#include "autograd/ops/op_helpers.h"
#include "framework/kernels/reduce/sort.h"

namespace taper::v0 {
namespace {

int64_t size_along(const Tensor& x, int64_t dim) {
  const int d = wrap_dim(dim, x.dim());
  return x.dim() == 0 ? 1 : x.size(d);
}

// Records y, which is an element of x. All elements of x that are equal to y share the gradient.
Tensor shared_gradient(const char* name, const Tensor& x, const Tensor& y) {
  return differentiable(name, x, y, [](auto& dy, auto& z, auto& value) {
    const Tensor equal = logical_or(eq(z, value), logical_and(isnan(z), isnan(value)));
    return zero_outside(dy / sum(equal).to(z.dtype()), equal);
  });
}

// Returns `values`, the elements at `index` along dim, recorded on the tape.
Sorted taken(const char* name, const Tensor& x, int64_t dim, const Tensor& values,
             const Tensor& index, bool keepdim) {
  Sorted y{values, index};
  if (!keepdim) y = {squeeze(values, dim).detach(), squeeze(index, dim).detach()};
  const auto back = [name, shape = x.shape(), d = wrap_dim(dim, x.dim()), index](const Tensor& dy) {
    return add_rows({}, shape, element_rows(name, shape, d, index, true), dy);
  };
  return {linear_in(x, name, y.values, back), y.indices};
}

Tensor extreme(bool largest, const Tensor& x) {
  require(x.numel() != 0, largest ? "max" : "min",
          "(): Expected reduction dim to be specified for input.numel() == 0. Specify the "
          "reduction dim with the 'dim' argument.");
  using kernels::ReductionOp;
  return shared_gradient(largest ? "MaxBackward1" : "MinBackward1", x,
                         kernels::reduce(largest ? ReductionOp::kAmax : ReductionOp::kAmin, x, {}));
}

Sorted extreme(bool largest, const Tensor& x, int64_t dim, bool keepdim) {
  require<IndexError>(size_along(x, dim) != 0, largest ? "max" : "min",
                      "(): Expected reduction dim ", dim, " to have non-zero size.");
  Tensor values;
  const Tensor index = kernels::arg_reduce(largest, x, dim, true, &values);
  return taken(largest ? "MaxBackward0" : "MinBackward0", x, dim, values, index, keepdim);
}

// Counts the elements along dim that are not NaN. Keeps dim.
Tensor count_numbers(const Tensor& x, int64_t dim) {
  return sum(logical_not(isnan(x.detach())), {dim}, true);
}

// Returns the indices of the medians along dim by sorting. Keeps dim.
Tensor place_of_median(const Tensor& x, int64_t dim) {
  const int64_t n = size_along(x, dim);
  const Tensor numbers = count_numbers(x, dim);
  const Tensor rank = where(eq(numbers, n), (n - 1) / 2, numbers);
  if (!x.is_cpu()) return gather(argsort(x, dim), dim, rank);
  const Tensor rows = transpose(x, dim, -1), ranks = transpose(rank, dim, -1);
  return contiguous(transpose(kernels::place_of_rank(rows, ranks), dim, -1));
}

// Returns the medians along dim and their indices: the middle of the sorted row, or the first NaN
// if there is one. Keeps dim.
Sorted medians(const Tensor& x, int64_t dim) {
  if (!kernels::sorts_values(x, dim)) {
    const Tensor place = place_of_median(x, dim);
    return {gather(x, dim, place), place};
  }
  Tensor values;
  const Tensor place = kernels::place_of_median(transpose(x, dim, -1), &values);
  return {contiguous(transpose(values, dim, -1)), contiguous(transpose(place, dim, -1))};
}

}  // namespace

Tensor max(const Tensor& x) { return extreme(true, x); }
Tensor min(const Tensor& x) { return extreme(false, x); }
Sorted max(const Tensor& x, IntArg dim, BoolArg keepdim) { return extreme(true, x, dim, keepdim); }
Sorted min(const Tensor& x, IntArg dim, BoolArg keepdim) { return extreme(false, x, dim, keepdim); }

Tensor median(const Tensor& x) {
  if (x.numel() == 0) {
    return full({}, std::numeric_limits<double>::quiet_NaN(), {.device = x.device()}).to(x.dtype());
  }
  const Tensor all = flatten(x.detach());
  return shared_gradient("MedianBackward0", x, reshape(medians(all, 0).values, {}));
}

Sorted median(const Tensor& x, IntArg dim, BoolArg keepdim) {
  require<IndexError>(size_along(x, dim) != 0, "median(): Expected reduction dim ", dim,
                      " to have non-zero size.");
  const auto [values, place] = medians(x.detach(), dim);
  return taken("MedianBackward1", x, dim, values, place, keepdim);
}

Tensor quantile(const Tensor& x, const Tensor& q, std::optional<IntArg> dim, BoolArg keepdim,
                QuantileMode mode) {
  require(x.numel() != 0, "quantile() input tensor must be non-empty");
  require(q.dim() <= 1, "quantile() q must be a scalar or 1D tensor, got ", q.shape());
  require(x.dtype() == kFloat32 || x.dtype() == kFloat64,
          "quantile() input tensor must be either float or double dtype, got ", x.dtype());
  require(q.dtype() == x.dtype(),
          "quantile() q tensor must be same dtype as the input tensor, got ", q.dtype(), " and ",
          x.dtype());
  kernels::same_device("quantile", {&x, &q}, {"input", "q"});
  require(!q.is_cpu() || all(logical_and(q >= 0, q <= 1)).item<bool>(),
          "quantile() q values must be in the range [0, 1]");
  const int d = dim ? wrap_dim(*dim, x.dim()) : 0;
  const Tensor rows = dim && x.dim() > 0 ? movedim(x, d, -1) : flatten(x);
  const int64_t last = rows.size(-1) - 1;
  // For a row with a NaN, select its last sorted element, which is NaN.
  Tensor rank = where(eq(count_numbers(rows, -1), last + 1), flatten(q) * last, last);
  if (mode == QuantileMode::kLower) rank = floor(rank);
  if (mode == QuantileMode::kHigher) rank = ceil(rank);
  if (mode == QuantileMode::kNearest) rank = round(rank);
  const Tensor order = argsort(rows, -1), below = floor(rank.detach());
  const auto with_rank = [&](const Tensor& r) {
    return gather(rows, -1, gather(order, -1, r.to(kInt64)));
  };
  Tensor y = with_rank(below);
  if (mode == QuantileMode::kLinear || mode == QuantileMode::kMidpoint) {
    const Tensor step = with_rank(ceil(rank.detach())) - y;
    y = y + (mode == QuantileMode::kLinear ? step * (rank - below) : step * 0.5);
  }
  y = movedim(y, -1, 0);
  for (int i = 0; keepdim && !dim && i < x.dim(); ++i) y = unsqueeze(y, -1);
  if (keepdim && dim && x.dim() > 0) y = unsqueeze(y, 1 + d);
  return q.dim() == 0 ? squeeze(y, 0) : y;
}

Tensor quantile(const Tensor& x, RealArg q, std::optional<IntArg> dim, BoolArg keepdim,
                QuantileMode mode) {
  require(q >= 0 && q <= 1, "quantile() q must be in the range [0, 1] but got ", q);
  return quantile(x, full({}, q, options_of(x)), dim, keepdim, mode);
}

Tensor quantile(const Tensor& x, const Tensor& q, const QuantileOptions& options) {
  return quantile(x, q, options.dim, options.keepdim, options.interpolation);
}

Tensor quantile(const Tensor& x, RealArg q, const QuantileOptions& options) {
  return quantile(x, q, options.dim, options.keepdim, options.interpolation);
}

// --- methods of Tensor ---

Tensor Tensor::max() const { return taper::max(*this); }
Tensor Tensor::min() const { return taper::min(*this); }
Sorted Tensor::max(IntArg dim, BoolArg keepdim) const { return taper::max(*this, dim, keepdim); }
Sorted Tensor::min(IntArg dim, BoolArg keepdim) const { return taper::min(*this, dim, keepdim); }
Tensor Tensor::max(const Tensor& b) const { return taper::max(*this, b); }
Tensor Tensor::min(const Tensor& b) const { return taper::min(*this, b); }
Tensor Tensor::median() const { return taper::median(*this); }
Sorted Tensor::median(IntArg dim, BoolArg keepdim) const {
  return taper::median(*this, dim, keepdim);
}
Tensor Tensor::quantile(const Tensor& q, std::optional<IntArg> dim, BoolArg keepdim,
                        QuantileMode interpolation) const {
  return taper::quantile(*this, q, dim, keepdim, interpolation);
}
Tensor Tensor::quantile(RealArg q, std::optional<IntArg> dim, BoolArg keepdim,
                        QuantileMode interpolation) const {
  return taper::quantile(*this, q, dim, keepdim, interpolation);
}
Tensor Tensor::quantile(const Tensor& q, const QuantileOptions& options) const {
  return taper::quantile(*this, q, options);
}
Tensor Tensor::quantile(RealArg q, const QuantileOptions& options) const {
  return taper::quantile(*this, q, options);
}

}  // namespace taper::v0
