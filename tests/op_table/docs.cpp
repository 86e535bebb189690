// Generates the page of operators from the op table.
#include <algorithm>
#include <filesystem>
#include <regex>
#include <set>
#include <string>
#include <vector>

#include "tests/op_table/op_table.h"
#include "tests/source_files.h"

namespace taper::v0::test {
namespace {

struct Entry {
  std::set<DType> dtypes;
  Derivative derivative = Derivative::kNone;
};

// Returns "float32 float64 int64", in the order of kAllDTypes, or "all" for every dtype.
std::string list_of(const std::set<DType>& dtypes) {
  if (dtypes == std::set<DType>(std::begin(kAllDTypes), std::end(kAllDTypes))) return "all";
  std::string out;
  for (const DType t : kAllDTypes) {
    if (dtypes.count(t)) out += concat_to_string(out.empty() ? "" : " ", name_of(t));
  }
  return out;
}

const char* words_of(Derivative d) {
  if (d == Derivative::kNone) return "no";
  return d == Derivative::kFirst ? "once" : "twice and more";
}

// --- headers ---

struct Header {
  std::string family;
  std::vector<std::string> lines;
};

// Returns the headers of autograd/ops whose functions the page lists, sorted by path.
std::vector<Header> operator_headers() {
  // The functions in these headers are tested elsewhere or are only used by operators.
  const std::set<std::string> apart = {"einsum_order",   "linalg_checks", "op_helpers",
                                       "reduction",      "rows",          "sparse_ops",
                                       "sync_batch_norm"};
  std::set<std::filesystem::path> paths;
  for (const auto& entry :
       std::filesystem::recursive_directory_iterator(TAPER_SOURCE_DIR "/autograd/ops")) {
    const auto& path = entry.path();
    if (path.extension() == ".h" && !apart.count(path.stem())) paths.insert(path);
  }
  std::vector<Header> headers;
  for (const auto& path : paths) {
    std::string family = path.stem();
    if (family.ends_with("_ops")) family.resize(family.size() - 4);
    headers.push_back({family, lines_of(path)});
  }
  return headers;
}

// Returns the name of the operator whose declaration begins with this line, or "".
std::string operator_name(const std::string& line) {
  static const std::regex declaration(
      "^(?:\\[\\[nodiscard\\]\\] )?(?:inline )?[A-Z:a-z<>]+ ([a-z][a-z0-9_]*)\\(.*");
  std::smatch match;
  if (!std::regex_match(line, match, declaration)) return "";
  const std::string name = match[1];
  // Functions whose name ends in _ change their first argument.
  return name.starts_with("operator") || name.ends_with("_") ? "" : name;
}

// Returns the length of a declaration up to the parenthesis that closes its parameters, or npos if
// the text does not contain it.
size_t end_of_parameters(const std::string& text) {
  int depth = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    depth += int(text[i] == '(') - int(text[i] == ')');
    if (text[i] == ')' && depth == 0) return i + 1;
  }
  return std::string::npos;
}

// Returns the signature that begins at line `i`, without attributes and body. Further lines keep
// their alignment.
std::string signature_at(const std::vector<std::string>& lines, size_t i) {
  std::string text = lines[i];
  size_t removed = 0;
  for (const std::string prefix : {"[[nodiscard]] ", "inline "}) {
    if (!text.starts_with(prefix)) continue;
    text.erase(0, prefix.size());
    removed += prefix.size();
  }
  while (end_of_parameters(text) == std::string::npos) text += "\n" + lines.at(++i).substr(removed);
  return text.substr(0, end_of_parameters(text)) + ";\n";
}

// Returns the struct that begins at line `i` with its members, up to its functions.
std::string struct_at(const std::vector<std::string>& lines, size_t i) {
  std::string text = lines[i] + "\n";
  while (!lines.at(++i).empty() && !lines[i].starts_with("  template") && lines[i] != "};") {
    text += lines[i] + "\n";
  }
  return text + "};\n";
}

// Returns whether line `i` continues a template. Functions that take their options one by one are
// templates, and the page shows only the functions that take an options struct.
bool is_template(const std::vector<std::string>& lines, size_t i) {
  return i > 0 && lines[i - 1].starts_with("template <");
}

// Returns the words of each TextEnum: "`none` `mean`" for "Reduction".
std::map<std::string, std::string> words_of_choices() {
  static const std::regex choice(R"(struct (\w+)Values \{[^}]*\};[^}]*kWords\[\] = \{([^}]*)\};)");
  static const std::regex word(R"re("(\w+)",?\s*)re");
  std::map<std::string, std::string> out;
  for (const char* folder : {"/framework", "/autograd"}) {
    const std::string root = std::string(TAPER_SOURCE_DIR) + folder;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(root)) {
      if (entry.path().extension() != ".h") continue;
      std::string text;
      for (const std::string& line : lines_of(entry.path())) {
        text += line.substr(0, line.find("//")) + "\n";  // examples in comments do not count
      }
      for (std::sregex_iterator it(text.begin(), text.end(), choice), end; it != end; ++it) {
        out[(*it)[1]] = std::regex_replace((*it)[2].str(), word, "`$1` ");
      }
    }
  }
  for (auto& [name, words] : out) words.pop_back();
  return out;
}

// Returns the choices that the signatures of a family name, as a list in Markdown.
std::string choices_in(const std::string& signatures) {
  static const std::map<std::string, std::string> all = words_of_choices();
  std::string out;
  for (const auto& [name, words] : all) {
    if (!std::regex_search(signatures, std::regex("\\b" + name + "\\b"))) continue;
    out += concat_to_string(out.empty() ? "\n" : "", "- `", name, "`: ", words, "\n");
  }
  return out;
}

const std::regex kStruct(R"((?:template <[^>]*> )?struct (\w+) .*\{.*)");
const std::regex kAlias(R"(using (\w+) = (\w+Of)<\w+>;)");

bool has_word(const std::string& text, const std::string& word) {
  return std::regex_search(text, std::regex("\\b" + word + "\\b"));
}

// Returns the signatures of a header's operators, and the names of the class templates whose
// aliases they name.
std::string used_names(const Header& header) {
  std::string used;
  for (size_t i = 0; i < header.lines.size(); ++i) {
    if (operator_name(header.lines[i]).empty() || is_template(header.lines, i)) continue;
    used += signature_at(header.lines, i);
  }
  for (const std::string& line : header.lines) {
    std::smatch match;
    if (!std::regex_match(line, match, kAlias) || !has_word(used, match[1])) continue;
    used += match[2].str() + "\n";
  }
  return used;
}

// Returns the signatures of each family in the order of the headers, and the structs of options and
// results that they name.
std::map<std::string, std::string> signatures() {
  const std::map<std::string, std::string> family_of = declared_operators();
  std::map<std::string, std::string> text;
  for (const Header& header : operator_headers()) {
    const std::string used = used_names(header);
    for (size_t i = 0; i < header.lines.size(); ++i) {
      const std::string& line = header.lines[i];
      std::smatch match;
      if (is_template(header.lines, i)) continue;
      if (const std::string name = operator_name(line); !name.empty()) {
        text[family_of.at(name)] += signature_at(header.lines, i);
      } else if (std::regex_match(line, match, kStruct) && has_word(used, match[1])) {
        text[header.family] += line.ends_with("};") ? line + "\n" : struct_at(header.lines, i);
      } else if (std::regex_match(line, match, kAlias) && has_word(used, match[1])) {
        text[header.family] += line + "\n";
      }
    }
  }
  // The options of functions that are methods, too, are declared below Tensor.
  const auto below = lines_of(TAPER_SOURCE_DIR "/framework/tensor/method_options.h");
  for (auto& [family, declarations] : text) {
    for (size_t i = 0; i < below.size(); ++i) {
      std::smatch match;
      const bool is_named =
          std::regex_match(below[i], match, kStruct) && has_word(declarations, match[1]);
      if (is_named) declarations += struct_at(below, i);
    }
  }
  return text;
}

}  // namespace

std::map<std::string, std::string> declared_operators() {
  std::map<std::string, std::string> family_of;
  // If two headers declare a name, the last one counts.
  for (const Header& header : operator_headers()) {
    for (const std::string& line : header.lines) {
      const std::string name = operator_name(line);
      if (!name.empty()) family_of[name] = header.family;
    }
  }
  return family_of;
}

std::string operators_page() {
  std::map<std::string, std::map<std::string, Entry>> families;
  const std::map<std::string, std::string> family_of = declared_operators();
  for (const Row& row : all_rows()) {
    const auto family = family_of.find(row.name);
    if (family == family_of.end()) continue;
    Entry& entry = families[family->second][row.name];
    entry.dtypes.insert(row.dtypes.begin(), row.dtypes.end());
    entry.derivative = std::max(entry.derivative, row.derivative);
  }
  std::string page =
      "# Operators\n\n"
      "Generated by `build/tests/test_ops --docs > docs/operators.md`.\n\n"
      "Every operator runs on the CPU and on CUDA. Tests compare it with a double-precision\n"
      "reference on both, in every dtype that is listed. The last column shows how often an\n"
      "operator can be differentiated. `once` means that its backward pass is a fused kernel,\n"
      "which refuses `create_graph`.\n\n"
      "Below each table are the signatures with their defaults, and the structs of options and\n"
      "results. `IntArg`, `RealArg` and `BoolArg` are an `int64_t`, a `double` and a `bool` that\n"
      "refuse each other, and `Scalar` is a number of any kind. Choices such as `Reduction` are "
      "listed\n"
      "with their words: `\"sum\"` and `Reduction::kSum` are equal. Most functions whose first "
      "argument is\n"
      "a tensor are methods, too: `x.sum()`. Functions of neural networks are not. The headers in\n"
      "`autograd/ops/` have the contracts. [Tensors](tensors.md) has the functions that create "
      "tensors.\n";
  const std::map<std::string, std::string> signatures_of = signatures();
  for (const auto& [family, operators] : families) {
    page +=
        concat_to_string("\n## ", family, "\n\n| operator | dtypes | gradient |\n|---|---|---|\n");
    for (const auto& [name, entry] : operators) {
      page += concat_to_string("| `", name, "` | ", list_of(entry.dtypes), " | ",
                               words_of(entry.derivative), " |\n");
    }
    const std::string& text = signatures_of.at(family);
    page += concat_to_string("\n```cpp untested\n", text, "```\n", choices_in(text));
  }
  return page;
}

}  // namespace taper::v0::test
