#include "apps/runner/yaml.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>
#include <fstream>
#include <map>
#include <sstream>
#include <unordered_set>

#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/parser.h>

#include "apps/runner/errors.h"

namespace taper::runner {
namespace {

constexpr std::size_t kShownProblems = 20;
constexpr int kExcerptWidth = 100;

// Ends the reading of a document at once.
struct Fatal {
  Problem problem;
};

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_continuation(char c) { return (static_cast<unsigned char>(c) & 0xC0) == 0x80; }
bool is_control(char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7F; }

// Length of the well-formed UTF-8 character at text[i], 0 if there is none (RFC 3629: no overlong
// forms, no surrogates, nothing beyond U+10FFFF).
std::size_t utf8_length(std::string_view text, std::size_t i) {
  const auto byte = [&](std::size_t k) -> unsigned {
    return i + k < text.size() ? static_cast<unsigned char>(text[i + k]) : 0u;
  };
  const unsigned lead = byte(0);
  if (lead < 0x80) return 1;
  const std::size_t length = lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : 2;
  if (lead < 0xC2 || lead > 0xF4) return 0;
  for (std::size_t k = 1; k < length; ++k) {
    if ((byte(k) & 0xC0) != 0x80) return 0;
  }
  if (lead == 0xE0 && byte(1) < 0xA0) return 0;
  if (lead == 0xED && byte(1) > 0x9F) return 0;
  if (lead == 0xF0 && byte(1) < 0x90) return 0;
  if (lead == 0xF4 && byte(1) > 0x8F) return 0;
  return length;
}

// yaml-cpp ends a text silently at byte 4 and guesses UTF-16; so every byte is looked at first.
std::optional<Problem> find_bad_byte(std::string_view text, int source) {
  Mark mark{source, 0, 0};
  for (std::size_t i = 0; i < text.size();) {
    const std::size_t length = utf8_length(text, i);
    const char c = text[i];
    if (length == 0) return Problem{mark, "not UTF-8 text; save the file as UTF-8"};
    const bool line_end = c == '\n' || (c == '\r' && i + 1 < text.size() && text[i + 1] == '\n');
    if (is_control(c) && !line_end && c != '\t') {
      return Problem{mark, cat("a control character (byte ", int(c), ") is not allowed here")};
    }
    mark.column += int(length);
    if (c == '\n') mark = {source, mark.line + 1, 0};
    i += length;
  }
  return std::nullopt;
}

std::vector<std::string> split_lines(std::string_view text) {
  std::vector<std::string> lines;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    if (!line.empty() && line.back() == '\r') line.remove_suffix(1);
    lines.emplace_back(line);
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return lines;
}

// Text fit for one line of a message.
std::string shown(std::string_view text, std::size_t limit) {
  std::string out;
  std::size_t characters = 0;
  for (const char c : text) {
    if (!is_continuation(c) && ++characters > limit) return out + "...";
    if (c == '\n') {
      out += "\\n";
    } else {
      out += is_control(c) ? '?' : c;
    }
  }
  return out;
}

struct Extent {
  std::size_t nodes;
  int depth;
};

Extent extent_of(const Node& node) {
  Extent extent{1, 0};
  for (const Node& child : node.children) {
    const Extent inner = extent_of(child);
    extent.nodes += inner.nodes;
    extent.depth = std::max(extent.depth, inner.depth + 1);
  }
  return extent;
}

// Builds the tree from yaml-cpp's events.
class TreeBuilder : public YAML::EventHandler {
 public:
  explicit TreeBuilder(int source) : source_(source) {}

  Node root;
  std::vector<Problem> problems;
  Mark document_mark;

  // Of the innermost list or map still open whose bracket stands in the text.
  std::optional<Mark> open_bracket(const std::vector<std::string>& lines) const {
    for (auto frame = open_.rbegin(); frame != open_.rend(); ++frame) {
      const Mark mark = frame->node.mark;
      const auto line = std::size_t(mark.line), column = std::size_t(mark.column);
      if (line >= lines.size() || column >= lines[line].size()) continue;
      if (lines[line][column] == '[' || lines[line][column] == '{') return mark;
    }
    return std::nullopt;
  }

  void OnDocumentStart(const YAML::Mark& at) override { document_mark = mark_of(at); }
  void OnDocumentEnd() override {}

  void OnNull(const YAML::Mark& at, YAML::anchor_t anchor) override {
    add_leaf({.mark = mark_of(at)}, anchor);
  }

  void OnScalar(const YAML::Mark& at, const std::string& tag, YAML::anchor_t anchor,
                const std::string& value) override {
    check_tag(at, tag);
    Node node{.kind = Node::Kind::kScalar, .quoted = tag == "!", .mark = mark_of(at)};
    node.text = value;
    add_leaf(std::move(node), anchor);
  }

  void OnAlias(const YAML::Mark& at, YAML::anchor_t anchor) override {
    const auto found = anchored_.find(anchor);
    if (found == anchored_.end()) throw Fatal{{mark_of(at), "this alias contains itself"}};
    const Extent extent = extent_of(found->second);
    spend(mark_of(at), extent.nodes);
    check_depth(mark_of(at), extent.depth);
    add_leaf(found->second, YAML::NullAnchor);
  }

  void OnSequenceStart(const YAML::Mark& at, const std::string& tag, YAML::anchor_t anchor,
                       YAML::EmitterStyle::value) override {
    open(at, tag, anchor, Node::Kind::kSequence);
  }
  void OnSequenceEnd() override { close(); }
  void OnMapStart(const YAML::Mark& at, const std::string& tag, YAML::anchor_t anchor,
                  YAML::EmitterStyle::value) override {
    open(at, tag, anchor, Node::Kind::kMap);
  }
  void OnMapEnd() override { close(); }

 private:
  // A list or map that is still being read.
  struct Frame {
    Node node;
    YAML::anchor_t anchor;
    bool has_key = false;
    std::string key{};
    Mark key_mark{};
    std::unordered_set<std::string> keys{};
  };

  Mark mark_of(const YAML::Mark& at) const {
    return at.is_null() ? Mark{source_, 0, 0} : Mark{source_, at.line, at.column};
  }

  void check_tag(const YAML::Mark& at, const std::string& tag) {
    if (tag.empty() || tag == "?" || tag == "!") return;
    problems.push_back({mark_of(at), "tags (!name) are not allowed; write the value alone"});
  }

  void check_depth(Mark mark, int extra) const {
    if (int(open_.size()) + extra < kMaxYamlDepth) return;
    throw Fatal{{mark, cat("nested deeper than ", kMaxYamlDepth, " levels")}};
  }

  void spend(Mark mark, std::size_t nodes) {
    nodes_ += nodes;
    if (nodes_ <= kMaxYamlNodes) return;
    throw Fatal{{mark, cat("more than ", kMaxYamlNodes, " values, aliases expanded")}};
  }

  bool expects_key() const {
    return !open_.empty() && open_.back().node.kind == Node::Kind::kMap && !open_.back().has_key;
  }

  void open(const YAML::Mark& at, const std::string& tag, YAML::anchor_t anchor, Node::Kind kind) {
    check_tag(at, tag);
    check_depth(mark_of(at), 0);
    open_.push_back({.node = {.kind = kind, .mark = mark_of(at)}, .anchor = anchor});
  }

  void close() {
    Frame done = std::move(open_.back());
    open_.pop_back();
    add_leaf(std::move(done.node), done.anchor);
  }

  // A finished node: a key, a child of the innermost open list or map, or the root.
  void add_leaf(Node node, YAML::anchor_t anchor) {
    spend(node.mark, 1);
    if (anchor != YAML::NullAnchor) {
      spend(node.mark, extent_of(node).nodes);
      anchored_[anchor] = node;
    }
    if (open_.empty()) {
      root = std::move(node);
    } else if (expects_key()) {
      take_key(std::move(node));
    } else {
      take_child(std::move(node));
    }
  }

  void take_key(Node node) {
    // Not refused at once: yaml-cpp takes a list that is never closed for a key, and says so later.
    if (node.kind != Node::Kind::kScalar) {
      problems.push_back({node.mark, "a key must be a single word or text"});
    }
    Frame& frame = open_.back();
    frame.has_key = true;
    frame.key = std::move(node.text);
    frame.key_mark = node.mark;
  }

  void take_child(Node node) {
    Frame& frame = open_.back();
    node.key = std::move(frame.key);
    node.key_mark = frame.key_mark;
    frame.key.clear();
    frame.has_key = false;
    const bool is_map = frame.node.kind == Node::Kind::kMap;
    if (is_map && !frame.keys.insert(node.key).second) {
      const Mark first = frame.node.find(node.key)->key_mark;
      problems.push_back({node.key_mark, cat("duplicate key '", shown(node.key, 40),
                                             "', first in line ", first.line + 1)});
      return;
    }
    frame.node.children.push_back(std::move(node));
  }

  int source_;
  std::size_t nodes_ = 0;
  std::vector<Frame> open_;
  std::map<YAML::anchor_t, Node> anchored_;
};

// The events of one document; a second one is refused. yaml-cpp stands still at some stray
// characters and would report empty documents for ever: hence one look ahead and no loop.
void read_events(std::string_view text, TreeBuilder& builder) {
  // yaml-cpp closes an open quote by itself when the text ends in a newline; so it ends in '#'.
  std::istringstream stream{cat(text, "\n#")};
  YAML::Parser parser(stream);
  if (!parser.HandleNextDocument(builder)) return;
  Node root = std::move(builder.root);
  if (parser.HandleNextDocument(builder)) {
    throw Fatal{{builder.document_mark,
                 "a second document or stray text begins here; one file "
                 "holds one document"}};
  }
  builder.root = std::move(root);
}

bool ends_in_open_quote(const YAML::Exception& error) {
  return error.msg == YAML::ErrorMsg::EOF_IN_SCALAR;
}

// The first line from which on a quote stays open to the end of the text.
int line_of_open_quote(const std::vector<std::string>& lines) {
  std::size_t closed = 0, open = lines.size();  // numbers of lines read
  while (open - closed > 1) {
    const std::size_t middle = (open + closed) / 2;
    std::string text;
    for (std::size_t i = 0; i < middle; ++i) text += lines[i] + "\n";
    bool is_open = false;
    try {
      TreeBuilder ignored(0);
      read_events(text, ignored);
    } catch (const YAML::Exception& error) {
      is_open = ends_in_open_quote(error);
    } catch (const Fatal&) {
      is_open = false;
    }
    (is_open ? open : closed) = middle;
  }
  return int(closed);
}

// yaml-cpp's words and place, or better ones for the commonest slips.
Problem explain(const YAML::Exception& error, const TreeBuilder& builder, int source,
                const std::vector<std::string>& lines) {
  const std::string message = cat("not valid YAML: ", error.msg);
  // Its place for a bracket that is never closed is the end of the text.
  const bool unclosed = error.msg.find("flow not found") != std::string::npos;
  const std::optional<Mark> bracket = builder.open_bracket(lines);
  if (unclosed && bracket) return {*bracket, "not valid YAML: this bracket is never closed"};
  if (ends_in_open_quote(error)) {
    return {{source, line_of_open_quote(lines), 0},
            "not valid YAML: a quote opened in this line is never closed"};
  }
  if (error.mark.is_null()) return {{source, 0, 0}, message};
  const auto line = std::size_t(error.mark.line);
  const std::string text = line < lines.size() ? lines[line] : "";
  const std::size_t tab = text.substr(0, text.find_first_not_of(" \t")).find('\t');
  if (tab == std::string::npos) return {{source, int(line), error.mark.column}, message};
  return {{source, int(line), int(tab)}, "not valid YAML: indent with spaces, not with tabs"};
}

bool is_word_of(std::string text, std::initializer_list<const char*> words) {
  std::transform(text.begin(), text.end(), text.begin(),
                 [](unsigned char c) { return char(std::tolower(c)); });
  return std::any_of(words.begin(), words.end(), [&](const char* w) { return text == w; });
}

std::size_t skip_digits(std::string_view text, std::size_t i) {
  while (i < text.size() && is_digit(text[i])) ++i;
  return i;
}

std::string_view without_sign(std::string_view text) {
  if (!text.empty() && (text[0] == '+' || text[0] == '-')) text.remove_prefix(1);
  return text;
}

bool is_integer(std::string_view text) {
  text = without_sign(text);
  return !text.empty() && skip_digits(text, 0) == text.size();
}

// [-+]? ( . [0-9]+ | [0-9]+ ( . [0-9]* )? ) ( [eE] [-+]? [0-9]+ )?
bool is_number(std::string_view text) {
  text = without_sign(text);
  const std::size_t whole = skip_digits(text, 0);
  std::size_t i = whole;
  if (i < text.size() && text[i] == '.') i = skip_digits(text, i + 1);
  if (i == 0 || (whole == 0 && i == 1)) return false;
  if (i == text.size()) return true;
  if (text[i] != 'e' && text[i] != 'E') return false;
  return is_integer(text.substr(i + 1));
}

bool has_leading_zero(std::string_view text) {
  text = without_sign(text);
  return text.size() > 1 && text[0] == '0' && is_digit(text[1]);
}

std::string_view without_plus(std::string_view text) {
  if (!text.empty() && text[0] == '+') text.remove_prefix(1);
  return text;
}

template <class T> std::optional<T> convert(std::string_view text) {
  text = without_plus(text);
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

// Why a scalar that looks like a number to a person is not taken as one.
std::string number_advice(const Node& node) {
  std::string text = node.text;
  if (node.quoted) return is_number(text) ? "remove the quotes" : "";
  if (is_number(text) && has_leading_zero(text)) {
    const std::string sign = text[0] == '-' ? "-" : "";
    std::string_view digits = without_sign(text);
    while (digits.size() > 1 && digits[0] == '0' && is_digit(digits[1])) digits.remove_prefix(1);
    return cat("a leading 0 may mean octal or decimal; write ", sign, digits);
  }
  const std::string_view digits = without_sign(text);
  if (digits.substr(0, 2) == "0x" || digits.substr(0, 2) == "0o") return "write it in decimal";
  if (is_word_of(text, {".inf", "-.inf", "+.inf", ".nan", "inf", "-inf", "nan"})) {
    return "it must be finite";
  }
  std::erase(text, '_');
  if (text != node.text && is_number(text)) return cat("write ", text);
  return "";
}

template <class T> Reading<T> to_integer(const Node& node) {
  if (node.kind != Node::Kind::kScalar) return {};
  const std::string& text = node.text;
  if (node.quoted || !is_number(text) || has_leading_zero(text)) {
    return {std::nullopt, number_advice(node)};
  }
  if (is_integer(text)) {
    if (const auto value = convert<T>(text)) return {value, ""};
    if (text[0] == '-' && T(-1) > T(0)) return {std::nullopt, ""};
    return {std::nullopt, "it does not fit in 64 bits"};
  }
  const std::optional<double> real = convert<double>(text);
  if (!real || std::nearbyint(*real) != *real || std::fabs(*real) > 1e15) return {};
  return {std::nullopt, cat("write ", int64_t(*real))};
}

}  // namespace

std::string to_string(const Place& place) {
  return place.line == 0 ? place.source : cat(place.source, ":", place.line, ":", place.column);
}

std::string located(const Place& place, const std::string& message) {
  const std::string head = cat(to_string(place), ": ", message);
  if (place.line == 0 || place.excerpt.empty()) return head;
  const std::string number = cat(place.line);
  std::string pad;
  int characters = 0;
  for (const char c : place.excerpt) {
    if (is_continuation(c)) continue;
    if (characters++ == place.caret) break;
    pad += c == '\t' ? '\t' : ' ';
  }
  return cat(head, "\n  ", number, " | ", place.excerpt, "\n  ", std::string(number.size(), ' '),
             " | ", pad, "^");
}

Place place_of(const std::vector<Source>& sources, Mark mark) {
  const Source& source = sources.at(std::size_t(mark.source));
  if (source.is_command_line) return {.source = source.name};
  const auto line = std::size_t(mark.line);
  const std::string text = line < source.lines.size() ? source.lines[line] : "";
  // Byte offset of every character, so that a column counts characters and a cut splits none.
  std::vector<std::size_t> starts;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (!is_continuation(text[i])) starts.push_back(i);
  }
  const auto before = std::lower_bound(starts.begin(), starts.end(), std::size_t(mark.column));
  const int column = int(before - starts.begin());
  const int first =
      int(starts.size()) <= kExcerptWidth ? 0 : std::max(0, column - kExcerptWidth / 2);
  const int last = std::min(int(starts.size()), first + kExcerptWidth);
  starts.push_back(text.size());
  const std::size_t begin = starts[std::size_t(first)], end = starts[std::size_t(last)];
  return {source.name, mark.line + 1, column + 1, text.substr(begin, end - begin), column - first};
}

std::string report(const std::vector<Source>& sources, std::vector<Problem> problems) {
  std::stable_sort(problems.begin(), problems.end(),
                   [](const Problem& a, const Problem& b) { return a.mark < b.mark; });
  std::string out;
  const std::size_t count = std::min(problems.size(), kShownProblems);
  for (std::size_t i = 0; i < count; ++i) {
    if (i > 0) out += '\n';
    out += located(place_of(sources, problems[i].mark), problems[i].message);
  }
  if (problems.size() > count) out += cat("\nand ", problems.size() - count, " more");
  return out;
}

const Node* Node::find(std::string_view name) const {
  const auto found = std::find_if(children.begin(), children.end(),
                                  [&](const Node& child) { return child.key == name; });
  return found == children.end() ? nullptr : &*found;
}

Document parse_yaml(std::string_view text, Source source, int index) {
  if (text.substr(0, 3) == "\xEF\xBB\xBF") text.remove_prefix(3);
  Document document{.source = std::move(source)};
  document.source.name = shown(document.source.name, 200);
  document.source.lines = split_lines(text);
  std::optional<Problem> fatal = find_bad_byte(text, index);
  TreeBuilder builder(index);
  try {
    if (!fatal) read_events(text, builder);
  } catch (const Fatal& caught) {
    fatal = caught.problem;
  } catch (const YAML::Exception& error) {
    fatal = explain(error, builder, index, document.source.lines);
  }
  document.broken = fatal.has_value();
  document.root = std::move(builder.root);
  document.problems = fatal ? std::vector{*fatal} : std::move(builder.problems);
  return document;
}

std::string read_config_text(const std::filesystem::path& path) {
  namespace fs = std::filesystem;
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  const std::string name = path.string();
  if (!fs::exists(status)) throw ConfigError(cat(name, ": no such file"));
  if (fs::is_directory(status)) {
    throw ConfigError(cat(name, ": is a directory; name the YAML file"));
  }
  std::ifstream file(path, std::ios::binary);
  std::string text(kMaxYamlBytes + 1, '\0');
  file.read(text.data(), std::streamsize(text.size()));
  if (file.bad() || (!file.eof() && file.fail())) {
    throw ConfigError(cat(name, ": cannot be read; check its permissions"));
  }
  text.resize(std::size_t(file.gcount()));
  if (text.size() > kMaxYamlBytes) {
    throw ConfigError(cat(name, ": over ", kMaxYamlBytes, " bytes: not a configuration"));
  }
  return text;
}

Reading<bool> to_bool(const Node& node) {
  if (node.kind != Node::Kind::kScalar) return {};
  const std::string& text = node.text;
  if (!node.quoted && text == "true") return {true, ""};
  if (!node.quoted && text == "false") return {false, ""};
  if (is_word_of(text, {"true", "yes", "on", "y", "1"})) return {std::nullopt, "write true"};
  if (is_word_of(text, {"false", "no", "off", "n", "0"})) return {std::nullopt, "write false"};
  return {};
}

Reading<int64_t> to_int64(const Node& node) { return to_integer<int64_t>(node); }
Reading<uint64_t> to_uint64(const Node& node) { return to_integer<uint64_t>(node); }

Reading<double> to_double(const Node& node) {
  if (node.kind != Node::Kind::kScalar) return {};
  if (node.quoted || !is_number(node.text) || has_leading_zero(node.text)) {
    return {std::nullopt, number_advice(node)};
  }
  const std::optional<double> value = convert<double>(node.text);
  if (!value) return {std::nullopt, "it does not fit in a double"};
  return {value, ""};
}

Reading<std::string> to_text(const Node& node) {
  if (node.kind != Node::Kind::kScalar) return {};
  return {node.text, ""};
}

std::string seen(const Node& node) {
  switch (node.kind) {
    case Node::Kind::kNull: return "nothing";
    case Node::Kind::kSequence: return "a list";
    case Node::Kind::kMap: return "a map";
    case Node::Kind::kScalar: break;
  }
  return cat("'", shown(node.text, 40), "'");
}

std::string yaml_text(const std::string& text) {
  const auto plain = [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) ||
           std::string_view("_./-").find(c) != std::string_view::npos;
  };
  const bool starts_well = !text.empty() && (std::isalpha(static_cast<unsigned char>(text[0])) ||
                                             text[0] == '/' || text[0] == '_');
  const bool is_word =
      is_word_of(text, {"true", "false", "yes", "no", "on", "off", "null", "y", "n"});
  const bool relative = text.substr(0, 3) == "../" || text.substr(0, 2) == "./";
  if ((starts_well || relative) && !is_word && std::all_of(text.begin(), text.end(), plain)) {
    return text;
  }
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      out += {'\\', c};
    } else if (is_control(c)) {
      constexpr char kHex[] = "0123456789abcdef";
      out += {'\\', 'x', kHex[(c >> 4) & 15], kHex[c & 15]};
    } else {
      out += c;
    }
  }
  return out + "\"";
}

}  // namespace taper::runner
