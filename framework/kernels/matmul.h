// Matrix products, single and batched.
#pragma once

#include "framework/tensor.h"

namespace taper::kernels {

// C[b] = alpha * op(A[b]) op(B[b]) + beta * C[b], row-major. A is m x k, B is k x n, C is m x n
// after op; the leading dimensions are row strides as stored. float16 and bfloat16 accumulate in
// float.
struct Gemm {
  int64_t m = 0, n = 0, k = 0;
  int64_t batch = 1;
  bool transpose_a = false, transpose_b = false;
  int64_t lda = 0, ldb = 0, ldc = 0;                 // elements between stored rows
  int64_t stride_a = 0, stride_b = 0, stride_c = 0;  // elements between matrices; 0 repeats one
  float alpha = 1, beta = 0;
  DType dtype = kFloat32;
  int device = 0;  // of the GPU
};

// a [m, k] times b [k, n]; also [b, m, k] times [b, k, n] (a 2-d operand is used for every matrix).
// Transposed views are read where they lie. Refuses, in PyTorch's words, wrong ranks, sizes, two
// dtypes and two devices.
Tensor matmul(const Tensor& a, const Tensor& b);
// x [m, k] times weight [n, k] transposed, plus bias [n] where defined.
Tensor linear(const Tensor& x, const Tensor& weight, const Tensor& bias);

namespace cpu {
void gemm(const Gemm& g, const void* a, const void* b, void* c);
}
namespace cuda {
// `bias` (n elements of g.dtype, or null) is added to every row.
void gemm(const Gemm& g, const void* a, const void* b, void* c, const void* bias = nullptr);
}  // namespace cuda

}  // namespace taper::kernels
