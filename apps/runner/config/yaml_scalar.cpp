// Parses YAML scalars, gives advice for those that do not parse, and writes text as a scalar.
#include <algorithm>
#include <cctype>
#include <cmath>
#include <system_error>

#include "apps/runner/base/string_utils.h"
#include "apps/runner/config/yaml.h"

namespace taper::v0::runner {
namespace {

// Returns advice for text that looks like a number but is not accepted as one; empty if there is
// none.
std::string number_advice(const Node& node) {
  double value = 0;
  const auto is_number = [&](std::string_view text) {
    return parse_number(text, value) != std::errc::invalid_argument;
  };
  const std::string& text = node.text;
  if (node.is_quoted) return is_number(text) ? "remove the quotes" : "";
  const bool has_sign = text.starts_with('-') || text.starts_with('+');
  std::string_view digits = std::string_view(text).substr(has_sign ? 1 : 0);
  if (digits.starts_with("0x") || digits.starts_with("0o")) return "write it in decimal";
  std::size_t zeros = 0;
  while (zeros + 1 < digits.size() && digits[zeros] == '0' && std::isdigit(digits[zeros + 1])) {
    ++zeros;
  }
  if (zeros > 0 && is_number(text)) {
    return concat_to_string("a leading 0 may mean octal or decimal; write ",
                            text[0] == '-' ? "-" : "", digits.substr(zeros));
  }
  if (digits.starts_with('.')) digits.remove_prefix(1);  // YAML spells infinity as .inf
  if (is_number(digits) && !std::isfinite(value)) return "it must be finite";
  std::string joined = text;
  std::erase(joined, '_');
  return joined != text && is_number(joined) ? concat_to_string("write ", joined) : "";
}

template <class T> Reading<T> read_number(const Node& node) {
  const std::string advice = number_advice(node);
  if (node.is_quoted || !advice.empty()) return {std::nullopt, advice};
  T value{};
  const std::errc error = parse_number(node.text, value);
  if (error == std::errc()) {
    const bool is_tiny =
        value == T() && node.text.find_first_of("123456789") < node.text.find_first_of("eE");
    return {value, is_tiny ? "it is so small that a double rounds it to 0" : ""};
  }
  if (error == std::errc::result_out_of_range) {
    return {std::nullopt, concat_to_string("it does not fit in ",
                                           std::is_integral_v<T> ? "64 bits" : "a double")};
  }
  double real = 0.5;
  const bool is_whole = parse_number(node.text, real) == std::errc() && std::trunc(real) == real;
  if (!is_whole || std::fabs(real) > 1e15 || (real < 0 && std::is_unsigned_v<T>)) return {};
  return {std::nullopt, concat_to_string("write ", int64_t(real))};
}

bool is_one_of(const std::string& word, std::initializer_list<const char*> words) {
  return std::ranges::find(words, folded(word)) != words.end();
}

Reading<bool> read_bool(const Node& node) {
  const std::string& text = node.text;
  if (!node.is_quoted && (text == "true" || text == "false")) return {text == "true"};
  if (is_one_of(text, {"true", "yes", "on", "y", "1"})) return {std::nullopt, "write true"};
  if (is_one_of(text, {"false", "no", "off", "n", "0"})) return {std::nullopt, "write false"};
  return {};
}

}  // namespace

template <class T> Reading<T> read_scalar(const Node& node) {
  if (node.kind != Node::Kind::kScalar) return {};
  if constexpr (std::is_same_v<T, std::string>) {
    return {node.text};
  } else if constexpr (std::is_same_v<T, bool>) {
    return read_bool(node);
  } else {
    return read_number<T>(node);
  }
}
template Reading<bool> read_scalar(const Node&);
template Reading<int64_t> read_scalar(const Node&);
template Reading<uint64_t> read_scalar(const Node&);
template Reading<double> read_scalar(const Node&);
template Reading<std::string> read_scalar(const Node&);

std::string describe_node(const Node& node) {
  switch (node.kind) {
    case Node::Kind::kNull: return "nothing";
    case Node::Kind::kSequence: return node.children.empty() ? "an empty list" : "a list";
    case Node::Kind::kMap: return "a map";
    default: return in_quotes(node.text);
  }
}

std::string yaml_text(const std::string& text) {
  const auto is_plain = [](unsigned char c) {
    return std::isalnum(c) || c == '_' || c == '.' || c == '/' || c == '-';
  };
  const bool starts_well = text.starts_with("./") || text.starts_with("../") ||
                           text.starts_with('/') || text.starts_with('_') ||
                           (!text.empty() && std::isalpha(static_cast<unsigned char>(text[0])));
  const bool is_word =
      is_one_of(text, {"true", "false", "yes", "no", "on", "off", "null", "y", "n"});
  if (starts_well && !is_word && std::ranges::all_of(text, is_plain)) return text;
  std::string escaped;
  for (const char c : text)
    escaped += c == '"' || c == '\\' ? concat_to_string('\\', c) : concat_to_string(c);
  return concat_to_string('"', escaped_for_display(escaped, std::string::npos), '"');
}

}  // namespace taper::v0::runner
