#include "autograd/ops/index/scatter.h"

#include <vector>

#include "autograd/ops/index/index_ops.h"
#include "autograd/ops/index/rows.h"
#include "autograd/ops/op_helpers.h"

namespace taper::v0 {
namespace {

using kernels::RowOp;

// The target rows of an index, and the source elements for them.
struct Placed {
  Rows rows;
  Tensor src;  // with the sizes of the index
};

// Returns the elements of src that an index along dimension d of x places, with its sizes.
Tensor placed_source(const char* op, const Tensor& x, int d, const Tensor& index,
                     const Tensor& src) {
  kernels::same_device(op, {&x, &index, &src}, {"self", "index", "src"});
  check_elements("scatter", "self", x, index);
  check_elements("scatter", "src", src, index);
  require(x.dtype() == src.dtype(), "scatter(): Expected self.dtype to be equal to src.dtype, got ",
          x.dtype(), " and ", src.dtype());
  require(dim_beyond(index, x, d) < 0 && dim_beyond(index, src, -1) < 0, "Expected index ",
          index.shape(), " to be no larger than self ", x.shape(), " apart from dimension ", d,
          " and to be no larger size than src ", src.shape());
  const Shape sizes = at_least_1d(index.shape());
  const Tensor cropped = reshape(src, at_least_1d(src.shape()));
  std::vector<int64_t> crop;
  for (int i = sizes.size() - 1; i >= 0; --i) {
    crop.insert(crop.end(), {0, sizes[i] - cropped.shape()[i]});
  }
  return sizes != cropped.shape() ? pad(cropped, crop) : cropped;
}

Placed placed(const char* op, const Tensor& x, int64_t dim, const Tensor& index,
              const Tensor& src) {
  const int d = wrap_dim(dim, x.dim());
  const Tensor cropped = placed_source(op, x, d, index, src);
  return {element_rows(op, x.shape(), d, index), cropped};
}

Tensor with_zeros(const Tensor& x, const Rows& rows, const Shape& shape) {
  return put_rows_("scatter", clone(x), rows, zeros(shape, options_of(x)));
}

// Adds src to x, or to x with zeros at the target rows if !include_self.
Tensor with_added(const Tensor& x, const Rows& rows, const Tensor& src, bool include_self) {
  return add_rows(include_self ? x : with_zeros(x, rows, src.shape()), x.shape(), rows, src);
}

Tensor at_rows(const Tensor& x, const Rows& rows, const Tensor& src) {
  return take_rows("GatherBackward0", x, rows, src.shape());
}

// Returns, for each factor e of a product, the product of all other factors. p is the product of
// the nonzero factors, `none` the number of zeros and `sum` the sum of the zeros. That sum is 0,
// but it makes second derivatives see the dependence on a single zero.
Tensor other_factors(const Tensor& e, const Tensor& p, const Tensor& none, const Tensor& sum) {
  const Tensor zero = eq(e, 0), others = none - zero.to(none.dtype());
  const Tensor rest = zero_outside(sum - zero_outside(e, zero), eq(others, 1));
  return p / where(zero, 1, e) * where(eq(others, 0), 1, rest);
}

// Combines all elements of src with the same target by prod, amax or amin. x's own element takes
// part if include_self. Elements of x that are no target are kept.
Tensor folded(RowOp op, const Tensor& x, const Placed& at, bool include_self) {
  Tensor y = clone(x.detach());
  const Rows& rows = at.rows;
  // Start from a neutral value: 1 for prod, an element of src for amax and amin.
  if (!include_self) {
    const Tensor first = op == RowOp::kProd ? ones_like(at.src) : at.src.detach();
    kernels::fold_rows(RowOp::kPut, y, rows.key, 1, first);
  }
  kernels::fold_rows(op, y, rows.key, 1, at.src);
  if (!needs_grad({x, at.src})) return y;
  return record(
      "ScatterReduceBackward0", y, {x, at.src},
      [x = SavedTensor(x), src = SavedTensor(at.src), y = SavedTensor::output(y), rows, op,
       include_self](auto& g) {
        const Tensor z = x.get(g), s = src.get(g), &dy = g.dy();
        const auto counted = [&](const Tensor& own, const Tensor& theirs) {
          return with_added(own, rows, theirs, include_self);
        };
        if (op == RowOp::kProd) {
          const Tensor z0 = eq(z, 0), s0 = eq(s, 0);
          const Tensor p = folded(op, where(z0, 1, z), {rows, where(s0, 1, s)}, include_self);
          const Tensor none = counted(z0.to(kFloat32), s0.to(kFloat32));
          const Tensor zeros_of = counted(zero_outside(z, z0), zero_outside(s, s0));
          if (g.needs(0) && include_self) g.dx(0) = dy * other_factors(z, p, none, zeros_of);
          if (g.needs(0) && !include_self) g.dx(0) = with_zeros(dy, rows, s.shape());
          if (g.needs(1)) {
            const auto there = [&](const Tensor& t) { return at_rows(t, rows, s); };
            g.dx(1) = there(dy) * other_factors(s, there(p), there(none), there(zeros_of));
          }
          return;
        }
        // Equal elements share the gradient.
        const Tensor best = y.get(g);
        const Tensor own = eq(z, best).to(dy.dtype());
        const Tensor theirs = eq(s, at_rows(best, rows, s)).to(dy.dtype());
        const Tensor share = dy / counted(own, theirs);
        if (g.needs(0)) {
          g.dx(0) = zero_outside(share, include_self ? own : with_zeros(own, rows, s.shape()));
        }
        if (g.needs(1)) g.dx(1) = zero_outside(at_rows(share, rows, s), theirs);
      });
}

// --- slices ---

void check_slices(const char* op, const Tensor& x, int d, const Tensor& index,
                  const Tensor& source) {
  kernels::same_device(op, {&x, &index, &source}, {"self", "index", "source"});
  require(x.dtype() == source.dtype(), op, "(): self (", scalar_type_name(x.dtype()),
          ") and source (", scalar_type_name(source.dtype()), ") must have the same scalar type");
  const int64_t slices = source.dim() == 0 ? 1 : source.size(std::min(d, source.dim() - 1));
  require<IndexError>(index.numel() == slices, op, "(): Number of indices (", index.numel(),
                      ") should be equal to source.size(dim): (", slices, "), for dim: ", d);
  Shape wanted = at_least_1d(x.shape());
  wanted[d] = slices;
  require(wanted == at_least_1d(source.shape()),
          "source tensor shape must match self tensor shape, excluding the specified dimension. "
          "Got self.shape = ",
          x.shape(), " source.shape = ", source.shape());
}

void check_long(const char* op, const Tensor& index) {
  require<IndexError>(index.dim() <= 1, op, "(): Index should have dimension 1 or 0 (got ",
                      index.dim(), ")");
  require(index.dtype() == kInt64, op, "(): Expected a long tensor for index, but got ",
          scalar_type_name(index.dtype()));
}

}  // namespace

Tensor scatter_(const Tensor& x, IntArg dim, const Tensor& index, const Tensor& src) {
  const Placed at = placed("scatter", x, dim, index, src);
  return put_rows_("scatter_", x, at.rows, at.src);
}
Tensor scatter_(const Tensor& x, IntArg dim, const Tensor& index, Scalar value) {
  return scatter_(x, dim, index, full(index.shape(), value, options_of(x)));
}
Tensor scatter(const Tensor& x, IntArg dim, const Tensor& index, const Tensor& src) {
  return scatter_(clone(x), dim, index, src);
}
Tensor scatter(const Tensor& x, IntArg dim, const Tensor& index, Scalar value) {
  return scatter_(clone(x), dim, index, value);
}

Tensor scatter_add_(const Tensor& x, IntArg dim, const Tensor& index, const Tensor& src) {
  const Placed at = placed("scatter_add", x, dim, index, src);
  return add_rows_("scatter_add_", x, at.rows, at.src);
}
Tensor scatter_add(const Tensor& x, IntArg dim, const Tensor& index, const Tensor& src) {
  const bool has_dims = x.dim() > 0 && index.dim() > 0;
  const bool is_wide = compute_type(x.dtype()) == x.dtype();
  if (x.is_cpu() && has_dims && is_wide && !needs_grad({x, src})) {  // needs no element numbers
    const int d = wrap_dim(dim, x.dim());
    const Tensor added = placed_source("scatter_add", x, d, index, src);
    const Tensor y = kernels::scatter_add({"scatter_add"}, x, index, d, added);
    return traced("scatter_add", y, {x, index, src});
  }
  const Placed at = placed("scatter_add", x, dim, index, src);
  return add_rows(x, x.shape(), at.rows, at.src);
}

Tensor scatter_reduce(const Tensor& x, IntArg dim, const Tensor& index, const Tensor& src,
                      ScatterReduce reduce, BoolArg include_self) {
  const Placed at = placed("scatter_reduce", x, dim, index, src);
  if (reduce == ScatterReduce::kProd) return folded(RowOp::kProd, x, at, include_self);
  if (reduce == ScatterReduce::kAmax) return folded(RowOp::kAmax, x, at, include_self);
  if (reduce == ScatterReduce::kAmin) return folded(RowOp::kAmin, x, at, include_self);
  const Tensor sum = with_added(x, at.rows, at.src, include_self);
  if (reduce == ScatterReduce::kSum) return sum;
  const TensorOptions counts{.dtype = kInt64, .device = x.device()};
  const Tensor count =
      with_added(ones(x.shape(), counts), at.rows, ones(at.src.shape(), counts), include_self);
  return x.is_floating_point() ? sum / count : floor_divide(sum, count).to(x.dtype());
}

Tensor index_add_(const Tensor& x, IntArg dim, const Tensor& index, const Tensor& source,
                  Scalar alpha) {
  const int d = wrap_dim(dim, x.dim());
  require<IndexError>(index.dim() <= 1,
                      "index_add_(): Index is supposed to be a vector, but got dim: ", index.dim(),
                      " and size: ", index.shape());
  require(is_index(index), "index_add_(): Expected dtype int32/int64 for index but got: ",
          scalar_type_name(index.dtype()));
  check_slices("index_add_", x, d, index, source);
  const Scalar factor = x.is_floating_point() ? alpha : Scalar(alpha.to_int());
  const Tensor added = factor.to_double() == 1 ? source : (source * factor).to(x.dtype());
  return add_rows_("index_add_", x, slice_rows({"index_add_"}, x.shape(), d, index), added);
}
Tensor index_add(const Tensor& x, IntArg dim, const Tensor& index, const Tensor& source,
                 Scalar alpha) {
  return index_add_(clone(x), dim, index, source, alpha);
}

Tensor index_copy_(const Tensor& x, IntArg dim, const Tensor& index, const Tensor& source) {
  const int d = wrap_dim(dim, x.dim());
  check_long("index_copy_", index);
  check_slices("index_copy_", x, d, index, source);
  return put_rows_("index_copy_", x, slice_rows({"index_copy_"}, x.shape(), d, index), source);
}
Tensor index_copy(const Tensor& x, IntArg dim, const Tensor& index, const Tensor& source) {
  return index_copy_(clone(x), dim, index, source);
}

Tensor index_fill_(const Tensor& x, IntArg dim, const Tensor& index, Scalar value) {
  const int d = wrap_dim(dim, x.dim());
  check_long("index_fill_", index);
  kernels::same_device("index_fill_", {&x, &index}, {"self", "index"});
  Shape shape = at_least_1d(x.shape());
  shape[d] = index.numel();
  return put_rows_("index_fill_", x,
                   slice_rows({.op = "index_fill_", .wrap = true}, x.shape(), d, index),
                   full(shape, value, options_of(x)));
}
Tensor index_fill(const Tensor& x, IntArg dim, const Tensor& index, Scalar value) {
  return index_fill_(clone(x), dim, index, value);
}

// --- methods of Tensor ---

Tensor Tensor::scatter(IntArg dim, const Tensor& index, const Tensor& src) const {
  return taper::scatter(*this, dim, index, src);
}
Tensor Tensor::scatter(IntArg dim, const Tensor& index, Scalar value) const {
  return taper::scatter(*this, dim, index, value);
}
Tensor Tensor::scatter_add(IntArg dim, const Tensor& index, const Tensor& src) const {
  return taper::scatter_add(*this, dim, index, src);
}
Tensor Tensor::scatter_reduce(IntArg dim, const Tensor& index, const Tensor& src,
                              ScatterReduce reduce, BoolArg include_self) const {
  return taper::scatter_reduce(*this, dim, index, src, reduce, include_self);
}
Tensor Tensor::index_add(IntArg dim, const Tensor& index, const Tensor& source,
                         Scalar alpha) const {
  return taper::index_add(*this, dim, index, source, alpha);
}
Tensor Tensor::index_copy(IntArg dim, const Tensor& index, const Tensor& source) const {
  return taper::index_copy(*this, dim, index, source);
}
Tensor Tensor::index_fill(IntArg dim, const Tensor& index, Scalar value) const {
  return taper::index_fill(*this, dim, index, value);
}
Tensor Tensor::scatter_(IntArg dim, const Tensor& index, const Tensor& src) const {
  return taper::scatter_(*this, dim, index, src);
}
Tensor Tensor::scatter_(IntArg dim, const Tensor& index, Scalar value) const {
  return taper::scatter_(*this, dim, index, value);
}
Tensor Tensor::scatter_add_(IntArg dim, const Tensor& index, const Tensor& src) const {
  return taper::scatter_add_(*this, dim, index, src);
}
Tensor Tensor::index_add_(IntArg dim, const Tensor& index, const Tensor& source,
                          Scalar alpha) const {
  return taper::index_add_(*this, dim, index, source, alpha);
}
Tensor Tensor::index_copy_(IntArg dim, const Tensor& index, const Tensor& source) const {
  return taper::index_copy_(*this, dim, index, source);
}
Tensor Tensor::index_fill_(IntArg dim, const Tensor& index, Scalar value) const {
  return taper::index_fill_(*this, dim, index, value);
}

}  // namespace taper::v0
