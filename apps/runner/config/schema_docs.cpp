// Generates JSON Schema for editors and the reference page from a schema.
#include <algorithm>
#include <cctype>
#include <limits>
#include <ranges>
#include <set>
#include <string_view>

#include <nlohmann/json.hpp>

#include "apps/runner/config/table.h"
#include "framework/base/error.h"

namespace taper::v0::runner {
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

Json section_json(const Schema& schema, Json first = Json::object());
Json union_json(const TypedSection& tagged);
Json entry_json(const TypedSection& entry);

// Returns the JSON Schema of one scalar; the pointer only selects the type.
Json scalar_json(const Field&, const bool*) { return {{"type", "boolean"}}; }
Json scalar_json(const Field& f, const int64_t*) {
  return in_range({{"type", "integer"}}, f.range);
}
Json scalar_json(const Field&, const uint64_t*) {
  return {{"type", "integer"}, {"minimum", 0}, {"maximum", std::numeric_limits<uint64_t>::max()}};
}
Json scalar_json(const Field& f, const double*) { return in_range({{"type", "number"}}, f.range); }
// A number or a boolean is accepted as text, too: `label: -1`.
Json scalar_json(const Field& f, const std::string*) {
  return f.names.empty() ? Json{{"type", {"string", "number", "boolean"}}}
                         : Json{{"enum", f.names}};
}
Json scalar_json(const Field& f, const Choice&) { return {{"enum", f.names}}; }

// Returns the JSON Schema of what a field accepts.
Json json_of(const Field& f, const Value& v) {
  const Json one = std::visit([&](const auto& like) { return scalar_json(f, like); }, v.like);
  const Json list = v.most > 0 ? list_of(one, 2, v.most) : list_of(one, v.size, v.size);
  Json json = !v.takes_list ? one : v.takes_one ? either(one, list) : list;
  if (v.is_word != nullptr) json = either(json, {{"const", v.word}});
  return v.is_given ? either(json, {{"type", "null"}}) : json;
}
Json json_of(const Field&, const Section& section) {
  const Json json = section_json(section.open());
  return section.is_given ? either(json, {{"type", {"null", "boolean"}}}) : json;
}
Json json_of(const Field&, const TypedSection& tagged) { return union_json(tagged); }
Json json_of(const Field&, const TypedSectionList& list) {
  return list_of(entry_json(TypedSection{list.kind, nullptr}), 1, kMaxEntries);
}
Json json_of(const Field& f, const WordMap&) {
  const Json value =
      f.names.empty() ? Json{{"type", {"string", "number"}}} : Json{{"enum", f.names}};
  return {{"type", {"object", "null"}}, {"additionalProperties", value}};
}
Json json_of(const Field&, const Custom&) { return Json::object(); }

// Returns the field's default, or a discarded Json value if it cannot be written.
Json default_of(const Field& field) {
  const auto* v = std::get_if<Value>(&field.target);
  const bool is_one = v && !v->takes_list && (!v->is_given || v->is_given());
  const Scalar scalar = is_one ? v->scalars({})[0] : Scalar();
  if (const auto* text = std::get_if<std::string*>(&scalar)) return **text;
  if (const auto* choice = std::get_if<Choice>(&scalar)) return field.names[choice->get()];
  return Json::parse(value_text(field), nullptr, false);
}

Json field_json(const Field& field) {
  Json json = std::visit([&](const auto& target) { return json_of(field, target); }, field.target);
  if (field.takes_map) {
    json = either(json, {{"type", "object"}, {"additionalProperties", {{"type", "number"}}}});
  }
  json["description"] = field.doc;
  const Json value = default_of(field);
  if (!field.is_required && !value.is_discarded() && value != "") json["default"] = value;
  return json;
}

// Returns the JSON Schema of a map with the properties in `first`, all required, and the schema's
// keys.
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

// Accepts {type: sgd, lr: 0.1}, the word sgd if no other key is required, and, where the path may
// imply the type, {path: a.csv}.
Json union_json(const TypedSection& tagged) {
  Json all = Json::array(), words = Json::array(), implied = Json::array();
  for (const Alternative& a : tagged.alternatives()) {
    all.push_back(section_json(a, {{"type", {{"const", a.type}}}}));
    if (all.back()["required"].size() == 1) words.push_back(a.type);
    const auto path = std::ranges::find(a.fields, "path", &Field::name);
    if (tagged.path_may_imply_type && path != a.fields.end()) implied.push_back(section_json(a));
  }
  Json forms =
      Json::array({{{"type", "object"}, {"required", {"type"}}, {"oneOf", std::move(all)}}});
  if (!words.empty()) forms.push_back({{"enum", std::move(words)}});
  if (!implied.empty()) {
    forms.push_back({{"type", "object"}, {"anyOf", std::move(implied)}});
    forms.push_back({{"type", "string"}});
  }
  return {{"anyOf", std::move(forms)}};
}

// Accepts "relu", {linear: 512} and {linear: {out_features: 512}}.
Json entry_json(const TypedSection& entry) {
  Json alone = Json::array(), all = Json::array({Json::object()});
  for (const Alternative& a : entry.alternatives()) {
    const Json arguments = section_json(a);
    Json forms = Json::array({arguments});
    if (arguments["required"].empty()) {
      alone.push_back(a.type);
      forms.push_back({{"type", "null"}});
    }
    const auto is_required = [](const Field& f) { return f.is_required; };
    if (!a.fields.empty() && std::ranges::none_of(a.fields | std::views::drop(1), is_required)) {
      forms.push_back(field_json(a.fields[0]));
    }
    all.push_back({{"type", "object"},
                   {"properties", {{a.type, {{"anyOf", std::move(forms)}}}}},
                   {"required", {a.type}},
                   {"additionalProperties", false}});
  }
  all[0]["enum"] = std::move(alone);
  return {{"oneOf", std::move(all)}};
}

// Returns the JSON Schema of a file that includes others: its maps may be partial, its lists
// replace the included ones.
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

// Returns a table row for each key, with nested keys by their path. Each row begins with `head`.
std::string rows_of(const Schema& schema, const std::string& head, const std::string& path = "") {
  std::string rows;
  for (const Field& field : schema.fields) {
    const std::string name = path + field.name, value = value_text(field);
    if (expected(field).empty()) continue;
    std::string by_default = field.is_required ? "required" : "";
    if (!field.is_required && !value.empty() && value != "\"\"")
      by_default = concat_to_string("`", value, "`");
    rows += concat_to_string(head, "| `", name, "` | ", expected(field), " | ", by_default, " | ",
                             field.doc, " |\n");
    const auto* inner = std::get_if<Section>(&field.target);
    if (inner) rows += rows_of(inner->open(), head, name + ".");
  }
  return rows;
}

std::string table_of(const Schema& schema) {
  return concat_to_string("\n| key | takes | default | meaning |\n|---|---|---|---|\n",
                          rows_of(schema, ""));
}

// Keys that all types share are listed once, at the end.
std::string table_of(const TypedSection& tagged, const char* title) {
  std::string rows;
  Schema common;
  const std::vector<Alternative> all = tagged.alternatives();
  for (const Alternative& a : all) {
    Schema own;
    for (const Field& field : a.fields) {
      const auto has_it = [&](const Schema& s) {
        const auto same = std::ranges::find(s.fields, std::string_view(field.doc), &Field::doc);
        return same != s.fields.end() && value_text(*same) == value_text(field);
      };
      const bool is_common = all.size() > 1 && std::ranges::all_of(all, has_it);
      if (!is_common) own.fields.push_back(field);
      if (is_common && &a == all.data()) common.fields.push_back(field);
    }
    const std::string head = concat_to_string("| `", a.type, "` ");
    rows += own.fields.empty() ? concat_to_string(head, "| | | | |\n") : rows_of(own, head);
  }
  return concat_to_string("\n| ", title,
                          " | key | takes | default | meaning |\n|---|---|---|---|---|\n", rows,
                          rows_of(common, "| any "));
}

std::string entries_of(const TypedSectionList& list, const std::string& path) {
  return concat_to_string(
      "\nEntries of `", path, "`, as `- name`, `- name: 512` (its first key) or ",
      "`- name: {key: 512, other: false}`:\n", table_of(TypedSection{list.kind, nullptr}, "entry"));
}

std::string part_of(const TypedSection& tagged, const std::string& path) {
  std::string out = table_of(tagged, "type");
  std::set<std::pair<std::string, const ComponentRegistry*>>
      described;  // lists that several types share are described once
  for (const Alternative& a : tagged.alternatives()) {
    for (const Field& field : a.fields) {
      const auto* list = std::get_if<TypedSectionList>(&field.target);
      if (list == nullptr || !described.emplace(field.name, list->kind).second) continue;
      out += entries_of(*list, concat_to_string(path, ".", field.name));
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
    const auto* section = std::get_if<Section>(&field.target);
    const auto* tagged = std::get_if<TypedSection>(&field.target);
    const auto* list = std::get_if<TypedSectionList>(&field.target);
    if (!section && !tagged) leaves.fields.push_back(field);
    if (list) parts += entries_of(*list, field.name);
    if (!section && !tagged) continue;
    std::string sentence = field.doc;
    sentence[0] = char(std::toupper(sentence[0]));
    if (field.is_required) sentence += " (required)";
    const bool has_default = sentence.find("default:") != std::string::npos;
    if (tagged && !field.is_required && !has_default)
      sentence += concat_to_string("; default: `", tagged->chosen->type, "`");
    parts += concat_to_string("\n## ", field.name, "\n\n", sentence, ".\n",
                              section ? table_of(section->open()) : part_of(*tagged, field.name));
  }
  return concat_to_string(table_of(leaves), parts);
}

}  // namespace taper::v0::runner
