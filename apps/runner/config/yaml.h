// YAML as strict input. yaml-cpp scans; this tree keeps what it forgets (places, quotes, order)
// and refuses what it lets pass: duplicate keys, second documents, tags, alias bombs, octals.
// Numbers and booleans follow YAML 1.2's core schema in its plainest forms.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "framework/base/namespace.h"

namespace taper::v0::runner {

inline constexpr std::size_t kMaxYamlBytes = 1 << 20;
inline constexpr std::size_t kMaxYamlNodes = 100'000;  // after aliases are expanded
inline constexpr int kMaxYamlDepth = 64;

// A text that is read: the file (number 0), one that it includes (from -1 down), or one "a.b=v" of
// the command line (from 1 on).
struct Source {
  std::string name;
  int number = 0;
  std::vector<std::string> lines{};
};

// With the text's lines, and its name fit for messages.
std::shared_ptr<const Source> source_of(std::string_view text, Source about);

// A position in a source, which it keeps alive for messages.
struct Place {
  std::shared_ptr<const Source> source{};
  int line = 0;    // from 1; 0: the source as a whole
  int column = 0;  // from 1, in bytes
};

// "configs/digits.yaml:3:5" with the column in characters, or "command line: train.epochs=0".
std::string to_string(const Place& place);

// "place: message", the source line below it, a caret under the place; of no source the message.
std::string located(const Place& place, const std::string& message);

struct Problem {
  Place place;
  std::string message;
};

// All problems as one text in the order of the sources; the first 20 in full.
std::string report(std::vector<Problem> problems);

struct Node {
  enum class Kind : uint8_t { kNull, kScalar, kSequence, kMap };
  Kind kind = Kind::kNull;
  bool is_quoted = false;        // a quoted or block scalar: always text, never a number
  Place place{};                 // of a map's child without a value: that of its key
  std::string text{};            // of a scalar
  std::string key{};             // of a map's child
  Place key_place{};             // the same as `place` where there is no key
  std::vector<Node> children{};  // in the order of the text

  // The child of that key, or null.
  const Node* find(std::string_view name) const;
};

struct Document {
  std::optional<Node> root{};  // nothing where the text is broken; the problems say why
  std::vector<Problem> problems{};
};
Document parse_yaml(std::string_view text, Source source);

// A scalar's value, or advice (may be empty) for whoever wrote something else. T is bool, int64_t,
// uint64_t, double or std::string (any scalar but null).
template <class T> struct Reading {
  std::optional<T> value{};
  std::string advice{};
};
template <class T> Reading<T> read_scalar(const Node& node);

// What stands there, for messages: "'abc'", "nothing", "a list", "a map".
std::string describe_node(const Node& node);

// `text` as a YAML scalar that reads back as that text: plain where safe, else double-quoted.
std::string yaml_text(const std::string& text);

}  // namespace taper::v0::runner
