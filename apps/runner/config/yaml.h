// Parses YAML strictly. yaml-cpp is only the scanner. The tree keeps what yaml-cpp drops: places,
// quotes and the order of keys. It rejects what yaml-cpp accepts: duplicate keys, second documents,
// tags, alias bombs and octal numbers. Numbers and booleans are read as in the core schema of YAML
// 1.2, of which only the most common spellings are accepted.
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
inline constexpr std::size_t kMaxYamlNodes = 100'000;  // after the expansion of aliases
inline constexpr int kMaxYamlDepth = 64;

// A text that is parsed. `number` is 0 for the config file, -1, -2, ... for included files, and 1,
// 2, ... for overrides "a.b=v" of the command line.
struct Source {
  std::string name;
  int number = 0;
  std::vector<std::string> lines{};
};

// Returns a source with the lines of the text and the name escaped for messages.
std::shared_ptr<const Source> source_of(std::string_view text, Source about);

// A position in a source. It keeps the source alive for messages.
struct Place {
  std::shared_ptr<const Source> source{};
  int line = 0;    // from 1; 0: the whole source
  int column = 0;  // from 1, in bytes
};

// Returns "configs/digits.yaml:3:5", with the column in characters, or "command line:
// train.epochs=0".
std::string to_string(const Place& place);

// Returns "place: message", followed by the source line and a caret below the place. Returns the
// message alone if the place has no source.
std::string located(const Place& place, const std::string& message);

struct Problem {
  Place place;
  std::string message;
};

// Returns a message with the first 20 problems, in the order of the sources, and the number of the
// others.
std::string report(std::vector<Problem> problems);

struct Node {
  enum class Kind : uint8_t { kNull, kScalar, kSequence, kMap };
  Kind kind = Kind::kNull;
  bool is_quoted = false;        // quoted or block scalar: always text, never a number
  Place place{};                 // where the node is written; for a map's child without a value,
                                 // where its key is
  std::string text{};            // of a scalar
  std::string key{};             // of a map's child
  Place key_place{};             // equal to `place` if there is no key
  std::vector<Node> children{};  // in the order of the text

  // Return a child of a map, `key: word` or a map of its own. They have no position in a file,
  // because no file contains them.
  static Node entry(std::string key, std::string word);
  static Node map(std::string key, std::vector<Node> children);

  // Returns the child with that key, or null.
  const Node* find(std::string_view name) const;
  Node* find(std::string_view name);
};

struct Document {
  std::optional<Node> root{};  // empty if the text cannot be parsed; the problems give the reason
  std::vector<Problem> problems{};
};
Document parse_yaml(std::string_view text, Source source);

// The value of a scalar, or advice (possibly empty) if it cannot be read as T. T is bool, int64_t,
// uint64_t, double or std::string (any scalar except null).
template <class T> struct Reading {
  std::optional<T> value{};
  std::string advice{};
};
template <class T> Reading<T> read_scalar(const Node& node);

// Describes a node for messages: "'abc'", "nothing", "a list", "a map".
std::string describe_node(const Node& node);

// Returns `text` as a YAML scalar that reads back as the same text: plain if safe, otherwise
// double-quoted.
std::string yaml_text(const std::string& text);

}  // namespace taper::v0::runner
