#include "autograd/engine.h"

#include <algorithm>
#include <queue>

#include "autograd/anomaly.h"
#include "autograd/autocast.h"
#include "autograd/hooks.h"
#include "autograd/ops/binary.h"
#include "framework/factories.h"
#include "framework/profiler.h"

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
      // Every pass clears what it visited, so this one belongs to a pass that is still running.
      if (std::any_of(node.pending, node.pending + node.num_outputs,
                      std::mem_fn(&Tensor::defined))) {
        throw NotImplementedError(
            cat("a backward pass inside a backward pass (in a hook or a "
                "backward function) reached ",
                node.name, ", for which the outer pass has a gradient too"));
      }
      node.visit = visit_;
      ready_.push(edge.node);
    }
    Tensor& sum = node.pending[edge.output];
    sum = sum.defined() ? add(sum, dy) : std::move(dy);
  }

  // Keeps the gradient that reaches this edge in slot `slot` of the results.
  void capture(const Edge& edge, size_t slot) { captures_.push_back({edge, slot}); }

  std::vector<Tensor> run(size_t slots) {
    // Gradients have the types of the forward pass.
    const AutocastScope no_casts{AutocastState()};
    std::vector<Tensor> results(slots);
    while (!ready_.empty()) {
      const NodePtr node = running_ = ready_.top();
      ready_.pop();
      call_hooks(*node);
      for (const Capture& c : captures_) {
        if (c.edge.node == node) results[c.slot] = node->pending[c.edge.output];
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

  static void clear(Node& node) { std::fill_n(node.pending, node.num_outputs, Tensor()); }

  static void call_hooks(Node& node) {
    for (uint32_t i = 0; node.hooks && i < node.num_outputs; ++i) {
      if (node.pending[i].defined()) run_hooks(*node.hooks, i, node.pending[i]);
    }
    for (auto& [output, kept] : node.retained) {
      const Tensor& dy = node.pending[output];
      if (dy.defined()) kept = kept.defined() ? add(kept, dy) : dy;
    }
  }

  void step(Node& node) {
    if (node.used) throw Error(kUsedUp);
    const RecordFunction range(node.name, RecordFunction::Kind::backward);
    constexpr size_t kFew = 8;
    Tensor few_dx[kFew];
    std::vector<Tensor> many_dx(node.num_inputs > kFew ? node.num_inputs : 0);
    const std::span<Tensor> dx =
        many_dx.empty() ? std::span(few_dx, node.num_inputs) : std::span(many_dx);
    Gradients g(node, dx);
    try {
      node.apply(node.closure, g);
      if (is_anomaly_enabled()) check_no_nan(node.name, dx);
    } catch (const Error& error) {
      if (!node.origin) throw;
      throw Error(cat(error.what(), "\n", *node.origin));
    }
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
  if (!gradients.empty() && gradients.size() != outputs.size()) {
    throw Error(cat("got ", outputs.size(), " tensors and ", gradients.size(), " gradients"));
  }
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
    if (dy.device() != y.device()) {
      throw Error(
          cat("grad_output[", i, "] is on ", dy.device(), " and output[", i, "] on ", y.device()));
    }
    pass.deliver(edge_of(y), dy.to(y.dtype()));
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
  if (inputs.empty()) throw ValueError("grad requires non-empty inputs.");
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
