// Normalisation: y = xhat * weight + bias with xhat = (x - mean) * rstd, rstd = 1 / sqrt(variance +
// eps).
#pragma once

#include <functional>

#include "framework/base/host_device.h"
#include "framework/kernels/common/dispatch.h"

namespace taper::v0::kernels {

// A dense tensor seen as [outer, channels, inner], with one weight and bias a channel. Layer norm:
// one group, and channels are places in a row (inner is 1). Group norm: several groups, each of
// them a row. Batch norm: no groups; a channel's statistics go over all of outer and inner.
struct NormSizes {
  int64_t outer = 1, channels = 1, inner = 1, groups = 1;

  TAPER_HD int64_t per_group() const { return groups > 0 ? channels / groups : 1; }
  TAPER_HD int64_t rows() const { return outer * groups; }
  TAPER_HD int64_t row_size() const { return per_group() * inner; }
};

struct Norm {
  NormSizes sizes;
  double eps = 1e-5;
  bool rms = false;    // the mean is 0
  bool given = false;  // batch norm: by running statistics
  // float32, float64 for double. One for each row, or for each channel without groups; mean is
  // undefined for rms. The forward pass makes them, the backward pass needs them.
  Tensor mean = {}, rstd = {};
  Tensor weight = {}, bias = {};  // `channels` elements; undefined for 1 and 0
};

struct NormGradients {
  Tensor dx;
  Tensor sums;  // [2, channels], of dy * xhat (dweight) and of dy (dbias), in the dtype of rstd
};

// Returns y, of type `result` (x's, or of rows a half type where x is float32). Batch norm keeps
// channels-last, and moves the running statistics, where defined and
// not `given`, by momentum; other results are row-major.
Tensor norm(Norm& norm, const Tensor& x, DType result, const Tensor& running_mean = {},
            const Tensor& running_var = {}, double momentum = 0);
// Batch norm's mean and rstd alone.
void batch_statistics(Norm& norm, const Tensor& x);
// What is not needed may stay undefined. Batch norm's dx is made with joined(sums) where that is
// given: of a batch that lies on several ranks.
NormGradients norm_backward(Norm norm, const Tensor& dy, const Tensor& x, bool needs_dx,
                            bool needs_sums,
                            const std::function<Tensor(const Tensor& sums)>& joined = {});

// Batch norm's mean and rstd [channels], from sums [2, channels] around each channel's pivot.
template <class Backend> struct BatchNormKernels {
  static void statistics(const Norm& norm, const Tensor& x, const Tensor& sums,
                         const Tensor& running_mean, const Tensor& running_var, double momentum);
};

// Operands are dense, in one layout, not empty; weight and bias have the dtype of rstd.
// norm: y from x, or dx where dy is defined; sums, for batch norm's dx, unless they are `given`.
// norm_backward: dx and channel sums in one pass over rows, or false where that does not fit. There
// and in norm, on the GPU, y and dy may be of a half type where x is float32.
// channel_sums: [2, channels], sums of dy * xhat and of dy; without dy those of (x - pivot)^2 and
// of x - pivot.
namespace cpu {
void norm(const Norm& norm, const Tensor& out, const Tensor& dy, const Tensor& x,
          const Tensor& sums);
Tensor channel_sums(const Norm& norm, const Tensor& dy, const Tensor& x);
}  // namespace cpu
namespace cuda {
void norm(const Norm& norm, const Tensor& out, const Tensor& dy, const Tensor& x,
          const Tensor& sums);
bool norm_backward(const Norm& norm, const Tensor& dx, const Tensor& sums, const Tensor& dy,
                   const Tensor& x);
Tensor channel_sums(const Norm& norm, const Tensor& dy, const Tensor& x);
}  // namespace cuda

}  // namespace taper::v0::kernels
