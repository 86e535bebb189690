// The tape: one node for each recorded op, with edges to the nodes of its inputs.
//
// A node is one block from a pool. The block holds the header, the backward closure with the
// tensors that it saved, the edges, and space for the gradients of the outputs. A node's sequence
// number is larger than that of every node it depends on. The engine therefore visits nodes in
// descending order and needs no dependency count.
//
// Threads may build graphs on the same leaves and run backward passes concurrently. The gradients
// of a leaf are then added one after the other, in an unspecified order. With retain_graph, threads
// may also run a part that their graphs share. They must not change a shared tensor or its hooks at
// the same time: write in place, set or read grad(), or call requires_grad_ or retain_grad.
#pragma once

#include <atomic>
#include <cstddef>
#include <initializer_list>
#include <memory>
#include <new>
#include <span>
#include <utility>
#include <vector>

#include "autograd/gradients.h"
#include "framework/tensor/tensor.h"

namespace taper::v0 {

// A reference to a tensor, for use in lists. The tensor must outlive it.
class TensorRef {
 public:
  TensorRef(const Tensor& x) : x_(&x) {}
  TensorRef(const Tensor&&) = delete;
  const Tensor& get() const { return *x_; }
  operator const Tensor&() const { return *x_; }

 private:
  const Tensor* x_;
};

struct ForwardCall;  // autograd/anomaly.h

struct Node : NodeBase {
  uint32_t num_inputs = 0, num_outputs = 0;
  // The passes that are running the closure, each counted as kRun, plus kUsed once the graph has
  // been consumed. If kUsed is set, the last running pass frees the tensors that the closure saved.
  std::atomic<uint32_t> runs{0};
  static constexpr uint32_t kUsed = 1, kRun = 2;
  uint64_t sequence = 0;
  const char* name = nullptr;
  size_t block_size = 0;
  Edge* edges = nullptr;
  void* closure = nullptr;
  void (*apply)(void* closure, Gradients& g) = nullptr;
  void (*destroy_closure)(void* closure) = nullptr;

  // Identifies the pass whose output gradients are in `pending`; 0 if there is none.
  std::atomic<uint64_t> visit{0};
  Tensor* pending = nullptr;
  bool accumulates = false;  // adds into a leaf's grad
  // Copies to another device. The engine passes each gradient on at once instead of their sum, so
  // that gradients are added in the same order as without the copy.
  bool is_move = false;
  // Hooks that run on the gradients of the outputs before the closure. Null until the first is
  // registered.
  std::atomic<Hooks*> hooks{nullptr};
  // Gradients of the outputs with retain_grad. They are stored here because the tensor already owns
  // this node; a gradient inside the tensor would be a reference cycle.
  std::vector<std::pair<uint32_t, Tensor>> retained;
  // The call site of the op. Recorded in anomaly mode only.
  std::shared_ptr<ForwardCall> origin;

  Node() : NodeBase([](NodeBase* node) noexcept { destroy(static_cast<Node*>(node)); }) {}
  ~Node();
  // Destroys the closure and the tensors that it saved. Keeps the edges.
  void release_saved();
  // Called when the last reference is dropped. Frees the node, except an accumulator: that belongs
  // to its leaf and only releases its reference to the leaf.
  static void destroy(Node* node) noexcept;
};

inline bool Gradients::needs(size_t i) const { return bool(node_.edges[i].node); }
inline Tensor Gradients::take_sum(size_t i) const {
  return sums_ ? sums_->take(node_.edges[i]) : Tensor();
}

// --- grad mode, per thread ---
bool is_grad_enabled();
void set_grad_enabled(BoolArg on);
// Sets a per-thread state and restores the previous one at the end of the scope.
template <auto get, auto set> class ThreadStateGuard {
 public:
  using State = std::decay_t<decltype(get())>;
  explicit ThreadStateGuard(const State& now) : previous_(get()) { set(now); }
  ~ThreadStateGuard() { set(previous_); }
  ThreadStateGuard& operator=(ThreadStateGuard&&) = delete;  // neither copied nor moved

 private:
  State previous_;
};
using AutoGradMode = ThreadStateGuard<is_grad_enabled, set_grad_enabled>;
// `NoGradGuard guard;` disables recording until the end of the scope.
struct NoGradGuard : AutoGradMode {
  NoGradGuard() : AutoGradMode(false) {}
};
// In PyTorch, inference mode is faster than no_grad. Here it is the same as NoGradGuard: tensors
// created under it are ordinary constants.
struct InferenceMode : AutoGradMode {
  explicit InferenceMode(BoolArg enabled = true) : AutoGradMode(!enabled) {}
};

// Returns whether an op on these inputs must be recorded. Undefined tensors count as constants.
bool needs_grad(std::initializer_list<TensorRef> inputs);
bool needs_grad(std::span<const Tensor> inputs);

// Returns the node that produced x, or null for a leaf. If x is a view whose base has been written
// to since, the node is rebuilt first.
Node* node_of(const Tensor& x);
// Makes x an output of `node`, whether or not it was a leaf. If x had a node with a gradient kept
// by retain_grad, moves that gradient to `node`.
void set_node(const Tensor& x, NodePtr node, uint32_t output);
// Returns where x's gradient is sent: the node that produced x, or a leaf's accumulator.
Edge edge_of(const Tensor& x);
// Returns the leaf whose grad this accumulator adds to.
Tensor leaf_of(const Node& accumulator);
// Gives the new tensor y the same node and output number as x, and returns y.
Tensor with_place_of(const Tensor& x, Tensor y);
// Returns a new handle to x's memory with x's current place on the tape. The handle keeps both when
// x is later changed in place.
inline Tensor alias_of(const Tensor& x) { return with_place_of(x, x.detach()); }

// new_node allocates a node with an uninitialized closure of `closure_size` bytes, an edge for each
// input and the given number of outputs. connect makes it the node of these outputs.
Node* new_node(const char* name, size_t closure_size, std::span<const TensorRef> inputs,
               size_t num_outputs);
void connect(Node* node, std::span<const Tensor> outputs);

Tensor sum_to(const Tensor& dy, const Shape& shape);  // autograd/ops/binary_ops.h

// What a backward pass must know about a tensor apart from its values.
struct TensorMeta {
  Shape shape;
  DType dtype = kFloat32;
  Device device;
  explicit TensorMeta(const Tensor& x);
  // Converts the gradient dx, which has the shape after broadcasting, to the gradient of the
  // operand. Sums it to this shape, converts it to this dtype, and copies it to the CPU if the
  // operand was a CPU number combined with CUDA tensors.
  Tensor reduce(const Tensor& dx) const;
  // Returns dy, or zeros if dy is undefined. It serves ops with several outputs, because a gradient
  // may reach only some of them.
  Tensor or_zeros(const Tensor& dy) const;
};

// A checkpointed part of a forward pass (autograd/activation_checkpoint.cpp). It saves no tensors.
// The first read of a saved tensor runs the part again.
struct CheckpointRegionBase : Counted {};

// A tensor that a closure reads in the backward pass. Reading it throws Error, with PyTorch's
// message, if its memory has been changed in place since it was saved. An input keeps its place on
// the tape, so that its gradient can be differentiated again. An output is stored detached, since
// the graph would otherwise own itself; reading it restores its place.
class SavedTensor {
 public:
  SavedTensor() = default;
  explicit SavedTensor(const Tensor& x);
  static SavedTensor output(const Tensor& y, uint32_t number = 0);
  Tensor get(const Gradients& g) const;
  // Like get(), but for a caller that is not a node; `reader` names it in errors. If the tensor is
  // an output, returns it detached.
  Tensor read(const char* reader) const;

 private:
  friend struct CheckpointRegion;
  void keep(const Tensor& x);

  // If it was saved in a checkpointed region, it has no memory, only dtype, shape and its place on
  // the tape.
  Tensor x_;
  IntrusivePtr<CheckpointRegionBase> region_;
  uint32_t version_ = 0;      // in a region: its index among the tensors saved there
  uint32_t output_ = kInput;  // which output of the node, or kInput
  static constexpr uint32_t kInput = UINT32_MAX;
};

// Throws NotImplementedError naming `op` if this backward pass is being recorded. Called by
// backward passes of fused kernels: they are not on the tape, so a second derivative would silently
// lose their contribution.
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

// Records a node that computed all of `outputs` from all of `inputs`. In the closure g.dy(i) is the
// gradient of output i.
template <class F>
void record_many(const char* name, std::span<const Tensor> outputs,
                 std::span<const TensorRef> inputs, F&& backward) {
  Node* node = new_node(name, sizeof(std::decay_t<F>), inputs, outputs.size());
  detail::fill_node(node, std::forward<F>(backward));
  connect(node, outputs);
}

// Records that op `name` computed y from the inputs, and returns y. `name` is PyTorch's node name,
// for example "MulBackward0". The closure computes g.dx(i) from g.dy() for each input with
// g.needs(i). Call this only if needs_grad(inputs).
//
//   return record("ExpBackward0", y, {x}, [y = SavedTensor::output(y)](Gradients& g) {
//     g.dx(0) = g.dy() * y.get(g);
//   });
template <class F>
Tensor record(const char* name, Tensor y, std::initializer_list<TensorRef> inputs, F&& backward) {
  record_many(name, {&y, 1}, inputs, std::forward<F>(backward));
  return y;
}

}  // namespace taper::v0
