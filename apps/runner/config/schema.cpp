#include "apps/runner/config/schema.h"

#include <algorithm>
#include <cmath>
#include <ranges>

#include "apps/runner/run/text.h"
#include "framework/error.h"

namespace taper::runner {
namespace {

template <class... F> struct Overloaded : F... { using F::operator()...; };

std::string join_path(const std::string& path, const std::string& key) {
  return path.empty() ? key : cat(path, ".", key);
}

// The parts of a sentence that are there only if they have something to say.
std::string in_section(const std::string& path) {
  return path.empty() ? "" : cat(" in '", path, "'");
}
std::string also(const std::string& advice) { return advice.empty() ? "" : cat("; ", advice); }
std::string did_you_mean(const std::string& name) {
  return name.empty() ? "" : cat("did you mean '", name, "'?");
}

std::vector<std::string> names_of(const Schema& schema) {
  std::vector<std::string> names;
  for (const Field& f : schema.fields) names.push_back(f.name);
  return names;
}

bool has_field(const Schema& schema, const std::string& name) {
  return std::ranges::find(schema.fields, name, &Field::name) != schema.fields.end();
}

// Of what people write by mistake; else empty.
std::string right_name(const std::string& name) {
  if (name == "learning_rate") return "lr";
  if (name == "eta_min") return "min_lr";
  return name == "T_max" ? "total_iters" : "";
}

// The maps that a field may hold, whatever its tag is now.
std::span<const Schema> sections_of(const Field& field) {
  if (const auto* section = std::get_if<Schema>(&field.target)) return {section, 1};
  if (const auto* tagged = std::get_if<Union>(&field.target)) return tagged->alternatives;
  return {};
}

// The first dotted path that ends in a field of that name (or often miscalled so), or empty.
std::string find_path(const Schema& schema, const std::string& name, const std::string& path) {
  for (const Field& f : schema.fields) {
    const std::string here = join_path(path, f.name);
    if (folded(f.name) == folded(name) || f.name == right_name(name)) return here;
    for (const Schema& section : sections_of(f)) {
      const std::string inner = find_path(section, name, here);
      if (!inner.empty()) return inner;
    }
  }
  return "";
}

// 1000000 rather than 1e+06.
std::string text_of(double bound) {
  const bool is_whole = bound == std::floor(bound) && std::fabs(bound) < 1e15;
  return is_whole ? cat(int64_t(bound)) : cat(bound);
}

// ", at least 1 and below 10"; empty for no bounds.
std::string text_of(const Range& range) {
  std::string out;
  if (range.low > -kInfinity)
    out = cat(range.low_open ? ", above " : ", at least ", text_of(range.low));
  if (range.high < kInfinity) {
    out += cat(out.empty() ? ", " : " and ", range.high_open ? "below " : "at most ",
               text_of(range.high));
  }
  return out;
}

const char* kind_of(bool) { return "true or false"; }
const char* kind_of(int64_t) { return "an integer"; }
const char* kind_of(uint64_t) { return "an integer of 0 or more"; }
const char* kind_of(double) { return "a number"; }
const char* kind_of(const std::string&) { return "a text"; }

// What a member of that type takes; the pointer tells the type alone.
template <class T> std::string expected(const Field& field, const T*) {
  const std::string kind = cat(kind_of(T{}), text_of(field.range));
  if (!std::is_same_v<T, std::string>) return kind;
  if (!field.names.empty()) return cat("one of ", joined(field.names));
  return field.form.empty() ? kind : field.form;
}
std::string expected(const Field& field, const Pair*) {
  return cat(expected(field, static_cast<int64_t*>(nullptr)), ", or two of them as a list");
}
template <class T> std::string expected(const Field& field, const std::optional<T>*) {
  return expected(field, static_cast<T*>(nullptr));
}
std::string expected(const Field& field, const std::vector<std::string>*) {
  return cat(expected(field, static_cast<std::string*>(nullptr)), ", or a list of them");
}
std::string expected(const Field& field, const std::vector<int64_t>*) {
  return cat("a list of integers", text_of(field.range), ", as in [512, 512]");
}
bool is_list(const Node& node) { return node.kind == Node::Kind::kSequence; }

class Reader {
 public:
  explicit Reader(const Schema& schema) : root_(schema) {}

  ReadResult run(const Node& node) {
    read_section(root_, node, "");
    return std::move(result_);
  }

 private:
  void problem(const Place& place, std::string message) {
    result_.problems.push_back({place, std::move(message)});
  }

  void mismatch(const Node& node, const std::string& path, const std::string& expected,
                const std::string& advice = "") {
    problem(node.place, cat(path, path.empty() ? "" : ": ", "expected ", expected, ", got ",
                            seen(node), also(advice)));
  }

  void not_a_map(const Node& node, const std::string& path, const std::string& expected) {
    const bool is_glued = node.kind == Node::Kind::kScalar && !node.is_quoted &&
                          node.text.find(':') != std::string::npos;
    mismatch(node, path, expected, is_glued ? "a space belongs after ':'" : "");
  }

  // The keys of a map; of a union's alternative when `owner` is given.
  void read_section(const Schema& schema, const Node& node, const std::string& path,
                    const Union* owner = nullptr) {
    if (node.kind != Node::Kind::kNull && node.kind != Node::Kind::kMap) {
      return not_a_map(node, path, cat("a map with the keys ", joined(names_of(schema))));
    }
    const std::size_t problems_before = result_.problems.size();
    for (const Node& child : node.children) {
      const bool is_tag = owner != nullptr && child.key == "type";
      if (!is_tag && !has_field(schema, child.key)) unknown_key(schema, child, path, owner);
    }
    for (const Field& field : schema.fields) read_field(field, node, path);
    if (result_.problems.size() > problems_before) return;
    for (const Rule& rule : schema.rules) {
      if (rule.holds()) continue;
      const Node* at = &node;
      for (const auto key : rule.key | std::views::split('.')) {
        const Node* child = at->find(std::string_view(key.begin(), key.end()));
        if (child == nullptr) break;
        at = child;
      }
      problem(at->key_place, cat(join_path(path, rule.key), ": ", rule.requirement));
    }
  }

  void unknown_key(const Schema& schema, const Node& child, const std::string& path,
                   const Union* owner) {
    std::vector<std::string> known = names_of(schema), types;
    if (owner != nullptr) known.insert(known.begin(), "type");
    for (std::size_t i = 0; owner != nullptr && i < owner->alternatives.size(); ++i) {
      if (has_field(owner->alternatives[i], child.key)) types.push_back(owner->tag.names[i]);
    }
    if (!types.empty()) {
      problem(child.key_place,
              cat("key '", child.key, "' is not for ", path, " of type ", owner->tag.name(),
                  " but for type ", joined(types), "; remove it or change the type"));
      return;
    }
    problem(child.key_place, cat("unknown key ", in_quotes(child.key), in_section(path),
                                 also(did_you_mean(meant(schema, child.key, known))),
                                 "; known keys: ", joined(known)));
  }

  // A key of this section, or the same key in another one.
  std::string meant(const Schema& schema, const std::string& name,
                    const std::vector<std::string>& known) const {
    if (has_field(schema, right_name(name))) return right_name(name);
    const std::string near = nearest(name, known);
    return near.empty() ? find_path(root_, name, "") : near;
  }

  void read_field(const Field& field, const Node& section, const std::string& path) {
    const Node* node = section.find(field.name);
    const std::string here = join_path(path, field.name);
    if (node == nullptr) {
      if (!field.is_required) return;
      const auto* tagged = std::get_if<Union>(&field.target);
      problem(section.key_place,
              cat("missing key '", field.name, "'", in_section(path), " (", field.doc,
                  tagged ? cat(", with a type: ", joined(tagged->tag.names)) : "", ")"));
    } else if (field.is_idle && field.is_idle()) {
      problem(node->key_place,
              cat("key '", here, "' has no meaning when ", field.idle_reason, "; remove it"));
    } else {
      result_.places[here] = node->place;
      read_value(field, *node, here);
    }
  }

  void read_value(const Field& field, const Node& node, const std::string& path) {
    std::visit(Overloaded{
                   [&](const Choice& out) { read_choice(out, node, path); },
                   [&](const Schema& out) { read_section(out, node, path); },
                   [&](const Union& out) { read_union(out, node, path); },
                   [&](const UnionList& out) { read_list(out, node, path); },
                   [&](const OptionalSection& out) {
                     if (node.kind != Node::Kind::kNull) read_section(out.open(), node, path);
                   },
                   [&](const Custom& out) {
                     for (const Problem& p : out.read(node)) {
                       problem(p.place, cat(path, ": ", p.message));
                     }
                   },
                   [&](std::span<double> out) { read_numbers(field, node, path, out); },
                   [&](std::span<int64_t> out) { read_numbers(field, node, path, out); },
                   [&](std::vector<int64_t>* out) {
                     if (!is_list(node)) return mismatch(node, path, expected(field, out));
                     out->resize(node.children.size());
                     read_numbers(field, node, path, std::span<int64_t>(*out));
                   },
                   [&](const Padding& out) {
                     *out.is_same = node.kind == Node::Kind::kScalar && node.text == "same";
                     if (!*out.is_same) take(field, node, path, out.size, " or 'same'");
                   },
                   [&]<class T>(std::optional<T>* out) {
                     if (node.kind != Node::Kind::kNull) take(field, node, path, &out->emplace());
                   },
                   [&](auto* out) { take(field, node, path, out); },
               },
               field.target);
  }

  // `3` or `[3, 5]`.
  void take(const Field& field, const Node& node, const std::string& path, Pair* out,
            const char* or_else = "") {
    if (is_list(node)) {
      std::array<int64_t, 2> both{};
      read_numbers(field, node, path, std::span<int64_t>(both));
      *out = {both[0], both[1]};
      return;
    }
    const Reading<int64_t> reading = read_scalar<int64_t>(node);
    if (!reading.value || !field.range.contains(double(*reading.value))) {
      return mismatch(node, path, cat(expected(field, out), or_else), reading.advice);
    }
    *out = *reading.value;
  }

  void take(const Field& field, const Node& node, const std::string& path,
            std::vector<std::string>* out) {
    out->clear();
    if (!is_list(node)) return take(field, node, path, &out->emplace_back());
    for (std::size_t i = 0; i < node.children.size(); ++i) {
      take(field, node.children[i], join_path(path, cat(i)), &out->emplace_back());
    }
  }

  template <class T>
  void take(const Field& field, const Node& node, const std::string& path, T* out) {
    const Reading<T> reading = read_scalar<T>(node);
    bool fits = reading.value.has_value();
    if constexpr (std::is_same_v<T, std::string>) {
      if (fits && !field.names.empty()) {
        if (read_name(field.names, node, path)) *out = node.text;
        return;
      }
      fits = fits && (!field.has_form || field.has_form(*reading.value));
    } else {
      fits = fits && field.range.contains(double(*reading.value));
    }
    if (!fits) return mismatch(node, path, expected(field, out), reading.advice);
    *out = *reading.value;
  }

  template <class T>
  void read_numbers(const Field& field, const Node& node, const std::string& path,
                    std::span<T> out) {
    if (!is_list(node) || node.children.size() != out.size()) {
      return mismatch(node, path, cat("a list of ", out.size(), " numbers"),
                      is_list(node) ? cat("it has ", node.children.size()) : "");
    }
    for (std::size_t i = 0; i < out.size(); ++i) {
      take(field, node.children[i], join_path(path, cat(i)), &out[i]);
    }
  }

  // The number of the name that stands there; without one, a problem.
  std::optional<std::size_t> read_name(const std::vector<std::string>& names, const Node& node,
                                       const std::string& path) {
    const bool is_text = node.kind == Node::Kind::kScalar;
    const auto found = std::ranges::find(names, node.text);
    if (is_text && found != names.end()) return std::size_t(found - names.begin());
    mismatch(node, path, cat("one of ", joined(names)),
             did_you_mean(is_text ? nearest(node.text, names) : ""));
    return std::nullopt;
  }

  // Sets the choice; false when the text names none.
  bool read_choice(const Choice& out, const Node& node, const std::string& path) {
    const std::optional<std::size_t> i = read_name(out.names, node, path);
    if (i) out.set(*i);
    return i.has_value();
  }

  void read_union(const Union& out, const Node& node, const std::string& path) {
    if (out.place) *out.place = node.place;
    if (node.kind != Node::Kind::kMap) {
      return not_a_map(node, path, cat("a map with a type: ", joined(out.tag.names)));
    }
    const Node* type = node.find("type");
    if (type == nullptr) {
      problem(node.key_place,
              cat("missing key 'type'", in_section(path), "; one of ", joined(out.tag.names)));
      for (const Node& child : node.children) {
        const auto knows = [&](const Schema& s) { return has_field(s, child.key); };
        if (std::ranges::any_of(out.alternatives, knows)) continue;
        problem(child.key_place, cat("unknown key ", in_quotes(child.key), in_section(path),
                                     also(did_you_mean(nearest(child.key, {"type"})))));
      }
      return;
    }
    const std::string here = join_path(path, "type");
    result_.places[here] = type->place;
    if (read_choice(out.tag, *type, here)) read_section(out.chosen(), node, path, &out);
  }

  void read_list(const UnionList& out, const Node& node, const std::string& path) {
    if (node.children.size() > kMaxEntries) {
      return mismatch(node, path, cat("at most ", kMaxEntries, " entries"));
    }
    if (!is_list(node) || node.children.empty()) {
      return mismatch(node, path, "a list of at least one entry, each on a line as '- name'");
    }
    out.resize(node.children.size());
    for (std::size_t i = 0; i < node.children.size(); ++i) {
      const std::string here = join_path(path, cat(i));
      result_.places[here] = node.children[i].place;
      read_item(out.item(i), node.children[i], here);
    }
  }

  // "relu", "linear: 512" or "linear: {out_features: 512}".
  void read_item(const Union& out, const Node& node, const std::string& path) {
    if (out.place) *out.place = node.place;
    const bool is_map = node.kind == Node::Kind::kMap;
    if (is_map ? node.children.size() != 1 : node.kind != Node::Kind::kScalar) {
      return mismatch(
          node, path, "a name or one 'name: arguments'",
          is_map ? cat("it has ", node.children.size(), " keys; one entry names one thing") : "");
    }
    Node tag = node, arguments{.place = node.place, .key_place = node.place};
    if (is_map) {
      arguments = node.children[0];
      tag = {.kind = Node::Kind::kScalar, .place = arguments.key_place, .text = arguments.key};
    }
    if (!read_choice(out.tag, tag, path)) return;
    const Schema chosen = out.chosen();
    const std::vector<Field>& fields = chosen.fields;
    const std::string here = join_path(path, tag.text);
    const bool is_short =
        arguments.kind == Node::Kind::kScalar || arguments.kind == Node::Kind::kSequence;
    if (is_short && fields.empty()) {
      return mismatch(arguments, here, "no arguments", "write the name alone");
    }
    if (is_short) {
      Node first = arguments;
      first.key = fields[0].name;
      arguments = {.kind = Node::Kind::kMap, .place = first.place, .key_place = tag.place};
      arguments.children = {first};
    }
    read_section(chosen, arguments, here);
  }

  const Schema& root_;
  ReadResult result_;
};

bool is_written(const Field& field) {
  if (field.is_idle && field.is_idle()) return false;
  return std::visit(Overloaded{[]<class T>(std::optional<T>* v) { return v->has_value(); },
                               [](std::vector<std::string>* v) { return !v->empty(); },
                               [](const OptionalSection& v) { return v.is_given(); },
                               [](const auto&) { return true; }},
                    field.target);
}

std::string yaml_of(const std::string& v) { return yaml_text(v); }
std::string yaml_of(const Pair& v) { return v.h == v.w ? cat(v.h) : cat("[", v.h, ", ", v.w, "]"); }
template <class T> std::string yaml_of(const T& number) { return cat(number); }

template <class Values> std::string flow(const Values& values) {
  std::vector<std::string> words;
  for (const auto& v : values) words.push_back(yaml_of(v));
  return cat("[", joined(words), "]");
}

}  // namespace

std::string expected(const Field& field) {
  return std::visit(
      Overloaded{
          []<class T>(std::span<T> v) { return cat("a list of ", v.size(), " numbers"); },
          [](const Choice& v) { return cat("one of ", joined(v.names)); },
          [&](const Padding& v) { return cat(expected(field, v.size), ", or same"); },
          [](const Schema&) { return cat("a map"); },
          [](const OptionalSection&) { return cat("a map"); }, [](const Union&) { return cat(); },
          [](const UnionList&) { return cat("a list of entries"); },
          [](const Custom& v) { return v.expected; }, [&](auto* v) { return expected(field, v); }},
      field.target);
}

std::string value_text(const Field& field) {
  return std::visit(
      Overloaded{[]<class T>(std::optional<T>* v) { return v->has_value() ? yaml_of(**v) : ""; },
                 []<class T>(std::vector<T>* v) { return flow(*v); },
                 []<class T>(std::span<T> v) { return flow(v); },
                 [](const Padding& v) { return *v.is_same ? "same" : yaml_of(*v.size); },
                 [](const Choice& v) { return v.name(); }, [](auto* v) { return yaml_of(*v); },
                 [](const auto&) { return cat(); }},
      field.target);
}

namespace {

// "linear: {out_features: 512, bias: true}" or "relu".
std::string item_text(const Union& item) {
  std::string arguments;
  const Schema chosen = item.chosen();
  for (const Field& f : chosen.fields) {
    if (is_written(f)) {
      arguments += cat(arguments.empty() ? "" : ", ", f.name, ": ", value_text(f));
    }
  }
  return arguments.empty() ? item.tag.name() : cat(item.tag.name(), ": {", arguments, "}");
}

class Writer {
 public:
  explicit Writer(const std::function<std::string(const std::string&)>& comment_of)
      : comment_of_(comment_of) {}

  void section(const Schema& schema, const std::string& path, std::size_t indent) {
    for (const Field& f : schema.fields) {
      if (is_written(f)) field(f, join_path(path, f.name), std::string(indent, ' '));
    }
  }

  std::string text;

 private:
  void line(const std::string& content, const std::string& path) {
    text += cat(content, comment_of_ ? cat("  # ", comment_of_(path)) : "", "\n");
  }

  void field(const Field& f, const std::string& path, const std::string& pad) {
    const std::size_t inner = pad.size() + 2;
    const auto* list = std::get_if<UnionList>(&f.target);
    const auto* optional = std::get_if<OptionalSection>(&f.target);
    if (sections_of(f).empty() && !list && !optional) {
      return line(cat(pad, f.name, ": ", value_text(f)), path);
    }
    text += cat(pad, f.name, ":\n");
    if (const auto* schema = std::get_if<Schema>(&f.target)) section(*schema, path, inner);
    if (optional) section(optional->open(), path, inner);
    if (const auto* tagged = std::get_if<Union>(&f.target)) {
      line(cat(pad, "  type: ", tagged->tag.name()), join_path(path, "type"));
      section(tagged->chosen(), path, inner);
    }
    for (std::size_t i = 0; list && i < list->size(); ++i) {
      line(cat(pad, "  - ", item_text(list->item(i))), join_path(path, cat(i)));
    }
  }

  const std::function<std::string(const std::string&)>& comment_of_;
};

}  // namespace

ReadResult read(const Schema& schema, const Node& root) { return Reader(schema).run(root); }

std::string read_word(const Field& field, const std::string& word) {
  Schema schema;
  schema.fields.push_back(field);
  Node root, child;
  child.kind = Node::Kind::kScalar;
  child.text = word;
  child.key = field.name;
  root.kind = Node::Kind::kMap;
  root.children.push_back(std::move(child));
  const ReadResult result = read(schema, root);
  return result.problems.empty() ? "" : result.problems[0].message;
}

std::string write(const Schema& schema,
                  const std::function<std::string(const std::string&)>& comment_of) {
  Writer writer(comment_of);
  writer.section(schema, "", 0);
  return std::move(writer.text);
}

std::string nearest(const std::string& name, const std::vector<std::string>& known) {
  const std::string wanted = folded(name.substr(0, 64));
  std::string best;
  std::size_t best_distance = wanted.size() < 4 ? 2 : wanted.size() < 9 ? 3 : 4;
  for (const std::string& k : known) {
    const std::size_t distance = edit_distance(wanted, folded(k));
    if (distance >= best_distance || distance >= wanted.size()) continue;
    best = k;
    best_distance = distance;
  }
  if (!best.empty()) return best;
  const auto contains_word = [](const std::string& text, const std::string& word) {
    return word.size() >= 4 && text.find(word) != std::string::npos;
  };
  const auto found = std::ranges::find_if(known, [&](const std::string& k) {
    return contains_word(wanted, folded(k)) || contains_word(folded(k), wanted);
  });
  return found == known.end() ? "" : *found;
}

std::string did_you_mean(const std::string& name, const std::vector<std::string>& known) {
  return also(did_you_mean(nearest(name, known)));
}

}  // namespace taper::runner
