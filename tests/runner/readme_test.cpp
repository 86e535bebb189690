// The README's first program is the example, and prints what the README shows with a GPU and what
// docs/devices.md shows without one. (tests/guide runs the other blocks of the pages.) The
// definition TAPER_FIRST_STEPS is the path of the program.
#include <cstdio>
#include <fstream>
#include <sstream>
#include <string>

#include <gtest/gtest.h>

#include "framework/base/error.h"
#include "framework/cuda/cuda.h"

namespace taper::v0 {
namespace {

std::string content_of(const std::string& name) {
  const std::ifstream in(std::string(TAPER_SOURCE_DIR) + "/" + name, std::ios::binary);
  std::ostringstream out;
  if (in) out << in.rdbuf();
  return out.str();
}

// Returns the code block that follows `after` in a page, or "no block".
std::string block_after(const std::string& after, const std::string& path = "README.md") {
  const std::string page = content_of(path);
  const size_t from = page.find(after);
  if (from == std::string::npos) return "no block";
  const size_t fence = page.find("\n```", from);
  const size_t start = page.find('\n', fence + 1);
  const size_t end = page.find("\n```", start);
  if (fence == std::string::npos || end == std::string::npos) return "no block";
  return page.substr(start + 1, end - start);
}

std::string printed_by(const std::string& command) {
  std::string out;
  FILE* pipe = popen(command.c_str(), "r");
  if (!pipe) return "could not be started";
  char part[4096];
  for (size_t n; (n = fread(part, 1, sizeof part, pipe)) > 0;) out.append(part, n);
  const int status = pclose(pipe);
  return status == 0 ? out : concat_to_string(out, "exit status ", status, "\n");
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
  // The page shows the reason of a build without CUDA. On other machines the reason may differ.
  std::string want = block_after("A build without CUDA prints", "docs/devices.md");
  const std::string reason =
      "Taper was built without CUDA (TAPER_CUDA=OFF or no nvcc found); to use a GPU, install the "
      "CUDA Toolkit and build again with cmake -DTAPER_CUDA=ON or TAPER_CUDA=ON scripts/train.sh";
  const size_t at = want.find(reason);
  ASSERT_NE(at, std::string::npos) << want;
  want.replace(at, reason.size(), cuda::unavailable_reason());
  EXPECT_EQ(got, want);
}

}  // namespace
}  // namespace taper::v0
