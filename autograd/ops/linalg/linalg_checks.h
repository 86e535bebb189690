// Checks, errors and helpers that the functions of taper::linalg share.
#pragma once

#include <string>

#include "autograd/autocast.h"
#include "autograd/node.h"
#include "autograd/ops/linalg/linalg_ops.h"
#include "framework/kernels/linalg/factorizations.h"

namespace taper::v0::linalg {

// Throw Error unless a is a float32 or float64 tensor of at least two dimensions, and unless the
// last two are equal. `op` is the name in messages: "linalg.solve".
void check_matrix(const char* op, const Tensor& a);
void check_square(const char* op, const Tensor& a);
// Throws Error unless both have one dtype and one device.
void check_pair(const char* op, const Tensor& a, const Tensor& b);

// Returns the sizes before the last two.
Shape batch_of(const Tensor& a);
// Returns a [..., m, n] as [batch, m, n], and the opposite for the given batch dimensions. Both are
// differentiable.
Tensor as_batch(const Tensor& a);
Tensor from_batch(const Tensor& x, const Shape& batch);
// Returns a with its batch dimensions expanded to `batch`.
Tensor expand_batch(const Tensor& a, const Shape& batch);

// Swaps the last two dimensions.
Tensor transposed(const Tensor& a);

// Reads info [batch] on the host, which waits for the GPU. Throws LinAlgError with `text(n)` as the
// reason if an element n is not zero. `is_batch` selects whether the message names the matrix.
void check_info(const char* op, const Tensor& info, bool is_batch,
                std::string (*text)(int64_t info));

// Converts half types to float32 and calls op without autocast. Like in_float32(), but for
// functions with several results.
template <class F, class... Options>
auto factors_in_float32(F op, const Tensor& a, const Options&... options) {
  const Tensor x = cast_for(Cast::kToFloat32, a);
  const AutocastGuard off{AutocastState()};
  return op(x, options...);
}

// The factors of matrices, kept for the backward pass.
struct SavedLu {
  explicit SavedLu(const kernels::LuFactors& f) : lu(f.lu), pivots(f.pivots) {}
  kernels::LuFactors get(const Gradients& g) const { return {lu.get(g), pivots.get(g)}; }

  SavedTensor lu, pivots;
};

// Return svd() and eigh() of a [batch, m, n] without recording them. Errors name `op`.
Svd unrecorded_svd(const char* op, const Tensor& a, bool full, bool is_batch);
Eigh unrecorded_eigh(const char* op, const Tensor& a, bool upper, bool is_batch);

}  // namespace taper::v0::linalg
