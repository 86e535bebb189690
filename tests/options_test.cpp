// Functions with many optional arguments: each has an overload that takes a struct of options, so
// that callers can name the ones that they set.
#include <algorithm>
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

// Functions that only take their options one by one, with the reason.
const std::map<std::string, const char*> kPositional = {
    {"var", "braces are the dimensions: var(x, {0, 1})"},
    {"std", "as var"},
    {"var_mean", "as var"},
    {"std_mean", "as var"},
    {"Slice", "start, stop and step have this order in every language"},
    {"DataLoader", "it takes a struct; device and seed follow"},
    {"Transformer", "it takes a struct; the sizes stand before it"},
};

struct Function {
  std::string name;
  std::vector<std::string> parameters;
};

// Returns the position behind the parenthesis that closes the one before `from`.
size_t behind_parentheses(const std::string& text, size_t from) {
  int depth = 1;
  while (from < text.size() && depth > 0) {
    depth += int(text[from] == '(') - int(text[from] == ')');
    ++from;
  }
  return from;
}

// Splits a list of parameters at the commas outside of brackets.
std::vector<std::string> parameters_of(const std::string& list) {
  std::vector<std::string> parameters(1);
  int depth = 0;
  for (const char c : list) {
    depth += int(c == '(' || c == '<' || c == '{') - int(c == ')' || c == '>' || c == '}');
    if (c == ',' && depth == 0) {
      parameters.emplace_back();
    } else {
      parameters.back() += c;
    }
  }
  return parameters;
}

// Returns everything in a header that has the form of a function's declaration.
std::vector<Function> functions_in(const fs::path& header) {
  static const std::regex name(R"(\b([A-Za-z_]\w*)\()");
  std::string text;
  for (const std::string& line : lines_of(header)) text += line.substr(0, line.find("//")) + " ";
  std::vector<Function> functions;
  for (std::sregex_iterator it(text.begin(), text.end(), name), end; it != end; ++it) {
    const size_t from = size_t(it->position() + it->length());
    const std::string list = text.substr(from, behind_parentheses(text, from) - from - 1);
    functions.push_back({(*it)[1], parameters_of(list)});
  }
  return functions;
}

// Returns whether a parameter is an option: it has a default and is neither an operand nor a
// generator, which comes last in every function that has one.
bool is_option(const std::string& parameter) {
  return parameter.find(" = ") != std::string::npos &&
         !std::regex_search(parameter,
                            std::regex(R"(const Tensor& |Generator\* |SourceLocation )"));
}

bool takes_struct(const Function& f) {
  return std::any_of(f.parameters.begin(), f.parameters.end(), [](const std::string& parameter) {
    return std::regex_search(parameter, std::regex(R"(const \w+Options& \w+( = \{\})?$)"));
  });
}

std::vector<fs::path> headers() {
  std::vector<fs::path> out;
  for (const char* folder : {"framework/tensor", "framework/factory", "framework/io",
                             "framework/distributed", "autograd", "modules", "optim", "data"}) {
    for (const auto& entry : fs::recursive_directory_iterator(kRoot / folder)) {
      if (entry.path().extension() == ".h") out.push_back(entry.path());
    }
  }
  return out;
}

TEST(Options, CanBeNamedWhereAFunctionHasMoreThanTwo) {
  std::set<std::string> unused;
  for (const auto& [name, reason] : kPositional) unused.insert(name);
  int count = 0;
  for (const fs::path& header : headers()) {
    const std::vector<Function> functions = functions_in(header);
    std::set<std::string> with_struct;
    for (const Function& f : functions) {
      if (takes_struct(f)) with_struct.insert(f.name);
    }
    for (const Function& f : functions) {
      if (std::count_if(f.parameters.begin(), f.parameters.end(), is_option) <= 2) continue;
      ++count;
      unused.erase(f.name);
      EXPECT_TRUE(with_struct.contains(f.name) || kPositional.contains(f.name))
          << header << ": " << f.name
          << " has more than two options: add an overload that takes a struct ...Options";
    }
  }
  EXPECT_GE(count, 40);
  EXPECT_EQ(unused, std::set<std::string>()) << "remove these from kPositional";
}

}  // namespace
}  // namespace taper::v0::test
