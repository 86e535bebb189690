#include <cmath>

#include "autograd/engine.h"
#include "autograd/ops/binary.h"
#include "framework/factories.h"

namespace taper::v0 {

bool gradcheck(const Callable<Tensor(const std::vector<Tensor>&)>& f,
               const std::vector<Tensor>& inputs, double eps, double atol, double rtol) {
  std::vector<Tensor> leaves;
  for (const Tensor& x : inputs) {
    require(x.dtype() == kFloat64, "gradcheck needs float64 inputs, got ", x.dtype());
    leaves.push_back(x.detach().clone());
    leaves.back().requires_grad_();
  }
  const Tensor y = f(leaves);
  // A fixed direction of uneven weights, so that errors of opposite sign do not cancel.
  Generator generator(20200229);
  const Tensor dy = rand(y.shape(), {.dtype = y.dtype(), .device = y.device()}, &generator);
  const std::vector<Tensor> analytic = grad({y}, leaves, {dy}, false, false, true);

  NoGradGuard no_grad;
  for (size_t i = 0; i < leaves.size(); ++i) {
    const std::vector<double> at = leaves[i].cpu().to_vector<double>();
    const std::vector<double> slope = analytic[i].defined() ? analytic[i].cpu().to_vector<double>()
                                                            : std::vector<double>(at.size());
    for (size_t j = 0; j < at.size(); ++j) {
      const auto value_at = [&](double shift) {
        std::vector<double> moved = at;
        moved[j] += shift;
        std::vector<Tensor> arguments = leaves;
        arguments[i] = tensor_of(moved.data(), leaves[i].shape(), {.device = leaves[i].device()});
        return (f(arguments) * dy).sum().item<double>();
      };
      const double numeric = (value_at(eps) - value_at(-eps)) / (2 * eps);
      require(std::abs(slope[j] - numeric) <= atol + rtol * std::abs(numeric), "gradcheck: input ",
              i, " of shape ", leaves[i].shape(), ", element ", j, ": the tape gives ", slope[j],
              ", differences give ", numeric);
    }
  }
  return true;
}

}  // namespace taper::v0
