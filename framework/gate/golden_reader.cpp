// Reads golden files. The errors name the file and the line.
#include <algorithm>
#include <utility>

#include "framework/gate/golden_text.h"
#include "framework/io/input_file.h"
#include "framework/io/json_scanner.h"
#include "framework/io/text_utils.h"

namespace taper::v0::golden {
namespace {

using EventKind = JsonEvent::EventKind;
using detail::in_quotes;

constexpr size_t kMaxValues = 2'000'000;

// A value of the file. Lists and maps have the kinds kListStart and kMapStart.
struct JsonNode {
  EventKind kind = EventKind::kNull;
  std::string key{}, text{};
  size_t at = 0;  // offset of its first byte
  std::vector<JsonNode> children{};
};

// A file that is being read. All functions throw InputError with name and line if a value is not of
// the requested type.
class GoldenReader {
 public:
  GoldenReader(const std::string& text, std::string name) : text_(text), name_(std::move(name)) {
    const auto fault = scan_json(text_, [this](const JsonEvent& event) { add(event); });
    if (fault) fail(fault->at, "not valid JSON: ", fault->what);
  }

  const JsonNode& root() const { return root_; }
  const std::string& name() const { return name_; }

  template <class... Text> [[noreturn]] void fail(size_t at, const Text&... what) const {
    const auto end = text_.begin() + std::ptrdiff_t(std::min(at, text_.size()));
    throw InputError(name_, ":", 1 + std::count(text_.begin(), end, '\n'), ": ", what...);
  }

  static const JsonNode* find(const JsonNode& map, const std::string& key) {
    const auto found = std::ranges::find(map.children, key, &JsonNode::key);
    return found == map.children.end() ? nullptr : &*found;
  }

  // Reads the members of a map. `allowed`: keys without a member to read.
  template <class... Members>
  void read_map(const JsonNode& map, std::vector<std::string> known, Members&&... members) const {
    expect(map, EventKind::kMapStart, "a map");
    (read_member(map, known, members), ...);
    for (const JsonNode& child : map.children) {
      if (std::ranges::count(known, child.key) == 0)
        fail(child.at, "unknown key ", in_quotes(child.key));
    }
  }

  void take(const JsonNode& node, std::string& out) const {
    expect(node, EventKind::kString, "a string");
    out = node.text;
  }
  void take(const JsonNode& node, int64_t& out) const { take_number(node, out, "an integer"); }
  void take(const JsonNode& node, double& out) const { take_number(node, out, "a number"); }
  template <class T> void take(const JsonNode& node, std::vector<T>& out) const {
    expect(node, EventKind::kListStart, "a list");
    for (const JsonNode& child : node.children) take(child, out.emplace_back());
  }
  template <class T> void take(const JsonNode& node, std::map<std::string, T>& out) const {
    expect(node, EventKind::kMapStart, "a map");
    for (const JsonNode& child : node.children) take(child, out[child.key]);
  }

 private:
  void add(const JsonEvent& event) {
    if (event.kind == EventKind::kListEnd || event.kind == EventKind::kMapEnd) return close();
    if (event.kind == EventKind::kKey) {
      key_ = event.text;
      return;
    }
    if (++values_ > kMaxValues) fail(event.at, "more than ", kMaxValues, " values");
    open_.push_back({event.kind, std::exchange(key_, ""), std::string(event.text), event.at});
    const bool is_open = event.kind == EventKind::kListStart || event.kind == EventKind::kMapStart;
    if (!is_open) close();
  }
  void close() {
    JsonNode done = std::move(open_.back());
    open_.pop_back();
    (open_.empty() ? root_ : open_.back().children.emplace_back()) = std::move(done);
  }

  void expect(const JsonNode& node, EventKind kind, const char* expected) const {
    if (node.kind == kind) return;
    const std::string key = node.key.empty() ? "" : concat_to_string(node.key, ": ");
    const bool is_scalar = node.kind != EventKind::kListStart && node.kind != EventKind::kMapStart;
    fail(node.at, key, "expected ", expected, ", got ",
         is_scalar                            ? in_quotes(node.text)
         : node.kind == EventKind::kListStart ? "a list"
                                              : "a map");
  }
  template <class T> void take_number(const JsonNode& node, T& out, const char* expected) const {
    expect(node, EventKind::kNumber, expected);
    if (detail::parse_number(node.text, out) != std::errc())
      fail(node.at, node.key, ": expected ", expected, ", got ", in_quotes(node.text));
  }
  template <class T>
  void read_member(const JsonNode& map, std::vector<std::string>& known,
                   const std::pair<const char*, T*>& member) const {
    known.emplace_back(member.first);
    const JsonNode* node = find(map, member.first);
    if (node == nullptr) fail(map.at, in_quotes(member.first), " is missing");
    take(*node, *member.second);
  }

  const std::string& text_;
  const std::string name_;
  JsonNode root_;
  std::vector<JsonNode> open_;
  std::string key_;
  size_t values_ = 0;
};

template <class T> std::pair<const char*, T*> member(const char* key, T& out) {
  return {key, &out};
}

// Checks that each row has a step and that all other values are hex floats.
void check_rows(const GoldenReader& reader, const JsonNode& section, const char* key,
                const std::vector<Row>& rows) {
  const JsonNode& list = *GoldenReader::find(section, key);
  for (size_t i = 0; i < rows.size(); ++i) {
    const size_t at = list.children[i].at;
    const auto step = rows[i].find("step");
    int64_t number = 0;
    if (step == rows[i].end()) reader.fail(at, key, ": each needs a step");
    if (detail::parse_number(step->second, number) != std::errc())
      reader.fail(at, "step: expected an integer, got ", in_quotes(step->second));
    for (const auto& [metric, text] : rows[i]) {
      if (metric == "step" || metric == "state") continue;
      for (const std::string& word : detail::lines_of(text, ' ')) {
        if (word != "-") (void)recorded_number(metric, word);
      }
    }
  }
}

void read_section(const GoldenReader& reader, const JsonNode& node, Golden& golden) {
  GoldenSection& s = golden.sections.emplace_back();
  std::string crc32;
  reader.read_map(node, {"also"}, member("program", s.metadata.program),
                  member("data", s.metadata.data), member("rtol", s.tolerances),
                  member("spread", s.spread), member("cover", s.cover),
                  member("seeds", s.curves.seeds), member("crc32", crc32), member("rows", s.rows),
                  member("curves", s.curves.rows));
  if (const JsonNode* also = GoldenReader::find(node, "also")) reader.take(*also, s.also);
  check_rows(reader, node, "rows", s.rows);
  check_rows(reader, node, "curves", s.curves.rows);
  if (const std::string sum = section_checksum(golden, s); sum != crc32) {
    throw InputError(reader.name(), ": section ", golden.sections.size(),
                     " was edited or is damaged: its CRC-32 is ", sum, ", expected ",
                     in_quotes(crc32), "; bless changes numbers");
  }
}

// Throws InputError if two sections are for the same platform, or record other steps.
void check_sections(const Golden& golden, const std::string& name) {
  if (golden.sections.empty()) throw InputError(name, ": has no section");
  std::map<MetadataMap, size_t> seen;
  const auto steps_of = [](const GoldenSection& section) {
    std::vector<std::string> out;
    for (const Row& row : section.rows) out.push_back(row.at("step"));
    return out;
  };
  for (size_t i = 0; i < golden.sections.size(); ++i) {
    const GoldenSection& section = golden.sections[i];
    std::vector<MetadataMap> programs = section.also;
    programs.push_back(section.metadata.program);
    for (const MetadataMap& program : programs) {
      const auto [other, is_new] = seen.emplace(platform_of(program), i);
      if (is_new) continue;
      throw InputError(name, ": sections ", other->second + 1, " and ", i + 1,
                       " contradict each other: both are for ", platform_text(program),
                       "; remove one of them");
    }
    if (steps_of(section) != steps_of(golden.sections[0])) {
      throw InputError(name, ": sections 1 and ", i + 1,
                       " contradict each other: ", "they record different steps");
    }
  }
}

// Returns the format's version. Throws InputError if the file is not a recording, or if a newer
// version of the program wrote it.
int64_t version_of(const GoldenReader& reader) {
  const JsonNode* mark = reader.root().kind == EventKind::kMapStart
                             ? GoldenReader::find(reader.root(), "recording")
                             : nullptr;
  int64_t version = 0;
  const bool is_number = mark != nullptr && mark->kind == EventKind::kNumber &&
                         detail::parse_number(mark->text, version) == std::errc();
  if (!is_number || version < 1) {
    throw InputError(reader.name(),
                     ":1: is not a recording of `taper record` or of taper::testing");
  }
  if (version > kGoldenFormat) {
    reader.fail(mark->at, "has format ", version,
                " of a newer version of Taper; this program reads formats up to ", kGoldenFormat);
  }
  return version;
}

// Reads a file of version 1: one section, without checksum and curves.
void read_first_format(const GoldenReader& reader, Golden& out) {
  GoldenSection& s = out.sections.emplace_back();
  const JsonNode& root = reader.root();
  reader.read_map(root, {"recording", "program", "data"}, member("config", out.config),
                  member("steps", out.steps), member("state_every", out.state_every),
                  member("rtol", s.tolerances), member("rows", s.rows));
  if (const JsonNode* node = GoldenReader::find(root, "program"))
    reader.take(*node, s.metadata.program);
  if (const JsonNode* node = GoldenReader::find(root, "data")) reader.take(*node, s.metadata.data);
  check_rows(reader, root, "rows", s.rows);
}

void read_sections(const GoldenReader& reader, Golden& out) {
  reader.read_map(reader.root(), {"recording", "sections"}, member("config", out.config),
                  member("steps", out.steps), member("state_every", out.state_every),
                  member("history", out.history));
  const JsonNode* sections = GoldenReader::find(reader.root(), "sections");
  if (sections == nullptr) reader.fail(0, "'sections' is missing");
  if (sections->kind != EventKind::kListStart)
    reader.fail(sections->at, "sections: expected a list");
  for (const JsonNode& section : sections->children) read_section(reader, section, out);
  check_sections(out, reader.name());
}

}  // namespace

Golden load_golden(const std::filesystem::path& file) {
  const std::string text = read_file(file.string(), "recording", kMaxGoldenBytes);
  const GoldenReader reader(text, file.string());
  Golden out;
  if (version_of(reader) == 1) {
    read_first_format(reader, out);
  } else {
    read_sections(reader, out);
  }
  if (out.steps < 0 || out.state_every < 0)
    throw InputError(file.string(), ": 'steps' and 'state_every' must not be negative");
  return out;
}

}  // namespace taper::v0::golden
