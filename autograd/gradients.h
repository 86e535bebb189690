// What a node's backward closure receives and returns.
#pragma once

#include <cstdint>
#include <span>

#include "framework/tensor/tensor.h"

namespace taper::v0 {

using NodePtr = IntrusivePtr<Node>;

// The destination of a gradient: output `output` of `node`. `node` is null if the input needs no
// gradient.
struct Edge {
  NodePtr node;
  uint32_t output = 0;
};

// The sums of the gradients that a backward pass has sent to the nodes so far.
class GradientSums {
 public:
  // Removes and returns the sum at an edge. Returns an undefined tensor if there is none, or if a
  // closure must not add to it.
  virtual Tensor take(const Edge& edge) = 0;

 protected:
  ~GradientSums() = default;
};

// The argument of a backward closure: the gradients of the outputs, and slots for the gradients of
// the inputs.
class Gradients {
 public:
  Gradients(Node& node, std::span<const Tensor> dy, std::span<Tensor> dx,
            GradientSums* sums = nullptr)
      : node_(node), dy_(dy), dx_(dx), sums_(sums) {}

  // Returns the gradient of output i. It is undefined if no gradient reached that output, which
  // cannot happen if the node has only one output.
  const Tensor& dy(size_t i = 0) const { return dy_[i]; }
  // Returns whether input i needs a gradient. Closures skip the work for an input that does not.
  inline bool needs(size_t i) const;
  // Returns the slot for the gradient of input i.
  Tensor& dx(size_t i) { return dx_[i]; }
  // For a kernel that can add to its result, which saves the engine an addition. Returns the sum of
  // the gradients that other ops have sent to input i so far. If it is defined, the closure must
  // include it in dx(i).
  inline Tensor take_sum(size_t i) const;
  Node& node() const { return node_; }

 private:
  Node& node_;
  std::span<const Tensor> dy_;
  std::span<Tensor> dx_;
  GradientSums* sums_;
};

}  // namespace taper::v0
