// The methods of Tensor that are operators: framework/tensor/tensor_methods.h declares one for each
// public function of autograd/ops/ whose first argument is a tensor, with the same arguments, and
// the function's source defines it as a call of the function.
#include <algorithm>
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

const char* const kMethods = "framework/tensor/tensor_methods.h";

// Headers whose functions are not methods of Tensor in PyTorch either, or are not for users. The
// functions of autograd/ops/nn/ belong to torch.nn.functional and are not methods.
const std::set<std::string> kWithoutMethods = {"op_helpers.h", "random_ops.h", "rows.h",
                                               "sparse_ops.h"};
// Functions whose first tensor is not the object of PyTorch's method, and functions that PyTorch
// does not have.
const std::set<std::string> kNotMethods = {"embedding", "feed_forward", "linear", "one_hot",
                                           "sum_to",    "to_copy",      "where",  "zero_outside"};

// Returns the text with each run of white space as one space, and without white space next to
// parentheses, where a declaration may be wrapped.
std::string normalized(const std::string& text) {
  std::string out;
  for (const char c : text) {
    const bool is_space = std::isspace(static_cast<unsigned char>(c)) != 0;
    if (is_space && (out.empty() || out.back() == ' ' || out.back() == '(')) continue;
    if (c == ')' && !out.empty() && out.back() == ' ') out.pop_back();
    out += is_space ? ' ' : c;
  }
  if (!out.empty() && out.back() == ' ') out.pop_back();
  return out;
}

// Returns the text of a source without comments and preprocessor lines.
std::string code_of(const fs::path& file) {
  std::string code;
  for (const std::string& line : lines_of(file)) {
    if (!line.starts_with("#")) code += line.substr(0, line.find("//")) + "\n";
  }
  return code;
}

// Returns the statements of a source at namespace scope, each without its body.
std::vector<std::string> statements_of(const fs::path& file) {
  std::vector<std::string> found;
  std::string statement;
  int parentheses = 0, braces = 0;
  for (const char c : code_of(file)) {
    const bool outside = parentheses == 0;
    if (c == '{' && outside) {
      if (statement.find("namespace") != std::string::npos) {
        statement.clear();
      } else if (braces++ == 0) {
        found.push_back(normalized(statement));
      }
    } else if (c == '}' && outside) {
      braces = std::max(braces - 1, 0);
      statement.clear();
    } else if (braces > 0) {
      continue;
    } else if (c == ';' && outside) {
      found.push_back(normalized(statement));
      statement.clear();
    } else {
      parentheses += (c == '(') - (c == ')');
      statement += c;
    }
  }
  return found;
}

// Returns the arguments of a list, split at commas outside of brackets.
std::vector<std::string> split_arguments(const std::string& list) {
  std::vector<std::string> arguments;
  std::string argument;
  int depth = 0;
  for (const char c : list + ",") {
    depth += (c == '(' || c == '<' || c == '{') - (c == ')' || c == '>' || c == '}');
    if (c == ',' && depth == 0) {
      if (!normalized(argument).empty()) arguments.push_back(normalized(argument));
      argument.clear();
    } else {
      argument += c;
    }
  }
  return arguments;
}

std::string joined(const std::vector<std::string>& parts) {
  std::string out;
  for (const std::string& part : parts) out += (out.empty() ? "" : ", ") + part;
  return out;
}

std::string without_default(const std::string& argument) {
  return argument.substr(0, argument.find(" = "));
}

// A method, as framework/tensor/tensor_methods.h declares it and as the source of its function
// defines it.
struct Method {
  std::string function, header;
  std::string declaration, definition;

  std::string source() const { return fs::path(header).replace_extension(".cpp").string(); }
};

Method method(const std::string& header, const std::string& type, const std::string& name,
              const std::vector<std::string>& arguments) {
  const bool is_forward = type != "Tensor" && std::isupper(static_cast<unsigned char>(type[0]));
  std::vector<std::string> given, passed = {"*this"};
  for (const std::string& argument : arguments) {
    given.push_back(without_default(argument));
    passed.push_back(given.back().substr(given.back().find_last_of(" &*") + 1));
  }
  return {name, header,
          (name.ends_with("_") ? "" : "[[nodiscard]] ") + (is_forward ? "struct " + type : type) +
              " " + name + "(" + joined(arguments) + ") const",
          type + " Tensor::" + name + "(" + joined(given) + ") const { return taper::" + name +
              "(" + joined(passed) + "); }"};
}

// Appends the method of a function.
void append_methods(const std::string& header, const std::string& statement,
                    std::vector<Method>& out) {
  const std::regex function(
      "(?:\\[\\[nodiscard\\]\\] )?(?:inline )?([A-Za-z_:<>]+) ([a-z][a-z0-9_]*)\\(const Tensor& "
      "[a-z_]+(?:, (.*))?\\)");
  std::smatch match;
  if (!std::regex_match(statement, match, function) || kNotMethods.contains(match[2])) return;
  out.push_back(method(header, match[1], match[2], split_arguments(match[3])));
}

std::vector<Method> expected_methods() {
  std::vector<Method> out;
  for (const char* folder : {"autograd/ops", "autograd/ops/index"}) {
    for (const auto& entry : fs::directory_iterator(kRoot / folder)) {
      const fs::path& path = entry.path();
      if (path.extension() != ".h" || kWithoutMethods.contains(path.filename().string())) continue;
      const std::string header = fs::relative(path, kRoot).generic_string();
      for (const std::string& statement : statements_of(path)) {
        append_methods(header, statement, out);
      }
    }
  }
  return out;
}

std::set<std::string> declared_methods() {
  const std::vector<std::string> all = statements_of(kRoot / kMethods);
  return {all.begin(), all.end()};
}

TEST(TensorMethods, AreDeclaredForEachOperator) {
  const std::set<std::string> declared = declared_methods();
  const std::vector<Method> expected = expected_methods();
  ASSERT_GE(expected.size(), 200u);
  for (const Method& m : expected) {
    EXPECT_TRUE(declared.contains(m.declaration))
        << kMethods << " lacks the method of taper::" << m.function
        << ". Add this line to the part of " << m.header << ":\n"
        << m.declaration << ";\nIf PyTorch has no such method, add the function to kNotMethods in "
        << __FILE__ << ".";
  }
}

TEST(TensorMethods, AreDefinedBesideTheirOperators) {
  std::map<std::string, std::string> sources;
  for (const Method& m : expected_methods()) {
    std::string& code = sources[m.source()];
    if (code.empty()) code = normalized(code_of(kRoot / m.source()));
    EXPECT_NE(code.find(m.definition), std::string::npos)
        << m.source() << " lacks a method of Tensor. Add this line:\n"
        << m.definition;
  }
}

TEST(TensorMethods, CallAnOperatorEach) {
  std::set<std::string> expected;
  for (const Method& m : expected_methods()) expected.insert(m.declaration);
  for (const std::string& declaration : declared_methods()) {
    EXPECT_TRUE(expected.contains(declaration))
        << kMethods
        << " declares a method for which no header of autograd/ops/ has a function with "
        << "these arguments. Remove or change this line:\n"
        << declaration << ";";
  }
}

}  // namespace
}  // namespace taper::v0::test
