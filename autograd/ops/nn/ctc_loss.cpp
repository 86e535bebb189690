#include <algorithm>
#include <limits>
#include <numeric>
#include <utility>

#include "autograd/ops/index/index_ops.h"
#include "autograd/ops/nn/loss_ops.h"
#include "autograd/ops/nn/reduction.h"
#include "autograd/ops/op_helpers.h"
#include "framework/kernels/elementwise/copy.h"
#include "framework/kernels/loss/ctc.h"

namespace taper::v0 {
namespace {

constexpr char kWhere[] = " (while checking arguments for ctc_loss_allocate_outputs)";

// Returns the lengths as int64 [N] on their device. On the CPU it checks that each is in [0, most].
Tensor lengths_of(const char* name, const Tensor& given, int64_t rows, int64_t most) {
  require(!given.is_floating_point() && given.dtype() != kBool, name, " must be integral");
  require(given.numel() == rows, name, " must be of size batch_size");
  const Tensor lengths = kernels::packed(given, kInt64).view({rows});
  if (!lengths.is_cpu()) return lengths;
  for (const int64_t length : lengths.span<int64_t>()) {
    const bool low = length < 0;
    require(!low && length <= most, "Expected ", name, " to have value at ",
            low ? "least " : "most ", low ? 0 : most, ", but got value ", length, kWhere);
  }
  return lengths;
}

Error wrong_size(const char* at_least, int64_t wanted, int dim, int64_t got) {
  return Error("Expected tensor to have size ", at_least, wanted, " at dimension ", dim,
               ", but got size ", got, " for argument #2 'targets'", kWhere);
}

// Arranges targets and lengths for the kernel, and checks those that are on the CPU.
kernels::Ctc arranged(const Tensor& targets, const Tensor& input_lengths,
                      const Tensor& target_lengths, int64_t steps, int64_t rows, Device device) {
  require(targets.dim() == 1 || targets.dim() == 2, "Expected 1 to 2 dimensions, but got ",
          targets.dim(), "-dimensional tensor for argument #2 'targets'", kWhere);
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
                const Tensor& target_lengths, const CtcLossOptions& options) {
  const int64_t blank = options.blank;
  const Reduction reduction = options.reduction;
  const bool zero_infinity = options.zero_infinity;
  if (log_probs.dim() == 2) {
    const Tensor loss =
        ctc_loss(log_probs.unsqueeze(1), targets, input_lengths, target_lengths, options);
    return reduction == Reduction::kNone ? loss.squeeze(0) : loss;
  }
  require(log_probs.dim() == 3, "Expected 3-dimensional tensor, but got ", log_probs.dim(),
          "-dimensional tensor for argument #1 'log_probs'", kWhere);
  require(log_probs.numel() != 0, "log_probs tensor must not be empty");
  require<NotImplementedError>(log_probs.dtype() == kFloat32 || log_probs.dtype() == kFloat64,
                               "\"ctc_loss\" not implemented for '",
                               scalar_type_name(log_probs.dtype()), "'");
  require(blank >= 0 && blank < log_probs.size(2), "blank must be in label range");
  refuse_batchmean(reduction);
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
                  [x = SavedTensor(log_probs), y = SavedTensor::output(loss), c = std::move(c),
                   zero_infinity](Gradients& g) {
                    refuse_second_derivative("ctc_loss", g.dy());
                    kernels::Ctc all = c;
                    all.log_probs = kernels::dense(x.get(g));
                    all.loss = kernels::dense(y.get(g));
                    g.dx(0) = kernels::ctc_backward(g.dy(), all, zero_infinity);
                  });
  }
  if (zero_infinity) loss = zero_outside(loss, logical_not(isinf(loss)));
  if (reduction == Reduction::kMean) loss = loss / clamp(lengths, 1).to(loss.dtype());
  return reduced(loss, reduction);
}

}  // namespace taper::v0
