#include "autograd/ops/index/inplace.h"

#include <atomic>
#include <cmath>

#include "autograd/ops/index/index_ops.h"
#include "autograd/ops/index/rows.h"
#include "autograd/ops/op_helpers.h"
#include "autograd/view.h"
#include "framework/kernels/elementwise/binary.h"
#include "framework/kernels/elementwise/copy.h"
#include "framework/kernels/random/random.h"

namespace taper::v0 {
namespace {

using kernels::BinaryOp;

// The addresses of a tensor's first byte and of the byte after its last. Both are 0 for a tensor
// that is empty or has gaps.
struct Extent {
  uintptr_t begin = 0, end = 0;
  explicit Extent(const Tensor& x) {
    if (x.numel() == 0 || !is_dense(x.shape(), x.strides())) return;
    begin = reinterpret_cast<uintptr_t>(x.impl()->address());
    end = begin + x.nbytes();
  }
};

// Throws Error if other overlaps x in part. It may be x itself or memory apart from x.
void check_overlap(const char* op, const Tensor& x, const Tensor& other) {
  if (!other.defined() || other.storage() != x.storage()) return;
  const Extent a(x), b(other);
  if (!a.begin || !b.begin || a.begin >= b.end || b.begin >= a.end) return;
  require(
      a.begin == b.begin && a.end == b.end && x.strides() == other.strides(),
      "unsupported operation: some elements of the input tensor and the written-to tensor refer to "
      "a single memory location. Please clone() the tensor before performing the operation. (",
      op, ")");
}

// Throws Error unless other broadcasts to x's shape: an in-place result cannot be larger than x.
void check_fits(const char* op, const Tensor& x, const Tensor& other) {
  if (!other.defined()) return;
  const Shape shape = broadcast_shapes(x.shape(), other.shape(), op);
  require(shape == x.shape(), "output with shape ", x.shape(),
          " doesn't match the broadcast shape ", shape, " (in ", op, ")");
}

// All in-place changes pass through this function. If the change is not recorded, `write` changes
// x's memory. If it is recorded, compute(old, other) is called instead. It returns the new values
// as a differentiable function of x's old values: in new memory if it saves the old values
// (keeps_old), and otherwise in x's memory. `other` may have any shape.
template <class Write, class Compute>
const Tensor& change_by_any(const char* op, const Tensor& x, const Tensor& other, bool keeps_old,
                            Write write, Compute compute) {
  const bool recorded = x.is_floating_point() && needs_grad({x, other});
  check_changeable(op, x, recorded);
  if (!recorded) {
    write();
    x.storage()->version.fetch_add(1, std::memory_order_relaxed);
    trace(op, x, {x, other});
    return x;
  }
  const Tensor old = with_place_of(x, keeps_old ? x.detach().clone() : x.detach());
  Tensor y = compute(old, other.defined() && other.is_same(x) ? old : other);
  y = y.to(x.device(), x.dtype());
  if (y.storage() != x.storage()) kernels::copy_into(x, y);
  x.storage()->version.fetch_add(1, std::memory_order_relaxed);
  rebase(x, y);
  trace(op, x, {x, other});
  return x;
}

// Like change_by_any, for an `other` that broadcasts to x.
template <class Write, class Compute>
const Tensor& change(const char* op, const Tensor& x, const Tensor& other, bool keeps_old,
                     Write write, Compute compute) {
  check_fits(op, x, other);
  check_overlap(op, x, other);
  return change_by_any(op, x, other, keeps_old, write, compute);
}

// Replaces x by values that do not depend on x's old values. They may depend on `source`, if that
// is defined.
template <class Write>
const Tensor& overwrite(const char* op, const char* node_name, const Tensor& x,
                        const Tensor& source, Write write) {
  return change(op, x, source, false, write, [&](const Tensor& old, const Tensor& from) {
    write();
    return record(node_name, x.detach(), {old, from}, [source = TensorMeta(from)](Gradients& g) {
      if (g.needs(0)) g.dx(0) = zeros_like(g.dy());
      if (g.needs(1)) g.dx(1) = source.reduce(g.dy());
    });
  });
}

const Tensor& arithmetic(const char* name, BinaryOp op, const Tensor& x, const Tensor& other,
                         bool keeps_old, Tensor (*f)(const Tensor&, const Tensor&)) {
  return change(
      name, x, other, keeps_old, [&] { kernels::binary_into(op, x, x, other); }, f);
}

const Tensor& add_scaled(const char* name, BinaryOp op, const Tensor& x, const Tensor& other,
                         Scalar alpha, Tensor (*f)(const Tensor&, const Tensor&, Scalar)) {
  const auto write = [&] {
    kernels::binary_into(op, x, x, other, kernels::scaled_by(alpha, x, other));
  };
  return change(name, x, other, false, write,
                [&](const Tensor& old, const Tensor& b) { return f(old, b, alpha); });
}

// Computes x = f(x, other).
template <class F>
const Tensor& apply(const char* name, const Tensor& x, const Tensor& other, F f) {
  const auto write = [&] {
    const Tensor y = f(x, other);
    require(y.dtype() == x.dtype(), "result type ", scalar_type_name(y.dtype()),
            " can't be cast to the desired output type ", scalar_type_name(x.dtype()), " (in ",
            name, ")");
    kernels::copy_into(x, y);
  };
  return change(name, x, other, true, write, f);
}

const Tensor& apply(const char* name, const Tensor& x, Tensor (*f)(const Tensor&)) {
  return apply(name, x, {}, [f](const Tensor& old, const Tensor&) { return f(old); });
}

// Folds rows of src into x. backward(g) computes the gradients of x and src.
template <class F>
const Tensor& fold_rows_(const char* op, const char* node, kernels::RowOp how, const Tensor& x,
                         const Rows& rows, const Tensor& src, F backward) {
  // Rows of x are written while rows of src are read, so they must not share memory.
  const Tensor apart = src.storage() == x.storage() ? clone(src.detach()) : src;
  const auto write = [&] {
    kernels::fold_rows(how, x, rows.key, rows.width, apart, rows.distinct);
  };
  return change_by_any(op, x, src, false, write, [&](const Tensor& old, const Tensor& from) {
    write();
    return record(node, x.detach(), {old, from}, backward);
  });
}

// Returns whether x is the only handle to its memory: there is no view and no second handle, and
// the memory is not borrowed. (reshape of a copy returns a view of a tensor that only the view
// references.)
bool owns_alone(const Tensor& x) {
  const TensorImpl& impl = *x.impl();
  const TensorImpl* base = impl.base.get();
  if (impl.refs.load() != 1 || (base && base->refs.load() != 1)) return false;
  return impl.storage->refs.load() == (base ? 2 : 1) && !impl.storage->borrowed;
}

}  // namespace

Tensor copy_(const Tensor& x, const Tensor& source, BoolArg non_blocking) {
  return overwrite("copy_", "CopyBackwards", x, source,
                   [&] { kernels::copy_into(x, source, non_blocking); });
}

Tensor fill_(const Tensor& x, Scalar value) {
  return overwrite("fill_", "FillBackward0", x, {}, [&] { kernels::fill(x, value); });
}

Tensor uniform_(const Tensor& x, RealArg low, RealArg high, Generator* generator) {
  return overwrite("uniform_", "UniformBackward0", x, {},
                   [&] { kernels::uniform_into(x, next_key(generator), low, high); });
}

Tensor normal_(const Tensor& x, RealArg mean, RealArg std, Generator* generator) {
  return overwrite("normal_", "NormalBackward0", x, {},
                   [&] { kernels::normal_into(x, next_key(generator), mean, std); });
}

Tensor bernoulli_(const Tensor& x, RealArg p, Generator* generator) {
  return overwrite("bernoulli_", "BernoulliBackward1", x, {},
                   [&] { kernels::bernoulli_into(x, next_key(generator), p); });
}

Tensor put_rows_(const char* op, const Tensor& x, const Rows& rows, const Tensor& src) {
  return fold_rows_(op, "IndexPutBackward0", kernels::RowOp::kPut, x, rows, src,
                    [rows, from = TensorMeta(src)](Gradients& g) {
                      const Tensor none =
                          zeros(from.shape, {.dtype = from.dtype, .device = from.device});
                      if (g.needs(0)) g.dx(0) = put_rows_("index_put_", clone(g.dy()), rows, none);
                      if (g.needs(1)) g.dx(1) = put_backward(g.dy(), rows, from.shape);
                    });
}

Tensor add_rows_(const char* op, const Tensor& x, const Rows& rows, const Tensor& src) {
  return fold_rows_(op, "IndexAddBackward0", kernels::RowOp::kSum, x, rows, src,
                    [rows, shape = src.shape()](Gradients& g) {
                      if (g.needs(0)) g.dx(0) = g.dy();
                      if (g.needs(1)) g.dx(1) = take_rows("GatherBackward0", g.dy(), rows, shape);
                    });
}

const Tensor& Tensor::assigned() const {
  if (!defined()) {
    throw Error(
        "Expected a proper Tensor but got an undefined Tensor on the left of '='; to set a "
        "gradient, call set_grad()");
  }
  if (owns_alone(*this)) {
    throw Error("the expression on the left of the assignment gives a copy of shape ", shape(),
                ", not a view, so the assignment would be lost. Write into the tensor itself, with "
                "index_put_, masked_fill_, scatter_ or index_fill_, or through a view ([], narrow, "
                "select, slice, view)");
  }
  return *this;
}
Tensor Tensor::operator=(const Tensor& source) && { return assigned().copy_(source); }
Tensor Tensor::operator=(Scalar value) && { return assigned().fill_(value); }

Tensor Tensor::add_(const Tensor& other, Scalar alpha) const {
  return add_scaled("add_", BinaryOp::kAdd, *this, other, alpha, taper::add);
}
Tensor Tensor::sub_(const Tensor& other, Scalar alpha) const {
  return add_scaled("sub_", BinaryOp::kSub, *this, other, alpha, taper::sub);
}
Tensor Tensor::mul_(const Tensor& other) const {
  return arithmetic("mul_", BinaryOp::kMul, *this, other, other.requires_grad(), taper::mul);
}
Tensor Tensor::div_(const Tensor& other) const {
  return arithmetic("div_", BinaryOp::kDiv, *this, other, other.requires_grad(), taper::div);
}
Tensor Tensor::pow_(const Tensor& exponent) const {
  return arithmetic("pow_", BinaryOp::kPow, *this, exponent, true, taper::pow);
}
Tensor Tensor::add_(Scalar other) const { return add_(wrap_scalar(other)); }
Tensor Tensor::sub_(Scalar other) const { return sub_(wrap_scalar(other)); }
Tensor Tensor::mul_(Scalar other) const { return mul_(wrap_scalar(other)); }
Tensor Tensor::div_(Scalar other) const { return div_(wrap_scalar(other)); }
Tensor Tensor::pow_(Scalar exponent) const { return pow_(wrap_scalar(exponent)); }

Tensor Tensor::neg_() const { return apply("neg_", *this, taper::neg); }
Tensor Tensor::abs_() const { return apply("abs_", *this, taper::abs); }
Tensor Tensor::exp_() const { return apply("exp_", *this, taper::exp); }
Tensor Tensor::log_() const { return apply("log_", *this, taper::log); }
Tensor Tensor::sqrt_() const { return apply("sqrt_", *this, taper::sqrt); }
Tensor Tensor::relu_() const { return apply("relu_", *this, taper::relu); }
Tensor Tensor::sigmoid_() const { return apply("sigmoid_", *this, taper::sigmoid); }
Tensor Tensor::tanh_() const { return apply("tanh_", *this, taper::tanh); }
Tensor Tensor::clamp_(RealArg low, RealArg high) const {
  // Integers keep their dtype if the bounds are whole numbers.
  const auto bound = [&](double b) {
    const bool whole = !is_floating_point() && std::abs(b) < 0x1p63 && b == std::trunc(b);
    return whole ? Scalar(int64_t(b)) : Scalar(b);
  };
  const auto f = [&](const Tensor& x, const Tensor&) {
    return taper::clamp(x, bound(low), bound(high));
  };
  return apply("clamp_", *this, {}, f);
}
Tensor Tensor::masked_fill_(const Tensor& mask, Scalar value) const {
  const auto f = [&](const Tensor& x, const Tensor& m) { return taper::masked_fill(x, m, value); };
  return apply("masked_fill_", *this, mask, f);
}

// --- methods of Tensor ---

Tensor Tensor::copy_(const Tensor& source, BoolArg non_blocking) const {
  return taper::copy_(*this, source, non_blocking);
}
Tensor Tensor::fill_(Scalar value) const { return taper::fill_(*this, value); }
Tensor Tensor::uniform_(RealArg low, RealArg high, Generator* generator) const {
  return taper::uniform_(*this, low, high, generator);
}
Tensor Tensor::normal_(RealArg mean, RealArg std, Generator* generator) const {
  return taper::normal_(*this, mean, std, generator);
}
Tensor Tensor::bernoulli_(RealArg p, Generator* generator) const {
  return taper::bernoulli_(*this, p, generator);
}

}  // namespace taper::v0
