#include "autograd/ops/random.h"

#include "autograd/node.h"
#include "framework/kernels/random.h"

namespace taper {

Tensor dropout(const Tensor& x, double p, bool training, Generator* generator) {
  if (!(p >= 0 && p <= 1)) {
    throw ValueError(cat("dropout probability has to be between 0 and 1, but got ", p));
  }
  if (!training || p == 0) return x;
  const PhiloxKey key = (generator ? *generator : default_generator()).next();
  Tensor y = kernels::dropout(x, p, key);
  if (!needs_grad({x})) return y;
  // dropout is linear: its gradient is the same mask, drawn again, and so is the gradient's
  // gradient.
  struct Again {
    double p;
    PhiloxKey key;
    void operator()(Gradients& g) const {
      Tensor dx = kernels::dropout(g.dy(), p, key);
      g.dx(0) = needs_grad({g.dy()}) ? record("NativeDropoutBackward0", dx, {g.dy()}, *this) : dx;
    }
  };
  return record("NativeDropoutBackward0", y, {x}, Again{p, key});
}

}  // namespace taper
