// Matrix products (https://pytorch.org/docs/stable/generated/torch.matmul.html).
#pragma once

#include <string>
#include <vector>

#include "framework/kernels/elementwise/activation.h"
#include "framework/scalar.h"
#include "framework/tensor.h"

namespace taper::v0 {

// 1-d and 2-d operands and batches of matrices; the batch dimensions broadcast.
Tensor matmul(const Tensor& a, const Tensor& b);
// [n, k] x [k, m].
Tensor mm(const Tensor& a, const Tensor& b);
// [b, n, k] x [b, k, m].
Tensor bmm(const Tensor& a, const Tensor& b);
// beta bias + alpha a b, with bias broadcast to [n, m]; not read where beta is 0.
Tensor addmm(const Tensor& bias, const Tensor& a, const Tensor& b, Scalar beta = 1,
             Scalar alpha = 1);
// The same of [b, n, k] and [b, k, m], with bias broadcast to [b, n, m].
Tensor baddbmm(const Tensor& bias, const Tensor& a, const Tensor& b, Scalar beta = 1,
               Scalar alpha = 1);
// Sums of products by the names of dimensions: "bij,bjk->bik", "ii->i", "...d,d"
// (https://pytorch.org/docs/stable/generated/torch.einsum.html). Operands are contracted from left
// to right.
Tensor einsum(const std::string& equation, const std::vector<Tensor>& operands);
// Summed over the last `dims` dimensions of a and the first of b, or over pairs of dimensions.
Tensor tensordot(const Tensor& a, const Tensor& b, IntArg dims = 2);
Tensor tensordot(const Tensor& a, const Tensor& b, const Shape& dims_a, const Shape& dims_b);
// a [n], b [m]: their products [n, m].
Tensor outer(const Tensor& a, const Tensor& b);
// x [..., in] times weight [out, in] transposed, plus bias [out] where defined; `activation` of
// that, in one kernel where the device has one.
Tensor linear(const Tensor& x, const Tensor& weight, const Tensor& bias = {},
              Activation activation = Activation::none);

}  // namespace taper::v0
