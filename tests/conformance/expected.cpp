#include "tests/conformance/expected.h"

#include <algorithm>
#include <fstream>

#include <nlohmann/json.hpp>

#include "framework/base/error.h"
#include "tests/conformance/python.h"

namespace taper::v0::conformance {
namespace {

using Json = nlohmann::ordered_json;

// Formats an element of a list as Python does.
std::string element(const Json& value) {
  if (value.is_string()) return py(value.get<std::string>());
  if (value.is_boolean()) return py(value.get<bool>());
  if (!value.is_array()) return value.dump();
  std::string text;
  for (const Json& part : value) text += concat_to_string(text.empty() ? "" : ", ", element(part));
  return concat_to_string("[", text, "]");
}

std::string answer(const Json& row) {
  if (row.contains("raises")) {
    return concat_to_string(row["raises"].get<std::string>(), ": ", row["text"].get<std::string>());
  }
  const Json& printed = row["prints"];
  return printed.is_string() ? printed.get<std::string>() : element(printed);
}

}  // namespace

const std::vector<Expected>& expected_rows() {
  static const std::vector<Expected> rows = [] {
    std::vector<Expected> out;
    std::ifstream in(TAPER_SOURCE_DIR "/tests/conformance/pytorch-2.11.json");
    const Json file = Json::parse(in);
    for (const auto& [name, row] : file.items()) {
      if (name != "_env") out.push_back({name, answer(row)});
    }
    return out;
  }();
  return rows;
}

const Expected& expected_row(const std::string& name) {
  const std::vector<Expected>& rows = expected_rows();
  const auto found =
      std::find_if(rows.begin(), rows.end(), [&](const Expected& e) { return e.name == name; });
  if (found == rows.end())
    throw Error(concat_to_string("pytorch-2.11.json has no row '", name, "'"));
  return *found;
}

}  // namespace taper::v0::conformance
