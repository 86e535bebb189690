// Factorizations by cuSOLVER and cuBLAS. Like LAPACK, they store matrices by columns and read a
// matrix of Taper as its transpose. Batches of small matrices are one call, where there is a
// function for them. Large matrices, which fill the GPU by themselves, are one call each.
#include <algorithm>
#include <limits>
#include <type_traits>
#include <vector>

#include "framework/cuda/cusolver.h"
#include "framework/cuda/runtime.h"
#include "framework/kernels/common/dispatch.h"
#include "framework/kernels/common/kernel_launch.h"
#include "framework/kernels/elementwise/copy.h"
#include "framework/kernels/linalg/factorizations.h"

namespace taper::v0::kernels::cuda {
namespace {

using taper::cuda::check_cublas;
using taper::cuda::check_cusolver;
using taper::cuda::cublas;
using taper::cuda::Cublas;
using taper::cuda::cublas_handle;
using taper::cuda::cusolver;
using taper::cuda::Cusolver;
using taper::cuda::cusolver_handle;
using taper::cuda::Launch;
using taper::cuda::Scratch;

// Larger matrices of a batch are factorized one after another.
constexpr int kMostForBatchedLu = 256;
// The batched Jacobi methods take matrices of at most this size.
constexpr int kMostForJacobi = 32;

// Returns the function for T of two that cuSOLVER or cuBLAS has for float and double.
template <class T, class S, class D> auto choose(S* single, D* both) {
  if constexpr (std::is_same_v<T, float>) {
    return single;
  } else {
    return both;
  }
}
#define TAPER_OF(library, name) choose<T>(library().S##name, library().D##name)

int to_int(int64_t n) {
  require(n <= std::numeric_limits<int>::max(), "linalg: a matrix has a dimension of ", n,
          ", but cuSOLVER counts in 32 bits");
  return int(n);
}

// The matrices of a batch.
template <class T> struct Matrices {
  explicit Matrices(const Tensor& x)
      : data(pointer<T>(x)),
        count(to_int(x.size(0))),
        rows(to_int(x.size(1))),
        columns(to_int(x.size(2))) {}
  T* operator[](int i) const { return data + int64_t(i) * rows * columns; }

  T* data;
  int count, rows, columns;
};

// Calls f with a float or a double, according to the dtype of x, on x's device and stream. Throws
// Error while the stream is captured, because cuSOLVER allocates and waits.
template <class F> void on_stream(const char* op, const Tensor& x, F f) {
  const Launch on(x);
  require(!taper::cuda::is_capturing(on.stream), op,
          " cannot be captured into a CUDA graph, because cuSOLVER waits for the GPU; call it "
          "outside of the captured step");
  if (x.dtype() == kFloat32) {
    f(float(), on);
  } else {
    f(double(), on);
  }
  on.check(op);
}

// An array of the addresses of the matrices of a batch, in device memory.
template <class T> class Addresses {
 public:
  Addresses(const Matrices<T>& x, const Launch& on)
      : memory_(sizeof(T*) * size_t(x.count), on.device) {
    std::vector<T*> host(static_cast<size_t>(x.count));
    for (int i = 0; i < x.count; ++i) host[size_t(i)] = x[i];
    // Memory that is not pinned is read before the call returns.
    TAPER_CUDA_CHECK(cudaMemcpyAsync(memory_.data(), host.data(), sizeof(T*) * host.size(),
                                     cudaMemcpyHostToDevice, on.stream));
  }
  T** get() const { return memory_.as<T*>(); }

 private:
  Scratch memory_;
};

// Scratch memory for n elements.
template <class T> Scratch scratch(int64_t n, const Launch& on) {
  return {sizeof(T) * size_t(std::max<int64_t>(n, 1)), on.device};
}

cublasFillMode_t triangle_of(bool upper) {
  return upper ? CUBLAS_FILL_MODE_LOWER : CUBLAS_FILL_MODE_UPPER;
}

// The parameters of the Jacobi methods: sorted results, with the precision of the type.
struct JacobiEigen {
  JacobiEigen() { check_cusolver(cusolver().CreateSyevjInfo(&info), "CreateSyevjInfo"); }
  ~JacobiEigen() { cusolver().DestroySyevjInfo(info); }
  JacobiEigen& operator=(JacobiEigen&&) = delete;  // neither copied nor moved
  syevjInfo_t info = nullptr;
};
struct JacobiSvd {
  JacobiSvd() { check_cusolver(cusolver().CreateGesvdjInfo(&info), "CreateGesvdjInfo"); }
  ~JacobiSvd() { cusolver().DestroyGesvdjInfo(info); }
  JacobiSvd& operator=(JacobiSvd&&) = delete;  // neither copied nor moved
  gesvdjInfo_t info = nullptr;
};

template <class T> void lu_batch(const Matrices<T>& a, int* pivots, int* info, const Launch& on) {
  const Addresses<T> addresses(a, on);
  check_cublas(TAPER_OF(cublas, getrfBatched)(cublas_handle(on.device), a.rows, addresses.get(),
                                              a.rows, pivots, info, a.count),
               "getrfBatched");
}

template <class T>
void eigen_batch(const Matrices<T>& a, T* w, int* info, cublasFillMode_t uplo, const Launch& on) {
  const JacobiEigen how;
  const auto handle = cusolver_handle(on.device);
  const auto job = CUSOLVER_EIG_MODE_VECTOR;
  int size = 0;
  check_cusolver(TAPER_OF(cusolver, syevjBatched_bufferSize)(handle, job, uplo, a.rows, a.data,
                                                             a.rows, w, &size, how.info, a.count),
                 "syevjBatched_bufferSize");
  const Scratch work = scratch<T>(size, on);
  check_cusolver(
      TAPER_OF(cusolver, syevjBatched)(handle, job, uplo, a.rows, a.data, a.rows, w,
                                       work.template as<T>(), size, info, how.info, a.count),
      "syevjBatched");
}

// Computes the singular values of a batch of small matrices. The method returns square matrices of
// singular vectors, the right ones not transposed.
template <class T>
void svd_batch(const Matrices<T>& a, const SvdFactors& out, const Tensor& left, const Tensor& right,
               const Launch& on) {
  const JacobiSvd how;
  const auto handle = cusolver_handle(on.device);
  const auto job = CUSOLVER_EIG_MODE_VECTOR;
  const int m = a.columns, n = a.rows;  // of the transposes, which cuSOLVER sees
  T *s = pointer<T>(out.s), *u = pointer<T>(left), *v = pointer<T>(right);
  int size = 0;
  check_cusolver(TAPER_OF(cusolver, gesvdjBatched_bufferSize)(handle, job, m, n, a.data, m, s, u, m,
                                                              v, n, &size, how.info, a.count),
                 "gesvdjBatched_bufferSize");
  const Scratch work = scratch<T>(size, on);
  check_cusolver(TAPER_OF(cusolver, gesvdjBatched)(handle, job, m, n, a.data, m, s, u, m, v, n,
                                                   work.template as<T>(), size,
                                                   pointer<int>(out.info), how.info, a.count),
                 "gesvdjBatched");
}

// Computes the singular values of each matrix by the QR algorithm.
template <class T> void svd_each(const Matrices<T>& a, const SvdFactors& out, const Launch& on) {
  const auto handle = cusolver_handle(on.device);
  const Matrices<T> u(out.u), vh(out.vh);
  const int m = a.columns, n = a.rows;
  const signed char job_v = vh.rows == m ? 'A' : 'S';
  int size = 0;
  check_cusolver(TAPER_OF(cusolver, gesvd_bufferSize)(handle, m, n, &size), "gesvd_bufferSize");
  const Scratch work = scratch<T>(size, on);
  for (int i = 0; i < a.count; ++i) {
    check_cusolver(
        TAPER_OF(cusolver, gesvd)(handle, job_v, 'S', m, n, a[i], m,
                                  pointer<T>(out.s) + int64_t(i) * n, vh[i], m, u[i], n,
                                  work.template as<T>(), size, nullptr, pointer<int>(out.info) + i),
        "gesvd");
  }
}

// Returns a view of x [batch, m, m] with the last two dimensions swapped.
Tensor swapped(const Tensor& x) {
  return view_as(x, {x.size(0), x.size(2), x.size(1)}, {x.stride(0), x.stride(2), x.stride(1)},
                 x.storage_offset());
}

}  // namespace

void lu_factor(const Tensor& lu, const Tensor& pivots, const Tensor& info) {
  on_stream("linalg: the LU factorization", lu, [&](auto zero, const Launch& on) {
    using T = decltype(zero);
    const Matrices<T> a(lu);
    int *rows = pointer<int>(pivots), *failed = pointer<int>(info);
    if (a.count > 1 && a.rows <= kMostForBatchedLu) return lu_batch(a, rows, failed, on);
    const auto handle = cusolver_handle(on.device);
    int size = 0;
    check_cusolver(
        TAPER_OF(cusolver, getrf_bufferSize)(handle, a.rows, a.rows, a.data, a.rows, &size),
        "getrf_bufferSize");
    const Scratch work = scratch<T>(size, on);
    for (int i = 0; i < a.count; ++i) {
      check_cusolver(
          TAPER_OF(cusolver, getrf)(handle, a.rows, a.rows, a[i], a.rows, work.template as<T>(),
                                    rows + int64_t(i) * a.rows, failed + i),
          "getrf");
    }
  });
}

void lu_solve(const Tensor& lu, const Tensor& pivots, const Tensor& x, bool transposed) {
  on_stream("linalg: the solver", lu, [&](auto zero, const Launch& on) {
    using T = decltype(zero);
    const Matrices<T> a(lu), b(x);
    const int* rows = pointer<int>(pivots);
    // The factors are those of the transpose.
    const auto form = transposed ? CUBLAS_OP_N : CUBLAS_OP_T;
    if (a.count > 1 && a.rows <= kMostForBatchedLu) {
      const Addresses<T> of_a(a, on), of_b(b, on);
      int problem = 0;
      check_cublas(
          TAPER_OF(cublas, getrsBatched)(cublas_handle(on.device), form, a.rows, b.rows, of_a.get(),
                                         a.rows, rows, of_b.get(), a.rows, &problem, a.count),
          "getrsBatched");
      return;
    }
    const auto handle = cusolver_handle(on.device);
    const Scratch problem = scratch<int>(1, on);
    for (int i = 0; i < a.count; ++i) {
      check_cusolver(
          TAPER_OF(cusolver, getrs)(handle, form, a.rows, b.rows, a[i], a.rows,
                                    rows + int64_t(i) * a.rows, b[i], a.rows, problem.as<int>()),
          "getrs");
    }
  });
}

void cholesky(const Tensor& a, const Tensor& info) {
  on_stream("linalg.cholesky", a, [&](auto zero, const Launch& on) {
    using T = decltype(zero);
    const Matrices<T> m(a);
    int* failed = pointer<int>(info);
    const auto handle = cusolver_handle(on.device);
    const auto uplo = CUBLAS_FILL_MODE_UPPER;
    if (m.count > 1) {
      const Addresses<T> addresses(m, on);
      check_cusolver(TAPER_OF(cusolver, potrfBatched)(handle, uplo, m.rows, addresses.get(), m.rows,
                                                      failed, m.count),
                     "potrfBatched");
      return;
    }
    int size = 0;
    check_cusolver(
        TAPER_OF(cusolver, potrf_bufferSize)(handle, uplo, m.rows, m.data, m.rows, &size),
        "potrf_bufferSize");
    const Scratch work = scratch<T>(size, on);
    check_cusolver(TAPER_OF(cusolver, potrf)(handle, uplo, m.rows, m.data, m.rows,
                                             work.template as<T>(), size, failed),
                   "potrf");
  });
}

void solve_triangular(const Tensor& a, const Tensor& x, const TriangularForm& form) {
  on_stream("linalg.solve_triangular", a, [&](auto zero, const Launch& on) {
    using T = decltype(zero);
    const Matrices<T> m(a), b(x);
    const auto handle = cublas_handle(on.device);
    const auto uplo = triangle_of(form.upper);
    const auto trans = form.transposed ? CUBLAS_OP_N : CUBLAS_OP_T;
    const auto diagonal = form.unitriangular ? CUBLAS_DIAG_UNIT : CUBLAS_DIAG_NON_UNIT;
    const T one = 1;
    if (m.count == 1) {
      check_cublas(TAPER_OF(cublas, trsm_v2)(handle, CUBLAS_SIDE_LEFT, uplo, trans, diagonal,
                                             m.rows, b.rows, &one, m.data, m.rows, b.data, m.rows),
                   "trsm");
      return;
    }
    const Addresses<T> of_m(m, on), of_b(b, on);
    check_cublas(TAPER_OF(cublas, trsmBatched)(handle, CUBLAS_SIDE_LEFT, uplo, trans, diagonal,
                                               m.rows, b.rows, &one, of_m.get(), m.rows, of_b.get(),
                                               m.rows, m.count),
                 "trsmBatched");
  });
}

void qr(const Tensor& rt, const Tensor& qt) {
  on_stream("linalg.qr", rt, [&](auto zero, const Launch& on) {
    using T = decltype(zero);
    const Matrices<T> r(rt), q(qt);
    const int m = r.columns, n = r.rows, k = std::min(m, n);
    const auto handle = cusolver_handle(on.device);
    const Scratch tau = scratch<T>(k, on), problem = scratch<int>(1, on);
    int size = 0, size_of_q = 0;
    check_cusolver(TAPER_OF(cusolver, geqrf_bufferSize)(handle, m, n, r.data, m, &size),
                   "geqrf_bufferSize");
    if (q.rows > 0) {
      check_cusolver(TAPER_OF(cusolver, orgqr_bufferSize)(handle, m, q.rows, k, q.data, m,
                                                          tau.template as<T>(), &size_of_q),
                     "orgqr_bufferSize");
    }
    const Scratch work = scratch<T>(std::max(size, size_of_q), on);
    for (int i = 0; i < r.count; ++i) {
      check_cusolver(TAPER_OF(cusolver, geqrf)(handle, m, n, r[i], m, tau.template as<T>(),
                                               work.template as<T>(), size, problem.as<int>()),
                     "geqrf");
      if (q.rows == 0) continue;
      TAPER_CUDA_CHECK(cudaMemcpyAsync(q[i], r[i], sizeof(T) * size_t(k) * size_t(m),
                                       cudaMemcpyDeviceToDevice, on.stream));
      check_cusolver(TAPER_OF(cusolver, orgqr)(handle, m, q.rows, k, q[i], m, tau.template as<T>(),
                                               work.template as<T>(), size_of_q, problem.as<int>()),
                     "orgqr");
    }
  });
}

void eigh(const Tensor& a, const Tensor& values, const Tensor& info, bool upper) {
  on_stream("linalg.eigh", a, [&](auto zero, const Launch& on) {
    using T = decltype(zero);
    const Matrices<T> m(a);
    T* w = pointer<T>(values);
    int* failed = pointer<int>(info);
    const auto uplo = triangle_of(upper);
    if (m.count > 1 && m.rows <= kMostForJacobi) return eigen_batch(m, w, failed, uplo, on);
    const auto handle = cusolver_handle(on.device);
    const auto job = CUSOLVER_EIG_MODE_VECTOR;
    int size = 0;
    check_cusolver(
        TAPER_OF(cusolver, syevd_bufferSize)(handle, job, uplo, m.rows, m.data, m.rows, w, &size),
        "syevd_bufferSize");
    const Scratch work = scratch<T>(size, on);
    for (int i = 0; i < m.count; ++i) {
      check_cusolver(TAPER_OF(cusolver, syevd)(handle, job, uplo, m.rows, m[i], m.rows,
                                               w + int64_t(i) * m.rows, work.template as<T>(), size,
                                               failed + i),
                     "syevd");
    }
  });
}

void svd(const Tensor& a, const SvdFactors& out) {
  on_stream("linalg.svd", a, [&](auto zero, const Launch& on) {
    using T = decltype(zero);
    const Matrices<T> x(a);
    if (x.count == 1 || x.columns > kMostForJacobi) return svd_each(x, out, on);
    const Tensor left = Tensor::make({x.count, x.columns, x.columns}, a.dtype(), a.device());
    const Tensor right = Tensor::make({x.count, x.rows, x.rows}, a.dtype(), a.device());
    svd_batch(x, out, left, right, on);
    copy_into(out.u, swapped(right));
    copy_into(out.vh, view_as(left, out.vh.shape(), left.strides(), left.storage_offset()));
  });
}

#undef TAPER_OF

}  // namespace taper::v0::kernels::cuda
