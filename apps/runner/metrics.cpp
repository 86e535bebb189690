#include "apps/runner/metrics.h"

#include <cstdio>

#include <spdlog/fmt/fmt.h>
#include <unistd.h>

#include "apps/runner/errors.h"

namespace taper::runner {

namespace fs = std::filesystem;

void make_run_directory(const fs::path& dir) {
  std::error_code error;
  const auto require = [&](bool is_done, const char* what, const std::string& why) {
    if (!is_done) throw InputError(cat("cannot ", what, " '", dir.string(), "'", why));
  };
  const bool exists = fs::exists(dir, error);
  require(!exists || fs::is_directory(dir, error), "write the run to", ": it is a file");
  if (exists && !fs::is_empty(dir, error)) {
    const fs::path name = dir.filename().empty() ? dir.parent_path() : dir;  // of "runs/m/"
    int i = 1;
    while (fs::exists(cat(name.string(), ".", i), error)) ++i;
    fs::rename(name, cat(name.string(), ".", i), error);
    require(!error, "move aside the earlier run in", cat(": ", error.message()));
  }
  fs::create_directories(dir, error);
  require(!error, "make the run's directory", cat(": ", error.message()));
}

void JsonLines::open(const fs::path& file) {
  path_ = file;
  out_.open(file);
  if (!out_) throw InputError(cat("cannot write '", file.string(), "'"));
}

void JsonLines::write(const std::string& fields) {
  out_ << '{' << fields << "}\n" << std::flush;
  if (!out_) throw InputError(cat("cannot write '", path_.string(), "': is the disk full?"));
}

Progress::Progress() : terminal_(isatty(STDERR_FILENO) != 0) {}

void Progress::show(const std::string& label, int64_t done, int64_t total,
                    const std::string& note) {
  if (!terminal_) return;
  const auto now = std::chrono::steady_clock::now();
  if (done < total && now - last_ < std::chrono::milliseconds(50)) return;
  last_ = now;
  const std::string bar(size_t(total > 0 ? done * 24 / total : 0), '#');
  fmt::print(stderr, "\r\033[K{} [{:.<24}] {}/{}  {}", label, bar, done, total, note);
  std::fflush(stderr);
  shown_ = true;
}

void Progress::clear() {
  if (!shown_) return;
  std::fputs("\r\033[K", stderr);
  std::fflush(stderr);
  shown_ = false;
}

}  // namespace taper::runner
