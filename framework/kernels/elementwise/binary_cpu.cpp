#include "framework/kernels/elementwise/binary.h"

#include <atomic>

#include "framework/kernels/elementwise/binary_functors.h"
#include "framework/kernels/elementwise/elementwise_cpu.h"

namespace taper::v0::kernels::cpu {
namespace {

// Sets the std::atomic<bool> to which `found` points if there is a zero.
void find_zero(const void* found, void*, const void* const* in, int64_t n) {
  const auto* x = static_cast<const int64_t*>(in[0]);
  bool any = false;
  for (int64_t i = 0; i < n; ++i) any |= x[i] == 0;
  auto* flag = static_cast<std::atomic<bool>*>(const_cast<void*>(found));
  if (any) flag->store(true, std::memory_order_relaxed);
}

// Throws Error for a divisor of zero. Called before anything is written, so that a failed call
// leaves its operands unchanged.
void refuse_zero_divisor(const TensorIterator& iter) {
  TensorIterator divisors = iter;
  divisors.inputs = 1;
  divisors.in[0] = iter.in[1];
  divisors.out.data = nullptr;
  std::atomic<bool> found{false};
  run_elementwise(divisors, kInt64, find_zero, &found);
  if (found) throw Error("integer division by zero");
}

}  // namespace

void binary(BinaryOp op, BinaryArgs args, const TensorIterator& iter, DType compute) {
  const bool divides = op == BinaryOp::kFloorDivide || op == BinaryOp::kRemainder ||
                       op == BinaryOp::kFmod || op == BinaryOp::kDivTrunc;
  if (divides && compute == kInt64) refuse_zero_divisor(iter);
  visit(op, args, [&](const auto& f) { run_functor<2>(iter, compute, f); });
}

void ternary(TernaryOp op, double value, const TensorIterator& iter, DType compute) {
  visit(op, value, [&](const auto& f) { run_functor<3>(iter, compute, f); });
}

}  // namespace taper::v0::kernels::cpu
