// The JSON Schema and the reference page agree with the reader of configs. Shipped configs are
// valid for both, and five hundred mutations of them are refused by both, at the mutated line.
#include "apps/runner/config/schema.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <random>
#include <regex>
#include <sstream>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <unistd.h>

#include "apps/runner/base/errors.h"
#include "apps/runner/base/string_utils.h"
#include "apps/runner/settings/run_config.h"
#include "framework/base/error.h"
#include "tests/runner/run_process.h"

namespace taper::v0::runner {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

const fs::path kSource = TAPER_SOURCE_DIR;

std::string text_of(const fs::path& file) {
  std::stringstream text;
  text << std::ifstream(file, std::ios::binary).rdbuf();
  return text.str();
}

std::string joined(const std::vector<std::string>& lines) {
  std::string text;
  for (const std::string& line : lines) text += line + "\n";
  return text;
}

Json json_of(const Node& node) {
  Json out;
  switch (node.kind) {
    case Node::Kind::kNull: return nullptr;
    case Node::Kind::kMap:
      out = Json::object();
      for (const Node& child : node.children) out[child.key] = json_of(child);
      return out;
    case Node::Kind::kSequence:
      out = Json::array();
      for (const Node& child : node.children) out.push_back(json_of(child));
      return out;
    default: break;
  }
  if (node.is_quoted) return node.text;
  if (const auto b = read_scalar<bool>(node).value) return *b;
  if (const auto i = read_scalar<int64_t>(node).value) return *i;
  if (const auto d = read_scalar<double>(node).value) return *d;
  return node.text;
}

bool is_of(const Json& value, const std::string& type) {
  if (type == "integer") return value.is_number_integer();
  if (type == "number") return value.is_number();
  if (type == "boolean") return value.is_boolean();
  if (type == "string") return value.is_string();
  if (type == "array") return value.is_array();
  if (type == "null") return value.is_null();
  EXPECT_EQ(type, "object");
  return value.is_object();
}

// Returns whether the value is valid. Supports only the keywords that Taper writes; any other
// keyword fails the test.
bool is_valid(const Json& schema, const Json& value) {
  const auto passes = [&](const Json& inner) { return is_valid(inner, value); };
  for (const auto& [keyword, v] : schema.items()) {
    bool ok = true;
    if (keyword == "type") {
      const Json types = v.is_array() ? v : Json::array({v});
      ok = std::ranges::any_of(types, [&](const Json& t) { return is_of(value, t); });
    } else if (keyword == "enum") {
      ok = std::ranges::count(v, value) > 0;
    } else if (keyword == "const") {
      ok = v == value;
    } else if (keyword == "anyOf") {
      ok = std::ranges::any_of(v, passes);
    } else if (keyword == "oneOf") {
      ok = std::ranges::count_if(v, passes) == 1;
    } else if (keyword == "required") {
      for (const Json& key : v) ok = ok && (!value.is_object() || value.contains(key));
    } else if (keyword == "properties") {
      for (const auto& [key, inner] : v.items()) {
        ok = ok && (!value.is_object() || !value.contains(key) || is_valid(inner, value[key]));
      }
    } else if (keyword == "additionalProperties") {
      const Json object = value.is_object() ? value : Json::object();
      for (const auto& [key, item] : object.items()) {
        const bool is_named = schema.contains("properties") && schema["properties"].contains(key);
        ok = ok && (is_named || (v.is_object() && is_valid(v, item)));
      }
    } else if (keyword == "items") {
      const Json list = value.is_array() ? value : Json::array();
      ok = std::ranges::all_of(list, [&](const Json& item) { return is_valid(v, item); });
    } else if (keyword == "minItems") {
      ok = !value.is_array() || value.size() >= v;
    } else if (keyword == "maxItems") {
      ok = !value.is_array() || value.size() <= v;
    } else if (keyword == "minimum") {
      ok = !value.is_number() || value.get<double>() >= v.get<double>();
    } else if (keyword == "exclusiveMinimum") {
      ok = !value.is_number() || value.get<double>() > v.get<double>();
    } else if (keyword == "maximum") {
      ok = !value.is_number() || value.get<double>() <= v.get<double>();
    } else if (keyword == "exclusiveMaximum") {
      ok = !value.is_number() || value.get<double>() < v.get<double>();
    } else if (keyword == "if") {
      ok = is_valid(schema[passes(v) ? "then" : "else"], value);
    } else {
      const std::vector<std::string> notes = {"$schema", "title", "description",
                                              "default", "then",  "else"};
      EXPECT_EQ(std::ranges::count(notes, keyword), 1) << keyword;
    }
    if (!ok) return false;
  }
  return true;
}

bool schema_takes(const std::string& yaml) {
  static const Json schema = Json::parse(json_schema());
  const Document document = parse_yaml(yaml, {.name = "run.yaml"});
  return document.root && document.problems.empty() && is_valid(schema, json_of(*document.root));
}

// Checks all defaults, so that every section is covered.
bool is_valid_default(const Json& schema) {
  if (schema.contains("default") && !is_valid(schema, schema["default"])) return false;
  return !schema.is_structured() || std::ranges::all_of(schema, is_valid_default);
}

std::vector<fs::path> shipped() {
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(kSource / "configs")) files.push_back(entry);
  std::ranges::sort(files);
  return files;
}

TEST(Schema, TakesWhatTheReaderTakes) {
  for (const fs::path& file : shipped()) {
    EXPECT_TRUE(schema_takes(to_yaml(load_config(file, {})))) << file;
    EXPECT_TRUE(schema_takes(text_of(file))) << file;
  }
  // A file that includes others follows the same schema, but may be incomplete.
  for (const char* wrong :
       {"include: a.yaml\nmodel: {n_layers: 4}\n", "include: a.yaml\ntrain: {epochs: -1}\n",
        "include: {a: 1}\n", "include: a.yaml\nmodel: {layers: [linear]}\n",
        "include: a.yaml\noptimizer: {type: sgd, betas: [0.9, 0.99]}\n"}) {
    EXPECT_FALSE(schema_takes(wrong)) << wrong;
  }
  EXPECT_TRUE(schema_takes("include: [a.yaml, b.yaml]\nmodel: {layers: [linear: 3]}\n"));
  EXPECT_TRUE(is_valid_default(Json::parse(json_schema())));
}

TEST(Schema, EveryLayerHasTheFormsThatTheReaderTakes) {
  const std::string head = "data: {type: digits}\noptimizer: {type: sgd}\ntrain: {epochs: 1}\n";
  const auto check = [&](const std::string& layer) {
    const std::string text = head + "model: {type: sequential, layers: [" + layer + "]}\n";
    const fs::path file =
        fs::temp_directory_path() / concat_to_string("taper_layer_", getpid(), ".yaml");
    std::ofstream(file) << text;
    bool is_read = true;
    std::string why;
    try {
      load_config(file, {});
    } catch (const ConfigError& error) {
      is_read = false;
      why = error.what();
    }
    fs::remove(file);
    EXPECT_EQ(schema_takes(text), is_read) << layer << "\n" << why;
    return is_read;
  };
  const Json model = Json::parse(json_schema())["else"]["properties"]["model"];
  const Json entries = model["anyOf"][0]["oneOf"][1]["properties"]["layers"]["items"]["oneOf"];
  ASSERT_EQ(entries.size(), 78u);  // one for names without options, then one for each layer
  for (std::size_t i = 1; i < entries.size(); ++i) {
    const std::string name = entries[i]["required"][0];
    // needs exactly one of two keys, a rule that the JSON Schema does not express
    if (name == "upsample") continue;
    check(name);
    check(name + ": {}");
    check(name + ": 2");
    check(name + ": [2, 3]");
    check(name + ": {nothing: 1}");
  }
  for (const char* right : {"conv2d: {out_channels: 8, kernel_size: [3, 5], padding: same}",
                            "max_pool2d: 2", "unflatten: [1, 28, 28]", "flatten: {start_dim: 2}",
                            "gelu: tanh", "lstm: {hidden_size: 8, last_step: true}",
                            "embedding: {embedding_dim: 4, num_embeddings: null}"}) {
    EXPECT_TRUE(check(right)) << right;
  }
  for (const char* wrong : {"conv2d: 8", "conv2d: {out_channels: 8, kernel_size: [3, 5, 7]}",
                            "max_pool2d: {kernel_size: 2, padding: same}", "gelu: tan"}) {
    EXPECT_FALSE(check(wrong)) << wrong;
  }
}

TEST(Schema, TheReferencePageIsInStep) {
  // Runs the program, because other tests of this process may have registered components.
  const RunDirectory at;
  EXPECT_EQ(text_of(kSource / "docs/configuration.md"), at.taper({"schema", "--markdown"}).out)
      << "run: taper schema --markdown > docs/configuration.md";
}

// A directory with a copy of the shipped configs.
class MutationTest : public ::testing::Test {
 protected:
  MutationTest()
      : directory_(fs::temp_directory_path() / concat_to_string("taper_mutations_", getpid())) {
    fs::copy(kSource / "configs", directory_);
  }
  ~MutationTest() override { fs::remove_all(directory_); }

  // Returns "" if the text is accepted.
  std::string error_of(const std::string& text) const {
    std::ofstream(directory_ / "run.yaml") << text;
    try {
      load_config(directory_ / "run.yaml", {});
      return "";
    } catch (const ConfigError& error) {
      return error.what();
    }
  }

  fs::path directory_;
};

struct Mutation {
  std::string what;
  std::vector<std::string> lines;
  std::size_t at = 0;         // the line, counted from 0, that the message must name
  bool is_for_schema = true;  // whether JSON Schema must refuse it, too; it sees only values
};

// A line "  key: value  # comment" with a value.
const std::regex kEntry(R"(^( *)([A-Za-z_0-9]+): +([^# ][^#]*?) *(#.*)?$)");

// Returns the mutation of line `at`, or nothing if this kind does not apply.
std::optional<Mutation> mutate(int kind, std::vector<std::string> lines, std::size_t at) {
  std::smatch part;
  const std::string line = lines[at];
  if (!std::regex_match(line, part, kEntry)) return {};
  const std::string pad = part[1], key = part[2], value = part[3];
  const bool is_inner = !pad.empty();
  switch (kind) {
    case 0:
      lines[at] = concat_to_string(pad, key, "q: ", value);
      return Mutation{"a key's typo", lines, at};
    case 1:
      // A map as the learning rate gives parts of the model their own.
      lines[at] = concat_to_string(pad, key, key == "lr" ? ": {q: [1]}" : ": {q: 1}");
      return Mutation{"a wrong type", lines, at};
    case 2: {
      double number = 0;
      std::istringstream stream(value);
      if (!(stream >> number) || !stream.eof() || key == "label") return {};
      lines[at] = concat_to_string(pad, key, ": ", at % 2 ? "-5" : "1e999");
      return Mutation{"a number out of range", lines, at};
    }
    case 3:
      lines.insert(lines.begin() + std::ptrdiff_t(at) + 1, line);
      return Mutation{"a duplicate key", lines, at + 1};
    case 4: {
      // Indenting the first line of a block would only move the block.
      const bool is_first = !is_inner || lines[at - 1].find_first_not_of(' ') != pad.size();
      if (is_first) return {};
      lines[at] = (at % 2 ? " " : "") + line.substr(at % 2 ? 0 : 1);
      return Mutation{"bad indentation", lines, at, false};
    }
    default: {
      const std::vector<std::string> required = {"type", "root", "path", "steps", "epochs"};
      if (!is_inner || std::ranges::count(required, key) == 0) return {};
      std::size_t section = at;
      while (lines[section][0] == ' ') --section;
      const auto is_path = [](const std::string& text) { return text.find("path:") != text.npos; };
      // The path of a file implies the type of data.
      if (key == "type" && lines[section] == "data:" && std::ranges::any_of(lines, is_path))
        return {};
      lines.erase(lines.begin() + std::ptrdiff_t(at));
      // The rule that a run needs epochs or steps is not in the schema.
      return Mutation{"a missing key", lines, section, key != "epochs" && key != "steps"};
    }
  }
}

TEST_F(MutationTest, FiveHundredMutationsAreRefusedAtTheirLine) {
  std::mt19937 random(11);
  const std::vector<fs::path> files = shipped();
  std::map<std::string, int> counts;
  for (int done = 0; done < 500;) {
    const fs::path& file = files[random() % files.size()];
    const int kind = int(random() % 6);
    const bool is_resolved = random() % 2 == 0 || kind == 5;
    const std::string text = is_resolved ? to_yaml(load_config(file, {})) : text_of(file);
    const std::vector<std::string> lines = lines_of(text);
    const auto mutation = mutate(kind, lines, random() % lines.size());
    if (!mutation) continue;
    ++done;
    ++counts[mutation->what];
    const std::string mutated = joined(mutation->lines), error = error_of(mutated);
    const std::string place = concat_to_string("run.yaml:", mutation->at + 1, ":");
    EXPECT_NE(error.find(place), std::string::npos)
        << file << ": " << mutation->what << " at " << place << "\n"
        << error << "\n"
        << mutated;
    if (mutation->is_for_schema) {
      EXPECT_FALSE(schema_takes(mutated)) << mutation->what << "\n" << mutated;
    }
  }
  for (const auto& [what, count] : counts) EXPECT_GT(count, 5) << what;
}

}  // namespace
}  // namespace taper::v0::runner
