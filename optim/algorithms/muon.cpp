#include "optim/algorithms/muon.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "framework/factory/factories.h"
#include "framework/kernels/elementwise/binary.h"
#include "framework/kernels/elementwise/copy.h"
#include "framework/kernels/elementwise/unary.h"
#include "framework/kernels/matmul/matmul.h"
#include "framework/kernels/reduce/reduce.h"
#include "optim/algorithms/sgd.h"

namespace taper::v0::optim {
namespace {

using kernels::BinaryOp;
using kernels::Update;

Tensor transposed(const Tensor& x) {
  const int64_t b = x.size(0), m = x.size(1), n = x.size(2);
  return view_as(x, {b, n, m}, {m * n, 1, n}, x.storage_offset());
}

// Replaces every matrix U S V^T in x [b, m, n] by about U V^T, computed in `dtype`, and returns the
// result. Overwrites x. Starts with X = X / |X|. Then iterates X = a X + (b A + c A^2) X with A = X
// X^T. For tall matrices, A is X^T X, and the products are on the right.
Tensor newton_schulz(Tensor x, DType dtype, const MuonOptions& o) {
  const Tensor norm = kernels::reduce(kernels::ReductionOp::kSum,
                                      unary(kernels::UnaryOp::kSquare, x), {1, 2}, true);
  unary_into(kernels::UnaryOp::kSqrt, norm, norm);
  unary_into(kernels::UnaryOp::kClamp, norm, norm,
             {o.eps, std::numeric_limits<double>::infinity()});
  binary_into(BinaryOp::kDiv, x, x, norm);
  x = kernels::packed(x, dtype);
  const bool tall = x.size(1) > x.size(2);
  const auto [a, b, c] = o.ns_coefficients;
  for (int64_t k = 0; k < o.ns_steps; ++k) {
    const Tensor gram =
        tall ? kernels::matmul(transposed(x), x) : kernels::matmul(x, transposed(x));
    const Tensor factor = kernels::matmul(gram, gram);
    binary_into(BinaryOp::kMul, factor, factor, wrap_scalar(c));
    binary_into(BinaryOp::kAdd, factor, factor, gram, {.a = b});
    const Tensor next = tall ? kernels::matmul(x, factor) : kernels::matmul(factor, x);
    binary_into(BinaryOp::kAdd, next, next, x, {.a = a});
    x = next;
  }
  return x;
}

// Matrices of one shape, whose rows and columns are in the order of memory. A transposed parameter
// needs no copy, because the transpose of an orthogonalized matrix is the orthogonalized transpose.
struct Bucket {
  // On a GPU, the last bits of a batched product depend on the number of matrices. There a stack
  // always has this many, so that the bits do not depend on which other parameters are on the
  // device (Module::place).
  static constexpr size_t kOnGpu = 4;

  int64_t rows, cols;
  DType dtype;   // of the gradients
  double ratio;  // factor of the learning rate
  std::vector<size_t> members;
  Tensor stack;  // [members, rows, cols]; on a GPU [kOnGpu, rows, cols], the rest zeros

  Tensor matrix(size_t i) const {
    return view_as(stack, {rows, cols}, {cols, 1},
                   stack.storage_offset() + int64_t(i) * rows * cols);
  }
};

std::vector<Bucket> buckets_of(const std::vector<Update>& updates, AdjustLr adjust) {
  std::vector<Bucket> buckets;
  for (size_t i = 0; i < updates.size(); ++i) {
    const Tensor& p = updates[i].param;
    if (p.numel() == 0) continue;
    const double A = double(p.size(0)), B = double(p.size(1));
    Bucket own{p.size(0), p.size(1), updates[i].grad.dtype(), std::sqrt(std::max(1., A / B)),
               {},        {}};
    if (adjust == AdjustLr::kMatchRmsAdamw) own.ratio = 0.2 * std::sqrt(std::max(A, B));
    if (!p.is_contiguous()) std::swap(own.rows, own.cols);
    const bool on_gpu = p.device().is_cuda();
    auto it = std::find_if(buckets.begin(), buckets.end(), [&](const Bucket& x) {
      const bool is_full = on_gpu && x.members.size() == Bucket::kOnGpu;
      return !is_full && x.rows == own.rows && x.cols == own.cols && x.dtype == own.dtype &&
             x.ratio == own.ratio;
    });
    if (it == buckets.end()) it = buckets.insert(it, own);
    it->members.push_back(i);
  }
  return buckets;
}

}  // namespace

OptimizerTraits MuonOptions::traits() const {
  for (const auto& [what, x] : {std::pair("Learning rate", lr), std::pair("momentum", momentum),
                                std::pair("weight decay", weight_decay)}) {
    if (!(x >= 0)) throw ValueError(what, " should be >= 0 but is: ", x);
  }
  require<ValueError>(
      adjust_lr_fn == AdjustLr::kOriginal || adjust_lr_fn == AdjustLr::kMatchRmsAdamw,
      "Adjust learning rate function ", adjust_lr_fn.index(), " is not supported");
  require<ValueError>(ns_steps < 100,
                      "Number of steps must be less than 100 for computational efficiency");
  OptimizerTraits r{"Muon", {"momentum_buffer"}};
  r.only_matrices = true;
  return r;
}

void MuonOptions::update(const std::vector<Update>& updates,
                         const kernels::StepScalars& scalars) const {
  std::vector<Bucket> buckets = buckets_of(updates, adjust_lr_fn);
  std::vector<Update> momenta, moves = updates;
  for (Bucket& b : buckets) {
    const Tensor& like = updates[b.members[0]].states[0];
    const size_t used = b.members.size(), all = like.device().is_cuda() ? Bucket::kOnGpu : used;
    b.stack = Tensor::make({int64_t(all), b.rows, b.cols}, like.dtype(), like.device());
    if (used < all) kernels::fill(b.stack.narrow(0, int64_t(used), int64_t(all - used)), 0.0);
    for (size_t i = 0; i < b.members.size(); ++i) {
      const Update& u = updates[b.members[i]];
      momenta.push_back({b.matrix(i), u.grad, u.states, {}});
    }
  }
  kernels::update(momenta, scalars, *this);
  for (Bucket& b : buckets) {
    const Tensor x = newton_schulz(b.stack, is_half(b.dtype) ? kBFloat16 : b.dtype, *this);
    binary_into(BinaryOp::kMul, x, x, wrap_scalar(b.ratio));
    b.stack = kernels::packed(x, b.dtype);
    for (size_t i = 0; i < b.members.size(); ++i) {
      Update& u = moves[b.members[i]];
      u = {u.param, b.matrix(i), {}, u.low};
    }
  }
  // Computes p -= lr (ratio O + weight_decay p), where O is the orthogonalized momentum step.
  kernels::update(moves, scalars, SGDOptions{.weight_decay = weight_decay});
}

}  // namespace taper::v0::optim
