// The files that docs/internals/architecture.md names exist, and its tour does not exceed the
// length that it states.
#include <filesystem>
#include <regex>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "tests/source_files.h"

namespace taper::v0::test {
namespace {

namespace fs = std::filesystem;

std::vector<std::string> page() { return lines_of(kRoot / "docs/internals/architecture.md"); }

TEST(Architecture, NamesFilesAndFoldersThatExist) {
  const std::regex path(
      "`((?:framework|autograd|modules|optim|data|apps|testing|tests|scripts)/[A-Za-z0-9_./]*)`");
  int count = 0;
  for (const std::string& line : page()) {
    for (std::sregex_iterator i(line.begin(), line.end(), path), end; i != end; ++i, ++count) {
      EXPECT_TRUE(fs::exists(kRoot / (*i)[1].str())) << (*i)[1];
    }
  }
  EXPECT_GE(count, 45);
}

// The lines of the page's tree begin with a folder or, after two blanks, with a folder within the
// one above.
TEST(Architecture, ListsFoldersThatExist) {
  const std::regex folder("^(  )?([a-z_/]+/) +[A-Za-z].*");
  std::string above;
  int count = 0;
  for (const std::string& line : page()) {
    std::smatch match;
    if (!std::regex_match(line, match, folder)) continue;
    if (!match[1].matched) above = match[2];
    const std::string path = match[1].matched ? above + match[2].str() : match[2].str();
    EXPECT_TRUE(fs::is_directory(kRoot / path)) << path;
    ++count;
  }
  EXPECT_GE(count, 18);
}

TEST(Architecture, TheTourHas40FilesAndFewerThan4000Lines) {
  const std::regex row("^\\| `([^`]+\\.(?:h|cpp|cu))` \\|.*");
  size_t files = 0, lines = 0;
  for (const std::string& line : page()) {
    std::smatch match;
    if (!std::regex_match(line, match, row)) continue;
    ++files;
    lines += lines_of(kRoot / match[1].str()).size();
  }
  EXPECT_EQ(files, 40u);
  EXPECT_LT(lines, 4000u);
}

}  // namespace
}  // namespace taper::v0::test
