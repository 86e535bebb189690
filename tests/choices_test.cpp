// Choices in headers: each is a TextEnum (framework/base/text_enum.h), whose words are those of its
// enumerators. Other enums are listed here with the reason.
#include <cctype>
#include <filesystem>
#include <map>
#include <regex>
#include <set>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "tests/source_files.h"

namespace taper::v0::test {
namespace {

namespace fs = std::filesystem;

// Enums that no caller passes as a choice.
const std::set<std::string> kNoChoices = {
    "CallStyle",
    // types with their own constants and conversions from text
    "DType",
    "DeviceType",
    // selects a kernel
    "Join",
    "Into",
    "ConvPass",
    "AxisKind",
    "RowOp",
    "ReductionOp",
    "ReduceMap",
    "BinaryOp",
    "BinaryRule",
    "TernaryOp",
    "UnaryOp",
    "UnaryRule",
    "UpdateRole",
    "CollectiveKind",
    // the part of a set of images, found from folders
    "Part",
    // state that a function returns, or that a class keeps
    "State",
    "TensorRole",
    "Count",
    "NoGradView",
    "IndexKind",
    "EventKind",
    "ValueKind",
    "RangeKind",
    "CharClass",
    "More",
    "Encoding",
    "Kind",
    "Cast",
    "Better",
    "ExitCode",
    // of data/tables/reading, which is not for users
    "Header",
    // what columns of a table were found to be
    "ColumnKind",
    "DateForm",
};

// Words that differ from the name of their enumerator in snake case.
const std::map<std::string, std::string> kOwnWords = {
    {"kTen", "cifar10"},
    {"kWarning", "warn"},
};

std::vector<fs::path> public_headers() {
  std::vector<fs::path> out;
  for (const char* folder : {"framework", "autograd", "modules", "optim", "data", "apps/runner"}) {
    for (const auto& entry : fs::recursive_directory_iterator(kRoot / folder)) {
      if (entry.path().extension() == ".h") out.push_back(entry.path());
    }
  }
  return out;
}

std::string text_of(const fs::path& file) {
  std::string text;
  for (const std::string& line : lines_of(file)) text += line.substr(0, line.find("//")) + "\n";
  return text;
}

std::vector<std::string> matches(const std::string& text, const char* pattern) {
  const std::regex expression(pattern);
  std::vector<std::string> out;
  for (std::sregex_iterator it(text.begin(), text.end(), expression), end; it != end; ++it) {
    out.push_back((*it)[1]);
  }
  return out;
}

// Returns "exp_range" for "kExpRange".
std::string word_of(const std::string& enumerator) {
  if (const auto own = kOwnWords.find(enumerator); own != kOwnWords.end()) return own->second;
  std::string word;
  for (const char c : enumerator.substr(1)) {
    const bool is_upper = std::isupper(static_cast<unsigned char>(c)) != 0;
    if (is_upper && !word.empty()) word += '_';
    word += char(std::tolower(static_cast<unsigned char>(c)));
  }
  return word;
}

TEST(Choices, AreEnumsThatCanBeWrittenAsText) {
  std::set<std::string> unused = kNoChoices;
  for (const fs::path& file : public_headers()) {
    for (const std::string& name : matches(text_of(file), R"(\benum (?:class )?(\w+))")) {
      unused.erase(name);
      EXPECT_TRUE(name == "Value" || kNoChoices.contains(name))
          << file << ": enum " << name
          << ": make it a TextEnum, or add it to kNoChoices in tests/choices_test.cpp";
    }
  }
  EXPECT_EQ(unused, std::set<std::string>()) << "remove these from kNoChoices";
}

// An option that is a text but has only a few words would accept a typo until it is used.
TEST(Choices, AreNotTexts) {
  for (const fs::path& file : public_headers()) {
    const std::vector<std::string> names = matches(
        text_of(file),
        R"re(std::string&? (reduction|mode|padding_mode|approximate|activation|nonlinearity|reduce|rounding_mode|interpolation|indexing|anneal_strategy|line_search_fn|average)\b( = \"|[,)]))re");
    EXPECT_TRUE(names.empty()) << file << ": " << names[0] << " is a choice: make it a TextEnum";
  }
}

// The enumerators are written three times: in the enum, as constants and as words.
TEST(Choices, HaveOneWordForEachEnumerator) {
  const std::regex values(
      R"(struct \w+Values \{\s*enum class Value : \w+ \{([^}]*)\};\s*static constexpr Value ([^;]*);\s*static constexpr const char\* kOption = "\w+";\s*static constexpr const char\* kWords\[\] = \{([^}]*)\};\s*\};)");
  int count = 0;
  for (const fs::path& file : public_headers()) {
    const std::string text = text_of(file);
    for (std::sregex_iterator it(text.begin(), text.end(), values), end; it != end; ++it, ++count) {
      const std::vector<std::string> names = matches((*it)[1], R"((k\w+))");
      std::vector<std::string> words, constants;
      for (const std::string& name : names) {
        // An array of the struct has the name kWords, and triangles have PyTorch's capitals.
        const bool is_triangle = name == "kL" || name == "kU";
        words.push_back(name == "kWordTokens" ? "words"
                        : is_triangle         ? name.substr(1)
                                              : word_of(name));
        constants.push_back(name);
      }
      EXPECT_EQ(matches((*it)[2], R"((k\w+) = Value::)"), constants) << file;
      EXPECT_EQ(matches((*it)[2], R"(Value::(k\w+))"), constants) << file;
      EXPECT_EQ(matches((*it)[3], R"re("(\w+)")re"), words) << file;
    }
    EXPECT_EQ(matches(text, R"((TextEnum<\w+Values>;))").size(),
              size_t(std::distance(std::sregex_iterator(text.begin(), text.end(), values),
                                   std::sregex_iterator())))
        << file << ": the struct of a TextEnum does not have the form in text_enum.h";
  }
  EXPECT_GE(count, 30);
}

}  // namespace
}  // namespace taper::v0::test
