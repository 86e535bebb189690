// Matrix products (https://pytorch.org/docs/stable/generated/torch.matmul.html). Operands have the
// same dtype and device; otherwise the functions throw Error. All are differentiable as often as
// needed and do not synchronize.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "framework/base/scalar.h"
#include "framework/kernels/elementwise/activation.h"
#include "framework/tensor/tensor.h"

namespace taper::v0 {

// Multiplies vectors, matrices and batches of matrices. The batch dimensions broadcast.
Tensor matmul(const Tensor& a, const Tensor& b);
// Returns the product [n, m] of a [n, k] and b [k, m].
Tensor mm(const Tensor& a, const Tensor& b);
// Returns the products [b, n, m] of a [b, n, k] and b [b, k, m].
Tensor bmm(const Tensor& a, const Tensor& b);
// Returns beta * bias + alpha * a b for a [n, k] and b [k, m]. bias broadcasts to [n, m]. It is not
// read if beta is 0.
Tensor addmm(const Tensor& bias, const Tensor& a, const Tensor& b, Scalar beta = 1,
             Scalar alpha = 1);
// Like addmm, for batches: a [b, n, k], b [b, k, m], and bias broadcast to [b, n, m].
Tensor baddbmm(const Tensor& bias, const Tensor& a, const Tensor& b, Scalar beta = 1,
               Scalar alpha = 1);
// Sums products over named dimensions
// (https://pytorch.org/docs/stable/generated/torch.einsum.html). More than two operands are
// contracted in the order with the fewest multiplications, which depends only on the equation and
// the sizes: the best one for up to six operands, a good one for more. Throws Error for a malformed
// equation.
//
//   einsum("bij,bjk->bik", {a, b});  // batched matrix product
//   einsum("ii->i", {a});            // diagonal
//   einsum("...d,d", {x, w});        // dot products along the last dimension
//   einsum("ab,bc,c->a", {m, n, v}); // m (n v)
Tensor einsum(const std::string& equation, const std::vector<Tensor>& operands);
// Sums products over the last `dims` dimensions of a and the first `dims` of b, or over the given
// pairs of dimensions.
//
//   tensordot(a, b, {1}, {0});  // the matrix product a b
Tensor tensordot(const Tensor& a, const Tensor& b, IntArg dims = 2);
Tensor tensordot(const Tensor& a, const Tensor& b, const Shape& dims_a, const Shape& dims_b);
// Returns the products of a [n] and b [m] as [n, m].
Tensor outer(const Tensor& a, const Tensor& b);
// Returns the sum of the products of a [n] and b [n], without dimensions. Integers give their
// dtype.
Tensor dot(const Tensor& a, const Tensor& b);
// Returns the vector products of the 3-vectors along dim. The other sizes broadcast. The default is
// the first dimension of size 3, which a batch of 3 vectors may have too.
//
//   cross(tensor({1, 0, 0}), tensor({0, 1, 0}));  // [0, 0, 1]
Tensor cross(const Tensor& a, const Tensor& b, std::optional<IntArg> dim = std::nullopt);
// Returns activation(x weight^T + bias) for x [..., in], weight [out, in] and bias [out] or
// undefined. Computed by one kernel if the device has a fused one.
//
//   linear(x, weight, bias, Activation::kRelu);
Tensor linear(const Tensor& x, const Tensor& weight, const Tensor& bias = {},
              Activation activation = Activation::kNone);

// Returns linear(linear(x, weight1, bias1, activation), weight2, bias2). The backward pass computes
// results of a GELU of more than max_kept_bytes again, with the same bits. Others are kept.
Tensor feed_forward(const Tensor& x, const Tensor& weight1, const Tensor& bias1,
                    const Tensor& weight2, const Tensor& bias2, Activation activation,
                    IntArg max_kept_bytes = int64_t(256) << 20);

}  // namespace taper::v0
