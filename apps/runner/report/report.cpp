#include "apps/runner/report/report.h"

#include <algorithm>
#include <string_view>

#include "apps/runner/base/files.h"
#include "apps/runner/report/run_data.h"
#include "framework/base/log.h"

namespace taper::v0::runner {
namespace {

bool may_be_run(const fs::path& dir) {
  return fs::exists(dir / "metrics.jsonl") || fs::exists(dir / "config.yaml");
}

void add_runs_below(const fs::path& folder, std::vector<fs::path>& out) {
  std::vector<fs::path> folders;
  std::error_code ignored;  // a folder that may not be read has no runs for this user
  for (const auto& entry : fs::directory_iterator(folder, ignored)) {
    if (entry.is_directory(ignored) && !entry.is_symlink(ignored)) folders.push_back(entry.path());
  }
  std::ranges::sort(folders);
  for (const fs::path& each : folders) {
    may_be_run(each) ? out.push_back(each) : add_runs_below(each, out);
  }
}

// Returns the data of a run. One that was found in a folder may be another program's, or damaged:
// the page then shows why it cannot be read, beside the other runs.
std::string data_of(const fs::path& dir, size_t points, bool is_named) try {
  return run_data(dir, points);
} catch (const InputError& error) {
  if (is_named) throw;
  warn(concat_to_string("the report cannot show a run: ", error.what()));
  return unreadable_run_data(dir, error.what());
}

// Returns JSON in which no character can end the <script> that contains it.
std::string inside_script(const std::string& json) {
  std::string out;
  for (const char c : json) {
    if (c == '<') out += "\\u003c";
    if (c != '<') out += c;
  }
  return out;
}

}  // namespace

std::vector<fs::path> runs_among(const std::vector<fs::path>& paths) {
  std::vector<fs::path> out;
  for (const fs::path& path : paths) {
    const size_t before = out.size();
    if (!may_be_run(path)) add_runs_below(path, out);
    if (out.size() == before) out.push_back(path);
  }
  return out;
}

size_t points_of_curves(size_t runs) {
  constexpr size_t kAll = 12'000, kLeast = 100, kMost = 800;
  return std::clamp(kAll / std::max<size_t>(1, runs), kLeast, kMost);
}

std::string report_data(const std::vector<std::string>& runs, bool is_live) {
  std::string out = concat_to_string("{\"is_live\":", is_live ? "true" : "false", ",\"runs\":[");
  for (size_t i = 0; i < runs.size(); ++i) out += (i > 0 ? "," : "") + runs[i];
  return out + "]}";
}

std::string report_page(const std::string& data) {
  constexpr std::string_view kPlace = "{{data}}";
  std::string page = kReportPage;
  return page.replace(page.find(kPlace), kPlace.size(), inside_script(data));
}

void write_report(const std::vector<fs::path>& paths, const fs::path& to) {
  const std::vector<fs::path> dirs = runs_among(paths);
  std::vector<std::string> runs;
  for (const fs::path& dir : dirs) {
    const bool is_named = std::ranges::count(paths, dir) > 0;
    runs.push_back(data_of(dir, points_of_curves(dirs.size()), is_named));
  }
  write_file(to, report_page(report_data(runs, false)));
}

}  // namespace taper::v0::runner
