#include "autograd/ops/index/indexing.h"

#include <algorithm>
#include <cstring>

#include "autograd/ops/index/inplace.h"
#include "autograd/ops/index/rows.h"
#include "autograd/ops/op_helpers.h"

namespace taper::v0 {
namespace {

// The elements that one index selects from `dims` adjacent dimensions: int64 indices, or the
// positions where a mask over these dimensions is true.
struct Picked {
  int dim, dims;
  Tensor index;
  bool mask;
  int named;  // number of dimensions of the indexed tensor that it covers
};

// x[indices] before the tensor indices are applied.
struct Parsed {
  Tensor view;
  std::vector<Picked> picked;
};

bool is_mask(const Tensor& x) { return x.dtype() == kBool || x.dtype() == kUInt8; }

// Returns the number of dimensions of the indexed tensor that this index covers.
int dims_of(const TensorIndex& index) {
  using enum TensorIndex::IndexKind;
  if (index.kind == kTensor) return is_mask(index.tensor) ? index.tensor.dim() : 1;
  return index.kind == kNumber || index.kind == kSlice;
}

class Parser {
 public:
  Parser(const Tensor& x, const std::vector<TensorIndex>& indices) : y_{x, {}} {
    int named = 0;
    for (const TensorIndex& index : indices) named += dims_of(index);
    require<IndexError>(named <= x.dim(), "too many indices for tensor of dimension ", x.dim());
    unnamed_ = x.dim() - named;
    for (const TensorIndex& index : indices) take(index);
  }
  const Parsed& result() const { return y_; }

 private:
  void take(const TensorIndex& index) {
    switch (index.kind) {
      case TensorIndex::IndexKind::kNone: y_.view = unsqueeze(y_.view, dim_++); break;
      case TensorIndex::IndexKind::kEllipsis: pass(unnamed_); break;
      case TensorIndex::IndexKind::kNumber: take(index.number); break;
      case TensorIndex::IndexKind::kBoolean: take(full({}, index.number != 0)); break;
      case TensorIndex::IndexKind::kSlice: take(index.slice); break;
      case TensorIndex::IndexKind::kTensor: take(index.tensor); break;
    }
  }
  void take(int64_t number) {
    const int64_t size = y_.view.size(dim_);
    require<IndexError>(number >= -size && number < size, "index ", number,
                        " is out of bounds for dimension ", from_, " with size ", size);
    y_.view = select(y_.view, dim_, number);
    ++from_;
  }
  void take(const Slice& s) {
    if (s.start || s.stop || s.step != 1) y_.view = slice(y_.view, dim_, s.start, s.stop, s.step);
    pass(1);
  }
  void take(const Tensor& index) {
    if (is_mask(index)) return take_mask(index);
    require<IndexError>(is_index(index),
                        "tensors used as indices must be long, int, byte or bool tensors, got ",
                        index.dtype());
    if (index.dim() == 0) return take(index.item<int64_t>());
    y_.picked.push_back({dim_, 1, on_device(index), false, from_});
    pass(1);
  }
  void take_mask(const Tensor& mask) {
    const int dims = std::max(1, mask.dim());
    if (mask.dim() == 0) y_.view = unsqueeze(y_.view, dim_);
    for (int i = 0; i < mask.dim(); ++i) {
      require<IndexError>(mask.shape()[i] == y_.view.shape()[dim_ + i], "The shape of the mask ",
                          mask.shape(), " at index ", i,
                          " does not match the shape of the indexed tensor ", y_.view.shape(),
                          " at index ", dim_ + i);
    }
    y_.picked.push_back({dim_, dims, kernels::nonzero(on_device(mask)), true, from_});
    dim_ += dims;
    from_ += mask.dim();
  }
  void pass(int dims) {
    dim_ += dims;
    from_ += dims;
  }
  Tensor on_device(const Tensor& index) const {
    if (index.is_cpu() || index.device() == y_.view.device()) return index.to(y_.view.device());
    throw Error("indices should be either on cpu or on the same device as the indexed tensor (",
                y_.view.device(), ")");
  }

  Parsed y_;
  int dim_ = 0, from_ = 0;  // the next dimension of the view and of the indexed tensor
  int unnamed_ = 0;         // number of dimensions that an ellipsis covers
};

// The rows of `view` that the tensor indices select, and the shape of the selection.
struct Plan {
  Tensor view;
  Rows rows;
  Shape shape;
};

Shape broadcast_of(const std::vector<Picked>& picked) {
  Shape shape;
  try {
    for (const Picked& p : picked) shape = broadcast_shapes(shape, p.index.shape());
    return shape;
  } catch (const Error&) {
    std::string all;
    for (const Picked& p : picked)
      all += concat_to_string(all.empty() ? "" : ", ", p.index.shape());
    throw IndexError(
        "shape mismatch: indexing tensors could not be broadcast together with shapes ", all);
  }
}

Plan plan_of(Parsed parsed) {
  std::vector<Picked>& picked = parsed.picked;
  const Shape together = broadcast_of(picked);
  bool neighbours = true;
  for (size_t i = 1; i < picked.size(); ++i) {
    neighbours = neighbours && picked[i].dim == picked[i - 1].dim + picked[i - 1].dims;
  }
  Tensor view = parsed.view;
  int first = picked[0].dim, behind = first;  // the selected dimensions are first, ..., behind - 1
  if (!neighbours) {
    Shape order;
    for (const bool wanted : {true, false}) {
      for (int d = 0; d < view.dim(); ++d) {
        const bool named = std::ranges::any_of(
            picked, [d](const Picked& p) { return d >= p.dim && d < p.dim + p.dims; });
        if (named == wanted) order.push_back(d);
      }
    }
    view = permute(view, order);
    first = behind = 0;
  }
  // Combine the indices of all selected dimensions into row numbers.
  const int64_t n = together.numel();
  Tensor row;
  int64_t rows = 1, outer = 1, width = 1;
  for (const Picked& p : picked) {
    int64_t size = 1;
    for (int i = 0; i < p.dims; ++i) size *= view.shape()[behind++];
    Tensor at = reshape(expand(p.index, together), {n});
    if (!p.mask) {
      at = kernels::row_keys({.op = "index", .wrap = true, .named = p.named}, at, {size}, 0);
    }
    row = row.defined() ? row * size + at : at;
    rows *= size;
  }
  Shape shape = together;
  for (int d = 0; d < view.dim(); ++d) {
    if (d < first) outer *= view.shape()[d];
    if (d >= behind) width *= view.shape()[d];
    if (d < first) shape.insert(d, view.shape()[d]);
    if (d >= behind) shape.push_back(view.shape()[d]);
  }
  if (outer != 1 || picked.size() > 1) {
    row = kernels::row_keys({"index"}, expand(unsqueeze(row, 0), {outer, n}), {outer, rows}, 1);
  }
  return {view, {row, width, picked.size() == 1 && picked[0].mask}, shape};
}

// Drops leading dimensions of size 1 that exceed the dimensions of `shape`.
Tensor without_ones(Tensor value, const Shape& shape) {
  while (value.dim() > shape.size() && value.size(0) == 1) value = squeeze(value, 0);
  return value;
}

}  // namespace

TensorIndex::TensorIndex(const char* ellipsis) : kind(IndexKind::kEllipsis) {
  require<ValueError>(std::strcmp(ellipsis, "...") == 0,
                      "Expected \"...\" to represent an ellipsis index, but got \"", ellipsis,
                      "\"");
}

Tensor index(const Tensor& x, const std::vector<TensorIndex>& indices) {
  const Parsed parsed = Parser(x, indices).result();
  if (parsed.picked.empty()) return parsed.view;
  const Plan plan = plan_of(parsed);
  Tensor y = take_rows("IndexBackward0", plan.view, plan.rows, plan.shape);
  const Picked& only = parsed.picked[0];
  if (parsed.picked.size() == 1 && !only.mask) {
    trace("index_select", y, {plan.view, only.index}, Shape{only.dim});
  }
  return y;
}
Tensor index(const Tensor& x, const Tensor& index) {
  if (index.dim() > 0 || !is_index(index)) return taper::index(x, {TensorIndex(index)});
  return squeeze(taper::index(x, {TensorIndex(reshape(index, {1}))}), 0);
}
Tensor index(const Tensor& x, std::initializer_list<TensorIndex> indices) {
  return index(x, std::vector<TensorIndex>(indices));
}

Tensor index_put_(const Tensor& x, const std::vector<TensorIndex>& indices, const Tensor& value,
                  BoolArg accumulate) {
  const Parsed parsed = Parser(x, indices).result();
  if (parsed.picked.empty()) {
    const Tensor fitting = without_ones(value, parsed.view.shape());
    accumulate ? parsed.view.add_(fitting) : parsed.view.copy_(fitting);
    return x;
  }
  require(value.dtype() == x.dtype(),
          "Index put requires the source and destination dtypes match, got ",
          scalar_type_name(x.dtype()), " for the destination and ", scalar_type_name(value.dtype()),
          " for the source.");
  Tensor source = value;
  if (value.dim() == 0 && value.is_cpu()) source = value.to(x.device());
  kernels::same_device("index_put_", {&x, &source}, {"self", "value"});
  const Plan plan = plan_of(parsed);
  source = without_ones(source, plan.shape);
  try {
    source = expand(source, plan.shape);
  } catch (const Error&) {
    throw Error("shape mismatch: value tensor of shape ", value.shape(),
                " cannot be broadcast to indexing result of shape ", plan.shape);
  }
  (accumulate ? add_rows_ : put_rows_)("index_put_", plan.view, plan.rows, source);
  return x;
}

Tensor index_put_(const Tensor& x, const std::vector<TensorIndex>& indices, Scalar value) {
  // A single mask needs no count of its true elements, so this does not synchronize.
  const bool alone = indices.size() == 1 && indices[0].kind == TensorIndex::IndexKind::kTensor;
  const Tensor* mask = alone ? &indices[0].tensor : nullptr;
  if (mask && mask->dtype() == kBool && mask->dim() <= x.dim()) {
    Shape shape = mask->shape();
    while (shape.size() < x.dim()) shape.push_back(1);
    if (std::equal(mask->shape().begin(), mask->shape().end(), x.shape().begin())) {
      return x.masked_fill_(reshape(mask->to(x.device()), shape), value);
    }
  }
  return index_put_(x, indices, full({}, value, options_of(x)));
}

Tensor index_put(const Tensor& x, const std::vector<TensorIndex>& indices, const Tensor& value,
                 BoolArg accumulate) {
  return index_put_(clone(x), indices, value, accumulate);
}

Tensor masked_select(const Tensor& x, const Tensor& mask) {
  require(mask.dtype() == kBool, "masked_select: expected BoolTensor for mask, got ", mask.dtype());
  kernels::same_device("masked_select", {&x, &mask}, {"self", "mask"});
  const Shape shape = broadcast_shapes(x.shape(), mask.shape(), "masked_select");
  const Rows rows{kernels::nonzero(expand(mask, shape)), 1, true};
  return take_rows("MaskedSelectBackward0", expand(x, shape), rows, {rows.key.numel()});
}

Tensor masked_scatter(const Tensor& x, const Tensor& mask, const Tensor& source) {
  require(mask.dtype() == kBool,
          "masked_scatter_ only supports boolean masks, but got mask with dtype ",
          scalar_type_name(mask.dtype()));
  require(x.dtype() == source.dtype(),
          "masked_scatter: expected self and source to have same dtypes but got ", x.dtype(),
          " and ", source.dtype());
  kernels::same_device("masked_scatter", {&x, &mask, &source}, {"self", "mask", "source"});
  const Shape shape = broadcast_shapes(x.shape(), mask.shape(), "masked_scatter");
  const Rows rows{kernels::nonzero(expand(mask, shape)), 1, true};
  const int64_t n = rows.key.numel();
  require(source.numel() >= n, "Number of elements of source < number of ones in mask");
  return put_rows_("masked_scatter", clone(expand(x, shape)), rows,
                   narrow(flatten(source), 0, 0, n));
}

Tensor nonzero(const Tensor& x) {
  std::vector<Tensor> columns = {kernels::nonzero(x.detach())};
  const int64_t n = columns[0].numel();
  if (x.dim() == 0) return zeros({n, 0}, {.dtype = kInt64, .device = x.device()});
  for (int d = x.dim() - 1; d > 0; --d) {
    const int64_t size = std::max<int64_t>(x.shape()[d], 1);
    const Tensor place = columns[0];
    columns[0] = floor_divide(place, size);
    columns.insert(columns.begin() + 1, place - columns[0] * size);
  }
  return stack(columns, 1);
}

// --- methods of Tensor ---

Tensor Tensor::index(const Tensor& index) const { return taper::index(*this, index); }
Tensor Tensor::index(const std::vector<TensorIndex>& indices) const {
  return taper::index(*this, indices);
}
Tensor Tensor::index(std::initializer_list<TensorIndex> indices) const {
  return taper::index(*this, indices);
}
Tensor Tensor::index_put_(const std::vector<TensorIndex>& indices, const Tensor& value,
                          BoolArg accumulate) const {
  return taper::index_put_(*this, indices, value, accumulate);
}
Tensor Tensor::index_put_(const std::vector<TensorIndex>& indices, Scalar value) const {
  return taper::index_put_(*this, indices, value);
}
Tensor Tensor::index_put(const std::vector<TensorIndex>& indices, const Tensor& value,
                         BoolArg accumulate) const {
  return taper::index_put(*this, indices, value, accumulate);
}
Tensor Tensor::masked_select(const Tensor& mask) const { return taper::masked_select(*this, mask); }
Tensor Tensor::masked_scatter(const Tensor& mask, const Tensor& source) const {
  return taper::masked_scatter(*this, mask, source);
}
Tensor Tensor::nonzero() const { return taper::nonzero(*this); }

}  // namespace taper::v0
