// Factorizations by LAPACK. It stores matrices by columns, so it reads a matrix of Taper as its
// transpose. Each matrix of a batch is one call on one thread.
#include "framework/kernels/linalg/factorizations.h"

#include <algorithm>
#include <limits>
#include <vector>

#include "framework/host/parallel.h"
#include "framework/kernels/common/dispatch.h"
#include "framework/kernels/linalg/lapack.h"

namespace taper::v0::kernels::cpu {
namespace {

int to_int(int64_t n) {
  require(n <= std::numeric_limits<int>::max(), "linalg: a matrix has a dimension of ", n,
          ", but LAPACK counts in 32 bits");
  return int(n);
}

// The matrices of a batch.
template <class T> struct Matrices {
  explicit Matrices(const Tensor& x)
      : data(pointer<T>(x)),
        count(x.size(0)),
        rows(to_int(x.size(1))),
        columns(to_int(x.size(2))) {}
  T* operator[](int64_t i) const { return data + i * rows * int64_t(columns); }

  T* data;
  int64_t count;
  int rows, columns;
};

// Calls f(lapack, i) for each matrix i of a batch. Each call takes about `work` operations.
template <class T, class F> void each_matrix(int64_t batch, double work, F f) {
  const Lapack<T>& functions = lapack<T>();
  const LapackGuard guard;
  const auto call = [&](int64_t i) { f(functions, i); };
  if (guard.allows_threads()) {
    host::parallel_each(batch, int64_t(std::min(work, 1e9)), call);
  } else {
    for (int64_t i = 0; i < batch; ++i) call(i);
  }
}

// Calls f with a float or a double, according to the dtype.
template <class F> void by_dtype(const Tensor& x, F f) {
  if (x.dtype() == kFloat32) {
    f(float());
  } else {
    f(double());
  }
}

double cube(double n) { return n * n * n; }

// Calls f(work, lwork) once to ask for the size of the workspace, and once to compute.
template <class T, class F> void with_workspace(F f) {
  T size = 0;
  f(&size, -1);
  // A float may have rounded the size down.
  const int count = int(double(size) * (1 + 1e-6)) + 1;
  std::vector<T> work(static_cast<size_t>(count));
  f(work.data(), count);
}

}  // namespace

void lu_factor(const Tensor& lu, const Tensor& pivots, const Tensor& info) {
  by_dtype(lu, [&](auto zero) {
    using T = decltype(zero);
    const Matrices<T> a(lu);
    int *rows = pointer<int>(pivots), *failed = pointer<int>(info);
    each_matrix<T>(a.count, cube(a.rows), [=](const Lapack<T>& f, int64_t i) {
      f.getrf(&a.rows, &a.rows, a[i], &a.rows, rows + i * a.rows, failed + i);
    });
  });
}

void lu_solve(const Tensor& lu, const Tensor& pivots, const Tensor& x, bool transposed) {
  by_dtype(lu, [&](auto zero) {
    using T = decltype(zero);
    const Matrices<T> a(lu), b(x);
    const int* rows = pointer<int>(pivots);
    const char* form = transposed ? "N" : "T";  // the factors are those of the transpose
    each_matrix<T>(a.count, double(a.rows) * a.rows * b.rows, [=](const Lapack<T>& f, int64_t i) {
      int info = 0;
      f.getrs(form, &a.rows, &b.rows, a[i], &a.rows, rows + i * a.rows, b[i], &a.rows, &info, 1);
    });
  });
}

void cholesky(const Tensor& a, const Tensor& info) {
  by_dtype(a, [&](auto zero) {
    using T = decltype(zero);
    const Matrices<T> m(a);
    int* failed = pointer<int>(info);
    each_matrix<T>(m.count, cube(m.rows), [=](const Lapack<T>& f, int64_t i) {
      f.potrf("U", &m.rows, m[i], &m.rows, failed + i, 1);
    });
  });
}

void solve_triangular(const Tensor& a, const Tensor& x, const TriangularForm& form) {
  by_dtype(a, [&](auto zero) {
    using T = decltype(zero);
    const Matrices<T> m(a), b(x);
    const char *triangle = form.upper ? "L" : "U", *trans = form.transposed ? "N" : "T";
    const char* diagonal = form.unitriangular ? "U" : "N";
    each_matrix<T>(m.count, double(m.rows) * m.rows * b.rows, [=](const Lapack<T>& f, int64_t i) {
      const T one = 1;
      f.trsm("L", triangle, trans, diagonal, &m.rows, &b.rows, &one, m[i], &m.rows, b[i], &m.rows,
             1, 1, 1, 1);
    });
  });
}

void qr(const Tensor& rt, const Tensor& qt) {
  by_dtype(rt, [&](auto zero) {
    using T = decltype(zero);
    const Matrices<T> r(rt), q(qt);
    const int m = r.columns, n = r.rows, k = std::min(m, n);
    each_matrix<T>(r.count, double(m) * n * k, [=](const Lapack<T>& f, int64_t i) {
      int info = 0;
      std::vector<T> tau(static_cast<size_t>(k));
      with_workspace<T>(
          [&](T* work, int size) { f.geqrf(&m, &n, r[i], &m, tau.data(), work, &size, &info); });
      if (q.rows == 0) return;
      std::copy(r[i], r[i] + int64_t(k) * m, q[i]);
      with_workspace<T>([&](T* work, int size) {
        f.orgqr(&m, &q.rows, &k, q[i], &m, tau.data(), work, &size, &info);
      });
    });
  });
}

void eigh(const Tensor& a, const Tensor& values, const Tensor& info, bool upper) {
  by_dtype(a, [&](auto zero) {
    using T = decltype(zero);
    const Matrices<T> m(a);
    T* w = pointer<T>(values);
    int* failed = pointer<int>(info);
    const char* triangle = upper ? "L" : "U";
    each_matrix<T>(m.count, 10 * cube(m.rows), [=](const Lapack<T>& f, int64_t i) {
      const int integers = 3 + 5 * m.rows;
      std::vector<int> iwork(static_cast<size_t>(integers));
      with_workspace<T>([&](T* work, int size) {
        const int isize = size < 0 ? -1 : integers;
        f.syevd("V", triangle, &m.rows, m[i], &m.rows, w + i * m.rows, work, &size, iwork.data(),
                &isize, failed + i, 1, 1);
      });
    });
  });
}

void svd(const Tensor& a, const SvdFactors& out) {
  by_dtype(a, [&](auto zero) {
    using T = decltype(zero);
    // LAPACK sees the transpose [n, m], whose left singular vectors are V.
    const Matrices<T> x(a), u(out.u), vh(out.vh);
    T* s = pointer<T>(out.s);
    int* failed = pointer<int>(out.info);
    const int m = x.rows, n = x.columns;
    const char* job = vh.rows == n ? "A" : "S";
    each_matrix<T>(x.count, 20.0 * m * m * n, [=](const Lapack<T>& f, int64_t i) {
      std::vector<int> iwork(static_cast<size_t>(m) * 8);
      with_workspace<T>([&](T* work, int size) {
        f.gesdd(job, &n, &m, x[i], &n, s + i * m, vh[i], &n, u[i], &m, work, &size, iwork.data(),
                failed + i, 1);
      });
    });
  });
}

}  // namespace taper::v0::kernels::cpu
