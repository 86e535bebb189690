#include "autograd/node.h"

#include <algorithm>
#include <atomic>
#include <mutex>

#include "autograd/activation_checkpoint.h"
#include "autograd/anomaly.h"
#include "autograd/tensor_hooks.h"
#include "framework/factory/factories.h"
#include "framework/memory/small_blocks.h"

namespace taper::v0 {
namespace {

thread_local bool grad_enabled = true;
thread_local uint64_t next_sequence = 1;

constexpr size_t round16(size_t n) { return (n + 15) / 16 * 16; }
constexpr size_t kHeader = round16(sizeof(Node));

void free_node(Node* node) {
  node->release_saved();
  std::destroy_n(node->edges, node->num_inputs);
  std::destroy_n(node->pending, node->num_outputs);
  const size_t size = node->block_size;
  node->~Node();
  free_block(node, size);
}

bool wants_grad(const Tensor& x) { return x.defined() && x.requires_grad(); }

// Adds the incoming gradient to the leaf's grad.
struct Accumulate {
  TensorImpl* leaf;
  std::mutex mutex{};

  explicit Accumulate(TensorImpl* x) : leaf(x) {}
  Accumulate(Accumulate&& other) noexcept : leaf(other.leaf) {}

  void operator()(Gradients& g) {
    Tensor target(IntrusivePtr<TensorImpl>::share(leaf));
    add(target, g);
    Hooks* hooks = g.node().hooks.load(std::memory_order_acquire);
    if (hooks) run_hooks(*hooks, Hooks::kAfterAccumulation, target);
  }
  void add(const Tensor& target, Gradients& g) {
    const std::lock_guard lock(mutex);
    const Tensor grad = target.grad();
    if (!grad.defined()) {
      // The engine passes tensors that nobody else writes to, so they are kept without a copy.
      // Views and tensors that share memory are copied.
      const bool own = g.dy().impl()->refs.load() == 1 && g.dy().storage()->refs.load() == 1 &&
                       g.dy().is_contiguous();
      target.set_grad(own || is_grad_enabled() ? g.dy() : g.dy().clone());
    } else if (is_grad_enabled()) {
      target.set_grad(grad.add(g.dy()));
    } else {
      grad.add_(g.dy());
    }
  }
};

TensorImpl* leaf_at(const Node& accumulator) {
  return static_cast<const Accumulate*>(accumulator.closure)->leaf;
}

Node* make_accumulator(TensorImpl* leaf) {
  Node* node = new_node("AccumulateGrad", sizeof(Accumulate), {}, 1);
  node->refs = 0;
  node->accumulates = true;
  node->origin = nullptr;
  detail::fill_node(node, Accumulate(leaf));
  Node* first = nullptr;
  if (leaf->accumulator.compare_exchange_strong(first, node)) {
    leaf->free_accumulator = free_node;
    return node;
  }
  free_node(node);  // another thread created one first
  return first;
}

// Returns the edge to the leaf's accumulator. The leaf owns its accumulator, so that the pointer
// can be read at any time without a lock. While a graph references the accumulator, the accumulator
// references the leaf.
Edge accumulator_of(TensorImpl* leaf) {
  Node* node = leaf->accumulator.load(std::memory_order_acquire);
  if (!node) node = make_accumulator(leaf);
  NodePtr held = NodePtr::try_share(node);
  for (; !held; held = NodePtr::try_share(node)) {
    constexpr int kPlacing = -1;
    int nobody = 0;
    if (!node->refs.compare_exchange_strong(nobody, kPlacing, std::memory_order_acquire)) continue;
    (void)IntrusivePtr<TensorImpl>::share(leaf).release();
    // The number is lower than that of the first op that uses the leaf in these graphs. The leaf's
    // gradient is therefore complete, and its hooks run, as soon as that op's backward has run.
    node->sequence = next_sequence++;
    node->refs.store(1, std::memory_order_release);
    held = NodePtr::adopt(node);
    break;
  }
  return {std::move(held), 0};
}

void let_go(Node* node) {
  if (!node->accumulates) return free_node(node);
  (void)IntrusivePtr<TensorImpl>::adopt(leaf_at(*node));
}

}  // namespace

Node::~Node() {
  if (Hooks* all = hooks) Hooks::let_go(all);
}

void Node::release_saved() {
  if (destroy_closure) destroy_closure(closure);
  destroy_closure = nullptr;
}

// Destroys a node. Nodes that are released while another one is being destroyed are queued, because
// destroying a chain of a million nodes must not recurse a million levels.
void Node::destroy(Node* node) noexcept {
  static thread_local std::vector<Node*>* waiting = nullptr;
  if (waiting) return waiting->push_back(node);
  std::vector<Node*> list;
  waiting = &list;
  let_go(node);
  while (!list.empty()) {
    Node* next = list.back();
    list.pop_back();
    let_go(next);
  }
  waiting = nullptr;
}

bool is_grad_enabled() { return grad_enabled; }
void set_grad_enabled(BoolArg on) { grad_enabled = on; }

bool needs_grad(std::initializer_list<TensorRef> inputs) {
  return grad_enabled && std::any_of(inputs.begin(), inputs.end(), wants_grad);
}
bool needs_grad(std::span<const Tensor> inputs) {
  return grad_enabled && std::any_of(inputs.begin(), inputs.end(), wants_grad);
}

Edge edge_of(const Tensor& x) {
  if (!x.defined()) return {};
  TensorImpl* impl = x.impl();
  if (Node* node = node_of(x)) return {NodePtr::share(node), impl->output};
  return impl->requires_grad ? accumulator_of(impl) : Edge{};
}

Tensor leaf_of(const Node& accumulator) {
  return Tensor(IntrusivePtr<TensorImpl>::share(leaf_at(accumulator)));
}

void set_node(const Tensor& x, NodePtr node, uint32_t output) {
  TensorImpl* impl = x.impl();
  if (auto* old = static_cast<Node*>(impl->grad_fn.get()); old && node) {
    for (auto& [kept_output, kept] : old->retained) {
      if (kept_output == impl->output) node->retained.push_back({output, std::move(kept)});
    }
    std::erase_if(old->retained, [&](const auto& r) { return r.first == impl->output; });
  }
  impl->grad_fn = IntrusivePtr<NodeBase>::adopt(node.release());
  impl->output = output;
}

Tensor with_place_of(const Tensor& x, Tensor y) {
  if (Node* node = node_of(x)) set_node(y, NodePtr::share(node), x.impl()->output);
  return y;
}

Node* new_node(const char* name, size_t closure_size, std::span<const TensorRef> inputs,
               size_t num_outputs) {
  const size_t edges_at = kHeader + round16(closure_size);
  const size_t pending_at = edges_at + inputs.size() * sizeof(Edge);
  const size_t size = pending_at + num_outputs * sizeof(Tensor);
  char* block = static_cast<char*>(allocate_block(size));
  Node* node = new (block) Node;
  node->name = name;
  node->block_size = size;
  node->closure = block + kHeader;
  node->edges = reinterpret_cast<Edge*>(block + edges_at);
  node->pending = reinterpret_cast<Tensor*>(block + pending_at);
  for (; node->num_outputs < num_outputs; ++node->num_outputs) {
    new (&node->pending[node->num_outputs]) Tensor;
  }
  uint64_t sequence = next_sequence;
  for (const Tensor& x : inputs) {
    Edge* edge = new (&node->edges[node->num_inputs++]) Edge(edge_of(x));
    if (edge->node) sequence = std::max(sequence, edge->node->sequence + 1);
  }
  node->sequence = sequence;
  next_sequence = sequence + 1;
  if (is_anomaly_enabled()) node->origin = current_call();
  return node;
}

void connect(Node* node, std::span<const Tensor> outputs) {
  for (size_t i = 0; i < outputs.size(); ++i) {
    TensorImpl* impl = outputs[i].impl();
    impl->grad_fn = i == 0 ? IntrusivePtr<NodeBase>::adopt(node) : outputs[0].impl()->grad_fn;
    impl->output = uint32_t(i);
  }
}

TensorMeta::TensorMeta(const Tensor& x) {
  if (!x.defined()) return;
  shape = x.shape();
  dtype = x.dtype();
  device = x.device();
}
Tensor TensorMeta::reduce(const Tensor& dx) const { return sum_to(dx, shape).to(device, dtype); }
Tensor TensorMeta::or_zeros(const Tensor& dy) const {
  return dy.defined() ? dy : zeros(shape, {.dtype = dtype, .device = device});
}

void refuse_second_derivative(const char* op, const Tensor& dy) {
  require<NotImplementedError>(
      !is_grad_enabled(), "the backward pass of ", op,
      " is one fused kernel without a second derivative; gradient of shape ", dy.shape());
}

void SavedTensor::keep(const Tensor& x) {
  x_ = x;
  version_ = x.version();
  note_saved(*this);
}

// A view is saved without its base. A later write to the base may depend on this op, which would
// make the graph own itself.
SavedTensor::SavedTensor(const Tensor& x) {
  if (!x.defined()) return;
  const bool bare = !x.impl()->base || (x.impl()->requires_grad && !x.impl()->on_tape());
  keep(bare ? x : alias_of(x));
}

SavedTensor SavedTensor::output(const Tensor& y, uint32_t number) {
  SavedTensor saved;
  saved.output_ = number;
  saved.keep(y.detach());
  return saved;
}

Tensor SavedTensor::read(const char* reader) const {
  if (!x_.defined()) return x_;
  if (region_) return with_place_of(x_, read_again(*region_, version_, x_, reader).detach());
  if (x_.version() == version_) return x_;
  const bool is_output = output_ != kInput;
  const char* maker = is_output ? reader : x_.grad_fn();
  const std::string which =
      maker ? concat_to_string(", which is output ", is_output ? output_ : x_.impl()->output,
                               " of ", maker, ",")
            : "";
  throw Error(
      "one of the variables needed for gradient computation has been modified by an inplace "
      "operation: [",
      x_.type(), " ", x_.shape(), "]", which, " is at version ", x_.version(),
      "; expected version ", version_,
      " instead. Hint: enable anomaly detection to find the operation that failed to compute "
      "its gradient, with DetectAnomalyGuard. (saved by ",
      reader, ")");
}

Tensor SavedTensor::get(const Gradients& g) const {
  const Tensor x = read(g.node().name);
  if (output_ == kInput || !x.defined() || !is_grad_enabled()) return x;
  Tensor again = x.detach();
  set_node(again, NodePtr::share(&g.node()), output_);
  return again;
}

}  // namespace taper::v0
