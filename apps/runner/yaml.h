// YAML as strict input. yaml-cpp scans; this tree keeps what it forgets (places, quotes, order)
// and refuses what it lets pass: duplicate keys, second documents, tags, alias bombs, octals.
// Numbers and booleans follow YAML 1.2's core schema in its plainest forms.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace taper::runner {

inline constexpr std::size_t kMaxYamlBytes = 1 << 20;
inline constexpr std::size_t kMaxYamlNodes = 100'000;  // after aliases are expanded
inline constexpr int kMaxYamlDepth = 64;

// A text that is read: a file, or one "a.b=v" of the command line (which has no line numbers).
struct Source {
  std::string name;
  bool is_command_line = false;
  std::vector<std::string> lines{};
};

// A position in one of several sources; line and column (in bytes) count from 0.
struct Mark {
  int source = 0;
  int line = 0;
  int column = 0;
  auto operator<=>(const Mark&) const = default;
};

// A position that can be shown when the sources are gone.
struct Place {
  std::string source;
  int line = 0;           // from 1; 0: the source as a whole
  int column = 0;         // from 1, in characters
  std::string excerpt{};  // the line, or the part of a long line around the place
  int caret = 0;          // index of the place in the excerpt, in characters
};

// "configs/digits.yaml:3:5" or "command line: train.epochs=0".
std::string to_string(const Place& place);

// "place: message", the source line below it, a caret under the place.
std::string located(const Place& place, const std::string& message);

Place place_of(const std::vector<Source>& sources, Mark mark);

struct Problem {
  Mark mark;
  std::string message;
};

// All problems as one text in the order of the sources; the first 20 in full.
std::string report(const std::vector<Source>& sources, std::vector<Problem> problems);

struct Node {
  enum class Kind : uint8_t { kNull, kScalar, kSequence, kMap };
  Kind kind = Kind::kNull;
  bool quoted = false;  // a quoted or block scalar: always text, never a number
  Mark mark;
  std::string text{};            // of a scalar
  std::string key{};             // of a map's child
  Mark key_mark{};               // of a map's child
  std::vector<Node> children{};  // in the order of the text

  // The child of that key, or null.
  const Node* find(std::string_view name) const;
};

struct Document {
  Source source;
  Node root{};
  std::vector<Problem> problems{};
  bool broken = false;  // the tree is not to be used; the problems say why
};

// One document of YAML; `index` is the source's number in the marks. Never throws.
Document parse_yaml(std::string_view text, Source source, int index);

// Throws ConfigError when the file is missing, not a file, unreadable or over kMaxYamlBytes.
std::string read_config_text(const std::filesystem::path& path);

// A scalar's value, or advice (may be empty) for whoever wrote something else.
template <class T> struct Reading {
  std::optional<T> value;
  std::string advice;
};
Reading<bool> to_bool(const Node& node);
Reading<int64_t> to_int64(const Node& node);
Reading<uint64_t> to_uint64(const Node& node);
Reading<double> to_double(const Node& node);
Reading<std::string> to_text(const Node& node);  // any scalar but null

// What stands there, for messages: "'abc'", "nothing", "a list", "a map".
std::string seen(const Node& node);

// `text` as a YAML scalar that reads back as that text: plain where safe, else double-quoted.
std::string yaml_text(const std::string& text);

}  // namespace taper::runner
