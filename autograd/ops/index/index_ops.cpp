#include "autograd/ops/index/index_ops.h"

#include <algorithm>
#include <limits>

#include "autograd/ops/index/rows.h"
#include "autograd/ops/op_helpers.h"
#include "framework/kernels/elementwise/copy.h"
#include "framework/kernels/index/index.h"
#include "framework/kernels/reduce/sort.h"

namespace taper::v0 {
namespace {

using kernels::IndexRules;
using kernels::ReductionOp;

// Returns the first `count` elements of x along dim in sorted order, and their indices.
Sorted first_sorted(const char* name, const char* op, const Tensor& x, int64_t dim, bool descending,
                    std::optional<int64_t> count = {}) {
  Tensor values;
  Tensor order = kernels::argsort(x, dim, descending, count, &values);
  if (count && x.dim() > 0) {
    order = contiguous(narrow(order, dim, 0, *count));
    if (values.defined()) values = contiguous(narrow(values, dim, 0, *count));
  }
  if (values.defined() && !needs_grad({x})) return {values, order};
  const Rows rows = element_rows(op, x.shape(), wrap_dim(dim, x.dim()), order, true);
  if (!values.defined()) return {take_rows(name, x, rows, order.shape()), order};
  const auto back = [rows, shape = x.shape()](const Tensor& dy) {
    return add_rows({}, shape, rows, dy);
  };
  return {linear_in(x, name, values, back), order};
}

// Zeroes x on one side of a diagonal.
Tensor band(const char* op, const Tensor& x, int64_t diagonal, bool lower) {
  require(x.dim() >= 2, op, ": input tensor must have at least 2 dimensions, got shape ",
          x.shape());
  const int64_t edge = std::clamp(diagonal, -x.size(-2), x.size(-1));
  return linear_in(x, lower ? "TrilBackward0" : "TriuBackward0", kernels::band(x, edge, lower),
                   [=](const Tensor& dy) { return band(op, dy, edge, lower); });
}

// Moves the elements of x by one position along dim and puts `first` in front.
Tensor shifted(const Tensor& x, int64_t dim, double first) {
  const Tensor head = full_like(narrow(x, dim, 0, 1), first);
  return cat({head, narrow(x, dim, 0, x.size(dim) - 1)}, dim);
}

Tensor running_sum(const Tensor& x, int64_t dim, bool backwards) {
  Tensor y = kernels::cumulate(ReductionOp::kSum, x, dim, {backwards});
  return linear_in(x, "CumsumBackward0", y,
                   [=](const Tensor& dy) { return running_sum(dy, dim, !backwards); });
}

// Returns y[i] = b[i] + x[i] * y[i - 1] along dim. If `backwards`, y[i] = b[i] + x[i + 1] * y[i +
// 1].
Tensor recurrence(const Tensor& x, const Tensor& b, int64_t dim, bool backwards) {
  Tensor y = kernels::cumulate(ReductionOp::kSum, x, dim, {backwards}, b);
  if (!needs_grad({x, b})) return y;
  return record("RecurrenceBackward", y, {x, b},
                [x = SavedTensor(x), y = SavedTensor::output(y), dim, backwards](Gradients& g) {
                  const Tensor db = recurrence(x.get(g), g.dy(), dim, !backwards), s = y.get(g);
                  g.dx(0) = backwards ? shifted(db, dim, 0) * s : db * shifted(s, dim, 0);
                  g.dx(1) = db;
                });
}

// Returns the gradient of y = logcumsumexp(x): the sum of dy[j] * exp(x[i] - y[j]) for j >= i. It
// is exp(x[i] - y[i]) * t[i] with t[i] = dy[i] + exp(y[i] - y[i + 1]) * t[i + 1]. No exponent is
// positive, so nothing overflows. Elements of -inf get no gradient.
Tensor logcumsumexp_gradient(const Tensor& dy, const Tensor& x, const Tensor& y, int64_t dim) {
  if (x.dim() == 0 || x.numel() == 0) return dy;
  constexpr double kInf = std::numeric_limits<double>::infinity();
  const Tensor before = shifted(y, dim, -kInf);
  const Tensor same_infinity = logical_and(isinf(y), eq(before, y));
  const Tensor decay = exp(masked_fill(before - y, same_infinity, 0));
  const Tensor share = exp(masked_fill(x - y, eq(x, -kInf), -kInf));
  return share * recurrence(decay, dy, dim, true);
}

void check_fits_diff(const Tensor& x, const Tensor& extra, int dim) {
  require(extra.dim() == x.dim(),
          "diff expects prepend or append to be the same dimension as input");
  for (int d = 0; d < x.dim(); ++d) {
    require(d == dim || extra.size(d) == x.size(d),
            "diff expects the shape of tensor to prepend or append to match that of input except "
            "along the differencing dimension; input.size(",
            d, ") = ", x.size(d), ", but got tensor.size(", d, ") = ", extra.size(d));
  }
}

}  // namespace

Tensor product_before(const Tensor& x, int64_t dim, bool backwards) {
  if (!needs_grad({x})) return kernels::cumulate(ReductionOp::kProd, x, dim, {backwards, true});
  if (backwards) return flip(product_before(flip(x, {dim}), dim), {dim});
  return shifted(cumprod(x, dim), dim, 1);
}

Tensor embedding(const Tensor& weight, const Tensor& index, std::optional<IntArg> padding_idx) {
  kernels::same_device("embedding", {&weight, &index}, {"self", "index"});
  require(weight.dim() != 0, "embedding needs a weight with at least one dimension");
  require(is_index(index),
          "Expected tensor for argument #1 'indices' to have one of the following scalar types: "
          "Long, Int; but got ",
          scalar_type_name(index.dtype()), " instead (while checking arguments for embedding)");
  const int64_t rows = weight.size(0);
  require<ValueError>(!padding_idx || (*padding_idx >= -rows && *padding_idx < rows),
                      "Padding_idx must be within num_embeddings");
  const Shape row(weight.shape().begin() + 1, weight.shape().end());
  const IndexRules rules{"embedding", "index out of range in self"};
  const Tensor key = kernels::row_keys(rules, reshape(index, {index.numel()}), {rows}, 0);
  const Tensor y =
      take_rows("EmbeddingBackward0", weight, {key, row.numel()}, joined(index.shape(), row));
  trace("index_select", y, {weight, index}, Shape{0});
  if (!padding_idx || !needs_grad({y})) return y;
  const int64_t padding = *padding_idx < 0 ? *padding_idx + rows : int64_t(*padding_idx);
  Tensor counts = ne(index, wrap_scalar(padding));
  while (counts.dim() < y.dim()) counts = unsqueeze(counts, -1);
  return linear_in(y, "EmbeddingBackward0", y.detach(),
                   [counts](const Tensor& dy) { return zero_outside(dy, counts); });
}

Tensor index_select(const Tensor& x, IntArg dim, const Tensor& index) {
  kernels::same_device("index_select", {&x, &index}, {"self", "index"});
  const int d = wrap_dim(dim, x.dim());
  require(is_index(index), "index_select(): Expected dtype int32 or int64 for index, got ",
          index.dtype());
  require<IndexError>(index.dim() <= 1, "index_select(): Index is supposed to be a vector, got ",
                      index.shape());
  const int64_t count = index.numel();
  require(x.dim() != 0 || count == 1, "index_select(): Index to scalar can have only 1 value, got ",
          count, " value(s)");
  Shape shape = x.shape();
  if (x.dim() > 0) shape[d] = count;
  const IndexRules rules{"index_select", "index out of range in self"};
  Tensor y = take_slices("IndexSelectBackward0", rules, x, d, index, shape);
  if (x.dim() > 0) trace("index_select", y, {x, index}, Shape{d});
  return y;
}

Tensor gather(const Tensor& x, IntArg dim, const Tensor& index) {
  kernels::same_device("gather", {&x, &index}, {"self", "index"});
  const int d = wrap_dim(dim, x.dim());
  check_elements("gather", "input", x, index);
  const int beyond = dim_beyond(index, x, d);
  require(beyond < 0, "Size does not match at dimension ", beyond, " expected index ",
          index.shape(), " to be no larger than self ", x.shape(), " apart from dimension ", d);
  const bool has_dims = x.dim() > 0 && index.dim() > 0;
  if (x.is_cpu() && has_dims && !needs_grad({x})) {  // nothing needs the element numbers
    return traced("gather", kernels::gather({"gather"}, x, index, d), {x, index}, Shape{d});
  }
  const Rows rows = element_rows("gather", x.shape(), d, index);
  return traced("gather", take_rows("GatherBackward0", x, rows, index.shape()), {x, index},
                Shape{d});
}

Tensor one_hot(const Tensor& index, IntArg num_classes) {
  require(index.dtype() == kInt64,
          "one_hot is only applicable to index tensor of type LongTensor, got ", index.dtype());
  require(index.numel() > 0 || num_classes >= 1,
          "Can not infer total number of classes from empty tensor.");
  if (num_classes == -1) {
    const auto largest = amax(index).item<int64_t>();
    require<IndexError>(largest >= 0, "Class values must be non-negative. The largest is ",
                        largest);
    return one_hot(index, checked_add(largest, 1));
  }
  require(num_classes >= 1, "Class values must be smaller than num_classes. num_classes is ",
          num_classes);
  const Tensor flat = reshape(index, {index.numel()});
  const IndexRules rules{"one_hot",
                         "Class values must be non-negative and smaller than num_classes"};
  const Tensor key = kernels::row_keys(rules, flat, {num_classes}, 0);
  const Tensor classes = arange(num_classes, {.device = index.device()});
  const Tensor hot = eq(unsqueeze(key, 1), classes).to(kInt64);
  return traced("one_hot", reshape(hot, joined(index.shape(), {num_classes})), {index});
}

Tensor masked_fill(const Tensor& x, const Tensor& mask, Scalar value) {
  require(mask.dtype() == kBool,
          "masked_fill_ only supports boolean masks, but got mask with dtype ", mask.dtype());
  return where(mask, full({}, value, {.dtype = x.dtype()}), x);
}

Tensor tril(const Tensor& x, IntArg diagonal) { return band("tril", x, diagonal, true); }
Tensor triu(const Tensor& x, IntArg diagonal) { return band("triu", x, diagonal, false); }

Tensor flip(const Tensor& x, const Shape& dims) {
  bool flipped[kMaxDims] = {};
  Shape strides = x.strides();
  int64_t last = x.storage_offset();
  for (const int64_t dim : dims) {
    const int d = wrap_dim(dim, x.dim());
    require(!flipped[d], "dim ", d, " appears multiple times in the list of dims");
    flipped[d] = true;
    if (x.dim() == 0 || x.shape()[d] < 2) continue;
    last += (x.shape()[d] - 1) * strides[d];
    strides[d] = -strides[d];
  }
  Tensor y = Tensor::make(x.shape(), x.dtype(), x.device());
  // A Tensor cannot have negative strides, but copy_into can read a source through them.
  kernels::copy_into(y, view_as(x.detach(), x.shape(), strides, last));
  trace("flip", y, {x}, dims);
  return linear_in(x, "FlipBackward0", y, [dims](const Tensor& dy) { return flip(dy, dims); });
}

Tensor pad(const Tensor& x, const std::vector<int64_t>& padding, Scalar value) {
  const int pairs = int(padding.size() / 2);
  require(padding.size() % 2 == 0, "Padding length must be divisible by 2, got ", padding.size());
  require(pairs <= x.dim(),
          "Padding length should be less than or equal to two times the input dimension but got "
          "padding length ",
          padding.size(), " and input of dimension ", x.dim());
  Shape shape = x.shape(), kept = x.shape(), start = x.shape();
  std::fill(start.begin(), start.end(), 0);  // start of the part of the result that comes from x
  int64_t from = x.storage_offset(), to = 0;
  for (int i = 0; i < pairs; ++i) {
    const int d = x.dim() - 1 - i;
    const int64_t before = padding[size_t(2 * i)], after = padding[size_t(2 * i) + 1];
    shape[d] = checked_add(checked_add(shape[d], before), after);
    kept[d] = checked_add(checked_add(kept[d], std::min<int64_t>(before, 0)),
                          std::min<int64_t>(after, 0));
    require(kept[d] >= 0, "narrow(): length must be non-negative. (pad: dimension ", d, " of size ",
            x.shape()[d], " is cropped by ", before, " and ", after, ")");
    start[d] = std::max<int64_t>(before, 0);
    from += std::max<int64_t>(-before, 0) * x.strides()[d];
  }
  Tensor y = Tensor::make(shape, x.dtype(), x.device());
  for (int d = 0; d < x.dim(); ++d) to += start[d] * y.strides()[d];
  kernels::fill(y, value);
  kernels::copy_into(view_as(y, kept, y.strides(), to), view_as(x, kept, x.strides(), from));
  trace("pad", y, {x}, std::pair(padding, value));
  std::vector<int64_t> back = padding;
  for (int64_t& n : back) n = -n;
  return linear_in(x, "ConstantPadNdBackward0", y,
                   [back](const Tensor& dy) { return pad(dy, back); });
}

Sorted sort(const Tensor& x, IntArg dim, BoolArg descending) {
  return first_sorted("SortBackward0", "sort", x, dim, descending);
}

Tensor argsort(const Tensor& x, IntArg dim, BoolArg descending) {
  return kernels::argsort(x, dim, descending);
}

Sorted topk(const Tensor& x, IntArg k, IntArg dim, BoolArg largest) {
  const int64_t size = x.dim() == 0 ? 1 : x.size(dim);
  require(k >= 0 && k <= size, "selected index k out of range, got ", k, " of ", size, " elements");
  return first_sorted("TopkBackward0", "topk", x, dim, largest, k);
}

Tensor cumsum(const Tensor& x, IntArg dim, std::optional<DType> dtype) {
  if (dtype) return in_dtype(*dtype, x, [&](auto& t) { return cumsum(t, dim); });
  if (autocasts(x)) return in_float32(cumsum, x, dim, dtype);
  return traced("cumsum", running_sum(x, dim, false), {x}, Shape{dim});
}

Tensor cumprod(const Tensor& x, IntArg dim, std::optional<DType> dtype) {
  if (dtype) return in_dtype(*dtype, x, [&](auto& t) { return cumprod(t, dim); });
  if (autocasts(x)) return in_float32(cumprod, x, dim, dtype);
  Tensor y = kernels::cumulate(ReductionOp::kProd, x, dim);
  trace("cumprod", y, {x}, Shape{dim});
  // dx[i] = p[i] * s[i], where p[i] is the product of the elements before x[i]. s runs from the
  // end: s[i] = dy[i] + x[i + 1] * s[i + 1]. Nothing is divided by zero.
  return differentiable("CumprodBackward0", x, y, [dim](auto& dy, auto& z) {
    const bool one = z.dim() == 0 || z.size(dim) < 2;
    return one ? dy : product_before(z, dim) * recurrence(z, dy, dim, true);
  });
}

Tensor logcumsumexp(const Tensor& x, IntArg dim) {
  require<NotImplementedError>(x.is_floating_point(),
                               "\"logcumsumexp_out_cpu\" not implemented for '",
                               scalar_type_name(x.dtype()), "'");
  const Tensor y = kernels::cumulate(ReductionOp::kSum, x, dim, {.of_logarithms = true});
  trace("logcumsumexp", y, {x}, Shape{dim});
  return differentiable("LogcumsumexpBackward0", x, y, [dim](auto& dy, auto& z, auto& sums) {
    return logcumsumexp_gradient(dy, z, sums, dim);
  });
}

Tensor diff(const Tensor& x, IntArg n, IntArg dim, const Tensor& prepend, const Tensor& append) {
  require(x.dim() > 0, "diff expects input to be at least one-dimensional");
  require(n >= 0, "order must be non-negative but got ", n);
  const int d = wrap_dim(dim, x.dim());
  std::vector<Tensor> parts = {x};
  for (const Tensor* extra : {&prepend, &append}) {
    if (!extra->defined()) continue;
    check_fits_diff(x, *extra, d);
    parts.insert(extra == &prepend ? parts.begin() : parts.end(), *extra);
  }
  if (n == 0) return clone(x);
  Tensor y = parts.size() > 1 ? cat(parts, d) : x;
  for (int64_t left = std::min<int64_t>(n, y.size(d)); left > 0; --left) {
    const int64_t size = y.size(d) - 1;
    const Tensor after = narrow(y, d, 1, size), before = narrow(y, d, 0, size);
    y = y.dtype() == kBool ? ne(after, before) : after - before;
  }
  return y.is_same(x) ? clone(x) : y;
}

Tensor diff(const Tensor& x, const DiffOptions& options) {
  return diff(x, options.n, options.dim, options.prepend, options.append);
}

// --- methods of Tensor ---

Tensor Tensor::index_select(IntArg dim, const Tensor& index) const {
  return taper::index_select(*this, dim, index);
}
Tensor Tensor::gather(IntArg dim, const Tensor& index) const {
  return taper::gather(*this, dim, index);
}
Tensor Tensor::masked_fill(const Tensor& mask, Scalar value) const {
  return taper::masked_fill(*this, mask, value);
}
Tensor Tensor::tril(IntArg diagonal) const { return taper::tril(*this, diagonal); }
Tensor Tensor::triu(IntArg diagonal) const { return taper::triu(*this, diagonal); }
Tensor Tensor::flip(const Shape& dims) const { return taper::flip(*this, dims); }
Tensor Tensor::pad(const std::vector<int64_t>& padding, Scalar value) const {
  return taper::pad(*this, padding, value);
}
Sorted Tensor::sort(IntArg dim, BoolArg descending) const {
  return taper::sort(*this, dim, descending);
}
Tensor Tensor::argsort(IntArg dim, BoolArg descending) const {
  return taper::argsort(*this, dim, descending);
}
Sorted Tensor::topk(IntArg k, IntArg dim, BoolArg largest) const {
  return taper::topk(*this, k, dim, largest);
}
Tensor Tensor::cumsum(IntArg dim, std::optional<DType> dtype) const {
  return taper::cumsum(*this, dim, dtype);
}
Tensor Tensor::cumprod(IntArg dim, std::optional<DType> dtype) const {
  return taper::cumprod(*this, dim, dtype);
}
Tensor Tensor::logcumsumexp(IntArg dim) const { return taper::logcumsumexp(*this, dim); }
Tensor Tensor::diff(IntArg n, IntArg dim, const Tensor& prepend, const Tensor& append) const {
  return taper::diff(*this, n, dim, prepend, append);
}
Tensor Tensor::diff(const DiffOptions& options) const { return taper::diff(*this, options); }

}  // namespace taper::v0
