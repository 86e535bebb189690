#include "autograd/dump.h"

#include <algorithm>
#include <unordered_map>

#include "autograd/node.h"

namespace taper {
namespace {

struct Listing {
  std::vector<const Node*> nodes;  // from y down
  std::unordered_map<const Node*, size_t> numbers;
};

Listing list_nodes(const Edge& from) {
  Listing listing;
  std::vector<const Node*> waiting{from.node.get()};
  while (!waiting.empty()) {
    const Node* node = waiting.back();
    waiting.pop_back();
    if (!node || !listing.numbers.emplace(node, 0).second) continue;
    listing.nodes.push_back(node);
    for (int i = node->num_inputs - 1; i >= 0; --i) waiting.push_back(node->edges[i].node.get());
  }
  std::stable_sort(listing.nodes.begin(), listing.nodes.end(),
                   [](const Node* a, const Node* b) { return a->sequence > b->sequence; });
  for (size_t i = 0; i < listing.nodes.size(); ++i) listing.numbers[listing.nodes[i]] = i;
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

std::string escaped(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    out += c;
  }
  return out;
}

}  // namespace

std::string dump_tape(const Tensor& y, const std::vector<NamedTensor>& names) {
  // Held, for the accumulator of a leaf lives as long as somebody does so.
  const Edge from = edge_of(y);
  const Listing listing = list_nodes(from);
  std::string text;
  for (size_t i = 0; i < listing.nodes.size(); ++i) {
    const Node& node = *listing.nodes[i];
    text += cat("#", i, " ", label(node, y, names));
    for (int j = 0; j < node.num_inputs; ++j) {
      text += j == 0 ? " <- " : ", ";
      const Edge& edge = node.edges[j];
      text += edge.node ? cat("#", listing.numbers.at(edge.node.get())) : "-";
      // Which output, where there are several.
      if (edge.node && edge.node->num_outputs > 1) text += cat(".", edge.output);
    }
    text += "\n";
  }
  return text;
}

std::string dump_tape_dot(const Tensor& y, const std::vector<NamedTensor>& names) {
  const Edge from = edge_of(y);
  const Listing listing = list_nodes(from);
  std::string text = "digraph tape {\n";
  for (size_t i = 0; i < listing.nodes.size(); ++i) {
    const Node& node = *listing.nodes[i];
    text += cat("  n", i, " [label=\"", escaped(label(node, y, names)), "\"",
                node.accumulates ? ", shape=box" : "", "];\n");
    for (int j = 0; j < node.num_inputs; ++j) {
      const Node* input = node.edges[j].node.get();
      if (input) text += cat("  n", i, " -> n", listing.numbers.at(input), ";\n");
    }
  }
  return text + "}\n";
}

}  // namespace taper
