// Derivatives of functions
// (https://docs.pytorch.org/docs/stable/autograd.html#functional-higher-level-api). The function is
// called with tensors of its own, which require grad; with create_graph it sees the inputs'
// history, and results are on the tape. What does not depend on an input gives zeros.
#pragma once

#include <utility>
#include <vector>

#include "framework/callable.h"
#include "framework/tensor.h"

namespace taper::v0 {

using Tensors = std::vector<Tensor>;
using TensorsFunction = Callable<Tensors(const Tensors& inputs)>;
using TensorFunction = Callable<Tensor(const Tensor& input)>;

// Outputs, and v times the Jacobian: one for each input. v has the outputs' shapes; it may be left
// out for one output of one element.
std::pair<Tensors, Tensors> vjp(const TensorsFunction& f, const Tensors& inputs,
                                const Tensors& v = {}, BoolArg create_graph = false);
std::pair<Tensor, Tensor> vjp(const TensorFunction& f, const Tensor& input, const Tensor& v = {},
                              BoolArg create_graph = false);

// Outputs, and the Jacobian times v: one for each output. v has the inputs' shapes; it may be left
// out for one input of one element. Differentiates twice, so f's operators must allow that.
std::pair<Tensors, Tensors> jvp(const TensorsFunction& f, const Tensors& inputs,
                                const Tensors& v = {}, BoolArg create_graph = false);
std::pair<Tensor, Tensor> jvp(const TensorFunction& f, const Tensor& input, const Tensor& v = {},
                              BoolArg create_graph = false);

// [i][j]: of output i by input j, of the output's shape, then the input's. One backward pass for
// each element of the outputs.
std::vector<Tensors> jacobian(const TensorsFunction& f, const Tensors& inputs,
                              BoolArg create_graph = false);
Tensor jacobian(const TensorFunction& f, const Tensor& input, BoolArg create_graph = false);

// [i][j]: of a function with one output of one element by inputs i and j, of the shape of i, then
// that of j.
std::vector<Tensors> hessian(const TensorsFunction& f, const Tensors& inputs,
                             BoolArg create_graph = false);
Tensor hessian(const TensorFunction& f, const Tensor& input, BoolArg create_graph = false);

}  // namespace taper::v0
