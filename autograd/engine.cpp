#include "autograd/engine.h"

#include <algorithm>
#include <atomic>
#include <mutex>
#include <unordered_map>
#include <unordered_set>

#include "autograd/anomaly.h"
#include "autograd/autocast.h"
#include "autograd/tensor_hooks.h"
#include "framework/base/log.h"
#include "framework/factory/factories.h"
#include "framework/profiler/profiler.h"

namespace taper::v0 {
namespace {

constexpr const char* kUsedUp =
    "Trying to backward through the graph a second time (or directly access saved tensors after "
    "they have already been freed). Saved intermediate values of the graph are freed when you call "
    "backward() or grad(). Specify retain_graph = true if you need to backward through the "
    "graph a second time or if you need to access saved tensors after calling backward.";

bool is_earlier(const NodePtr& a, const NodePtr& b) { return a->sequence < b->sequence; }

// While it exists, keeps the tensors that a node's closure has saved alive.
class Run {
 public:
  explicit Run(Node& node) : node_(node) {
    uint32_t runs = node.runs.load(std::memory_order_relaxed);
    do {
      if (runs & Node::kUsed) throw Error(kUsedUp);
    } while (!node.runs.compare_exchange_weak(runs, runs + Node::kRun, std::memory_order_acquire));
  }
  ~Run() {
    uint32_t runs = node_.runs.load(std::memory_order_relaxed), after;
    do {
      after = (runs - Node::kRun) | (uses_up_ ? Node::kUsed : 0);
    } while (!node_.runs.compare_exchange_weak(runs, after, std::memory_order_acq_rel));
    if (after == Node::kUsed) node_.release_saved();
  }
  Run& operator=(Run&&) = delete;  // neither copied nor moved
  // Makes the last Run of the node free these tensors.
  void use_up() { uses_up_ = true; }

 private:
  Node& node_;
  bool uses_up_ = false;
};

// One backward pass. It visits nodes in descending order of their sequence numbers, so every node
// runs after all nodes that send gradients to it.
class Pass : public GradientSums {
 public:
  Pass(bool keep_graph, bool into_leaves) : keep_graph_(keep_graph), into_leaves_(into_leaves) {
    static std::atomic<uint64_t> passes{0};
    visit_ = ++passes;
  }
  // If the pass ends with an exception, no gradients remain in the nodes.
  ~Pass() {
    if (running_) clear(*running_);
    for (const NodePtr& node : ready_) clear(*node);
  }

  void deliver(const Edge& edge, Tensor dy) {
    if (!edge.node || !dy.defined()) return;
    if (!into_leaves_ && !reached_.contains(edge.node.get())) return;
    if (edge.node->is_move && !is_observed(*edge.node)) return move_on(*edge.node, dy);
    Tensor& sum = gradients_of(edge.node)[edge.output];
    sum = sum.defined() ? sum.add(dy) : std::move(dy);
  }

  // Not while the pass is recorded, since kernels that add are not on the tape, nor in anomaly
  // mode, which would blame the closure for a NaN that it was given.
  Tensor take(const Edge& edge) override {
    if (!edge.node || edge.node->is_move || is_grad_enabled() || is_anomaly_enabled()) return {};
    const std::span<Tensor> sums = known_gradients_of(*edge.node);
    return sums.empty() ? Tensor() : std::exchange(sums[edge.output], {});
  }

  // Stores the gradient that reaches this edge as element `slot` of the results.
  void capture(const Edge& edge, size_t slot) { captures_.push_back({edge, slot}); }

  // Used by grad() after the captures are known. Restricts the pass to nodes between the outputs
  // and the captures; other nodes of the inputs' history do not run.
  void limit_to_captures(std::span<const Tensor> outputs) {
    uint64_t least = UINT64_MAX;
    for (const Capture& c : captures_) {
      reached_[c.edge.node.get()] = false;
      least = std::min(least, c.edge.node->sequence);
    }
    std::vector<const Node*> found;
    std::unordered_set<const Node*> seen;
    const auto visit = [&](const Edge& edge) {
      const Node* node = edge.node.get();
      if (node && node->sequence > least && seen.insert(node).second) found.push_back(node);
    };
    for (const Tensor& y : outputs) visit(edge_of(y));
    for (size_t i = 0; i < found.size(); ++i) std::ranges::for_each(edges_of(*found[i]), visit);
    std::ranges::sort(found, {}, &Node::sequence);  // inputs first
    const auto is_reached = [&](const Edge& edge) { return reached_.contains(edge.node.get()); };
    for (const Node* node : found) {
      if (std::ranges::any_of(edges_of(*node), is_reached)) reached_[node] = true;
    }
  }

  std::vector<Tensor> run(size_t slots) {
    // The backward pass ignores autocast: gradients have the dtypes of the forward pass.
    const AutocastGuard no_casts{AutocastState()};
    std::vector<Tensor> results(slots);
    while (!ready_.empty()) {
      std::pop_heap(ready_.begin(), ready_.end(), is_earlier);
      running_ = std::move(ready_.back());
      ready_.pop_back();
      Node& node = *running_;
      const std::span<Tensor> dy = gradients_of(running_);
      call_hooks(node, dy);
      for (const Capture& c : captures_) {
        if (c.edge.node == running_) results[c.slot] = dy[c.edge.output];
      }
      if (into_leaves_ || reached_.at(&node)) step(node, dy);
      clear(node);
    }
    return results;
  }

 private:
  struct Capture {
    Edge edge;
    size_t slot;
  };

  // Returns the gradients accumulated so far for the node's outputs. They are stored in the node,
  // unless another pass is using that storage: one on another thread, or one that surrounds this
  // one.
  std::span<Tensor> gradients_of(const NodePtr& node) {
    Node& n = *node;
    if (const std::span<Tensor> known = known_gradients_of(n); !known.empty()) return known;
    ready_.push_back(node);
    std::push_heap(ready_.begin(), ready_.end(), is_earlier);
    uint64_t nobody = 0;
    if (n.visit.compare_exchange_strong(nobody, visit_, std::memory_order_acquire)) {
      return {n.pending, n.num_outputs};
    }
    return elsewhere_[&n] = std::vector<Tensor>(n.num_outputs);
  }

  // Returns an empty span if no gradient has reached the node.
  std::span<Tensor> known_gradients_of(Node& n) {
    if (n.visit.load(std::memory_order_relaxed) == visit_) return {n.pending, n.num_outputs};
    if (elsewhere_.empty()) return {};
    const auto known = elsewhere_.find(&n);
    return known == elsewhere_.end() ? std::span<Tensor>() : known->second;
  }

  // Returns whether something needs the sum of the gradients that reach a node.
  bool is_observed(const Node& node) const {
    return node.hooks.load(std::memory_order_acquire) || !node.retained.empty() ||
           std::ranges::any_of(captures_,
                               [&](const Capture& c) { return c.edge.node.get() == &node; });
  }

  // Delivers one gradient of a copy to another device to its input.
  void move_on(Node& node, const Tensor& dy) {
    Tensor dx;
    Gradients g(node, {&dy, 1}, {&dx, 1});
    node.apply(node.closure, g);
    deliver(node.edges[0], std::move(dx));
  }

  void clear(Node& node) {
    if (node.visit.load(std::memory_order_relaxed) == visit_) {
      std::fill_n(node.pending, node.num_outputs, Tensor());
      node.visit.store(0, std::memory_order_release);
    } else if (!elsewhere_.empty()) {
      elsewhere_.erase(&node);
    }
  }

  static void call_hooks(Node& node, std::span<Tensor> dy) {
    Hooks* hooks = node.hooks.load(std::memory_order_acquire);
    for (uint32_t i = 0; hooks && i < node.num_outputs; ++i) {
      if (dy[i].defined()) run_hooks(*hooks, i, dy[i]);
    }
    if (node.retained.empty()) return;
    static std::mutex mutex;
    const std::lock_guard lock(mutex);
    for (auto& [output, kept] : node.retained) {
      if (dy[output].defined()) kept = kept.defined() ? kept.add(dy[output]) : dy[output];
    }
  }

  void apply(Node& node, Gradients& g) const {
    if (node.accumulates) return node.apply(node.closure, g);
    Run run(node);
    node.apply(node.closure, g);
    if (!keep_graph_) run.use_up();
  }

  void step(Node& node, std::span<Tensor> dy) {
    const RecordFunction range(node.name, RecordFunction::RangeKind::kBackward);
    constexpr size_t kFew = 8;
    Tensor few_dx[kFew];
    std::vector<Tensor> many_dx(node.num_inputs > kFew ? node.num_inputs : 0);
    const std::span<Tensor> dx =
        many_dx.empty() ? std::span(few_dx, node.num_inputs) : std::span(many_dx);
    Gradients g(node, dy, dx, this);
    try {
      apply(node, g);
      if (is_anomaly_enabled()) check_no_nan(node.name, dx);
    } catch (Error& error) {
      if (node.origin) error.add_note(to_string(*node.origin));
      throw;
    } catch (const std::exception& error) {
      if (node.origin)
        warn(concat_to_string(node.name, " threw: ", error.what(), "\n", *node.origin));
      throw;
    }
    clear(node);
    for (size_t i = 0; i < dx.size(); ++i) deliver(node.edges[i], std::move(dx[i]));
  }

  static std::span<const Edge> edges_of(const Node& node) { return {node.edges, node.num_inputs}; }

  bool keep_graph_, into_leaves_;
  uint64_t visit_;
  std::vector<NodePtr> ready_;  // a heap
  std::vector<Capture> captures_;
  // For grad(): the nodes that gradients may reach. The value is whether the node runs: it does if
  // a path leads from it to a capture.
  std::unordered_map<const Node*, bool> reached_;
  NodePtr running_;  // the node being visited, or the last one visited
  std::unordered_map<const Node*, std::vector<Tensor>> elsewhere_;
};

void start(Pass& pass, std::span<const Tensor> outputs, std::span<const Tensor> gradients) {
  require(gradients.empty() || gradients.size() == outputs.size(), "got ", outputs.size(),
          " tensors and ", gradients.size(), " gradients");
  for (size_t i = 0; i < outputs.size(); ++i) {
    const Tensor& y = outputs[i];
    require(y.requires_grad(), "element ", i,
            " of tensors does not require grad and does not have a grad_fn");
    Tensor dy = i < gradients.size() ? gradients[i] : Tensor();
    if (!dy.defined()) {
      require(y.numel() == 1, "grad can be implicitly created only for scalar outputs (got shape ",
              y.shape(), ")");
      dy = ones_like(y);
    }
    require(dy.shape() == y.shape(), "Mismatch in shape: grad_output[", i, "] has a shape of ",
            dy.shape(), " and output[", i, "] has a shape of ", y.shape(), ".");
    require(dy.device() == y.device(), "grad_output[", i, "] is on ", dy.device(), " and output[",
            i, "] on ", y.device());
    pass.deliver(edge_of(y), dy.to(y.dtype()));
  }
}

}  // namespace

void backward(std::span<const Tensor> outputs, std::span<const Tensor> gradients,
              BoolArg retain_graph, BoolArg create_graph) {
  Pass pass(retain_graph || create_graph, true);
  AutoGradMode mode(create_graph);
  start(pass, outputs, gradients);
  pass.run(0);
}

void backward(std::span<const Tensor> outputs, std::span<const Tensor> gradients,
              const BackwardOptions& options) {
  backward(outputs, gradients, options.retain_graph, options.create_graph);
}

std::vector<Tensor> grad(const std::vector<Tensor>& outputs, const std::vector<Tensor>& inputs,
                         const GradOptions& options) {
  return grad(outputs, inputs, {}, options);
}

std::vector<Tensor> grad(const std::vector<Tensor>& outputs, const std::vector<Tensor>& inputs,
                         const std::vector<Tensor>& gradients, const GradOptions& options) {
  require<ValueError>(!inputs.empty(), "grad requires non-empty inputs.");
  Pass pass(options.retain_graph || options.create_graph, false);
  AutoGradMode mode(options.create_graph);
  for (size_t i = 0; i < inputs.size(); ++i) {
    require(inputs[i].requires_grad(),
            "One of the differentiated Tensors does not require grad (input ", i, ")");
    pass.capture(edge_of(inputs[i]), i);
  }
  pass.limit_to_captures(outputs);
  start(pass, outputs, gradients);
  std::vector<Tensor> results = pass.run(inputs.size());
  for (size_t i = 0; i < results.size() && !options.allow_unused; ++i) {
    require(results[i].defined(),
            "One of the differentiated Tensors appears to not have been used in the graph. Set "
            "allow_unused = true if this is the desired behavior. (input ",
            i, ")");
  }
  return results;
}

}  // namespace taper::v0
