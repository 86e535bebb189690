#include "apps/runner/config/json_writer.h"

#include <algorithm>
#include <cctype>
#include <optional>
#include <variant>

#include <nlohmann/json.hpp>

namespace taper::v0::runner {
namespace {

std::string text_of(const std::string& name_or_number) {
  const auto is_digit = [](unsigned char c) { return std::isdigit(c) != 0; };
  return std::ranges::all_of(name_or_number, is_digit) ? name_or_number : json_text(name_or_number);
}

std::string text_of(const Field& field, const Scalar& scalar) {
  return std::visit(Overloaded{[](const bool* x) -> std::string { return *x ? "true" : "false"; },
                               [](const uint64_t* x) { return concat_to_string(*x); },
                               [&](const Choice& x) { return text_of(field.names.at(x.get())); },
                               [](const auto* x) { return json_text(*x); }},
                    scalar);
}

// Returns the value as JSON; empty if it is not given.
std::string text_of(const Field& field, const Value& value) {
  if (value.is_given && !value.is_given()) return field.writes_null ? "null" : "";
  if (value.is_word && *value.is_word) return json_text(std::string(value.word));
  const std::vector<Scalar> scalars = value.scalars({});
  if (!value.takes_list) return text_of(field, scalars.at(0));
  std::string out = "[";
  for (const Scalar& scalar : scalars) out += (out.size() > 1 ? "," : "") + text_of(field, scalar);
  return out + "]";
}

// Returns the field as JSON; empty if it has no value.
std::string text_of(const Field& field) {
  if (const auto* value = std::get_if<Value>(&field.target)) return text_of(field, *value);
  if (const auto* words = std::get_if<WordMap>(&field.target)) return json_text(*words->words);
  if (const auto* section = std::get_if<Section>(&field.target)) {
    return section->is_given && !section->is_given() ? "" : json_text(section->open());
  }
  return std::get<Custom>(field.target).write();
}

bool is_empty(const std::string& json) {
  return json == "\"\"" || json == "false" || json == "0" || json == "[]" || json == "{}";
}

}  // namespace

std::string json_text(int64_t value) { return concat_to_string(value); }
std::string json_text(double value) { return nlohmann::json(value).dump(); }
std::string json_text(const std::string& value) { return nlohmann::json(value).dump(); }

std::string json_text(const Schema& schema) {
  std::map<std::string, std::string> texts;
  for (const Field& field : schema.fields) {
    std::string text = text_of(field);
    if (!text.empty() && !(field.omits_empty && is_empty(text)))
      texts[field.name] = std::move(text);
  }
  std::string out = "{";
  for (const auto& [name, text] : texts) {
    out += (out.size() > 1 ? "," : "") + json_text(name) + ":" + text;
  }
  return out + "}";
}

}  // namespace taper::v0::runner
