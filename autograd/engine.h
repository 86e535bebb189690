// Runs backward passes over the tape (https://pytorch.org/docs/stable/autograd.html).
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "autograd/node.h"
#include "autograd/tensor_hooks.h"

namespace taper::v0 {

// Adds the gradients of `outputs` to the .grad of every leaf they depend on. `gradients` holds one
// tensor for each output; it may be empty if every output has one element. Consumes the graph
// unless retain_graph is set. create_graph records the pass itself, so that the gradients can be
// differentiated again. Does not synchronize.
void backward(std::span<const Tensor> outputs, std::span<const Tensor> gradients = {},
              BoolArg retain_graph = false, BoolArg create_graph = false);
void backward(std::span<const Tensor> outputs, std::span<const Tensor> gradients,
              const BackwardOptions& options);

// Returns the gradients of `outputs` with respect to `inputs`, without changing any .grad. For an
// input that the outputs do not depend on, returns an undefined tensor if allow_unused is set and
// throws Error otherwise. Each of `gradients` has the shape and device of its output and is
// converted to its dtype. Does not synchronize.
//
//   const Tensor dx = grad({loss}, {x}, {.create_graph = true})[0];
std::vector<Tensor> grad(const std::vector<Tensor>& outputs, const std::vector<Tensor>& inputs,
                         const GradOptions& options = {});
std::vector<Tensor> grad(const std::vector<Tensor>& outputs, const std::vector<Tensor>& inputs,
                         const std::vector<Tensor>& gradients, const GradOptions& options);
template <class = void>
std::vector<Tensor> grad(const std::vector<Tensor>& outputs, const std::vector<Tensor>& inputs,
                         const std::vector<Tensor>& gradients, BoolArg retain_graph = false,
                         BoolArg create_graph = false, BoolArg allow_unused = false) {
  return grad(outputs, inputs, gradients, GradOptions{retain_graph, create_graph, allow_unused});
}

struct GradcheckOptions {
  double eps = 1e-6;
  double atol = 1e-5;
  double rtol = 1e-3;
};
// Compares the gradients of f at float64 inputs with central differences of step eps. f's result
// may have any shape, and f may call grad() with create_graph. Returns true. At the first
// difference above atol + rtol * |numeric| it throws Error naming the input, the element and both
// values. Synchronizes.
//
//   gradcheck(f, {x}, {.atol = 1e-4});
bool gradcheck(const std::function<Tensor(const std::vector<Tensor>&)>& f,
               const std::vector<Tensor>& inputs, const GradcheckOptions& options);
bool gradcheck(const std::function<Tensor(const std::vector<Tensor>&)>& f,
               const std::vector<Tensor>& inputs, RealArg eps = 1e-6, RealArg atol = 1e-5,
               RealArg rtol = 1e-3);
// Like gradcheck, for second derivatives: compares the gradients of f's gradients, with respect to
// the inputs and to the incoming gradient, with central differences of f's gradients.
bool gradgradcheck(const std::function<Tensor(const std::vector<Tensor>&)>& f,
                   const std::vector<Tensor>& inputs, const GradcheckOptions& options);
bool gradgradcheck(const std::function<Tensor(const std::vector<Tensor>&)>& f,
                   const std::vector<Tensor>& inputs, RealArg eps = 1e-6, RealArg atol = 1e-5,
                   RealArg rtol = 1e-3);

}  // namespace taper::v0
