#include "autograd/ops/shape_ops.h"

#include <algorithm>

#include "autograd/ops/op_helpers.h"
#include "autograd/view.h"
#include "framework/cuda/cuda.h"
#include "framework/kernels/elementwise/copy.h"

namespace taper::v0 {
namespace {

// Returns strides that show x with another shape without a copy, or nullopt if there are none.
std::optional<Shape> view_strides(const Tensor& x, const Shape& shape) {
  if (x.is_contiguous()) return contiguous_strides(shape);
  Shape strides = shape;
  int v = shape.size() - 1;
  // Adjacent dimensions of x that are contiguous with each other form a group. Each group is split
  // into dimensions of the view.
  int64_t run_step = x.strides()[x.dim() - 1], run = 1, viewed = 1;
  for (int d = x.dim() - 1; d >= 0; --d) {
    run *= x.shape()[d];
    const bool run_ends = d == 0 || (x.shape()[d - 1] != 1 && x.strides()[d - 1] != run * run_step);
    if (!run_ends) continue;
    while (v >= 0 && (viewed < run || shape[v] == 1)) {
      strides[v] = viewed * run_step;
      viewed *= shape[v--];
    }
    if (viewed != run) return std::nullopt;
    if (d > 0) {
      run_step = x.strides()[d - 1];
      run = viewed = 1;
    }
  }
  if (v >= 0) return std::nullopt;
  return strides;
}

// Creates a view of x with the given shape and strides, starting at element `start`. Its gradient
// is dx = back(dy), the inverse view.
template <class F>
Tensor make_view(const char* name, const Tensor& x, const Shape& shape, const Shape& strides,
                 F back, int64_t start = 0) {
  Tensor y = view_as(x, shape, strides, x.storage_offset() + start);
  track_view(y, x);
  return linear_in(x, name, y, back);
}

struct Reshaped {
  Shape shape;
  Tensor operator()(const Tensor& x) const { return reshape(x, shape); }
};

// Creates a view of all elements in the same order.
Tensor reshaped(const char* name, const Tensor& x, const Shape& shape, const Shape& strides) {
  return traced("view", make_view(name, x, shape, strides, Reshaped{x.shape()}), {x});
}

// Creates a view of the elements that `part` selects. The gradient writes dy into zeros at these
// elements. The gradient of that is `part` again.
template <class Part>
Tensor make_part(const Tensor& x, const Shape& shape, const Shape& strides, Part part,
                 int64_t start) {
  const auto back = [whole = x.shape(), part](const Tensor& dy) { return placed(dy, whole, part); };
  return make_view(Part::kName, x, shape, strides, back, start);
}

template <class Part> Tensor placed(const Tensor& dy, const Shape& whole, Part part) {
  Tensor dx = zeros(whole, options_of(dy));
  kernels::copy_into(part(dx), dy);
  return linear_in(dy, Part::kName, dx, part);
}

// Selects `length` elements of dimension `dim`.
struct Sliced {
  static constexpr const char* kName = "SliceBackward0";
  int dim;
  int64_t start, length, step = 1;

  Tensor operator()(const Tensor& x) const {
    Shape shape = x.shape(), strides = x.strides();
    shape[dim] = length;
    strides[dim] *= step;
    return traced("slice", make_part(x, shape, strides, *this, start * x.strides()[dim]), {x},
                  Shape{dim, start, length, step});
  }
};

struct Diagonal {
  static constexpr const char* kName = "DiagonalBackward0";
  int64_t offset;
  int dim1, dim2;

  Tensor operator()(const Tensor& x) const {
    Shape shape = x.shape(), strides = x.strides();
    const int64_t rows = shape[dim1], columns = shape[dim2];
    const int64_t right = std::clamp<int64_t>(offset, 0, columns);
    const int64_t down = -std::clamp<int64_t>(offset, -rows, 0);
    const int64_t length = std::min(rows - down, columns - right);
    const int64_t start = length == 0 ? 0 : down * strides[dim1] + right * strides[dim2];
    const int64_t step = strides[dim1] + strides[dim2];
    for (Shape* s : {&shape, &strides}) {
      s->erase(std::max(dim1, dim2));
      s->erase(std::min(dim1, dim2));
    }
    shape.push_back(length);
    strides.push_back(step);
    return traced("diagonal", make_part(x, shape, strides, *this, start), {x},
                  Shape{offset, dim1, dim2});
  }
};

Diagonal diagonal_of(int64_t offset, int64_t dim1, int64_t dim2, int dims) {
  const Diagonal d{offset, wrap_dim(dim1, dims), wrap_dim(dim2, dims)};
  require(d.dim1 != d.dim2, "diagonal dimensions cannot be identical ", dim1, ", ", dim2);
  return d;
}

// Removes the dimensions in `dims` that have size 1.
Tensor without(const char* name, const Tensor& x, const Shape& dims) {
  bool named[kMaxDims] = {};
  for (const int64_t dim : dims) {
    const int d = wrap_dim(dim, x.dim());
    require(!named[d], "dim ", d, " appears multiple times in the list of dims");
    named[d] = true;
  }
  Shape shape, strides;
  for (int d = 0; d < x.dim(); ++d) {
    if (named[d] && x.shape()[d] == 1) continue;
    shape.push_back(x.shape()[d]);
    strides.push_back(x.strides()[d]);
  }
  return reshaped(name, x, shape, strides);
}

Shape numbered(int64_t n) {
  Shape dims;
  for (int64_t i = 0; i < n; ++i) dims.push_back(i);
  return dims;
}

// Permutes dimensions: dimension i of the result is dimension order[i] of x.
Tensor permuted(const char* name, const Tensor& x, const Shape& order) {
  Shape shape = x.shape(), strides = x.strides(), inverse = order;
  bool seen[kMaxDims] = {};
  for (int i = 0; i < x.dim(); ++i) {
    const int from = wrap_dim(order[i], x.dim());
    require(!seen[from], "permute(): duplicate dims are not allowed.");
    seen[from] = true;
    shape[i] = x.shape()[from];
    strides[i] = x.strides()[from];
    inverse[from] = i;
  }
  const auto back = [name, inverse](const Tensor& dy) { return permuted(name, dy, inverse); };
  return traced("permute", make_view(name, x, shape, strides, back), {x}, order);
}

// Copies x into y, which is new memory.
Tensor copied(const Tensor& x, const Tensor& y) {
  kernels::copy_into(y, x);
  trace("clone", y, {x});
  return linear_in(x, "CloneBackward0", y, [](const Tensor& dy) { return dy; });
}

}  // namespace

Tensor view(const Tensor& x, const Shape& wanted) {
  const Shape shape = infer_shape(wanted, x.numel());
  const std::optional<Shape> strides = view_strides(x, shape);
  require(strides.has_value(),
          "view size is not compatible with input tensor's size and stride (at least one dimension "
          "spans across two contiguous subspaces). Use .reshape(...) instead. (view ",
          shape, " of ", x.shape(), " with strides ", x.strides(), ")");
  return reshaped("ViewBackward0", x, shape, *strides);
}

Tensor reshape(const Tensor& x, const Shape& wanted) {
  const Shape shape = infer_shape(wanted, x.numel());
  return view_strides(x, shape) ? view(x, shape) : view(contiguous(x), shape);
}

Tensor flatten(const Tensor& x, IntArg start_dim, IntArg end_dim) {
  const int start = wrap_dim(start_dim, x.dim()), end = wrap_dim(end_dim, x.dim());
  require(start <= end, "flatten() has invalid args: start_dim cannot come after end_dim");
  if (x.dim() == 0) return reshape(x, {1});
  Shape shape;
  int64_t run = 1;
  for (int i = 0; i < x.dim(); ++i) {
    if (i < start || i > end) shape.push_back(x.shape()[i]);
    if (i >= start && i <= end) run *= x.shape()[i];
    if (i == end) shape.push_back(run);
  }
  return shape == x.shape() ? x : reshape(x, shape);
}

Tensor view_as(const Tensor& x, const Tensor& other) { return view(x, other.shape()); }

Tensor unflatten(const Tensor& x, IntArg dim, const Shape& sizes) {
  require(!sizes.empty(), "unflatten: sizes must be non-empty");
  const int d = wrap_dim(dim, x.dim());
  Shape shape = x.shape(), inner;
  try {
    inner = infer_shape(sizes, x.size(d));
  } catch (const Error&) {
    throw Error("unflatten: Provided sizes ", sizes, " don't multiply up to the size of dim ", d,
                " (", x.size(d), ") in the input tensor");
  }
  shape.erase(d);
  for (int i = 0; i < inner.size(); ++i) shape.insert(d + i, inner[i]);
  return view(x, shape);
}

Tensor squeeze(const Tensor& x) { return without("SqueezeBackward0", x, numbered(x.dim())); }
Tensor squeeze(const Tensor& x, const Shape& dims) {
  return without(dims.size() == 1 ? "SqueezeBackward1" : "SqueezeBackward2", x, dims);
}

Tensor unsqueeze(const Tensor& x, IntArg dim) {
  const int d = wrap_dim(dim, x.dim() + 1);
  Shape shape = x.shape(), strides = x.strides();
  strides.insert(d, d < x.dim() ? x.shape()[d] * x.strides()[d] : 1);
  shape.insert(d, 1);
  return reshaped("UnsqueezeBackward0", x, shape, strides);
}

Tensor transpose(const Tensor& x, IntArg dim0, IntArg dim1) {
  const int a = wrap_dim(dim0, x.dim()), b = wrap_dim(dim1, x.dim());
  Shape order = numbered(x.dim());
  if (x.dim() > 0) std::swap(order[a], order[b]);
  return permuted("TransposeBackward0", x, order);
}

Tensor permute(const Tensor& x, const Shape& order) {
  require(order.size() == x.dim(),
          "permute: number of dimensions in the tensor input does not match the length of the "
          "desired ordering of dimensions i.e. input.dim() = ",
          x.dim(), " is not equal to dims.size() = ", order.size());
  return permuted("PermuteBackward0", x, order);
}

Tensor movedim(const Tensor& x, IntArg source, IntArg destination) {
  const int from = wrap_dim(source, x.dim()), to = wrap_dim(destination, x.dim());
  Shape order = numbered(x.dim());
  if (x.dim() == 0) return permute(x, order);
  order.erase(from);
  order.insert(to, from);
  return permute(x, order);
}

Tensor expand_as(const Tensor& x, const Tensor& other) { return expand(x, other.shape()); }

Tensor expand(const Tensor& x, const Shape& wanted) {
  const int extra = wanted.size() - x.dim();
  if (extra < 0) {
    throw Error("expand(", x.type(), "{", x.shape(), "}, size=", wanted,
                "): the number of sizes provided (", wanted.size(),
                ") must be greater or equal to the number of dimensions in the tensor (", x.dim(),
                ")");
  }
  Shape shape = wanted, strides = wanted;
  for (int i = 0; i < wanted.size(); ++i) {
    const int64_t size = i < extra ? 1 : x.shape()[i - extra];
    const int64_t step = i < extra ? 0 : x.strides()[i - extra];
    if (wanted[i] == -1 && i >= extra) shape[i] = size;
    require(shape[i] >= 0 && (size == 1 || shape[i] == size), "The expanded size of the tensor (",
            wanted[i], ") must match the existing size (", size, ") at non-singleton dimension ", i,
            ".  Target sizes: ", wanted, ".  Tensor sizes: ", x.shape());
    strides[i] = size == 1 && shape[i] != 1 ? 0 : step;
  }
  const auto back = [from = x.shape()](const Tensor& dy) { return sum_to(dy, from); };
  return traced("expand", make_view("ExpandBackward0", x, shape, strides, back), {x});
}

Tensor narrow(const Tensor& x, IntArg dim, IntArg start, IntArg length) {
  require(x.dim() != 0, "narrow() cannot be applied to a 0-dim tensor.");
  const int d = wrap_dim(dim, x.dim());
  const int64_t size = x.shape()[d];
  require(length >= 0, "narrow(): length must be non-negative.");
  require<IndexError>(start >= -size && start <= size,
                      "start out of range (expected to be in range of [", -size, ", ", size,
                      "], but got ", start, ")");
  const int64_t from = start < 0 ? start + size : int64_t(start);
  require(length <= size - from, "start (", start, ") + length (", length,
          ") exceeds dimension size (", size, ").");
  return Sliced{d, from, length}(x);
}

Tensor select(const Tensor& x, IntArg dim, IntArg index) {
  require<IndexError>(x.dim() != 0, "select() cannot be applied to a 0-dim tensor.");
  const int d = wrap_dim(dim, x.dim());
  const int64_t size = x.shape()[d];
  require<IndexError>(index >= -size && index < size, "index ", index,
                      " is out of bounds for dimension ", d, " with size ", size);
  return squeeze(narrow(x, d, index < 0 ? index + size : int64_t(index), 1), d);
}

Tensor slice(const Tensor& x, IntArg dim, std::optional<IntArg> start, std::optional<IntArg> end,
             IntArg step) {
  require<IndexError>(x.dim() != 0, "slice() cannot be applied to a 0-dim tensor.");
  require<ValueError>(step > 0, "step must be greater than zero");
  const int d = wrap_dim(dim, x.dim());
  const int64_t size = x.shape()[d];
  const auto place = [size](int64_t i) {
    return std::clamp<int64_t>(i < 0 ? i + size : i, 0, size);
  };
  const int64_t from = place(start.value_or(0)), to = place(end.value_or(size));
  // A step beyond the end selects one element, so the stride may be smaller than the step.
  const int64_t stride = std::min<int64_t>(step, std::max<int64_t>(size, 1));
  return Sliced{d, from, to <= from ? 0 : (to - from - 1) / stride + 1, stride}(x);
}

Tensor slice(const Tensor& x, const SliceOptions& options) {
  return slice(x, options.dim, options.start, options.end, options.step);
}

Tensor diagonal(const Tensor& x, IntArg offset, IntArg dim1, IntArg dim2) {
  return diagonal_of(offset, dim1, dim2, x.dim())(x);
}

Tensor diagonal(const Tensor& x, const DiagonalOptions& options) {
  return diagonal(x, options.offset, options.dim1, options.dim2);
}

Tensor diag_embed(const Tensor& x, IntArg offset, IntArg dim1, IntArg dim2) {
  const Diagonal d = diagonal_of(offset, dim1, dim2, x.dim() + 1);
  const int64_t size =
      checked_add(x.size(-1), offset < 0 ? checked_mul(offset, -1) : int64_t(offset));
  Shape whole = x.shape();
  whole.erase(x.dim() - 1);
  whole.insert(std::min(d.dim1, d.dim2), size);
  whole.insert(std::max(d.dim1, d.dim2), size);
  return traced("diag_embed", placed(x, whole, d), {x}, Shape{offset, d.dim1, d.dim2});
}

Tensor diag_embed(const Tensor& x, const DiagEmbedOptions& options) {
  return diag_embed(x, options.offset, options.dim1, options.dim2);
}

Tensor clone(const Tensor& x) { return copied(x, empty_like_layout(x, x.dtype())); }

Tensor contiguous(const Tensor& x) {
  return x.is_contiguous() ? x : copied(x, Tensor::make(x.shape(), x.dtype(), x.device()));
}

Tensor to_copy(const Tensor& x, Device device, DType dtype, ToOptions options) {
  const Device target = cuda::resolve(device);
  if (!options.copy && target == x.device() && dtype == x.dtype()) return x;
  const bool pinned = options.non_blocking && x.is_cuda() && target.is_cpu();
  Tensor y = Tensor::make(x.shape(), dtype, target, pinned);
  if (!x.is_contiguous() && is_dense(x.shape(), x.strides())) y.impl()->strides = x.strides();
  kernels::copy_into(y, x, options.non_blocking);
  trace("clone", y, {x});
  if (!is_floating_point(dtype) || !needs_grad({x})) return y;
  y = record("ToCopyBackward0", y, {x}, [from = x.device(), type = x.dtype()](Gradients& g) {
    g.dx(0) = to_copy(g.dy(), from, type);
  });
  node_of(y)->is_move = target != x.device() && dtype == x.dtype();
  return y;
}

// --- methods of Tensor ---

Tensor Tensor::view(const Shape& shape) const { return taper::view(*this, shape); }
Tensor Tensor::reshape(const Shape& shape) const { return taper::reshape(*this, shape); }
Tensor Tensor::view_as(const Tensor& other) const { return taper::view_as(*this, other); }
Tensor Tensor::flatten(IntArg start_dim, IntArg end_dim) const {
  return taper::flatten(*this, start_dim, end_dim);
}
Tensor Tensor::unflatten(IntArg dim, const Shape& sizes) const {
  return taper::unflatten(*this, dim, sizes);
}
Tensor Tensor::squeeze() const { return taper::squeeze(*this); }
Tensor Tensor::squeeze(const Shape& dims) const { return taper::squeeze(*this, dims); }
Tensor Tensor::unsqueeze(IntArg dim) const { return taper::unsqueeze(*this, dim); }
Tensor Tensor::transpose(IntArg dim0, IntArg dim1) const {
  return taper::transpose(*this, dim0, dim1);
}
Tensor Tensor::permute(const Shape& order) const { return taper::permute(*this, order); }
Tensor Tensor::movedim(IntArg source, IntArg destination) const {
  return taper::movedim(*this, source, destination);
}
Tensor Tensor::expand(const Shape& shape) const { return taper::expand(*this, shape); }
Tensor Tensor::expand_as(const Tensor& other) const { return taper::expand_as(*this, other); }
Tensor Tensor::narrow(IntArg dim, IntArg start, IntArg length) const {
  return taper::narrow(*this, dim, start, length);
}
Tensor Tensor::select(IntArg dim, IntArg index) const { return taper::select(*this, dim, index); }
Tensor Tensor::diagonal(IntArg offset, IntArg dim1, IntArg dim2) const {
  return taper::diagonal(*this, offset, dim1, dim2);
}
Tensor Tensor::diagonal(const DiagonalOptions& options) const {
  return taper::diagonal(*this, options);
}
Tensor Tensor::slice(IntArg dim, std::optional<IntArg> start, std::optional<IntArg> end,
                     IntArg step) const {
  return taper::slice(*this, dim, start, end, step);
}
Tensor Tensor::slice(const SliceOptions& options) const { return taper::slice(*this, options); }
std::vector<Tensor> Tensor::split(IntArg size, IntArg dim) const {
  return taper::split(*this, size, dim);
}
std::vector<Tensor> Tensor::split(const std::vector<int64_t>& sizes, IntArg dim) const {
  return taper::split(*this, sizes, dim);
}
std::vector<Tensor> Tensor::chunk(IntArg chunks, IntArg dim) const {
  return taper::chunk(*this, chunks, dim);
}
std::vector<Tensor> Tensor::tensor_split(IntArg sections, IntArg dim) const {
  return taper::tensor_split(*this, sections, dim);
}
std::vector<Tensor> Tensor::tensor_split(const std::vector<int64_t>& indices, IntArg dim) const {
  return taper::tensor_split(*this, indices, dim);
}
std::vector<Tensor> Tensor::unbind(IntArg dim) const { return taper::unbind(*this, dim); }
Tensor Tensor::roll(const Shape& shifts, const Shape& dims) const {
  return taper::roll(*this, shifts, dims);
}
Tensor Tensor::diag_embed(IntArg offset, IntArg dim1, IntArg dim2) const {
  return taper::diag_embed(*this, offset, dim1, dim2);
}
Tensor Tensor::diag_embed(const DiagEmbedOptions& options) const {
  return taper::diag_embed(*this, options);
}
Tensor Tensor::diag(IntArg diagonal) const { return taper::diag(*this, diagonal); }
Tensor Tensor::repeat(const Shape& repeats) const { return taper::repeat(*this, repeats); }
Tensor Tensor::clone() const { return taper::clone(*this); }
Tensor Tensor::contiguous() const { return taper::contiguous(*this); }

}  // namespace taper::v0
