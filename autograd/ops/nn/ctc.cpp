#include "framework/kernels/loss/ctc.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <utility>

#include "autograd/node.h"
#include "autograd/ops/binary.h"
#include "autograd/ops/index/index.h"
#include "autograd/ops/nn/loss.h"
#include "autograd/ops/reduce.h"
#include "autograd/ops/shape.h"
#include "autograd/ops/unary.h"
#include "framework/factories.h"
#include "framework/kernels/elementwise/copy.h"

namespace taper::inline v0 {
namespace {

constexpr char kWhere[] = " (while checking arguments for ctc_loss_allocate_outputs)";

// [N] int64 where it lay; on the CPU each in [0, most].
Tensor lengths_of(const char* name, const Tensor& given, int64_t rows, int64_t most) {
  if (given.is_floating_point() || given.dtype() == kBool) {
    throw Error(cat(name, " must be integral"));
  }
  if (given.numel() != rows) throw Error(cat(name, " must be of size batch_size"));
  const Tensor lengths = kernels::packed(given, kInt64).view({rows});
  if (!lengths.is_cpu()) return lengths;
  for (const int64_t length : lengths.span<int64_t>()) {
    const bool low = length < 0;
    if (!low && length <= most) continue;
    throw Error(cat("Expected ", name, " to have value at ", low ? "least " : "most ",
                    low ? 0 : most, ", but got value ", length, kWhere));
  }
  return lengths;
}

Error wrong_size(const char* at_least, int64_t wanted, int dim, int64_t got) {
  return Error(cat("Expected tensor to have size ", at_least, wanted, " at dimension ", dim,
                   ", but got size ", got, " for argument #2 'targets'", kWhere));
}

// Targets and lengths, checked as far as they lie on the CPU.
kernels::Ctc arranged(const Tensor& targets, const Tensor& input_lengths,
                      const Tensor& target_lengths, int64_t steps, int64_t rows, Device device) {
  if (targets.dim() != 1 && targets.dim() != 2) {
    throw Error(cat("Expected 1 to 2 dimensions, but got ", targets.dim(),
                    "-dimensional tensor for argument #2 'targets'", kWhere));
  }
  const bool padded = targets.dim() == 2;
  kernels::Ctc c;
  c.targets = kernels::packed(targets, kInt64).to(device);
  c.most = padded ? targets.size(1) : targets.numel();
  const Tensor inputs = lengths_of("input_lengths", input_lengths, rows, steps);
  const Tensor lengths =
      lengths_of("target_lengths", target_lengths, rows, std::numeric_limits<int64_t>::max());
  if (padded && targets.size(0) != rows) throw wrong_size("", rows, 0, targets.size(0));
  if (lengths.is_cpu()) {
    const auto all = lengths.span<int64_t>();
    const int64_t total = std::accumulate(all.begin(), all.end(), int64_t(0));
    const int64_t longest = rows > 0 ? *std::max_element(all.begin(), all.end()) : 0;
    if (padded && longest > c.most) throw wrong_size("at least ", longest, 1, c.most);
    if (!padded && total != c.most) throw wrong_size("", total, 0, c.most);
    c.most = longest;
  }
  c.input_lengths = inputs.to(device);
  c.target_lengths = lengths.to(device);
  c.starts = padded ? arange(rows, {.dtype = kInt64, .device = device}) * targets.size(1)
                    : cumsum(c.target_lengths, 0) - c.target_lengths;
  return c;
}

}  // namespace

Tensor ctc_loss(const Tensor& log_probs, const Tensor& targets, const Tensor& input_lengths,
                const Tensor& target_lengths, int64_t blank, Reduction reduction,
                bool zero_infinity) {
  if (log_probs.dim() == 2) {
    const Tensor loss = ctc_loss(log_probs.unsqueeze(1), targets, input_lengths, target_lengths,
                                 blank, reduction, zero_infinity);
    return reduction == Reduction::none ? loss.squeeze(0) : loss;
  }
  if (log_probs.dim() != 3) {
    throw Error(cat("Expected 3-dimensional tensor, but got ", log_probs.dim(),
                    "-dimensional tensor for argument #1 'log_probs'", kWhere));
  }
  if (log_probs.numel() == 0) throw Error("log_probs tensor must not be empty");
  if (log_probs.dtype() != kFloat32 && log_probs.dtype() != kFloat64) {
    throw NotImplementedError(
        cat("\"ctc_loss\" not implemented for '", scalar_type_name(log_probs.dtype()), "'"));
  }
  if (blank < 0 || blank >= log_probs.size(2)) throw Error("blank must be in label range");
  if (reduction == Reduction::batchmean) {
    throw ValueError("batchmean is not a valid value for reduction (it is kl_div's)");
  }
  kernels::Ctc c = arranged(targets.detach(), input_lengths, target_lengths, log_probs.size(0),
                            log_probs.size(1), log_probs.device());
  c.blank = blank;
  c.log_probs = kernels::dense(log_probs);
  kernels::ctc(c);
  Tensor loss = std::exchange(c.loss, {});
  c.log_probs = {};
  const Tensor lengths = c.target_lengths;
  if (needs_grad({log_probs})) {
    loss = record("CtcLossBackward0", loss, {log_probs},
                  [x = Saved(log_probs), y = Saved::output(loss), c = std::move(c),
                   zero_infinity](Gradients& g) {
                    refuse_second_derivative("ctc_loss", g.dy());
                    kernels::Ctc all = c;
                    all.log_probs = kernels::dense(x.get(g));
                    all.loss = kernels::dense(y.get(g));
                    g.dx(0) = kernels::ctc_backward(g.dy(), all, zero_infinity);
                  });
  }
  if (zero_infinity) loss = masked(loss, logical_not(isinf(loss)));
  if (reduction == Reduction::none) return loss;
  if (reduction == Reduction::sum) return sum(loss);
  return mean(loss / clamp(lengths, 1).to(loss.dtype()));
}

}  // namespace taper::inline v0
