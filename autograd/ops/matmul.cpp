#include "autograd/ops/matmul.h"

#include "autograd/node.h"
#include "autograd/ops/binary.h"
#include "autograd/ops/reduce.h"
#include "autograd/ops/shape.h"
#include "framework/kernels/matmul.h"

namespace taper {
namespace {

// Last two dimensions swapped.
Tensor turned(const Tensor& x) { return transpose(x, -2, -1); }

// Products of matrices, 2-d or 3-d on both sides.
Tensor product(const char* name, const Tensor& a, const Tensor& b) {
  Tensor y = kernels::matmul(a, b);
  if (!needs_grad({a, b})) return y;
  return record(name, y, {a, b}, [a = Saved(a), b = Saved(b)](Gradients& g) {
    if (g.needs(0)) g.dx(0) = matmul(g.dy(), turned(b.get(g)));
    if (g.needs(1)) g.dx(1) = matmul(turned(a.get(g)), g.dy());
  });
}

void check_dim(const char* op, const char* argument, const Tensor& x, int dim) {
  if (x.dim() == dim) return;
  throw Error(cat(argument, " must be a ", dim == 2 ? "matrix" : "3D tensor", " (", op, " got ",
                  x.shape(), ")"));
}

// Batches of any rank, as one batch dimension each.
Tensor batched(const Tensor& a, const Tensor& b) {
  const auto batch_of = [](const Tensor& x) {
    return Shape(x.shape().begin(), x.shape().end() - 2);
  };
  const Shape batch = broadcast_shapes(batch_of(a), batch_of(b));
  const auto as_3d = [&](const Tensor& x) {
    Shape full = batch;
    full.push_back(x.size(-2));
    full.push_back(x.size(-1));
    return reshape(expand(x, full), {batch.numel(), x.size(-2), x.size(-1)});
  };
  Shape result = batch;
  result.push_back(a.size(-2));
  result.push_back(b.size(-1));
  return reshape(product("BmmBackward0", as_3d(a), as_3d(b)), result);
}

}  // namespace

Tensor mm(const Tensor& a, const Tensor& b) {
  check_dim("mm", "self", a, 2);
  check_dim("mm", "mat2", b, 2);
  return product("MmBackward0", a, b);
}

Tensor bmm(const Tensor& a, const Tensor& b) {
  check_dim("bmm", "batch1", a, 3);
  check_dim("bmm", "batch2", b, 3);
  return product("BmmBackward0", a, b);
}

Tensor matmul(const Tensor& a, const Tensor& b) {
  if (a.dim() == 0 || b.dim() == 0) {
    throw Error(cat("both arguments to matmul need to be at least 1D, but they are ", a.dim(),
                    "D and ", b.dim(), "D"));
  }
  if (a.dim() == 1) return squeeze(matmul(unsqueeze(a, 0), b), b.dim() == 1 ? 0 : -2);
  if (b.dim() == 1) return squeeze(matmul(a, unsqueeze(b, 1)), -1);
  if (a.dim() == 2 && b.dim() == 2) return mm(a, b);
  if (b.dim() == 2) {
    // Rows of every matrix of the batch against one matrix: a single product.
    Shape result = a.shape();
    result[result.size() - 1] = b.size(1);
    return reshape(mm(reshape(a, {-1, a.size(-1)}), b), result);
  }
  if (a.dim() == 3 && b.dim() == 3 && a.size(0) == b.size(0)) return product("BmmBackward0", a, b);
  return batched(a, b);
}

Tensor addmm(const Tensor& bias, const Tensor& a, const Tensor& b) {
  check_dim("addmm", "mat1", a, 2);
  check_dim("addmm", "mat2", b, 2);
  return bias + mm(a, b);
}

Tensor linear(const Tensor& x, const Tensor& weight, const Tensor& bias) {
  check_dim("linear", "weight", weight, 2);
  if (x.dim() == 0) throw Error("linear needs an input with at least one dimension");
  if (x.dim() != 2) {
    Shape result = x.shape();
    result[result.size() - 1] = weight.size(0);
    return reshape(linear(reshape(x, {-1, x.shape().back()}), weight, bias), result);
  }
  Tensor y = kernels::linear(x, weight, bias);
  if (!needs_grad({x, weight, bias})) return y;
  const char* name = bias.defined() ? "AddmmBackward0" : "MmBackward0";
  return record(name, y, {x, weight, bias}, [x = Saved(x), w = Saved(weight)](Gradients& g) {
    if (g.needs(0)) g.dx(0) = mm(g.dy(), w.get(g));
    if (g.needs(1)) g.dx(1) = mm(turned(g.dy()), x.get(g));
    if (g.needs(2)) g.dx(2) = sum(g.dy(), {0});
  });
}

}  // namespace taper
