#include "autograd/ops/matmul_ops.h"

#include <algorithm>

#include "autograd/ops/op_helpers.h"
#include "framework/kernels/matmul/matmul.h"

namespace taper::v0 {
namespace {

// Swaps the last two dimensions.
Tensor transpose_last_two(const Tensor& x) { return transpose(x, -2, -1); }

// Returns the product of two matrices or of two 3-d batches.
Tensor product(const char* name, const Tensor& a, const Tensor& b) {
  Tensor y = kernels::matmul(a, b);
  trace("matmul", y, {a, b});
  if (!needs_grad({a, b})) return y;
  return record(name, y, {a, b}, [a = SavedTensor(a), b = SavedTensor(b)](Gradients& g) {
    if (g.needs(0)) g.dx(0) = matmul(g.dy(), transpose_last_two(b.get(g)));
    if (g.needs(1)) g.dx(1) = matmul(transpose_last_two(a.get(g)), g.dy());
  });
}

void check_dim(const char* op, const char* argument, const Tensor& x, int dim) {
  require(x.dim() == dim, argument, " must be a ", dim == 2 ? "matrix" : "3D tensor", " (", op,
          " got ", x.shape(), ")");
}

// Returns the number of rows of [..., k] viewed as one matrix.
int64_t rows_of(const Tensor& x) { return Shape(x.shape().begin(), x.shape().end() - 1).numel(); }

// Multiplies all matrices of a batch x at once: applies f to x viewed as one matrix and restores
// x's leading dimensions.
template <class F> Tensor by_rows(const Tensor& x, int64_t width, F f) {
  Shape result = x.shape();
  result[result.size() - 1] = width;
  return reshape(f(reshape(x, {rows_of(x), x.size(-1)})), result);
}

// Checks the product of [..., n, k] or [k] and a vector [k].
void check_vector(const Tensor& a, const Tensor& b) {
  const int64_t k = a.shape().back(), n = b.size(0);
  if (k == n) return;
  require(a.dim() != 1, "inconsistent tensor size, expected tensor [", k, "] and src [", n,
          "] to have the same number of elements, but got ", k, " and ", n,
          " elements respectively");
  throw Error("size mismatch, got input (", rows_of(a), "), mat (", rows_of(a), "x", k, "), vec (",
              n, ")");
}

// Broadcasts the batch dimensions and multiplies with them folded into one.
Tensor batched(const Tensor& a, const Tensor& b) {
  const auto batch_of = [](const Tensor& x) {
    return Shape(x.shape().begin(), x.shape().end() - 2);
  };
  const Shape batch = broadcast_shapes(batch_of(a), batch_of(b), "matmul's batch dimensions");
  const auto as_3d = [&](const Tensor& x) {
    const int64_t n = x.size(-2), m = x.size(-1);
    return reshape(expand(x, joined(batch, {n, m})), {batch.numel(), n, m});
  };
  return reshape(bmm(as_3d(a), as_3d(b)), joined(batch, {a.size(-2), b.size(-1)}));
}

// Returns beta * bias + alpha * y. For integers the factors are truncated.
Tensor with_bias(const Tensor& bias, const Tensor& y, Scalar beta, Scalar alpha) {
  if (!y.is_floating_point()) {
    beta = beta.to_int();
    alpha = alpha.to_int();
  }
  const Tensor full = expand(bias, y.shape()), scaled = alpha.to_double() == 1 ? y : y * alpha;
  return beta.to_double() == 0 ? scaled : add(scaled, full, beta);
}

// Sets the gradients of a linear's input and weight from dz, the gradient of its result before the
// activation.
void put_gradients(Gradients& g, const SavedTensor& x, const SavedTensor& weight,
                   const Tensor& dz) {
  if (g.needs(0)) g.dx(0) = mm(dz, weight.get(g));
  if (g.needs(1)) g.dx(1) = mm(transpose_last_two(dz), x.get(g));
}

Tensor activated(const Tensor& x, const Tensor& weight, const Tensor& bias, Activation activation) {
  const bool recorded = needs_grad({x, weight, bias}), of_result = activation == Activation::kRelu;
  auto [y, z] = kernels::linear(x, weight, bias, activation, recorded && !of_result);
  trace("linear", y, {x, weight, bias}, activation);
  if (!recorded) return y;
  return record("LinearActivationBackward0", y, {x, weight, bias},
                [x = SavedTensor(x), w = SavedTensor(weight), b = SavedTensor(bias), activation,
                 kept = of_result ? SavedTensor::output(y) : SavedTensor(z)](Gradients& g) {
                  if (is_grad_enabled()) {
                    const Tensor again = linear(x.get(g), w.get(g), b.get(g));
                    const Tensor dz = activation_gradient(activation, g.dy(), again);
                    put_gradients(g, x, w, dz);
                    if (g.needs(2)) g.dx(2) = sum(dz, {0});
                    return;
                  }
                  const kernels::BiasGradients d =
                      kernels::bias_backward(activation, g.dy(), kept.get(g), g.needs(2));
                  put_gradients(g, x, w, d.dz);
                  g.dx(2) = d.dbias;
                });
}

// The operands of feed_forward().
struct FeedForward {
  SavedTensor x, weight1, bias1, weight2, z;
  Activation activation;
};

// Sets the gradients by public ops, so that they can be differentiated again.
void put_recorded_gradients(Gradients& g, const FeedForward& f) {
  const Tensor x = f.x.get(g), weight1 = f.weight1.get(g), bias1 = f.bias1.get(g);
  const Tensor z = linear(x, weight1, bias1), y = linear(x, weight1, bias1, f.activation);
  const Tensor dz = activation_gradient(f.activation, mm(g.dy(), f.weight2.get(g)), z);
  g.dx(0) = mm(dz, weight1);
  g.dx(1) = mm(transpose_last_two(dz), x);
  if (g.needs(2)) g.dx(2) = sum(dz, {0});
  g.dx(3) = mm(transpose_last_two(g.dy()), y);
}

void put_gradients(Gradients& g, const FeedForward& f) {
  if (g.needs(4)) g.dx(4) = sum(g.dy(), {0});
  if (is_grad_enabled()) return put_recorded_gradients(g, f);
  const Tensor dresult = mm(g.dy(), f.weight2.get(g));
  const auto [dz, dbias, result] =
      kernels::bias_backward(f.activation, dresult, f.z.get(g), g.needs(2), g.needs(3));
  if (g.needs(3)) g.dx(3) = mm(transpose_last_two(g.dy()), result);
  put_gradients(g, f.x, f.weight1, dz);
  g.dx(2) = dbias;
}

// Computes feed_forward() of x [n, in] and keeps the argument of the activation, not its result.
Tensor without_result(const Tensor& x, const Tensor& weight1, const Tensor& bias1,
                      const Tensor& weight2, const Tensor& bias2, Activation activation) {
  const auto [result, z] = kernels::linear(x, weight1, bias1, activation, true);
  trace("linear", result, {x, weight1, bias1}, activation);
  const Tensor y = kernels::linear(result, weight2, bias2).y;
  trace("linear", y, {result, weight2, bias2}, Activation(Activation::kNone));
  return record("FeedForwardBackward", y, {x, weight1, bias1, weight2, bias2},
                [f = FeedForward{SavedTensor(x), SavedTensor(weight1), SavedTensor(bias1),
                                 SavedTensor(weight2), SavedTensor(z), activation}](Gradients& g) {
                  put_gradients(g, f);
                });
}

// Returns the dtype to which autocast converts operands of different floating dtypes.
std::optional<DType> autocast_promotes(const Tensor& a, const Tensor& b) {
  const bool differ = a.dtype() != b.dtype() && a.is_floating_point() && b.is_floating_point();
  if (!differ || !autocasts(a)) return std::nullopt;
  return promote_types(a.dtype(), b.dtype());
}

}  // namespace

Tensor mm(const Tensor& a, const Tensor& b) {
  if (autocasts(a)) return in_half(mm, a, b);
  check_dim("mm", "self", a, 2);
  check_dim("mm", "mat2", b, 2);
  return product("MmBackward0", a, b);
}

Tensor bmm(const Tensor& a, const Tensor& b) {
  if (autocasts(a)) return in_half(bmm, a, b);
  check_dim("bmm", "batch1", a, 3);
  check_dim("bmm", "batch2", b, 3);
  require(a.size(0) == b.size(0) && a.size(2) == b.size(1),
          "Expected size for first two dimensions of batch2 tensor to be: [", a.size(0), ", ",
          a.size(2), "] but got: [", b.size(0), ", ", b.size(1), "]. (in bmm)");
  return product("BmmBackward0", a, b);
}

Tensor matmul(const Tensor& a, const Tensor& b) {
  if (autocasts(a)) return in_half(matmul, a, b);
  require(a.dim() != 0 && b.dim() != 0,
          "both arguments to matmul need to be at least 1D, but they are ", a.dim(), "D and ",
          b.dim(), "D");
  if (b.dim() == 1) {
    check_vector(a, b);
    const Tensor y = squeeze(matmul(a.dim() == 1 ? unsqueeze(a, 0) : a, unsqueeze(b, 1)), -1);
    return a.dim() == 1 ? squeeze(y, 0) : y;
  }
  if (a.dim() == 1) return squeeze(matmul(unsqueeze(a, 0), b), -2);
  if (a.dim() == 2 && b.dim() == 2) return mm(a, b);
  if (b.dim() == 2) return by_rows(a, b.size(1), [&](const Tensor& rows) { return mm(rows, b); });
  if (a.dim() == 3 && b.dim() == 3 && a.size(0) == b.size(0)) return bmm(a, b);
  return batched(a, b);
}

Tensor addmm(const Tensor& bias, const Tensor& a, const Tensor& b, Scalar beta, Scalar alpha) {
  if (autocasts(a)) return in_half(addmm, bias, a, b, beta, alpha);
  check_dim("addmm", "mat1", a, 2);
  check_dim("addmm", "mat2", b, 2);
  require(bias.dtype() == b.dtype(), "self and mat2 must have the same dtype, but got ",
          scalar_type_name(bias.dtype()), " and ", scalar_type_name(b.dtype()));
  return with_bias(bias, mm(a, b), beta, alpha);
}

Tensor baddbmm(const Tensor& bias, const Tensor& a, const Tensor& b, Scalar beta, Scalar alpha) {
  if (autocasts(a)) return in_half(baddbmm, bias, a, b, beta, alpha);
  check_dim("baddbmm", "batch1", a, 3);
  check_dim("baddbmm", "batch2", b, 3);
  require(bias.dtype() == a.dtype() && a.dtype() == b.dtype(),
          "Input dtypes must be the same, got: input ", cpp_name(bias.dtype()),
          ", batch1: ", cpp_name(a.dtype()), ", batch2: ", cpp_name(b.dtype()));
  return with_bias(bias, bmm(a, b), beta, alpha);
}

Tensor outer(const Tensor& a, const Tensor& b) {
  for (const Tensor* x : {&a, &b}) {
    require(x->dim() == 1, "outer: Expected 1-D argument ", x == &a ? "self" : "vec2", ", but got ",
            x->dim(), "-D");
  }
  return unsqueeze(a, 1) * b;
}

Tensor dot(const Tensor& a, const Tensor& b) {
  if (const auto wide = autocast_promotes(a, b)) return dot(a.to(*wide), b.to(*wide));
  kernels::same_device("dot", {&a, &b}, {"self", "tensor"});
  require(a.dim() == 1 && b.dim() == 1, "1D tensors expected, but got ", a.dim(), "D and ", b.dim(),
          "D tensors");
  require(a.dtype() == b.dtype(), "dot : expected both vectors to have same dtype, but found ",
          scalar_type_name(a.dtype()), " and ", scalar_type_name(b.dtype()));
  check_vector(a, b);
  require<NotImplementedError>(a.dtype() != kBool, "\"dot\" not implemented for 'Bool'");
  if (!a.is_floating_point()) return sum(a * b).to(a.dtype());
  // Unlike matmul, dot keeps its dtype under autocast.
  return in_dtype(a.dtype(), a, [&](const Tensor& x) { return matmul(x, b); });
}

Tensor cross(const Tensor& a, const Tensor& b, std::optional<IntArg> dim) {
  if (const auto wide = autocast_promotes(a, b)) return cross(a.to(*wide), b.to(*wide), dim);
  kernels::same_device("cross", {&a, &b}, {"input", "other"});
  require(a.dim() == b.dim(), "linalg.cross: inputs must have the same number of dimensions.");
  const int64_t along = dim ? int64_t(*dim) : std::ranges::find(a.shape(), 3) - a.shape().begin();
  require(dim || along < a.dim(), "no dimension of size 3 in input");
  require<IndexError>(a.dim() > 0, "Dimension specified as ", along,
                      " but tensor has no dimensions");
  const int d = wrap_dim(along, a.dim());
  require(a.size(d) == 3 && b.size(d) == 3, "linalg.cross: inputs dimension ", along,
          " must have length 3. Got ", a.size(d), " and ", b.size(d));
  require(a.dtype() == b.dtype(), "expected scalar type ", scalar_type_name(a.dtype()),
          " but found ", scalar_type_name(b.dtype()));
  require<NotImplementedError>(a.dtype() != kBool, "\"cross\" not implemented for 'Bool'");
  // The elements 0, 1, 2, 0, 1, so that views hold the next elements and those after them.
  const auto wrapped = [d](const Tensor& x) { return cat({x, narrow(x, d, 0, 2)}, d); };
  const Tensor u = wrapped(a), v = wrapped(b);
  return narrow(u, d, 1, 3) * narrow(v, d, 2, 3) - narrow(u, d, 2, 3) * narrow(v, d, 1, 3);
}

Tensor linear(const Tensor& x, const Tensor& weight, const Tensor& bias, Activation activation) {
  if (autocasts(x)) return in_half(linear, x, weight, bias, activation);
  check_dim("linear", "weight", weight, 2);
  require(x.dim() != 0, "linear needs an input with at least one dimension");
  if (x.dim() != 2) {
    const auto f = [&](const Tensor& u) { return linear(u, weight, bias, activation); };
    return traced("linear", by_rows(x, weight.size(0), f), {x, weight, bias}, activation);
  }
  if (activation != Activation::kNone) return activated(x, weight, bias, activation);
  Tensor y = kernels::linear(x, weight, bias).y;
  trace("linear", y, {x, weight, bias}, activation);
  if (!needs_grad({x, weight, bias})) return y;
  const char* name = bias.defined() ? "AddmmBackward0" : "MmBackward0";
  return record(name, y, {x, weight, bias},
                [x = SavedTensor(x), w = SavedTensor(weight)](Gradients& g) {
                  put_gradients(g, x, w, g.dy());
                  if (g.needs(2)) g.dx(2) = sum(g.dy(), {0});
                });
}

Tensor feed_forward(const Tensor& x, const Tensor& weight1, const Tensor& bias1,
                    const Tensor& weight2, const Tensor& bias2, Activation activation,
                    IntArg max_kept_bytes) {
  if (autocasts(x)) {
    return in_half(feed_forward, x, weight1, bias1, weight2, bias2, activation, max_kept_bytes);
  }
  const bool is_gelu = activation == Activation::kGelu || activation == Activation::kGeluTanh;
  const bool has_gradient = needs_grad({x, weight1, bias1, weight2, bias2});
  const bool has_sizes = x.dim() > 1 && weight1.dim() == 2 && weight2.dim() == 2;
  const int64_t size = int64_t(x.element_size());
  if (!is_gelu || !has_gradient || !has_sizes ||
      rows_of(x) * weight1.size(0) * size <= max_kept_bytes) {
    return linear(linear(x, weight1, bias1, activation), weight2, bias2);
  }
  return by_rows(x, weight2.size(0), [&](const Tensor& rows) {
    return without_result(rows, weight1, bias1, weight2, bias2, activation);
  });
}

// --- methods of Tensor ---

Tensor Tensor::matmul(const Tensor& b) const { return taper::matmul(*this, b); }
Tensor Tensor::mm(const Tensor& b) const { return taper::mm(*this, b); }
Tensor Tensor::bmm(const Tensor& b) const { return taper::bmm(*this, b); }
Tensor Tensor::addmm(const Tensor& a, const Tensor& b, Scalar beta, Scalar alpha) const {
  return taper::addmm(*this, a, b, beta, alpha);
}
Tensor Tensor::baddbmm(const Tensor& a, const Tensor& b, Scalar beta, Scalar alpha) const {
  return taper::baddbmm(*this, a, b, beta, alpha);
}
Tensor Tensor::tensordot(const Tensor& b, IntArg dims) const {
  return taper::tensordot(*this, b, dims);
}
Tensor Tensor::tensordot(const Tensor& b, const Shape& dims_a, const Shape& dims_b) const {
  return taper::tensordot(*this, b, dims_a, dims_b);
}
Tensor Tensor::outer(const Tensor& b) const { return taper::outer(*this, b); }
Tensor Tensor::dot(const Tensor& b) const { return taper::dot(*this, b); }
Tensor Tensor::cross(const Tensor& b, std::optional<IntArg> dim) const {
  return taper::cross(*this, b, dim);
}

}  // namespace taper::v0
