#include "autograd/print.h"

#include <algorithm>
#include <ostream>
#include <unordered_map>

#include "autograd/node.h"
#include "framework/factory/format_tensor.h"

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
  // Leaves come last, in the order in which they were found.
  const auto place = [](const Node* node) { return node->accumulates ? 0 : node->sequence; };
  std::stable_sort(nodes.begin(), nodes.end(),
                   [&](const Node* a, const Node* b) { return place(a) > place(b); });
  for (size_t i = 0; i < nodes.size(); ++i) numbers[nodes[i]] = i;
  return listing;
}

std::string label(const Node& node, const Tensor& y, const std::vector<NamedTensor>& names) {
  std::string text = node.name;
  if (!node.accumulates) return node_of(y) == &node ? concat_to_string(text, " ", y.shape()) : text;
  const Tensor leaf = leaf_of(node);
  for (const NamedTensor& named : names) {
    if (named.tensor.is_same(leaf)) text += " " + named.name;
  }
  return concat_to_string(text, " ", leaf.shape());
}

std::string quoted(const std::string& text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    out += c;
  }
  return out + '"';
}

// Formats "#0 AddBackward0 <- #3, -": a node and its inputs. An input's output number is appended
// if it has several outputs.
std::string text_line(const Listing& listing, size_t i, const std::string& label) {
  const Node& node = *listing.nodes[i];
  std::string line = concat_to_string("#", i, " ", label);
  for (uint32_t j = 0; j < node.num_inputs; ++j) {
    const auto& [input, output] = node.edges[j];
    line += j == 0 ? " <- " : ", ";
    line += input ? concat_to_string("#", listing.numbers.at(input.get())) : "-";
    if (input && input->num_outputs > 1) line += concat_to_string(".", output);
  }
  return line + "\n";
}

std::string dot_lines(const Listing& listing, size_t i, const std::string& label) {
  const Node& node = *listing.nodes[i];
  const char* box = node.accumulates ? ", shape=box" : "";
  std::string lines = concat_to_string("  n", i, " [label=", quoted(label), box, "];\n");
  for (uint32_t j = 0; j < node.num_inputs; ++j) {
    const Node* input = node.edges[j].node.get();
    if (input) lines += concat_to_string("  n", i, " -> n", listing.numbers.at(input), ";\n");
  }
  return lines;
}

std::string write(const Tensor& y, const std::vector<NamedTensor>& names, bool dot) {
  // Keep the edge in a variable: the accumulator of a leaf exists only while someone references it.
  const Edge from = edge_of(y);
  const Listing listing = list_nodes(from.node.get());
  std::string out;
  for (size_t i = 0; i < listing.nodes.size(); ++i) {
    const std::string text = label(*listing.nodes[i], y, names);
    out += dot ? dot_lines(listing, i, text) : text_line(listing, i, text);
  }
  return out;
}

}  // namespace

std::string to_string(const Tensor& x) {
  if (!x.defined()) return format_tensor(x);
  const char* prefix = x.impl()->is_parameter ? "Parameter containing:\n" : "";
  if (const char* name = x.grad_fn())
    return prefix + format_tensor(x, concat_to_string("grad_fn=<", name, ">"));
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
