#include "testing/golden_update.h"

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <set>
#include <utility>

#include "framework/gate/blessing.h"
#include "framework/gate/comparison.h"
#include "framework/host/file_lock.h"
#include "framework/io/text_utils.h"

namespace taper::v0::test {
namespace {

using golden::Verdict;

std::string name_of_line(const std::string& line) { return line.substr(0, line.find(':')); }

// Returns the values of "name: value" by name.
golden::MetadataMap values_of_lines(const std::string& config) {
  golden::MetadataMap out;
  for (const std::string& line : detail::lines_of(config)) {
    const std::string name = name_of_line(line);
    out[name] = line.size() > name.size() + 2 ? line.substr(name.size() + 2) : "";
  }
  return out;
}

std::string text_of(const std::filesystem::path& file) {
  if (!std::filesystem::is_regular_file(file)) return "";
  std::ifstream in(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

std::string value_in(const golden::MetadataMap& values, const std::string& name) {
  const auto found = values.find(name);
  return found == values.end() ? "(none)" : found->second;
}

}  // namespace

GoldenRequest golden_request() {
  const char* update = std::getenv("TAPER_UPDATE_GOLDEN");
  const char* bless = std::getenv("TAPER_BLESS");
  GoldenRequest out{update != nullptr && std::string(update) == "1"};
  if (bless == nullptr) return out;
  out.reason = bless;
  const std::set<std::string> no_reasons = {"0", "1", "true", "false", "yes", "no", "on", "off"};
  require<ValueError>(golden::is_reason(out.reason) && !no_reasons.contains(out.reason),
                      "TAPER_BLESS is ", detail::in_quotes(out.reason),
                      ", which is no reason: set it to why the new numbers are right, as in ",
                      "TAPER_BLESS=\"the rate is lower\"");
  return out;
}

golden::RunMetadata test_metadata(Device device, const std::string& compiler) {
  golden::RunMetadata out;
  for (const auto& [key, value] : golden::program_values(device)) {
    out.program[key == "commit" ? "taper commit" : key] = value;
  }
  if (!compiler.empty()) out.program["test compiler"] = compiler;
  return out;
}

TestGolden::TestGolden(std::filesystem::path file, std::string kind)
    : file_(std::move(file)),
      kind_(std::move(kind)),
      request_(golden_request()),
      text_(text_of(file_)),
      exists_(std::filesystem::exists(file_)) {
  require<InputError>(exists_ || request_.adds, "there is no ", file_.string(),
                      ": run with TAPER_UPDATE_GOLDEN=1 to write it, and look at it");
  if (!exists_) return;
  golden_ = golden::load_golden(file_);
  require<InputError>(is_test_golden(golden_), file_.string(),
                      " is a recording of `taper record`; `taper check` compares a run with it");
  const std::string recorded =
      golden_.config.substr(0, golden_.config.find('\n')).substr(golden::kTestGoldenMark.size());
  require<InputError>(recorded == kind_, file_.string(), " is a golden of ", recorded,
                      ", and the test compares ", kind_, "; use another file");
}

std::string TestGolden::config_text() const {
  return concat_to_string(golden::kTestGoldenMark, kind_, "\n", observed_.config);
}

golden::ChosenSection TestGolden::chosen() const {
  return choose_section(golden_, observed_.section.metadata);
}

std::string TestGolden::head() const {
  return concat_to_string(file_.string(), ", ", section_line(golden_, chosen()));
}

golden::GoldenSection TestGolden::recorded() const {
  golden::GoldenSection out = observed_.record();
  // The commit of the user's project, if the golden is in one.
  const std::string commit = golden::git_commit(file_.parent_path());
  if (!commit.empty()) out.metadata.program["commit"] = commit;
  return out;
}

std::optional<Verdict> TestGolden::updated(Observed observed) {
  observed_ = std::move(observed);
  if (!exists_) {
    golden_.config = config_text();
    return add("recorded");
  }
  const golden::ChosenSection section = chosen();
  if (!section.matches && request_.adds) {
    if (const std::string found = config_differences(); !found.empty()) {
      return Verdict{false, concat_to_string(file_.string(), " records something else (now | ",
                                             "recorded):\n", found, "use another file\n")};
    }
    return add("added a section");
  }
  if (!request_.reason.empty()) return bless();
  if (!request_.adds) return {};
  if (section.section.rows == observed_.section.rows && config_differences().empty())
    return Verdict{true, "the numbers are as recorded; nothing was written\n"};
  return Verdict{false, concat_to_string(head(), "it has other numbers. TAPER_UPDATE_GOLDEN=1 ",
                                         "replaces none; TAPER_BLESS=\"reason\" does\n")};
}

Verdict TestGolden::add(const std::string& how) {
  add_section(golden_, recorded());
  return save(how);
}

Verdict TestGolden::save(const std::string& how) const {
  const FileLockGuard lock(file_);
  if (text_of(file_) != text_) {
    return {false,
            concat_to_string(file_.string(), " was changed by another process meanwhile, so ",
                             "nothing was written; run the test again\n")};
  }
  save_golden(golden_, file_);
  return {true, concat_to_string(how, ": ", file_.string(), "\n")};
}

Verdict TestGolden::bless() {
  const golden::ChosenSection now = chosen();
  const std::string config = config_differences();
  if (!now.matches) {
    return {false, concat_to_string(head(), "TAPER_UPDATE_GOLDEN=1 adds a section\n")};
  }
  if (now.section.rows == observed_.section.rows && config.empty() &&
      std::ssize(now.section.curves.seeds) == observed_.seeds)
    return {true, "the numbers are as recorded; nothing was written\n"};
  if (!config.empty() && (golden_.sections.size() > 1 || !now.section.also.empty())) {
    return {false, concat_to_string(head(), "the file has other sections with another config ",
                                    "(now | recorded):\n", config,
                                    "remove the file and record it again on each machine\n")};
  }
  const std::string author = golden::git_author();
  if (author.empty()) {
    return {false,
            "TAPER_BLESS needs an author: set one with `git config user.name NAME`, or in "
            "GIT_AUTHOR_NAME\n"};
  }
  const golden::GoldenSection section = recorded();
  golden_.history.push_back(history_entry(now.section, section, author, request_.reason));
  replace_section(golden_, now, section);
  golden_.config = config_text();
  return save("blessed");
}

std::string TestGolden::config_differences() const {
  const std::string mine = config_text();
  if (mine == golden_.config) return "";
  const golden::MetadataMap now = values_of_lines(mine), then = values_of_lines(golden_.config);
  std::set<std::string> names;
  for (const auto& [name, value] : now) names.insert(name);
  for (const auto& [name, value] : then) names.insert(name);
  std::string out;
  for (const std::string& name : names) {
    const std::string a = value_in(now, name), b = value_in(then, name);
    if (a != b) out += concat_to_string("  ", name, ": ", a, " | ", b, "\n");
  }
  return out;
}

std::string TestGolden::cause() const {
  const golden::ChosenSection section = chosen();
  const std::string config = config_differences();
  golden::MetadataMap now = observed_.section.metadata.program;
  const std::string commit = golden::git_commit(file_.parent_path());
  if (!commit.empty()) now["commit"] = commit;
  const std::string what =
      config.empty() ? golden::program_cause(now, section.program) : "the config differs";
  return concat_to_string(
      "cause: ", what,
      golden::movement_text(golden::movement_of(observed_.section.rows, section.section.rows)),
      "\n", config.empty() ? "" : concat_to_string("config (now | recorded):\n", config));
}

}  // namespace taper::v0::test
