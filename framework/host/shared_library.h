// Libraries of the system's that are loaded when they are first needed, so that a program starts
// and runs on machines that do not have them.
#pragma once

#include <memory>
#include <string>
#include <type_traits>
#include <vector>

#include "framework/base/namespace.h"

namespace taper::v0 {

// Stays loaded, once it is.
class SharedLibrary {
 public:
  // The first of `files` that can be loaded, by the loader's paths; an empty one is passed over.
  // `purpose` and `advice` go into the message where there is none: "matrix products on a GPU",
  // "install cuBLAS, or name its folder in LD_LIBRARY_PATH".
  SharedLibrary(std::string purpose, const std::vector<std::string>& files, std::string advice);

  // Why it is not there, in one sentence; empty when it is.
  const std::string& problem() const { return problem_; }

  // A function, which becomes the pointer that it is assigned to. Throws AcceleratorError where the
  // library is not there or has none of that name.
  struct Symbol {
    void* address;
    template <class F> operator F*() const { return reinterpret_cast<F*>(address); }
  };
  Symbol operator()(const char* name) const;

 private:
  std::string purpose_, advice_, problem_;
  void* handle_ = nullptr;
};

// PREFIXname of a library as the member `name` of a struct that has load().
#define TAPER_LOADED(prefix, name) decltype(&prefix##name) name = load(#prefix #name)

// Owns what such a struct's function destroys: LoadedOwner<cudnnHandle_t, cudnn, &Cudnn::Destroy>.
template <auto kLibrary, auto kDestroy> struct LoadedDestroy {
  template <class T> void operator()(T* object) const { (kLibrary().*kDestroy)(object); }
};
template <class T, auto kLibrary, auto kDestroy>
using LoadedOwner = std::unique_ptr<std::remove_pointer_t<T>, LoadedDestroy<kLibrary, kDestroy>>;

}  // namespace taper::v0
