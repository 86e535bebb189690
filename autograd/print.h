// Tensors, with what the tape knows of them, and the tape as text.
#pragma once

#include <concepts>
#include <iosfwd>
#include <string>
#include <vector>

#include "framework/tensor.h"

namespace taper::v0 {

// PyTorch's Python repr: "tensor([2., 4.], grad_fn=<MulBackward0>)"; a module's parameter has
// "Parameter containing:" on a line before it. Waits for the GPU when the tensor is there.
std::string to_string(const Tensor& x);
std::ostream& operator<<(std::ostream& out, const Tensor& x);
// "[2, 3]", "float32", "cuda:1". No conversion leads here.
template <class T>
requires std::same_as<T, Shape> || std::same_as<T, DType> || std::same_as<T, Device> std::ostream&
operator<<(std::ostream& out, const T& x) {
  return out << to_string(x);
}

// A line for each node that y depends on, from y to the leaves, with the nodes that it reads from:
//   #0 MeanBackward0 [] <- #1
//   #1 AddmmBackward0 <- #2, #3
// Shapes are known of y and of the leaves; leaves that are listed (module.named_parameters()) have
// their names. "-" stands for an input that needs no gradient.
std::string dump_tape(const Tensor& y, const std::vector<NamedTensor>& names = {});
// The same for Graphviz: dot -Tsvg.
std::string dump_tape_dot(const Tensor& y, const std::vector<NamedTensor>& names = {});

// The leaves that require grad and that y depends on.
std::vector<Tensor> leaves_of(const Tensor& y);

}  // namespace taper::v0
