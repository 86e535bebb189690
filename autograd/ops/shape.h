// Views, copies and moves (https://pytorch.org/docs/stable/torch.html#indexing-slicing-joining).
// Each has a method of the same name on Tensor. A view shares its tensor's memory.
#pragma once

#include <optional>
#include <vector>

#include "framework/tensor.h"

namespace taper::v0 {

// A view; refuses a shape that the strides cannot express, with the advice to use reshape.
Tensor view(const Tensor& x, const Shape& shape);
// A view where possible, else a copy. One size may be -1.
Tensor reshape(const Tensor& x, const Shape& shape);
Tensor view_as(const Tensor& x, const Tensor& other);
Tensor flatten(const Tensor& x, IntArg start_dim = 0, IntArg end_dim = -1);
// One dimension as several; one of the sizes may be -1.
Tensor unflatten(const Tensor& x, IntArg dim, const Shape& sizes);
// Without dimensions of size 1: all, or those that are named.
Tensor squeeze(const Tensor& x);
Tensor squeeze(const Tensor& x, const Shape& dims);
Tensor unsqueeze(const Tensor& x, IntArg dim);
Tensor transpose(const Tensor& x, IntArg dim0, IntArg dim1);
Tensor permute(const Tensor& x, const Shape& order);
Tensor movedim(const Tensor& x, IntArg source, IntArg destination);
// -1 keeps a size.
Tensor expand(const Tensor& x, const Shape& shape);
Tensor expand_as(const Tensor& x, const Tensor& other);
Tensor narrow(const Tensor& x, IntArg dim, IntArg start, IntArg length);
Tensor select(const Tensor& x, IntArg dim, IntArg index);
// The diagonal `offset` places above the main one (negative: below) of the matrices that two
// dimensions make: a view, in which it is the last dimension.
Tensor diagonal(const Tensor& x, IntArg offset = 0, IntArg dim1 = 0, IntArg dim2 = 1);
// x[start:end:step] along a dimension: negative ends count from the end, all are clamped. step > 0.
Tensor slice(const Tensor& x, IntArg dim = 0, std::optional<IntArg> start = std::nullopt,
             std::optional<IntArg> end = std::nullopt, IntArg step = 1);
// Views of `size` neighbours each (the last may be shorter), or of the sizes given.
std::vector<Tensor> split(const Tensor& x, IntArg size, IntArg dim = 0);
std::vector<Tensor> split(const Tensor& x, const std::vector<int64_t>& sizes, IntArg dim = 0);
// At most this many views of equal size but for the last.
std::vector<Tensor> chunk(const Tensor& x, IntArg chunks, IntArg dim = 0);
// So many views, of sizes that differ by one at most; or cut before each of the indices, with ends
// as those of slice.
std::vector<Tensor> tensor_split(const Tensor& x, IntArg sections, IntArg dim = 0);
std::vector<Tensor> tensor_split(const Tensor& x, const std::vector<int64_t>& indices,
                                 IntArg dim = 0);
// A view of each slice along a dimension, without it.
std::vector<Tensor> unbind(const Tensor& x, IntArg dim = 0);

// Joined along a dimension, in the promoted dtype. Empty 1-d tensors are passed over.
Tensor cat(const std::vector<Tensor>& tensors, IntArg dim = 0);
// Joined along a new dimension.
Tensor stack(const std::vector<Tensor>& tensors, IntArg dim = 0);
// Joined along the second dimension (vectors along their only one), and along the first with
// vectors as rows.
Tensor hstack(const std::vector<Tensor>& tensors);
Tensor vstack(const std::vector<Tensor>& tensors);
// Of vectors (or numbers) of one dtype: views of one shape, in which each varies along a dimension
// of its own: in the order given, or with the first two exchanged (xy).
enum class MeshIndexing { ij, xy };
std::vector<Tensor> meshgrid(const std::vector<Tensor>& tensors,
                             MeshIndexing indexing = MeshIndexing::ij);
// Elements moved by so many places along dims, or in x flattened, those from the end to the front.
Tensor roll(const Tensor& x, const Shape& shifts, const Shape& dims = {});
// Zeros with x's last dimension on a diagonal of the dimensions dim1 and dim2 of the result.
Tensor diag_embed(const Tensor& x, IntArg offset = 0, IntArg dim1 = -2, IntArg dim2 = -1);
// Of a vector the matrix with it on a diagonal; of a matrix a copy of a diagonal.
Tensor diag(const Tensor& x, IntArg diagonal = 0);
// x several times along each dimension; new dimensions come in front.
Tensor repeat(const Tensor& x, const Shape& repeats);
// Always a new tensor; keeps a dense layout.
Tensor clone(const Tensor& x);
// x itself when it is dense row-major.
Tensor contiguous(const Tensor& x);
// x on a device in a dtype: x itself when it is that already.
Tensor to_copy(const Tensor& x, Device device, DType dtype, ToOptions options = {});

}  // namespace taper::v0
