// What else a description gives: JSON Schema for editors, and the reference page.
#include <algorithm>
#include <limits>
#include <ranges>

#include <nlohmann/json.hpp>

#include "apps/runner/config/schema.h"
#include "framework/error.h"

namespace taper::runner {
namespace {

using Json = nlohmann::ordered_json;

Json either(const Json& one, const Json& other) { return {{"anyOf", {one, other}}}; }

Json in_range(Json type, const Range& range) {
  if (range.low > -kInfinity) type[range.low_open ? "exclusiveMinimum" : "minimum"] = range.low;
  if (range.high < kInfinity) type[range.high_open ? "exclusiveMaximum" : "maximum"] = range.high;
  return type;
}

Json list_of(Json items, std::size_t least, std::size_t most) {
  Json list = {{"type", "array"}, {"items", std::move(items)}, {"minItems", least}};
  if (most > 0) list["maxItems"] = most;
  return list;
}

Json section_json(const Schema& schema);
Json union_json(const Union& tagged);
Json entry_json(const Union& entry);

// What a member of that type takes, as JSON Schema; the pointer tells the type alone.
Json json_of(const Field&, const bool*) { return {{"type", "boolean"}}; }
Json json_of(const Field& f, const int64_t*) { return in_range({{"type", "integer"}}, f.range); }
Json json_of(const Field&, const uint64_t*) {
  return {{"type", "integer"}, {"minimum", 0}, {"maximum", std::numeric_limits<uint64_t>::max()}};
}
Json json_of(const Field& f, const double*) { return in_range({{"type", "number"}}, f.range); }
Json json_of(const Field& f, const std::string*) {  // `label: -1` is a text too
  return f.names.empty() ? Json{{"type", {"string", "number", "boolean"}}}
                         : Json{{"enum", f.names}};
}
Json json_of(const Field& f, const Pair*) {
  const Json one = json_of(f, static_cast<int64_t*>(nullptr));
  return either(one, list_of(one, 2, 2));
}
template <class T> Json json_of(const Field& f, const std::optional<T>*) {
  return either(json_of(f, static_cast<T*>(nullptr)), {{"type", "null"}});
}
Json json_of(const Field& f, const std::vector<int64_t>*) {
  return list_of(json_of(f, static_cast<int64_t*>(nullptr)), 0, 0);
}
Json json_of(const Field& f, const std::vector<std::string>*) {
  const Json one = json_of(f, static_cast<std::string*>(nullptr));
  return either(one, list_of(one, 0, 0));
}
template <class T> Json json_of(const Field& f, std::span<T> list) {
  return list_of(json_of(f, list.data()), list.size(), list.size());
}
Json json_of(const Field& f, const Padding& padding) {
  return either(json_of(f, padding.size), {{"const", "same"}});
}
Json json_of(const Field&, const Choice& choice) { return {{"enum", choice.names}}; }
Json json_of(const Field&, const Schema& schema) { return section_json(schema); }
Json json_of(const Field&, const OptionalSection& section) {
  return either(section_json(section.open()), {{"type", "null"}});
}
Json json_of(const Field&, const Union& tagged) { return union_json(tagged); }
Json json_of(const Field&, const UnionList& list) {
  list.resize(1);
  return list_of(entry_json(list.item(0)), 1, kMaxEntries);
}
Json json_of(const Field&, const Custom&) { return Json::object(); }

// Nothing where a value has no default that can be written.
Json default_of(const Field& field) {
  if (const auto* text = std::get_if<std::string*>(&field.target)) return **text;
  if (const auto* choice = std::get_if<Choice>(&field.target)) return choice->name();
  return Json::parse(value_text(field), nullptr, false);
}

Json field_json(const Field& field) {
  Json json = std::visit([&](const auto& target) { return json_of(field, target); }, field.target);
  json["description"] = field.doc;
  const Json value = default_of(field);
  if (!field.is_required && !value.is_discarded() && value != "") json["default"] = value;
  return json;
}

// The keys of one map, after those in `first`.
Json section_json(const Schema& schema, Json first) {
  Json required = Json::array();
  for (const auto& [name, unused] : first.items()) required.push_back(name);
  for (const Field& field : schema.fields) {
    first[field.name] = field_json(field);
    if (field.is_required) required.push_back(field.name);
  }
  return {{"type", "object"},
          {"properties", std::move(first)},
          {"required", std::move(required)},
          {"additionalProperties", false}};
}
Json section_json(const Schema& schema) { return section_json(schema, Json::object()); }

Json union_json(const Union& tagged) {
  Json all = Json::array();
  for (std::size_t i = 0; i < tagged.alternatives.size(); ++i) {
    const Json type = {{"type", {{"const", tagged.tag.names[i]}}}};
    all.push_back(section_json(tagged.alternatives[i], type));
  }
  return {{"type", "object"}, {"required", {"type"}}, {"oneOf", std::move(all)}};
}

// "relu", {linear: 512} or {linear: {out_features: 512}}.
Json entry_json(const Union& entry) {
  Json alone = Json::array(), all = Json::array({Json::object()});
  for (std::size_t i = 0; i < entry.alternatives.size(); ++i) {
    const Schema& schema = entry.alternatives[i];
    const Json arguments = section_json(schema);
    Json forms = Json::array({arguments});
    if (arguments["required"].empty()) {
      alone.push_back(entry.tag.names[i]);
      forms.push_back({{"type", "null"}});
    }
    const auto is_required = [](const Field& f) { return f.is_required; };
    if (!schema.fields.empty() &&
        std::ranges::none_of(schema.fields | std::views::drop(1), is_required)) {
      forms.push_back(field_json(schema.fields[0]));
    }
    const std::string& name = entry.tag.names[i];
    all.push_back({{"type", "object"},
                   {"properties", {{name, {{"anyOf", std::move(forms)}}}}},
                   {"required", {name}},
                   {"additionalProperties", false}});
  }
  all[0]["enum"] = std::move(alone);
  return {{"oneOf", std::move(all)}};
}

// What a file may say that builds on others: of maps it may give a part, while lists replace.
Json part_of(Json json) {
  if (!json.is_structured() || json.contains("items")) return json;
  if (json.is_object()) json.erase("required");
  if (json.contains("oneOf")) {
    json["anyOf"] = std::move(json["oneOf"]);
    json.erase("oneOf");
  }
  for (Json& inner : json) inner = part_of(std::move(inner));
  return json;
}

// A row of a table for each key, keys of maps within by their path. `head` stands before each.
std::string rows_of(const Schema& schema, const std::string& head, const std::string& path = "") {
  std::string rows;
  for (const Field& field : schema.fields) {
    const std::string name = path + field.name, value = value_text(field);
    if (expected(field).empty()) continue;
    std::string by_default = field.is_required ? "required" : "";
    if (!field.is_required && !value.empty() && value != "\"\"") by_default = cat("`", value, "`");
    rows += cat(head, "| `", name, "` | ", expected(field), " | ", by_default, " | ", field.doc,
                " |\n");
    const auto* optional = std::get_if<OptionalSection>(&field.target);
    const auto* inner = std::get_if<Schema>(&field.target);
    if (inner || optional) rows += rows_of(inner ? *inner : optional->open(), head, name + ".");
  }
  return rows;
}

std::string table_of(const Schema& schema) {
  return cat("\n| key | takes | default | meaning |\n|---|---|---|---|\n", rows_of(schema, ""));
}

// Keys that all types have stand once, at the end.
std::string table_of(const Union& tagged, const char* title) {
  std::string rows;
  Schema common;
  for (std::size_t i = 0; i < tagged.alternatives.size(); ++i) {
    Schema own;
    for (const Field& field : tagged.alternatives[i].fields) {
      const auto has_it = [&](const Schema& s) {
        const auto same = std::ranges::find(s.fields, field.doc, &Field::doc);
        return same != s.fields.end() && value_text(*same) == value_text(field);
      };
      const bool is_common = std::ranges::all_of(tagged.alternatives, has_it);
      if (!is_common) own.fields.push_back(field);
      if (is_common && i == 0) common.fields.push_back(field);
    }
    const std::string head = cat("| `", tagged.tag.names[i], "` ");
    rows += own.fields.empty() ? cat(head, "| | | | |\n") : rows_of(own, head);
  }
  return cat("\n| ", title, " | key | takes | default | meaning |\n|---|---|---|---|---|\n", rows,
             rows_of(common, "| any "));
}

std::string part_of(const Union& tagged, const std::string& path) {
  std::string out = table_of(tagged, "type");
  for (const Schema& schema : tagged.alternatives) {
    for (const Field& field : schema.fields) {
      const auto* list = std::get_if<UnionList>(&field.target);
      if (list == nullptr) continue;
      list->resize(1);
      out += cat("\nEntries of `", path, ".", field.name, "`, as `- relu`, `- linear: 512` (its ",
                 "first key) or `- linear: {out_features: 512, bias: false}`:\n",
                 table_of(list->item(0), "entry"));
    }
  }
  return out;
}

}  // namespace

std::string json_schema(const Schema& schema) {
  Json json = {{"$schema", "https://json-schema.org/draft/2020-12/schema"},
               {"title", "A training run of Taper"}};
  const Json whole = section_json(schema);
  json["if"] = {{"type", "object"}, {"required", {"include"}}};
  json["then"] = part_of(whole);
  json["else"] = whole;
  return json.dump(2) + "\n";
}

std::string reference(const Schema& schema) {
  Schema leaves;
  std::string parts;
  for (const Field& field : schema.fields) {
    const auto* section = std::get_if<Schema>(&field.target);
    const auto* tagged = std::get_if<Union>(&field.target);
    if (!section && !tagged) leaves.fields.push_back(field);
    if (!section && !tagged) continue;
    parts +=
        cat("\n## ", field.name, "\n\nSays ", field.doc, field.is_required ? " (required)" : "",
            tagged && !field.is_required ? cat("; without it ", tagged->tag.name()) : "", ".\n",
            section ? table_of(*section) : part_of(*tagged, field.name));
  }
  return cat(table_of(leaves), parts);
}

}  // namespace taper::runner
