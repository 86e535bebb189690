// The tables of the pages are complete, and their links lead to existing targets.
#include <fstream>
#include <regex>
#include <set>
#include <vector>

#include "tests/guide/page.h"

namespace taper::v0::guide {
namespace {

namespace fs = std::filesystem;

const fs::path kRoot = TAPER_SOURCE_DIR;

std::string text_of(const fs::path& file) {
  const std::ifstream in(file, std::ios::binary);
  std::ostringstream out;
  if (in) out << in.rdbuf();
  return out.str();
}

// Returns the first group of every match.
std::vector<std::string> all_matches(const std::string& text, const std::string& pattern) {
  const std::regex regex(pattern);
  std::vector<std::string> found;
  for (std::sregex_iterator i(text.begin(), text.end(), regex), end; i != end; ++i) {
    found.push_back((*i)[1]);
  }
  return found;
}

std::vector<fs::path> files_of(const std::string& folder, const std::string& extension) {
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(kRoot / folder)) {
    if (entry.path().extension() == extension) files.push_back(entry.path());
  }
  return files;
}

// The headers of a folder (or one header), and the pattern of declarations in them that users need.
struct Declared {
  const char* where;
  const char* pattern;
  size_t at_least;
  // names that users do not use directly
  std::set<std::string> not_for_users = {};
};

class PyTorchPage : public ::testing::TestWithParam<Declared> {};

TEST_P(PyTorchPage, NamesAllOf) {
  const Declared& d = GetParam();
  const std::string page = text_of(kRoot / "docs/pytorch.md");
  std::string headers;
  if (fs::is_directory(kRoot / d.where)) {
    for (const fs::path& file : files_of(d.where, ".h")) headers += text_of(file);
  } else {
    headers = text_of(kRoot / d.where);
  }
  size_t count = 0;
  for (const std::string& name : all_matches(headers, d.pattern)) {
    if (d.not_for_users.contains(name)) continue;
    ++count;
    EXPECT_NE(page.find("`" + name + "`"), std::string::npos)
        << name << " of " << d.where << " is missing from the tables of docs/pytorch.md";
  }
  EXPECT_GE(count, d.at_least) << d.where;
}

constexpr char kModules[] =
    "\n(?:class|struct) (\\w+) : (?:public )?"
    "(?:Module|ModuleOf<\\w+>|Cloneable<[^{]*>|ModuleContainer) ";

INSTANTIATE_TEST_SUITE_P(
    Guide, PyTorchPage,
    testing::Values(Declared{"modules/layers/containers.h", kModules, 3, {"ModuleContainer"}},
                    Declared{"modules/layers",
                             kModules,
                             13,
                             {"ModuleContainer", "Loss", "PoolLayer", "RnnBase", "ConvTranspose",
                              "InstanceNorm", "DropoutLayer", "RnnCellBase",
                              "NonDynamicallyQuantizableLinear", "FunctionLayer", "FunctionLoss",
                              "LossWithOptions", "LossOfTensors", "PadLayer", "Shrink"}},
                    Declared{"modules/layers",
                             "\nusing (\\w+) =\\s*(?:FunctionLayer|DropoutLayer|PoolLayer|PadLayer|"
                             "FunctionLoss|LossWithOptions|Conv<|BatchNorm<|InstanceNorm<)",
                             34},
                    Declared{"optim/algorithms", "\nusing (\\w+) = OptimizerOf<", 9},
                    Declared{"optim/schedule.h", "\nSchedule (\\w+)\\(", 11},
                    Declared{"optim/clip.h", "\n(?:Tensor|void) (\\w+)\\(", 3},
                    Declared{"modules/init.h", "\nTensor (\\w+_)\\(", 12},
                    Declared{"framework/factory/factories.h",
                             "\nTensor (\\w+)\\(",
                             18,
                             {"tensor_from_bytes", "wrap_scalar"}},
                    Declared{"framework/base/dtype.h", "inline constexpr DType (k\\w+) =", 10}),
    [](const auto& row) { return std::to_string(row.index); });

TEST(GuidePages, LinksLeadSomewhere) {
  std::vector<fs::path> pages;
  for (const char* folder : {"docs", "docs/internals", "docs/decisions"}) {
    const std::vector<fs::path> of_folder = files_of(folder, ".md");
    pages.insert(pages.end(), of_folder.begin(), of_folder.end());
  }
  for (const char* page : {"README.md", "CONTRIBUTING.md", "CHANGELOG.md"}) {
    pages.push_back(kRoot / page);
  }
  size_t links = 0;
  for (const fs::path& page : pages) {
    ASSERT_TRUE(fs::exists(page)) << page;
    for (const std::string& link : all_matches(text_of(page), "\\]\\(([^)# ]+)(?:#[^)]*)?\\)")) {
      if (link.starts_with("https:") || link.starts_with("http:")) continue;
      ++links;
      EXPECT_TRUE(fs::exists(page.parent_path() / link)) << page << " links to " << link;
    }
  }
  EXPECT_GT(links, 50u);
}

// docs/README.md links to all pages, and docs/decisions/README.md to all decisions.
TEST(GuidePages, EveryPageIsInTheContents) {
  for (const char* folder : {"docs", "docs/internals", "docs/decisions"}) {
    const bool has_contents = fs::exists(kRoot / folder / "README.md");
    const fs::path contents = (has_contents ? kRoot / folder : kRoot / "docs") / "README.md";
    const std::string text = text_of(contents);
    for (const fs::path& page : files_of(folder, ".md")) {
      if (page == contents) continue;
      const std::string link = fs::relative(page, contents.parent_path()).generic_string();
      EXPECT_NE(text.find("](" + link + ")"), std::string::npos) << link << " in " << contents;
    }
  }
}

TEST(GuidePages, DotsStandForAnything) {
  EXPECT_TRUE(matches("a\nb\n", "a\nb\n"));
  EXPECT_FALSE(matches("a\nb\n", "a\n"));
  EXPECT_FALSE(matches("a\n", "a\nb\n"));
  EXPECT_TRUE(matches("loss=0.25 at 3\n", "loss=0... at 3\n"));
  EXPECT_FALSE(matches("loss=1.25 at 3\n", "loss=0... at 3\n"));
  EXPECT_TRUE(matches("x\ny\nz\n", "...\nz\n"));
  EXPECT_TRUE(matches("z\n", "...\nz\n"));
  EXPECT_FALSE(matches("x\ny\n", "...\nz\n"));
  EXPECT_TRUE(matches("run   age   state\n", "run  age  state\n", Numbers::kClose));
  EXPECT_FALSE(matches("run age\n", "run  age\n", Numbers::kClose));
  EXPECT_FALSE(matches("run   age\n", "run  age\n"));
}

TEST(GuidePages, CloseNumbersMayDifferByAQuarter) {
  EXPECT_TRUE(matches("loss=0.31 at 3\n", "loss=0.28 at 3\n", Numbers::kClose));
  EXPECT_FALSE(matches("loss=0.31 at 3\n", "loss=0.28 at 3\n"));
  EXPECT_FALSE(matches("loss=0.41 at 3\n", "loss=0.28 at 3\n", Numbers::kClose));
  EXPECT_FALSE(matches("loss=0.28 at 4\n", "loss=0.28 at 3\n", Numbers::kClose));
  EXPECT_TRUE(matches("loss=0.3 20.5 s\n", "loss=0.3 0.1 s\n", Numbers::kClose));
  EXPECT_TRUE(matches("a ... 81.5 MiB b\n", "... 20.0 MiB b\n", Numbers::kClose));
  EXPECT_FALSE(matches("1.5 GiB\n", "20.0 MiB\n", Numbers::kClose));
}

}  // namespace
}  // namespace taper::v0::guide
