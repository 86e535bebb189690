// What the writers of named tensors share.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "framework/io/text.h"
#include "framework/kernels/elementwise/copy.h"
#include "framework/tensor.h"

namespace taper::inline v0::detail {

// Throws ValueError for an undefined tensor and for a name that is given twice or is `reserved`.
inline void check_savable(const std::string& path, const std::vector<NamedTensor>& tensors,
                          const char* reserved = nullptr) {
  std::set<std::string> seen;
  for (const NamedTensor& t : tensors) {
    const char* wrong = !t.tensor.defined()              ? "is undefined"
                        : reserved && t.name == reserved ? "has a reserved name"
                        : !seen.insert(t.name).second    ? "is given twice"
                                                         : nullptr;
    if (wrong) throw ValueError(cat(path, ": cannot save: tensor ", in_quotes(t.name), " ", wrong));
  }
}

// x as dense row-major elements on the CPU.
inline Tensor on_host(const Tensor& x) {
  if (x.is_cpu()) return kernels::dense(x);
  Tensor host = Tensor::make(x.shape(), x.dtype(), Device());
  kernels::copy_into(host, x);
  return host;
}

}  // namespace taper::inline v0::detail
