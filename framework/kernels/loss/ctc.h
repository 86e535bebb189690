// Connectionist temporal classification (Graves et al. 2006, https://www.cs.toronto.edu/~graves/
// icml_2006.pdf, equations 6 to 16), in logarithms: a launch a time step, no order left open.
#pragma once

#include "framework/kernels/common/dispatch.h"
#include "framework/tensor/tensor.h"

namespace taper::v0::kernels {

// All int64 and of one device but log_probs (float32 or float64, dense). Lengths beyond their range
// and labels out of it are reported as bad indices are.
struct Ctc {
  Tensor log_probs;                                       // [T, N, C]
  Tensor targets, starts, input_lengths, target_lengths;  // row n's labels begin at starts[n]
  int64_t blank = 0, most = 0;                            // no target is longer than `most`
  // Made by ctc: each target with blanks between, before and behind, -1 beyond its end [N, L], L =
  // 2 most + 1; the logarithm of the chance of all paths to there [T, N, L]; [N].
  Tensor labels, alpha, loss;

  int64_t T() const { return log_probs.size(0); }
  int64_t N() const { return log_probs.size(1); }
  int64_t C() const { return log_probs.size(2); }
  int64_t L() const { return 2 * most + 1; }
};
void ctc(Ctc& c);
// As PyTorch's, with the gradient of a log-softmax before it in it, which changes nothing there:
// exp(log_probs) less the labels' part. 0 where the loss is infinite, where that is asked.
Tensor ctc_backward(const Tensor& dloss, const Ctc& c, bool zero_infinity);

template <class Backend> struct CtcKernels {
  static void forward(const Ctc& c);
  // sums: filled with -inf, of log_probs' shape, in which the gradient is left; beta: as alpha.
  static void backward(const Tensor& sums, const Tensor& beta, const Tensor& dloss, const Ctc& c,
                       bool zero_infinity);
};

}  // namespace taper::v0::kernels
