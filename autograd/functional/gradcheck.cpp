#include <cmath>
#include <functional>

#include "autograd/engine.h"
#include "autograd/ops/binary_ops.h"
#include "autograd/ops/shape_ops.h"
#include "framework/factory/factories.h"

namespace taper::v0 {
namespace {

using TensorsToTensor = std::function<Tensor(const std::vector<Tensor>&)>;

struct Tolerance {
  double eps, atol, rtol;
};

std::vector<Tensor> new_leaves(const char* check, const std::vector<Tensor>& inputs) {
  std::vector<Tensor> leaves;
  for (const Tensor& x : inputs) {
    require(x.dtype() == kFloat64, check, " needs float64 inputs, got ", x.dtype());
    leaves.push_back(x.detach().clone().requires_grad_());
  }
  return leaves;
}

// Returns fixed random weights for the elements of y. They are uneven, so that errors of opposite
// sign do not cancel.
Tensor direction_for(const Tensor& y, uint64_t seed) {
  Generator generator(seed);
  return rand(y.shape(), {.dtype = kFloat64, .device = y.device()}, &generator);
}

// Compares the gradient of sum(f(leaves) * dy) with respect to each element of each leaf with a
// central difference. f is evaluated with recording on, since it may call grad() itself.
void compare(const char* check, const TensorsToTensor& f, const std::vector<Tensor>& leaves,
             Tolerance tolerance) {
  const Tensor y = f(leaves), dy = direction_for(y, 20200229);
  const std::vector<Tensor> analytic = grad({y}, leaves, {dy}, {.allow_unused = true});
  for (size_t i = 0; i < leaves.size(); ++i) {
    const std::vector<double> at = leaves[i].cpu().to_vector<double>();
    const std::vector<double> slope = analytic[i].defined() ? analytic[i].cpu().to_vector<double>()
                                                            : std::vector<double>(at.size());
    for (size_t j = 0; j < at.size(); ++j) {
      const auto value_at = [&](double shift) {
        std::vector<double> moved = at;
        moved[j] += shift;
        std::vector<Tensor> arguments = leaves;
        arguments[i] = tensor_of(moved.data(), leaves[i].shape(),
                                 {.device = leaves[i].device(), .requires_grad = true});
        return (f(arguments).detach() * dy).sum().item<double>();
      };
      const auto [eps, atol, rtol] = tolerance;
      const double numeric = (value_at(eps) - value_at(-eps)) / (2 * eps);
      require(std::abs(slope[j] - numeric) <= atol + rtol * std::abs(numeric), check, ": input ", i,
              " of shape ", leaves[i].shape(), ", element ", j, ": the analytic gradient is ",
              slope[j], ", the numerical one is ", numeric);
    }
  }
}

}  // namespace

bool gradcheck(const TensorsToTensor& f, const std::vector<Tensor>& inputs, RealArg eps,
               RealArg atol, RealArg rtol) {
  const AutoGradMode recording(true);
  compare("gradcheck", f, new_leaves("gradcheck", inputs), {eps, atol, rtol});
  return true;
}

bool gradcheck(const TensorsToTensor& f, const std::vector<Tensor>& inputs,
               const GradcheckOptions& options) {
  return gradcheck(f, inputs, options.eps, options.atol, options.rtol);
}

bool gradgradcheck(const TensorsToTensor& f, const std::vector<Tensor>& inputs, RealArg eps,
                   RealArg atol, RealArg rtol) {
  const AutoGradMode recording(true);
  std::vector<Tensor> leaves = new_leaves("gradgradcheck", inputs);
  leaves.push_back(direction_for(f(leaves), 20200301).requires_grad_());
  // The flattened and concatenated gradients of f's inputs, as a function of the inputs and dy.
  const auto gradients = [&f](const std::vector<Tensor>& given) {
    const std::vector<Tensor> x(given.begin(), given.end() - 1);
    std::vector<Tensor> parts;
    for (const Tensor& dx :
         grad({f(x)}, x, {given.back()}, {.create_graph = true, .allow_unused = true})) {
      if (dx.defined()) parts.push_back(flatten(dx));
    }
    require(!parts.empty(), "gradgradcheck: the function does not depend on any of its inputs");
    return cat(parts);
  };
  compare("gradgradcheck", gradients, leaves, {eps, atol, rtol});
  return true;
}

bool gradgradcheck(const TensorsToTensor& f, const std::vector<Tensor>& inputs,
                   const GradcheckOptions& options) {
  return gradgradcheck(f, inputs, options.eps, options.atol, options.rtol);
}

}  // namespace taper::v0
