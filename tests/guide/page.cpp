// Definitions: TAPER_SOURCE_DIR, TAPER_BINARY_DIR, TAPER_PROGRAM, TAPER_CXX (the compiler).
#include "tests/guide/page.h"

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <regex>
#include <vector>

#include <sys/wait.h>
#include <taper/autograd/ops/linalg/linalg_ops.h>
#include <taper/framework/base/error.h>
#include <taper/framework/cuda/cuda.h>
#include <taper/framework/factory/factories.h>
#include <taper/framework/factory/generator.h>
#include <unistd.h>

namespace taper::v0::guide {
namespace {

namespace fs = std::filesystem;

struct Ended {
  int code;
  std::string out;
};
Ended run_shell(const std::string& commands) {
  std::string out;
  FILE* pipe = popen(commands.c_str(), "r");
  if (!pipe) return {-1, "could not be started"};
  char part[4096];
  for (size_t n; (n = fread(part, 1, sizeof part, pipe)) > 0;) out.append(part, n);
  const int status = pclose(pipe);
  return {WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status), out};
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) {
    line.erase(line.find_last_not_of(' ') + 1);
    // LLVM's libomp prints a notice about options of the thread sanitizer.
    if (line.find("TSAN_OPTIONS") == std::string::npos) lines.push_back(line);
  }
  return lines;
}

// Returns `line` with each decimal number replaced by the one at the same position in `expected`,
// if they differ by at most a quarter or are amounts of time or memory.
std::string with_close_numbers(const std::string& line, const std::string& expected) {
  static const std::regex decimal("[0-9]+\\.[0-9]+( s| MiB|)");
  std::string out;
  std::sregex_iterator want(expected.begin(), expected.end(), decimal);
  size_t from = 0;
  for (std::sregex_iterator got(line.begin(), line.end(), decimal), end; got != end && want != end;
       ++got, ++want) {
    const double a = std::stod(got->str()), b = std::stod(want->str());
    const bool is_amount = want->length(1) > 0 && got->str(1) == want->str(1);
    out += line.substr(from, size_t(got->position()) - from);
    out += is_amount || std::abs(a - b) <= 0.25 * b ? want->str() : got->str();
    from = size_t(got->position() + got->length());
  }
  return out + line.substr(from);
}

// Returns the line with every gap of two or more blanks as two. The width of a table's column
// depends on the amounts of time and memory in it.
std::string with_equal_gaps(const std::string& line) {
  static const std::regex gap("  +");
  return std::regex_replace(line, gap, "  ");
}

bool line_matches(std::string_view line, std::string_view expected) {
  const size_t gap = expected.find("...");
  if (gap == std::string_view::npos) return line == expected;
  if (!line.starts_with(expected.substr(0, gap))) return false;
  for (size_t from = gap; from <= line.size(); ++from) {
    if (line_matches(line.substr(from), expected.substr(gap + 3))) return true;
  }
  return false;
}

bool lines_match(const std::vector<std::string>& lines, size_t i,
                 const std::vector<std::string>& expected, size_t j, Numbers numbers) {
  if (j == expected.size()) return i == lines.size();
  if (expected[j] == "...") {
    for (size_t from = i; from <= lines.size(); ++from) {
      if (lines_match(lines, from, expected, j + 1, numbers)) return true;
    }
    return false;
  }
  if (i == lines.size()) return false;
  const bool matches_here =
      numbers == Numbers::kExact
          ? line_matches(lines[i], expected[j])
          : line_matches(with_equal_gaps(with_close_numbers(lines[i], expected[j])),
                         with_equal_gaps(expected[j]));
  return matches_here && lines_match(lines, i + 1, expected, j + 1, numbers);
}

// Returns the folder where Taper is installed from this build, once for all pages.
const fs::path& package() {
  // Never destroyed, because the handler of atexit() uses it.
  static const fs::path& prefix = *new fs::path([] {
    const fs::path at = fs::temp_directory_path() / concat_to_string("taper_package_", getpid());
    const Ended install = run_shell(concat_to_string(
        "cmake --install '", TAPER_BINARY_DIR, "' --prefix '", at.string(), "' 2>&1 >/dev/null"));
    if (install.code != 0) throw Error(concat_to_string("cmake --install: ", install.out));
    std::atexit([] { fs::remove_all(package()); });
    return at;
  }());
  return prefix;
}

}  // namespace

bool matches(const std::string& printed, const std::string& expected, Numbers numbers) {
  return lines_match(lines_of(printed), 0, lines_of(expected), 0, numbers);
}

Page::Page(const char* path) : path_(path), before_(fs::current_path()) {
  static int count = 0;
  folder_ = fs::temp_directory_path() / concat_to_string("taper_guide_", getpid(), "_", count++);
  fs::create_directories(folder_);
  if (path_ == "README.md") {  // its commands refer to files of its own folder
    fs::create_directory_symlink(fs::path(TAPER_SOURCE_DIR) / "configs", folder_ / "configs");
  }
  fs::current_path(folder_);
  // The pages show the output of a machine without GPUs, and `ls` sorted by bytes.
  ::setenv("CUDA_VISIBLE_DEVICES", "", 1);
  ::setenv("LC_ALL", "C", 1);
  const fs::path program = fs::path(TAPER_PROGRAM).parent_path();
  const std::string path_before = std::getenv("PATH");
  if (!path_before.starts_with(program.string())) {
    ::setenv("PATH", concat_to_string(program.string(), ":", path_before).c_str(), 1);
  }
}

Page::~Page() {
  if (cout_) std::cout.rdbuf(cout_);
  fs::current_path(before_);
  fs::remove_all(folder_);
}

bool Page::run(void (*section)(Page&)) {
  manual_seed(0);
  try {
    section(*this);
  } catch (const std::exception& error) {
    const std::string what = error.what();
    if (what.find("Taper was built without") == std::string::npos) {
      fail(what);
    } else {  // an optional library
      over_ = true;
      if (cout_) std::cout.rdbuf(std::exchange(cout_, nullptr));
      [&] { GTEST_SKIP() << what; }();
    }
  }
  return !failed_ && !over_;
}

void Page::fail(const std::string& what) {
  failed_ = true;
  if (cout_) std::cout.rdbuf(std::exchange(cout_, nullptr));
  ADD_FAILURE_AT(concat_to_string(TAPER_SOURCE_DIR "/", path_).c_str(), line_) << what;
}

void Page::begin(int line) {
  line_ = line;
  out_.str("");
  cout_ = std::cout.rdbuf(out_.rdbuf());
}
void Page::end() {
  std::cout.rdbuf(std::exchange(cout_, nullptr));
  printed_ = out_.str();
}

void Page::file(const std::string& name, const std::string& text) {
  const fs::path to = folder_ / name;
  fs::create_directories(to.parent_path());
  std::ofstream(to, std::ios::binary) << text;
}

void Page::shell(int line, const std::string& commands, int status) {
  line_ = line;
  file(".commands.sh", commands);
  const Ended end = run_shell("sh -e .commands.sh 2>&1 </dev/null");
  fs::remove(folder_ / ".commands.sh");
  printed_ = end.out;
  if (end.code != status) {
    throw Error(
        concat_to_string("exit status ", end.code, ", not ", status, ":\n", commands, printed_));
  }
}

void Page::config(int line, const std::string& yaml) {
  file("fragment.yaml",
       concat_to_string("include: ", TAPER_SOURCE_DIR, "/configs/digits.yaml\n", yaml));
  shell(line, "taper train fragment.yaml --validate", 0);
}

void Page::printed(int line, const std::string& expected, Numbers numbers) {
  line_ = line;
  if (!matches(printed_, expected, numbers)) {
    fail(concat_to_string("the page shows\n", expected, "but printed is\n", printed_));
  }
}

// Returns whether linear algebra works on the CPU.
static bool has_lapack() {
  try {
    return linalg::det(eye(1)).item<float>() == 1;
  } catch (const Error&) {
    return false;
  }
}

bool Page::has(int line, const std::string& what) {
  line_ = line;
  bool is_here = false;
#ifndef TAPER_SANITIZED
  if (what == "package") {
    // Taper's package comes first, then the packages that the build found.
    static const char* const given = std::getenv("CMAKE_PREFIX_PATH");
    static const std::string others = given ? concat_to_string(":", given) : "";
    ::setenv("CMAKE_PREFIX_PATH", (package().string() + others).c_str(), 1);
    ::setenv("CXX", TAPER_CXX, 1);
    is_here = true;
  }
#endif
  over_ = what == "package" && !is_here;
#ifdef TAPER_WITH_IMAGES
  if (what == "images") is_here = true;
#endif
  if (what == "lapack") is_here = has_lapack();
  // Page() hides the GPUs, so the block is compiled but does not run, unless a GPU is visible
  if (what == "gpu") {
    is_here = cuda::is_available();
  } else if (what != "package" && what != "images" && what != "lapack") {
    is_here = run_shell(concat_to_string("command -v ", what)).code == 0;
  }
  if (!is_here) std::cout << path_ << ":" << line << " is skipped: " << what << " is missing\n";
  return is_here;
}

}  // namespace taper::v0::guide
