// From files and a command line to one tree, and from that to a config; and back to a text.
#include <algorithm>
#include <array>
#include <ranges>
#include <system_error>

#include "apps/runner/base/errors.h"
#include "apps/runner/base/process.h"
#include "apps/runner/base/string_utils.h"
#include "apps/runner/components/components.h"
#include "apps/runner/config/schema.h"
#include "apps/runner/settings/run_config.h"

namespace taper::v0::runner {
namespace {

constexpr std::size_t kMaxIncludeDepth = 8;
constexpr int kMaxIncludes = 64;

constexpr const char* kReferenceHead = R"(# Configuration

*Written by `taper schema --markdown`.* One YAML file says what a run is; `taper train FILE` reads it.
Settings are laid over it on the command line, checked like the file: `train.epochs=3`,
`model.layers.0.linear=64`, `optimizer={type: adam, lr: 1e-3}`. `include: base.yaml` (or a list)
names files, relative to this one, that it builds on: maps are laid over maps key by key, unless
their `type` differs; all else replaces. `null` takes back an optional value. Paths in `data` are
relative to the working directory, in a run's own `config.yaml` to where the run was started.
`taper schema > taper.schema.json` writes JSON Schema: with
`# yaml-language-server: $schema=taper.schema.json` as a file's first line, editors complete and check.
)";

// The child that a part of an override's path names; made when a map has none. Null when `node`
// has no children by that name to give.
Node* child_of(Node& node, const std::string& part, const Place& place) {
  if (node.kind == Node::Kind::kSequence) {
    std::size_t i = 0;
    const bool is_index = parse_number(part, i) == std::errc() && i < node.children.size();
    return is_index ? &node.children[i] : nullptr;
  }
  if (node.kind == Node::Kind::kScalar) return nullptr;
  node.kind = Node::Kind::kMap;
  const auto found = std::ranges::find(node.children, part, &Node::key);
  if (found != node.children.end()) return &*found;
  return &node.children.emplace_back(Node{.place = place, .key = part, .key_place = place});
}

// Puts the value into the tree, under "a.b". Returns what is wrong, or nothing.
std::string put(Node& root, std::string_view keys, Node value) {
  Node* at = &root;
  for (const auto key : keys | std::views::split('.')) {
    const std::string part(key.begin(), key.end());
    if (part.empty()) return "expected a path of keys joined by single dots";
    Node* child = child_of(*at, part, value.key_place);
    if (child == nullptr) {
      const bool is_list = at->kind == Node::Kind::kSequence;
      const bool is_root = key.begin() == keys.begin();
      return cat(
          is_root ? "the file" : cat("'", std::string_view(keys.begin(), key.begin() - 1), "'"),
          " is ",
          is_list ? cat("a list of ", at->children.size(), " entries, from 0")
                  : cat(seen(*at), ", not a map"),
          ": there is no '", part, "' in it");
    }
    at = child;
  }
  value.key = at->key;
  *at = std::move(value);
  return "";
}

// Applies the override of that number. Returns what is wrong.
std::vector<Problem> apply(Node& root, const std::string& text, int number) {
  const std::size_t equals = text.find('=');
  const bool has_key = equals != std::string::npos && equals > 0;
  Document value =
      parse_yaml(has_key ? std::string_view(text).substr(equals + 1) : "",
                 {.name = cat(for_caller("command line: ", "override: "), text), .number = number});
  if (!value.root) return value.problems;
  Place& place = value.root->key_place;
  place.line = 0;
  const std::string wrong = has_key ? put(root, text.substr(0, equals), *value.root)
                                    : "expected key=value, as in train.epochs=3";
  if (!wrong.empty()) value.problems.push_back({place, wrong});
  return value.problems;
}

std::string read_config(const fs::path& path) try {
  const std::string text = read_file(path, "YAML file", kMaxYamlBytes + 1);
  require<ConfigError>(text.size() <= kMaxYamlBytes, path.string(), ": over ", kMaxYamlBytes,
                       " bytes: not a configuration");
  return text;
} catch (const InputError& error) {
  throw ConfigError(error.what());
}

// Lays `over` on `base`: maps key by key, where they are not of different types; all else as it is.
Node merged(Node base, Node over) {
  const auto is_map = [](const Node& n) { return n.kind == Node::Kind::kMap; };
  const Node *before = base.find("type"), *after = over.find("type");
  const bool is_other = before && after && before->text != after->text;
  if (!is_map(base) || !is_map(over) || is_other) return over;
  for (Node& child : over.children) {
    const auto found = std::ranges::find(base.children, child.key, &Node::key);
    if (found == base.children.end()) {
      base.children.push_back(std::move(child));
    } else {
      *found = merged(std::move(*found), std::move(child));
    }
  }
  over.children = std::move(base.children);
  return over;
}

class TreeReader {
 public:
  std::vector<Problem> problems;

  // The file's tree, laid on those of the files that it includes. Nothing where one is broken.
  std::optional<Node> read(const fs::path& path) {
    Document file = parse_yaml(read_config(path), {.name = path.string(), .number = -includes_});
    std::ranges::copy(file.problems, std::back_inserter(problems));
    if (!file.root) return std::nullopt;
    const Node::Kind kind = file.root->kind;
    if (!open_.empty() && kind != Node::Kind::kMap && kind != Node::Kind::kNull) {
      problems.push_back({file.root->place, cat("expected a map, got ", seen(*file.root))});
    }
    Node root = std::move(*file.root);
    const auto include = std::ranges::find(root.children, "include", &Node::key);
    if (include == root.children.end()) return root;
    std::vector<Node> names = {*include};
    if (include->kind == Node::Kind::kSequence) names = include->children;
    root.children.erase(include);
    open_.push_back(fs::weakly_canonical(path));
    Node base{.kind = Node::Kind::kMap};
    bool is_whole = true;
    for (const Node& name : names) {
      const std::optional<Node> tree = read_included(name, path.parent_path());
      is_whole = is_whole && tree;
      if (tree && tree->kind == Node::Kind::kMap) base = merged(std::move(base), *tree);
    }
    open_.pop_back();
    return is_whole ? std::optional(merged(std::move(base), std::move(root))) : std::nullopt;
  }

 private:
  std::optional<Node> read_included(const Node& name, const fs::path& directory) try {
    require<ConfigError>(name.kind == Node::Kind::kScalar && !name.text.empty(),
                         "include: expected a file or a list of files, got ", seen(name));
    const fs::path path = (directory / name.text).lexically_normal();
    const auto first = std::ranges::find(open_, fs::weakly_canonical(path));
    if (first != open_.end()) {
      std::string loop;
      for (auto at = first; at != open_.end(); ++at) loop += cat(at->string(), " -> ");
      throw ConfigError(cat("include: a loop: ", loop, first->string()));
    }
    require<ConfigError>(open_.size() <= kMaxIncludeDepth, "include: files are nested deeper than ",
                         kMaxIncludeDepth);
    ++includes_;
    require<ConfigError>(includes_ <= kMaxIncludes, "include: more than ", kMaxIncludes, " files");
    return read(path);
  } catch (const ConfigError& error) {
    problems.push_back({name.place, error.what()});
    return std::nullopt;
  }

  std::vector<fs::path> open_;
  int includes_ = 0;  // so far; their sources count down from -1
};

}  // namespace

RunConfig load_config(const fs::path& path, const std::vector<std::string>& overrides) {
  TreeReader reader;
  std::optional<Node> root = reader.read(path);
  // With a tree in pieces, what else could be said of it would mislead.
  if (!root) throw ConfigError(report(reader.problems));
  std::vector<Problem> problems = std::move(reader.problems);
  for (std::size_t i = 0; i < overrides.size(); ++i) {
    std::ranges::copy(apply(*root, overrides[i], int(i) + 1), std::back_inserter(problems));
  }
  if (const Node* include = root->find("include")) {
    problems.push_back({include->key_place, "include stands in a file"});
  }
  RunConfig config;
  config.name = path.stem().string();
  ReadResult result = read(describe(config), *root);
  std::ranges::copy(result.problems, std::back_inserter(problems));
  if (!problems.empty()) throw ConfigError(report(std::move(problems)));
  config.places = std::move(result.places);
  return config;
}

std::optional<int64_t> recorded_eval_batch_size(const std::string& yaml) {
  const Document document = parse_yaml(yaml, {});
  const Node* train = document.root ? document.root->find("train") : nullptr;
  const Node* size = train ? train->find("eval_batch_size") : nullptr;
  return size ? read_scalar<int64_t>(*size).value : std::nullopt;
}

std::string to_yaml(const RunConfig& config) {
  RunConfig copy = config;
  return write(describe(copy));
}

std::string with_defaults(const std::string& yaml) {
  const Document saved = parse_yaml(yaml, {});
  RunConfig config;
  const bool is_config =
      saved.root && saved.problems.empty() && read(describe(config), *saved.root).problems.empty();
  return is_config ? to_yaml(config) : yaml;
}

std::string to_yaml_with_origins(const RunConfig& config) {
  RunConfig copy = config;
  return write(describe(copy), [&](const std::string& path) {
    const auto found = config.places.find(path);
    return found == config.places.end() ? std::string("default") : to_string(found->second);
  });
}

std::string json_schema() {
  RunConfig defaults;
  return json_schema(describe(defaults));
}

std::string config_reference() {
  RunConfig defaults;
  std::string page =
      cat(kReferenceHead, reference(describe(defaults)),
          "\n## metrics\n\nSay what evaluations measure; without them the usual for the "
          "task.\n\n| metric | of | better |\n|---|---|---|\n");
  for (const std::string& name : metric_types().names()) {
    const Metric row = metric(name);
    const auto tasks = row.tasks | std::views::transform([](Task task) {
                         return std::array{"classes", "values", "text"}[std::size_t(task)];
                       });
    page += cat("| `", name, "` | ", joined(tasks), " | ",
                !row.value  ? ""
                : row.grows ? "more"
                            : "less",
                " |\n");
  }
  return page;
}

}  // namespace taper::v0::runner
