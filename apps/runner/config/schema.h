// One description of a config struct serves all that is done with it: reading with checks,
// defaults, writing the resolved file; and whatever else walks the fields (JSON Schema, docs).
// A Schema is data: names, texts and ranges bound to the members of a live struct, whose values
// at that time are the defaults. It must not outlive that struct.
//
//   Schema describe(TrainConfig& c) {
//     Schema s;
//     s.field("epochs", &c.epochs, "passes over the training set", {1, 1e9});
//     return s;
//   }
//
// A struct that describes itself (framework/describe.h) gives the same by schema_of().
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "apps/runner/config/yaml.h"
#include "framework/describe.h"
#include "framework/pair.h"

namespace taper::runner {

// An enum member and the names of its values.
struct Choice {
  std::vector<std::string> names;
  std::function<std::size_t()> get;
  std::function<void(std::size_t)> set;

  const std::string& name() const { return names[get()]; }
};

// The names are those of E's values in turn, beginning with `first`.
template <class E> Choice choice(E& target, std::vector<std::string> names, E first = E{}) {
  return {.names = std::move(names),
          .get = [&target, first] { return std::size_t(target) - std::size_t(first); },
          .set = [&target, first](std::size_t i) { target = E(std::size_t(first) + i); }};
}

struct Field;

// A cross-field rule, asked once all fields are read without problems. The message is placed at the
// key named ("a.b" where it lies deeper), or at what was written of its path.
struct Rule {
  std::string key;
  std::string requirement;  // "needs a momentum above 0"
  std::function<bool()> holds;
};

// The keys of one map.
struct Schema {
  std::vector<Field> fields;  // no {}: clang needs a complete Field for it
  std::vector<Rule> rules{};
  std::shared_ptr<void> owner{};  // of what it is bound to, where nobody else keeps that

  // The reference holds until the next call. `target` is one of Target's alternatives.
  template <class T> Field& field(std::string name, T target, const char* doc, Range range = {});
};

// A map with a tag that decides which other keys it may have: `{type: sgd, lr: 0.1}`. In a list
// the tag is the only key, its value the map, and shorter forms are taken too: `linear: 512` gives
// the first field, `relu` gives none.
struct Union {
  Choice tag;
  std::vector<Schema> alternatives;  // one for each of tag's names, in that order
  Place* place = nullptr;            // where set: receives the place of the text read
  std::function<Schema()> live{};    // where set: of the alternative that the tag names now

  Schema chosen() const;
};

inline constexpr std::size_t kMaxEntries = 1000;

// A list of unions, at most kMaxEntries, whose texts are read into the items after `resize`.
struct UnionList {
  std::function<void(std::size_t)> resize;
  std::function<std::size_t()> size;
  std::function<Union(std::size_t)> item;
};

// A map that need not be there: `open` makes it where it is not yet.
struct OptionalSection {
  std::function<bool()> is_given;
  std::function<Schema()> open;
};
template <class T> OptionalSection optional_section(std::optional<T>& c, Schema (*describe)(T&)) {
  return {.is_given = [&c] { return c.has_value(); },
          .open = [&c, describe] { return describe(c ? *c : c.emplace()); }};
}

// A pair of sizes, or `same`.
struct Padding {
  Pair* size;
  bool* is_same;
};

// Whatever else a member may be: `read` takes it from the text and gives what is wrong.
struct Custom {
  std::string expected;  // in words
  std::function<std::vector<Problem>(const Node&)> read;
};

// The members that a field can be bound to. A span is a list of exactly that many numbers, a pair
// one or two, a list of texts may be one text without brackets. Optionals and lists of texts that
// are empty are not written.
using Target =
    std::variant<bool*, int64_t*, uint64_t*, double*, std::string*, Pair*, std::optional<int64_t>*,
                 std::optional<double>*, std::optional<std::string>*, std::optional<Pair>*,
                 std::vector<int64_t>*, std::vector<std::string>*, std::span<int64_t>,
                 std::span<double>, Padding, Choice, Schema, OptionalSection, Union, UnionList,
                 Custom>;

struct Field {
  std::string name;
  Target target;
  const char* doc;
  Range range{};
  bool is_required = false;
  std::vector<std::string> names{};  // of texts: the only ones, where there are any
  // Of texts: "a path that is not empty", and whether a text is that.
  std::string form{};
  std::function<bool(const std::string&)> has_form{};
  // When the field means nothing, it is refused and not written: "test_path is given".
  std::string idle_reason{};
  std::function<bool()> is_idle{};

  Field& required() { return is_required = true, *this; }
  Field& one_of(std::vector<std::string> only) { return names = std::move(only), *this; }
  Field& of_form(std::string words, std::function<bool(const std::string&)> check) {
    return form = std::move(words), has_form = std::move(check), *this;
  }
  Field& idle_when(std::string reason, std::function<bool()> check) {
    return idle_reason = std::move(reason), is_idle = std::move(check), *this;
  }
};

// Here, where Field is complete.
inline Schema Union::chosen() const { return live ? live() : alternatives[tag.get()]; }

template <class T> Field& Schema::field(std::string name, T target, const char* doc, Range range) {
  fields.push_back(Field{std::move(name), Target(std::move(target)), doc, range});
  return fields.back();
}

struct Component;
class Kind;

inline constexpr const char* kPathWords = "a path that is not empty";

// What describe() of a struct is called with: makes its fields, each of which it gives back.
class FieldMaker {
 public:
  explicit FieldMaker(Schema& schema) : schema_(schema) {}

  template <class T>
  Field& operator()(const char* name, T& value, const Range& range, const char* doc) {
    return schema_.field(name, target_of(value), doc, range);
  }
  template <class T> Field& operator()(const char* name, T& value, const char* doc) {
    return (*this)(name, value, kAny, doc);
  }
  template <class T> Field& operator()(const char* name, T& value, PathForm, const char* doc) {
    return (*this)(name, value, doc).of_form(kPathWords, [](const std::string& path) {
      return !path.empty();
    });
  }
  // An enum or bool whose values have these names in turn, or a text that is one of them.
  template <class T>
  Field& operator()(const char* name, T& value, const std::vector<std::string>& names,
                    const char* doc) {
    if constexpr (std::is_same_v<T, std::string>) {
      return (*this)(name, value, doc).one_of(names);
    } else {
      return schema_.field(name, choice(value, names), doc);
    }
  }
  Field& operator()(const char* name, Padding padding, const Range& range, const char* doc) {
    return schema_.field(name, padding, doc, range);
  }
  // The list's entries are of that kind.
  Field& operator()(const char* name, std::vector<Component>& list, const Kind& kind,
                    const char* doc);

 private:
  template <class T> static T* target_of(T& value) { return &value; }
  template <class T, std::size_t N> static std::span<T> target_of(std::array<T, N>& values) {
    return values;
  }

  Schema& schema_;
};

template <class Options> Schema schema_of(Options& options) {
  Schema schema;
  FieldMaker fields(schema);
  options.describe(fields);
  const auto rule = [&schema](const char* key, const char* requirement, auto holds) {
    schema.rules.push_back({key, requirement, holds});
  };
  if constexpr (requires { options.rules(rule); }) options.rules(rule);
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

// Reads one word, such as an option's of a command line, into a field as from a config. Returns
// what is wrong with it, or nothing.
std::string read_word(const Field& field, const std::string& word);

// All fields in the order of the description; read() of it gives the same values and the same
// bytes when written again. With `comment_of`, a line ends in "  # " + comment_of(path).
std::string write(const Schema& schema,
                  const std::function<std::string(const std::string&)>& comment_of = {});

// What the field takes, in words ("an integer, at least 1"), and its value on one line of YAML
// (empty for an optional that is not given). Both are empty for unions and lists of them.
std::string expected(const Field& field);
std::string value_text(const Field& field);

// JSON Schema (draft 2020-12) of what read() takes but for its rules; and a reference in Markdown:
// tables of all keys. Both want a schema that is bound to defaults, and write into what it is bound
// to.
std::string json_schema(const Schema& schema);
std::string reference(const Schema& schema);

// The known name that was probably meant, or empty.
std::string nearest(const std::string& name, const std::vector<std::string>& known);
// The same as a sentence, "; did you mean 'train'?", or empty.
std::string did_you_mean(const std::string& name, const std::vector<std::string>& known);

}  // namespace taper::runner
