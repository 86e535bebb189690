// The precision of float32 products on a GPU
// (https://pytorch.org/docs/stable/generated/torch.set_float32_matmul_precision.html).
#pragma once

#include <atomic>
#include <string>

#include "framework/base/error.h"

namespace taper::v0 {

namespace detail {
inline std::atomic<bool> tf32{false};
}

// Sets the precision for the whole process. "highest" (the default): matrix products and
// convolutions of float32 multiply in float32. "high": their operands are rounded to the 10
// mantissa bits of TF32, which is several times faster. Unlike PyTorch's, this switch also applies
// to cuDNN's convolutions. The CPU always multiplies in float32. Throws ValueError for any other
// text.
inline void set_float32_matmul_precision(const std::string& precision) {
  require<ValueError>(precision == "highest" || precision == "high",
                      "set_float32_matmul_precision: expected highest or high, got '", precision,
                      "'");
  detail::tf32 = precision == "high";
}
inline std::string get_float32_matmul_precision() { return detail::tf32 ? "high" : "highest"; }
// Returns whether the precision is "high".
inline bool allows_tf32() { return detail::tf32.load(std::memory_order_relaxed); }

}  // namespace taper::v0
