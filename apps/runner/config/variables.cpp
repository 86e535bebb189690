#include "apps/runner/config/variables.h"

#include <algorithm>
#include <cstdlib>
#include <ranges>
#include <set>
#include <system_error>

#include "apps/runner/base/errors.h"
#include "apps/runner/base/string_utils.h"

namespace taper::v0::runner {
namespace {

constexpr std::string_view kEnvironment = "env:";

// Returns a map's child with that key, or the item of a list with that number; null if there is
// none.
Node* child_of(Node& node, const std::string& key) {
  if (node.kind == Node::Kind::kSequence) {
    std::size_t i = 0;
    const bool is_index = parse_number(key, i) == std::errc() && i < node.children.size();
    return is_index ? &node.children[i] : nullptr;
  }
  return node.find(key);
}

class Replacer {
 public:
  Replacer(Node& root, std::vector<Problem>& problems) : root_(root), problems_(problems) {}

  void replace_all(Node& node, const std::string& path) {
    for (std::size_t i = 0; i < node.children.size(); ++i) {
      Node& child = node.children[i];
      replace_all(child, join_path(path, child.key.empty() ? concat_to_string(i) : child.key));
    }
    if (node.kind != Node::Kind::kScalar) return;
    try {
      replace(node, path);
    } catch (const ConfigError& error) {
      problems_.push_back({node.place, concat_to_string(path, ": ", error.what())});
    }
  }

 private:
  // Replaces the variables of a scalar, after those of the scalars that it names.
  void replace(Node& node, const std::string& path) {
    if (done_.contains(&node)) return;
    const auto first = std::ranges::find(open_, path);
    if (first != open_.end()) {
      std::string loop;
      for (auto at = first; at != open_.end(); ++at) loop += concat_to_string(*at, " -> ");
      throw ConfigError(concat_to_string("the values refer to each other: ", loop, path));
    }
    open_.push_back(path);
    Node replaced;
    try {
      replaced = replaced_by(node);
    } catch (...) {
      open_.pop_back();
      done_.insert(&node);
      throw;
    }
    open_.pop_back();
    node.text = std::move(replaced.text);
    node.kind = replaced.kind;
    node.is_quoted = replaced.is_quoted;
    done_.insert(&node);
  }

  Node replaced_by(const Node& node) {
    const std::string& text = node.text;
    Node out = node;
    out.text.clear();
    for (std::size_t at = 0; at < text.size();) {
      if (text.compare(at, 3, "$${") == 0) {
        out.text += "${";
        at += 3;
      } else if (text.compare(at, 2, "${") == 0) {
        const std::size_t end = text.find('}', at);
        require<ConfigError>(end != std::string::npos,
                             "'${' has no closing '}'; write $${ for the ", "text itself");
        const Node value = value_of(text.substr(at + 2, end - at - 2));
        if (at == 0 && end + 1 == text.size()) return value;
        out.text += value.text;
        at = end + 1;
      } else {
        out.text += text[at++];
      }
      require<ConfigError>(out.text.size() <= kMaxVariableBytes, "the value has more than ",
                           kMaxVariableBytes, " bytes");
    }
    return out;
  }

  Node value_of(const std::string& name) {
    if (name.starts_with(kEnvironment)) {
      const std::string variable = name.substr(kEnvironment.size());
      const char* value = std::getenv(variable.c_str());
      require<ConfigError>(value != nullptr, "${", name, "}: the environment has no variable ",
                           in_quotes(variable));
      return {.kind = Node::Kind::kScalar, .text = value};
    }
    require<ConfigError>(!name.empty(), "${}: expected a path such as ${data.block_size}");
    Node* target = &root_;
    for (const auto key : name | std::views::split('.')) {
      target = child_of(*target, std::string(key.begin(), key.end()));
      require<ConfigError>(target != nullptr, "${", name, "}: the config does not set ",
                           in_quotes(name), "; set it, or write the value here");
    }
    require<ConfigError>(target->kind == Node::Kind::kScalar, "${", name,
                         "}: expected one value, got ", describe_node(*target));
    replace(*target, name);
    return *target;
  }

  Node& root_;
  std::vector<Problem>& problems_;
  std::vector<std::string> open_;  // the paths of the scalars that are being replaced
  std::set<const Node*> done_;
};

}  // namespace

void replace_variables(Node& root, std::vector<Problem>& problems) {
  Replacer(root, problems).replace_all(root, "");
}

std::string without_variables(std::string text) {
  for (std::size_t at = 0; (at = text.find("${", at)) != std::string::npos; at += 3)
    text.insert(at, "$");
  return text;
}

}  // namespace taper::v0::runner
