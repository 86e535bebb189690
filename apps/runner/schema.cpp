#include "apps/runner/schema.h"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <numeric>

#include "framework/error.h"

namespace taper::runner {
namespace {

// A cap on what is collected, so that a hostile file costs no time; the report shows fewer.
constexpr std::size_t kMaxProblems = 1000;

template <class... F> struct Overloaded : F... { using F::operator()...; };

std::string join(const std::vector<std::string>& words) {
  std::string out;
  for (const std::string& w : words) out += out.empty() ? w : cat(", ", w);
  return out;
}

std::string join_path(const std::string& path, const std::string& key) {
  return path.empty() ? key : cat(path, ".", key);
}

std::vector<std::string> names_of(const Schema& schema) {
  std::vector<std::string> names;
  for (const Field& f : schema.fields) names.push_back(f.name);
  return names;
}

const Field* find_field(const Schema& schema, const std::string& name) {
  const auto found = std::find_if(schema.fields.begin(), schema.fields.end(),
                                  [&](const Field& f) { return f.name == name; });
  return found == schema.fields.end() ? nullptr : &*found;
}

// Case and the kind of dash do not count as differences.
std::string folded(std::string text) {
  for (char& c : text) {
    c = c == '-' ? '_' : char(std::tolower(static_cast<unsigned char>(c)));
  }
  return text;
}

// Levenshtein's distance, one row of the table at a time.
std::size_t edit_distance(const std::string& a, const std::string& b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t(0));
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t replaced = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, replaced});
    }
  }
  return row.back();
}

bool contains_word(const std::string& text, const std::string& word) {
  return word.size() >= 4 && text.find(word) != std::string::npos;
}

bool contains(const Range& range, double value) {
  const bool low = range.low_open ? value > range.low : value >= range.low;
  const bool high = range.high_open ? value < range.high : value <= range.high;
  return low && high;
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

// The fields of all alternatives.
Schema merged(const Union& tagged) {
  Schema all;
  for (const Schema& s : tagged.alternatives) {
    all.fields.insert(all.fields.end(), s.fields.begin(), s.fields.end());
  }
  return all;
}

// The first dotted path that ends in a field of that name (or often miscalled so), or empty.
std::string find_path(const Schema& schema, const std::string& name, const std::string& path) {
  for (const Field& f : schema.fields) {
    const std::string here = join_path(path, f.name);
    if (folded(f.name) == folded(name) || (!name.empty() && f.other_name == name)) return here;
    std::string inner;
    if (const auto* section = std::get_if<Schema>(&f.target)) {
      inner = find_path(*section, name, here);
    } else if (const auto* tagged = std::get_if<Union>(&f.target)) {
      inner = find_path(merged(*tagged), name, here);
    }
    if (!inner.empty()) return inner;
  }
  return "";
}

class Reader {
 public:
  Reader(const Schema& schema, const std::vector<Source>& sources)
      : root_(schema), sources_(sources) {}

  ReadResult run(const Node& node) {
    read_section(root_, node, "", nullptr);
    return std::move(result_);
  }

 private:
  bool is_full() const { return result_.problems.size() >= kMaxProblems; }

  void problem(Mark mark, std::string message) {
    if (!is_full()) result_.problems.push_back({mark, std::move(message)});
  }

  void mismatch(const Node& node, const std::string& path, const std::string& expected,
                const std::string& advice) {
    const std::string tail = advice.empty() ? "" : cat("; ", advice);
    const std::string head = path.empty() ? "" : cat(path, ": ");
    problem(place_mark(node), cat(head, "expected ", expected, ", got ", seen(node), tail));
  }

  // "key:" without a value has no place of its own.
  static Mark place_mark(const Node& node) {
    return node.kind == Node::Kind::kNull && !node.key.empty() ? node.key_mark : node.mark;
  }
  static Mark section_mark(const Node& node) {
    return node.key.empty() ? node.mark : node.key_mark;
  }

  // The keys of a map; of a union's alternative when `owner` is given.
  void read_section(const Schema& schema, const Node& node, const std::string& path,
                    const Union* owner) {
    const bool is_empty = node.kind == Node::Kind::kNull;
    if (!is_empty && node.kind != Node::Kind::kMap) {
      mismatch(node, path, cat("a map with the keys ", join(names_of(schema))), map_advice(node));
      return;
    }
    const std::size_t problems_before = result_.problems.size();
    for (const Node& child : node.children) {
      if (is_full()) return;
      const bool is_tag = owner != nullptr && child.key == "type";
      if (!is_tag && !find_field(schema, child.key)) unknown_key(schema, child, path, owner);
    }
    for (const Field& field : schema.fields) read_field(field, node, path);
    if (result_.problems.size() == problems_before) check_rules(schema, node, path);
  }

  static std::string map_advice(const Node& node) {
    const bool glued = node.kind == Node::Kind::kScalar && !node.quoted &&
                       node.text.find(':') != std::string::npos;
    return glued ? "a space belongs after ':'" : "";
  }

  void check_rules(const Schema& schema, const Node& node, const std::string& path) {
    for (const Rule& rule : schema.rules) {
      const std::string broken = rule.broken();
      if (broken.empty()) continue;
      const Node* at = node.find(rule.key);
      problem(at ? at->key_mark : section_mark(node), cat(join_path(path, rule.key), ": ", broken));
    }
  }

  void unknown_key(const Schema& schema, const Node& child, const std::string& path,
                   const Union* owner) {
    const std::string where = path.empty() ? "" : cat(" in '", path, "'");
    if (owner != nullptr && is_key_of_other_type(child, path, *owner)) return;
    std::vector<std::string> known = names_of(schema);
    if (owner != nullptr) known.insert(known.begin(), "type");
    problem(child.key_mark, cat("unknown key ", quoted(child.key), where,
                                hint(schema, child.key, known), "; known keys: ", join(known)));
  }

  bool is_key_of_other_type(const Node& child, const std::string& path, const Union& owner) {
    std::vector<std::string> types;
    for (std::size_t i = 0; i < owner.alternatives.size(); ++i) {
      if (find_field(owner.alternatives[i], child.key)) types.push_back(owner.tag.names[i]);
    }
    if (types.empty()) return false;
    problem(child.key_mark, cat("key '", child.key, "' is not for ", path, " of type ",
                                owner.tag.names[owner.tag.get()], " but for type ", join(types),
                                "; remove it or change the type"));
    return true;
  }

  static std::string quoted(const std::string& text) {
    Node node;
    node.kind = Node::Kind::kScalar;
    node.text = text;
    return seen(node);
  }

  // "; did you mean 'x'?": a key of this section, or the same key in another one.
  std::string hint(const Schema& schema, const std::string& name,
                   const std::vector<std::string>& known) const {
    for (const Field& f : schema.fields) {
      if (f.other_name == name) return cat("; did you mean '", f.name, "'?");
    }
    const std::string near = nearest(name, known);
    if (!near.empty()) return cat("; did you mean '", near, "'?");
    const std::string elsewhere = find_path(root_, name, "");
    return elsewhere.empty() ? "" : cat("; did you mean '", elsewhere, "'?");
  }

  void read_field(const Field& field, const Node& section, const std::string& path) {
    const Node* node = section.find(field.name);
    const std::string here = join_path(path, field.name);
    if (node == nullptr) {
      if (field.is_required) missing_key(field, section, path);
      return;
    }
    const std::string idle = field.idle_because ? field.idle_because() : "";
    if (!idle.empty()) {
      problem(node->key_mark, cat("key '", here, "' has no meaning when ", idle, "; remove it"));
      return;
    }
    result_.places[here] = place_of(sources_, place_mark(*node));
    read_value(field, *node, here);
  }

  void missing_key(const Field& field, const Node& section, const std::string& path) {
    const std::string where = path.empty() ? "" : cat(" in '", path, "'");
    const auto* tagged = std::get_if<Union>(&field.target);
    const std::string types = tagged ? cat(", with a type: ", join(tagged->tag.names)) : "";
    problem(section_mark(section),
            cat("missing key '", field.name, "'", where, " (", field.doc, types, ")"));
  }

  void read_value(const Field& field, const Node& node, const std::string& path) {
    std::visit(
        Overloaded{
            [&](bool* out) { take(field, node, path, out, to_bool(node), "true or false"); },
            [&](int64_t* out) { take(field, node, path, out, to_int64(node), "an integer"); },
            [&](uint64_t* out) {
              take(field, node, path, out, to_uint64(node), "an integer of 0 or more");
            },
            [&](double* out) { take(field, node, path, out, to_double(node), "a number"); },
            [&](std::string* out) { take(field, node, path, out, to_text(node), "a text"); },
            [&](std::optional<std::string>* out) { read_optional(field, node, path, out); },
            [&](std::vector<int64_t>* out) { read_integers(field, node, path, out); },
            [&](std::span<double> out) { read_numbers(field, node, path, out); },
            [&](const Choice& out) { read_choice(out, node, path); },
            [&](const Schema& out) { read_section(out, node, path, nullptr); },
            [&](const Union& out) { read_union(out, node, path); },
            [&](const UnionList& out) { read_list(out, node, path); },
        },
        field.target);
  }

  template <class T>
  void take(const Field& field, const Node& node, const std::string& path, T* out,
            const Reading<T>& reading, const std::string& kind) {
    std::string expected = kind, advice = reading.advice;
    bool fits = reading.value.has_value();
    if constexpr (std::is_same_v<T, std::string>) {
      const std::string wrong = fits && field.wrong ? field.wrong(*reading.value) : "";
      if (!wrong.empty()) expected = wrong;
      fits = fits && wrong.empty();
    } else if constexpr (!std::is_same_v<T, bool>) {
      expected += text_of(field.range);
      fits = fits && contains(field.range, double(*reading.value));
    }
    if (!fits) return mismatch(node, path, expected, advice);
    *out = *reading.value;
  }

  void read_optional(const Field& field, const Node& node, const std::string& path,
                     std::optional<std::string>* out) {
    if (node.kind == Node::Kind::kNull) return;
    std::string value;
    const std::size_t before = result_.problems.size();
    take(field, node, path, &value, to_text(node), "a text");
    if (result_.problems.size() == before) *out = value;
  }

  void read_integers(const Field& field, const Node& node, const std::string& path,
                     std::vector<int64_t>* out) {
    if (node.kind != Node::Kind::kSequence) {
      return mismatch(node, path, "a list of integers, as in [512, 512]", "");
    }
    std::vector<int64_t> values(node.children.size());
    for (std::size_t i = 0; i < values.size(); ++i) {
      const Node& child = node.children[i];
      take(field, child, join_path(path, cat(i)), &values[i], to_int64(child), "an integer");
    }
    *out = std::move(values);
  }

  void read_numbers(const Field& field, const Node& node, const std::string& path,
                    std::span<double> out) {
    if (node.kind != Node::Kind::kSequence || node.children.size() != out.size()) {
      const bool is_list = node.kind == Node::Kind::kSequence;
      const std::string advice = is_list ? cat("it has ", node.children.size()) : "";
      return mismatch(node, path, cat("a list of ", out.size(), " numbers"), advice);
    }
    for (std::size_t i = 0; i < out.size(); ++i) {
      const Node& child = node.children[i];
      take(field, child, join_path(path, cat(i)), &out[i], to_double(child), "a number");
    }
  }

  // Sets the choice; false when the text names none.
  bool read_choice(const Choice& out, const Node& node, const std::string& path) {
    const auto found = std::find(out.names.begin(), out.names.end(), node.text);
    if (node.kind == Node::Kind::kScalar && found != out.names.end()) {
      out.set(std::size_t(found - out.names.begin()));
      return true;
    }
    const bool is_text = node.kind == Node::Kind::kScalar;
    const std::string near = is_text ? nearest(node.text, out.names) : "";
    mismatch(node, path, cat("one of ", join(out.names)),
             near.empty() ? "" : cat("did you mean '", near, "'?"));
    return false;
  }

  void read_union(const Union& out, const Node& node, const std::string& path) {
    if (out.place) *out.place = place_of(sources_, place_mark(node));
    if (node.kind != Node::Kind::kMap) {
      mismatch(node, path, cat("a map with a type: ", join(out.tag.names)), map_advice(node));
      return;
    }
    const Node* type = node.find("type");
    const std::string here = join_path(path, "type");
    if (type == nullptr) {
      problem(section_mark(node),
              cat("missing key 'type' in '", path, "'; one of ", join(out.tag.names)));
      return;
    }
    result_.places[here] = place_of(sources_, type->mark);
    if (!read_choice(out.tag, *type, here)) return;
    read_section(out.alternatives[out.tag.get()], node, path, &out);
  }

  void read_list(const UnionList& out, const Node& node, const std::string& path) {
    if (node.kind != Node::Kind::kSequence || node.children.empty()) {
      return mismatch(node, path, "a list of at least one entry, each on a line as '- name'", "");
    }
    out.resize(node.children.size());
    for (std::size_t i = 0; i < node.children.size(); ++i) {
      if (is_full()) return;
      const std::string here = join_path(path, cat(i));
      result_.places[here] = place_of(sources_, node.children[i].mark);
      read_item(out.item(i), node.children[i], here);
    }
  }

  // "relu", "linear: 512" or "linear: {out_features: 512}".
  void read_item(const Union& out, const Node& node, const std::string& path) {
    if (out.place) *out.place = place_of(sources_, node.mark);
    if (node.kind == Node::Kind::kScalar) {
      if (!read_choice(out.tag, node, path)) return;
      Node empty;
      empty.mark = node.mark;
      read_section(out.alternatives[out.tag.get()], empty, join_path(path, node.text), nullptr);
      return;
    }
    if (node.kind != Node::Kind::kMap || node.children.size() != 1) {
      const bool is_map = node.kind == Node::Kind::kMap;
      mismatch(
          node, path, "a name or one 'name: arguments'",
          is_map ? cat("it has ", node.children.size(), " keys; one entry names one thing") : "");
      return;
    }
    const Node& arguments = node.children[0];
    Node tag;
    tag.kind = Node::Kind::kScalar;
    tag.mark = arguments.key_mark;
    tag.text = arguments.key;
    if (!read_choice(out.tag, tag, path)) return;
    read_arguments(out.alternatives[out.tag.get()], arguments, join_path(path, tag.text));
  }

  void read_arguments(const Schema& schema, const Node& node, const std::string& path) {
    const bool is_short = node.kind == Node::Kind::kScalar || node.kind == Node::Kind::kSequence;
    if (!is_short) return read_section(schema, node, path, nullptr);
    if (schema.fields.empty()) {
      return mismatch(node, path, "no arguments", "write the name alone");
    }
    read_value(schema.fields[0], node, join_path(path, schema.fields[0].name));
  }

  const Schema& root_;
  const std::vector<Source>& sources_;
  ReadResult result_;
};

class Writer {
 public:
  explicit Writer(const std::function<std::string(const std::string&)>& comment_of)
      : comment_of_(comment_of) {}

  std::string run(const Schema& schema) {
    section(schema, "", 0);
    return std::move(out_);
  }

 private:
  void line(int indent, const std::string& text, const std::string& path) {
    out_ += cat(std::string(std::size_t(indent), ' '), text);
    if (comment_of_) out_ += cat("  # ", comment_of_(path));
    out_ += '\n';
  }

  void section(const Schema& schema, const std::string& path, int indent) {
    for (const Field& f : schema.fields) {
      if (is_written(f)) field(f, join_path(path, f.name), indent);
    }
  }

  static bool is_written(const Field& field) {
    const auto* optional = std::get_if<std::optional<std::string>*>(&field.target);
    if (optional && !(*optional)->has_value()) return false;
    return !field.idle_because || field.idle_because().empty();
  }

  void field(const Field& f, const std::string& path, int indent) {
    const std::string pad(std::size_t(indent), ' ');
    if (const auto* schema = std::get_if<Schema>(&f.target)) {
      out_ += cat(pad, f.name, ":\n");
      section(*schema, path, indent + 2);
    } else if (const auto* tagged = std::get_if<Union>(&f.target)) {
      out_ += cat(pad, f.name, ":\n");
      const std::size_t i = tagged->tag.get();
      line(indent + 2, cat("type: ", tagged->tag.names[i]), join_path(path, "type"));
      section(tagged->alternatives[i], path, indent + 2);
    } else if (const auto* list = std::get_if<UnionList>(&f.target)) {
      out_ += cat(pad, f.name, ":\n");
      for (std::size_t i = 0; i < list->size(); ++i) {
        line(indent + 2, cat("- ", item(list->item(i))), join_path(path, cat(i)));
      }
    } else {
      line(indent, cat(f.name, ": ", value(f.target)), path);
    }
  }

  static std::string item(const Union& tagged) {
    const std::size_t i = tagged.tag.get();
    std::string arguments;
    for (const Field& f : tagged.alternatives[i].fields) {
      if (!is_written(f)) continue;
      arguments += cat(arguments.empty() ? "" : ", ", f.name, ": ", value(f.target));
    }
    const std::string& name = tagged.tag.names[i];
    return arguments.empty() ? name : cat(name, ": {", arguments, "}");
  }

  template <class Values> static std::string flow(const Values& values) {
    std::vector<std::string> words;
    for (const auto v : values) words.push_back(cat(v));
    return cat("[", join(words), "]");
  }

  // Of the fields that fit on a line.
  static std::string value(const Target& target) {
    return std::visit(Overloaded{
                          [](std::string* v) { return yaml_text(*v); },
                          [](std::optional<std::string>* v) { return yaml_text(v->value()); },
                          [](std::vector<int64_t>* v) { return flow(*v); },
                          [](std::span<double> v) { return flow(v); },
                          [](const Choice& v) { return v.names[v.get()]; },
                          [](const Schema&) { return std::string("{}"); },
                          [](const Union& v) { return v.tag.names[v.tag.get()]; },
                          [](const UnionList&) { return std::string("[]"); },
                          [](auto* number) { return cat(*number); },
                      },
                      target);
  }

  const std::function<std::string(const std::string&)>& comment_of_;
  std::string out_;
};

}  // namespace

void Schema::rule(std::string key, std::function<std::string()> broken) {
  rules.push_back({std::move(key), std::move(broken)});
}

Field& Field::within(Range allowed) {
  range = allowed;
  return *this;
}

Field& Field::required() {
  is_required = true;
  return *this;
}

Field& Field::verify(std::function<std::string(const std::string&)> check) {
  wrong = std::move(check);
  return *this;
}

Field& Field::idle_when(std::function<std::string()> because) {
  idle_because = std::move(because);
  return *this;
}

Field& Field::often_called(std::string name_by_mistake) {
  other_name = std::move(name_by_mistake);
  return *this;
}

ReadResult read(const Schema& schema, const Node& root, const std::vector<Source>& sources) {
  return Reader(schema, sources).run(root);
}

std::string write(const Schema& schema,
                  const std::function<std::string(const std::string&)>& comment_of) {
  return Writer(comment_of).run(schema);
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
  const auto found = std::find_if(known.begin(), known.end(), [&](const std::string& k) {
    return contains_word(wanted, folded(k)) || contains_word(folded(k), wanted);
  });
  return found == known.end() ? "" : *found;
}

}  // namespace taper::runner
