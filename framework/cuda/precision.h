// How exactly float32 products are computed on a GPU
// (https://pytorch.org/docs/stable/generated/torch.set_float32_matmul_precision.html).
#pragma once

#include <string>

#include "framework/base/error.h"
#include "framework/memory/atomic.h"

namespace taper::v0 {

namespace detail {
inline Atomic<bool> tf32{false};
}

// "highest" (the default): float32 products and convolutions multiply in float32. "high": their
// operands are rounded to TF32's 10 bits of mantissa, several times faster. For the whole process;
// unlike PyTorch's, this one switch decides for cuDNN's convolutions too. The CPU always multiplies
// in float32. Throws ValueError for anything else.
inline void set_float32_matmul_precision(const std::string& precision) {
  require<ValueError>(precision == "highest" || precision == "high",
                      "set_float32_matmul_precision: expected highest or high, got '", precision,
                      "'");
  detail::tf32 = precision == "high";
}
inline std::string get_float32_matmul_precision() { return detail::tf32 ? "high" : "highest"; }
// Whether it is "high".
inline bool allows_tf32() { return detail::tf32.load(__ATOMIC_RELAXED); }

}  // namespace taper::v0
