// Nodes of a converted config. Each has the position of a node of the original file, so that
// messages name its line.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "apps/runner/config/yaml.h"

namespace taper::v0::runner {

// Returns a node at the position of another one.
inline Node placed(Node node, const Node& at) {
  node.place = at.place;
  node.key_place = at.key_place;
  return node;
}

// Return a child of a map: a plain or quoted word, a map or a list.
inline Node word_at(std::string key, std::string text, const Node& at) {
  return placed(Node::entry(std::move(key), std::move(text)), at);
}
inline Node quoted_at(std::string key, std::string text, const Node& at) {
  Node out = word_at(std::move(key), std::move(text), at);
  out.is_quoted = true;
  return out;
}
inline Node map_at(std::string key, std::vector<Node> children, const Node& at) {
  return placed(Node::map(std::move(key), std::move(children)), at);
}
inline Node list_at(std::string key, std::vector<Node> children, const Node& at) {
  Node out = map_at(std::move(key), std::move(children), at);
  out.kind = Node::Kind::kSequence;
  return out;
}

}  // namespace taper::v0::runner
