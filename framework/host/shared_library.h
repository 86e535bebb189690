// Libraries of the system's that are loaded when they are first needed, so that a program starts
// and runs on machines that do not have them.
#pragma once

#include <string>
#include <vector>

namespace taper::inline v0 {

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

}  // namespace taper::inline v0
