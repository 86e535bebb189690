#include "apps/runner/settings/short_forms.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <system_error>
#include <utility>

#include "apps/runner/base/errors.h"
#include "apps/runner/base/string_utils.h"
#include "apps/runner/components/tables.h"
#include "apps/runner/config/schema.h"
#include "apps/runner/settings/data_path.h"
#include "apps/runner/settings/run_config.h"
#include "data/tables/raw_table.h"

namespace taper::v0::runner {
namespace {

namespace fs = std::filesystem;
using Kind = Node::Kind;

bool is_word(const Node& node, std::string_view word) {
  return node.kind == Kind::kScalar && !node.is_quoted && node.text == word;
}

// Replaces a value by a map with one entry, {key: value}.
void wrap(Node& value, const std::string& key) {
  Node inner = value;
  inner.key = key;
  inner.key_place = value.place;
  value = {.kind = Kind::kMap,
           .place = value.place,
           .key = value.key,
           .key_place = value.key_place,
           .children = {std::move(inner)}};
}

// Replaces a map of learning rates as the value of `lr` by the keys lr_by_part and lr, which is the
// rate of the pattern "*".
void expand_rates(Node& optimizer) {
  Node* lr = optimizer.find("lr");
  if (lr == nullptr || lr->kind != Kind::kMap) return;
  std::erase_if(optimizer.children, [](const Node& n) { return n.key == "lr_by_part"; });
  lr = optimizer.find("lr");
  lr->key = "lr_by_part";
  Node* rest = lr->find("*");
  if (rest == nullptr) return;
  Node of_rest = *rest;
  of_rest.key = "lr";
  std::erase_if(lr->children, [](const Node& n) { return n.key == "*"; });
  optimizer.children.push_back(std::move(of_rest));
}

void expand(const Schema& schema, Node& map);

void expand(const Field& field, Node& value) {
  if (const auto* typed = std::get_if<TypedSection>(&field.target)) {
    const std::vector<std::string> types = typed->kind->names();
    const bool is_type = std::ranges::count(types, value.text) > 0;
    if (value.kind == Kind::kScalar && is_type) wrap(value, "type");
  }
  const auto* section = std::get_if<Section>(&field.target);
  if (section == nullptr) return;
  if (section->is_given && is_word(value, "true")) value.kind = Kind::kMap;
  if (section->is_given && is_word(value, "false")) value.kind = Kind::kNull;
  if (value.kind == Kind::kMap) expand(section->open(), value);
}

void expand(const Schema& schema, Node& map) {
  for (const Field& field : schema.fields) {
    if (Node* value = map.find(field.name)) expand(field, *value);
  }
}

// Returns the paths in `data.path` or its old name, which is a path or a list of paths.
std::vector<std::string> paths_of(const Node& data) {
  std::vector<std::string> out;
  const Node* path = data.find("path");
  if (path == nullptr) path = data.find("csv");
  if (path == nullptr) return out;
  if (path->kind == Kind::kScalar) out.push_back(path->text);
  for (const Node& each : path->children) {
    if (each.kind == Kind::kScalar) out.push_back(each.text);
  }
  return out;
}

// Returns the size of the files that a path or pattern names; 0 for those that are missing, which
// the reader reports.
uintmax_t bytes_of(const std::string& path) try {
  uintmax_t bytes = 0;
  for (const fs::path& file : data::expand_wildcards({path})) {
    std::error_code none;
    const uintmax_t size = fs::file_size(file, none);
    bytes += none ? 0 : size;
  }
  return bytes;
} catch (const InputError&) {
  return 0;
}

// Returns the default of `train` for a table. A small table has a small validation part, whose loss
// goes up and down for many epochs (tests/interop/compare_tables.py).
Node training_of_table(const Node& data) {
  constexpr uintmax_t kSmall = 4 << 20;  // bytes
  uintmax_t bytes = 0;
  for (const std::string& path : paths_of(data)) bytes += bytes_of(path);
  const bool is_small = bytes <= kSmall;
  return Node::map("train",
                   {Node::entry("epochs", is_small ? "100" : "50"),
                    Node::entry("batch_size", is_small ? "32" : "256"),
                    Node::map("early_stopping", {Node::entry("patience", is_small ? "20" : "5")})});
}

// Returns the default of `train` for series.
Node training_of_series() {
  return Node::map("train", {Node::entry("epochs", "50"), Node::entry("batch_size", "64"),
                             Node::map("early_stopping", {Node::entry("patience", "8")})});
}

// Returns the default of `train` for texts with a class or value each. Their words are soon learned
// by heart.
Node training_of_texts() {
  return Node::map("train", {Node::entry("epochs", "30"), Node::entry("batch_size", "32"),
                             Node::map("early_stopping", {Node::entry("patience", "5")})});
}

// Adds the defaults of a language model to those of a config without `train`: a training that gets
// somewhere on a CPU within minutes.
void add_language_defaults(const Node& root, std::vector<Node>& out) {
  if (root.find("model") == nullptr) {
    for (const auto& [key, value] : {std::pair("n_layer", "4"), {"n_head", "4"}, {"n_embd", "128"}})
      out[0].children.push_back(Node::entry(key, value));
  }
  out.push_back(Node::map("schedule", {Node::entry("type", "cosine")}));
  out.push_back(
      Node::map("train", {Node::entry("steps", "1000"), Node::entry("batch_size", "16"),
                          Node::entry("eval_every", "100"), Node::entry("eval_batches", "10"),
                          Node::entry("sample_every", "200")}));
}

// Returns whether the config leaves the optimizer to the default, or gives options of that one.
bool has_adamw(const Node& root) {
  const Node* given = root.find("optimizer");
  const Node* type = given == nullptr ? nullptr : given->find("type");
  return type == nullptr || type->text == "adamw";
}

// Images with the keys of earlier versions. They have the default model of that time.
constexpr const char* kOldImages = "images with data.root";

// Returns the default of `train` for folders of images.
Node training_of_images() {
  return Node::map("train", {Node::entry("epochs", "30"), Node::entry("batch_size", "32"),
                             Node::map("early_stopping", {Node::entry("patience", "10")})});
}

// Returns whether the config asks for no validation part, without which no run stops early.
bool has_no_validation(const Node& data) {
  const Node* const split = data.find("split");
  const Node* const share = split == nullptr ? nullptr : split->find("validation");
  return share != nullptr && (is_word(*share, "0") || is_word(*share, "0.0"));
}

// Returns the default sections of a type of data. is_data: data stand in place of a config.
std::vector<Node> default_sections(const std::string& data_type, const Node& data, const Node& root,
                                   bool is_data) {
  constexpr std::string_view kImages[] = {"digits", "mnist", "idx", "cifar", kOldImages};
  const bool is_table = data_type == "table", is_series = data_type == "series",
             is_text = data_type == "labeled_text", is_folder = data_type == "images";
  const std::string model = is_table                                     ? "tabular"
                            : is_folder                                  ? "convnet"
                            : is_series                                  ? "forecaster"
                            : is_text                                    ? "bag_classifier"
                            : data_type == "text"                        ? "gpt"
                            : std::ranges::count(kImages, data_type) > 0 ? "cnn"
                                                                         : "mlp";
  std::vector<Node> out = {Node::map("model", {Node::entry("type", model)}),
                           Node::map("optimizer", {Node::entry("type", "adamw")})};
  if (is_text && has_adamw(root)) out.back().children.push_back(Node::entry("lr", "0.005"));
  // With data in place of a config, "train.steps=500" does not change the size of the model.
  const bool is_bare = data_type == "text" && (is_data || root.find("train") == nullptr);
  if (is_bare) add_language_defaults(root, out);
  if (!is_table && !is_series && !is_text && !is_folder) return out;
  out.push_back(Node::map("schedule", {Node::entry("type", "cosine")}));
  out.push_back(is_table    ? training_of_table(data)
                : is_series ? training_of_series()
                : is_text   ? training_of_texts()
                            : training_of_images());
  if (has_no_validation(data)) {
    std::erase_if(out.back().children, [](const Node& n) { return n.key == "early_stopping"; });
  }
  // Few large errors, as of a holiday, must not determine the weights.
  if (is_series) out.push_back(Node::map("loss", {Node::entry("type", "huber")}));
  return out;
}

// Adds the keys of the default that the section `given` lacks. A section with a length of its own
// does not get the default's early stopping, and a length in steps replaces that in epochs.
void add_missing(Node& given, const Node& section, bool adds_types) {
  const bool has_length = given.find("epochs") != nullptr || given.find("steps") != nullptr;
  for (const Node& child : section.children) {
    Node* own = given.find(child.key);
    if (own != nullptr) {
      if (own->kind == Kind::kMap) add_missing(*own, child, adds_types);
      continue;
    }
    if (child.key == "type" && !adds_types) continue;
    const bool is_about_length =
        child.key == "epochs" || child.key == "steps" || child.key == "early_stopping";
    if (!(has_length && is_about_length)) given.children.push_back(child);
  }
}

// Adds the default `section` if the config lacks it, and otherwise what the config's section lacks.
void add_default(Node& root, Node section, bool adds_types) {
  Node* given = root.find(section.key);
  if (given == nullptr || given->kind == Kind::kNull) {
    std::erase_if(root.children, [&](const Node& n) { return n.key == section.key; });
    root.children.push_back(std::move(section));
    return;
  }
  if (given->kind == Kind::kMap) add_missing(*given, section, adds_types);
}

// The keys of `type: csv` that have another name in `type: table`. An empty new name: there is no
// such key.
struct OldKey {
  const char *name, *now;
};
constexpr OldKey kOldKeys[] = {{"csv", "path"},
                               {"label", "target"},
                               {"test_path", "split.test"},
                               {"test_fraction", "split.test"},
                               {"header", "read.header"},
                               {"delimiter", "read.delimiter"}};

// Moves a value to the key `path`, such as "split.test". Returns false if that is given, too.
bool move_to(Node& data, const std::string& path, Node value) {
  const size_t dot = path.find('.');
  Node* map = &data;
  if (dot != std::string::npos) {
    const std::string section = path.substr(0, dot);
    map = data.find(section);
    if (map == nullptr) {
      data.children.push_back(Node::map(section, {}));
      map = &data.children.back();
      map->place = value.place;
      map->key_place = value.key_place;
    }
  }
  value.key = path.substr(dot + 1);  // npos + 1 is 0
  if (map->kind != Kind::kMap || map->find(value.key) != nullptr) return false;
  map->children.push_back(std::move(value));
  return true;
}

// Replaces `key` of a table by its new name.
void replace_key(Node& data, const OldKey& key, Completed& completed) {
  const Node* found = data.find(key.name);
  if (found == nullptr) return;
  const Node value = *found;
  std::erase_if(data.children, [&](const Node& n) { return n.key == key.name; });
  const std::string what = concat_to_string("data.", key.name, " is an old name of data.", key.now);
  if (move_to(data, key.now, value)) {
    completed.notes.push_back(what);
    return;
  }
  completed.problems.push_back(
      {value.key_place, concat_to_string(what, ", which is given, too; remove it")});
}

// Replaces `missing: mean` and `missing: refuse` by the strategy for numbers, and removes
// `categories`.
void replace_values(Node& data, Completed& completed) {
  Node* missing = data.find("missing");
  if (missing != nullptr && (is_word(*missing, "mean") || is_word(*missing, "refuse"))) {
    const std::string old = missing->text;
    missing->text = old == "mean" ? "median" : old;
    wrap(*missing, "numbers");
    completed.notes.push_back(concat_to_string(
        "data.missing: ", old,
        " is an old form of data.missing.numbers: ", old == "mean" ? "median" : "refuse"));
  }
  if (data.find("categories") == nullptr) return;
  std::erase_if(data.children, [](const Node& n) { return n.key == "categories"; });
  completed.notes.emplace_back(
      "data.categories has no effect on a table, whose columns of words are categories; "
      "data.columns says what a column is");
}

// Replaces the keys and values of `type: csv` in a table. Each replacement is noted.
void replace_old_keys(Node& data, Completed& completed) {
  for (const OldKey& key : kOldKeys) replace_key(data, key, completed);
  replace_values(data, completed);
}

// Replaces `root` of images, which earlier versions had instead of `path`. They are divided and
// read as they were then, so that saved runs keep their test part.
bool replace_old_images(Node& root, Node& data, Completed& completed) {
  if (data.find("root") == nullptr) return false;
  // A saved config has the default of test_fraction, which had no effect beside test_root.
  if (data.find("test_root") != nullptr) {
    std::erase_if(data.children, [](const Node& n) { return n.key == "test_fraction"; });
  }
  constexpr OldKey kKeys[] = {
      {"root", "path"}, {"test_root", "split.test"}, {"test_fraction", "split.test"}};
  for (const OldKey& key : kKeys) replace_key(data, key, completed);
  const Node* seed = root.find("seed");
  Node split = Node::map("split", {Node::entry("validation", "0"), Node::entry("test", "0.2"),
                                   Node::entry("seed", seed ? seed->text : "0")});
  const Node defaults =
      Node::map("data", {Node::entry("size", "64"), Node::entry("grey", "false"),
                         Node::entry("fit", "squash"), Node::entry("normalize", "none"),
                         Node::entry("broken", "0"), std::move(split)});
  add_missing(data, defaults, false);
  return true;
}

// Returns whether the section has every key, as in the config.yaml of a run. There, a list that is
// missing is empty.
bool is_complete(const Node& data) {
  return data.find("workers") != nullptr && data.find("on_device") != nullptr &&
         data.find("in_memory") != nullptr;
}

// Replaces `transforms: auto` by a list of one, and removes `transforms: none`, null and []. Image
// files have `auto` if nothing is given.
void complete_transforms(Node& data, bool are_image_files) {
  Node* found = data.find("transforms");
  if (found == nullptr) {
    if (!are_image_files || is_complete(data)) return;
    data.children.push_back(Node::entry("transforms", "auto"));
    found = &data.children.back();
  }
  const bool is_empty = found->kind == Kind::kNull || is_word(*found, "none") ||
                        (found->kind == Kind::kSequence && found->children.empty());
  if (is_empty) {
    std::erase_if(data.children, [](const Node& n) { return n.key == "transforms"; });
    return;
  }
  if (found->kind != Kind::kScalar) return;
  Node item = *found;
  item.key.clear();
  found->kind = Kind::kSequence;
  found->text.clear();
  found->children = {std::move(item)};
}

// Replaces `{name: price, log: true}`, the form of a target that gives more than its name, by the
// name, and adds it to `logs` if its logarithm is the target.
void expand_target(Node& target, std::vector<Node>& logs, std::vector<Problem>& problems) {
  if (target.kind != Kind::kMap) return;
  const Node* const name = target.find("name");
  const Node* const log = target.find("log");
  const auto is_known = [&](const Node& n) { return &n == name || &n == log; };
  if (name == nullptr || name->kind != Kind::kScalar ||
      !std::ranges::all_of(target.children, is_known)) {
    problems.push_back({target.place, "data.target: expected a name, or {name: NAME, log: true}"});
    return;
  }
  const bool is_log = log != nullptr && is_word(*log, "true");
  if (log != nullptr && !is_log && !is_word(*log, "false")) {
    problems.push_back({log->place, "data.target.log: expected true or false"});
  }
  Node word = *name;
  word.key = target.key;
  word.key_place = target.key_place;
  target = word;
  word.key.clear();
  if (is_log) logs.push_back(std::move(word));
}

// Expands the forms of a table's targets and of `balance: {yes: 3, no: 1}`.
void expand_table(Node& data, std::vector<Problem>& problems) {
  std::vector<Node> logs;
  Node* const target = data.find("target");
  if (target != nullptr) expand_target(*target, logs, problems);
  if (target != nullptr && target->kind == Kind::kSequence) {
    for (Node& each : target->children) expand_target(each, logs, problems);
  }
  Node* const balance = data.find("balance");
  const bool is_map = balance != nullptr && balance->kind == Kind::kMap;
  if (is_map && data.find("class_weights") == nullptr) balance->key = "class_weights";
  if (logs.empty()) return;
  Node list = Node::map("log_targets", std::move(logs));
  list.kind = Kind::kSequence;
  list.place = list.key_place = list.children[0].place;
  if (data.find("log_targets") != nullptr) {
    problems.push_back({list.place, "data.log_targets is given, too; remove it"});
  } else {
    data.children.push_back(std::move(list));
  }
}

// Adds the type that the path implies.
void infer_type(Node& data) {
  if (data.kind != Kind::kMap || data.find("type") != nullptr) return;
  const std::vector<std::string> paths = paths_of(data);
  std::string type = paths.empty() ? "" : data_type_of(paths[0]);
  // A table may have any name.
  const bool is_file = type == "text" || (type.empty() && !paths.empty());
  if (is_file && data.find("target") != nullptr) type = "table";
  if (type == "table" && data.find("horizon") != nullptr) type = "series";
  if (type == "table" && data.find("text") != nullptr) type = "labeled_text";
  const bool has_path = data.find("path") != nullptr;
  if (type.empty() || (!has_path && type != "table")) return;
  Node added = Node::entry("type", type);
  added.place = data.place;
  added.key_place = data.key_place;
  data.children.insert(data.children.begin(), std::move(added));
}

}  // namespace

void expand_sections(Node& root) {
  if (root.kind != Kind::kMap) return;
  Node* data = root.find("data");
  const bool is_path =
      data != nullptr && data->kind == Kind::kScalar && !data_type_of(data->text).empty();
  if (is_path) wrap(*data, "path");
  RunConfig scratch;
  expand(describe(scratch), root);
  if (Node* optimizer = root.find("optimizer")) expand_rates(*optimizer);
}

Completed complete_config(Node& root, bool adds_types) {
  Completed completed;
  Node* data = root.kind == Kind::kMap ? root.find("data") : nullptr;
  if (data == nullptr) return completed;
  infer_type(*data);
  const Node* type = data->find("type");
  if (type == nullptr) return completed;
  std::string kind = type->text;  // a copy, because replacements move the nodes
  if (kind == "table") {
    replace_old_keys(*data, completed);
    expand_table(*data, completed.problems);
  }
  if (kind == "images" && replace_old_images(root, *data, completed)) kind = kOldImages;
  complete_transforms(*data, kind == "images");
  for (Node& section : default_sections(kind, *data, root, adds_types)) {
    add_default(root, std::move(section), adds_types);
  }
  return completed;
}

}  // namespace taper::v0::runner
