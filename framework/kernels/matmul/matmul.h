// Matrix products, single and batched.
#pragma once

#include "framework/kernels/elementwise/activation.h"
#include "framework/tensor/tensor.h"

namespace taper::v0::kernels {

// Number of multiply-adds that this thread has requested in matrix products, convolutions and
// attention since it started. Used for summaries. Each kernel's entry point adds its own.
inline thread_local int64_t multiply_adds = 0;

// C[b] = alpha * op(A[b]) op(B[b]) + beta * C[b], row-major. After op, A is m x k, B is k x n and C
// is m x n. Leading dimensions are the row strides as stored. float16 and bfloat16 accumulate in
// float.
struct Gemm {
  int64_t m = 0, n = 0, k = 0;
  int64_t batch = 1;
  bool transpose_a = false, transpose_b = false;
  int64_t lda = 0, ldb = 0, ldc = 0;                 // elements between stored rows
  int64_t stride_a = 0, stride_b = 0, stride_c = 0;  // elements between matrices; 0 repeats one
  float alpha = 1, beta = 0;
  DType dtype = kFloat32;
  int device = 0;  // index of the GPU
};

// Returns a [m, k] times b [k, n], or the batched product of [b, m, k] and [b, k, n]; a 2-d operand
// is used for every matrix. Transposed views are read without a copy. Throws Error, with PyTorch's
// message, for wrong ranks and sizes and for operands with different dtypes or devices.
Tensor matmul(const Tensor& a, const Tensor& b);

struct LinearResult {
  Tensor y, before;
};
// Returns y = activation(x [m, k] times the transpose of weight [n, k] plus bias [n], if defined).
// `before` holds the arguments of the activation if wants_before, and is undefined otherwise.
LinearResult linear(const Tensor& x, const Tensor& weight, const Tensor& bias,
                    Activation activation = Activation::kNone, bool wants_before = false);

struct BiasGradients {
  Tensor dz, dbias;
};
// For z = rows + bias and y = activation(z): returns dz from dy [m, n] and `kept`, which is z (y
// for relu; not read without an activation). If wants_dbias, also returns dbias [n], the column
// sums of dz. One pass on the GPU.
BiasGradients bias_backward(Activation activation, const Tensor& dy, const Tensor& kept,
                            bool wants_dbias);

// What gemm does with the product C, a single dense matrix, before storing it.
struct Epilogue {
  const void* bias = nullptr;  // n elements of C's dtype, added to every row
  Activation activation = Activation::kNone;
  void* before = nullptr;  // destination of the activation's arguments, dense like C
};

namespace cpu {
void gemm(const Gemm& g, const void* a, const void* b, void* c, const Epilogue& then = {});
// Computes one float product (no batch; k > 0) on one thread, and adds `bias` [n] to every row if
// it is not null. Each element is a chain of fused multiply-adds in the order of k, in blocks whose
// size depends only on k. Therefore a product that is computed in parts has the same bits as one
// computed as a whole, and AVX2 and AVX-512 give the same bits.
void sgemm(const Gemm& g, const float* a, const float* b, float* c, const float* bias = nullptr);
}  // namespace cpu
namespace cuda {
void gemm(const Gemm& g, const void* a, const void* b, void* c, const Epilogue& then = {});
// The same by our own kernels, for small float32 products where they are faster than cuBLASLt. A
// fixed rule of sizes and layout decides. Returns false without writing anything elsewhere.
bool small_gemm(const Gemm& g, const void* a, const void* b, void* c, const Epilogue& then);
// Operands are dense, m and n are not 0, and there is an activation.
void bias_backward(Activation activation, const Tensor& dz, const Tensor& dbias, const Tensor& dy,
                   const Tensor& kept);
}  // namespace cuda

}  // namespace taper::v0::kernels
