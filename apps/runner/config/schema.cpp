#include "apps/runner/config/schema.h"

#include <algorithm>
#include <cmath>

#include "apps/runner/base/string_utils.h"
#include "apps/runner/config/table.h"
#include "apps/runner/config/variables.h"
#include "framework/base/error.h"

namespace taper::v0::runner {
namespace {

// Formats a bound without an exponent, 1000000 rather than 1e+06.
std::string text_of(double bound) {
  const bool is_whole = bound == std::floor(bound) && std::fabs(bound) < 1e15;
  return is_whole ? concat_to_string(int64_t(bound)) : concat_to_string(bound);
}

// Returns ", at least 1 and below 10"; empty if there are no bounds.
std::string text_of(const Range& range) {
  std::string out;
  if (range.low > -kInfinity)
    out = concat_to_string(range.low_open ? ", above " : ", at least ", text_of(range.low));
  if (range.high < kInfinity) {
    out += concat_to_string(out.empty() ? ", " : " and ", range.high_open ? "below " : "at most ",
                            text_of(range.high));
  }
  return out;
}

// The words for the alternatives of Scalar, in their order.
constexpr const char* kScalars[] = {"true or false", "an integer", "an integer of 0 or more",
                                    "a number",      "a string",   ""};

std::string text_of_word(const std::string& word) { return yaml_text(without_variables(word)); }

bool is_written(const Field& field) {
  if (field.is_idle && field.is_idle()) return false;
  const auto* section = std::get_if<Section>(&field.target);
  if (section) return !section->is_given || section->is_given();
  if (const auto* list = std::get_if<TypedSectionList>(&field.target)) return !list->list->empty();
  if (const auto* map = std::get_if<WordMap>(&field.target)) return !map->words->empty();
  const auto* v = std::get_if<Value>(&field.target);
  if (v && v->is_given) return v->is_given() || field.writes_null;
  const bool is_texts = v && v->takes_list && std::holds_alternative<std::string*>(v->like);
  return !is_texts || !v->scalars({}).empty();
}

// Returns "linear: {out_features: 512, bias: true}" or "relu".
std::string entry_text(const TypedSection& entry) {
  std::string arguments;
  for (const Schema schema = entry.schema(); const Field& f : schema.fields) {
    if (!is_written(f)) continue;
    arguments += concat_to_string(arguments.empty() ? "" : ", ", f.name, ": ", value_text(f));
  }
  const std::string& type = entry.chosen->type;
  return arguments.empty() ? type : concat_to_string(type, ": {", arguments, "}");
}

}  // namespace

std::string write(const Schema& schema, const CommentOf& comment_of, const std::string& path,
                  const std::string& pad) {
  std::string out;
  const auto line = [&](const std::string& content, const std::string& at) {
    out +=
        concat_to_string(content, comment_of ? concat_to_string("  # ", comment_of(at)) : "", "\n");
  };
  for (const Field& f : schema.fields) {
    if (!is_written(f)) continue;
    const std::string here = join_path(path, f.name), inner = pad + "  ";
    if (std::holds_alternative<Value>(f.target)) {
      line(concat_to_string(pad, f.name, ": ", value_text(f)), here);
      continue;
    }
    out += concat_to_string(pad, f.name, ":\n");
    if (const auto* map = std::get_if<Section>(&f.target)) {
      out += write(map->open(), comment_of, here, inner);
    }
    if (const auto* tagged = std::get_if<TypedSection>(&f.target)) {
      line(concat_to_string(inner, "type: ", tagged->chosen->type), join_path(here, "type"));
      out += write(tagged->schema(), comment_of, here, inner);
    }
    if (const auto* map = std::get_if<WordMap>(&f.target)) {
      for (const auto& [key, word] : *map->words) {
        line(concat_to_string(inner, yaml_text(key), ": ", text_of_word(word)), here);
      }
    }
    const auto* list = std::get_if<TypedSectionList>(&f.target);
    for (std::size_t i = 0; list && i < list->list->size(); ++i) {
      line(concat_to_string(inner, "- ", entry_text(list->item(i))),
           join_path(here, concat_to_string(i)));
    }
  }
  return out;
}

std::string expected_of_one(const Field& field) {
  if (!field.names.empty()) return concat_to_string("one of ", joined(field.names));
  if (!field.form.empty()) return field.form;
  const Value& value = std::get<Value>(field.target);
  const bool has_word = value.is_word != nullptr && !value.takes_list;
  return concat_to_string(kScalars[value.like.index()], text_of(field.range),
                          has_word ? concat_to_string(", or ", value.word) : "");
}

std::string expected(const Field& field, const char* or_same) {
  if (std::holds_alternative<Section>(field.target)) return "a map";
  if (std::holds_alternative<TypedSectionList>(field.target)) return "a list of entries";
  if (std::holds_alternative<WordMap>(field.target)) {
    return field.names.empty()
               ? concat_to_string("a map from names to ", field.form)
               : concat_to_string("a map from names to one of ", joined(field.names));
  }
  const auto* v = std::get_if<Value>(&field.target);
  if (v == nullptr) return "";
  const std::string one = expected_of_one(field);
  if (!v->takes_list) return one;
  if (!v->takes_one) return concat_to_string("a list of ", v->size, " numbers");
  if (v->most > 0) return concat_to_string(one, ", or two or three of them as a list");
  if (v->size == 0) return concat_to_string(one, ", or a list of them");
  return concat_to_string(one, ", or ", v->size == 3 ? "three" : "two", " of them as a list",
                          v->is_word ? or_same : "");
}

// Returns the map as YAML on one line, "{a: x, b: y}".
static std::string map_text(const std::map<std::string, std::string>& words) {
  std::string out;
  for (const auto& [key, word] : words) {
    out += concat_to_string(out.empty() ? "" : ", ", yaml_text(key), ": ", text_of_word(word));
  }
  return out.empty() ? "" : concat_to_string("{", out, "}");
}

std::string value_text(const Field& field) {
  if (const auto* map = std::get_if<WordMap>(&field.target)) return map_text(*map->words);
  const auto* v = std::get_if<Value>(&field.target);
  if (!v) return "";
  if (v->is_given && !v->is_given()) return field.writes_null ? "null" : "";
  if (v->is_word && *v->is_word) return v->word;
  std::vector<std::string> words;
  for (const Scalar& each : v->scalars({})) {
    words.push_back(std::visit(Overloaded{[&](const Choice& c) { return field.names[c.get()]; },
                                          [](const std::string* p) { return text_of_word(*p); },
                                          [](const auto* p) { return concat_to_string(*p); }},
                               each));
  }
  const bool is_one_number = v->takes_one && (v->size > 0 || v->most > 0) &&
                             std::ranges::count(words, words[0]) == std::ssize(words);
  return v->takes_list && !is_one_number ? concat_to_string("[", joined(words), "]") : words[0];
}

std::string closest(const std::string& name, const std::vector<std::string>& known) {
  const std::string wanted = folded(name.substr(0, 64));
  std::string best;
  std::size_t best_distance = wanted.size() < 4 ? 2 : wanted.size() < 9 ? 3 : 4;
  for (const std::string& k : known) {
    const std::size_t distance = edit_distance(wanted, folded(k));
    if (distance >= best_distance || distance >= wanted.size()) continue;
    best = k;
    best_distance = distance;
  }
  return best;
}

std::string nearest(const std::string& name, const std::vector<std::string>& known) {
  if (std::string best = closest(name, known); !best.empty()) return best;
  const std::string wanted = folded(name.substr(0, 64));
  const auto contains_word = [](const std::string& text, const std::string& word) {
    return word.size() >= 4 && text.find(word) != std::string::npos;
  };
  const auto found = std::ranges::find_if(known, [&](const std::string& k) {
    return contains_word(wanted, folded(k)) || contains_word(folded(k), wanted);
  });
  return found == known.end() ? "" : *found;
}

std::string did_you_mean(const std::string& meant) {
  return meant.empty() ? "" : concat_to_string("; did you mean '", meant, "'?");
}

}  // namespace taper::v0::runner
