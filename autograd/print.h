// Prints tensors with their autograd state, and the tape itself.
#pragma once

#include <concepts>
#include <iosfwd>
#include <string>
#include <vector>

#include "framework/base/scalar.h"
#include "framework/base/text_enum.h"
#include "framework/factory/print_options.h"
#include "framework/tensor/tensor.h"

namespace taper::v0 {

// Returns PyTorch's Python representation: "tensor([2., 4.], grad_fn=<MulBackward0>)". A module's
// parameter is preceded by the line "Parameter containing:". Synchronizes if x is on the GPU.
std::string to_string(const Tensor& x);
std::ostream& operator<<(std::ostream& out, const Tensor& x);
// Prints "[2, 3]", "float32", "cuda:1", the number of a Scalar and the word of a TextEnum.
// Constrained so that no implicit conversion selects it.
template <class T>
requires std::same_as<T, Shape> || std::same_as<T, DType> || std::same_as<T, Device> ||
    std::same_as<T, Scalar> || kIsTextEnum<T>
        std::ostream& operator<<(std::ostream& out, const T& x) {
  return out << to_string(x);
}
template <class T>
requires std::same_as<T, std::vector<Tensor>> || std::same_as<T, std::vector<NamedTensor>>
    std::ostream& operator<<(std::ostream& out, const T&) {
  static_assert(!sizeof(T*), "a list of tensors is not printed: print each of its tensors");
  return out;
}

// Returns one line for each node that y depends on, from y to the leaves, followed by the nodes of
// its inputs:
//   #0 MeanBackward0 [] <- #1
//   #1 AddmmBackward0 <- #2, #3
// Shapes are printed for y and for the leaves. Leaves contained in `names`, for example
// module.named_parameters(), are printed with their names. "-" marks an input that needs no
// gradient.
std::string dump_tape(const Tensor& y, const std::vector<NamedTensor>& names = {});
// Returns the same graph in Graphviz format, for `dot -Tsvg`.
std::string dump_tape_dot(const Tensor& y, const std::vector<NamedTensor>& names = {});

// Returns the leaves that y depends on and that require grad.
std::vector<Tensor> leaves_of(const Tensor& y);

}  // namespace taper::v0
