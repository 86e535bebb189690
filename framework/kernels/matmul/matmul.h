// Matrix products, single and batched.
#pragma once

#include "framework/kernels/elementwise/activation.h"
#include "framework/tensor/tensor.h"

namespace taper::v0::kernels {

// How many multiplications with an addition this thread has asked for in matrix products,
// convolutions and attention since it began: for summaries. Each kernel's front adds its own.
inline thread_local int64_t multiply_adds = 0;

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

struct LinearResult {
  Tensor y, before;
};
// y = activation(x [m, k] times weight [n, k] transposed, plus bias [n] where defined). `before`
// holds the activation's arguments if they are wanted, and is undefined otherwise.
LinearResult linear(const Tensor& x, const Tensor& weight, const Tensor& bias,
                    Activation activation = Activation::none, bool wants_before = false);

struct BiasGradients {
  Tensor dz, dbias;
};
// For z = rows + bias, y = activation(z): dz from dy [m, n] and z (or y for relu; not read without
// activation), and if wanted dbias [n], the column sums of dz. One pass on the GPU.
BiasGradients bias_backward(Activation activation, const Tensor& dy, const Tensor& kept,
                            bool wants_dbias);

// What gemm does with a product C, one dense matrix, before it stores it.
struct Epilogue {
  const void* bias = nullptr;  // n elements of C's dtype, added to every row
  Activation activation = Activation::none;
  void* before = nullptr;  // where the activation's arguments go, dense as C
};

namespace cpu {
void gemm(const Gemm& g, const void* a, const void* b, void* c, const Epilogue& then = {});
// One product of float matrices (no batch; k is not 0) on one thread, plus `bias` [n] on every row
// where not null. An element is a chain of fused multiply-adds in the order of k, in blocks whose
// size depends on k alone: a part of C has the bits that it has within the whole, and AVX2 and
// AVX-512 give the same.
void sgemm(const Gemm& g, const float* a, const float* b, float* c, const float* bias = nullptr);
}  // namespace cpu
namespace cuda {
void gemm(const Gemm& g, const void* a, const void* b, void* c, const Epilogue& then = {});
// The same by own kernels, for small float32 products where these are faster than cuBLASLt: a fixed
// rule of sizes and layout. Does nothing and returns false elsewhere.
bool small_gemm(const Gemm& g, const void* a, const void* b, void* c, const Epilogue& then);
// Dense operands; neither m nor n is 0, and there is an activation.
void bias_backward(Activation activation, const Tensor& dz, const Tensor& dbias, const Tensor& dy,
                   const Tensor& kept);
}  // namespace cuda

}  // namespace taper::v0::kernels
