#include "autograd/ops/inplace.h"

#include "autograd/node.h"
#include "autograd/ops/binary.h"
#include "framework/kernels/binary.h"
#include "framework/kernels/copy.h"
#include "framework/kernels/random.h"

namespace taper {
namespace {

using kernels::BinaryOp;

void check_changeable(const char* op, const Tensor& x, bool recorded) {
  if (is_grad_enabled() && x.is_leaf() && x.requires_grad()) {
    throw Error(cat("a leaf Variable that requires grad is being used in an in-place operation. (",
                    op, ")"));
  }
  for (int i = 0; i < x.dim(); ++i) {
    if (x.strides()[i] != 0 || x.shape()[i] < 2) continue;
    throw Error(
        cat("unsupported operation: more than one element of the written-to tensor refers "
            "to a single memory location. Please clone() the tensor before performing the "
            "operation. (",
            op, ")"));
  }
  const bool whole = x.numel() * int64_t(x.element_size()) == int64_t(x.storage()->nbytes);
  if (recorded && !whole) {
    throw NotImplementedError(cat(op,
                                  " on a view is not recorded on the tape; write it with "
                                  "functions that return new tensors, or under NoGradGuard"));
  }
}

void changed(const Tensor& x) { x.storage()->version.fetch_add(1, std::memory_order_relaxed); }

// Makes x the output of a new node whose first input is what x was before.
template <class F> void rebase(const char* name, const Tensor& x, const Tensor& other, F backward) {
  const Tensor before = x.detach();
  before.impl()->grad_fn = std::move(x.impl()->grad_fn);
  before.impl()->output = x.impl()->output;
  before.impl()->requires_grad = x.impl()->requires_grad;
  record_onto(name, x, {before, other}, std::move(backward));
}

// x = op(x, other) with gradients (dy * da, dy * db) given by the functions.
template <class Da, class Db>
void arithmetic(const char* op_name, const char* node_name, BinaryOp op, const Tensor& x,
                const Tensor& other, double alpha, bool saves, Da da, Db db) {
  const bool recorded = needs_grad({x, other});
  check_changeable(op_name, x, recorded);
  const Tensor old = recorded && saves ? x.detach().clone() : Tensor();
  kernels::binary_into(op, x, x, other, {.a = alpha});
  changed(x);
  if (!recorded) return;
  const Tensor kept = saves ? other : Tensor();
  rebase(node_name, x, other,
         [old, b = Saved(kept), shape = other.shape(), device = other.device(),
          dtype = other.dtype(), da, db](Gradients& g) {
           const Tensor z = b.get(g);
           if (g.needs(0)) g.dx(0) = da(g.dy(), z);
           if (g.needs(1)) g.dx(1) = sum_to(db(g.dy(), old, z), shape).to(device, dtype);
         });
}

}  // namespace

void copy_(const Tensor& x, const Tensor& source, bool non_blocking) {
  const bool recorded = needs_grad({x, source});
  check_changeable("copy_", x, recorded);
  if (broadcast_shapes(x.shape(), source.shape()) != x.shape()) {
    throw Error(cat("output with shape ", x.shape(), " doesn't match the broadcast shape ",
                    broadcast_shapes(x.shape(), source.shape()), " (in copy_)"));
  }
  kernels::copy_into(x, source, non_blocking);
  changed(x);
  if (!recorded) return;
  rebase("CopyBackwards", x, source,
         [shape = source.shape(), device = source.device(), dtype = source.dtype()](Gradients& g) {
           if (g.needs(0)) g.dx(0) = zeros_like(g.dy());
           if (g.needs(1)) g.dx(1) = sum_to(g.dy(), shape).to(device, dtype);
         });
}

void fill_(const Tensor& x, Scalar value) {
  const bool recorded = needs_grad({x});
  check_changeable("fill_", x, recorded);
  kernels::fill(x, value);
  changed(x);
  if (!recorded) return;
  rebase("FillBackward0", x, Tensor(), [](Gradients& g) { g.dx(0) = zeros_like(g.dy()); });
}

void uniform_(const Tensor& x, double low, double high, Generator* generator) {
  check_changeable("uniform_", x, needs_grad({x}));
  kernels::uniform_into(x, (generator ? *generator : default_generator()).next(), low, high);
  changed(x);
}

void normal_(const Tensor& x, double mean, double std, Generator* generator) {
  check_changeable("normal_", x, needs_grad({x}));
  kernels::normal_into(x, (generator ? *generator : default_generator()).next(), mean, std);
  changed(x);
}

const Tensor& Tensor::copy_(const Tensor& source, bool non_blocking) const {
  taper::copy_(*this, source, non_blocking);
  return *this;
}
const Tensor& Tensor::fill_(Scalar value) const {
  taper::fill_(*this, value);
  return *this;
}
const Tensor& Tensor::uniform_(double low, double high) const {
  taper::uniform_(*this, low, high);
  return *this;
}
const Tensor& Tensor::normal_(double mean, double std) const {
  taper::normal_(*this, mean, std);
  return *this;
}

const Tensor& Tensor::add_(const Tensor& other, Scalar alpha) const {
  const double a = alpha.to_double();
  arithmetic(
      "add_", "AddBackward0", BinaryOp::add, *this, other, a, false,
      [](const Tensor& dy, const Tensor&) { return dy; },
      [a](const Tensor& dy, const Tensor&, const Tensor&) { return dy * a; });
  return *this;
}

const Tensor& Tensor::sub_(const Tensor& other, Scalar alpha) const {
  const double a = alpha.to_double();
  arithmetic(
      "sub_", "SubBackward0", BinaryOp::sub, *this, other, a, false,
      [](const Tensor& dy, const Tensor&) { return dy; },
      [a](const Tensor& dy, const Tensor&, const Tensor&) { return dy * -a; });
  return *this;
}

const Tensor& Tensor::mul_(const Tensor& other) const {
  arithmetic(
      "mul_", "MulBackward0", BinaryOp::mul, *this, other, 1, true,
      [](const Tensor& dy, const Tensor& z) { return dy * z; },
      [](const Tensor& dy, const Tensor& old, const Tensor&) { return dy * old; });
  return *this;
}

const Tensor& Tensor::div_(const Tensor& other) const {
  arithmetic(
      "div_", "DivBackward0", BinaryOp::div, *this, other, 1, true,
      [](const Tensor& dy, const Tensor& z) { return dy / z; },
      [](const Tensor& dy, const Tensor& old, const Tensor& z) { return dy * old / z / z * -1; });
  return *this;
}

}  // namespace taper
