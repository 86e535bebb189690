#include "framework/kernels/linalg/factorizations.h"

#include "framework/kernels/common/dispatch.h"
#include "framework/kernels/elementwise/copy.h"
#include "framework/kernels/linalg/lapack.h"

namespace taper::v0::kernels {
namespace {

// Returns a dense copy, which the caller may overwrite.
Tensor own_copy(const Tensor& x) {
  const Tensor y = Tensor::make(x.shape(), x.dtype(), x.device());
  copy_into(y, x.detach());
  return y;
}

Tensor like(const Tensor& x, const Shape& shape) {
  return Tensor::make(shape, x.dtype(), x.device());
}

// Returns the info of a batch: zeros.
Tensor make_info(const Tensor& a) {
  const Tensor info = Tensor::make({a.size(0)}, kInt32, a.device());
  fill(info, 0);
  return info;
}

}  // namespace

const char* missing_lapack() { return lapack_problem(); }

LuFactors lu_factor(const Tensor& a) {
  const LuFactors out{own_copy(a), Tensor::make({a.size(0), a.size(1)}, kInt32, a.device()),
                      make_info(a)};
  if (a.numel() > 0) {
    dispatch<cpu::lu_factor, cuda::lu_factor>(a.device(), out.lu, out.pivots, out.info);
  }
  return out;
}

Tensor lu_solve(const LuFactors& factors, const Tensor& b, bool transposed) {
  Tensor x = own_copy(b);
  if (x.numel() > 0) {
    dispatch<cpu::lu_solve, cuda::lu_solve>(x.device(), factors.lu, factors.pivots, x, transposed);
  }
  return x;
}

Factor cholesky(const Tensor& a) {
  const Factor out{own_copy(a), make_info(a)};
  if (a.numel() > 0) {
    dispatch<cpu::cholesky, cuda::cholesky>(a.device(), out.factor, out.info);
  }
  return out;
}

Tensor solve_triangular(const Tensor& a, const Tensor& b, const TriangularForm& form) {
  Tensor x = own_copy(b);
  if (x.numel() > 0) {
    dispatch<cpu::solve_triangular, cuda::solve_triangular>(x.device(), dense(a), x, form);
  }
  return x;
}

QrFactors qr(const Tensor& at, int64_t columns) {
  const QrFactors out{like(at, {at.size(0), columns, at.size(2)}), own_copy(at)};
  if (at.numel() > 0) dispatch<cpu::qr, cuda::qr>(at.device(), out.rt, out.qt);
  return out;
}

EigenPairs eigh(const Tensor& a, bool upper) {
  const EigenPairs out{like(a, {a.size(0), a.size(1)}), own_copy(a), make_info(a)};
  if (a.numel() > 0) {
    dispatch<cpu::eigh, cuda::eigh>(a.device(), out.vectors_t, out.values, out.info, upper);
  }
  return out;
}

SvdFactors svd(const Tensor& a, bool full) {
  const int64_t batch = a.size(0), m = a.size(1), n = a.size(2);
  const SvdFactors out{like(a, {batch, m, m}), like(a, {batch, m}),
                       like(a, {batch, full ? n : m, n}), make_info(a)};
  if (a.numel() > 0) dispatch<cpu::svd, cuda::svd>(a.device(), own_copy(a), out);
  return out;
}

}  // namespace taper::v0::kernels
