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

struct NormGradients {
  Tensor dx;
  Tensor sums;     // [2, channels], dtype of rstd: sums of dy * xhat (dweight) and of dy (dbias)
  Tensor dz = {};  // the gradient of the residual, if Norm::result is defined
};

// Returns y with dtype `result`: x's dtype, or a half type for layer, RMS and group norm of a
// float32 x. Batch norm keeps channels-last memory format; all other results are row-major. Batch
// norm also updates the running statistics by momentum, if they are defined and `norm.given` is
// false.
Tensor norm(Norm& norm, const Tensor& x, DType result, const Tensor& running_mean = {},
            const Tensor& running_var = {}, double momentum = 0);
// Computes batch norm's mean and rstd only.
void batch_statistics(Norm& norm, const Tensor& x);
// Returns the gradients. Those that are not needed may stay undefined. If `added` is defined, it
// has x's shape and dtype and is added to dx. Batch norm's dx depends on the channels' sums. If the
// batch is spread over several ranks, `joined` converts this rank's sums to the sums over all
// ranks.
NormGradients norm_backward(Norm norm, const Tensor& dy, const Tensor& x, const Tensor& added,
                            bool needs_dx, bool needs_sums,
                            const std::function<Tensor(const Tensor& sums)>& joined = {});
// Returns whether norm_backward() adds to dx at the cost of one more operand: on a GPU, to rows of
// one group.
bool can_add(const Norm& norm, const Tensor& x);

// Functions of batch norm with one formula for both backends. They compute mean and rstd [channels]
// from sums [2, channels] around the channels' pivots.
template <class Backend> struct BatchNormKernels {
  static void statistics(const Norm& norm, const Tensor& x, const Tensor& sums,
                         const Tensor& running_mean, const Tensor& running_var, double momentum);
};

// Operands are dense, have the same layout and are not empty. weight and bias have the dtype of
// rstd.
//
// norm: computes y from x, or dx if dy is defined. Batch norm's dx needs `sums`, unless the
// statistics are `given`.
//
// norm_backward: computes dx + added and the channel sums in one pass over rows, or returns false
// if that does not fit. Here and in norm, on the GPU, y and dy may have a half type if x is
// float32.
//
// channel_sums: returns [2, channels], the sums of dy * xhat and of dy. If dy is undefined, returns
// the sums of d^2 and of d, where d = x - pivot.
namespace cpu {
void norm(const Norm& norm, const Tensor& out, const Tensor& dy, const Tensor& x,
          const Tensor& sums);
Tensor channel_sums(const Norm& norm, const Tensor& dy, const Tensor& x);
}  // namespace cpu
namespace cuda {
void norm(const Norm& norm, const Tensor& out, const Tensor& dy, const Tensor& x,
          const Tensor& sums);
bool norm_backward(const Norm& norm, const NormGradients& out, const Tensor& dy, const Tensor& x,
                   const Tensor& added);
Tensor channel_sums(const Norm& norm, const Tensor& dy, const Tensor& x);
// Computes batch norm's mean and rstd from x and updates the running statistics, if they are
// defined.
void batch_statistics(const Norm& norm, const Tensor& x, const Tensor& running_mean,
                      const Tensor& running_var, double momentum);
}  // namespace cuda

}  // namespace taper::v0::kernels
