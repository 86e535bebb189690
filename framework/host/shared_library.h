// System libraries that are loaded on first use, so that a program also runs on machines without
// them.
#pragma once

#include <memory>
#include <string>
#include <type_traits>
#include <vector>

#include "framework/base/namespace.h"

namespace taper::v0 {

// A library that stays loaded until the process ends.
class SharedLibrary {
 public:
  // Loads the first of `files` that the loader finds; empty names are skipped. If none is found,
  // the message contains `purpose` and `advice`: "matrix products on a GPU", "install cuBLAS, or
  // name its folder in LD_LIBRARY_PATH".
  SharedLibrary(std::string purpose, const std::vector<std::string>& files, std::string advice);

  // Returns why the library is missing, in one sentence; empty if it was loaded.
  const std::string& problem() const { return problem_; }

  // A function of the library that converts to the pointer type it is assigned to. Throws
  // AcceleratorError if the library or the function is missing.
  struct Symbol {
    void* address;
    template <class F> operator F*() const { return reinterpret_cast<F*>(address); }
  };
  Symbol operator()(const char* name) const;

 private:
  std::string purpose_, advice_, problem_;
  void* handle_ = nullptr;
};

// Declares the member `name` of a struct that has load(), as a pointer to the function PREFIXname.
#define TAPER_LOADED(prefix, name) decltype(&prefix##name) name = load(#prefix #name)

// Owns a handle that the library's function destroys: LoadedOwner<cudnnHandle_t, cudnn,
// &Cudnn::Destroy>.
template <auto kLibrary, auto kDestroy> struct LoadedDestroy {
  template <class T> void operator()(T* object) const { (kLibrary().*kDestroy)(object); }
};
template <class T, auto kLibrary, auto kDestroy>
using LoadedOwner = std::unique_ptr<std::remove_pointer_t<T>, LoadedDestroy<kLibrary, kDestroy>>;

}  // namespace taper::v0
