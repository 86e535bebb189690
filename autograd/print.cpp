#include "autograd/print.h"

#include <algorithm>
#include <iomanip>
#include <ostream>
#include <sstream>
#include <unordered_map>

#include "autograd/node.h"
#include "framework/print.h"

namespace taper::v0 {
namespace {

struct Listing {
  std::vector<const Node*> nodes;  // from y down
  std::unordered_map<const Node*, size_t> numbers;
};

Listing list_nodes(const Node* from) {
  Listing listing;
  auto& [nodes, numbers] = listing;
  const auto add = [&](const Node* node) {
    if (node && numbers.emplace(node, 0).second) nodes.push_back(node);
  };
  add(from);
  for (size_t i = 0; i < nodes.size(); ++i) {
    for (uint32_t j = 0; j < nodes[i]->num_inputs; ++j) add(nodes[i]->edges[j].node.get());
  }
  // Leaves last, as they were met.
  const auto place = [](const Node* node) { return node->accumulates ? 0 : node->sequence; };
  std::stable_sort(nodes.begin(), nodes.end(),
                   [&](const Node* a, const Node* b) { return place(a) > place(b); });
  for (size_t i = 0; i < nodes.size(); ++i) numbers[nodes[i]] = i;
  return listing;
}

std::string label(const Node& node, const Tensor& y, const std::vector<NamedTensor>& names) {
  std::string text = node.name;
  if (!node.accumulates) return node_of(y) == &node ? cat(text, " ", y.shape()) : text;
  const Tensor leaf = leaf_of(node);
  for (const NamedTensor& named : names) {
    if (named.tensor.is_same(leaf)) text += " " + named.name;
  }
  return cat(text, " ", leaf.shape());
}

std::string write(const Tensor& y, const std::vector<NamedTensor>& names, bool dot) {
  // Held, for the accumulator of a leaf lives as long as somebody does so.
  const Edge from = edge_of(y);
  const auto [nodes, numbers] = list_nodes(from.node.get());
  std::ostringstream out;
  for (size_t i = 0; i < nodes.size(); ++i) {
    const std::string text = label(*nodes[i], y, names);
    const char* box = nodes[i]->accumulates ? ", shape=box" : "";
    dot ? out << "  n" << i << " [label=" << std::quoted(text) << box << "];\n"
        : out << "#" << i << " " << text;
    for (uint32_t j = 0; j < nodes[i]->num_inputs; ++j) {
      const Edge& edge = nodes[i]->edges[j];
      if (!dot) out << (j == 0 ? " <- " : ", ") << (edge.node ? "#" : "-");
      if (!edge.node) continue;
      const size_t number = numbers.at(edge.node.get());
      if (dot) {
        out << "  n" << i << " -> n" << number << ";\n";
        continue;
      }
      out << number;
      // Which output, where there are several.
      if (edge.node->num_outputs > 1) out << "." << edge.output;
    }
    if (!dot) out << "\n";
  }
  return out.str();
}

}  // namespace

std::string to_string(const Tensor& x) {
  if (!x.defined()) return format_tensor(x);
  const char* prefix = x.impl()->is_parameter ? "Parameter containing:\n" : "";
  if (const char* name = x.grad_fn()) return prefix + format_tensor(x, cat("grad_fn=<", name, ">"));
  return prefix + format_tensor(x, x.requires_grad() ? "requires_grad=True" : "");
}

std::ostream& operator<<(std::ostream& out, const Tensor& x) { return out << to_string(x); }

std::string dump_tape(const Tensor& y, const std::vector<NamedTensor>& names) {
  return write(y, names, false);
}
std::string dump_tape_dot(const Tensor& y, const std::vector<NamedTensor>& names) {
  return "digraph tape {\n" + write(y, names, true) + "}\n";
}

std::vector<Tensor> leaves_of(const Tensor& y) {
  std::vector<Tensor> leaves;
  const Edge from = edge_of(y);
  for (const Node* node : list_nodes(from.node.get()).nodes) {
    if (node->accumulates) leaves.push_back(leaf_of(*node));
  }
  return leaves;
}

}  // namespace taper::v0
