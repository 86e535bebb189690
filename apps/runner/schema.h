// One description of a config struct serves all that is done with it: reading with checks,
// defaults, writing the resolved file; and whatever else walks the fields (JSON Schema, docs).
// A Schema is data: names, texts and ranges bound to the members of a live struct, whose values
// at that time are the defaults. It must not outlive that struct.
//
//   Schema describe(TrainConfig& c) {
//     Schema s;
//     s.field("epochs", &c.epochs, "passes over the training set").within(kAtLeastOne);
//     return s;
//   }
#pragma once

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <limits>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "apps/runner/yaml.h"

namespace taper::runner {

// What a number, or each number of a list, must lie in.
struct Range {
  double low = -std::numeric_limits<double>::infinity();
  double high = std::numeric_limits<double>::infinity();
  bool low_open = false;
  bool high_open = false;
};
inline constexpr double kInfinity = std::numeric_limits<double>::infinity();
inline constexpr Range kPositive{0, kInfinity, true, false};
inline constexpr Range kNonNegative{0, kInfinity, false, false};
inline constexpr Range kBelowOne{0, 1, false, true};
inline constexpr Range kBetweenZeroAndOne{0, 1, true, true};

// An enum member and the names of its values.
struct Choice {
  std::vector<std::string> names;
  std::function<std::size_t()> get;
  std::function<void(std::size_t)> set;
};

template <class E> struct Named {
  const char* name;
  E value;
};

template <class E> Choice choice(E& target, std::initializer_list<Named<E>> values) {
  const std::vector<Named<E>> all = values;
  Choice out;
  for (const Named<E>& v : all) out.names.emplace_back(v.name);
  out.get = [&target, all] {
    std::size_t i = 0;
    while (i + 1 < all.size() && all[i].value != target) ++i;
    return i;
  };
  out.set = [&target, all](std::size_t i) { target = all[i].value; };
  return out;
}

struct Field;

// A cross-field rule: an empty text, or what is wrong. Asked once all fields are read; the
// message is placed at the key named, or at the section when that key was not written.
struct Rule {
  std::string key;
  std::function<std::string()> broken;
};

// The keys of one map.
struct Schema {
  std::vector<Field> fields;
  std::vector<Rule> rules;

  // The reference holds until the next call. `target` is one of Target's alternatives.
  template <class T> Field& field(std::string name, T target, std::string doc);
  void rule(std::string key, std::function<std::string()> broken);
};

// A map with a tag that decides which other keys it may have: `{type: sgd, lr: 0.1}`. In a list
// the tag is the only key, its value the map, and shorter forms are taken too: `linear: 512` gives
// the first field, `relu` gives none.
struct Union {
  Choice tag;
  std::vector<Schema> alternatives;  // one for each of tag's names, in that order
  Place* place = nullptr;            // where set: receives the place of the text read
};

// A list of unions; its texts are read into the items after `resize`.
struct UnionList {
  std::function<std::size_t()> size;
  std::function<void(std::size_t)> resize;
  std::function<Union(std::size_t)> item;
};

// The members that a field can be bound to. A span is a list of exactly that many numbers; an
// optional that is empty is not written.
using Target =
    std::variant<bool*, int64_t*, uint64_t*, double*, std::string*, std::optional<std::string>*,
                 std::vector<int64_t>*, std::span<double>, Choice, Schema, Union, UnionList>;

struct Field {
  std::string name;
  Target target;
  std::string doc;
  Range range{};
  bool is_required = false;
  std::string other_name{};  // what people write by mistake; for the hint only
  // For texts: what was expected when the text is wrong, else empty.
  std::function<std::string(const std::string&)> wrong{};
  // When not empty, the field means nothing ("test_path is given"): refused and not written.
  std::function<std::string()> idle_because{};

  Field& within(Range allowed);
  Field& required();
  Field& verify(std::function<std::string(const std::string&)> check);
  Field& idle_when(std::function<std::string()> because);
  Field& often_called(std::string name_by_mistake);
};

template <class T> Field& Schema::field(std::string name, T target, std::string doc) {
  fields.push_back(Field{std::move(name), Target(std::move(target)), std::move(doc)});
  return fields.back();
}

// What came of reading: values stand in the struct, problems are to be reported, and every value
// that was written somewhere (path "train.epochs", "model.layers.0") has its place.
struct ReadResult {
  std::vector<Problem> problems;
  std::map<std::string, Place> places;
};

// Reads the tree into the struct that the schema is bound to. A value with a problem keeps its
// default. Never throws for what the tree holds.
ReadResult read(const Schema& schema, const Node& root, const std::vector<Source>& sources);

// All fields in the order of the description; read() of it gives the same values and the same
// bytes when written again. With `comment_of`, a line ends in "  # " + comment_of(path).
std::string write(const Schema& schema,
                  const std::function<std::string(const std::string&)>& comment_of = {});

// The known name that was probably meant, or empty.
std::string nearest(const std::string& name, const std::vector<std::string>& known);

}  // namespace taper::runner
