#include "autograd/ops/shape.h"

#include <algorithm>
#include <optional>

#include "autograd/ops/binary.h"
#include "autograd/view.h"
#include "framework/cuda.h"
#include "framework/factories.h"
#include "framework/kernels/copy.h"
#include "framework/kernels/loop.h"

namespace taper {
namespace {

// The strides that show x with other sizes without a copy, if there are such.
std::optional<Shape> view_strides(const Tensor& x, const Shape& shape) {
  if (x.is_contiguous()) return contiguous_strides(shape);
  Shape strides = shape;
  int v = shape.size() - 1;
  // Runs of x's dimensions that lie in memory like one are split into dimensions of the view.
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

// Views whose gradient is the same view turned round: dx = back(dy).
template <class F> Tensor record_view(const char* name, const Tensor& x, Tensor y, F back) {
  track_view(y, x);
  if (!needs_grad({x})) return y;
  return record(name, y, {x}, [back](Gradients& g) { g.dx(0) = back(g.dy()); });
}

// `length` elements of dimension `dim`.
struct Slice {
  int dim;
  int64_t start, length, step = 1;

  Tensor of(const Tensor& x) const {
    Shape shape = x.shape(), strides = x.strides();
    shape[dim] = length;
    strides[dim] *= step;
    return view_as(x, shape, strides, x.storage_offset() + start * x.strides()[dim]);
  }
};

Tensor placed(const Tensor& dy, const Shape& shape, Slice s);

Tensor sliced(const Tensor& x, Slice s) {
  return record_view("SliceBackward0", x, s.of(x),
                     [shape = x.shape(), s](const Tensor& dy) { return placed(dy, shape, s); });
}

// dy in a slice of zeros.
Tensor placed(const Tensor& dy, const Shape& shape, Slice s) {
  Tensor dx = zeros(shape, {.dtype = dy.dtype(), .device = dy.device()});
  kernels::copy_into(s.of(dx), dy);
  if (!needs_grad({dy})) return dx;
  return record("SliceBackward0", dx, {dy}, [s](Gradients& g) { g.dx(0) = sliced(g.dy(), s); });
}

// x without those of these dimensions that have size 1.
Tensor without(const char* name, const Tensor& x, const Shape& dims) {
  bool named[kMaxDims] = {};
  for (const int64_t dim : dims) {
    const int d = wrap_dim(dim, x.dim());
    if (named[d]) throw Error(cat("dim ", d, " appears multiple times in the list of dims"));
    named[d] = true;
  }
  Shape shape, strides;
  for (int d = 0; d < x.dim(); ++d) {
    if (named[d] && x.shape()[d] == 1) continue;
    shape.push_back(x.shape()[d]);
    strides.push_back(x.strides()[d]);
  }
  return record_view(name, x, view_as(x, shape, strides, x.storage_offset()),
                     [from = x.shape()](const Tensor& dy) { return reshape(dy, from); });
}

Shape numbered(int64_t n) {
  Shape dims;
  for (int64_t i = 0; i < n; ++i) dims.push_back(i);
  return dims;
}

// Which tensors cat joins: an empty 1-d one is left out, as ever.
bool counts(const Tensor& x) { return x.dim() != 1 || x.numel() > 0; }

// What cat makes of its tensors: dtype and shape, with the joined dimension's size.
struct Joined {
  DType dtype;
  Shape shape;
  int dim = 0;
};

Joined check_cat(const std::vector<Tensor>& tensors, int64_t dim) {
  if (tensors.empty()) throw ValueError("torch.cat(): expected a non-empty list of Tensors");
  Joined y{tensors[0].dtype(), {0}};
  bool first = true;
  for (size_t i = 0; i < tensors.size(); ++i) {
    const Tensor& x = tensors[i];
    kernels::same_device("cat", {&tensors[0], &x}, {"tensors", "tensors"});
    if (x.dim() == 0) {
      throw Error(cat("zero-dimensional tensor (at position ", i, ") cannot be concatenated"));
    }
    y.dtype = promote_types(y.dtype, x.dtype());
    if (!counts(x)) continue;
    if (first) {
      y.shape = x.shape();
      y.dim = wrap_dim(dim, x.dim());
      first = false;
      continue;
    }
    if (x.dim() != y.shape.size()) {
      throw Error(cat("Tensors must have same number of dimensions: got ", y.shape.size(), " and ",
                      x.dim()));
    }
    for (int d = 0; d < x.dim(); ++d) {
      if (d == y.dim || x.shape()[d] == y.shape[d]) continue;
      throw Error(cat("Sizes of tensors must match except in dimension ", y.dim, ". Expected size ",
                      y.shape[d], " but got size ", x.shape()[d], " for tensor number ", i,
                      " in the list."));
    }
    y.shape[y.dim] += x.shape()[y.dim];
  }
  return y;
}

void check_divisible(const char* op, const Tensor& x) {
  if (x.dim() == 0) throw Error(cat(op, " expects at least a 1-dimensional tensor"));
}

}  // namespace

Tensor view(const Tensor& x, const Shape& wanted) {
  const Shape shape = infer_shape(wanted, x.numel());
  const std::optional<Shape> strides = view_strides(x, shape);
  if (!strides) {
    throw Error(
        cat("view size is not compatible with input tensor's size and stride (at least one "
            "dimension spans across two contiguous subspaces). Use .reshape(...) instead. "
            "(view ",
            shape, " of ", x.shape(), " with strides ", x.strides(), ")"));
  }
  return record_view("ViewBackward0", x, view_as(x, shape, *strides, x.storage_offset()),
                     [from = x.shape()](const Tensor& dy) { return reshape(dy, from); });
}

Tensor reshape(const Tensor& x, const Shape& wanted) {
  const Shape shape = infer_shape(wanted, x.numel());
  return view_strides(x, shape) ? view(x, shape) : view(contiguous(x), shape);
}

Tensor flatten(const Tensor& x, int64_t start_dim, int64_t end_dim) {
  const int start = wrap_dim(start_dim, x.dim()), end = wrap_dim(end_dim, x.dim());
  if (start > end) {
    throw Error("flatten() has invalid args: start_dim cannot come after end_dim");
  }
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

Tensor unflatten(const Tensor& x, int64_t dim, const Shape& sizes) {
  if (sizes.empty()) throw Error("unflatten: sizes must be non-empty");
  const int d = wrap_dim(dim, x.dim());
  Shape shape = x.shape(), inner;
  try {
    inner = infer_shape(sizes, x.size(d));
  } catch (const Error&) {
    throw Error(cat("unflatten: Provided sizes ", sizes, " don't multiply up to the size of dim ",
                    d, " (", x.size(d), ") in the input tensor"));
  }
  shape.erase(d);
  for (int i = 0; i < inner.size(); ++i) shape.insert(d + i, inner[i]);
  return view(x, shape);
}

Tensor squeeze(const Tensor& x) { return without("SqueezeBackward0", x, numbered(x.dim())); }
Tensor squeeze(const Tensor& x, int64_t dim) { return without("SqueezeBackward1", x, {dim}); }
Tensor squeeze(const Tensor& x, const Shape& dims) { return without("SqueezeBackward2", x, dims); }

Tensor unsqueeze(const Tensor& x, int64_t dim) {
  const int d = wrap_dim(dim, x.dim() + 1);
  Shape shape = x.shape(), strides = x.strides();
  strides.insert(d, d < x.dim() ? x.shape()[d] * x.strides()[d] : 1);
  shape.insert(d, 1);
  return record_view("UnsqueezeBackward0", x, view_as(x, shape, strides, x.storage_offset()),
                     [d](const Tensor& dy) { return squeeze(dy, d); });
}

Tensor transpose(const Tensor& x, int64_t dim0, int64_t dim1) {
  const int a = wrap_dim(dim0, x.dim()), b = wrap_dim(dim1, x.dim());
  Shape shape = x.shape(), strides = x.strides();
  if (x.dim() > 0) {
    std::swap(shape[a], shape[b]);
    std::swap(strides[a], strides[b]);
  }
  return record_view("TransposeBackward0", x, view_as(x, shape, strides, x.storage_offset()),
                     [a, b](const Tensor& dy) { return transpose(dy, a, b); });
}

Tensor permute(const Tensor& x, const Shape& order) {
  if (order.size() != x.dim()) {
    throw Error(
        cat("permute: number of dimensions in the tensor input does not match "
            "the length of the desired ordering of dimensions i.e. input.dim() = ",
            x.dim(), " is not equal to len(dims) = ", order.size()));
  }
  Shape shape = x.shape(), strides = x.strides(), inverse = order;
  bool seen[kMaxDims] = {};
  for (int i = 0; i < x.dim(); ++i) {
    const int from = wrap_dim(order[i], x.dim());
    if (seen[from]) throw Error("permute(): duplicate dims are not allowed.");
    seen[from] = true;
    shape[i] = x.shape()[from];
    strides[i] = x.strides()[from];
    inverse[from] = i;
  }
  return record_view("PermuteBackward0", x, view_as(x, shape, strides, x.storage_offset()),
                     [inverse](const Tensor& dy) { return permute(dy, inverse); });
}

Tensor movedim(const Tensor& x, int64_t source, int64_t destination) {
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
    throw Error(cat("expand(", x.type(), "{", x.shape(), "}, size=", wanted,
                    "): the number of sizes provided (", wanted.size(),
                    ") must be greater or equal to the number of dimensions in the tensor (",
                    x.dim(), ")"));
  }
  Shape shape = wanted, strides = wanted;
  for (int i = 0; i < wanted.size(); ++i) {
    const int64_t size = i < extra ? 1 : x.shape()[i - extra];
    const int64_t step = i < extra ? 0 : x.strides()[i - extra];
    if (wanted[i] == -1 && i >= extra) shape[i] = size;
    if (shape[i] < 0 || (size != 1 && shape[i] != size)) {
      throw Error(cat("The expanded size of the tensor (", wanted[i],
                      ") must match the existing size (", size, ") at non-singleton dimension ", i,
                      ".  Target sizes: ", wanted, ".  Tensor sizes: ", x.shape()));
    }
    strides[i] = size == 1 && shape[i] != 1 ? 0 : step;
  }
  return record_view("ExpandBackward0", x, view_as(x, shape, strides, x.storage_offset()),
                     [from = x.shape()](const Tensor& dy) { return sum_to(dy, from); });
}

Tensor narrow(const Tensor& x, int64_t dim, int64_t start, int64_t length) {
  if (x.dim() == 0) throw Error("narrow() cannot be applied to a 0-dim tensor.");
  const int d = wrap_dim(dim, x.dim());
  const int64_t size = x.shape()[d];
  const int64_t from = start < 0 ? start + size : start;
  if (length < 0 || from < 0 || from + length > size) {
    throw IndexError(
        cat("start (", start, ") + length (", length, ") exceeds dimension size (", size, ")."));
  }
  return sliced(x, {d, from, length});
}

Tensor select(const Tensor& x, int64_t dim, int64_t index) {
  if (x.dim() == 0) throw IndexError("select() cannot be applied to a 0-dim tensor.");
  const int d = wrap_dim(dim, x.dim());
  const int64_t size = x.shape()[d];
  if (index < -size || index >= size) {
    throw IndexError(
        cat("index ", index, " is out of bounds for dimension ", d, " with size ", size));
  }
  return squeeze(narrow(x, d, index < 0 ? index + size : index, 1), d);
}

Tensor slice(const Tensor& x, int64_t dim, std::optional<int64_t> start, std::optional<int64_t> end,
             int64_t step) {
  if (x.dim() == 0) throw IndexError("slice() cannot be applied to a 0-dim tensor.");
  if (step <= 0) throw ValueError("step must be greater than zero");
  const int d = wrap_dim(dim, x.dim());
  const int64_t size = x.shape()[d];
  const auto place = [size](int64_t i) {
    return std::clamp<int64_t>(i < 0 ? i + size : i, 0, size);
  };
  const int64_t from = place(start.value_or(0)), to = place(end.value_or(size));
  return sliced(x, {d, from, to <= from ? 0 : (to - from - 1) / step + 1, step});
}

std::vector<Tensor> split(const Tensor& x, const std::vector<int64_t>& sizes, int64_t dim) {
  check_divisible("split_with_sizes", x);
  const int d = wrap_dim(dim, x.dim());
  const auto listed = [&] {
    std::string text;
    for (const int64_t size : sizes) text += cat(text.empty() ? "[" : ", ", size);
    return text.empty() ? "[]" : text + "]";
  };
  std::vector<Tensor> parts;
  int64_t at = 0;
  for (const int64_t size : sizes) {
    if (size < 0) {
      throw Error(
          cat("split_with_sizes expects split_sizes have only non-negative entries, but "
              "got split_sizes=",
              listed()));
    }
    if (at + size <= x.size(d)) {
      parts.push_back(Slice{d, at, size}.of(x));
      track_view(parts.back(), x);
    }
    at += size;
  }
  if (at != x.size(d)) {
    throw Error(cat("split_with_sizes expects split_sizes to sum exactly to ", x.size(d),
                    " (input tensor's size at dimension ", d, "), but got split_sizes=", listed()));
  }
  if (parts.empty() || !needs_grad({x})) return parts;
  // One node for all, so that the gradient is put together once.
  const Tensor* input = &x;
  record_many("SplitWithSizesBackward0", parts, {&input, 1},
              [shape = x.shape(), type = x.dtype(), device = x.device(), sizes, d](Gradients& g) {
                std::vector<Tensor> dys;
                for (size_t i = 0; i < sizes.size(); ++i) {
                  Shape part = shape;
                  part[d] = sizes[i];
                  dys.push_back(g.dy(i).defined() ? g.dy(i)
                                                  : zeros(part, {.dtype = type, .device = device}));
                }
                g.dx(0) = cat(dys, d);
              });
  return parts;
}

std::vector<Tensor> split(const Tensor& x, int64_t size, int64_t dim) {
  check_divisible("split", x);
  if (size < 0)
    throw Error(cat("split expects split_size be non-negative, but got split_size=", size));
  const int64_t all = x.size(dim);
  if (size == 0 && all != 0) {
    throw Error(
        cat("split_size can only be 0 if dimension size is 0, but got dimension size of ", all));
  }
  std::vector<int64_t> sizes;
  for (int64_t at = 0; at < all; at += size) sizes.push_back(std::min(size, all - at));
  if (all == 0) sizes.push_back(0);
  return split(x, sizes, dim);
}

std::vector<Tensor> chunk(const Tensor& x, int64_t chunks, int64_t dim) {
  check_divisible("chunk", x);
  if (chunks <= 0) throw Error(cat("chunk expects `chunks` to be greater than 0, got: ", chunks));
  const int64_t all = x.size(dim);
  if (all == 0) return split(x, std::vector<int64_t>(size_t(chunks), 0), dim);
  return split(x, (all + chunks - 1) / chunks, dim);
}

Tensor cat(const std::vector<Tensor>& tensors, int64_t dim) {
  const Joined to = check_cat(tensors, dim);
  Tensor y = Tensor::make(to.shape, to.dtype, tensors[0].device());
  std::vector<const Tensor*> inputs;
  std::vector<DType> types;
  std::vector<Slice> slices;
  int64_t at = 0;
  for (const Tensor& x : tensors) {
    if (!counts(x)) continue;
    inputs.push_back(&x);
    types.push_back(x.dtype());
    slices.push_back({to.dim, at, x.shape()[to.dim]});
    kernels::copy_into(slices.back().of(y), x);
    at += slices.back().length;
  }
  if (!needs_grad(tensors)) return y;
  record_many("CatBackward0", {&y, 1}, inputs, [slices, types](Gradients& g) {
    for (size_t i = 0; i < slices.size(); ++i) {
      if (g.needs(i)) g.dx(i) = sliced(g.dy(), slices[i]).to(types[i]);
    }
  });
  return y;
}

Tensor stack(const std::vector<Tensor>& tensors, int64_t dim) {
  if (tensors.empty()) throw Error("stack expects a non-empty TensorList");
  std::vector<Tensor> rows;
  for (const Tensor& x : tensors) {
    if (x.shape() != tensors[0].shape()) {
      throw Error(cat("stack expects each tensor to be equal size, but got ", tensors[0].shape(),
                      " at entry 0 and ", x.shape(), " at entry ", rows.size()));
    }
    rows.push_back(unsqueeze(x, wrap_dim(dim, x.dim() + 1)));
  }
  return cat(rows, wrap_dim(dim, tensors[0].dim() + 1));
}

Tensor repeat(const Tensor& x, const Shape& repeats) {
  if (repeats.size() < x.dim()) {
    throw Error(
        "Number of dimensions of repeat dims can not be smaller than number of dimensions "
        "of tensor");
  }
  Shape shape = x.shape(), result = repeats;
  while (shape.size() < repeats.size()) shape.insert(0, 1);
  for (int d = 0; d < shape.size(); ++d) result[d] *= shape[d];
  for (const int64_t size : result) {
    if (size < 0) {
      throw Error(cat("Trying to create tensor with negative dimension ", size, ": ", result));
    }
  }
  Tensor y = clone(view(contiguous(x), shape));
  for (int d = 0; d < shape.size(); ++d) {
    if (repeats[d] == 1) continue;
    // [..., 1, size, ...] is spread over [..., repeats, size, ...].
    Shape spread = y.shape();
    spread.insert(d, repeats[d]);
    shape[d] = result[d];
    y = reshape(expand(unsqueeze(y, d), spread), shape);
  }
  return y;
}

Tensor clone(const Tensor& x) {
  Tensor y = empty_like_layout(x, x.dtype());
  kernels::copy_into(y, x);
  if (!needs_grad({x})) return y;
  return record("CloneBackward0", y, {x}, [](Gradients& g) { g.dx(0) = g.dy(); });
}

Tensor contiguous(const Tensor& x) {
  if (x.is_contiguous()) return x;
  Tensor y = Tensor::make(x.shape(), x.dtype(), x.device());
  kernels::copy_into(y, x);
  if (!needs_grad({x})) return y;
  return record("CloneBackward0", y, {x}, [](Gradients& g) { g.dx(0) = g.dy(); });
}

Tensor to_copy(const Tensor& x, Device device, DType dtype, ToOptions options) {
  const Device target = cuda::resolve(device);
  if (!options.copy && target == x.device() && dtype == x.dtype()) return x;
  const bool to_host = x.is_cuda() && target.is_cpu();
  Tensor y = to_host && options.non_blocking
                 ? Tensor::make(allocate_pinned(size_of(dtype) * size_t(x.numel())), x.shape(),
                                contiguous_strides(x.shape()), 0, dtype)
                 : Tensor::make(x.shape(), dtype, target);
  if (!x.is_contiguous() && is_dense(x.shape(), x.strides())) y.impl()->strides = x.strides();
  kernels::copy_into(y, x, options.non_blocking);
  if (!is_floating_point(dtype) || !needs_grad({x})) return y;
  return record("ToCopyBackward0", y, {x}, [from = x.device(), type = x.dtype()](Gradients& g) {
    g.dx(0) = to_copy(g.dy(), from, type);
  });
}

}  // namespace taper
