// Connectionist temporal classification (Graves et al. 2006,
// https://www.cs.toronto.edu/~graves/icml_2006.pdf, equations 6 to 16), computed with logarithms.
// Each time step is one kernel launch, and every sum has a fixed order.
#pragma once

#include "framework/kernels/common/dispatch.h"
#include "framework/tensor/tensor.h"

namespace taper::v0::kernels {

// All tensors are int64 and on one device, except log_probs (float32 or float64, dense). Lengths
// and labels out of range are reported like indices out of range.
struct Ctc {
  Tensor log_probs;                                       // [T, N, C]
  Tensor targets, starts, input_lengths, target_lengths;  // row n's labels begin at starts[n]
  int64_t blank = 0, most = 0;                            // no target is longer than `most`
  // These are written by ctc(). labels [N, L], L = 2 * most + 1: each target with blanks around
  // every label, and -1 beyond its end. alpha [T, N, L]: the log probability of all paths to each
  // state. loss: [N].
  Tensor labels, alpha, loss;

  int64_t T() const { return log_probs.size(0); }
  int64_t N() const { return log_probs.size(1); }
  int64_t C() const { return log_probs.size(2); }
  int64_t L() const { return 2 * most + 1; }
};
void ctc(Ctc& c);
// Returns the gradient as PyTorch defines it: exp(log_probs) minus the part of the labels. This is
// the gradient of the logits from which a log-softmax computed log_probs. The backward pass of the
// log-softmax does not change it, because its sum over the classes is 0. With zero_infinity it is 0
// where the loss is infinite.
Tensor ctc_backward(const Tensor& dloss, const Ctc& c, bool zero_infinity);

template <class Backend> struct CtcKernels {
  static void forward(const Ctc& c);
  // The gradient is written to `sums`, which has log_probs' shape and must be filled with -inf.
  // `beta` is scratch memory with alpha's shape.
  static void backward(const Tensor& sums, const Tensor& beta, const Tensor& dloss, const Ctc& c,
                       bool zero_infinity);
};

}  // namespace taper::v0::kernels
