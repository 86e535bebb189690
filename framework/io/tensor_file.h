// Shared parts of the readers and writers of tensor files.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "framework/io/text_utils.h"
#include "framework/kernels/elementwise/copy.h"
#include "framework/tensor/tensor.h"

namespace taper::v0::detail {

// Throws ValueError for an undefined tensor and for a name that is repeated or is `reserved`.
inline void check_savable(const std::string& path, const std::vector<NamedTensor>& tensors,
                          const char* reserved = nullptr) {
  std::set<std::string> seen;
  for (const NamedTensor& t : tensors) {
    const char* wrong = !t.tensor.defined()              ? "is undefined"
                        : reserved && t.name == reserved ? "has a reserved name"
                        : !seen.insert(t.name).second    ? "is given twice"
                                                         : nullptr;
    if (wrong) throw ValueError(path, ": cannot save: tensor ", in_quotes(t.name), " ", wrong);
  }
}

// Replaces nonzero bytes of bools by 1. Files may hold any byte for true, but C++ allows only 1.
inline void tidy_bools(void* data, size_t nbytes, DType dtype) {
  auto* bytes = static_cast<uint8_t*>(data);
  for (size_t i = 0; dtype == kBool && i < nbytes; ++i) {
    if (bytes[i] > 1) bytes[i] = 1;
  }
}

// Returns x as a contiguous CPU tensor.
inline Tensor on_host(const Tensor& x) {
  if (x.is_cpu()) return kernels::dense(x);
  Tensor host = Tensor::make(x.shape(), x.dtype(), Device());
  kernels::copy_into(host, x);
  return host;
}

}  // namespace taper::v0::detail
