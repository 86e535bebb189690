// Views, copies and conversions
// (https://pytorch.org/docs/stable/torch.html#indexing-slicing-joining).
//
// Functions of one tensor are also methods of Tensor. A view shares the memory of its tensor.
// Negative dimensions count from the end. All functions are differentiable and do not synchronize,
// except copies from the GPU to the CPU. They throw Error or IndexError for dimensions, sizes and
// indices out of range.
#pragma once

#include <optional>
#include <vector>

#include "framework/base/text_enum.h"
#include "framework/tensor/tensor.h"

namespace taper::v0 {

// Returns a view of the given shape. Throws Error if the strides of x cannot express it; use
// reshape then.
Tensor view(const Tensor& x, const Shape& shape);
// Returns a view if possible and a copy otherwise. One size may be -1.
Tensor reshape(const Tensor& x, const Shape& shape);
Tensor view_as(const Tensor& x, const Tensor& other);
Tensor flatten(const Tensor& x, IntArg start_dim = 0, IntArg end_dim = -1);
// Splits one dimension into several. One of the sizes may be -1.
Tensor unflatten(const Tensor& x, IntArg dim, const Shape& sizes);
// Removes dimensions of size 1: all of them, or those in `dims`.
Tensor squeeze(const Tensor& x);
Tensor squeeze(const Tensor& x, const Shape& dims);
Tensor unsqueeze(const Tensor& x, IntArg dim);
Tensor transpose(const Tensor& x, IntArg dim0, IntArg dim1);
Tensor permute(const Tensor& x, const Shape& order);
Tensor movedim(const Tensor& x, IntArg source, IntArg destination);
// Returns a view in which dimensions of size 1 are repeated without a copy. -1 keeps a size.
Tensor expand(const Tensor& x, const Shape& shape);
Tensor expand_as(const Tensor& x, const Tensor& other);
// Returns views of all tensors in their common shape, as operators broadcast them.
std::vector<Tensor> broadcast_tensors(const std::vector<Tensor>& tensors);
// Returns the `length` slices from `start` on, as a view.
Tensor narrow(const Tensor& x, IntArg dim, IntArg start, IntArg length);
// Returns slice number `index` along dim, without that dimension, as a view.
Tensor select(const Tensor& x, IntArg dim, IntArg index);
// Returns the diagonals of the matrices that dim1 and dim2 form, as a view in which the diagonal is
// the last dimension. A positive offset selects a diagonal above the main one, a negative offset
// below.
//
//   diagonal(x, {.dim1 = 1, .dim2 = 2});  // the diagonal of each matrix of a batch
Tensor diagonal(const Tensor& x, IntArg offset = 0, IntArg dim1 = 0, IntArg dim2 = 1);
Tensor diagonal(const Tensor& x, const DiagonalOptions& options);
// Returns x[start:end:step] along a dimension, as a view. Negative bounds count from the end;
// bounds out of range are clamped. step must be positive.
//
//   slice(x, 0, 1, -1);               // x[1:-1]
//   slice(x, {.dim = 1, .step = 2});  // x[:, ::2]
Tensor slice(const Tensor& x, IntArg dim = 0, std::optional<IntArg> start = std::nullopt,
             std::optional<IntArg> end = std::nullopt, IntArg step = 1);
Tensor slice(const Tensor& x, const SliceOptions& options);
// Splits x into views of `size` elements along dim, of which the last may be smaller, or into views
// of the given sizes.
std::vector<Tensor> split(const Tensor& x, IntArg size, IntArg dim = 0);
std::vector<Tensor> split(const Tensor& x, const std::vector<int64_t>& sizes, IntArg dim = 0);
// Splits x into at most `chunks` views of equal size, of which the last may be smaller.
std::vector<Tensor> chunk(const Tensor& x, IntArg chunks, IntArg dim = 0);
// Splits x into views, either into exactly `sections` views whose sizes differ by at most one, or
// before each of the indices. Indices are interpreted as in slice.
std::vector<Tensor> tensor_split(const Tensor& x, IntArg sections, IntArg dim = 0);
std::vector<Tensor> tensor_split(const Tensor& x, const std::vector<int64_t>& indices,
                                 IntArg dim = 0);
// Returns a view of each slice along dim, without that dimension.
std::vector<Tensor> unbind(const Tensor& x, IntArg dim = 0);

// Concatenates along an existing dimension, in the promoted dtype. Empty 1-d tensors are skipped.
Tensor cat(const std::vector<Tensor>& tensors, IntArg dim = 0);
// Concatenates along a new dimension.
Tensor stack(const std::vector<Tensor>& tensors, IntArg dim = 0);
// hstack concatenates along the second dimension (1-d tensors along their only one). vstack
// concatenates along the first dimension, with 1-d tensors as rows.
Tensor hstack(const std::vector<Tensor>& tensors);
Tensor vstack(const std::vector<Tensor>& tensors);
struct MeshIndexingValues {
  enum class Value : uint8_t { kIj, kXy };
  static constexpr Value kIj = Value::kIj, kXy = Value::kXy;
  static constexpr const char* kOption = "indexing";
  static constexpr const char* kWords[] = {"ij", "xy"};
};
using MeshIndexing = TextEnum<MeshIndexingValues>;

// Expands vectors or 0-dim tensors of one dtype to views of one common shape. Vector i varies along
// dimension i. MeshIndexing::kXy exchanges the first two dimensions.
//
//   meshgrid({arange(3), arange(4)});  // two views [3, 4]
std::vector<Tensor> meshgrid(const std::vector<Tensor>& tensors,
                             MeshIndexing indexing = MeshIndexing::kIj);
// Shifts elements by shifts[i] places along dims[i], or in the flattened x if dims is empty.
// Elements that leave at the end reappear at the front.
//
//   roll(x, {1}, {0});  // the last row comes first
Tensor roll(const Tensor& x, const Shape& shifts, const Shape& dims = {});
// Returns zeros with the last dimension of x on a diagonal of the result's dimensions dim1 and
// dim2.
Tensor diag_embed(const Tensor& x, IntArg offset = 0, IntArg dim1 = -2, IntArg dim2 = -1);
Tensor diag_embed(const Tensor& x, const DiagEmbedOptions& options);
// Returns a matrix with the vector x on a diagonal, or a copy of a diagonal of the matrix x.
Tensor diag(const Tensor& x, IntArg diagonal = 0);
// Repeats x along each dimension. Extra repeats add dimensions in front.
Tensor repeat(const Tensor& x, const Shape& repeats);
// Returns a copy in new memory. A dense layout, for example channels-last, is preserved.
Tensor clone(const Tensor& x);
// Returns x itself if it is dense and row-major, and a row-major copy otherwise.
Tensor contiguous(const Tensor& x);
// Returns x on `device` in `dtype`: x itself if nothing changes, otherwise a copy.
Tensor to_copy(const Tensor& x, Device device, DType dtype, ToOptions options = {});

}  // namespace taper::v0
