// What the README shows is what the programs do. The path of the first program comes from the
// definition TAPER_FIRST_STEPS.
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <unistd.h>

#include "framework/cuda.h"
#include "framework/error.h"

namespace taper {
namespace {

std::string content_of(const std::string& name) {
  const std::ifstream in(std::string(TAPER_SOURCE_DIR) + "/" + name, std::ios::binary);
  std::ostringstream out;
  if (in) out << in.rdbuf();
  return out.str();
}

// The code block that follows `after` in the README; "no block" where there is none.
std::string block_after(const std::string& after) {
  const std::string readme = content_of("README.md");
  const size_t from = readme.find(after);
  if (from == std::string::npos) return "no block";
  const size_t fence = readme.find("\n```", from);
  const size_t start = readme.find('\n', fence + 1);
  const size_t end = readme.find("\n```", start);
  if (fence == std::string::npos || end == std::string::npos) return "no block";
  return readme.substr(start + 1, end - start);
}

std::string program() {
  const char* given = std::getenv("TAPER_PROGRAM");
  return std::filesystem::absolute(given ? given : TAPER_PROGRAM).string();
}

std::string printed_by(const std::string& command) {
  std::string out;
  FILE* pipe = popen(command.c_str(), "r");
  if (!pipe) return "could not be started";
  char part[4096];
  for (size_t n; (n = fread(part, 1, sizeof part, pipe)) > 0;) out.append(part, n);
  const int status = pclose(pipe);
  return status == 0 ? out : cat(out, "exit status ", status, "\n");
}

TEST(Readme, ShowsTheFirstProgram) {
  EXPECT_EQ(block_after("## A first program"), content_of("apps/examples/first_steps.cpp"));
}

TEST(Readme, ShowsWhatTheFirstProgramPrints) {
  const std::string got = printed_by("'" TAPER_FIRST_STEPS "'");
  if (cuda::is_available()) {
    EXPECT_EQ(got, block_after("With a GPU it prints"));
    return;
  }
  // The README has the reason of a build without CUDA; other machines have other reasons.
  std::string want = block_after("A build without CUDA prints");
  const std::string reason =
      "Taper was built without CUDA (TAPER_CUDA=OFF or no nvcc found); to use a GPU, install the "
      "CUDA Toolkit and build again with TAPER_CUDA=ON";
  const size_t at = want.find(reason);
  ASSERT_NE(at, std::string::npos) << want;
  want.replace(at, reason.size(), cuda::unavailable_reason());
  EXPECT_EQ(got, want);
}

// What a line begins with: "epoch" of "epoch=1 step=...", "test loss" of "test loss: 0.03". Lines
// that begin alike count once. LLVM's libomp says a word about options of the thread sanitizer.
std::vector<std::string> heads_of(const std::string& text) {
  std::vector<std::string> heads;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    const std::string head = line.substr(0, line.find_first_of(":="));
    if (line.find("TSAN_OPTIONS") != std::string::npos) continue;
    if (line[0] != '$' && line != "..." && (heads.empty() || heads.back() != head)) {
      heads.push_back(head);
    }
  }
  return heads;
}

TEST(Readme, ShowsTheLinesThatATrainingPrints) {
  const std::string out = printed_by(
      cat("cd '", TAPER_SOURCE_DIR, "' && dir=$(mktemp -d) && '", program(),
          "' train configs/digits.yaml device=auto data.train_size=200 data.test_size=100 ",
          "train.epochs=2 --out \"$dir/r\" 2>&1; rm -r \"$dir\""));
  EXPECT_EQ(heads_of(out), heads_of(block_after("The program is then")));
}

// Every command of the block, in its order, where the configs are.
TEST(Readme, ItsCommandsRun) {
  namespace fs = std::filesystem;
  const fs::path dir = fs::temp_directory_path() / cat("taper-readme-", getpid());
  fs::create_directories(dir);
  fs::create_directory_symlink(fs::path(TAPER_SOURCE_DIR) / "configs", dir / "configs");
  std::istringstream lines(block_after("What else the program does"));
  int commands = 0;
  for (std::string line; std::getline(lines, line); ++commands) {
    ASSERT_TRUE(line.starts_with("taper ")) << line;
    const std::string shell =
        cat("cd '", dir.string(), "' && '", program(), "'", line.substr(5), " > out.txt 2>&1");
    const int status = std::system(shell.c_str());
    std::ostringstream out;
    out << std::ifstream(dir / "out.txt").rdbuf();
    EXPECT_EQ(status, 0) << line << "\n" << out.str();
  }
  EXPECT_GE(commands, 11);
  EXPECT_TRUE(fs::exists(dir / "report.html"));
  fs::remove_all(dir);
}

}  // namespace
}  // namespace taper
