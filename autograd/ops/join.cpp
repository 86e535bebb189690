// Splitting and concatenating tensors.
#include <algorithm>
#include <utility>

#include "autograd/ops/op_helpers.h"
#include "autograd/ops/shape_ops.h"
#include "autograd/view.h"
#include "framework/kernels/elementwise/copy.h"

namespace taper::v0 {
namespace {

// The result of cat: its dtype and shape, including the size of the joined dimension.
struct Joined {
  DType dtype;
  Shape shape = {0};
  int dim = 0;
};

// Returns whether cat includes x. Empty 1-d tensors are skipped, as in PyTorch.
bool counts(const Tensor& x) { return x.dim() != 1 || x.numel() > 0; }

Joined check_cat(const std::vector<Tensor>& tensors, int64_t dim) {
  if (tensors.empty()) throw ValueError("taper::cat(): expected a non-empty list of Tensors");
  Joined y{tensors[0].dtype()};
  for (size_t i = 0; i < tensors.size(); ++i) {
    const Tensor& x = tensors[i];
    kernels::same_device("cat", {&tensors[0], &x}, {"tensors", "tensors"});
    require(x.dim() != 0, "zero-dimensional tensor (at position ", i, ") cannot be concatenated");
    y.dtype = promote_types(y.dtype, x.dtype());
  }
  const auto first = std::find_if(tensors.begin(), tensors.end(), counts);
  if (first == tensors.end()) return y;
  y.shape = first->shape();
  y.dim = wrap_dim(dim, first->dim());
  y.shape[y.dim] = 0;
  for (size_t i = 0; i < tensors.size(); ++i) {
    const Tensor& x = tensors[i];
    if (!counts(x)) continue;
    require(x.dim() == y.shape.size(), "Tensors must have same number of dimensions: got ",
            y.shape.size(), " and ", x.dim());
    for (int d = 0; d < x.dim(); ++d) {
      require(d == y.dim || x.shape()[d] == y.shape[d],
              "Sizes of tensors must match except in dimension ", y.dim, ". Expected size ",
              y.shape[d], " but got size ", x.shape()[d], " for tensor number ", i,
              " in the list.");
    }
    y.shape[y.dim] = checked_add(y.shape[y.dim], x.shape()[y.dim]);
  }
  return y;
}

constexpr int64_t kMostEmptyParts = int64_t(1) << 24;

void check_divisible(const char* op, const Tensor& x) {
  require(x.dim() != 0, op, " expects at least a 1-dimensional tensor");
}

int check_tensor_split(const Tensor& x, int64_t dim) {
  if (x.dim() > 0) return wrap_dim(dim, x.dim());
  throw Error(
      "tensor_split expected at least a 1-dimensional tensor, but got a tensor with 0 dims");
}

std::string listed(const std::vector<int64_t>& sizes) {
  std::string text;
  for (const int64_t size : sizes) text += concat_to_string(text.empty() ? "" : ", ", size);
  return "[" + text + "]";
}

}  // namespace

std::vector<Tensor> split(const Tensor& x, const std::vector<int64_t>& sizes, IntArg dim) {
  check_divisible("split_with_sizes", x);
  const int d = wrap_dim(dim, x.dim());
  const Tensor plain = x.detach();
  std::vector<Tensor> parts;
  int64_t at = 0;
  for (const int64_t size : sizes) {
    if (size < 0) {
      throw Error("split_with_sizes expects split_sizes have only non-negative entries, but ",
                  "got split_sizes=", listed(sizes));
    }
    if (size > x.size(d) - at) {
      at = x.size(d) + 1;  // too many, whatever sizes follow
      continue;
    }
    parts.push_back(narrow(plain, d, at, size));
    track_view(parts.back(), x);
    at += size;
  }
  if (at != x.size(d)) {
    throw Error("split_with_sizes expects split_sizes to sum exactly to ", x.size(d),
                " (input tensor's size at dimension ", d, "), but got split_sizes=", listed(sizes));
  }
  if (parts.empty() || !needs_grad({x})) return parts;
  // Record one node for all parts, so that the gradient is assembled once. Adjacent parts without a
  // gradient become a single block of zeros.
  const TensorRef input = x;
  record_many("SplitWithSizesBackward0", parts, {&input, 1},
              [whole = TensorMeta(x), sizes, d](Gradients& g) {
                std::vector<Tensor> dys;
                const Tensor zero = zeros({}, {.dtype = whole.dtype, .device = whole.device});
                Shape gap = whole.shape;
                gap[d] = 0;
                for (size_t i = 0; i < sizes.size(); ++i) {
                  gap[d] += g.dy(i).defined() ? 0 : sizes[i];
                  const bool ends = i + 1 == sizes.size() || g.dy(i + 1).defined();
                  if (g.dy(i).defined()) dys.push_back(g.dy(i));
                  if (!ends || gap[d] == 0) continue;
                  dys.push_back(expand(zero, gap));
                  gap[d] = 0;
                }
                g.dx(0) = cat(dys, d);
              });
  return parts;
}

std::vector<Tensor> split(const Tensor& x, IntArg size, IntArg dim) {
  check_divisible("split", x);
  require(size >= 0, "split expects split_size be non-negative, but got split_size=", size);
  const int64_t all = x.size(dim);
  require(size != 0 || all == 0,
          "split_size can only be 0 if dimension size is 0, but got dimension size of ", all);
  std::vector<int64_t> sizes;
  for (int64_t at = 0; at < all; at += size) sizes.push_back(std::min<int64_t>(size, all - at));
  if (all == 0) sizes.push_back(0);
  return split(x, sizes, dim);
}

std::vector<Tensor> chunk(const Tensor& x, IntArg chunks, IntArg dim) {
  check_divisible("chunk", x);
  require(chunks > 0, "chunk expects `chunks` to be greater than 0, got: ", chunks);
  const int64_t all = x.size(dim);
  require(all != 0 || chunks <= kMostEmptyParts, "chunk of an empty dimension into ", chunks,
          " parts, more than ", kMostEmptyParts);
  if (all == 0) return split(x, std::vector<int64_t>(size_t(chunks), 0), dim);
  return split(x, (all - 1) / chunks + 1, dim);
}

std::vector<Tensor> tensor_split(const Tensor& x, IntArg sections, IntArg dim) {
  const int d = check_tensor_split(x, dim);
  require(sections > 0, "number of sections must be larger than 0, got ", sections);
  require(sections <= kMostEmptyParts, "tensor_split into ", sections, " parts, more than ",
          kMostEmptyParts);
  std::vector<int64_t> sizes(size_t(sections), x.size(d) / sections);
  for (int64_t i = 0; i < x.size(d) % sections; ++i) ++sizes[size_t(i)];
  return split(x, sizes, d);
}

std::vector<Tensor> tensor_split(const Tensor& x, const std::vector<int64_t>& indices, IntArg dim) {
  const int d = check_tensor_split(x, dim);
  std::vector<Tensor> parts;
  int64_t from = 0;
  for (const int64_t index : indices)
    parts.push_back(slice(x, d, std::exchange(from, index), index));
  parts.push_back(slice(x, d, from));
  return parts;
}

Tensor cat(const std::vector<Tensor>& tensors, IntArg dim) {
  const Joined to = check_cat(tensors, dim);
  struct Piece {
    int64_t start, length;
    DType dtype;
  };
  Tensor y = Tensor::make(to.shape, to.dtype, tensors[0].device());
  std::vector<TensorRef> inputs;
  std::vector<Piece> pieces;
  int64_t at = 0;
  for (const Tensor& x : tensors) {
    if (!counts(x)) continue;
    inputs.push_back(x);
    pieces.push_back({at, x.shape()[to.dim], x.dtype()});
    kernels::copy_into(narrow(y, to.dim, at, pieces.back().length), x);
    at += pieces.back().length;
  }
  if (is_tracing()) note_traced({"cat", {inputs.begin(), inputs.end()}, {y}, Shape{to.dim}});
  if (!needs_grad(tensors)) return y;
  record_many("CatBackward0", {&y, 1}, inputs,
              [pieces = std::move(pieces), d = to.dim](Gradients& g) {
                for (size_t i = 0; i < pieces.size(); ++i) {
                  const auto& [start, length, dtype] = pieces[i];
                  if (g.needs(i)) g.dx(i) = narrow(g.dy(), d, start, length).to(dtype);
                }
              });
  return y;
}

Tensor stack(const std::vector<Tensor>& tensors, IntArg dim) {
  require(!tensors.empty(), "stack expects a non-empty TensorList");
  std::vector<Tensor> rows;
  for (const Tensor& x : tensors) {
    require(x.shape() == tensors[0].shape(), "stack expects each tensor to be equal size, but got ",
            tensors[0].shape(), " at entry 0 and ", x.shape(), " at entry ", rows.size());
    rows.push_back(unsqueeze(x, dim));
  }
  return cat(rows, wrap_dim(dim, rows[0].dim()));
}

Tensor repeat(const Tensor& x, const Shape& repeats) {
  require(
      repeats.size() >= x.dim(),
      "Number of dimensions of repeat dims can not be smaller than number of dimensions of tensor");
  Shape shape = x.shape(), result = repeats, from, spread;
  while (shape.size() < repeats.size()) shape.insert(0, 1);
  for (int d = 0; d < shape.size(); ++d) result[d] = checked_mul(result[d], shape[d]);
  (void)result.nbytes(x.element_size());
  // [..., 1, size, ...] is expanded to [..., repeats, size, ...]. Dimensions beyond kMaxDims are
  // repeated afterwards.
  Shape later = repeats;
  for (int d = 0; d < shape.size(); ++d) {
    const bool apart = repeats[d] != 1 && shape[d] != 1;
    const bool waits = apart && from.size() > d && from.size() + shape.size() - d >= kMaxDims;
    if (apart && !waits) {
      from.push_back(1);
      spread.push_back(repeats[d]);
    }
    from.push_back(shape[d]);
    spread.push_back(apart ? shape[d] : result[d]);
    if (waits) result[d] = shape[d];
    if (!waits) later[d] = 1;
  }
  const Tensor y = view(clone(expand(view(contiguous(x), from), spread)), result);
  return later.numel() == 1 ? y : repeat(y, later);
}

}  // namespace taper::v0
