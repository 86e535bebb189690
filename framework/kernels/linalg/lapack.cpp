#include "framework/kernels/linalg/lapack.h"

#include <mutex>
#include <string>

#include "framework/base/error.h"
#include "framework/host/shared_library.h"

namespace taper::v0::kernels {
namespace {

const SharedLibrary& lapack_library() {
  static const SharedLibrary library(
      "linear algebra on the CPU", {"liblapack.so.3", "libopenblas.so.0"},
      "install LAPACK (Debian: apt-get install libopenblas0-pthread, "
      "or liblapack3, which is smaller "
      "and slower), or name its folder in LD_LIBRARY_PATH");
  return library;
}

// Returns the function of LAPACK or BLAS for a type: "dgetrf_" for double.
template <class T> SharedLibrary::Symbol function(const char* name) {
  return lapack_library()(concat_to_string(sizeof(T) == 4 ? "s" : "d", name, "_").c_str());
}

template <class T> Lapack<T> load_functions() {
  require(lapack_library().problem().empty(), lapack_library().problem());
  Lapack<T> f{};
  f.getrf = function<T>("getrf");
  f.getrs = function<T>("getrs");
  f.potrf = function<T>("potrf");
  f.trsm = function<T>("trsm");
  f.geqrf = function<T>("geqrf");
  f.orgqr = function<T>("orgqr");
  f.syevd = function<T>("syevd");
  f.gesdd = function<T>("gesdd");
  return f;
}

// Returns the function of OpenBLAS, or null for another library.
template <class F> F* openblas_function(const char* name) {
  try {
    return lapack_library()(name);
  } catch (const Error&) {
    return nullptr;
  }
}

// The state that all scopes of LapackGuard share.
struct OpenBlas {
  void (*set_threads)(int) = openblas_function<void(int)>("openblas_set_num_threads");
  int (*get_threads)() = openblas_function<int()>("openblas_get_num_threads");
  // Returns 0 if OpenBLAS was built without threads.
  int (*get_parallel)() = openblas_function<int()>("openblas_get_parallel");
  const bool is_serial = get_parallel && get_parallel() == 0;
  const bool has_threads = !is_serial && set_threads && get_threads;
  std::mutex calls;    // held by the only scope of a serial OpenBLAS
  std::mutex counter;  // guards the following
  int scopes = 0, threads_before = 1;
};

OpenBlas& openblas() {
  static OpenBlas state;
  return state;
}

}  // namespace

const char* lapack_problem() { return lapack_library().problem().c_str(); }

template <class T> const Lapack<T>& lapack() {
  static const Lapack<T> functions = load_functions<T>();
  return functions;
}
template const Lapack<float>& lapack<float>();
template const Lapack<double>& lapack<double>();

LapackGuard::LapackGuard() {
  OpenBlas& state = openblas();
  if (state.is_serial) state.calls.lock();
  if (!state.has_threads) return;
  const std::lock_guard lock(state.counter);
  if (state.scopes++ > 0) return;
  state.threads_before = state.get_threads();
  if (state.threads_before != 1) state.set_threads(1);
}

LapackGuard::~LapackGuard() {
  OpenBlas& state = openblas();
  if (state.is_serial) state.calls.unlock();
  if (!state.has_threads) return;
  const std::lock_guard lock(state.counter);
  if (--state.scopes == 0 && state.threads_before != 1) state.set_threads(state.threads_before);
}

bool LapackGuard::allows_threads() const { return !openblas().is_serial; }

}  // namespace taper::v0::kernels
