// One description of a config struct serves all that is done with it: reading with checks,
// defaults, writing the resolved file; and whatever else walks the fields (JSON Schema, docs).
// A Schema is data: names, texts and ranges bound to the members of a live struct, whose values
// at that time are the defaults. It must not outlive that struct. A struct that describes itself
// (framework/base/describe.h) gives one by schema_of(); of others it is made field by field:
//
//   Schema schema;
//   schema("epochs", c.epochs, {1, 1e9}, "passes over the training set");
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "apps/runner/config/yaml.h"
#include "framework/base/describe.h"
#include "framework/base/shape.h"

namespace taper::v0::runner {

struct Alternative;
struct Component;
class ComponentRegistry;
struct Schema;

// An enum, or a bool, as the number of its value's name among the field's.
struct Choice {
  std::function<std::size_t()> get{};
  std::function<void(std::size_t)> set{};
};
using Scalar = std::variant<bool*, int64_t*, uint64_t*, double*, std::string*, Choice>;

// A member of one or several scalars: those that are there, or such for which it has made room.
struct Value {
  Scalar like;  // of their type alone; a pointer is null
  std::function<std::vector<Scalar>(std::optional<std::size_t> room)> scalars;
  bool takes_one = true;              // without brackets
  bool takes_list = false;            // in brackets
  std::size_t size = 0;               // of a list; 0: any
  bool* is_same = nullptr;            // where set: or the word `same`
  std::function<bool()> is_given{};   // where set: it need not be there; null takes it back
  std::function<void()> take_back{};  // set where is_given is
};

// A pair of sizes, or `same`.
struct Padding {
  Padding(int64_t both = 0) : size(both) {}

  Pair size;
  bool is_same = false;
};

template <class T> Value value_of(T& v) {
  return {static_cast<T*>(nullptr), [&v](auto) { return std::vector<Scalar>{&v}; }};
}
template <class E> Value choice(E& v) {
  const Choice out{[&v] { return std::size_t(v); }, [&v](std::size_t i) { v = E(i); }};
  return {out, [out](auto) { return std::vector<Scalar>{out}; }};
}
template <class List> std::vector<Scalar> scalars_of(List& list) {
  std::vector<Scalar> out;
  for (auto& each : list) out.emplace_back(&each);
  return out;
}
template <class T> Value value_of(std::vector<T>& v) {
  const auto scalars = [&v](std::optional<std::size_t> room) {
    if (room) v.assign(*room, T());
    return scalars_of(v);
  };
  return {static_cast<T*>(nullptr), scalars, std::is_same_v<T, std::string>, true};
}
template <class T, std::size_t N> Value value_of(std::array<T, N>& v) {
  return {static_cast<T*>(nullptr), [&v](auto) { return scalars_of(v); }, false, true, N};
}
inline Value value_of(Pair& v) {
  const auto scalars = [&v](auto) { return std::vector<Scalar>{&v.h, &v.w}; };
  return {static_cast<int64_t*>(nullptr), scalars, true, true, 2};
}
inline Value value_of(Padding& v) {
  Value out = value_of(v.size);
  out.is_same = &v.is_same;
  return out;
}
template <class T> Value value_of(std::optional<T>& v) {
  T like{};
  Value out = value_of(like);
  out.scalars = [&v](std::optional<std::size_t> room) {
    return value_of(room ? v.emplace() : v.value()).scalars(room);
  };
  out.is_given = [&v] { return v.has_value(); };
  out.take_back = [&v] { v.reset(); };
  return out;
}

// A map with keys of its own. Where `is_given` is set it need not be there; `open` makes it.
struct Section {
  std::function<Schema()> open;
  std::function<bool()> is_given{};
};
template <class T> Section optional_section(std::optional<T>& c, Schema (*describe)(T&)) {
  return {.open = [&c, describe] { return describe(c ? *c : c.emplace()); },
          .is_given = [&c] { return c.has_value(); }};
}

// Which of a kind: a map whose `type` decides which other keys it has, `{type: sgd, lr: 0.1}`,
// in addition to those that all types have. As the entry of a list the type is the only key, its
// value the map, and shorter forms are taken too: `linear: 512` gives the first field, `relu` gives
// none.
struct TypedSection {
  const ComponentRegistry* kind;
  Component* chosen;
  std::function<Schema()> common{};

  Schema schema() const;  // of the type that is chosen now
  std::vector<Alternative> alternatives() const;
};

// A list of them, of one entry to kMaxEntries.
struct TypedSectionList {
  const ComponentRegistry* kind;
  std::vector<Component>* list;

  TypedSection item(std::size_t i) const;
};
inline constexpr std::size_t kMaxEntries = 1000;

// Whatever else a member may be: `read` takes it from the text and gives what is wrong.
struct Custom {
  std::function<std::vector<Problem>(const Node&)> read;
};

using Target = std::variant<Value, Section, TypedSection, TypedSectionList, Custom>;

// What std::visit calls: that of the functions which takes the alternative.
template <class... F> struct Overloaded : F... { using F::operator()...; };
template <class... F> Overloaded(F...) -> Overloaded<F...>;  // for clang 14

struct Field {
  std::string name;
  Target target;
  const char* doc;
  Range range{};
  bool is_required = false;
  std::vector<std::string> names{};  // where there are any, the only words that it may be
  // Of texts: "a path that is not empty", and whether a text is that.
  std::string form{};
  std::function<bool(const std::string&)> has_form{};
  // When the field means nothing, it is refused and not written: "test_path is given".
  std::string idle_reason{};
  std::function<bool()> is_idle{};
  // An optional value that is not given is written as null, since its default is a value.
  bool writes_null = false;

  Field& required() { return is_required = true, *this; }
  Field& of_form(std::string words, std::function<bool(const std::string&)> check) {
    return form = std::move(words), has_form = std::move(check), *this;
  }
  Field& idle_when(std::string reason, std::function<bool()> check) {
    return idle_reason = std::move(reason), is_idle = std::move(check), *this;
  }
  Field& written_as_null() { return writes_null = true, *this; }
};

// A cross-field rule, asked once all fields are read without problems. The message is placed at the
// key named ("a.b" where it lies deeper), or at what was written of its path.
struct Rule {
  std::string key;
  std::string requirement;  // "needs a momentum above 0"
  std::function<bool()> holds;
};

inline constexpr const char* kPathWords = "a path that is not empty";
template <class Options> Schema schema_of(Options& options);

// The keys of one map. It is called by describe() and rules() of a struct for each field, which it
// gives back, and for each rule.
struct Schema {
  std::vector<Field> fields{};
  std::vector<Rule> rules{};

  // The reference holds until the next call.
  Field& field(std::string name, Target target, const char* doc, Range range = {}) {
    fields.push_back({std::move(name), std::move(target), doc, range});
    return fields.back();
  }

  template <class T>
  Field& operator()(const char* name, T& value, const Range& range, const char* doc) {
    return field(name, value_of(value), doc, range);
  }
  // A value, or a struct that describes itself or may do so.
  template <class T> Field& operator()(const char* name, T& value, const char* doc) {
    if constexpr (requires { value.describe(*this); }) {
      return field(name, Section{[&value] { return schema_of(value); }}, doc);
    } else if constexpr (requires { value->describe(*this); }) {
      return field(name, optional_section(value, schema_of), doc);
    } else {
      return field(name, value_of(value), doc);
    }
  }
  template <class T> Field& operator()(const char* name, T& value, PathForm, const char* doc) {
    return (*this)(name, value, doc).of_form(kPathWords, [](const std::string& path) {
      return !path.empty();
    });
  }
  // An enum or bool whose values have these names in turn, or texts that are among them.
  template <class T>
  Field& operator()(const char* name, T& value, std::vector<std::string> names, const char* doc) {
    constexpr bool is_choice = std::is_enum_v<T> || std::is_same_v<T, bool>;
    if constexpr (is_choice) field(name, choice(value), doc);
    if constexpr (!is_choice) (*this)(name, value, doc);
    fields.back().names = std::move(names);
    return fields.back();
  }
  // Which of that kind. What `chosen` describes of itself are keys that all types have.
  template <class Chosen>
  Field& operator()(const char* name, Chosen& chosen, const ComponentRegistry& kind,
                    const char* doc) {
    TypedSection tagged{&kind, &chosen};
    if constexpr (requires { chosen.describe(*this); }) {
      tagged.common = [&chosen] { return schema_of(chosen); };
    }
    return field(name, tagged, doc);
  }
  Field& operator()(const char* name, std::vector<Component>& list, const ComponentRegistry& kind,
                    const char* doc) {
    return field(name, TypedSectionList{&kind, &list}, doc);
  }

  void operator()(const char* key, const char* requirement, std::function<bool()> holds) {
    rules.push_back({key, requirement, std::move(holds)});
  }
};

// A type of a union, bound to its defaults.
struct Alternative : Schema {
  std::string type;
  std::shared_ptr<Component> defaults;
};

template <class Options> Schema schema_of(Options& options) {
  Schema schema;
  options.describe(schema);
  if constexpr (requires { options.rules(schema); }) options.rules(schema);
  return schema;
}

// What came of reading: every value that was written somewhere (path "train.epochs",
// "model.layers.0") has its place; with problems the struct is not to be used.
struct ReadResult {
  std::vector<Problem> problems;
  std::map<std::string, Place> places;
};

// Reads the tree into the struct that the schema is bound to. Never throws for what the tree holds.
ReadResult read(const Schema& schema, const Node& root);

// Reads one word, such as an option's of a command line, into a field as from a config. Throws
// ConfigError.
void read_word(const Field& field, const std::string& word);

// All fields in the order of the description; read() of it gives the same values and the same
// bytes when written again. With `comment_of`, a line ends in "  # " + comment_of(path). Of what
// lies at a path within another map, each line begins with `pad`.
using CommentOf = std::function<std::string(const std::string& path)>;
std::string write(const Schema& schema, const CommentOf& comment_of = {},
                  const std::string& path = "", const std::string& pad = "");

// What the field takes, in words ("an integer, at least 1"; `or_same` stands at the end where that
// word is taken too), and its value on one line of YAML (empty for an optional that is not given).
// Both are empty for unions and lists of them.
std::string expected(const Field& field, const char* or_same = ", or same");
std::string value_text(const Field& field);
// Of a value: what each scalar of it takes, in words.
std::string expected_of_one(const Field& field);

// JSON Schema (draft 2020-12) of what read() takes but for its rules; and a reference in Markdown:
// tables of all keys. Both want a schema that is bound to defaults, and write into what it is bound
// to.
std::string json_schema(const Schema& schema);
std::string reference(const Schema& schema);

// Returns the known name that differs from `name` by a few letters, or empty.
std::string closest(const std::string& name, const std::vector<std::string>& known);
// Returns the same, or else a known name that contains `name` or is contained in it, or empty.
std::string nearest(const std::string& name, const std::vector<std::string>& known);
// Of that name, or of an empty one: "; did you mean 'train'?", or empty.
std::string did_you_mean(const std::string& meant);

}  // namespace taper::v0::runner
