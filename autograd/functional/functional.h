// Derivatives of functions: vector-Jacobian products, Jacobians, Hessians
// (https://docs.pytorch.org/docs/stable/autograd.html#functional-higher-level-api).
//
// Each function calls f with tensors that require grad: detached copies of the inputs or, with
// create_graph, tensors that keep the inputs' history. With create_graph the results are on the
// tape and can be differentiated again. An output that does not depend on an input gives zeros.
#pragma once

#include <functional>
#include <utility>
#include <vector>

#include "framework/tensor/tensor.h"

namespace taper::v0 {

using Tensors = std::vector<Tensor>;
using TensorsFunction = std::function<Tensors(const Tensors& inputs)>;
using TensorFunction = std::function<Tensor(const Tensor& input)>;

// Returns f's outputs and the vector-Jacobian products, one for each input. v has the outputs'
// shapes. It may be omitted if f has one output with one element.
std::pair<Tensors, Tensors> vjp(const TensorsFunction& f, const Tensors& inputs,
                                const Tensors& v = {}, BoolArg create_graph = false);
std::pair<Tensor, Tensor> vjp(const TensorFunction& f, const Tensor& input, const Tensor& v = {},
                              BoolArg create_graph = false);

// Returns f's outputs and the Jacobian-vector products, one for each output. v has the inputs'
// shapes. It may be omitted if f has one input with one element. Differentiates twice, so the ops
// in f must support second derivatives.
//
//   const auto [y, directional] = jvp([](const Tensor& x) { return x.exp(); }, x, v);
std::pair<Tensors, Tensors> jvp(const TensorsFunction& f, const Tensors& inputs,
                                const Tensors& v = {}, BoolArg create_graph = false);
std::pair<Tensor, Tensor> jvp(const TensorFunction& f, const Tensor& input, const Tensor& v = {},
                              BoolArg create_graph = false);

// Returns the Jacobians: element [i][j] is the derivative of output i with respect to input j. Its
// shape is the output's shape followed by the input's. Runs one backward pass per output element.
std::vector<Tensors> jacobian(const TensorsFunction& f, const Tensors& inputs,
                              BoolArg create_graph = false);
Tensor jacobian(const TensorFunction& f, const Tensor& input, BoolArg create_graph = false);

// Returns the second derivatives of a function with one output of one element. Element [i][j] is
// the derivative with respect to inputs i and j. Its shape is input i's shape followed by input
// j's.
std::vector<Tensors> hessian(const TensorsFunction& f, const Tensors& inputs,
                             BoolArg create_graph = false);
Tensor hessian(const TensorFunction& f, const Tensor& input, BoolArg create_graph = false);

}  // namespace taper::v0
