// The tape: one node for each recorded op, with edges to the nodes of its inputs.
//
// A node is one pooled block: header, the op's backward closure with what it saved, the edges, and
// room for the outputs' gradients.
// Nodes carry a sequence number larger than that of any node they depend on, so the engine visits
// them in falling order and needs no second pass.
//
// Threads may build graphs of the same leaves and run them at the same time; the gradients of a
// leaf are added one after the other, in whatever order they come. They may run parts that their
// graphs share, too, with retain_graph. What they must not do then is what changes a tensor or its
// hooks themselves: write in place, set or read grad(), requires_grad_, retain_grad.
#pragma once

#include <cstddef>
#include <initializer_list>
#include <new>
#include <span>
#include <utility>
#include <vector>

#include "framework/memory/atomic.h"
#include "framework/memory/pointers.h"
#include "framework/tensor.h"

namespace taper::v0 {

using NodePtr = IntrusivePtr<Node>;
// A reference to a tensor that outlives it, for lists.
class TensorRef {
 public:
  TensorRef(const Tensor& x) : x_(&x) {}
  TensorRef(const Tensor&&) = delete;
  const Tensor& get() const { return *x_; }
  operator const Tensor&() const { return *x_; }

 private:
  const Tensor* x_;
};

// Where a gradient goes: output `output` of `node`; no node for an input that needs none.
struct Edge {
  NodePtr node;
  uint32_t output = 0;
};

// What a backward closure is given: gradients of the outputs, and places for those of the inputs.
class Gradients {
 public:
  Gradients(Node& node, std::span<const Tensor> dy, std::span<Tensor> dx)
      : node_(node), dy_(dy), dx_(dx) {}

  // Gradient of an output; undefined when nothing reached it (never so for the only output).
  const Tensor& dy(size_t i = 0) const { return dy_[i]; }
  // Whether input i wants a gradient: skip the work where it does not.
  inline bool needs(size_t i) const;
  // Where the gradient of input i is put.
  Tensor& dx(size_t i) { return dx_[i]; }
  Node& node() const { return node_; }

 private:
  Node& node_;
  std::span<const Tensor> dy_;
  std::span<Tensor> dx_;
};

struct ForwardCall;  // autograd/anomaly.h

struct Node : NodeBase {
  uint32_t num_inputs = 0, num_outputs = 0;
  // kRun for each pass that runs the closure now. kUsed: the graph was used up, and what the
  // closure saved is gone, or goes with the last of them.
  Atomic<uint32_t> runs{0};
  static constexpr uint32_t kUsed = 1, kRun = 2;
  uint64_t sequence = 0;
  const char* name = nullptr;
  size_t block_size = 0;
  Edge* edges = nullptr;
  void* closure = nullptr;
  void (*apply)(void* closure, Gradients& g) = nullptr;
  void (*destroy_closure)(void* closure) = nullptr;

  // The pass that keeps its gradients of the outputs in `pending`; 0: none does.
  Atomic<uint64_t> visit{0};
  Tensor* pending = nullptr;
  bool accumulates = false;  // adds into a leaf's grad
  // Called with the gradient of an output before the closure runs; none until there is one.
  Atomic<Hooks*> hooks{nullptr};
  // Gradients kept for outputs that asked (retain_grad): here and not in the tensor, which holds
  // this node.
  std::vector<std::pair<uint32_t, Tensor>> retained;
  // Where the op was called; known in anomaly mode only.
  Shared<ForwardCall> origin;

  Node() : NodeBase([](NodeBase* node) noexcept { destroy(static_cast<Node*>(node)); }) {}
  ~Node();
  // Frees the closure with all it saved; the edges stay.
  void release_saved();
  // With the last reference. (An accumulator stays with its leaf, and lets go of it.)
  static void destroy(Node* node) noexcept;
};

inline bool Gradients::needs(size_t i) const { return bool(node_.edges[i].node); }

// --- grad mode, per thread ---
bool is_grad_enabled();
void set_grad_enabled(BoolArg on);
// A state of this thread, set until the end of the scope.
template <auto get, auto set> class Switched {
 public:
  using State = std::decay_t<decltype(get())>;
  explicit Switched(const State& now) : previous_(get()) { set(now); }
  ~Switched() { set(previous_); }
  Switched& operator=(Switched&&) = delete;  // neither copied nor moved

 private:
  State previous_;
};
using GradMode = Switched<is_grad_enabled, set_grad_enabled>;
// `NoGradGuard guard;`: nothing is recorded until the end of the scope.
struct NoGradGuard : GradMode {
  NoGradGuard() : GradMode(false) {}
};
// PyTorch's faster no_grad. Here that costs nothing to begin with, and what is made under it is a
// constant as any other.
struct InferenceMode : GradMode {
  explicit InferenceMode(BoolArg enabled = true) : GradMode(!enabled) {}
};

// Whether an op on these must be recorded. Undefined tensors count as constants.
bool needs_grad(std::initializer_list<TensorRef> inputs);
bool needs_grad(std::span<const Tensor> inputs);

// The op that made x, or null for a leaf. (Of a view whose base was written to since: made anew.)
Node* node_of(const Tensor& x);
// Makes x, a leaf until now or not, an output of `node`. What was kept by retain_grad moves along.
void set_node(const Tensor& x, NodePtr node, uint32_t output);
// Where the gradient of a tensor goes: its op's node, or the accumulator of a leaf.
Edge edge_of(const Tensor& x);
// The leaf that an accumulating node adds to.
Tensor leaf_of(const Node& accumulator);
// y, a new tensor, at x's place on the tape.
Tensor with_place_of(const Tensor& x, Tensor y);
// x's memory and its place on the tape in another handle, which keeps both when x changes in place.
inline Tensor alias_of(const Tensor& x) { return with_place_of(x, x.detach()); }

// Makes room for a node with `closure_size` bytes, `inputs` edges and so many outputs; makes it the
// outputs' node.
Node* new_node(const char* name, size_t closure_size, std::span<const TensorRef> inputs,
               size_t num_outputs);
void connect(Node* node, std::span<const Tensor> outputs);

// What the gradient of a tensor needs of it besides its values.
struct Meta {
  Shape shape;
  DType dtype = kFloat32;
  Device device;
  explicit Meta(const Tensor& x);
  // The gradient of a broadcast operand from its full-size one: summed to its shape, in its dtype,
  // and back on the CPU for a number that met CUDA tensors.
  Tensor reduce(const Tensor& dx) const;
  // For the output of an op with several that no gradient has reached.
  Tensor or_zeros(const Tensor& dy) const;
};

// A checkpointed part of a forward pass (autograd/checkpoint.cpp), which keeps nothing and runs
// again when something saved is asked for.
struct Region : Counted {};

// A tensor that a closure needs later. Throws, in PyTorch's words, when its memory was changed in
// place in between. An input keeps its place on the tape, so that its gradient can be
// differentiated again; an output is kept detached (else the graph would hold itself) and put back
// when read.
class Saved {
 public:
  Saved() = default;
  explicit Saved(const Tensor& x);
  static Saved output(const Tensor& y, uint32_t number = 0);
  Tensor get(const Gradients& g) const;
  // The same for a reader that is no node; an output comes detached.
  Tensor read(const char* reader) const;

 private:
  friend struct CheckpointRegion;
  void keep(const Tensor& x);

  // In a region: without memory, only dtype, shape and place on the tape.
  Tensor x_;
  IntrusivePtr<Region> region_;
  uint32_t version_ = 0;      // in a region: the how manieth that it saved
  uint32_t output_ = kInput;  // which output of the node
  static constexpr uint32_t kInput = UINT32_MAX;
};

// For the backward pass of a fused kernel, which is not on the tape: a second derivative through it
// would be silently lost. Throws NotImplementedError naming `op` when the pass is recorded.
void refuse_second_derivative(const char* op, const Tensor& dy);

namespace detail {

template <class F> void fill_node(Node* node, F&& backward) {
  using Closure = std::decay_t<F>;
  static_assert(alignof(Closure) <= 16);
  new (node->closure) Closure(std::forward<F>(backward));
  node->apply = [](void* closure, Gradients& g) { (*static_cast<Closure*>(closure))(g); };
  node->destroy_closure = [](void* closure) { static_cast<Closure*>(closure)->~Closure(); };
}

}  // namespace detail

// Puts outputs on the tape as made together of any number of inputs; g.dy(i) is output i's
// gradient.
template <class F>
void record_many(const char* name, std::span<const Tensor> outputs,
                 std::span<const TensorRef> inputs, F&& backward) {
  Node* node = new_node(name, sizeof(std::decay_t<F>), inputs, outputs.size());
  detail::fill_node(node, std::forward<F>(backward));
  connect(node, outputs);
}

// Puts y on the tape as made by `name` (PyTorch's node name, "MulBackward0") of the inputs. The
// closure computes g.dx(i) from g.dy() for each input with g.needs(i). Call it only when
// needs_grad(inputs). Returns y.
template <class F>
Tensor record(const char* name, Tensor y, std::initializer_list<TensorRef> inputs, F&& backward) {
  record_many(name, {&y, 1}, inputs, std::forward<F>(backward));
  return y;
}

}  // namespace taper::v0
