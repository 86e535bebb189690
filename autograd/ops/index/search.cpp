#include "autograd/ops/index/search.h"

#include <algorithm>
#include <vector>

#include "autograd/ops/index/index_ops.h"
#include "autograd/ops/index/rows.h"
#include "autograd/ops/index/scatter.h"
#include "autograd/ops/op_helpers.h"
#include "framework/kernels/elementwise/copy.h"
#include "framework/kernels/reduce/reduce.h"

namespace taper::v0 {
namespace {

// Reads several numbers from a device with one synchronization.
std::vector<int64_t> read(const std::vector<Tensor>& numbers) {
  return stack(numbers).cpu().to_vector<int64_t>();
}

void check_sequence(const Tensor& sorted, const Tensor& x) {
  kernels::same_device("searchsorted", {&sorted, &x}, {"boundaries", "input"});
  require(sorted.dim() != 0,
          "taper::searchsorted(): boundaries tensor should have positive dimension, but got 0 "
          "dimension");
  if (sorted.dim() == 1) return;
  require(
      x.dim() != 0,
      "taper::searchsorted(): input value can be a scalar only when boundaries tensor dimension "
      "is 1, but we got boundaries tensor dim(",
      sorted.dim(), ") and input value's dim(0) numel(1)");
  const Shape a = sorted.shape(), b = x.shape();
  require(
      a.size() == b.size() && std::equal(a.begin(), a.end() - 1, b.begin()),
      "taper::searchsorted(): boundaries tensor should be 1 dimension or the first N-1 dimensions "
      "of boundaries tensor and input value tensor must match, but we got boundaries tensor ",
      a, " and input value tensor ", b);
}

// Returns the smallest and the largest of some int64 numbers, which are dense.
std::pair<int64_t, int64_t> range_of(const Tensor& numbers) {
  if (numbers.is_cpu()) return kernels::range_of(numbers);
  const std::vector<int64_t> range = read({amin(numbers), amax(numbers)});
  return {range[0], range[1]};
}

}  // namespace

Tensor count_nonzero(const Tensor& x, const Shape& dims) {
  return kernels::reduce(kernels::ReductionOp::kSum, x, dims, false, kernels::ReduceMap::kNonzero);
}

Tensor bincount(const Tensor& x, const Tensor& weights, IntArg minlength) {
  require(minlength >= 0, "minlength should be >= 0");
  constexpr char kTakes[] = "bincount only supports 1-d non-negative integral inputs.";
  require(x.dim() == 1 && !x.is_floating_point() && x.dtype() != kBool, kTakes);
  if (weights.defined()) {
    require(weights.shape() == x.shape(),
            "weights should be 1-d and have the same length as input, got shapes ", weights.shape(),
            " and ", x.shape());
  }
  kernels::same_device("bincount", {&x, &weights}, {"self", "weights"});
  const Tensor all = kernels::packed(x, kInt64);
  int64_t bins = minlength;
  if (x.numel() > 0) {
    const auto [low, high] = range_of(all);
    require(low >= 0, kTakes);
    bins = std::max(bins, checked_add(high, 1));
  }
  const DType sums = weights.defined() && weights.dtype() == kFloat32 ? kFloat32 : kFloat64;
  const Tensor each = weights.defined() ? weights.to(sums) : Tensor();
  if (x.is_cpu() && !needs_grad({each})) return kernels::count_numbers(all, each, bins);
  const TensorOptions counts{.dtype = weights.defined() ? sums : kInt64, .device = x.device()};
  return scatter_add(zeros({bins}, counts), 0, all,
                     weights.defined() ? each : ones(x.shape(), counts));
}

Tensor repeat_interleave(const Tensor& x, IntArg repeats, std::optional<IntArg> dim) {
  require(repeats >= 0, "Repeats must be non-negative, got ", repeats);
  if (!dim || x.dim() == 0) return repeat_interleave(flatten(x), repeats, 0);
  const int d = wrap_dim(*dim, x.dim());
  Shape shape = x.shape();
  shape.insert(d + 1, repeats);
  Shape joined = x.shape();
  joined[d] = checked_mul(joined[d], repeats);
  return reshape(clone(expand(unsqueeze(x, d + 1), shape)), joined);
}

Tensor repeat_interleave(const Tensor& x, const Tensor& repeats, std::optional<IntArg> dim,
                         std::optional<IntArg> output_size) {
  kernels::same_device("repeat_interleave", {&x, &repeats}, {"self", "repeats"});
  require(repeats.dim() <= 1, "repeats must be 0-dim or 1-dim tensor");
  require(is_index(repeats), "repeats has to be Long or Int tensor, got ", repeats.dtype());
  if (x.dim() != 1 && (!dim || x.dim() == 0)) {
    return repeat_interleave(flatten(x), repeats, 0, output_size);
  }
  const int d = wrap_dim(dim.value_or(0), x.dim());
  const int64_t size = x.size(d);
  require(repeats.numel() == 1 || repeats.numel() == size,
          "repeats must have the same size as input along dim, but got repeats.size(0) = ",
          repeats.numel(), " and input.size(", d, ") = ", size);
  const Tensor ends = cumsum(expand(reshape(repeats, {repeats.numel()}), {size}), 0);
  int64_t total = output_size.value_or(0);
  if (size > 0 && (!output_size || x.is_cpu())) {
    const std::vector<int64_t> known = read({amin(repeats).to(kInt64), select(ends, 0, -1)});
    require(known[0] >= 0, "repeats can not be negative");
    total = known[1];
  }
  const int64_t wanted = output_size.value_or(total);
  require(wanted == total, "allocated size does not match required size: output_size is ", wanted,
          ", repeats add up to ", total);
  return index_select(x, d, searchsorted(ends, arange(total, {.device = x.device()}), true));
}

Tensor take_along_dim(const Tensor& x, const Tensor& indices, std::optional<IntArg> dim) {
  kernels::same_device("take_along_dim", {&x, &indices}, {"self", "indices"});
  require(is_index(indices), "taper::take_along_dim(): dtype of indices should be Long but got ",
          scalar_type_name(indices.dtype()));
  if (!dim) return gather(flatten(x), 0, flatten(indices));
  require(x.dim() == indices.dim(),
          "taper::take_along_dim(): input and indices should have the same number of dimensions, "
          "but got ",
          x.dim(), " dimensions for input, and ", indices.dim(), " dimensions for indices");
  const int d = wrap_dim(*dim, x.dim());
  if (x.dim() == 0) return gather(x, 0, where(indices < 0, indices + 1, indices));
  Shape from = x.shape(), to = indices.shape();
  from[d] = to[d] = 1;
  from = to = broadcast_shapes(from, to, "take_along_dim");
  from[d] = x.size(d);
  to[d] = indices.size(d);
  return gather(expand(x, from), d, expand(where(indices < 0, indices + x.size(d), indices), to));
}

Tensor searchsorted(const Tensor& sorted_sequence, const Tensor& x, BoolArg right) {
  check_sequence(sorted_sequence, x);
  return kernels::searchsorted(sorted_sequence, x, right);
}
Tensor searchsorted(const Tensor& sorted_sequence, Scalar value, BoolArg right) {
  return searchsorted(sorted_sequence, full({}, value, {.device = sorted_sequence.device()}),
                      right);
}

Tensor bucketize(const Tensor& x, const Tensor& boundaries, BoolArg right) {
  require(boundaries.dim() == 1, "boundaries tensor must be 1 dimension, but got dim(",
          boundaries.dim(), ")");
  return searchsorted(boundaries, x, right);
}

Uniques unique(const Tensor& x, BoolArg /*sorted*/, BoolArg return_inverse, BoolArg return_counts) {
  const Tensor flat = flatten(x.detach());
  const int64_t n = flat.numel();
  const TensorOptions longs{.dtype = kInt64, .device = x.device()};
  const Tensor order = argsort(flat, 0), rising = index_select(flat, 0, order);
  // Marks the start of each run of equal elements.
  Tensor begins = ones({n}, {.dtype = kBool, .device = x.device()});
  if (n > 1)
    narrow(begins, 0, 1, n - 1).copy_(ne(narrow(rising, 0, 1, n - 1), narrow(rising, 0, 0, n - 1)));
  const Tensor places = kernels::nonzero(begins);
  Uniques y{index_select(rising, 0, places), {}, {}};
  if (return_inverse) {
    const Tensor inverse = zeros({n}, longs);
    kernels::fold_rows(kernels::RowOp::kPut, inverse, order, 1, cumsum(begins, 0) - 1, true);
    y.inverse_indices = reshape(inverse, x.shape());
  }
  if (return_counts) {
    y.counts = n == 0
                   ? zeros({0}, longs)
                   : cat({narrow(places, 0, 1, places.numel() - 1), full({1}, n, longs)}) - places;
  }
  return y;
}

Uniques unique(const Tensor& x, const UniqueOptions& options) {
  return unique(x, options.sorted, options.return_inverse, options.return_counts);
}

// --- methods of Tensor ---

Tensor Tensor::count_nonzero(const Shape& dims) const { return taper::count_nonzero(*this, dims); }
Tensor Tensor::bincount(const Tensor& weights, IntArg minlength) const {
  return taper::bincount(*this, weights, minlength);
}
Tensor Tensor::repeat_interleave(IntArg repeats, std::optional<IntArg> dim) const {
  return taper::repeat_interleave(*this, repeats, dim);
}
Tensor Tensor::repeat_interleave(const Tensor& repeats, std::optional<IntArg> dim,
                                 std::optional<IntArg> output_size) const {
  return taper::repeat_interleave(*this, repeats, dim, output_size);
}
Tensor Tensor::take_along_dim(const Tensor& indices, std::optional<IntArg> dim) const {
  return taper::take_along_dim(*this, indices, dim);
}
Tensor Tensor::searchsorted(const Tensor& x, BoolArg right) const {
  return taper::searchsorted(*this, x, right);
}
Tensor Tensor::searchsorted(Scalar value, BoolArg right) const {
  return taper::searchsorted(*this, value, right);
}
Tensor Tensor::bucketize(const Tensor& boundaries, BoolArg right) const {
  return taper::bucketize(*this, boundaries, right);
}
Uniques Tensor::unique(BoolArg sorted, BoolArg return_inverse, BoolArg return_counts) const {
  return taper::unique(*this, sorted, return_inverse, return_counts);
}
Uniques Tensor::unique(const UniqueOptions& options) const { return taper::unique(*this, options); }

}  // namespace taper::v0
