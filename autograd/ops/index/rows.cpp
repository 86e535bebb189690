#include "autograd/ops/index/rows.h"

#include "autograd/ops/index/index_ops.h"
#include "autograd/ops/index/scatter.h"
#include "autograd/ops/op_helpers.h"

namespace taper::v0 {
namespace {

// Returns for each row whether it is the last one with its key. Only that row remains if all rows
// are put in order.
Tensor stays(const Rows& rows, int64_t count) {
  const int64_t n = rows.key.numel();
  const Device device = rows.key.device();
  const Tensor number = arange(n, {.device = device});
  const Tensor last = empty({count}, {.dtype = kInt64, .device = device});
  kernels::fold_rows(kernels::RowOp::kPut, last, rows.key, 1, number);
  return eq(kernels::take_rows(last, rows.key, 1, {n}), number);
}

// The sizes of a tensor before, along and behind a dimension.
struct Slices {
  int64_t outer = 1, n, width = 1;
};
Slices slices_of(const Shape& shape, int d) {
  const Shape sizes = at_least_1d(shape);
  Slices s{.n = sizes[d]};
  for (int i = 0; i < d; ++i) s.outer *= sizes[i];
  for (int i = d + 1; i < sizes.size(); ++i) s.width *= sizes[i];
  return s;
}

Tensor add_slices(const Tensor& src, const Slices& s, const Tensor& key, const Shape& shape);

// Returns the slices of x at the keys, as a tensor of `shape`. On the CPU.
Tensor take_slices(const char* name, const Tensor& x, const Slices& s, const Tensor& key,
                   const Shape& shape) {
  Tensor y = kernels::take_slices(x, key, s.outer, s.width, shape);
  trace(name, y, {x, key});
  return linear_in(x, name, y, [s, key, from = x.shape()](const Tensor& dy) {
    return add_slices(dy, s, key, from);
  });
}

// Returns the gradient of take_slices. A single matrix of rows is added by add_rows, which uses
// several threads for it.
Tensor add_slices(const Tensor& src, const Slices& s, const Tensor& key, const Shape& shape) {
  if (s.outer == 1) return add_rows({}, shape, {key, s.width}, src);
  Tensor y = kernels::add_slices(src, key, s.outer, s.width, shape);
  trace("index_add", y, {key, src});
  return linear_in(src, "IndexAddBackward0", y, [s, key, from = src.shape()](const Tensor& dy) {
    return take_slices("IndexSelectBackward0", dy, s, key, from);
  });
}

}  // namespace

bool is_index(const Tensor& index) { return index.dtype() == kInt64 || index.dtype() == kInt32; }

Shape at_least_1d(const Shape& shape) { return shape.empty() ? Shape{1} : shape; }

void check_elements(const char* op, const char* self, const Tensor& x, const Tensor& index) {
  require(is_index(index), op, "(): Expected dtype int32/int64 for index, got ", index.dtype());
  require(std::max(1, index.dim()) == std::max(1, x.dim()),
          "Index tensor must have the same number of dimensions as ", self, " tensor, got shapes ",
          index.shape(), " and ", x.shape());
}

int dim_beyond(const Tensor& x, const Tensor& limit, int apart_from) {
  const Shape sizes = at_least_1d(x.shape()), largest = at_least_1d(limit.shape());
  for (int d = 0; d < sizes.size(); ++d) {
    if (d != apart_from && sizes[d] > largest[d]) return d;
  }
  return -1;
}

Rows slice_rows(const kernels::IndexRules& rules, const Shape& shape, int d, const Tensor& index) {
  const auto [outer, n, width] = slices_of(shape, d);
  const int64_t count = index.numel();
  kernels::IndexRules named = rules;
  named.named = d;
  const Tensor all = expand(reshape(index, {1, count}), {outer, count});
  return {kernels::row_keys(named, all, {outer, n}, 1), width};
}

Rows element_rows(const char* op, const Shape& shape, int d, const Tensor& index, bool distinct) {
  const Tensor at = reshape(index, at_least_1d(index.shape()));
  return {kernels::row_keys({op}, at, at_least_1d(shape), d), 1, distinct};
}

Tensor run_of_each(const Tensor& begins, int64_t n) {
  const TensorOptions counts{.dtype = kInt64, .device = begins.device()};
  const Tensor begun =
      scatter_add(zeros({n + 1}, counts), 0, begins, ones({begins.numel()}, counts));
  return narrow(cumsum(begun, 0), 0, 0, n) - 1;
}

Tensor take_rows(const char* name, const Tensor& x, const Rows& rows, const Shape& shape) {
  Tensor y = kernels::take_rows(x, rows.key, rows.width, shape);
  trace(name, y, {x, rows.key});
  return linear_in(x, name, y, [rows, shape = x.shape()](const Tensor& dy) {
    return add_rows({}, shape, rows, dy);
  });
}

Tensor take_slices(const char* name, const kernels::IndexRules& rules, const Tensor& x, int d,
                   const Tensor& index, const Shape& shape) {
  if (!x.is_cpu()) return take_rows(name, x, slice_rows(rules, x.shape(), d, index), shape);
  const auto [outer, n, width] = slices_of(x.shape(), d);
  kernels::IndexRules named = rules;
  named.named = d;
  const Tensor key = kernels::row_keys(named, reshape(index, {index.numel()}), {n}, 0);
  return take_slices(name, x, {outer, n, width}, key, shape);
}

Tensor add_rows(const Tensor& base, const Shape& shape, const Rows& rows, const Tensor& src) {
  Tensor y = kernels::add_rows(base, shape, rows.key, rows.width, src, rows.distinct);
  trace("scatter_add", y, {base, rows.key, src});
  if (!needs_grad({base, src})) return y;
  return record("ScatterAddBackward0", y, {base, src}, [rows, shape = src.shape()](Gradients& g) {
    if (g.needs(0)) g.dx(0) = g.dy();
    if (g.needs(1)) g.dx(1) = take_rows("GatherBackward0", g.dy(), rows, shape);
  });
}

Tensor put_backward(const Tensor& dy, const Rows& rows, const Shape& shape) {
  const Tensor dx = take_rows("GatherBackward0", dy, rows, shape);
  if (rows.distinct || dx.numel() == 0) return dx;
  const Tensor kept = reshape(stays(rows, dy.numel() / rows.width), {rows.key.numel(), 1});
  return reshape(zero_outside(reshape(dx, {rows.key.numel(), rows.width}), kept), shape);
}

}  // namespace taper::v0
