// The files that the recipes of docs/extending.md name exist and contain the code that the recipes
// show.
#include <filesystem>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "tests/source_files.h"

namespace taper::v0::test {
namespace {

namespace fs = std::filesystem;

// Returns the text without white space, so that line breaks and indentation do not matter.
std::string without_spaces(const std::string& text) {
  return std::regex_replace(text, std::regex("\\s+"), "");
}

std::string content_of(const fs::path& file) {
  std::string text;
  for (const std::string& line : lines_of(file)) text += line;
  return without_spaces(text);
}

// A step of a recipe: "1. `path/file.h`: ...", with a block of code.
struct Step {
  std::string file;
  std::vector<std::string> code = {};
};
struct Instructions {
  std::string title;  // "A layer: `Mish`, two files"
  std::vector<Step> steps = {};
};

std::vector<Instructions> recipes() {
  const std::regex first_file("^[0-9]+\\. `([^`]+)`:.*");
  std::vector<Instructions> found;
  bool in_code = false;
  for (const std::string& line : lines_of(kRoot / "docs/extending.md")) {
    std::smatch match;
    if (line.starts_with("   ```")) {
      in_code = !in_code;
    } else if (in_code) {
      found.back().steps.back().code.push_back(line);
    } else if (line.starts_with("## ")) {
      found.push_back({line.substr(3)});
    } else if (std::regex_match(line, match, first_file)) {
      found.back().steps.push_back({match[1]});
    }
  }
  std::erase_if(found, [](const Instructions& recipe) { return recipe.steps.empty(); });
  return found;
}

TEST(Recipes, ShowCodeThatTheirFilesHave) {
  const std::vector<Instructions> all = recipes();
  ASSERT_GE(all.size(), 5u);
  for (const Instructions& recipe : all) {
    for (const Step& step : recipe.steps) {
      ASSERT_TRUE(fs::is_regular_file(kRoot / step.file)) << recipe.title << ": " << step.file;
      EXPECT_FALSE(step.code.empty()) << recipe.title << ": no code for " << step.file;
      const std::string content = content_of(kRoot / step.file);
      for (const std::string& line : step.code) {
        EXPECT_NE(content.find(without_spaces(line)), std::string::npos)
            << recipe.title << ": " << step.file << " does not have\n"
            << line;
      }
    }
  }
}

TEST(Recipes, CountTheirFiles) {
  const std::vector<std::string> numbers = {"no", "one", "two", "three", "four", "five"};
  for (const Instructions& recipe : recipes()) {
    std::set<std::string> files;
    for (const Step& step : recipe.steps) files.insert(step.file);
    EXPECT_TRUE(recipe.title.ends_with(", " + numbers.at(files.size()) + " files")) << recipe.title;
  }
}

TEST(Recipes, NameFilesThatExist) {
  std::string page;
  for (const std::string& line : lines_of(kRoot / "docs/extending.md")) page += line + " ";
  const std::regex path("`([a-z_]+/[A-Za-z0-9_./]+)`");
  int count = 0;
  for (std::sregex_iterator i(page.begin(), page.end(), path), end; i != end; ++i, ++count) {
    EXPECT_TRUE(fs::exists(kRoot / (*i)[1].str())) << (*i)[1];
  }
  EXPECT_GE(count, 20);
}

}  // namespace
}  // namespace taper::v0::test
