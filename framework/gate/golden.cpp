#include "framework/gate/golden.h"

#include <algorithm>
#include <charconv>
#include <system_error>

#include <nlohmann/json.hpp>

#include "framework/gate/golden_text.h"
#include "framework/host/atomic_file.h"
#include "framework/io/text_utils.h"

namespace taper::v0::golden {
namespace {

using Json = nlohmann::ordered_json;

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
  if (!s.also.empty()) add("also", on_lines(s.also));
  add("data", dumped(s.metadata.data));
  add("rtol", dumped(s.tolerances));
  add("spread", dumped(s.spread));
  add("cover", dumped(s.cover));
  add("seeds", dumped(s.curves.seeds));
  add("crc32", dumped(section_checksum(golden, s)));
  add("rows", on_lines(s.rows));
  add("curves", on_lines(s.curves.rows));
  return out + "}";
}

// Returns zlib's CRC-32 of the text. The framework does not depend on zlib.
uint32_t crc32_of(const std::string& text) {
  uint32_t sum = ~0u;
  for (const char c : text) {
    sum ^= static_cast<unsigned char>(c);
    for (int bit = 0; bit < 8; ++bit) sum = (sum >> 1) ^ (sum & 1 ? 0xEDB88320u : 0);
  }
  return ~sum;
}

// Returns how many values of a recorded platform differ from those of this machine.
int64_t distance(const MetadataMap& platform, const MetadataMap& now) {
  return std::ranges::count_if(platform, [&](const auto& entry) {
    const auto found = now.find(entry.first);
    return found == now.end() || found->second != entry.second;
  });
}

// Returns the program and machine of each platform of the section.
std::vector<const MetadataMap*> programs_of(const GoldenSection& section) {
  std::vector<const MetadataMap*> out = {&section.metadata.program};
  for (const MetadataMap& program : section.also) out.push_back(&program);
  return out;
}

bool has_same_numbers(const GoldenSection& a, const GoldenSection& b) {
  return a.rows == b.rows && a.curves.seeds == b.curves.seeds && a.curves.rows == b.curves.rows &&
         a.metadata.data == b.metadata.data && a.tolerances == b.tolerances &&
         a.spread == b.spread && a.cover == b.cover;
}

// Returns the file that a link names, so that it is written instead of the link. Links that the
// system makes, such as /dev/stdout, are not followed.
std::string target_of(const std::filesystem::path& file) {
  namespace fs = std::filesystem;
  std::error_code none;
  const bool is_of_system =
      file.string().starts_with("/dev/") || file.string().starts_with("/proc/");
  if (is_of_system || !fs::is_symlink(file, none)) return file.string();
  const fs::path target = fs::weakly_canonical(file, none);
  return (none ? file : target).string();
}

// Throws ValueError if the section records other steps than the others, as after early stopping.
void require_same_steps(const Golden& golden, const GoldenSection& section) {
  if (golden.sections.empty()) return;
  const auto step_of = [](const Row& row) { return row.at("step"); };
  require<ValueError>(
      std::ranges::equal(golden.sections[0].rows, section.rows, {}, step_of, step_of),
      "the numbers are for other steps than those of another platform in the file; "
      "record them to another file");
}

}  // namespace

std::string section_checksum(const Golden& golden, const GoldenSection& s) {
  Json all = {golden.config,   golden.steps,   golden.state_every, s.metadata.program,
              s.metadata.data, s.tolerances,   s.spread,           s.cover,
              s.rows,          s.curves.seeds, s.curves.rows};
  if (!s.also.empty()) all.push_back(s.also);
  constexpr const char* kDigits = "0123456789abcdef";
  const uint32_t sum = crc32_of(dumped(all));
  std::string out;
  for (int shift = 28; shift >= 0; shift -= 4) out += kDigits[sum >> shift & 15];
  return out;
}

void save_golden(const Golden& golden, const std::filesystem::path& file) {
  const Json head = {{"recording", kGoldenFormat},
                     {"config", golden.config},
                     {"steps", golden.steps},
                     {"state_every", golden.state_every}};
  std::string text = head.dump(1, ' ', false, Json::error_handler_t::replace);
  text.replace(text.size() - 2, 2, ",\n \"sections\": [\n");
  for (const GoldenSection& section : golden.sections) {
    text += concat_to_string(&section == golden.sections.data() ? "" : ",\n",
                             section_text(golden, section));
  }
  write_atomically(target_of(file),
                   concat_to_string(text, "\n],\n \"history\": ", on_lines(golden.history), "}\n"));
}

double recorded_number(const std::string& metric, const std::string& given) {
  std::string text = given;
  if (const size_t at = text.find("0x"); at != std::string::npos) text.erase(at, 2);
  double value = 0;
  const char* end = text.data() + text.size();
  const auto read = std::from_chars(text.data(), end, value, std::chars_format::hex);
  if (!text.empty() && read.ec == std::errc() && read.ptr == end) return value;
  throw InputError(
      concat_to_string("damaged recording: ", metric, " is '", given, "', expected a hex float"));
}

ChosenSection choose_section(const Golden& golden, const RunMetadata& metadata) {
  MetadataMap now = platform_of(metadata.program);
  now.insert(metadata.program.begin(), metadata.program.end());  // "cpu", for old recordings
  const GoldenSection* best = &golden.sections.front();
  const MetadataMap* program = &best->metadata.program;
  int64_t least = INT64_MAX;
  for (const GoldenSection& section : golden.sections) {
    for (const MetadataMap* each : programs_of(section)) {
      const int64_t found = distance(platform_of(*each), now);
      if (found >= least) continue;
      best = &section, program = each, least = found;
    }
  }
  return {*best, *program, best - golden.sections.data() + 1, least == 0};
}

std::string section_line(const Golden& golden, const ChosenSection& chosen) {
  const std::string platform = platform_text(chosen.program);
  const size_t others = chosen.section.also.size();
  const std::string also =
      others == 0 ? ""
                  : concat_to_string(" (and ", others, others == 1 ? " other" : " others",
                                     " with the same numbers)");
  if (chosen.matches) {
    return concat_to_string("section ", chosen.number, " of ", golden.sections.size(), ": ",
                            platform, also, "\n");
  }
  return concat_to_string("no section is for this machine; the nearest of ", golden.sections.size(),
                          " is section ", chosen.number, ": ", platform, also, "\n");
}

AddedSection add_section(Golden& golden, const GoldenSection& section) {
  require_same_steps(golden, section);
  const auto same = std::ranges::find_if(golden.sections, [&](const GoldenSection& other) {
    return has_same_numbers(other, section);
  });
  if (same != golden.sections.end()) {
    same->also.push_back(section.metadata.program);
    return {same - golden.sections.begin() + 1, true};
  }
  golden.sections.push_back(section);
  return {std::ssize(golden.sections), false};
}

AddedSection replace_section(Golden& golden, const ChosenSection& chosen,
                             const GoldenSection& section) {
  const auto at = golden.sections.begin() + chosen.number - 1;
  if (at->also.empty()) {
    golden.sections.erase(at);
    const AddedSection added = add_section(golden, section);
    // A new section stays at the place of the old one, so that a diff shows only changed numbers.
    if (added.existed) return added;
    std::rotate(at, golden.sections.end() - 1, golden.sections.end());
    return {chosen.number, false};
  }
  if (&chosen.program == &at->metadata.program) {
    at->metadata.program = at->also.front();
    at->also.erase(at->also.begin());
  } else {
    std::erase_if(at->also,
                  [&](const MetadataMap& program) { return &program == &chosen.program; });
  }
  return add_section(golden, section);
}

}  // namespace taper::v0::golden
