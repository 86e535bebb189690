#include "framework/kernels/linalg/lapack.h"

#include <mutex>
#include <string>

#include "framework/base/error.h"
#include "framework/host/shared_library.h"

namespace taper::v0::kernels {
namespace {

const SharedLibrary& lapack_library() {
  static const SharedLibrary library("linear algebra on the CPU",
                                     {"liblapack.so.3", "libopenblas.so.0"},
                                     "install LAPACK (Debian: apt-get install libopenblas0-serial, "
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

// The number of threads that OpenBLAS uses. Its functions are null for other libraries.
struct OpenBlasThreads {
  void (*set)(int) = nullptr;
  int (*get)() = nullptr;
  std::mutex mutex;
  int scopes = 0, before = 1;

  OpenBlasThreads() {
    try {
      set = lapack_library()("openblas_set_num_threads");
      get = lapack_library()("openblas_get_num_threads");
    } catch (const Error&) {
      set = nullptr;
    }
  }
};

OpenBlasThreads& threads_of_openblas() {
  static OpenBlasThreads threads;
  return threads;
}

}  // namespace

const char* lapack_problem() { return lapack_library().problem().c_str(); }

template <class T> const Lapack<T>& lapack() {
  static const Lapack<T> functions = load_functions<T>();
  return functions;
}
template const Lapack<float>& lapack<float>();
template const Lapack<double>& lapack<double>();

OneLapackThreadGuard::OneLapackThreadGuard() {
  OpenBlasThreads& threads = threads_of_openblas();
  if (!threads.set) return;
  const std::lock_guard lock(threads.mutex);
  if (threads.scopes++ > 0) return;
  threads.before = threads.get();
  if (threads.before != 1) threads.set(1);
}

OneLapackThreadGuard::~OneLapackThreadGuard() {
  OpenBlasThreads& threads = threads_of_openblas();
  if (!threads.set) return;
  const std::lock_guard lock(threads.mutex);
  if (--threads.scopes == 0 && threads.before != 1) threads.set(threads.before);
}

}  // namespace taper::v0::kernels
