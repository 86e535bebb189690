#include "autograd/ops/index/sparse_ops.h"

#include <memory>

#include "autograd/ops/index/index_ops.h"
#include "autograd/ops/index/rows.h"
#include "autograd/ops/index/scatter.h"
#include "autograd/ops/op_helpers.h"
#include "framework/kernels/sparse/sparse.h"

namespace taper::v0 {

// The stored elements in both orders. `order` permutes values from row order to column order.
struct SparseTensor::Pattern {
  Shape shape;
  kernels::SparseRows rows, columns;
  Tensor order;
};

namespace {

kernels::SparseRows rows_of(const Tensor& row, const Tensor& col, int64_t count) {
  const TensorOptions on{.dtype = kInt64, .device = row.device()};
  const Tensor length = scatter_add(zeros({count + 1}, on), 0, row + 1, ones_like(row));
  return {cumsum(length, 0), row, col};
}

void check_range(const char* what, const Tensor& index, int64_t size) {
  if (index.numel() == 0) return;
  const int64_t low = amin(index).item<int64_t>(), high = amax(index).item<int64_t>();
  require(low >= 0, "found negative index ", low, " among the ", what);
  require(high < size, "size is inconsistent with indices: for the ", what, ", size is ", size,
          " but found index ", high);
}

Tensor as_index(const char* what, const Tensor& index) {
  require(index.dtype() == kInt64 || index.dtype() == kInt32, what,
          " must be an int64 or int32 tensor, but got ", index.dtype());
  return index.detach().to(kInt64).contiguous();
}

void check_values(const Tensor& values, int64_t count) {
  require(values.is_floating_point() && values.dim() == 1 && values.size(0) == count,
          "values must be a floating tensor of shape [", count, "], one for each index, ",
          "but got ", values.dtype(), " ", values.shape());
}

}  // namespace

SparseTensor::PatternPtr SparseTensor::make_pattern(const Tensor& row, const Tensor& col,
                                                    const Shape& shape) {
  const Tensor order = argsort(col);
  return std::make_shared<const Pattern>(
      Pattern{shape, rows_of(row, col, shape[0]),
              rows_of(index_select(col, 0, order), index_select(row, 0, order), shape[1]), order});
}

SparseTensor sparse_coo_tensor(const Tensor& indices, const Tensor& values,
                               std::optional<Shape> size) {
  require(indices.dim() == 2 && indices.size(0) == 2,
          "indices must be a matrix of shape [2, nnz], but got ", indices.shape());
  const Tensor index = as_index("indices", indices);
  const Tensor row = index.select(0, 0).contiguous(), col = index.select(0, 1).contiguous();
  check_values(values, row.numel());
  const auto extent = [](const Tensor& i) { return i.numel() ? amax(i).item<int64_t>() + 1 : 0; };
  const Shape shape = size ? *size : Shape{extent(row), extent(col)};
  require(shape.size() == 2, "a sparse tensor is a matrix, but size is ", shape);
  check_range("rows", row, shape[0]);
  check_range("columns", col, shape[1]);
  const Tensor order = argsort(row);
  auto pattern =
      SparseTensor::make_pattern(index_select(row, 0, order), index_select(col, 0, order), shape);
  return {std::move(pattern), index_select(values, 0, order)};
}

SparseTensor sparse_csr_tensor(const Tensor& crow_indices, const Tensor& col_indices,
                               const Tensor& values, std::optional<Shape> size) {
  const Tensor crow = as_index("crow_indices", crow_indices);
  const Tensor col = as_index("col_indices", col_indices);
  const int64_t nnz = col.numel();
  check_values(values, nnz);
  const int64_t rows = crow.numel() - 1;
  require(crow.dim() == 1 && col.dim() == 1 && rows >= 0 && crow[0].item<int64_t>() == 0 &&
              crow[rows].item<int64_t>() == nnz &&
              !any(crow.narrow(0, 1, rows) < crow.narrow(0, 0, rows)).item<bool>(),
          "crow_indices must rise from 0 to the number of col_indices, ", nnz);
  if (size) {
    require(size->size() == 2 && (*size)[0] == rows, "size ", *size,
            " does not fit crow_indices of ", rows, " rows");
  }
  const Tensor row = run_of_each(crow.narrow(0, 0, rows), nnz);
  const Shape shape = size ? *size : Shape{rows, nnz ? amax(col).item<int64_t>() + 1 : 0};
  check_range("columns", col, shape[1]);
  return {SparseTensor::make_pattern(row, col, shape), values};
}

const Shape& SparseTensor::shape() const { return pattern_->shape; }
int64_t SparseTensor::size(int64_t dim) const { return shape()[wrap_dim(dim, 2)]; }
Tensor SparseTensor::indices() const { return stack({pattern_->rows.row, pattern_->rows.col}); }
const Tensor& SparseTensor::crow_indices() const& { return pattern_->rows.crow; }
const Tensor& SparseTensor::col_indices() const& { return pattern_->rows.col; }

SparseTensor SparseTensor::with_values(const Tensor& values) const {
  check_values(values, nnz());
  return {pattern_, values};
}

SparseTensor SparseTensor::t() const {
  const auto flipped = std::make_shared<const Pattern>(Pattern{
      {shape()[1], shape()[0]}, pattern_->columns, pattern_->rows, argsort(pattern_->order)});
  return {flipped, index_select(values_, 0, pattern_->order)};
}

Tensor SparseTensor::to_dense() const {
  const Tensor place = pattern_->rows.row * shape()[1] + pattern_->rows.col;
  const Tensor flat = zeros({shape().numel()}, {.dtype = dtype(), .device = device()});
  return reshape(scatter_add(flat, 0, place, values_), shape());
}

SparseTensor SparseTensor::to(Device device) const {
  const auto moved = [&](const kernels::SparseRows& r) {
    return kernels::SparseRows{r.crow.to(device), r.row.to(device), r.col.to(device)};
  };
  return {
      std::make_shared<const Pattern>(Pattern{
          shape(), moved(pattern_->rows), moved(pattern_->columns), pattern_->order.to(device)}),
      values_.to(device)};
}

// product and sampled compute each other's gradients.
Tensor SparseTensor::product(const PatternPtr& at, bool transposed, const Tensor& values,
                             const Tensor& x) {
  const Tensor ordered = transposed ? index_select(values.detach(), 0, at->order) : values;
  Tensor y = kernels::sparse_mm(transposed ? at->columns : at->rows, ordered, x);
  if (!needs_grad({values, x})) return y;
  return record("SparseAddmmBackward0", y, {values, x},
                [at, transposed, v = SavedTensor(values), kept = SavedTensor(x)](Gradients& g) {
                  if (g.needs(0)) g.dx(0) = sampled(at, transposed, g.dy(), kept.get(g));
                  if (g.needs(1)) g.dx(1) = product(at, !transposed, v.get(g), g.dy());
                });
}

// Returns the dot product a . b at each stored element, row by row. a is indexed by rows and b by
// columns, or the other way round if transposed.
Tensor SparseTensor::sampled(const PatternPtr& at, bool transposed, const Tensor& a,
                             const Tensor& b) {
  const Tensor &left = transposed ? b : a, &right = transposed ? a : b;
  Tensor y = kernels::sampled_mm(at->rows, left, right);
  if (!needs_grad({left, right})) return y;
  return record("SampledAddmmBackward0", y, {left, right},
                [at, l = SavedTensor(left), r = SavedTensor(right)](Gradients& g) {
                  if (g.needs(0)) g.dx(0) = product(at, false, g.dy(), r.get(g));
                  if (g.needs(1)) g.dx(1) = product(at, true, g.dy(), l.get(g));
                });
}

Tensor mm(const SparseTensor& a, const Tensor& x) {
  if (x.dim() != 2 || a.size(1) != x.size(0)) {
    throw Error("mat1 and mat2 shapes cannot be multiplied (", a.size(0), "x", a.size(1), " and ",
                x.dim() == 2 ? concat_to_string(x.size(0), "x", x.size(1)) : to_string(x.shape()),
                ")");
  }
  require(a.dtype() == x.dtype(),
          "expected mat1 and mat2 to have the same dtype, but got: ", a.dtype(), " != ", x.dtype());
  require(a.device() == x.device(),
          "Expected all tensors to be on the same device, but found at least two devices, ",
          a.device(), " and ", x.device(), "!");
  return SparseTensor::product(a.pattern_, false, a.values_, x);
}

Tensor matmul(const SparseTensor& a, const Tensor& x) {
  if (x.dim() == 1) return squeeze(mm(a, unsqueeze(x, 1)), 1);
  return mm(a, x);
}

}  // namespace taper::v0
