#include "apps/runner/metrics.h"

#include <cstdio>

#include <unistd.h>

#include "apps/runner/errors.h"

namespace taper::runner {

namespace fs = std::filesystem;

fs::path make_run_directory(const fs::path& dir) {
  std::error_code error;
  if (fs::exists(dir, error) && !fs::is_directory(dir, error)) {
    throw InputError(cat("cannot write the run to '", dir.string(), "': it is a file"));
  }
  if (fs::exists(dir, error) && !fs::is_empty(dir, error)) {
    fs::path name = dir;
    if (name.filename().empty()) name = name.parent_path();  // "runs/m/"
    fs::path aside;
    for (int i = 1; aside.empty() || fs::exists(aside, error); ++i) {
      aside = name;
      aside += cat(".", i);
    }
    fs::rename(name, aside, error);
    if (error) {
      throw InputError(
          cat("cannot move the earlier run in '", dir.string(), "' aside: ", error.message()));
    }
  }
  fs::create_directories(dir, error);
  if (error) {
    throw InputError(
        cat("cannot make the run's directory '", dir.string(), "': ", error.message()));
  }
  return dir;
}

void MetricsLog::open(const fs::path& file) {
  path_ = file;
  out_.open(file);
  if (!out_) throw InputError(cat("cannot write '", file.string(), "'"));
}

void MetricsLog::line(const std::string& text) {
  out_ << text << '\n' << std::flush;
  if (!out_) throw InputError(cat("cannot write '", path_.string(), "': is the disk full?"));
}

void MetricsLog::write(const TrainRecord& r) {
  line(cat(R"({"kind":"train","step":)", r.step, R"(,"epoch":)", r.epoch, R"(,"loss":)", r.loss,
           R"(,"lr":)", r.lr, "}"));
}

void MetricsLog::write(const EvalRecord& r) {
  line(cat(R"({"kind":"eval","step":)", r.step, R"(,"epoch":)", r.epoch, R"(,"split":")", r.split,
           R"(","loss":)", r.loss, r.accuracy < 0 ? "" : cat(R"(,"accuracy":)", r.accuracy), "}"));
}

Progress::Progress() : terminal_(isatty(STDERR_FILENO) != 0) {}

void Progress::show(const std::string& label, int64_t done, int64_t total,
                    const std::string& note) {
  if (!terminal_) return;
  const auto now = std::chrono::steady_clock::now();
  if (done < total && now - last_ < std::chrono::milliseconds(50)) return;
  last_ = now;
  constexpr int64_t kWidth = 24;
  const int64_t filled = total > 0 ? done * kWidth / total : 0;
  std::string bar(size_t(filled), '#');
  bar.resize(size_t(kWidth), '.');
  std::fprintf(stderr, "\r\033[K%s [%s] %lld/%lld  %s", label.c_str(), bar.c_str(),
               static_cast<long long>(done), static_cast<long long>(total), note.c_str());
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
