#include "autograd/print.h"

#include <ostream>

#include "framework/print.h"

namespace taper {
namespace {

std::string tape_suffix(const Tensor& x) {
  if (const char* name = x.grad_fn()) return cat("grad_fn=<", name, ">");
  return x.requires_grad() ? "requires_grad=True" : "";
}

}  // namespace

std::string to_string(const Tensor& x) {
  if (!x.defined()) return format_tensor(x);
  const char* prefix = x.impl()->is_parameter ? "Parameter containing:\n" : "";
  return prefix + format_tensor(x, tape_suffix(x));
}

std::ostream& operator<<(std::ostream& out, const Tensor& x) { return out << to_string(x); }

}  // namespace taper
