#include "framework/host/shared_library.h"

#include <utility>

#include <dlfcn.h>

#include "framework/base/error.h"

namespace taper::v0 {

SharedLibrary::SharedLibrary(std::string purpose, const std::vector<std::string>& files,
                             std::string advice)
    : purpose_(std::move(purpose)), advice_(std::move(advice)) {
  for (const std::string& file : files) {
    if (file.empty()) continue;
    handle_ = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (handle_) break;
    // The message names the first file, because that is the one to install.
    if (problem_.empty()) problem_ = concat_to_string(purpose_, ": ", dlerror(), "; ", advice_);
  }
  if (handle_) problem_.clear();
}

SharedLibrary::Symbol SharedLibrary::operator()(const char* name) const {
  if (!handle_) throw AcceleratorError(problem_);
  if (void* const address = dlsym(handle_, name)) return {address};
  throw AcceleratorError(purpose_, ": ", dlerror(), "; ", advice_);
}

}  // namespace taper::v0
