// Normalization: y = xhat * weight + bias, where xhat = (x - mean) * rstd and rstd = 1 /
// sqrt(variance + eps).
#pragma once

#include <functional>

#include "framework/base/host_device.h"
#include "framework/kernels/common/dispatch.h"

namespace taper::v0::kernels {

// A dense tensor viewed as [outer, channels, inner], with one weight and bias per channel. Layer
// norm has one group, and its channels are the positions in a row (inner is 1). Group norm has
// several groups, each of which is a row. Batch norm has no groups; the statistics of a channel are
// taken over outer and inner.
struct NormSizes {
  int64_t outer = 1, channels = 1, inner = 1, groups = 1;

  TAPER_HD int64_t per_group() const { return groups > 0 ? channels / groups : 1; }
  TAPER_HD int64_t rows() const { return outer * groups; }
  TAPER_HD int64_t row_size() const { return per_group() * inner; }
};

struct Norm {
  NormSizes sizes;
  double eps = 1e-5;
  bool rms = false;    // RMS norm: the mean is not subtracted
  bool given = false;  // batch norm: use the running statistics
  // The statistics in float32 (float64 for float64): one for each row, or for each channel if there
  // are no groups. mean is undefined for rms. The forward pass writes them and the backward pass
  // reads them.
  Tensor mean = {}, rstd = {};
  Tensor weight = {}, bias = {};  // `channels` elements; undefined: 1 and 0
  // Batch norm on a GPU only: y = relu(xhat * weight + bias + residual), where the residual, if it
  // is defined, has x's shape and dtype. The backward pass then takes dy for the gradient of y. It
  // needs y if there was a residual, and the bias otherwise.
  bool relu = false;
  Tensor residual = {}, result = {};
  Tensor dz = {};  // written by the backward pass if `result` is defined
};

// Sums over each channel, [channels] in the dtype of rstd: of dy * xhat, which is the gradient of
// the weight, and of dy, which is that of the bias. On a GPU, they do not share memory, so that
// they can be kept as gradients without a copy.
struct ChannelSums {
  Tensor dots = {}, sums = {};
};

struct NormGradients {
  Tensor dx;
  ChannelSums of_channels;
  Tensor dz = {};  // the gradient of the residual, if Norm::result is defined
};

// What a batch updates, if it is defined: the running statistics by momentum, and the number of
// batches (int64, no dimensions).
struct RunningStatistics {
  Tensor mean = {}, var = {}, batches = {};
  double momentum = 0;
};

// Returns y with dtype `result`: x's dtype, or a half type for layer, RMS and group norm of a
// float32 x. Batch norm keeps channels-last memory format; all other results are row-major. Batch
// norm also updates `running`, unless x is empty. If `norm.given` is true, it reads mean and var
// instead.
Tensor norm(Norm& norm, const Tensor& x, DType result, const RunningStatistics& running = {});
// Computes batch norm's mean and rstd only.
void batch_statistics(Norm& norm, const Tensor& x);
// Returns the gradients. Those that are not needed may stay undefined. If `added` is defined, it
// has x's shape and dtype and is added to dx. Batch norm's dx depends on the channels' sums. If the
// batch is spread over several ranks, `joined` converts this rank's sums to the sums over all
// ranks.
NormGradients norm_backward(Norm norm, const Tensor& dy, const Tensor& x, const Tensor& added,
                            bool needs_dx, bool needs_sums,
                            const std::function<ChannelSums(const ChannelSums& own)>& joined = {});
// Returns whether norm_backward() adds to dx at the cost of one more operand: on a GPU, to rows of
// one group.
bool can_add(const Norm& norm, const Tensor& x);

// Functions of batch norm with one formula for both backends. They compute mean and rstd [channels]
// from channel_sums() without dy, and update `running`.
template <class Backend> struct BatchNormKernels {
  static void statistics(const Norm& norm, const Tensor& x, const ChannelSums& own,
                         const RunningStatistics& running);
};

// Operands are dense, have the same layout and are not empty. weight and bias have the dtype of
// rstd.
//
// norm: computes y from x, or dx if dy is defined. Batch norm's dx needs the sums of the channels,
// unless the statistics are `given`.
//
// norm_backward: computes dx + added and the channel sums in one pass over rows, or returns false
// if that does not fit. Here and in norm, on the GPU, y and dy may have a half type if x is
// float32.
//
// channel_sums: if dy is undefined, `dots` are the sums of d^2 and `sums` those of d, where d = x -
// pivot.
namespace cpu {
void norm(const Norm& norm, const Tensor& out, const Tensor& dy, const Tensor& x,
          const ChannelSums& of_channels);
ChannelSums channel_sums(const Norm& norm, const Tensor& dy, const Tensor& x);
}  // namespace cpu
namespace cuda {
void norm(const Norm& norm, const Tensor& out, const Tensor& dy, const Tensor& x,
          const ChannelSums& of_channels);
bool norm_backward(const Norm& norm, const NormGradients& out, const Tensor& dy, const Tensor& x,
                   const Tensor& added);
ChannelSums channel_sums(const Norm& norm, const Tensor& dy, const Tensor& x);
// Computes batch norm's mean and rstd from x and updates `running`.
void batch_statistics(const Norm& norm, const Tensor& x, const RunningStatistics& running);
}  // namespace cuda

}  // namespace taper::v0::kernels
