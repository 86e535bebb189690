#include "apps/runner/gate/golden.h"

#include <algorithm>
#include <set>

#include <nlohmann/json.hpp>
#include <zlib.h>

#include "apps/runner/base/files.h"
#include "apps/runner/config/json_reader.h"

namespace taper::v0::runner {
namespace {

using Json = nlohmann::ordered_json;
constexpr int64_t kFormat = 2;
// The keys of RunMetadata::program on which bits depend, in the order of messages.
constexpr const char* kPlatformKeys[] = {"device", "gpu",  "cpu",    "isa",   "compiler",
                                         "onednn", "cuda", "cublas", "cudnn", "taper"};

// Returns the checksum of everything in which a section must not change.
std::string checksum_of(const Golden& golden, const GoldenSection& s) {
  const Json all = {golden.config,   golden.steps,   golden.state_every, s.metadata.program,
                    s.metadata.data, s.tolerances,   s.spread,           s.cover,
                    s.rows,          s.curves.seeds, s.curves.rows};
  const std::string text = all.dump(-1, ' ', false, Json::error_handler_t::replace);
  return hex_crc32(uint32_t(crc32_z(0, reinterpret_cast<const Bytef*>(text.data()), text.size())));
}

std::string dumped(const Json& json) {
  // Invalid UTF-8, which a path may have, is written as replacement characters.
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

// Returns the elements as a JSON array with one of them on each line.
template <class T> std::string on_lines(const std::vector<T>& elements) {
  std::string out = "[";
  for (const T& each : elements) {
    out += concat_to_string(&each == elements.data() ? "\n" : ",\n", dumped(Json(each)));
  }
  return out + "\n]";
}

std::string section_text(const Golden& golden, const GoldenSection& s) {
  std::string out = "{";
  const auto add = [&](const char* key, const std::string& value) {
    out += concat_to_string(out.size() > 1 ? ",\n " : "", "\"", key, "\": ", value);
  };
  add("program", dumped(s.metadata.program));
  add("data", dumped(s.metadata.data));
  add("rtol", dumped(s.tolerances));
  add("spread", dumped(s.spread));
  add("cover", dumped(s.cover));
  add("seeds", dumped(s.curves.seeds));
  add("crc32", dumped(checksum_of(golden, s)));
  add("rows", on_lines(s.rows));
  add("curves", on_lines(s.curves.rows));
  return out + "}";
}

// A section as it is read, with its checksum.
struct ReadSection : GoldenSection {
  std::string crc32{};
};

Schema section_schema(ReadSection& s) {
  Schema schema;
  schema.field("program", value_in(s.metadata.program), "program and machine").required();
  schema.field("data", value_in(s.metadata.data), "data files").required();
  schema.field("rtol", value_in(s.tolerances), "tolerances").required();
  schema.field("spread", value_in(s.spread), "measured spread").required();
  schema.field("cover", value_in(s.cover), "what the spread covers").required();
  schema.field("seeds", value_in(s.curves.seeds), "seeds of the curves").required();
  schema("crc32", s.crc32, "checksum of the section").required();
  schema.field("rows", value_in(s.rows), "metrics of each step").required();
  schema.field("curves", value_in(s.curves.rows), "metrics of each seed").required();
  const auto have_steps = [](const std::vector<Recording::Row>& rows) {
    return std::ranges::all_of(rows, [](const auto& row) { return row.contains("step"); });
  };
  schema("rows", "each needs a step", [&s, have_steps] { return have_steps(s.rows); });
  schema("curves", "each needs a step", [&s, have_steps] { return have_steps(s.curves.rows); });
  return schema;
}

void take_section(const Node& node, ReadSection& out, Problems& problems) {
  std::ranges::move(read(section_schema(out), node).problems, std::back_inserter(problems));
}

Custom sections_in(std::vector<ReadSection>& out) {
  return {[&out](const Node& node) {
    Problems problems;
    if (!expect(node.kind == Node::Kind::kSequence, node, "a list", problems)) return problems;
    for (const Node& child : node.children) take_section(child, out.emplace_back(), problems);
    return problems;
  }};
}

// Throws InputError if a value is not a hex float.
void check_numbers(const std::vector<Recording::Row>& rows) {
  for (const Recording::Row& row : rows) {
    for (const auto& [metric, text] : row) {
      if (metric == "step" || metric == "state") continue;
      for (const std::string& word : lines_of(text, ' ')) {
        if (word != "-") (void)recorded_number(metric, word);
      }
    }
  }
}

// Throws InputError if two sections are for the same platform, or record other steps.
void check_sections(const Golden& golden, const std::string& name) {
  if (golden.sections.empty()) throw InputError(concat_to_string(name, ": has no section"));
  std::map<std::string, size_t> seen;
  const auto steps_of = [](const GoldenSection& section) {
    std::vector<std::string> out;
    for (const Recording::Row& row : section.rows) out.push_back(row.at("step"));
    return out;
  };
  for (size_t i = 0; i < golden.sections.size(); ++i) {
    const GoldenSection& section = golden.sections[i];
    const auto [other, is_new] = seen.emplace(dumped(platform_of(section.metadata)), i);
    if (!is_new) {
      throw InputError(concat_to_string(name, ": sections ", other->second + 1, " and ", i + 1,
                                        " contradict each other: both are for ",
                                        platform_text(section.metadata), "; remove one of them"));
    }
    if (steps_of(section) != steps_of(golden.sections[0])) {
      throw InputError(concat_to_string(name, ": sections 1 and ", i + 1,
                                        " contradict each other: "
                                        "they record different steps"));
    }
  }
}

// Returns the format's version. Throws InputError if the text is not a recording, or if a newer
// version of the program wrote it.
int64_t version_of(const std::string& text, const std::string& name) {
  const Document parsed = parse_json(text, {name});
  if (!parsed.problems.empty()) throw InputError(report(parsed.problems));
  const Node* mark = parsed.root ? parsed.root->find("recording") : nullptr;
  int64_t version = 0;
  Problems problems;
  if (mark) take(*mark, version, problems);
  if (!mark || !problems.empty() || version < 1) {
    throw InputError(concat_to_string(name, ":1: is not a recording of `taper record`"));
  }
  if (version > kFormat) {
    throw InputError(concat_to_string(name, ":", mark->place.line, ": has format ", version,
                                      " of a newer version of Taper; this program reads formats up "
                                      "to ",
                                      kFormat));
  }
  return version;
}

// The fields that a file of any version has.
Schema head_schema(Golden& out, int64_t& version) {
  Schema schema;
  schema("recording", version, {1, double(kFormat)}, "version of the format").required();
  schema("config", out.config, "config of the run").required();
  schema("steps", out.steps, kNonNegative, "recorded steps; 0: all").required();
  schema("state_every", out.state_every, kNonNegative, "steps between hashes").required();
  return schema;
}

// Reads a file of version 1: one section, without checksum and curves.
Golden read_first_format(const std::string& text, const std::string& name) {
  Golden out;
  GoldenSection& section = out.sections.emplace_back();
  int64_t version = 0;
  Schema schema = head_schema(out, version);
  schema.field("rtol", value_in(section.tolerances), "tolerances").required();
  schema.field("program", value_in(section.metadata.program), "program and machine");
  schema.field("data", value_in(section.metadata.data), "data files");
  schema.field("rows", value_in(section.rows), "metrics of each step").required();
  const auto has_step = [](const Recording::Row& row) { return row.contains("step"); };
  schema("rows", "each needs a step", [&] { return std::ranges::all_of(section.rows, has_step); });
  read_json(text, name, schema);
  return out;
}

Golden read_sections(const std::string& text, const std::string& name) {
  Golden out;
  int64_t version = 0;
  std::vector<ReadSection> sections;
  Schema schema = head_schema(out, version);
  schema.field("sections", sections_in(sections), "numbers of each platform").required();
  schema.field("history", value_in(out.history), "replaced sections").required();
  read_json(text, name, schema);
  for (const ReadSection& section : sections) {
    check_numbers(section.rows);
    check_numbers(section.curves.rows);
    if (const std::string sum = checksum_of(out, section); sum != section.crc32) {
      throw InputError(concat_to_string(name, ": section ", &section - sections.data() + 1,
                                        " was edited or is damaged: its CRC-32 "
                                        "is ",
                                        sum, ", expected ", in_quotes(section.crc32),
                                        "; `taper bless` changes numbers"));
    }
    out.sections.push_back(section);
  }
  check_sections(out, name);
  return out;
}

}  // namespace

Recording Golden::recording(const GoldenSection& section) const {
  Recording out;
  out.steps = steps;
  out.state_every = state_every;
  out.tolerances = section.tolerances;
  out.config = config;
  out.metadata = section.metadata;
  out.rows = section.rows;
  return out;
}

void save_golden(const Golden& golden, const fs::path& file) {
  const Json head = {{"recording", kFormat},
                     {"config", golden.config},
                     {"steps", golden.steps},
                     {"state_every", golden.state_every}};
  std::string text = head.dump(1, ' ', false, Json::error_handler_t::replace);
  text.replace(text.size() - 2, 2, ",\n \"sections\": [\n");
  for (const GoldenSection& section : golden.sections) {
    text += concat_to_string(&section == golden.sections.data() ? "" : ",\n",
                             section_text(golden, section));
  }
  write_file(file, concat_to_string(text, "\n],\n \"history\": ", on_lines(golden.history), "}\n"));
}

Golden load_golden(const fs::path& file) {
  const std::string text = read_file(file, "recording", kMaxJsonBytes), name = file.string();
  return version_of(text, name) == 1 ? read_first_format(text, name) : read_sections(text, name);
}

// --- platforms ---

MetadataMap platform_of(const RunMetadata& metadata) {
  const MetadataMap& all = metadata.program;
  MetadataMap out;
  for (const char* key : kPlatformKeys) {
    if (const auto found = all.find(key); found != all.end()) out.insert(*found);
  }
  // GPUs of the same model give the same bits.
  if (out.contains("device")) out["device"] = lines_of(out["device"], ':').at(0);
  // Older versions recorded the processor's name, but not its instruction set.
  if (out.contains("isa")) out.erase("cpu");
  return out;
}

std::string platform_text(const RunMetadata& metadata) {
  const MetadataMap platform = platform_of(metadata);
  if (platform.empty()) return "an unknown platform";
  std::vector<std::string> words;
  for (const char* key : kPlatformKeys) {
    if (!platform.contains(key)) continue;
    const std::string prefix = key == std::string("device") ? "" : concat_to_string(key, " ");
    words.push_back(prefix + platform.at(key));
  }
  return joined(words);
}

ChosenSection choose_section(const Golden& golden, const RunMetadata& metadata) {
  MetadataMap now = platform_of(metadata);
  now.insert(metadata.program.begin(), metadata.program.end());  // "cpu", for old recordings
  const auto distance = [&](const GoldenSection& section) {
    int64_t out = 0;
    for (const auto& [key, value] : platform_of(section.metadata)) {
      const auto found = now.find(key);
      if (found == now.end() || found->second != value) ++out;
    }
    return out;
  };
  const auto best = std::ranges::min_element(golden.sections, {}, distance);
  return {*best, best - golden.sections.begin() + 1, distance(*best) == 0};
}

}  // namespace taper::v0::runner
