#include "framework/precision.h"

#include <atomic>

#include "framework/error.h"

namespace taper {
namespace {

std::atomic<bool> tf32{false};

}  // namespace

void set_float32_matmul_precision(const std::string& precision) {
  if (precision != "highest" && precision != "high") {
    throw ValueError(
        cat("set_float32_matmul_precision: expected highest or high, got '", precision, "'"));
  }
  tf32 = precision == "high";
}
std::string get_float32_matmul_precision() { return tf32 ? "high" : "highest"; }
bool allows_tf32() { return tf32.load(std::memory_order_relaxed); }

}  // namespace taper
