// Matrix products, single and batched.
#pragma once

#include "framework/kernels/elementwise/activation.h"
#include "framework/tensor/tensor.h"

namespace taper::v0::kernels {

// Number of multiply-adds that this thread has requested in matrix products, convolutions and
// attention since it started. Used for summaries. Each kernel's entry point adds its own.
inline thread_local int64_t multiply_adds = 0;

// Computes C[b] = alpha * op(A[b]) op(B[b]) + beta * C[b], row-major. After op, A is m x k, B is k
// x n and C is m x n. Leading dimensions are the row strides as stored. float16 and bfloat16
// accumulate in float.
struct Gemm {
  int64_t m = 0, n = 0, k = 0;
  int64_t batch = 1;
  bool transpose_a = false, transpose_b = false;
  int64_t lda = 0, ldb = 0, ldc = 0;                 // elements between stored rows
  int64_t stride_a = 0, stride_b = 0, stride_c = 0;  // elements between matrices; 0 repeats one
  float alpha = 1, beta = 0;
  DType dtype = kFloat32;
  bool float32_c = false;  // C is float32 although dtype is a half type; on the GPU only
  int device = 0;          // index of the GPU
};

// Returns a [m, k] times b [k, n], or the batched product of [b, m, k] and [b, k, n]; a 2-d operand
// is used for every matrix. Transposed views are read without a copy. Throws Error, with PyTorch's
// message, for wrong ranks and sizes and for operands with different dtypes or devices.
Tensor matmul(const Tensor& a, const Tensor& b);

struct LinearResult {
  Tensor y, before;
};
// Returns y = activation(z), where z is x [m, k] times the transpose of weight [n, k] plus bias
// [n], if defined. If wants_before, `before` holds z; otherwise it is undefined.
LinearResult linear(const Tensor& x, const Tensor& weight, const Tensor& bias,
                    Activation activation = Activation::kNone, bool wants_before = false);

struct BiasGradients {
  Tensor dz, dbias, result = {};
};
// Returns dz from dy [m, n], for z = rows + bias and y = activation(z). `kept` is z, but y for
// relu, and is not read without an activation. If wants_dbias, also returns dbias [n], the column
// sums of dz, in one pass on the GPU. If wants_result, also returns the result of a GELU.
BiasGradients bias_backward(Activation activation, const Tensor& dy, const Tensor& kept,
                            bool wants_dbias, bool wants_result = false);

// The operations that gemm applies to the product C, a single dense matrix, before storing it.
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
// that is computed as a whole. AVX2 and AVX-512 give the same bits.
void sgemm(const Gemm& g, const float* a, const float* b, float* c, const float* bias = nullptr);
}  // namespace cpu
namespace cuda {
void gemm(const Gemm& g, const void* a, const void* b, void* c, const Epilogue& then = {});
// Like gemm, by Taper's own kernels for small float32 products, where these are faster than
// cuBLASLt. A fixed rule of sizes and layout decides whether they are used. Otherwise returns false
// without writing anything.
bool small_gemm(const Gemm& g, const void* a, const void* b, void* c, const Epilogue& then);
// Operands must be dense and not empty, and there must be an activation. out.result is optional.
void bias_backward(Activation activation, const BiasGradients& out, const Tensor& dy,
                   const Tensor& kept);
}  // namespace cuda

}  // namespace taper::v0::kernels
