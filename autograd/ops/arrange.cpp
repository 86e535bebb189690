// Functions that rearrange tensors by means of other views and concatenations.
#include <algorithm>

#include "autograd/ops/shape_ops.h"
#include "framework/kernels/elementwise/broadcast.h"

namespace taper::v0 {
namespace {

void check_has_dims(const Tensor& x) {
  require<IndexError>(x.dim() != 0, "Dimension specified as 0 but tensor has no dimensions");
}

// Adds dimensions of size 1 in front of tensors with fewer than `dims` dimensions.
std::vector<Tensor> at_least(int dims, const char* op, const std::vector<Tensor>& tensors) {
  require(!tensors.empty(), op, " expects a non-empty TensorList");
  std::vector<Tensor> out = tensors;
  for (Tensor& x : out) {
    while (x.dim() < dims) x = unsqueeze(x, 0);
  }
  return out;
}

}  // namespace

std::vector<Tensor> unbind(const Tensor& x, IntArg dim) {
  check_has_dims(x);
  const int d = wrap_dim(dim, x.dim());
  if (x.size(d) == 0) return {};
  std::vector<Tensor> parts = split(x, 1, d);
  for (Tensor& part : parts) part = squeeze(part, d);
  return parts;
}

Tensor hstack(const std::vector<Tensor>& tensors) {
  const std::vector<Tensor> parts = at_least(1, "hstack", tensors);
  return cat(parts, parts[0].dim() == 1 ? 0 : 1);
}

Tensor vstack(const std::vector<Tensor>& tensors) { return cat(at_least(2, "vstack", tensors), 0); }

std::vector<Tensor> meshgrid(const std::vector<Tensor>& tensors, MeshIndexing indexing) {
  require(!tensors.empty(), "meshgrid expects a non-empty TensorList");
  std::vector<Tensor> axes = tensors;
  for (size_t i = 0; i < axes.size(); ++i) {
    kernels::same_device("meshgrid", {&axes[0], &axes[i]}, {"tensors", "tensors"});
    require(axes[i].dtype() == axes[0].dtype(),
            "meshgrid expects all tensors to have the same dtype, got ", axes[0].dtype(), " and ",
            axes[i].dtype());
    require(
        axes[i].dim() <= 1,
        "taper::meshgrid: Expected 0D or 1D tensor in the tensor list but got: ", axes[i].shape());
  }
  const bool exchanged = indexing == MeshIndexing::kXy && axes.size() > 1;
  if (exchanged) std::swap(axes[0], axes[1]);
  Shape whole;
  for (const Tensor& axis : axes) whole.push_back(axis.numel());
  for (int d = 0; d < whole.size(); ++d) {
    Shape own = whole;
    std::fill(own.begin(), own.end(), 1);
    own[d] = whole[d];
    axes[size_t(d)] = expand(reshape(axes[size_t(d)], own), whole);
  }
  if (exchanged) std::swap(axes[0], axes[1]);
  return axes;
}

std::vector<Tensor> broadcast_tensors(const std::vector<Tensor>& tensors) {
  Shape common;
  for (const Tensor& x : tensors) common = broadcast_shapes(common, x.shape(), "broadcast_tensors");
  std::vector<Tensor> views;
  for (const Tensor& x : tensors) views.push_back(expand(x, common));
  return views;
}

Tensor roll(const Tensor& x, const Shape& shifts, const Shape& dims) {
  require(!shifts.empty(), "`shifts` required");
  if (dims.empty() && shifts.size() == 1) return reshape(roll(flatten(x), shifts, {0}), x.shape());
  require(shifts.size() == dims.size(), "shifts and dimensions must align. shifts: ", shifts.size(),
          ", dims:", dims.size());
  check_has_dims(x);
  Tensor y = x;
  for (int i = 0; i < dims.size(); ++i) {
    const int d = wrap_dim(dims[i], x.dim());
    const int64_t n = x.size(d), back = n == 0 ? 0 : (shifts[i] % n + n) % n;
    if (back != 0) y = cat({narrow(y, d, n - back, back), narrow(y, d, 0, n - back)}, d);
  }
  return y.is_same(x) ? clone(x) : y;
}

Tensor diag(const Tensor& x, IntArg diagonal) {
  if (x.dim() == 1) return diag_embed(x, diagonal);
  if (x.dim() == 2) return clone(taper::diagonal(x, diagonal));
  throw Error("diag(): Supports 1D or 2D tensors. Got ", x.dim(), "D");
}

}  // namespace taper::v0
