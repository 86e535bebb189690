#include "autograd/engine.h"

#include <algorithm>
#include <queue>

#include "autograd/ops/binary.h"
#include "framework/factories.h"

namespace taper {
namespace {

constexpr const char* kUsedUp =
    "Trying to backward through the graph a second time (or directly access saved tensors after "
    "they have already been freed). Saved intermediate values of the graph are freed when you call "
    ".backward() or autograd.grad(). Specify retain_graph=True if you need to backward through the "
    "graph a second time or if you need to access saved tensors after calling backward.";

struct Later {
  bool operator()(const NodePtr& a, const NodePtr& b) const { return a->sequence < b->sequence; }
};

// One run of the tape. Nodes are visited from the highest sequence number down: all that feed a
// node come before it.
class Pass {
 public:
  Pass(bool keep_graph, bool into_leaves) : keep_graph_(keep_graph), into_leaves_(into_leaves) {
    static std::atomic<uint64_t> passes{0};
    visit_ = ++passes;
  }
  // A pass that ends in an exception leaves no gradient behind in the nodes.
  ~Pass() {
    if (running_) clear(*running_);
    for (; !ready_.empty(); ready_.pop()) clear(*ready_.top());
  }

  void deliver(const Edge& edge, Tensor dy) {
    if (!edge.node || !dy.defined()) return;
    Node& node = *edge.node;
    if (node.visit != visit_) {
      node.visit = visit_;
      clear(node);
      ready_.push(edge.node);
    }
    Tensor& sum = node.pending_grad(edge.output);
    sum = sum.defined() ? add(sum, dy) : std::move(dy);
  }

  // Keeps the gradient that reaches this edge in slot `slot` of the results.
  void capture(const Edge& edge, size_t slot) { captures_.push_back({edge, slot}); }

  std::vector<Tensor> run(size_t slots) {
    std::vector<Tensor> results(slots);
    while (!ready_.empty()) {
      const NodePtr node = running_ = ready_.top();
      ready_.pop();
      run_hooks(*node);
      for (const Capture& c : captures_) {
        if (c.edge.node == node) results[c.slot] = node->pending_grad(c.edge.output);
      }
      if (!node->accumulates || into_leaves_) step(*node);
      clear(*node);
    }
    return results;
  }

 private:
  struct Capture {
    Edge edge;
    size_t slot;
  };

  static void clear(Node& node) {
    node.pending = Tensor();
    node.more_pending.clear();
  }

  static void run_hooks(Node& node) {
    for (const auto& [output, hook] : node.hooks) {
      Tensor& dy = node.pending_grad(output);
      if (!dy.defined()) continue;
      const Tensor changed = hook(dy);
      if (changed.defined()) dy = changed;
    }
    for (auto& [output, kept] : node.retained) {
      const Tensor& dy = node.pending_grad(output);
      if (dy.defined()) kept = kept.defined() ? add(kept, dy) : dy;
    }
  }

  void step(Node& node) {
    if (node.used) throw Error(kUsedUp);
    constexpr size_t kFew = 8;
    Tensor few_dx[kFew];
    std::vector<Tensor> many_dx(node.num_inputs > kFew ? node.num_inputs : 0);
    const std::span<Tensor> dx =
        many_dx.empty() ? std::span(few_dx, node.num_inputs) : std::span(many_dx);
    std::vector<Tensor> all_dy;
    if (node.num_outputs > 1) {
      for (uint32_t i = 0; i < node.num_outputs; ++i) {
        all_dy.push_back(std::move(node.pending_grad(i)));
      }
    }
    const std::span<Tensor> dy = all_dy.empty() ? std::span(&node.pending, 1) : std::span(all_dy);
    Gradients g(node, dy, dx);
    node.apply(node.closure, g);
    if (!keep_graph_ && !node.accumulates) {
      node.release_saved();
      node.used = true;
    }
    clear(node);
    for (size_t i = 0; i < dx.size(); ++i) deliver(node.edges[i], std::move(dx[i]));
  }

  bool keep_graph_, into_leaves_;
  uint64_t visit_;
  std::priority_queue<NodePtr, std::vector<NodePtr>, Later> ready_;
  std::vector<Capture> captures_;
  NodePtr running_;  // the node that is visited, or was last
};

void start(Pass& pass, std::span<const Tensor> outputs, std::span<const Tensor> gradients) {
  for (size_t i = 0; i < outputs.size(); ++i) {
    const Tensor& y = outputs[i];
    if (!y.requires_grad()) {
      throw Error(
          cat("element ", i, " of tensors does not require grad and does not have a grad_fn"));
    }
    Tensor dy = i < gradients.size() ? gradients[i] : Tensor();
    if (!dy.defined()) {
      if (y.numel() != 1) {
        throw Error(cat("grad can be implicitly created only for scalar outputs (got shape ",
                        y.shape(), ")"));
      }
      dy = ones_like(y);
    }
    if (dy.shape() != y.shape()) {
      throw Error(cat("Mismatch in shape: grad_output[", i, "] has a shape of ", dy.shape(),
                      " and output[", i, "] has a shape of ", y.shape(), "."));
    }
    pass.deliver(edge_of(y), std::move(dy));
  }
}

}  // namespace

void backward(std::span<const Tensor> outputs, std::span<const Tensor> gradients, bool retain_graph,
              bool create_graph) {
  Pass pass(retain_graph || create_graph, true);
  GradMode mode(create_graph);
  start(pass, outputs, gradients);
  pass.run(0);
}

std::vector<Tensor> grad(const std::vector<Tensor>& outputs, const std::vector<Tensor>& inputs,
                         const std::vector<Tensor>& gradients, bool retain_graph, bool create_graph,
                         bool allow_unused) {
  Pass pass(retain_graph || create_graph, false);
  GradMode mode(create_graph);
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (!inputs[i].requires_grad()) {
      throw Error(cat("One of the differentiated Tensors does not require grad (input ", i, ")"));
    }
    pass.capture(edge_of(inputs[i]), i);
  }
  start(pass, outputs, gradients);
  std::vector<Tensor> results = pass.run(inputs.size());
  for (size_t i = 0; i < results.size() && !allow_unused; ++i) {
    if (results[i].defined()) continue;
    throw Error(
        cat("One of the differentiated Tensors appears to not have been used in the graph. Set "
            "allow_unused=True if this is the desired behavior. (input ",
            i, ")"));
  }
  return results;
}

}  // namespace taper
