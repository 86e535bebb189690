// Matrix products (https://pytorch.org/docs/stable/generated/torch.matmul.html).
#pragma once

#include "framework/tensor.h"

namespace taper {

// 1-d and 2-d operands and batches of matrices; the batch dimensions broadcast.
Tensor matmul(const Tensor& a, const Tensor& b);
// [n, k] x [k, m].
Tensor mm(const Tensor& a, const Tensor& b);
// [b, n, k] x [b, k, m].
Tensor bmm(const Tensor& a, const Tensor& b);
// bias + a b, with bias broadcast to [n, m].
Tensor addmm(const Tensor& bias, const Tensor& a, const Tensor& b);
// x [..., in] times weight [out, in] transposed, plus bias [out] where defined.
Tensor linear(const Tensor& x, const Tensor& weight, const Tensor& bias = {});

}  // namespace taper
