#include "autograd/ops/nn/embedding_bag.h"

#include "autograd/ops/index/index_ops.h"
#include "autograd/ops/index/rows.h"
#include "autograd/ops/index/scatter.h"
#include "autograd/ops/op_helpers.h"

namespace taper::v0 {
namespace {

void check(const Tensor& index, const Tensor& weight, const Tensor& offsets, const BagOptions& o) {
  kernels::same_device("embedding_bag", {&index, &weight, &offsets, &o.per_sample_weights},
                       {"input", "weight", "offsets", "per_sample_weights"});
  require(index.dtype() == kInt64 || index.dtype() == kInt32,
          "Expected tensor for argument #1 'indices' to have one of the following scalar types: "
          "Long, Int; but got ",
          scalar_type_name(index.dtype()), " instead (while checking arguments for embedding_bag)");
  require(weight.is_floating_point(),
          "Expected tensor for argument #1 'weight' to have one of the following scalar types: "
          "Half, BFloat16, Float, Double; but got ",
          scalar_type_name(weight.dtype()),
          " instead (while checking arguments for embedding_bag)");
  require(weight.dim() == 2, "weight has to be a 2D Tensor, but got Tensor of dimension ",
          weight.dim());
  const Tensor& factors = o.per_sample_weights;
  if (factors.defined()) {
    require<ValueError>(
        factors.shape() == index.shape(), "embedding_bag: If per_sample_weights (", factors.shape(),
        ") is defined, then it must have the same shape as the input (", index.shape(), ")");
    require<NotImplementedError>(o.mode == BagMode::kSum,
                                 "embedding_bag: per_sample_weights was defined. "
                                 "per_sample_weights is only supported for BagMode::kSum (got '",
                                 o.mode, "').");
  }
  require<ValueError>(index.dim() != 2 || !offsets.defined(),
                      "if input is 2D, then offsets must be undefined, as input is treated as a "
                      "mini-batch of fixed length sequences.");
  require<ValueError>(index.dim() == 1 || index.dim() == 2,
                      "input has to be 1D or 2D Tensor, but got Tensor of dimension ", index.dim());
  if (index.dim() == 2) return;
  if (!offsets.defined() || offsets.dim() != 1) {
    throw ValueError("offsets has to be a 1D Tensor but got ",
                     offsets.defined() ? concat_to_string("one of shape ", offsets.shape())
                                       : "an undefined Tensor");
  }
  require(!o.include_last_offset || offsets.numel() != 0,
          "include_last_offset: number of offset should be at least 1");
  if (offsets.is_cuda() || offsets.numel() == 0) return;
  const int64_t first = offsets[0].item<int64_t>(), last = offsets[-1].item<int64_t>();
  require(first == 0,
          "offsets[0] has to be 0, i.e., the first sequence in the mini-batch has to start from "
          "position 0. However, got ",
          first);
  require(last <= index.numel(), "offsets[-1] can not be greater than input's length ",
          index.numel(), " but got offsets[-1] of ", last);
}

}  // namespace

Tensor embedding_bag(const Tensor& index, const Tensor& weight, const Tensor& offsets,
                     const BagOptions& o) {
  check(index, weight, offsets, o);
  const bool even = index.dim() == 2;
  const int64_t n = index.numel(), dim = weight.size(1), rows = weight.size(0);
  const int64_t bags = even ? index.size(0) : offsets.numel() - o.include_last_offset;
  const Tensor flat = reshape(index, {n});
  Tensor bag = even ? reshape(expand(reshape(arange(bags, {.device = index.device()}), {bags, 1}),
                                     index.shape()),
                              {n})
                    : run_of_each(narrow(offsets, 0, 0, bags), n);
  if (o.padding_idx) {  // move padding rows to an extra bag
    require(*o.padding_idx >= -rows && *o.padding_idx < rows,
            "padding_idx must be within the number of embeddings");
    const int64_t padding = *o.padding_idx < 0 ? *o.padding_idx + rows : *o.padding_idx;
    bag = where(ne(flat, padding), bag, bags);
  }
  Tensor taken = embedding(weight, flat);
  if (o.per_sample_weights.defined()) taken = taken * reshape(o.per_sample_weights, {n, 1});
  const TensorOptions like = options_of(weight);
  const Tensor none = zeros({bags + 1, dim}, like);
  Tensor y = o.mode == BagMode::kMax ? scatter_reduce(none, 0, expand(unsqueeze(bag, 1), {n, dim}),
                                                      taken, "amax", false)
                                     : index_add(none, 0, bag, taken);
  if (o.mode == BagMode::kMean) {
    const Tensor count = index_add(zeros({bags + 1, 1}, like), 0, bag, ones({n, 1}, like));
    y = y / clamp(count, 1);
  }
  return narrow(y, 0, 0, bags);
}

}  // namespace taper::v0
