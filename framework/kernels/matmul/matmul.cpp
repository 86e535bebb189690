#include "framework/kernels/matmul/matmul.h"

#include <algorithm>

#include "framework/kernels/common/dispatch.h"
#include "framework/kernels/elementwise/binary.h"
#include "framework/kernels/elementwise/broadcast.h"
#include "framework/kernels/elementwise/copy.h"
#include "framework/kernels/elementwise/unary.h"
#include "framework/kernels/matmul/matmul_into.h"
#include "framework/kernels/reduce/reduce.h"

namespace taper::v0::kernels {
namespace {

// A matrix in the form that Gemm reads: its rows are `ld` elements apart, and it may be transposed.
struct Operand2d {
  Tensor x;  // keeps the copy alive if one was needed
  bool transposed;
  int64_t ld, batch_stride;
};

// Returns x as an operand. Copies it unless its last two dimensions are dense rows or dense
// columns.
Operand2d as_operand(const Tensor& x) {
  const int rows = x.dim() - 2, cols = x.dim() - 1;
  const Shape& size = x.shape();
  const Shape& step = x.strides();
  const int64_t batch_stride = x.dim() == 3 ? step[0] : 0;
  const auto readable = [&](int outer, int inner) {
    return (step[inner] == 1 || size[inner] == 1) &&
           (step[outer] >= std::max<int64_t>(size[inner], 1) || size[outer] == 1);
  };
  const auto leading = [&](int outer, int inner) {
    return std::max<int64_t>(size[outer] == 1 ? size[inner] : step[outer], 1);
  };
  if (readable(rows, cols)) return {x.detach(), false, leading(rows, cols), batch_stride};
  if (readable(cols, rows)) return {x.detach(), true, leading(cols, rows), batch_stride};
  const int64_t width = std::max<int64_t>(size[cols], 1);
  return {dense(x), false, width, x.dim() == 3 ? size[rows] * width : 0};
}

void check_operands(const char* op, const Tensor& a, const Tensor& b) {
  if (a.dtype() != b.dtype()) {
    throw Error("expected m1 and m2 to have the same dtype, but got: ", cpp_name(a.dtype()),
                " != ", cpp_name(b.dtype()), " (", op, " of ", a.shape(), " and ", b.shape(), ")");
  }
  if (a.is_cuda() && !a.is_floating_point()) {
    throw NotImplementedError("\"", op, "\" not implemented for '", scalar_type_name(a.dtype()),
                              "' on cuda");
  }
  const int64_t k = a.shape().back(), other = b.shape()[b.dim() - 2];
  require(k == other, "mat1 and mat2 shapes cannot be multiplied (", a.shape()[a.dim() - 2], "x", k,
          " and ", other, "x", b.shape().back(), ")");
}

void check_bias(const Tensor& bias, const Tensor& weight) {
  require(bias.shape() == Shape{weight.size(0)} && bias.dtype() == weight.dtype(),
          "addmm: bias must be a ", weight.dtype(), " tensor of shape [", weight.size(0), "], got ",
          bias.dtype(), " ", bias.shape());
}

// Computes out = x y + beta * out, which is not empty, with an epilogue. `op` is the name for
// dispatch.
void multiply(const char* op, const Tensor& x, const Tensor& y, const Tensor& out,
              const Epilogue& then = {}, float beta = 0) {
  const Operand2d a = as_operand(x), b = as_operand(y);
  Gemm g;
  g.m = out.shape()[out.dim() - 2];
  g.n = out.shape().back();
  g.k = x.shape().back();
  g.batch = out.dim() == 3 ? out.shape()[0] : 1;
  g.transpose_a = a.transposed;
  g.transpose_b = b.transposed;
  g.lda = a.ld;
  g.ldb = b.ld;
  g.ldc = g.n;
  g.stride_a = a.batch_stride;
  g.stride_b = b.batch_stride;
  g.stride_c = g.m * g.n;
  g.beta = beta;
  g.dtype = x.dtype();
  g.float32_c = out.dtype() != x.dtype();
  g.device = out.device().index();
  multiply_adds += g.batch * g.m * g.n * g.k;
  dispatch<cpu::gemm, cuda::gemm>({out.device(), op}, g, a.x.data_ptr(), b.x.data_ptr(),
                                  out.data_ptr(), then);
}

BinaryOp backward_of(Activation activation) {
  if (activation == Activation::kRelu) return BinaryOp::kReluBackward;
  return activation == Activation::kGelu ? BinaryOp::kGeluBackward : BinaryOp::kGeluTanhBackward;
}

}  // namespace

Tensor matmul(const Tensor& a, const Tensor& b) {
  same_device("mm", {&a, &b}, {"self", "mat2"});
  require(a.dim() >= 2 && b.dim() >= 2 && a.dim() <= 3 && b.dim() <= 3,
          "matmul kernel expects 2-d or 3-d operands, got ", a.shape(), " and ", b.shape());
  check_operands("mm", a, b);
  Shape shape = {a.shape()[a.dim() - 2], b.shape().back()};
  if (a.dim() == 3 || b.dim() == 3) {
    const int64_t batch = a.dim() == 3 ? a.size(0) : b.size(0);
    if (a.dim() == 3 && b.dim() == 3 && a.size(0) != b.size(0)) {
      throw Error("Expected size for first two dimensions of batch2 tensor to be: [", batch, ", ",
                  a.size(2), "] but got: [", b.size(0), ", ", b.size(1), "].");
    }
    shape.insert(0, batch);
  }
  Tensor out = Tensor::make(shape, a.dtype(), a.device());
  if (out.numel() > 0) multiply("matmul", a, b, out);
  return out;
}

void matmul_into(const Tensor& out, const Tensor& a, const Tensor& b, Into into) {
  same_device("mm", {&a, &b, &out}, {"self", "mat2", "out"});
  check_operands("mm", a, b);
  const bool widens = is_half(a.dtype()) && out.dtype() == kFloat32;
  require(out.dtype() == a.dtype() || widens, "mm: the result is ", out.dtype(),
          ", but the operands are ", a.dtype());
  require(out.shape() == Shape{a.size(0), b.size(1)} && out.is_contiguous(),
          "mm: expected a dense result of shape ", Shape{a.size(0), b.size(1)}, ", got ",
          out.shape());
  if (out.numel() == 0) return;
  const float beta = into == Into::kAdd ? 1 : 0;
  if (widens && out.is_cpu()) {
    return multiply("matmul", packed(a, kFloat32), packed(b, kFloat32), out, {}, beta);
  }
  multiply("matmul", a, b, out, {}, beta);
}

LinearResult linear(const Tensor& x, const Tensor& weight, const Tensor& bias,
                    Activation activation, bool wants_before) {
  if (bias.defined()) {
    same_device("addmm", {&bias, &x, &weight}, {"self", "mat1", "mat2"});
  } else {
    same_device("mm", {&x, &weight}, {"mat1", "mat2"});
  }
  const Tensor wt = view_as(weight, {weight.size(1), weight.size(0)},
                            {weight.stride(1), weight.stride(0)}, weight.storage_offset());
  check_operands("addmm", x, wt);
  if (bias.defined()) check_bias(bias, weight);
  if (activation != Activation::kNone) check_floating("linear", x);
  const Tensor row = bias.defined() ? dense(bias) : Tensor();
  Tensor y = Tensor::make({x.size(0), weight.size(0)}, x.dtype(), x.device());
  const Tensor before = wants_before ? Tensor::make(y.shape(), y.dtype(), y.device()) : Tensor();
  const Epilogue then{pointer<void>(row), activation, pointer<void>(before)};
  if (y.numel() > 0) multiply("linear", x, wt, y, then);
  return {y, before};
}

BiasGradients bias_backward(Activation activation, const Tensor& dy, const Tensor& kept,
                            bool wants_dbias, bool wants_result) {
  if constexpr (kHasCuda) {
    if (dy.is_cuda() && activation != Activation::kNone && wants_dbias && dy.numel() > 0) {
      const auto room = [&](const Shape& shape) {
        return Tensor::make(shape, dy.dtype(), dy.device());
      };
      const BiasGradients out{room(dy.shape()), room({dy.size(1)}),
                              wants_result ? room(dy.shape()) : Tensor()};
      cuda::bias_backward(activation, out, dense(dy), kept);
      return out;
    }
  }
  const Tensor dz =
      activation == Activation::kNone ? dy.detach() : binary(backward_of(activation), dy, kept);
  const UnaryOp op = activation == Activation::kGelu ? UnaryOp::kGelu : UnaryOp::kGeluTanh;
  return {dz, wants_dbias ? reduce(ReductionOp::kSum, dz, {0}) : Tensor(),
          wants_result ? unary(op, kept) : Tensor()};
}

}  // namespace taper::v0::kernels
