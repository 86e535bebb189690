#include "apps/runner/config/json_reader.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>

#include "framework/io/json_scanner.h"

namespace taper::v0::runner {
namespace {

using EventKind = JsonEvent::EventKind;

// Builds the tree from the events of the scanner.
class JsonTreeBuilder {
 public:
  JsonTreeBuilder(std::string_view text, std::shared_ptr<const Source> source)
      : text_(text), source_(std::move(source)) {}

  Node root;

  // Returns line and column of an offset. Offsets must not decrease from call to call.
  Place place_at(size_t at) {
    for (; seen_ < at; ++seen_) {
      if (text_[seen_] != '\n') continue;
      ++line_;
      line_start_ = seen_ + 1;
    }
    return {source_, line_, int(at - std::min(at, line_start_)) + 1};
  }

  void add(const JsonEvent& event) {
    if (event.kind == EventKind::kListEnd || event.kind == EventKind::kMapEnd) return close();
    const Place place = place_at(event.at);
    if (event.kind == EventKind::kKey) {
      key_ = event.text;
      key_place_ = place;
      return;
    }
    if (++values_ > kMaxJsonValues)
      throw Problem{place, concat_to_string("more than ", kMaxJsonValues, " values")};
    const bool is_open = event.kind == EventKind::kListStart || event.kind == EventKind::kMapStart;
    const bool is_child = !open_.empty() && open_.back().kind == Node::Kind::kMap;
    Node node{.kind = event.kind == EventKind::kNull        ? Node::Kind::kNull
                      : event.kind == EventKind::kListStart ? Node::Kind::kSequence
                      : event.kind == EventKind::kMapStart  ? Node::Kind::kMap
                                                            : Node::Kind::kScalar,
              .is_quoted = event.kind == EventKind::kString,
              .place = place,
              .text = event.kind == EventKind::kNull ? "" : std::string(event.text),
              .key = is_child ? key_ : "",
              .key_place = is_child ? key_place_ : place};
    open_.push_back(std::move(node));
    if (!is_open) close();
  }

 private:
  void close() {
    Node done = std::move(open_.back());
    open_.pop_back();
    (open_.empty() ? root : open_.back().children.emplace_back()) = std::move(done);
  }

  std::string_view text_;
  std::shared_ptr<const Source> source_;
  size_t seen_ = 0, line_start_ = 0, values_ = 0;
  int line_ = 1;
  std::string key_;
  Place key_place_;
  std::vector<Node> open_;
};

template <class T>
void take_scalar(const Node& node, T& out, Problems& problems, const char* expected,
                 bool fits = true) {
  const Reading<T> reading = read_scalar<T>(node);
  if (expect(fits && reading.value, node, expected, problems)) out = *reading.value;
}

}  // namespace

Document parse_json(std::string_view text, Source about) {
  const auto source = source_of(text, std::move(about));
  JsonTreeBuilder builder(text, source);
  try {
    const auto fault = scan_json(text, [&](const JsonEvent& event) { builder.add(event); });
    if (!fault) return {std::move(builder.root), {}};
    return {std::nullopt,
            {{builder.place_at(fault->at), concat_to_string("not valid JSON: ", fault->what)}}};
  } catch (const Problem& problem) {
    return {std::nullopt, {problem}};
  }
}

void check_json(std::string_view text, const std::string& name, int64_t first_line) {
  const auto fault = scan_json(text, [](const JsonEvent&) {});
  if (!fault) return;
  const auto end = text.begin() + std::ptrdiff_t(std::min(fault->at, text.size()));
  throw InputError(concat_to_string(name, ":", first_line + std::count(text.begin(), end, '\n'),
                                    ": not valid JSON: ", fault->what));
}

void read_json(std::string_view text, const std::string& name, const Schema& schema) {
  Document document = parse_json(text, {.name = name});
  if (document.root) document.problems = read(schema, *document.root).problems;
  if (!document.problems.empty()) throw InputError(report(std::move(document.problems)));
}

bool expect(bool fits, const Node& node, const char* expected, Problems& problems) {
  if (!fits)
    problems.push_back(
        {node.place, concat_to_string("expected ", expected, ", got ", describe_node(node))});
  return fits;
}

void take(const Node& node, int64_t& out, Problems& problems) {
  take_scalar(node, out, problems, "an integer");
}
void take(const Node& node, double& out, Problems& problems) {
  take_scalar(node, out, problems, "a number");
}
void take(const Node& node, std::string& out, Problems& problems) {
  take_scalar(node, out, problems, "a string", node.is_quoted);
}
}  // namespace taper::v0::runner
