#include "modules/activation.h"

#include "autograd/ops/random.h"
#include "autograd/ops/shape.h"
#include "autograd/ops/softmax.h"
#include "autograd/ops/unary.h"

namespace taper {

Tensor LeakyReLU::forward(const Tensor& x) { return leaky_relu(x, negative_slope); }

GELU::GELU(const std::string& form) : approximate(form) {
  if (form == "none" || form == "tanh") return;
  throw ValueError(cat("approximate argument must be either none or tanh, got '", form, "'"));
}
Tensor GELU::forward(const Tensor& x) { return gelu(x, approximate == "tanh"); }

Tensor Softmax::forward(const Tensor& x) { return softmax(x, dim); }
Tensor Flatten::forward(const Tensor& x) { return flatten(x, start_dim, end_dim); }

Dropout::Dropout(double probability) : p(probability) {
  if (probability >= 0 && probability <= 1) return;
  throw ValueError(cat("dropout probability has to be between 0 and 1, but got ", probability));
}
Tensor Dropout::forward(const Tensor& x) { return dropout(x, p, is_training()); }

}  // namespace taper
