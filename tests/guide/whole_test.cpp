// What the pages list is all that there is, and their links lead somewhere.
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

// The first group of all matches.
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

// Headers of a folder (or one header) and what in them declares a name that people use.
struct Declared {
  const char* where;
  const char* pattern;
  size_t at_least;
  // What nobody makes by name.
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
        << name << " of " << d.where << " stands in no table of docs/pytorch.md";
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
                             {"Loss", "PoolLayer", "RnnBase", "ConvTranspose", "InstanceNorm",
                              "DropoutLayer", "RnnCellBase", "NonDynamicallyQuantizableLinear",
                              "FunctionLayer", "FunctionLoss", "WeightedLoss", "LossOfTensors",
                              "PadLayer", "Shrink"}},
                    Declared{"modules/layers",
                             "\nusing (\\w+) =\\s*(?:FunctionLayer|DropoutLayer|PoolLayer|PadLayer|"
                             "FunctionLoss|WeightedLoss|Conv<|BatchNorm<|InstanceNorm<)",
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
  std::vector<fs::path> pages = files_of("docs", ".md");
  for (const char* page : {"README.md", "CONTRIBUTING.md", "CHANGELOG.md"}) {
    pages.push_back(kRoot / page);
  }
  size_t links = 0;
  for (const fs::path& page : pages) {
    ASSERT_TRUE(fs::exists(page)) << page;
    for (const std::string& link : all_matches(text_of(page), "\\]\\(([^)# ]+)(?:#[^)]*)?\\)")) {
      if (link.starts_with("https:") || link.starts_with("http:")) continue;
      ++links;
      EXPECT_TRUE(fs::exists(page.parent_path() / link)) << page << " links " << link;
    }
  }
  EXPECT_GT(links, 50u);
}

// docs/README.md is the way to all others.
TEST(GuidePages, EveryPageStandsInTheContents) {
  const std::string contents = text_of(kRoot / "docs/README.md");
  for (const fs::path& page : files_of("docs", ".md")) {
    const std::string name = page.filename();
    if (name == "README.md") continue;
    EXPECT_NE(contents.find("](" + name + ")"), std::string::npos) << name;
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
}

}  // namespace
}  // namespace taper::v0::guide
