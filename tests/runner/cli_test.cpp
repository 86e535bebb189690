// The program from a user's point of view: exit codes, messages and the files of a run. The path of
// the program comes from the environment variable TAPER_PROGRAM or from the definition of that
// name.
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include "apps/runner/base/string_utils.h"
#include "framework/base/error.h"
#include "tests/text.h"

namespace taper::v0::runner {
namespace {

namespace fs = std::filesystem;

// Trains within a moment: 512 images in 8 steps.
constexpr const char* kTiny =
    "device: cpu\n"
    "data: {type: digits, train_size: 512, test_size: 128}\n"
    "model: {type: mlp, hidden: [16], dropout: 0.1}\n"
    "optimizer: {type: sgd, lr: 0.1}\n"
    "train: {epochs: 1, batch_size: 64}\n";

struct Outcome {
  int code = 0;  // 128 + n if signal n killed it
  std::string out;
  std::string err;
};

// An example program that registers a model.
const std::string kCustomProgram = "custom_model";

std::string program(const std::string& name = "taper") {
  if (name != "taper") return (fs::path(program()).parent_path() / name).string();
  const char* path = std::getenv("TAPER_PROGRAM");
#ifdef TAPER_PROGRAM
  if (path == nullptr) path = TAPER_PROGRAM;
#endif
  if (path == nullptr) throw Error("set TAPER_PROGRAM to the path of the program taper");
  return fs::absolute(path).string();
}

std::string in_quotes(const std::string& word) {
  std::string out = "'";
  for (const char c : word) out += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return out + "'";
}

class Cli : public ::testing::Test {
 protected:
  Cli() : directory_(fs::temp_directory_path() / concat_to_string("taper_cli_", getpid())) {
    fs::create_directories(directory_);
  }
  ~Cli() override { fs::remove_all(directory_); }

  void write(const fs::path& name, const std::string& content) const {
    fs::create_directories((directory_ / name).parent_path());
    std::ofstream(directory_ / name, std::ios::binary) << content;
  }

  std::string read(const fs::path& name) const {
    const std::ifstream in(directory_ / name, std::ios::binary);
    std::ostringstream out;
    if (in) out << in.rdbuf();
    return out.str();
  }

  // Runs the program in the test's directory, without a terminal.
  Outcome taper(const std::vector<std::string>& arguments,
                const std::string& name = "taper") const {
    std::string command =
        concat_to_string("cd ", in_quotes(directory_.string()), " && ", in_quotes(program(name)));
    for (const std::string& argument : arguments) command += " " + in_quotes(argument);
    const int status =
        std::system(concat_to_string(command, " </dev/null >stdout 2>stderr").c_str());
    const int code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    return {code, read("stdout"), read("stderr")};
  }

  bool has_gpu() const { return taper({"info"}).out.find("cuda:0") != std::string::npos; }

  fs::path directory_;
};

// Expects exactly one message of the program, which contains all the given parts.
void expect_refusal(const Outcome& outcome, int code, const std::vector<std::string>& says) {
  EXPECT_EQ(outcome.code, code) << outcome.err;
  EXPECT_EQ(count(outcome.err, "taper: "), 1) << outcome.err;
  EXPECT_EQ(outcome.err.find("terminate called"), std::string::npos) << outcome.err;
  EXPECT_EQ(outcome.out, "");
  for (const std::string& part : says) {
    EXPECT_NE(outcome.err.find(part), std::string::npos) << "expected '" << part << "' in:\n"
                                                         << outcome.err;
  }
}

struct Refusal {
  const char* name;
  std::string config;  // the content of run.yaml
  int code;
  std::vector<std::string> says;
};

std::string with(const std::string& line) { return concat_to_string(kTiny, line, "\n"); }

// Returns kTiny with one of its sections replaced.
std::string instead_of(const std::string& section, const std::string& line) {
  std::string out;
  for (const std::string& old : lines_of(kTiny))
    out += (old.starts_with(section) ? line : old) + '\n';
  return out;
}

std::string data(const std::string& text) {
  return instead_of("data:", concat_to_string("data: ", text));
}

// --- the command line ---

const std::vector<std::string> kCommands = {"train",  "eval",   "predict",   "generate", "info",
                                            "record", "check",  "bless",     "coverage", "trace",
                                            "diff",   "report", "reproduce", "schema",   "verify",
                                            "export", "bisect", "sweep",     "list",     "lr-find"};

TEST_F(Cli, EveryCommandHasHelpWithExamples) {
  const Outcome outcome = taper({"--help"});
  EXPECT_EQ(outcome.code, 0);
  for (const std::string& command : kCommands) {
    SCOPED_TRACE(command);
    EXPECT_NE(outcome.out.find("\n  " + command + " "), std::string::npos) << outcome.out;
    const Outcome help = taper({command, "--help"});
    EXPECT_EQ(help.code, 0);
    EXPECT_NE(help.out.find("Examples:\ntaper " + command), std::string::npos) << help.out;
  }
}

TEST_F(Cli, AProgramOfOnesOwnSaysItsName) {
  const std::string name = fs::path(kCustomProgram).filename();
  const Outcome help = taper({"train", "--help"}, kCustomProgram);
  EXPECT_NE(
      help.out.find(concat_to_string("Examples:\n", name, " train digits.yaml\n", name, " train")),
      std::string::npos)
      << help.out;
  expect_refusal(taper({"train"}, kCustomProgram), 2,
                 {concat_to_string("; see ", name, " train --help")});
}

TEST_F(Cli, WrongCommandsExitWith2AndSayWhatIsMeant) {
  struct Wrong {
    std::vector<std::string> command, says;
  };
  const std::vector<Wrong> all = {
      {{}, {"expected a command; commands: train, eval", "taper --help"}},
      {{"trian"}, {"unknown command 'trian'; did you mean 'train'?; commands: train"}},
      {{"evaluate"}, {"did you mean 'eval'?"}},
      {{"zzzzzzz"}, {"unknown command 'zzzzzzz'; commands: "}},
      {{"train"}, {"config is required; see taper train --help"}},
      {{"train", "run.yaml", "--frobnicate"},
       {"unexpected argument '--frobnicate'; write settings without dashes, such as "
        "train.epochs=3; see "
        "taper train"}},
      {{"train", "run.yaml", "--resum", "auto"}, {"'--resum'; did you mean '--resume'?"}},
      {{"info", "now"}, {"unexpected argument 'now'; see taper info --help"}},
      {{"record", "r"}, {"--to is required"}},
      {{"train", "run.yaml", "--out"}, {"--out", "see taper train --help"}},
  };
  for (const Wrong& wrong : all) {
    SCOPED_TRACE(wrong.says[0]);
    expect_refusal(taper(wrong.command), 2, wrong.says);
  }
}

TEST_F(Cli, EveryNumberOfTheCommandLineIsChecked) {
  struct Option {
    const char *verb, *name;
    bool is_whole;
    double low, high;
  };
  const Option options[] = {
      {"generate", "--tokens", true, 1, 1e6},
      {"generate", "--temperature", false, 0, 1e99},
      {"generate", "--top-k", true, 0, 1e99},
      {"generate", "--seed", true, 0, 1e99},
      {"generate", "--samples", true, 1, 1e6},
      {"generate", "--top-p", false, 0.05, 1},
      {"record", "--steps", true, 1, 1e99},
      {"record", "--state-every", true, 1, 1e99},
      {"record", "--tolerance", false, 0, 1e99},
      {"check", "--tolerance", false, 0, 1e99},
      {"train", "--ranks", true, 0, 4096},
      {"record", "--seeds", true, 0, 1000},
      {"check", "--seeds", true, 0, 1000},
      {"check", "--detect", false, 0.01, 1000},
      {"check", "--alpha", false, 1e-6, 0.5},
      {"trace", "--step", true, 1, 1e99},
      {"record", "--jobs", true, 1, 1024},
      {"check", "--jobs", true, 1, 1024},
      {"record", "--pairs", true, 5, 10'000},
      {"check", "--pairs", true, 5, 10'000},
      {"check", "--slower", false, 0, 1e6},
      {"check", "--more-memory", false, 0, 1e6},
      {"check", "--steps", true, 1, 1e99},
      {"train", "--seeds", true, 2, 1000},
      {"train", "--folds", true, 2, 1000},
      {"train", "--jobs", true, 1, 1024},
      {"train", "--stop-after-steps", true, 1, 1e99},
      {"train", "--stop-after-epochs", true, 1, 1e99},
      {"sweep", "--trials", true, 1, 1e5},
      {"sweep", "--seed", true, 0, 1e99},
      {"sweep", "--jobs", true, 1, 1024},
      {"lr-find", "--steps", true, 10, 1e5},
      {"lr-find", "--low", false, 1e-12, 1e6},
      {"lr-find", "--high", false, 1e-12, 1e6},
  };
  // Every option that the help calls a number is in the table.
  int numbers = 0;
  for (const std::string& command : kCommands)
    numbers += count(taper({command, "--help"}).out, " NUMBER");
  EXPECT_EQ(numbers, 32);
  for (const Option& o : options) {
    const auto refusal = [&](const std::string& word) {
      SCOPED_TRACE(concat_to_string(o.verb, " ", o.name, " ", word));
      std::vector<std::string> words{o.verb, "r", concat_to_string(o.name, "=", word)};
      const bool writes = o.verb == std::string("record") || o.verb == std::string("trace");
      if (writes) words.insert(words.end(), {"--to", "g.json"});
      if (o.verb == std::string("sweep")) words.emplace_back("seed=1|2");
      if (o.verb == std::string("check")) words.insert(words.end(), {"--against", "g.json"});
      return taper(words);
    };
    std::vector<std::string> bad = {"nan", "inf",   "-inf", "1e999", "0x10",
                                    "010", "1_000", "many", "-1",    "1,5"};
    if (o.is_whole) bad.insert(bad.end(), {"1.5", "1e2", "99999999999999999999999"});
    if (o.low == 1) bad.push_back("0");
    if (o.high == 1e6) bad.push_back("1000001");
    for (const std::string& word : bad) {
      expect_refusal(refusal(word), 2,
                     {o.name + 2, "expected ", concat_to_string("got '", word, "'")});
    }
    // Correct numbers are accepted; the error is then that the run is missing.
    const bool takes_config = std::set<std::string>{"train", "sweep", "lr-find"}.contains(o.verb);
    const int missing = takes_config ? 2 : 66;
    for (const char* word : {"1", "2", "0.1"}) {
      const double value = std::atof(word);
      if (value > o.high || value < o.low || (o.is_whole && value < 1)) continue;
      EXPECT_EQ(refusal(word).code, missing) << o.name;
    }
  }
  expect_refusal(taper({"check", "r", "--against", "g", "--tolerance", "bogus=1"}), 2,
                 {"no metric 'bogus'", "loss, grad_norm, state, test.accuracy"});
  expect_refusal(taper({"check", "r", "--against", "g", "--tolerance", "test.acuracy=1"}), 2,
                 {"did you mean 'test.accuracy'?"});
  expect_refusal(taper({"check", "r", "--against", "g", "--tolerance", "loss=nan"}), 2, {"nan"});
}

TEST_F(Cli, TheVersionIsPrinted) {
  const Outcome outcome = taper({"--version"});
  EXPECT_EQ(outcome.code, 0);
  EXPECT_TRUE(std::regex_match(outcome.out, std::regex("taper [0-9]+\\.[0-9]+\\.[0-9]+(, .+)?\n")))
      << outcome.out;
}

TEST_F(Cli, InfoShowsVersionsAndDevices) {
  const Outcome outcome = taper({"info"});
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_TRUE(std::regex_search(outcome.out, std::regex("taper +[0-9]+\\.[0-9]+")));
  EXPECT_TRUE(std::regex_search(outcome.out, std::regex("oneDNN [0-9]+\\.[0-9]+")));
  EXPECT_TRUE(std::regex_search(outcome.out, std::regex("cpu .*threads, memory .*GiB")));
  // Shows a GPU with its memory, or the reason why there is none.
  EXPECT_TRUE(std::regex_search(outcome.out, std::regex("cuda:0 .* GiB|not available: .+")))
      << outcome.out;
}

// --- the config ---

TEST_F(Cli, WrongConfigsAreRefusedAtTheirPlace) {
  const std::vector<Refusal> cases = {
      {"unknown key", with("sede: 1"), 2, {"run.yaml:6:1", "sede", "seed"}},
      {"unknown key in a section",
       instead_of("train:", "train: {epoch: 1}"),
       2,
       {"run.yaml:5:9", "epoch", "epochs"}},
      {"duplicate key", with("device: cpu"), 2, {"run.yaml:6:1", "device"}},
      {"ill-typed value",
       instead_of("train:", "train: {epochs: many}"),
       2,
       {"run.yaml:5:17", "epochs", "many"}},
      {"value out of range",
       instead_of("optimizer:", "optimizer: {type: sgd, lr: -1}"),
       2,
       {"run.yaml:4:28", "lr", "-1"}},
      {"unknown type",
       instead_of("model:", "model: {type: mpl}"),
       2,
       {"run.yaml:3:15", "mpl", "mlp"}},
      {"missing section", instead_of("train:", ""), 2, {"run.yaml", "train"}},
      {"unknown device", instead_of("device:", "device: gpu"), 2, {"run.yaml:1:9", "gpu", "cuda"}},
      {"no YAML", "data: [", 2, {"run.yaml"}},
      {"shapes that do not fit",
       instead_of("model:", "model: {type: sequential, layers: [flatten, linear: 3]}"),
       2,
       {"run.yaml:3:", "[3]", "[10]"}},
  };
  for (const Refusal& c : cases) {
    SCOPED_TRACE(c.name);
    write("run.yaml", c.config);
    expect_refusal(taper({"train", "run.yaml", "--out", "r"}), c.code, c.says);
  }
}

TEST_F(Cli, AWrongOverrideIsNamedAsWritten) {
  write("run.yaml", kTiny);
  expect_refusal(taper({"train", "run.yaml", "train.epochs=none"}), 2, {"train.epochs=none"});
  expect_refusal(taper({"train", "run.yaml", "train.epohcs=1"}), 2, {"train.epohcs=1", "epochs"});
}

TEST_F(Cli, AMissingConfigIsNamed) {
  expect_refusal(taper({"train", "nowhere.yaml"}), 2, {"nowhere.yaml"});
}

// --- the device ---

TEST_F(Cli, CudaWithoutAGpuExitsWith69AndTheReason) {
  if (has_gpu()) GTEST_SKIP() << "this machine has a GPU";
  write("run.yaml", kTiny);
  expect_refusal(taper({"train", "run.yaml", "device=cuda"}), 69, {"device 'cuda'", "used: "});
}

TEST_F(Cli, AGpuThatIsNotThereExitsWith69) {
  write("run.yaml", kTiny);
  expect_refusal(taper({"train", "run.yaml", "device=cuda:63"}), 69, {"device 'cuda:63'"});
}

TEST_F(Cli, AutoSaysWhatItChose) {
  write("run.yaml", kTiny);
  const Outcome outcome = taper({"train", "run.yaml", "device=auto", "--out", "r"});
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_TRUE(std::regex_search(outcome.err, std::regex("device: (cpu|cuda:0) \\(auto: .+\\)")));
}

// --- the data ---

std::string idx(const std::vector<uint32_t>& shape, const std::string& bytes) {
  std::string out{0, 0, 8, char(shape.size())};
  for (const uint32_t size : shape) {
    for (const int shift : {24, 16, 8, 0}) out += char(size >> shift);
  }
  return out + bytes;
}

// The four files of a dataset like MNIST, with three images of 2x2 pixels in each split.
class CliMnist : public Cli {
 protected:
  CliMnist() {
    for (const std::string half : {"train", "t10k"}) {
      write("mnist/" + half + "-images-idx3-ubyte", idx({3, 2, 2}, "abcdefghijkl"));
      write("mnist/" + half + "-labels-idx1-ubyte", idx({3}, {0, 1, 9}));
    }
    write("run.yaml", data("{type: mnist, root: mnist}"));
  }

  Outcome train() const { return taper({"train", "run.yaml", "--out", "r"}); }
};

TEST_F(CliMnist, WholeFilesAreTaken) {
  const Outcome outcome = train();
  EXPECT_EQ(outcome.code, 0) << outcome.err;
}

TEST_F(CliMnist, AMissingDirectorySaysWhatWasLookedForAndHowToGetIt) {
  expect_refusal(taper({"train", "run.yaml", "data.root=nowhere"}), 66,
                 {"'nowhere'", "-images-idx3-ubyte", ".gz", "https://", "data.root"});
}

TEST_F(CliMnist, DamagedFilesAreRefused) {
  struct Spoiled {
    const char* name;
    const char* file;
    std::string content;
    std::vector<std::string> says;
  };
  const std::vector<Spoiled> cases = {
      {"truncated", "train-images-idx3-ubyte", idx({3, 2, 2}, "abcdefg"), {"cut off", "12", "7"}},
      {"empty", "t10k-labels-idx1-ubyte", "", {"empty"}},
      {"foreign", "train-images-idx3-ubyte", "<!DOCTYPE html>", {"not an IDX file", "HTML"}},
      {"label out of range", "t10k-labels-idx1-ubyte", idx({3}, {0, 10, 1}), {"record 1", "10"}},
      {"too few labels", "train-labels-idx1-ubyte", idx({2}, {0, 1}), {"3 labels", "got 2"}},
  };
  for (const Spoiled& c : cases) {
    SCOPED_TRACE(c.name);
    const std::string path = concat_to_string("mnist/", c.file);
    const std::string whole = read(path);
    write(path, c.content);
    std::vector<std::string> says = c.says;
    says.push_back(path);
    expect_refusal(train(), 66, says);
    write(path, whole);
  }
}

TEST_F(Cli, WrongTablesAreRefusedAtTheirLine) {
  struct Table {
    const char* name;
    std::string content;
    std::vector<std::string> says;
  };
  const std::vector<Table> cases = {
      {"ragged row", "a,b,c\n1,2,x\n3,y\n", {"table.csv:3", "3 fields", "got 2"}},
      {"word in a number column", "a,b,c\n1,2,x\n3,four,y\n", {"table.csv:3", "'b'", "'four'"}},
      {"empty", "", {"table.csv", "empty"}},
  };
  write("run.yaml", data("{type: csv, path: table.csv}"));
  for (const Table& c : cases) {
    SCOPED_TRACE(c.name);
    write("table.csv", c.content);
    expect_refusal(taper({"train", "run.yaml", "--out", "r"}), 66, c.says);
  }
  expect_refusal(taper({"train", "run.yaml", "data.path=nowhere.csv"}), 66, {"nowhere.csv"});
}

// --- a run ---

// Trains kTiny into a directory.
class CliRun : public Cli {
 protected:
  CliRun() { write("run.yaml", kTiny); }

  Outcome train(const std::string& config, const std::string& out) const {
    Outcome outcome = taper({"train", config, "--out", out});
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    return outcome;
  }
};

TEST_F(CliRun, WritesItsFiles) {
  const Outcome outcome = train("run.yaml", "r");
  EXPECT_TRUE(std::regex_search(outcome.out, std::regex("test accuracy: +[0-9.]+ %\n$")))
      << outcome.out;

  const std::vector<std::string> metrics = lines_of(read("r/metrics.jsonl"));
  ASSERT_EQ(metrics.size(), 9u);
  const std::string number = "[0-9.e+-]+";
  for (int step = 1; step <= 8; ++step) {
    const std::string expected =
        concat_to_string("\\{\"kind\":\"train\",\"step\":", step, ",\"epoch\":1,\"loss\":", number,
                         ",\"lr\":0\\.1\\}");
    EXPECT_TRUE(std::regex_match(metrics[size_t(step) - 1], std::regex(expected)))
        << metrics[size_t(step) - 1];
  }
  const std::string expected =
      concat_to_string(R"(\{"kind":"eval","step":8,"epoch":1,"split":"test","loss":)", number,
                       ",\"accuracy\":", number, "\\}");
  EXPECT_TRUE(std::regex_match(metrics[8], std::regex(expected))) << metrics[8];

  // one line for the epoch, one for the memory
  EXPECT_EQ(lines_of(read("r/timing.jsonl")).size(), 2u);
  EXPECT_NE(read("r/timing.jsonl").find("\"seconds\":"), std::string::npos);
  EXPECT_NE(read("r/config.yaml").find("batch_size: 64"), std::string::npos);
  // Layer 0 is Flatten. The weights have 784 x 16 and 16 x 10 floats, and there are biases.
  const std::string weights = read("r/model.safetensors");
  EXPECT_GT(weights.size(), 4u * (784 * 16 + 16 + 16 * 10 + 10));
  EXPECT_NE(weights.find("\"1.weight\""), std::string::npos);
}

TEST_F(CliRun, TheSameRunGivesTheSameBytes) {
  train("run.yaml", "a");
  train("run.yaml", "b");
  train("a/config.yaml", "c");
  for (const std::string file : {"metrics.jsonl", "config.yaml", "model.safetensors"}) {
    SCOPED_TRACE(file);
    EXPECT_NE(read("a/" + file), "");
    EXPECT_EQ(read("a/" + file), read("b/" + file));
    EXPECT_EQ(read("a/" + file), read("c/" + file));
  }
}

TEST_F(CliRun, TheNumberOfThreadsChangesNothing) {
  for (const std::string threads : {"1", "3"}) {
    const Outcome outcome = taper({"train", "run.yaml", "threads=" + threads, "model.hidden=[256]",
                                   "train.batch_size=128", "--out", threads});
    EXPECT_EQ(outcome.code, 0) << outcome.err;
  }
  EXPECT_NE(read("1/metrics.jsonl"), "");
  EXPECT_EQ(read("1/metrics.jsonl"), read("3/metrics.jsonl"));
}

TEST_F(CliRun, AnotherSeedGivesAnotherRun) {
  train("run.yaml", "a");
  EXPECT_EQ(taper({"train", "run.yaml", "seed=1", "--out", "b"}).code, 0);
  EXPECT_NE(read("a/metrics.jsonl"), read("b/metrics.jsonl"));
}

TEST_F(CliRun, AnEarlierRunIsKeptAside) {
  train("run.yaml", "r");
  const std::string first = read("r/metrics.jsonl");
  EXPECT_EQ(taper({"train", "run.yaml", "seed=1", "--out", "r"}).code, 0);
  EXPECT_EQ(read("r.1/metrics.jsonl"), first);
  EXPECT_NE(read("r/metrics.jsonl"), first);
}

TEST_F(CliRun, AFileInPlaceOfItsDirectoryIsRefused) {
  write("r", "not a run");
  expect_refusal(taper({"train", "run.yaml", "--out", "r"}), 66, {"'r'", "file"});
  EXPECT_EQ(read("r"), "not a run");
}

TEST_F(CliRun, ALossThatDivergesEndsTheRunWithOneMessage) {
  const Outcome outcome = taper({"train", "run.yaml", "optimizer.lr=1e30", "--out", "r"});
  EXPECT_NE(outcome.code, 0);
  EXPECT_LT(outcome.code, 128) << outcome.err;
  expect_refusal(outcome, outcome.code, {"the loss became", "step", "lr"});
}

// --- exit codes ---

struct Ending {
  int code;
  std::string program;
  std::vector<std::string> arguments;
  std::vector<std::string> says;
};

std::string source_text(const char* path) {
  std::ifstream in(fs::path(TAPER_SOURCE_DIR) / path);
  std::ostringstream out;
  out << in.rdbuf();
  return out.str();
}

// Code 1 is covered below, 74 and 75 by the tests of interrupted runs and full disks.
TEST_F(CliRun, EveryExitCodeHasAWayToIt) {
  const std::vector<Ending> endings = {
      {0, "taper", {"info"}, {}},
      {0,
       "taper",
       {"train", "run.yaml", "device=cpu", "train.graph=on", "--out", "g"},
       {"steps run without a CUDA graph: the run is on the CPU"}},
      {2, "taper", {"train", "run.yaml", "train.epochs=0"}, {"train.epochs"}},
      {65, "taper", {"train", "run.yaml", "optimizer.lr=1e30", "--out", "r"}, {"became"}},
      {66, "taper", {"eval", "nowhere"}, {"'nowhere'", "config.yaml"}},
      {69, "taper", {"train", "run.yaml", "device=cuda:63"}, {"cuda:63"}},
      // An exception other than Error from a user's component counts as a bug of the component.
      {70,
       kCustomProgram,
       {"train", "run.yaml", "model={type: mixer, activation: swish}"},
       {"an exception of type std::out_of_range from the model 'mixer', which is not part of Taper",
        "map::at"}},
      {71,
       "taper",
       {"train", "run.yaml", "model.hidden=[1,16777216,16777216]"},
       {"out of memory", "bytes"}},
  };
  const std::string table = source_text("docs/exit_codes.md");
  for (const Ending& e : endings) {
    SCOPED_TRACE(e.code);
    EXPECT_NE(table.find(concat_to_string("\n| ", e.code, " | ")), std::string::npos);
    const Outcome outcome = taper(e.arguments, e.program);
    if (e.code == 0) {
      EXPECT_EQ(outcome.code, 0) << outcome.err;
    } else {
      expect_refusal(outcome, e.code, e.says);
    }
  }
  for (const int code : {1, 74, 75})
    EXPECT_NE(table.find(concat_to_string("\n| ", code, " | ")), std::string::npos);
}

// Returns the numbers that follow each match of the pattern, which has one group.
std::set<std::string> numbers_in(const std::string& text, const std::string& pattern) {
  const std::regex matcher(pattern);
  std::set<std::string> out;
  for (std::sregex_iterator it(text.begin(), text.end(), matcher); it != std::sregex_iterator();
       ++it) {
    out.insert((*it)[1]);
  }
  return out;
}

TEST_F(CliRun, TheTableAndTheHelpHaveEveryExitCode) {
  const std::set<std::string> codes =
      numbers_in(source_text("apps/runner/base/errors.h"), R"(kExit\w+ = (\d+),)");
  EXPECT_TRUE(codes.count("3") && codes.count("76")) << codes.size();
  std::set<std::string> listed = numbers_in(source_text("docs/exit_codes.md"), R"(\n\| (\d+) \| )");
  EXPECT_EQ(listed, codes);
  std::string help = taper({"--help"}).out;
  help.erase(0, help.find("Exit codes:"));
  EXPECT_EQ(numbers_in(help, R"((?:: |;\s)(\d+)\s)"), codes) << help;
}

// Data from which nothing can be learned are refused before the run begins. Suspicious data are
// reported.
TEST_F(CliRun, DataThatTeachNothingAreRefusedOrNamed) {
  const auto idx = [](const std::vector<int>& sizes, const std::string& bytes) {
    std::string out = {0, 0, 8, char(sizes.size())};
    for (const int n : sizes) out += {0, 0, 0, char(n)};
    return out + bytes;
  };
  write("images", idx({6, 2, 2}, std::string("abcdefghijklmnopqrstuvwx")));
  write("labels", idx({6}, {1, 2, 3, 1, 2, 3}));
  write("unlabelled", idx({6}, {1, 2, 3, 1, 2, char(255)}));
  write("same", idx({6}, {4, 4, 4, 4, 4, 4}));
  write("one.csv", "x,y\n1,a\n2,a\n3,a\n4,a\n5,a\n6,a\n");
  write("flat.csv", "x,y\n1,2\n2,2\n3,2\n4,2\n5,2\n6,2\n");
  std::string real = "x,price,id,name\n";
  for (int i = 0; i < 24; ++i) {
    real += concat_to_string(i, ",", i / 2, ".5,", i, ",", i % 2 ? "a" : "b",
                             std::string(size_t(i / 2), 'c'), "\n");
  }
  write("real.csv", real);
  write("empty.csv", "x,e,y\n1,,a\n2,,b\n3,,a\n4,,b\n5,,a\n6,,b\n");
  const auto images = [](const std::string& labels) {
    return concat_to_string("data={type: idx, train_images: images, train_labels: ", labels,
                            ", test_images: images, test_labels: ", labels, "}");
  };
  const auto table = [](const std::string& file, const std::string& more = "") {
    return concat_to_string("data={type: csv, path: ", file, ", test_fraction: 0.5", more, "}");
  };
  struct Case {
    int code;
    std::vector<std::string> settings, says;
  };
  const std::vector<Case> cases = {
      {65, {images("same")}, {"same: all labels are 4", "nothing to learn"}},
      {65, {images("unlabelled")}, {"unlabelled: record 5", "has the label 255"}},
      {0, {images("labels")}, {"labels: labels go to 3", "1 of them never come (the first is 0)"}},
      {65, {table("one.csv")}, {"one.csv: column 'y' has the one value 'a'", "nothing to learn"}},
      {65, {table("flat.csv", ", task: regression")}, {"'y' has the one value 2"}},
      {0,
       {table("empty.csv", ", missing: mean")},
       {"1 feature column(s) are empty", "tell nothing: 'e'"}},
      {0,
       {table("real.csv", ", label: price, categories: one_hot")},
       {"column 'price' has 12 different values in 24 rows, some with decimals, and each is a "
        "class: task: regression?"}},
      {0,
       {table("real.csv", ", label: id, categories: one_hot")},
       {"column 'id' has 24 different values in 24 rows, and each is a class: task: regression?"}},
      {0, {table("real.csv", ", label: name")}, {"'name' has 24 different", "is it the label?"}},
      {0,
       {"schedule={type: cosine, warmup: 100}"},
       {"warmup is 100 steps, but the run has only 8"}},
  };
  for (size_t i = 0; i < cases.size(); ++i) {
    std::vector<std::string> words = {"train", "run.yaml", "--out", concat_to_string("taught", i)};
    words.insert(words.end(), cases[i].settings.begin(), cases[i].settings.end());
    const Outcome outcome = taper(words);
    EXPECT_EQ(outcome.code, cases[i].code) << outcome.err;
    for (const std::string& part : cases[i].says) {
      EXPECT_NE(outcome.err.find(part), std::string::npos) << part << " in:\n" << outcome.err;
    }
  }
}

// --- commands ---

TEST_F(CliRun, PrintConfigReadBackGivesTheSameBytes) {
  const Outcome first = taper({"train", "run.yaml", "train.batch_size=32", "--print-config"});
  EXPECT_EQ(first.code, 0) << first.err;
  EXPECT_NE(first.out.find("batch_size: 32  # command line: train.batch_size=32"),
            std::string::npos)
      << first.out;
  EXPECT_NE(first.out.find("shuffle: true  # default"), std::string::npos) << first.out;
  EXPECT_FALSE(fs::exists(directory_ / "runs"));
  write("back.yaml", first.out);
  const Outcome again = taper({"train", "back.yaml", "--print-config"});
  const auto values = [](const std::string& text) {
    return std::regex_replace(text, std::regex("  # [^\n]*"), "");
  };
  EXPECT_EQ(values(first.out), values(again.out));
}

TEST_F(CliRun, ValidateAndDryRunLeaveNothing) {
  const Outcome validated = taper({"train", "run.yaml", "device=cuda:9", "--validate"});
  EXPECT_EQ(validated.code, 0) << validated.err;
  EXPECT_NE(validated.out.find("steps: 8, 8 per epoch"), std::string::npos) << validated.out;
  const Outcome dry = taper({"train", "run.yaml", "--dry-run"});
  EXPECT_EQ(dry.code, 0) << dry.err;
  EXPECT_NE(dry.out.find("same bits"), std::string::npos) << dry.out;
  EXPECT_FALSE(fs::exists(directory_ / "runs"));
  write("wrong.yaml", instead_of("model:", "model: {type: sequential, layers: [linear: 10]}"));
  expect_refusal(taper({"train", "wrong.yaml", "--validate"}), 2, {"wrong.yaml:3:"});
}

TEST_F(CliRun, WithoutOutARunHasADirectoryOfItsOwn) {
  const Outcome outcome = taper({"train", "run.yaml"});
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  std::smatch found;
  ASSERT_TRUE(std::regex_search(outcome.out, found,
                                std::regex("run: +(runs/run/[0-9]{8}-[0-9]{6}-[0-9a-f]{4})\n")))
      << outcome.out;
  EXPECT_TRUE(fs::exists(directory_ / found[1].str() / "exit.json"));
  expect_refusal(taper({"train", "run.yaml", "--resume", "auto"}), 2, {"--out"});
}

TEST_F(CliRun, AFinishedRunIsUsedByItsDirectory) {
  train("run.yaml", "r");
  const Outcome evaluated = taper({"eval", "r", "device=cpu"});
  EXPECT_EQ(evaluated.code, 0) << evaluated.err;
  EXPECT_NE(evaluated.out.find("samples:         128\ntest loss: "), std::string::npos);
  write("images", idx({2, 28, 28}, std::string(2 * 28 * 28, 'x')));
  const Outcome predicted = taper({"predict", "r", "images"});
  EXPECT_EQ(predicted.code, 0) << predicted.err;
  EXPECT_EQ(lines_of(predicted.out).size(), 3u) << predicted.out;
  EXPECT_TRUE(predicted.out.starts_with("prediction,p_0,p_1,")) << predicted.out;
  expect_refusal(taper({"predict", "r", "nothing"}), 66, {"nothing"});
  expect_refusal(taper({"generate", "r"}), 2, {"is not a language model"});
}

TEST_F(CliRun, ATextModelWrites) {
  std::string text;
  for (int i = 0; i < 100; ++i) text += "abcd.\n";
  write("text.txt", text);
  write("text.yaml",
        "device: cpu\ndata: {type: text, path: text.txt, block_size: 8}\n"
        "model: {type: gpt, n_layer: 1, n_head: 2, n_embd: 16}\n"
        "optimizer: {type: adamw, lr: 0.02}\ntrain: {steps: 40, batch_size: 16}\n"
        "checkpoint: {every: 1000}\n");
  train("text.yaml", "t");
  const Outcome written =
      taper({"generate", "t", "--prompt", "ab", "--tokens", "4", "--temperature", "0"});
  EXPECT_EQ(written.code, 0) << written.err;
  EXPECT_EQ(written.out, "abcd.\n");
  const std::string samples = read("t/samples.txt");
  EXPECT_NE(samples.find("abcd."), std::string::npos) << samples;
  EXPECT_EQ(taper({"report", "t"}).code, 0);
  EXPECT_NE(read("report.html").find("\"samples\":\"abcd."), std::string::npos);
}

TEST_F(CliRun, AModelOtherThanTheRunsIsNamed) {
  train("run.yaml", "a");
  expect_refusal(taper({"eval", "a", "model.hidden=[3]"}), 66,
                 {"the run was trained with a different model (then | now):\n  model.hidden.0: "});
}

TEST_F(CliRun, TheGateGoesThroughTheProgram) {
  train("run.yaml", "a");
  EXPECT_EQ(taper({"record", "a", "--to", "golden.json", "--tolerance", "loss=1e-6"}).code, 0);
  const Outcome same = taper({"check", "a", "--against", "golden.json"});
  EXPECT_EQ(same.code, 0) << same.out << same.err;
  EXPECT_EQ(taper({"reproduce", "a"}).code, 0);
  EXPECT_EQ(taper({"train", "run.yaml", "optimizer.lr=0.11", "--out", "b"}).code, 0);
  const Outcome other = taper({"check", "b", "--against", "golden.json"});
  EXPECT_EQ(other.code, 1) << other.out << other.err;
  EXPECT_NE(other.out.find("step"), std::string::npos) << other.out;
  EXPECT_EQ(taper({"diff", "a", "b"}).code, 1);
  EXPECT_EQ(taper({"report", "a", "b", "--to", "both.html"}).code, 0);
  EXPECT_TRUE(read("both.html").starts_with("<!DOCTYPE html>"));
}

TEST_F(Cli, SchemaAndReferenceArePrinted) {
  const Outcome schema = taper({"schema"});
  EXPECT_EQ(schema.code, 0) << schema.err;
  EXPECT_TRUE(schema.out.starts_with("{")) << schema.out;
  const Outcome page = taper({"schema", "--markdown"});
  EXPECT_NE(page.out.find("epochs"), std::string::npos) << page.out;
}

TEST_F(CliRun, AProgramWithItsOwnModelIsTheWholeProgram) {
  write("own.yaml", instead_of("model:", "model: {type: mixer, width: 8, activation: tanh}"));
  const Outcome trained = taper({"train", "own.yaml", "--out", "own"}, kCustomProgram);
  EXPECT_EQ(trained.code, 0) << trained.err;
  EXPECT_EQ(taper({"eval", "own"}, kCustomProgram).code, 0);
  expect_refusal(taper({"eval", "own"}), 2,
                 {"own/config.yaml:", "model.type: expected one of mlp", "'mixer'",
                  "that a program registers"});
}

}  // namespace
}  // namespace taper::v0::runner
