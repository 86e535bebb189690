// Reads the tree of a config into the struct that a schema is bound to.
#include <algorithm>
#include <iterator>
#include <ranges>
#include <string_view>

#include "apps/runner/base/errors.h"
#include "apps/runner/base/string_utils.h"
#include "apps/runner/config/table.h"

namespace taper::v0::runner {
namespace {

// Optional parts of a message.
std::string in_section(const std::string& path) {
  return path.empty() ? "" : concat_to_string(" in '", path, "'");
}
std::string also(const std::string& advice) {
  return advice.empty() ? "" : concat_to_string("; ", advice);
}

constexpr const char* kImplied =
    " (the path of a .csv, .tsv, .jsonl or .txt file, and that of a folder, implies it)";

std::vector<std::string> names_of(const Schema& schema) {
  std::vector<std::string> names;
  for (const Field& f : schema.fields) names.push_back(f.name);
  return names;
}

bool has_field(const Schema& schema, const std::string& name) {
  return std::ranges::find(schema.fields, name, &Field::name) != schema.fields.end();
}

// A name that other programs use for a key, and the key's path in Taper.
struct Synonym {
  std::string_view name, path;
};
constexpr Synonym kSynonyms[] = {
    {"T_max", "schedule.total_iters"},
    {"accelerator", "device"},
    {"accumulate_grad_batches", "train.accumulate"},
    {"amp", "train.precision"},
    {"architecture", "model"},
    {"criterion", "loss"},
    {"dataset", "data"},
    {"early_stop", "train.early_stopping"},
    {"eta_min", "schedule.min_lr"},
    {"eval_steps", "train.eval_every"},
    {"gpu", "device"},
    {"grad_clip", "train.clip_norm"},
    {"gradient_accumulation_steps", "train.accumulate"},
    {"gradient_clip_val", "train.clip_norm"},
    {"hidden_layers", "model.hidden"},
    {"hidden_layer_sizes", "model.hidden"},
    {"label_column", "data.label"},
    {"learning_rate", "optimizer.lr"},
    {"learning_rate_scheduler", "schedule"},
    {"log_interval", "train.log_every"},
    {"logging_steps", "train.log_every"},
    {"loss_fn", "loss"},
    {"loss_function", "loss"},
    {"lr_scheduler", "schedule"},
    {"max_epochs", "train.epochs"},
    {"max_grad_norm", "train.clip_norm"},
    {"max_iters", "train.steps"},
    {"max_norm", "train.clip_norm"},
    {"max_steps", "train.steps"},
    {"mixed_precision", "train.precision"},
    {"monitor", "train.early_stopping.metric"},
    {"n_epochs", "train.epochs"},
    {"n_iter_no_change", "train.early_stopping.patience"},
    {"network", "model"},
    {"num_epochs", "train.epochs"},
    {"num_threads", "threads"},
    {"num_train_epochs", "train.epochs"},
    {"num_warmup_steps", "schedule.warmup"},
    {"num_workers", "data.workers"},
    {"optim", "optimizer"},
    {"output_feature", "data.label"},
    {"output_features", "data.label"},
    {"per_device_eval_batch_size", "train.eval_batch_size"},
    {"per_device_train_batch_size", "train.batch_size"},
    {"random_seed", "seed"},
    {"random_state", "seed"},
    {"save_steps", "checkpoint.every"},
    {"scheduler", "schedule"},
    {"sep", "data.delimiter"},
    {"target", "data.label"},
    {"target_column", "data.label"},
    {"trainer", "train"},
    {"val_batch_size", "train.eval_batch_size"},
    {"val_check_interval", "train.eval_every"},
    {"validation_split", "data.test_fraction"},
    {"val_split", "data.test_fraction"},
    {"warmup_steps", "schedule.warmup"},
    {"y", "data.label"},
};

std::string key_of(std::string_view path) { return std::string(path.substr(path.rfind('.') + 1)); }

// Returns the path of the key that other programs call by that name; empty if there is none.
std::string synonym_of(const std::string& name) {
  const auto found = std::ranges::find_if(
      kSynonyms, [&](const Synonym& s) { return folded(std::string(s.name)) == folded(name); });
  return found == std::end(kSynonyms) ? "" : std::string(found->path);
}

// Returns how many leading keys two paths share.
std::size_t shared_keys(const std::string& a, const std::string& b) {
  const std::vector<std::string> x = lines_of(a, '.'), y = lines_of(b, '.');
  return std::size_t(std::ranges::mismatch(x, y).in1 - x.begin());
}

// Appends the dotted paths of all keys. Creates optional maps that are not given, which is
// harmless: a config with an unknown key is not used.
void add_paths(const Schema& schema, const std::string& path, std::vector<std::string>& out) {
  for (const Field& f : schema.fields) {
    const std::string here = join_path(path, f.name);
    out.push_back(here);
    if (const auto* section = std::get_if<Section>(&f.target)) {
      add_paths(section->open(), here, out);
    } else if (const auto* tagged = std::get_if<TypedSection>(&f.target)) {
      for (const Alternative& a : tagged->alternatives()) add_paths(a, here, out);
    }
  }
}

bool is_list(const Node& node) { return node.kind == Node::Kind::kSequence; }

struct Reader {
  const Schema& root;
  ReadResult result{};
  std::vector<std::string> paths{};  // all keys' paths, filled when they are first needed

  void problem(const Place& place, std::string message) {
    result.problems.push_back({place, std::move(message)});
  }

  // Reports that a node has another type than expected. A non-empty `advice` must begin with "; ".
  void mismatch(const Node& node, const std::string& path, const std::string& expected,
                const std::string& advice = "") {
    problem(node.place, concat_to_string(path, path.empty() ? "" : ": ", "expected ", expected,
                                         ", got ", describe_node(node), advice));
  }

  void not_a_map(const Node& node, const std::string& path, const std::string& expected) {
    const bool is_glued = node.kind == Node::Kind::kScalar && !node.is_quoted &&
                          node.text.find(':') != std::string::npos;
    mismatch(node, path, expected, is_glued ? "; put a space after ':'" : "");
  }

  // Reads the keys of a map. `owner` is given if the map is a typed section.
  void read_section(const Schema& schema, const Node& node, const std::string& path,
                    const TypedSection* owner = nullptr) {
    if (node.kind != Node::Kind::kNull && node.kind != Node::Kind::kMap) {
      return not_a_map(node, path,
                       concat_to_string("a map with the keys ", joined(names_of(schema))));
    }
    const std::size_t problems_before = result.problems.size();
    for (const Node& child : node.children) {
      const bool is_tag = owner != nullptr && child.key == "type";
      if (!is_tag && !has_field(schema, child.key)) unknown_key(schema, child, path, owner);
    }
    for (const Field& field : schema.fields) read_field(field, node, path);
    if (result.problems.size() > problems_before) return;
    for (const Rule& rule : schema.rules) {
      if (rule.holds()) continue;
      const Node* at = &node;
      for (const auto key : rule.key | std::views::split('.')) {
        const Node* child = at->find(std::string_view(key.begin(), key.end()));
        if (child == nullptr) break;
        at = child;
      }
      problem(at->key_place, concat_to_string(join_path(path, rule.key), ": ", rule.requirement));
    }
  }

  void unknown_key(const Schema& schema, const Node& child, const std::string& path,
                   const TypedSection* owner) {
    std::vector<std::string> known = names_of(schema);
    if (owner != nullptr) {
      known.insert(known.begin(), "type");
      if (const auto types = types_with(*owner, child.key); !types.empty()) {
        return problem(child.key_place,
                       concat_to_string("key '", child.key, "' is not valid for ", path,
                                        " of type ", owner->chosen->type, ", only for type ",
                                        joined(types), "; remove it or change the type"));
      }
    }
    problem(child.key_place,
            concat_to_string("unknown key ", in_quotes(child.key), in_section(path),
                             did_you_mean(meant(schema, child.key, known, path)),
                             "; known keys: ", joined(known)));
  }

  static std::vector<std::string> types_with(const TypedSection& tagged, const std::string& key) {
    std::vector<std::string> types;
    for (const Alternative& a : tagged.alternatives()) {
      if (has_field(a, key)) types.push_back(a.type);
    }
    return types;
  }

  // Returns the key that was probably meant: one of this section, or else the path of one in
  // another section.
  std::string meant(const Schema& schema, const std::string& name,
                    const std::vector<std::string>& known, const std::string& section) {
    if (paths.empty()) add_paths(root, "", paths);
    const std::string synonym = synonym_of(name), key = key_of(synonym);
    if (!synonym.empty() && has_field(schema, key)) return key;
    if (std::ranges::count(paths, synonym) > 0) return synonym;
    const std::string near = nearest(name, known);
    return near.empty() ? path_to(name, section) : near;
  }

  // Returns the path of a similarly named key in another section, preferring sections that share
  // more leading keys with `section`; empty if there is none.
  std::string path_to(const std::string& name, const std::string& section) const {
    std::vector<std::string> keys;
    for (const std::string& path : paths) keys.push_back(key_of(path));
    const std::string key = closest(name, keys);
    std::string best;
    for (const std::string& path : paths) {
      if (key.empty() || key_of(path) != key) continue;
      if (best.empty() || shared_keys(path, section) > shared_keys(best, section)) best = path;
    }
    return best;
  }

  void read_field(const Field& field, const Node& section, const std::string& path) {
    const Node* node = section.find(field.name);
    const std::string here = join_path(path, field.name);
    if (node == nullptr) {
      if (!field.is_required) return;
      const auto* tagged = std::get_if<TypedSection>(&field.target);
      problem(section.key_place,
              concat_to_string(
                  "missing key '", field.name, "'", in_section(path), " (", field.doc,
                  tagged ? concat_to_string(", with a type: ", joined(tagged->kind->names())) : "",
                  ")"));
    } else if (field.is_idle && field.is_idle()) {
      problem(node->key_place, concat_to_string("key '", here, "' has no effect if ",
                                                field.idle_reason, "; remove it"));
    } else {
      result.places[here] = node->place;
      std::visit([&](const auto& target) { read_target(field, target, *node, here); },
                 field.target);
    }
  }

  void read_target(const Field& field, const Value& v, const Node& node, const std::string& path) {
    if (v.is_given && node.kind == Node::Kind::kNull) return v.take_back();
    if (v.is_word) *v.is_word = node.kind == Node::Kind::kScalar && node.text == v.word;
    if (v.is_word && *v.is_word) return;
    const std::string one = expected_of_one(field);
    if (v.takes_one && !(v.takes_list && is_list(node))) {
      const std::string words = v.takes_list ? expected(field, " or 'same'") : one;
      for (const Scalar& each :
           v.scalars(1)) {  // a single number sets all values of a pair or triple
        if (!read_scalar_of(field, each, node, path, words)) return;
      }
      return;
    }
    const std::size_t n = node.children.size();
    const bool fits = v.most > 0 ? n >= 2 && n <= v.most : v.size == 0 || n == v.size;
    if (!is_list(node) || !fits) {
      return mismatch(
          node, path,
          v.size > 0 ? concat_to_string("a list of ", v.size, " numbers") : expected(field),
          is_list(node) ? concat_to_string("; it has ", n) : "");
    }
    for (std::size_t i = 0; const Scalar& each : v.scalars(n)) {
      read_scalar_of(field, each, node.children[i], join_path(path, concat_to_string(i)), one);
      ++i;
    }
  }

  // Reads one scalar. Returns false after reporting a problem if it does not fit.
  bool read_scalar_of(const Field& field, const Scalar& out, const Node& node,
                      const std::string& path, const std::string& expected) {
    if (!field.names.empty()) {
      const std::optional<std::size_t> i = read_name(field.names, node, path);
      if (const auto* choice = std::get_if<Choice>(&out); choice && i) choice->set(*i);
      if (const auto* text = std::get_if<std::string*>(&out); text && i) **text = field.names[*i];
      return i.has_value();
    }
    const auto read_one = [&]<class T>(T* value) {
      const Reading<T> reading = read_scalar<T>(node);
      bool fits = reading.value.has_value();
      if constexpr (std::is_same_v<T, std::string>) {
        fits = fits && (!field.has_form || field.has_form(*reading.value));
      } else {
        fits = fits && field.range.contains(double(*reading.value));
      }
      if (fits) *value = *reading.value;
      if (!fits) mismatch(node, path, expected, also(reading.advice));
      return fits;
    };
    return std::visit(Overloaded{read_one, [](const Choice&) { return true; }}, out);
  }

  // Returns the index of the given name. Reports a problem with the advice `more` if it is not in
  // `names`.
  std::optional<std::size_t> read_name(const std::vector<std::string>& names, const Node& node,
                                       const std::string& path, const std::string& more = "") {
    const bool is_text = node.kind == Node::Kind::kScalar;
    const auto found = std::ranges::find(names, node.text);
    if (is_text && found != names.end()) return std::size_t(found - names.begin());
    mismatch(node, path, concat_to_string("one of ", joined(names)),
             is_text ? concat_to_string(did_you_mean(nearest(node.text, names)), also(more)) : "");
    return std::nullopt;
  }

  void read_target(const Field&, const Section& section, const Node& node,
                   const std::string& path) {
    if (section.is_given && node.kind == Node::Kind::kNull) return;
    read_section(section.open(), node, path);
  }

  void read_target(const Field& field, const WordMap& map, const Node& node,
                   const std::string& path) {
    map.words->clear();
    if (node.kind == Node::Kind::kNull) return;
    if (node.kind != Node::Kind::kMap) return mismatch(node, path, expected(field));
    for (const Node& child : node.children) {
      const std::string here = join_path(path, child.key);
      if (field.names.empty()) {
        const bool fits = child.kind == Node::Kind::kScalar && field.has_form(child.text);
        if (fits) (*map.words)[child.key] = child.text;
        if (!fits) mismatch(child, here, field.form);
        continue;
      }
      const auto i = read_name(field.names, child, here);
      if (i) (*map.words)[child.key] = field.names[*i];
    }
  }

  void read_target(const Field&, const Custom& custom, const Node& node, const std::string& path) {
    for (const Problem& p : custom.read(node))
      problem(p.place, concat_to_string(path, ": ", p.message));
  }

  // Sets the chosen type with its defaults. Returns false after reporting a problem if the type is
  // unknown.
  bool choose(const TypedSection& out, const Node& tag, const std::string& path) {
    constexpr const char* kOwn = "a type that a program registers is only known to that program";
    if (!read_name(out.kind->names(), tag, path, kOwn)) return false;
    const Place place = out.chosen->place;
    *out.chosen = out.kind->component(tag.text);
    out.chosen->place = place;
    return true;
  }

  void read_target(const Field&, const TypedSection& out, const Node& node,
                   const std::string& path) {
    const std::vector<std::string> types = out.kind->names();
    out.chosen->place = node.place;
    if (node.kind != Node::Kind::kMap) {
      return not_a_map(node, path, concat_to_string("a type or a map with one: ", joined(types)));
    }
    if (const Node* type = node.find("type")) {
      const std::string here = join_path(path, "type");
      result.places[here] = type->place;
      // If the map was merged from several files, errors of the component are reported at its type.
      if (type->place.source != node.place.source) out.chosen->place = type->place;
      if (choose(out, *type, here)) read_section(out.schema(), node, path, &out);
      return;
    }
    problem(node.key_place,
            concat_to_string("missing key 'type'", in_section(path), "; one of ", joined(types),
                             out.path_may_imply_type ? kImplied : ""));
    for (const Node& child : node.children) {
      if (!types_with(out, child.key).empty()) continue;
      problem(child.key_place,
              concat_to_string("unknown key ", in_quotes(child.key), in_section(path),
                               did_you_mean(nearest(child.key, {"type"}))));
    }
  }

  void read_target(const Field&, const TypedSectionList& out, const Node& node,
                   const std::string& path) {
    const std::size_t n = node.children.size();
    if (n > kMaxEntries)
      return mismatch(node, path, concat_to_string("at most ", kMaxEntries, " entries"));
    if (!is_list(node) || n == 0) {
      return mismatch(node, path, "a list of at least one entry, such as a line '- name'");
    }
    out.list->assign(n, out.kind->first());
    for (std::size_t i = 0; i < n; ++i) {
      const std::string here = join_path(path, concat_to_string(i));
      result.places[here] = node.children[i].place;
      read_entry(out.item(i), node.children[i], here);
    }
  }

  // Reads "relu", "linear: 512" or "linear: {out_features: 512}".
  void read_entry(const TypedSection& out, const Node& node, const std::string& path) {
    out.chosen->place = node.place;
    const bool is_map = node.kind == Node::Kind::kMap;
    if (is_map ? node.children.size() != 1 : node.kind != Node::Kind::kScalar) {
      return mismatch(node, path, "a name or one 'name: arguments'",
                      is_map ? concat_to_string("; it has ", node.children.size(),
                                                " keys, but an entry has a single name")
                             : "");
    }
    Node tag = node, arguments{.place = node.place, .key_place = node.place};
    if (is_map) {
      arguments = node.children[0];
      tag = {.kind = Node::Kind::kScalar, .place = arguments.key_place, .text = arguments.key};
    }
    if (!choose(out, tag, path)) return;
    const Schema schema = out.schema();
    const std::string here = join_path(path, tag.text);
    if (arguments.kind == Node::Kind::kScalar || is_list(arguments)) {
      if (schema.fields.empty()) {
        return mismatch(arguments, here, "no arguments", "; write only the name");
      }
      Node first = arguments;
      first.key = schema.fields[0].name;
      arguments = {.kind = Node::Kind::kMap, .place = first.place, .key_place = tag.place};
      arguments.children = {first};
    }
    read_section(schema, arguments, here);
  }
};

}  // namespace

ReadResult read(const Schema& schema, const Node& root) {
  Reader reader{schema};
  reader.read_section(schema, root, "");
  return std::move(reader.result);
}

void read_word(const Field& field, const std::string& word) {
  const Schema schema{{field}};
  Node root{.kind = Node::Kind::kMap};
  root.children = {Node{.kind = Node::Kind::kScalar, .text = word, .key = field.name}};
  const ReadResult result = read(schema, root);
  if (!result.problems.empty()) throw ConfigError(result.problems[0].message);
}

}  // namespace taper::v0::runner
