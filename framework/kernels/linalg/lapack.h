// LAPACK (https://netlib.org/lapack/), which is loaded on first use. Only sources in this folder
// include this header.
#pragma once

#include <cstddef>

#include "framework/base/namespace.h"

namespace taper::v0::kernels {

// Returns why LAPACK cannot be loaded, in one sentence; empty if it can.
const char* lapack_problem();

// The functions for float or double. Matrices are stored by columns. The arguments of type size_t
// are the lengths of the texts before them, as compilers of Fortran pass them.
template <class T> struct Lapack {
  using Text = const char*;
  using Size = const int*;
  void (*getrf)(Size m, Size n, T* a, Size lda, int* pivots, int* info);
  void (*getrs)(Text trans, Size n, Size nrhs, const T* a, Size lda, Size pivots, T* b, Size ldb,
                int* info, size_t);
  void (*potrf)(Text uplo, Size n, T* a, Size lda, int* info, size_t);
  void (*trsm)(Text side, Text uplo, Text trans, Text diag, Size m, Size n, const T* alpha,
               const T* a, Size lda, T* b, Size ldb, size_t, size_t, size_t, size_t);
  void (*geqrf)(Size m, Size n, T* a, Size lda, T* tau, T* work, Size lwork, int* info);
  void (*orgqr)(Size m, Size n, Size k, T* a, Size lda, const T* tau, T* work, Size lwork,
                int* info);
  void (*syevd)(Text jobz, Text uplo, Size n, T* a, Size lda, T* w, T* work, Size lwork, int* iwork,
                Size liwork, int* info, size_t, size_t);
  void (*gesdd)(Text jobz, Size m, Size n, T* a, Size lda, T* s, T* u, Size ldu, T* vt, Size ldvt,
                T* work, Size lwork, int* iwork, int* info, size_t);
};

// Throws Error with the name of the package if LAPACK cannot be loaded.
template <class T> const Lapack<T>& lapack();

// Makes LAPACK safe to call, with results that do not depend on the number of threads, until the
// end of the scope. Scopes of several threads may overlap.
//
// An OpenBLAS with threads of its own uses one of them in the scope. An OpenBLAS without threads
// has no locks either: calls from two threads damage each other's results. Then the scope locks a
// mutex.
class LapackGuard {
 public:
  LapackGuard();
  ~LapackGuard();
  LapackGuard& operator=(LapackGuard&&) = delete;  // neither copied nor moved
  // Returns whether several threads may call LAPACK in the scope.
  bool allows_threads() const;
};

}  // namespace taper::v0::kernels
