// A program with tensors that gdb prints (tests/gdb/check.cmake).
#include <taper/taper.h>

using namespace taper;

void stop_here() {}

int main() {
  const Tensor x = tensor({{1.0, 2.0, 3.0}, {4.0, 5.0, 6.0}}, {.requires_grad = true});
  const Tensor transposed = x.detach().t();
  const Tensor narrowed = x.detach().to(kBFloat16).narrow(1, 1, 2);
  const Tensor integers = arange(0, 5, 1, {.dtype = kInt64});
  const Tensor undefined;
  stop_here();
  return x.numel() == integers.numel();
}
