// Cheaper formulas of functions of one tensor, for results of half types on a GPU. Their relative
// error is at most 1e-4, less than half of what rounding to float16 adds.
#pragma once

#include "framework/kernels/common/arithmetic.h"

namespace taper::v0::kernels {

struct SigmoidForHalf : Floats {
  TAPER_HD float operator()(float x) const { return fast_sigmoid(x); }
};
struct GeluForHalf : Floats {
  TAPER_HD float operator()(float x) const { return x * fast_normal_cdf(x); }
};
struct GeluTanhForHalf : Floats {
  TAPER_HD float operator()(float x) const {
    return x * gelu_weight(x, 2.3022081985f + 0.10294324f * x * x);
  }
};
struct SiluForHalf : Floats {
  TAPER_HD float operator()(float x) const { return x * fast_sigmoid(x); }
};
struct SoftplusForHalf : Floats {
  double beta, threshold;
  TAPER_HD float operator()(float x) const {
    const float z = x * float(beta);
    const float bent = fast_log1p(fast_exp2(1.44269504f * z)) * (1 / float(beta));
    return z > float(threshold) ? x : bent;
  }
};
// Near 0 it is a polynomial, because there the difference of the exponentials has lost bits of x.
struct SinhForHalf : Floats {
  TAPER_HD float operator()(float x) const {
    const float z = x * x, z20 = z * (1 / 20.0f);
    const float near = x * (1 + z * (1 / 6.0f) * (1 + z20 * (1 + z * (1 / 42.0f))));
    const float e = fast_exp2(1.44269504f * x), far = 0.5f * (e - fast_exp2(-1.44269504f * x));
    return z < 1 ? near : far;
  }
};
struct LogGammaForHalf : Floats {
  TAPER_HD float operator()(float x) const {
    return math::gamma::log_gamma<math::gamma::ForHalf>(x);
  }
};

}  // namespace taper::v0::kernels
