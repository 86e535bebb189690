// Cross entropy of a linear layer's result, in blocks of rows, so that the logits never exist as a
// whole. The gradients of both operands are computed right after each block's logits. The backward
// pass only scales them by the gradient of the loss.
#include <algorithm>
#include <limits>

#include "autograd/ops/matmul_ops.h"
#include "autograd/ops/nn/loss_ops.h"
#include "autograd/ops/op_helpers.h"
#include "framework/cuda/cuda.h"
#include "framework/kernels/elementwise/copy.h"
#include "framework/kernels/loss/softmax.h"
#include "framework/kernels/matmul/matmul.h"
#include "framework/kernels/matmul/matmul_into.h"

namespace taper::v0 {
namespace {

constexpr int64_t kRowMultiple = 128;   // a block's rows are a multiple of the products' tiles
constexpr int64_t kWidthMultiple = 64;  // of the classes, so that cuBLASLt can use fast kernels

// The operands in the dtype of the products.
struct Operands {
  Tensor x;       // [N, C]
  Tensor weight;  // [width, C]; rows after the last class are 0
  Tensor bias;    // [width], or undefined without such rows: 0, and -inf for those rows
};

// Returns the dtype in which products with x compute.
DType type_of_products(const Tensor& x) { return autocast_dtype(x).value_or(x.dtype()); }

// Returns x in the dtype of the products.
Tensor low(const Tensor& x) { return x.to(type_of_products(x)); }

Operands operands_of(const Tensor& x, const Tensor& weight) {
  const Tensor rows = kernels::dense(low(x));
  const int64_t V = weight.size(0), C = weight.size(1);
  const int64_t width = (V + kWidthMultiple - 1) / kWidthMultiple * kWidthMultiple;
  if (width == V || !x.is_cuda() || !is_half(rows.dtype())) return {rows, low(weight), {}};
  const TensorOptions o{.dtype = rows.dtype(), .device = x.device()};
  const Tensor wide = empty({width, C}, o);
  wide.narrow(0, 0, V).copy_(weight);
  wide.narrow(0, V, width - V).zero_();
  const Tensor bias = full({width}, -std::numeric_limits<double>::infinity(), o);
  bias.narrow(0, 0, V).zero_();
  return {rows, wide, bias};
}

// What the backward pass needs. Everything is for a gradient of 1 of the summed loss.
struct BlockGradients {
  Tensor dx;       // [N, C] in the dtype of the products, if wanted
  Tensor dweight;  // [V, C] in the dtype of the sums, if wanted
};
struct BlockLoss {
  Tensor sum, total;  // 0-dim, in the dtype of the sums; total: the number of counted rows
  BlockGradients gradients;
};

// Adds the gradients of the block that begins at row `first`.
void add_gradients(const BlockGradients& out, const Operands& in, const Tensor& dlogits,
                   int64_t first) {
  const int64_t rows = dlogits.size(0);
  if (out.dx.defined()) {
    kernels::matmul_into(out.dx.narrow(0, first, rows), dlogits, in.weight,
                         kernels::Into::kReplace);
  }
  if (!out.dweight.defined()) return;
  kernels::matmul_into(out.dweight, transpose(dlogits, 0, 1), in.x.narrow(0, first, rows),
                       first == 0 ? kernels::Into::kReplace : kernels::Into::kAdd);
}

DType type_of_sums(DType dtype) { return dtype == kFloat64 ? kFloat64 : kFloat32; }

// Returns the number of rows in a block. On a GPU the product for x's gradient, with few columns
// and a long sum for each element, should keep all multiprocessors busy.
int64_t rows_of_block(const Operands& in, int64_t max_block_bytes) {
  const int64_t bytes = in.weight.size(0) * int64_t(size_of(in.x.dtype()));
  const int64_t most = std::max(max_block_bytes / bytes / kRowMultiple, int64_t(1)) * kRowMultiple;
  if constexpr (kHasCuda) {
    const Device device = in.x.device();
    const int64_t full =
        device.is_cuda() ? kernels::cuda::rows_of_full_wave(in.x.size(1), device.index()) : 0;
    if (full > 0 && full <= most) return most / full * full;
  }
  return most;
}

// Computes the loss of all blocks. Does not record.
BlockLoss loss_of_blocks(const Operands& in, const Tensor& target, int64_t ignore_index,
                         int64_t max_block_bytes, bool wants_dx, bool wants_dweight) {
  const DType dtype = in.x.dtype(), sum_type = type_of_sums(dtype);
  const Device device = in.x.device();
  const int64_t N = in.x.size(0), rows = rows_of_block(in, max_block_bytes);
  const kernels::NllOptions options{.ignore_index = ignore_index};
  const Tensor one = ones({}, {.dtype = sum_type, .device = device});
  BlockGradients out;
  if (wants_dx) out.dx = Tensor::make(in.x.shape(), dtype, device);
  if (wants_dweight) out.dweight = Tensor::make(in.weight.shape(), sum_type, device);
  std::vector<Tensor> losses, counts;
  for (int64_t first = 0; first < N; first += rows) {
    const int64_t n = std::min(rows, N - first);
    const Tensor t = target.narrow(0, first, n);
    const Tensor logits = kernels::linear(in.x.narrow(0, first, n), in.weight, in.bias).y;
    const kernels::CrossEntropy loss = kernels::cross_entropy(logits, t, Reduction::kSum, options,
                                                              sum_type, wants_dx || wants_dweight);
    losses.push_back(loss.loss);
    counts.push_back(sum(loss.rows.weights));
    if (!wants_dx && !wants_dweight) continue;
    add_gradients(out, in, kernels::cross_entropy_backward(one, logits, t, loss, options), first);
  }
  return {sum(stack(losses)), sum(stack(counts)), out};
}

// Returns the gradients by public ops, so that they can be differentiated again.
BlockGradients recorded_gradients(const Tensor& dy, const Tensor& x_given,
                                  const Tensor& weight_given, const Tensor& target,
                                  const CrossEntropyOptions& o) {
  const Tensor x = x_given.to(dy.dtype()), weight = weight_given.to(dy.dtype());
  const Tensor classes = arange(weight.size(0), {.dtype = kInt64, .device = x.device()});
  const Tensor hot = eq(target.unsqueeze(1), classes).to(dy.dtype());
  const Tensor counts = ne(target, wrap_scalar(o.ignore_index)).to(dy.dtype());
  const Tensor scale = o.reduction == Reduction::kMean ? dy / sum(counts) : dy;
  const Tensor dlogits = (softmax(linear(x, weight), 1) - hot) * (counts * scale).unsqueeze(1);
  return {mm(dlogits, weight).to(x_given.dtype()),
          mm(transpose(dlogits, 0, 1), x).to(weight_given.dtype())};
}

// Returns x * factor. The factor, a loss scale for example, may be too large for a half type.
Tensor scaled(const Tensor& x, const Tensor& factor, DType dtype) {
  return (x.to(factor.dtype()) * factor).to(dtype);
}

Tensor in_blocks(const Tensor& x, const Tensor& weight, const Tensor& target,
                 const CrossEntropyOptions& o, int64_t max_block_bytes) {
  const DType dtype = autocasts(x) ? kFloat32 : x.dtype();
  const bool recorded = needs_grad({x, weight});
  const bool wants_dx = needs_grad({x}), wants_dweight = needs_grad({weight});
  const bool is_mean = o.reduction == Reduction::kMean;
  BlockLoss blocks;
  Tensor loss;
  {
    const NoGradGuard guard;
    blocks = loss_of_blocks(operands_of(x, weight), target, o.ignore_index, max_block_bytes,
                            wants_dx, wants_dweight);
    loss = (is_mean ? blocks.sum / blocks.total : blocks.sum).to(dtype);
  }
  if (!recorded) return loss;
  return record("LinearCrossEntropyBackward", loss, {x, weight},
                [x = SavedTensor(x), w = SavedTensor(weight), t = SavedTensor(target), o,
                 made = blocks.gradients, total = is_mean ? blocks.total : Tensor()](Gradients& g) {
                  const Tensor rows = x.get(g), weights = w.get(g), classes = t.get(g);
                  if (is_grad_enabled()) {
                    const BlockGradients d = recorded_gradients(g.dy(), rows, weights, classes, o);
                    g.dx(0) = d.dx;
                    g.dx(1) = d.dweight;
                    return;
                  }
                  const Tensor dy = g.dy().to(type_of_sums(rows.dtype()));
                  const Tensor scale = total.defined() ? dy / total : dy;
                  if (g.needs(0)) g.dx(0) = scaled(made.dx, scale, rows.dtype());
                  if (!g.needs(1)) return;
                  const Tensor dweight = made.dweight.narrow(0, 0, weights.size(0));
                  g.dx(1) = scaled(dweight, scale, weights.dtype());
                });
}

// Returns whether the logits of all rows are so large that blocks save memory.
bool suits_blocks(const Tensor& x, const Tensor& weight, const Tensor& target,
                  const CrossEntropyOptions& o, int64_t max_block_bytes) {
  const bool usual = o.label_smoothing == 0 && !o.weight.defined() &&
                     (o.reduction == Reduction::kMean || o.reduction == Reduction::kSum);
  if (!usual || x.dim() != 2 || weight.dim() != 2 || target.shape() != Shape{x.size(0)}) {
    return false;
  }
  const bool fits = x.size(1) == weight.size(1) && target.dtype() == kInt64 &&
                    x.device() == weight.device() && x.device() == target.device() &&
                    type_of_products(x) == type_of_products(weight);
  const int64_t size = int64_t(size_of(type_of_products(x)));
  return fits && checked_mul(checked_mul(x.size(0), weight.size(0)), size) > max_block_bytes;
}

}  // namespace

Tensor linear_cross_entropy(const Tensor& x, const Tensor& weight, const Tensor& target,
                            const CrossEntropyOptions& o, IntArg max_block_bytes) {
  require<ValueError>(max_block_bytes > 0,
                      "linear_cross_entropy: max_block_bytes must be positive, got ",
                      int64_t(max_block_bytes));
  if (suits_blocks(x, weight, target, o, max_block_bytes)) {
    return in_blocks(x, weight, target, o, max_block_bytes);
  }
  return cross_entropy(linear(x, weight), target, o);
}

}  // namespace taper::v0
