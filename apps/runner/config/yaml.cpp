#include "apps/runner/config/yaml.h"

#include <algorithm>
#include <map>
#include <memory>
#include <ranges>
#include <sstream>
#include <tuple>
#include <unordered_map>

#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/parser.h>

#include "apps/runner/base/string_utils.h"
#include "framework/base/error.h"

namespace taper::v0::runner {
namespace {

constexpr std::size_t kShownProblems = 20;
constexpr std::size_t kExcerptBytes = 100;

using SourcePtr = std::shared_ptr<const Source>;

// A source line, split into the part before a place and the part that begins there. Both are empty
// if the source has no such line.
struct LineParts {
  std::string_view before, after;
};
LineParts parts_of(const Place& place) {
  const auto line = std::size_t(place.line);
  if (!place.source || line < 1 || line > place.source->lines.size()) return {};
  const std::string_view text = place.source->lines[line - 1];
  const std::size_t at = std::min(std::size_t(place.column - 1), text.size());
  return {text.substr(0, at), text.substr(at)};
}

// Checks every byte before yaml-cpp reads the text, because yaml-cpp stops silently at byte 4 and
// guesses UTF-16.
void check_bytes(std::string_view text, const SourcePtr& source) {
  Place place{source, 1, 1};
  while (!text.empty()) {
    const auto [value, length] = first_code_point(text);
    if (value == CodePoint::kInvalid)
      throw Problem{place, "not UTF-8 text; save the file as UTF-8"};
    const char c = text[0];
    if (is_control(c) && c != '\t' && c != '\n' && !text.starts_with("\r\n")) {
      throw Problem{
          place, concat_to_string("a control character (byte ", int(c), ") is not allowed here")};
    }
    place.column = c == '\n' ? 1 : place.column + int(length);
    place.line += c == '\n' ? 1 : 0;
    text.remove_prefix(length);
  }
}

std::size_t count_of(const Node& node) {
  std::size_t count = 1;
  for (const Node& child : node.children) count += count_of(child);
  return count;
}

// Builds the tree from yaml-cpp's events. Throws a Problem if reading cannot continue.
class YamlTreeBuilder : public YAML::EventHandler {
 public:
  explicit YamlTreeBuilder(SourcePtr source) : source_(std::move(source)) {
    root.place = root.key_place = {source_, 1, 1};
  }

  Node root;
  std::vector<Problem> problems;

  Place place_of(const YAML::Mark& at) const {
    return at.is_null() ? Place{source_, 1, 1} : Place{source_, at.line + 1, at.column + 1};
  }

  // Returns the place of the innermost bracket that is still open.
  std::optional<Place> open_bracket() const {
    for (const Frame& frame : open_ | std::views::reverse) {
      const std::string_view text = parts_of(frame.node.place).after;
      if (text.starts_with('[') || text.starts_with('{')) return frame.node.place;
    }
    return std::nullopt;
  }

  void OnDocumentStart(const YAML::Mark& at) override {
    if (!is_second_) return;
    throw Problem{place_of(at),
                  "a second document or stray text begins here; a file must contain one document"};
  }
  void OnDocumentEnd() override { is_second_ = true; }

  void OnNull(const YAML::Mark& at, YAML::anchor_t anchor) override {
    add(make(at, Node::Kind::kNull), anchor);
  }

  void OnScalar(const YAML::Mark& at, const std::string& tag, YAML::anchor_t anchor,
                const std::string& value) override {
    check_tag(at, tag);
    Node node = make(at, Node::Kind::kScalar);
    node.is_quoted = tag == "!";
    node.text = value;
    add(std::move(node), anchor);
  }

  void OnAlias(const YAML::Mark& at, YAML::anchor_t anchor) override {
    const auto found = anchored_.find(anchor);
    if (found == anchored_.end()) throw Problem{place_of(at), "this alias contains itself"};
    spend(place_of(at), count_of(found->second));
    add(found->second, YAML::NullAnchor);
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
  // A list or map that is still being read. The children of a map are alternately keys and values.
  struct Frame {
    Node node;
    YAML::anchor_t anchor;
  };

  Node make(const YAML::Mark& at, Node::Kind kind) const {
    return {.kind = kind, .place = place_of(at), .key_place = place_of(at)};
  }

  void check_tag(const YAML::Mark& at, const std::string& tag) {
    if (tag.empty() || tag == "?" || tag == "!") return;
    problems.push_back({place_of(at), "tags (!name) are not allowed; write only the value"});
  }

  void spend(const Place& place, std::size_t nodes) {
    nodes_ += nodes;
    if (nodes_ <= kMaxYamlNodes) return;
    throw Problem{place, concat_to_string("more than ", kMaxYamlNodes,
                                          " values after the expansion of aliases")};
  }

  void open(const YAML::Mark& at, const std::string& tag, YAML::anchor_t anchor, Node::Kind kind) {
    check_tag(at, tag);
    if (int(open_.size()) >= kMaxYamlDepth) {
      throw Problem{place_of(at),
                    concat_to_string("nested deeper than ", kMaxYamlDepth, " levels")};
    }
    open_.push_back({make(at, kind), anchor});
  }

  void close() {
    Frame done = std::move(open_.back());
    open_.pop_back();
    if (done.node.kind == Node::Kind::kMap) pair_up(done.node);
    add(std::move(done.node), done.anchor);
  }

  // Groups the children of a map into pairs of keys and values. Called only at the end of the map:
  // yaml-cpp treats a list that is never closed as a key, and reports the missing bracket later.
  void pair_up(Node& map) {
    const std::vector<Node> children = std::move(map.children);
    map.children.clear();
    std::unordered_map<std::string, int> lines;
    for (std::size_t i = 0; i + 1 < children.size(); i += 2) {
      const Node& key = children[i];
      if (key.kind != Node::Kind::kScalar) {
        problems.push_back({key.place, "a key must be a string"});
      }
      const auto [first, is_new] = lines.emplace(key.text, key.place.line);
      if (!is_new) {
        problems.push_back({key.place, concat_to_string("duplicate key ", in_quotes(key.text),
                                                        ", first used in line ", first->second)});
        continue;
      }
      Node& child = map.children.emplace_back(children[i + 1]);
      child.key = key.text;
      child.key_place = key.place;
      if (child.kind == Node::Kind::kNull) child.place = key.place;
    }
  }

  // Adds a finished node to the innermost open list or map, or makes it the root.
  void add(Node node, YAML::anchor_t anchor) {
    spend(node.place, 1);
    if (anchor != YAML::NullAnchor) {
      spend(node.place, count_of(node));
      anchored_[anchor] = node;
    }
    if (open_.empty()) {
      root = std::move(node);
    } else {
      open_.back().node.children.push_back(std::move(node));
    }
  }

  SourcePtr source_;
  bool is_second_ = false;
  std::size_t nodes_ = 0;
  std::vector<Frame> open_;
  std::map<YAML::anchor_t, Node> anchored_;
};

// Passes the events of the text to the builder. Looks for a second document once, not in a loop,
// because yaml-cpp does not advance at some stray characters and would report empty documents
// forever.
void read_events(std::string_view text, YamlTreeBuilder& builder) {
  // yaml-cpp closes an open quote silently if the text ends in a newline, so let the text end in
  // '#'.
  std::istringstream stream{concat_to_string(text, "\n#")};
  YAML::Parser parser(stream);
  if (parser.HandleNextDocument(builder)) parser.HandleNextDocument(builder);
}

bool ends_in_open_quote(const YAML::Exception& error) {
  return error.msg == YAML::ErrorMsg::EOF_IN_SCALAR;
}

// Returns the first line, counted from 1, with a quote that stays open to the end of the text.
int line_of_open_quote(const SourcePtr& source) {
  const auto is_closed_after = [&](int lines) {
    std::string text;
    for (int i = 0; i < lines; ++i) text += source->lines[std::size_t(i)] + "\n";
    try {
      YamlTreeBuilder ignored(source);
      read_events(text, ignored);
      return true;
    } catch (const YAML::Exception& error) {
      return !ends_in_open_quote(error);
    } catch (const Problem&) {
      return true;
    }
  };
  const auto counts = std::views::iota(1, int(source->lines.size()));
  return 1 + int(std::ranges::partition_point(counts, is_closed_after) - counts.begin());
}

// Returns yaml-cpp's message and place, or better ones for the most common mistakes.
Problem explain(const YAML::Exception& error, const YamlTreeBuilder& builder) {
  Place place = builder.place_of(error.mark);
  // yaml-cpp reports a bracket that is never closed at the end of the text.
  const bool is_unclosed = error.msg.find("flow not found") != std::string::npos;
  const std::optional<Place> bracket = builder.open_bracket();
  if (is_unclosed && bracket) return {*bracket, "not valid YAML: this bracket is never closed"};
  if (ends_in_open_quote(error)) {
    return {{place.source, line_of_open_quote(place.source), 1},
            "not valid YAML: a quote opened in this line is never closed"};
  }
  const std::string_view line = parts_of({place.source, place.line, 1}).after;
  const std::size_t tab = line.substr(0, line.find_first_not_of(" \t")).find('\t');
  if (tab == std::string::npos) return {place, concat_to_string("not valid YAML: ", error.msg)};
  place.column = int(tab) + 1;
  return {place, "not valid YAML: indent with spaces, not with tabs"};
}

}  // namespace

std::string to_string(const Place& place) {
  if (!place.source) return "";
  if (place.line == 0 || place.source->number > 0) return place.source->name;
  const std::string_view before = parts_of(place).before;
  const auto inside = std::ranges::count_if(before, is_continuation);
  return concat_to_string(place.source->name, ":", place.line, ":",
                          1 + std::ssize(before) - inside);
}

std::string located(const Place& place, const std::string& message) {
  if (!place.source) return message;
  const std::string head = concat_to_string(to_string(place), ": ", message);
  auto [before, after] = parts_of(place);
  if (place.source->number > 0 || before.size() + after.size() == 0) return head;
  if (before.size() + after.size() > kExcerptBytes) {
    if (before.size() > kExcerptBytes / 2) {
      before.remove_prefix(before.size() - kExcerptBytes / 2);
    }
    while (!before.empty() && is_continuation(before[0])) before.remove_prefix(1);
    std::size_t end = std::min(after.size(), kExcerptBytes - before.size());
    while (end < after.size() && is_continuation(after[end])) ++end;
    after = after.substr(0, end);
  }
  std::string pad;
  for (const char c : before) {
    if (!is_continuation(c)) pad += c == '\t' ? '\t' : ' ';
  }
  const std::string number = concat_to_string(place.line);
  return concat_to_string(head, "\n  ", number, " | ", before, after, "\n  ",
                          std::string(number.size(), ' '), " | ", pad, "^");
}

std::string report(std::vector<Problem> problems) {
  std::ranges::stable_sort(problems, {}, [](const Problem& p) {
    return std::tuple(p.place.source ? p.place.source->number : 0, p.place.line, p.place.column);
  });
  std::string out;
  for (const Problem& p : problems | std::views::take(kShownProblems)) {
    out += concat_to_string(out.empty() ? "" : "\n", located(p.place, p.message));
  }
  if (problems.size() <= kShownProblems) return out;
  return concat_to_string(out, "\nand ", problems.size() - kShownProblems, " more");
}

Node Node::entry(std::string key, std::string word) {
  return {.kind = Kind::kScalar, .text = std::move(word), .key = std::move(key)};
}

Node Node::map(std::string key, std::vector<Node> children) {
  return {.kind = Kind::kMap, .key = std::move(key), .children = std::move(children)};
}

const Node* Node::find(std::string_view name) const {
  const auto found = std::ranges::find(children, name, &Node::key);
  return found == children.end() ? nullptr : &*found;
}

Node* Node::find(std::string_view name) {
  return const_cast<Node*>(std::as_const(*this).find(name));
}

std::shared_ptr<const Source> source_of(std::string_view text, Source about) {
  about.name = escaped_for_display(about.name, 200);
  about.lines = lines_of(std::string(text));
  for (std::string& line : about.lines) {
    if (line.ends_with('\r')) line.pop_back();
  }
  return std::make_shared<const Source>(std::move(about));
}

Document parse_yaml(std::string_view text, Source about) {
  if (text.starts_with("\xEF\xBB\xBF")) text.remove_prefix(3);
  const SourcePtr source = source_of(text, std::move(about));
  YamlTreeBuilder builder(source);
  try {
    check_bytes(text, source);
    read_events(text, builder);
    return {std::move(builder.root), std::move(builder.problems)};
  } catch (const Problem& fatal) {
    return {std::nullopt, {fatal}};
  } catch (const YAML::Exception& error) {
    return {std::nullopt, {explain(error, builder)}};
  }
}

}  // namespace taper::v0::runner
