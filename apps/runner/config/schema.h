// Describes the fields of a config struct once for all uses: reading with checks, defaults, writing
// the resolved file, JSON Schema and the reference page.
//
// A Schema is data: names, texts and ranges bound to the members of a live struct. The values that
// the members have at that time are the defaults. The Schema must not outlive the struct.
// schema_of() returns the schema of a struct that has describe() (framework/base/describe.h). For
// other structs, add the fields one by one:
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
#include "framework/base/interpolate_size.h"
#include "framework/base/shape.h"
#include "framework/base/text_enum.h"

namespace taper::v0::runner {

struct Alternative;
struct Component;
class ComponentRegistry;
struct Schema;

// Reads and sets an enum or a bool as the index of its name in Field::names.
struct Choice {
  std::function<std::size_t()> get{};
  std::function<void(std::size_t)> set{};
};
using Scalar = std::variant<bool*, int64_t*, uint64_t*, double*, std::string*, Choice>;

// A member that holds one or several scalars. scalars(room) resizes the member to `room` scalars if
// that is given, and returns pointers to them.
struct Value {
  Scalar like;  // only the scalars' type is used; the pointer is null
  std::function<std::vector<Scalar>(std::optional<std::size_t> room)> scalars;
  bool takes_one = true;    // a scalar without brackets is accepted
  bool takes_list = false;  // a list in brackets is accepted
  std::size_t size = 0;     // number of elements of the list; 0: any
  std::size_t most = 0;     // if set, the list has two to this many elements, and `size` is 0
  bool* is_word = nullptr;  // if set, the word below is accepted and sets *is_word
  const char* word = "same";
  std::function<bool()> is_given{};   // if set, the value is optional
  std::function<void()> take_back{};  // removes an optional value; set whenever is_given is
};

// Sizes of a padding, a Pair or a Triple, or the word `same` (output of the same size).
template <class Sizes> struct PaddingOf {
  PaddingOf(int64_t all = 0) : size(all) {}

  Sizes size;
  bool is_same = false;
};
using Padding = PaddingOf<Pair>;
using Padding3d = PaddingOf<Triple>;

template <class T> Value value_of(T& v) {
  return {static_cast<T*>(nullptr), [&v](auto) { return std::vector<Scalar>{&v}; }};
}
template <class E> std::size_t index_of(E v) { return std::size_t(v); }
template <class Values> std::size_t index_of(TextEnum<Values> v) { return v.index(); }
template <class E> void set_by_index(E& v, std::size_t i) { v = E(i); }
template <class Values> void set_by_index(TextEnum<Values>& v, std::size_t i) {
  v = typename TextEnum<Values>::Value(i);
}
// The accepted names of a TextEnum must begin with its first words, in their order.
template <class E> Value choice(E& v) {
  const Choice out{[&v] { return index_of(v); }, [&v](std::size_t i) { set_by_index(v, i); }};
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
  return {static_cast<T*>(nullptr), scalars, true, true};
}
template <class T, std::size_t N> Value value_of(std::array<T, N>& v) {
  return {static_cast<T*>(nullptr), [&v](auto) { return scalars_of(v); }, false, true, N};
}
inline Value value_of(Pair& v) {
  const auto scalars = [&v](auto) { return std::vector<Scalar>{&v.h, &v.w}; };
  return {static_cast<int64_t*>(nullptr), scalars, true, true, 2};
}
inline Value value_of(Triple& v) {
  const auto scalars = [&v](auto) { return std::vector<Scalar>{&v.d, &v.h, &v.w}; };
  return {static_cast<int64_t*>(nullptr), scalars, true, true, 3};
}
inline Value value_of(InterpolateSize& v) {
  const auto scalars = [&v](std::optional<std::size_t> room) -> std::vector<Scalar> {
    if (room) v.count = int(*room);
    if (v.count == 2) return {&v.h, &v.w};
    return {&v.d, &v.h, &v.w};
  };
  Value out{static_cast<int64_t*>(nullptr), scalars, true, true};
  out.most = 3;
  return out;
}
template <class Sizes> Value value_of(PaddingOf<Sizes>& v) {
  Value out = value_of(v.size);
  out.is_word = &v.is_same;
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

// A map with its own keys. If `is_given` is set, the map is optional and `open` creates it. Then a
// config may also contain `true`, which creates the map with its defaults, or `false`, which omits
// it.
struct Section {
  std::function<Schema()> open;
  std::function<bool()> is_given{};
};
template <class T> Section optional_section(std::optional<T>& c, Schema (*describe)(T&)) {
  return {.open = [&c, describe] { return describe(c ? *c : c.emplace()); },
          .is_given = [&c] { return c.has_value(); }};
}

// A map whose `type` selects a component and thereby the other keys, as in `{type: sgd, lr: 0.1}`.
// The keys in `common` are accepted with every type. A config may also give the type alone.
//
// In a list, an entry is a map with the type as its only key and the other keys below it, as in
// `linear: {out_features: 512}`. Shorter forms are accepted: `linear: 512` sets the first field,
// `relu` sets none.
struct TypedSection {
  const ComponentRegistry* kind;
  Component* chosen;
  std::function<Schema()> common{};
  // If true, `path` may imply the type (settings/short_forms.h).
  bool path_may_imply_type = false;

  Schema schema() const;  // schema of the currently chosen type
  std::vector<Alternative> alternatives() const;
};

// A list of 1 to kMaxEntries such entries.
struct TypedSectionList {
  const ComponentRegistry* kind;
  std::vector<Component>* list;

  TypedSection item(std::size_t i) const;
};
inline constexpr std::size_t kMaxEntries = 1000;

// A map whose keys the user chooses, and whose values are some of Field::names or have Field::form.
struct WordMap {
  std::map<std::string, std::string>* words;
};

// A member that none of the other targets describes. `read` sets it from a node of the tree and
// returns the problems. `write` returns it as JSON, empty if it has no value; only files that are
// written as JSON need it.
struct Custom {
  std::function<std::vector<Problem>(const Node&)> read;
  std::function<std::string()> write{};
};

using Target = std::variant<Value, Section, TypedSection, TypedSectionList, WordMap, Custom>;

// Combines lambdas into one visitor for std::visit.
template <class... F> struct Overloaded : F... { using F::operator()...; };
template <class... F> Overloaded(F...) -> Overloaded<F...>;  // clang 14 needs this deduction guide

struct Field {
  std::string name;
  Target target;
  const char* doc;
  Range range{};
  bool is_required = false;
  std::vector<std::string> names{};  // if not empty, the only accepted values
  // For text fields: a description of the accepted form, such as "a path that is not empty", and
  // its check.
  std::string form{};
  std::function<bool(const std::string&)> has_form{};
  // If is_idle() returns true, the field has no effect: reading rejects it, and writing omits it.
  // The reason completes "has no effect if", for example "test_path is given".
  std::string idle_reason{};
  std::function<bool()> is_idle{};
  // For a key that is common to all types of a section: the key of a type whose value may also be
  // the map of this key, in a short form (settings/short_forms.h). That key gets takes_map.
  std::string short_form{};
  bool takes_map = false;
  // If true, an optional value that is not given is written as null. This is necessary if the
  // default is a value, because reading the text would otherwise restore the default.
  bool writes_null = false;
  // If true, JSON omits the field while it is empty, false or 0.
  bool omits_empty = false;

  Field& required() { return is_required = true, *this; }
  // For a typed section: states that the section's `path` may imply its type.
  Field& implied_by_path() {
    std::get<TypedSection>(target).path_may_imply_type = true;
    return *this;
  }
  Field& of_form(std::string words, std::function<bool(const std::string&)> check) {
    return form = std::move(words), has_form = std::move(check), *this;
  }
  Field& idle_when(std::string reason, std::function<bool()> check) {
    return idle_reason = std::move(reason), is_idle = std::move(check), *this;
  }
  Field& with_short_form(std::string key) { return short_form = std::move(key), *this; }
  // Accepts a word in place of the number, and sets `is_word` if the config has the word.
  Field& or_word(const char* word, bool& is_word) {
    Value& value = std::get<Value>(target);
    value.word = word;
    value.is_word = &is_word;
    return *this;
  }
  Field& written_as_null() { return writes_null = true, *this; }
  Field& omitted_when_empty() { return omits_empty = true, *this; }
};

// A rule across fields, checked after all fields were read without problems. The message is
// reported at the named key ("a.b" for a nested one), or at the innermost part of that path that
// was written.
struct Rule {
  std::string key;
  std::string requirement;  // "needs a momentum above 0"
  std::function<bool()> holds;
};

inline constexpr const char* kPathWords = "a path that is not empty";
template <class Options> Schema schema_of(Options& options);

// The keys of one map. describe() of a struct calls operator() once per field and may refine the
// returned Field; rules() of a struct calls it once per rule.
struct Schema {
  std::vector<Field> fields{};
  std::vector<Rule> rules{};

  // Adds a field. The returned reference is valid until the next call.
  Field& field(std::string name, Target target, const char* doc, Range range = {}) {
    fields.push_back({std::move(name), std::move(target), doc, range});
    return fields.back();
  }

  template <class T>
  Field& operator()(const char* name, T& value, const Range& range, const char* doc) {
    return field(name, value_of(value), doc, range);
  }
  // Adds a value, or a section if T or the T in an optional has describe().
  template <class T> Field& operator()(const char* name, T& value, const char* doc) {
    if constexpr (kIsTextEnum<T>) {
      return (*this)(name, value, {std::begin(T::kWords), std::end(T::kWords)}, doc);
    } else if constexpr (requires { value.describe(*this); }) {
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
  // Adds a field that accepts only the given names. For an enum or bool, names[i] sets the value i.
  // For a text, the name itself is the value.
  template <class T>
  Field& operator()(const char* name, T& value, std::vector<std::string> names, const char* doc) {
    constexpr bool is_choice = std::is_enum_v<T> || kIsTextEnum<T> || std::is_same_v<T, bool>;
    if constexpr (is_choice) field(name, choice(value), doc);
    if constexpr (!is_choice) (*this)(name, value, doc);
    fields.back().names = std::move(names);
    return fields.back();
  }
  // Adds a map from any keys to these names.
  Field& operator()(const char* name, std::map<std::string, std::string>& words,
                    std::vector<std::string> names, const char* doc) {
    field(name, WordMap{&words}, doc).names = std::move(names);
    return fields.back();
  }
  // Adds a map from any keys to texts, whose form of_form() gives.
  Field& operator()(const char* name, std::map<std::string, std::string>& words, const char* doc) {
    return field(name, WordMap{&words}, doc);
  }
  // Adds a typed section. If `chosen` itself has describe(), the keys that it describes are
  // accepted with every type.
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

// One type of a typed section, bound to its defaults.
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

// The result of read(): the problems, and the position in its source of every value that the tree
// sets, by its path ("train.epochs", "model.layers.0"). If there are problems, the struct must not
// be used.
struct ReadResult {
  std::vector<Problem> problems;
  std::map<std::string, Place> places;
};

// Reads the tree into the struct that the schema is bound to. Reports faults of the tree as
// problems and does not throw.
ReadResult read(const Schema& schema, const Node& root);

// Checks the values of a struct that a program built or changed, by the rules of read(), with the
// same messages. `schema` is bound to the struct. `copy` is bound to another struct of the same
// type, which is overwritten. The problems name the field by its path, and have no place.
std::vector<Problem> problems_of(const Schema& schema, const Schema& copy);

// Parses one word, such as the value of a command-line option, by the rules for values in a config,
// and stores it in the field. Throws ConfigError.
void read_word(const Field& field, const std::string& word);

// Returns all fields as YAML in the order of the description. read() restores the values from this
// text, and writing them again gives the same bytes. With `comment_of`, each line ends in "  # " +
// comment_of(path). `path` is the schema's path in the whole config, `pad` its indentation.
using CommentOf = std::function<std::string(const std::string& path)>;
std::string write(const Schema& schema, const CommentOf& comment_of = {},
                  const std::string& path = "", const std::string& pad = "");

// expected() describes in words what the field accepts, such as "an integer, at least 1". `or_same`
// is appended if the word `same` is accepted too. value_text() returns the current value on one
// line of YAML, empty for an optional value that is not given. Both return an empty string for
// typed sections.
std::string expected(const Field& field, const char* or_same = ", or same");
std::string value_text(const Field& field);
// Describes the scalars that a Value field accepts.
std::string expected_of_one(const Field& field);

// json_schema() returns a JSON Schema (draft 2020-12) of what read() accepts, without the rules.
// reference() returns tables of all keys in Markdown. Both need a schema that is bound to default
// values, and may modify the struct.
std::string json_schema(const Schema& schema);
std::string reference(const Schema& schema);

// Returns the known name that differs from `name` by a few letters; empty if there is none.
std::string closest(const std::string& name, const std::vector<std::string>& known);
// Returns closest(), or else a known name that contains `name` or is contained in it; empty if
// there is none.
std::string nearest(const std::string& name, const std::vector<std::string>& known);
// Returns "; did you mean 'train'?", or an empty string for an empty name.
std::string did_you_mean(const std::string& meant);

}  // namespace taper::v0::runner
