#include <cstdlib>
#include <filesystem>

#include <gtest/gtest.h>
#include <taper/runner.h>
#include <taper/taper.h>
#include <taper/testing.h>

namespace YAML {
class EventHandler;
class Parser {
 public:
  explicit Parser(std::istream&);
  ~Parser();
  bool HandleNextDocument(EventHandler&);
};
std::string Load(const std::string& text);
}  // namespace YAML
namespace CLI {
class App {
 public:
  explicit App(std::string description = "", std::string name = "");
  virtual ~App();
};
}  // namespace CLI

// Never called, but the linker resolves its symbols.
[[maybe_unused]] static void* uses_its_own(std::istream& in) {
  static CLI::App app("own");
  static YAML::Parser parser(in);
  return &parser;
}
void* (*volatile kept)(std::istream&) = uses_its_own;

TEST(OwnLibraries, ARunFromYaml) {
  EXPECT_EQ(YAML::Load("text"), "own text");
  std::string args[] = {"program",
                        "train",
                        CONFIG,
                        "train.steps=2",
                        "train.epochs=null",
                        "--out",
                        (std::filesystem::current_path() / "run").string()};
  char* argv[8] = {};
  for (size_t i = 0; i < 7; ++i) argv[i] = args[i].data();
  ASSERT_EQ(taper::runner::main(7, argv), 0);
  const taper::runner::SavedRun run = taper::runner::open_run(args[6], {"device=cpu"});
  const taper::Tensor pixels = taper::zeros({1, 1, 28, 28}, {.dtype = taper::kUInt8});
  EXPECT_EQ(run.predict(pixels).shape(), (taper::Shape{1, 10}));
}

// The errors of a run are public types, so they are caught by type across the archive's boundary.
TEST(OwnLibraries, ErrorsOfARun) {
  try {
    (void)taper::runner::load_config(CONFIG, {"train.epochs=0"});
    FAIL() << "accepted";
  } catch (const taper::runner::ConfigError& error) {
    EXPECT_EQ(error.code, taper::runner::kExitConfig);
  }
}

TEST(OwnLibraries, HelpersOfTests) {
  const taper::Tensor x = taper::ones({2});
  EXPECT_TENSOR_CLOSE(x, x, 0, 0);
  EXPECT_FALSE(taper::test::tensor_close(x, x + 1, 0, 0));
}

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
