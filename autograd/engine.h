// Running the tape backwards (https://pytorch.org/docs/stable/autograd.html).
#pragma once

#include <span>
#include <vector>

#include "autograd/hooks.h"
#include "autograd/node.h"
#include "framework/callable.h"

namespace taper::v0 {

// Adds the gradients of `outputs` into the .grad of every leaf they depend on. `gradients` may be
// empty when each output has one element. Afterwards the graph is used up unless retain_graph;
// create_graph records the pass itself, for second derivatives.
void backward(std::span<const Tensor> outputs, std::span<const Tensor> gradients = {},
              BoolArg retain_graph = false, BoolArg create_graph = false);

// The gradients of `outputs` with respect to `inputs`; no .grad is touched. An input that the
// outputs do not depend on gives an undefined tensor when allow_unused, else it is refused.
// A given gradient has its output's shape and device; its dtype is converted.
std::vector<Tensor> grad(const std::vector<Tensor>& outputs, const std::vector<Tensor>& inputs,
                         const std::vector<Tensor>& gradients = {}, BoolArg retain_graph = false,
                         BoolArg create_graph = false, BoolArg allow_unused = false);

// Compares the gradients of f (any result shape) at float64 inputs with central differences. f may
// itself call grad() with create_graph. Returns true. Throws Error naming the input, the element
// and both values at the first difference beyond atol + rtol * |numeric|.
bool gradcheck(const Callable<Tensor(const std::vector<Tensor>&)>& f,
               const std::vector<Tensor>& inputs, RealArg eps = 1e-6, RealArg atol = 1e-5,
               RealArg rtol = 1e-3);
// The same for second derivatives: compares the gradients of f's gradients, by the inputs and by
// the gradient that comes in, with central differences of f's gradients.
bool gradgradcheck(const Callable<Tensor(const std::vector<Tensor>&)>& f,
                   const std::vector<Tensor>& inputs, RealArg eps = 1e-6, RealArg atol = 1e-5,
                   RealArg rtol = 1e-3);

}  // namespace taper::v0
