// Parses JSON into the same tree as YAML, so that one schema serves both formats. Reads numbers,
// strings, arrays and maps from the tree by their C++ types. json_writer.h writes them.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "apps/runner/base/errors.h"
#include "apps/runner/config/json_writer.h"
#include "apps/runner/config/schema.h"
#include "apps/runner/config/yaml.h"
#include "framework/io/input_file.h"

namespace taper::v0::runner {

inline constexpr std::size_t kMaxJsonValues = 2'000'000;
inline constexpr std::size_t kMaxJsonBytes = 64 << 20;

Document parse_json(std::string_view text, Source source);

// Throws InputError "NAME:LINE: ..." if the text is not strict JSON (framework/io/json_scanner.h),
// so that a JSON library never parses such text. `first_line` is the line of `name` in which the
// text begins.
void check_json(std::string_view text, const std::string& name, int64_t first_line = 1);

// Parses the text with a JSON library (Json is its value type), after checking that it is strict
// JSON. read_json_file also requires that the file contains an object.
template <class Json>
Json json_value(std::string_view text, const std::string& name, int64_t first_line = 1) {
  check_json(text, name, first_line);
  return Json::parse(text);
}
template <class Json> Json read_json_file(const fs::path& file, const char* what) {
  Json json = json_value<Json>(read_file(file, what, kMaxJsonBytes), file.string());
  if (json.is_object()) return json;
  throw InputError(concat_to_string(file.string(), ":1: expected a JSON object"));
}

// Reads a text into the struct that the schema is bound to. Throws InputError with all problems and
// their places.
void read_json(std::string_view text, const std::string& name, const Schema& schema);

// --- values, read by their type; problems are appended to `problems` ---

using Problems = std::vector<Problem>;
void take(const Node& node, int64_t& out, Problems& problems);
void take(const Node& node, double& out, Problems& problems);
void take(const Node& node, std::string& out, Problems& problems);

// Appends the problem "expected ..., got ..." unless `fits`. Returns `fits`.
bool expect(bool fits, const Node& node, const char* expected, Problems& problems);

template <class T> void take(const Node& node, std::vector<T>& out, Problems& problems) {
  if (!expect(node.kind == Node::Kind::kSequence, node, "a list", problems)) return;
  out.clear();
  for (const Node& child : node.children) take(child, out.emplace_back(), problems);
}
template <class A, class B> void take(const Node& node, std::pair<A, B>& out, Problems& problems) {
  const bool is_pair = node.kind == Node::Kind::kSequence && node.children.size() == 2;
  if (!expect(is_pair, node, "a list of two entries", problems)) return;
  take(node.children[0], out.first, problems);
  take(node.children[1], out.second, problems);
}
template <class T> void take(const Node& node, std::map<std::string, T>& out, Problems& problems) {
  if (!expect(node.kind == Node::Kind::kMap, node, "a map", problems)) return;
  for (const Node& child : node.children) take(child, out[child.key], problems);
}

// Returns a field of that type for a schema.
template <class T> Custom value_in(T& out) {
  const auto read_value = [&out](const Node& node) {
    Problems problems;
    take(node, out, problems);
    return problems;
  };
  return {read_value, [&out] { return json_text(out); }};
}

// Returns a field for a list of parts. `describe` returns the schema of a part.
template <class Part>
Custom list_in(std::vector<Part>& parts, Schema (*describe)(std::type_identity_t<Part>&)) {
  const auto read_parts = [&parts, describe](const Node& node) {
    Problems problems;
    if (!expect(node.kind == Node::Kind::kSequence, node, "a list", problems)) return problems;
    parts.clear();
    for (const Node& child : node.children) {
      const Problems of_part = read(describe(parts.emplace_back()), child).problems;
      problems.insert(problems.end(), of_part.begin(), of_part.end());
    }
    return problems;
  };
  const auto write_parts = [&parts, describe] {
    std::string out = "[";
    for (Part& part : parts) out += (out.size() > 1 ? "," : "") + json_text(describe(part));
    return out + "]";
  };
  return {read_parts, write_parts};
}

// Returns a field for an optional part. Unlike optional_section(), it does not accept `true`.
template <class Part>
Custom part_in(std::optional<Part>& part, Schema (*describe)(std::type_identity_t<Part>&)) {
  const auto read_part = [&part, describe](const Node& node) {
    Part found;
    Problems problems = read(describe(found), node).problems;
    if (problems.empty()) part = std::move(found);
    return problems;
  };
  return {read_part, [&part, describe] { return part ? json_text(describe(*part)) : ""; }};
}

}  // namespace taper::v0::runner
