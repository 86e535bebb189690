// Commands for a trained run that need only its directory: eval, predict, generate; and validate.
#include <cmath>
#include <sstream>

#include "apps/runner/base/errors.h"
#include "apps/runner/commands/commands.h"
#include "apps/runner/run/run_directory.h"
#include "apps/runner/train/train.h"
#include "apps/runner/train/validate.h"
#include "autograd/node.h"
#include "autograd/ops/index/index_ops.h"
#include "autograd/ops/index/inplace.h"
#include "autograd/ops/reduce_ops.h"
#include "framework/base/log.h"
#include "framework/factory/factories.h"
#include "tests/data_files.h"

namespace taper::v0::runner {
namespace {

namespace fs = std::filesystem;

class RunTest : public DataFiles {
 protected:
  // Trains the config `text` and returns the run's directory.
  fs::path trained(const std::string& text) const {
    const fs::path dir = directory_ / "run";
    train(load_config(write("run.yaml", concat_to_string("device: cpu\n", text)), {}), dir);
    return dir;
  }
  SavedRun run_of(const std::string& text) const { return open_run(trained(text), {}); }
};

std::vector<std::vector<std::string>> cells_of(const std::string& csv) {
  std::vector<std::vector<std::string>> rows;
  std::istringstream lines(csv);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream cells(line);
    rows.emplace_back();
    for (std::string cell; std::getline(cells, cell, ',');) rows.back().push_back(cell);
  }
  return rows;
}

// A table with two features and three classes, which the first feature separates.
std::string flowers(int rows) {
  std::string out = "size,colour,kind\n";
  const char* kinds[] = {"rose", "iris", "lily, white"};
  for (int i = 0; i < rows; ++i) {
    out += concat_to_string(10 * (i % 3) + i % 4, ",", i % 5, ",\"", kinds[i % 3], "\"\n");
  }
  return out;
}
std::string flower_run(const std::string& path) {
  return concat_to_string("data: {type: csv, path: ", path,
                          "}\nmodel: {type: mlp, hidden: [16]}\noptimizer: {type: adam, lr: 0.05}\n"
                          "train: {epochs: 20, batch_size: 16}\ncheckpoint: {every: 1000}\n");
}

// For raw tensors, the results are those that `taper predict` prints for files.
TEST_F(RunTest, ARunPredictsOfTensors) {
  const auto expect_printed = [](const SavedRun& run, const std::string& file, const Tensor& raw) {
    const Tensor y = run.predict(raw);
    const auto rows = cells_of(predict(run, file));
    ASSERT_EQ(y.size(0), int64_t(rows.size()) - 1);
    for (int64_t i = 0; i < y.size(0); ++i) {
      const std::vector<std::string>& row = rows[size_t(i) + 1];  // its last cells are numbers
      for (int64_t k = 0; k < y.size(1); ++k) {
        const double printed = std::stod(row[row.size() - size_t(y.size(1) - k)]);
        EXPECT_NEAR(y[i][k].item<double>(), printed, 1e-5 * std::abs(printed) + 1e-6);
      }
    }
  };
  const SavedRun kinds = run_of(flower_run(write("flowers.csv", flowers(90))));
  const std::string rows = write("new.csv", "size,colour\n1,2\n12,0\n23,4\n");
  const Tensor raw = tensor({{1.0, 2.0}, {12.0, 0.0}, {23.0, 4.0}});
  expect_printed(kinds, rows, raw);
  expect_printed(kinds, rows, raw.to(kFloat64));
  EXPECT_EQ(kinds.info.class_names[size_t(argmax(kinds.predict(raw), 1)[0].item<int64_t>())],
            "rose");
  EXPECT_FALSE(kinds.predict(raw).requires_grad());
  EXPECT_EQ(kinds.predict(zeros({0, 2})).shape(), (Shape{0, 3}));
  for (const Tensor& wrong : {zeros({2}), zeros({1, 3}), zeros({1, 2, 1}), zeros({})}) {
    const std::string said = refusal_of<ValueError>([&] { (void)kinds.predict(wrong); });
    EXPECT_NE(said.find("expected a batch of samples of shape [2], but got"), said.npos) << said;
  }
  const std::string said = refusal_of<TypeError>([&] {
    (void)kinds.predict(zeros({1, 2}, {.dtype = kInt64}));
  });
  EXPECT_NE(said.find("expected raw samples of float32, but got int64"), said.npos) << said;

  std::string prices = "x,price\n";
  for (int i = 0; i < 60; ++i)
    prices += concat_to_string(i % 10, ",", 100000 + 5000 * (i % 10), "\n");
  expect_printed(
      run_of(concat_to_string("data: {type: csv, path: ", write("prices.csv", prices),
                              ", task: regression, scale_target: true}\n"
                              "model: {type: mlp, hidden: [4]}\noptimizer: {type: adam}\n"
                              "train: {epochs: 3, batch_size: 20}\n")),
      write("new.csv", "x\n0\n4.5\n"), tensor({{0.0}, {4.5}}));
}

TEST_F(RunTest, PredictsClassesWithTheirProbabilities) {
  const SavedRun run = run_of(flower_run(write("flowers.csv", flowers(90))));
  const std::string csv = predict(run, write("new.csv", "size,colour\n1,2\n12,0\n23,4\n"));
  const auto rows = cells_of(csv);
  ASSERT_EQ(rows.size(), 4u);
  EXPECT_EQ(csv.substr(0, csv.find('\n')), "prediction,p_iris,\"p_lily, white\",p_rose");
  EXPECT_EQ(rows[1][0], "rose");
  EXPECT_EQ(rows[2][0], "iris");
  EXPECT_TRUE(csv.find("\n\"lily, white\",") != std::string::npos) << csv;
  EXPECT_NEAR(std::stod(rows[2][1]) + std::stod(rows[2][2]) + std::stod(rows[2][3]), 1, 1e-5);
}

TEST_F(RunTest, PredictsValuesInTheirOwnUnit) {
  std::string table = "x,price\n";
  for (int i = 0; i < 100; ++i)
    table += concat_to_string(i % 10, ",", 100000 + 5000 * (i % 10), "\n");
  const SavedRun run = run_of(
      concat_to_string("data: {type: csv, path: ", write("prices.csv", table),
                       ", task: regression, scale_target: true}\nmodel: {type: mlp, hidden: []}\n"
                       "optimizer: {type: sgd, lr: 0.1}\ntrain: {epochs: 60, batch_size: 20}\n"));
  const auto rows = cells_of(predict(run, write("new.csv", "x\n0\n4.5\n9\n")));
  ASSERT_EQ(rows.size(), 4u);
  EXPECT_EQ(rows[0], std::vector<std::string>{"prediction"});
  EXPECT_NEAR(std::stod(rows[1][0]), 100000, 500);
  EXPECT_NEAR(std::stod(rows[2][0]), 122500, 500);
  EXPECT_NEAR(std::stod(rows[3][0]), 145000, 500);
}

TEST_F(RunTest, EvaluatesAsTheTrainerDidAndOnOtherData) {
  const fs::path dir = trained(flower_run(write("flowers.csv", flowers(90))));
  const SavedRun run = open_run(dir, {});
  std::ifstream metrics(dir / "metrics.jsonl");
  std::string last;
  for (std::string line; std::getline(metrics, line);) last = line;
  const size_t at = last.find("\"loss\":") + 7;
  char loss[32];
  std::snprintf(loss, sizeof loss, "%.4f", std::stod(last.substr(at)));
  const std::string text = evaluate_run(run);
  EXPECT_NE(text.find(concat_to_string("test loss:       ", loss, "\n")), std::string::npos)
      << text << last;
  const std::string more = evaluate_run(run, write("more.csv", flowers(30)));
  EXPECT_NE(more.find("samples:         30\n"), std::string::npos) << more;
  EXPECT_NE(more.find("test accuracy:   100.00 %"), std::string::npos) << more;
  EXPECT_NE(refusal_of<InputError>([&] {
              (void)evaluate_run(run, write("bare.csv", "size,colour\n1,2\n"));
            }).find("no labels"),
            std::string::npos);
  write("flowers.csv", "size,colour,kind\n1,2,tulip\n2,3,rose\n3,4,rose\n4,5,rose\n5,6,rose\n");
  EXPECT_NE(refusal_of<InputError>([&] { (void)evaluate_run(run); }).find("data.json"),
            std::string::npos);
}

TEST_F(RunTest, WithoutItsFilesARunIsRefusedByName) {
  const fs::path dir = trained(flower_run(write("flowers.csv", flowers(30))));
  const auto refusal = [&] { return refusal_of<InputError>([&] { (void)open_run(dir, {}); }); };
  const fs::path best = dir / "checkpoints/best";
  EXPECT_EQ(refusal_of<InputError>([&] { verify_run(best); }),
            concat_to_string("'", best.string(),
                             "' is a checkpoint, not a run's directory; give the run, '",
                             dir.string(), "'"));
  EXPECT_NE(refusal_of<InputError>([&] {
              (void)open_run(directory_ / "none", {});
            }).find("is not a run's directory"),
            std::string::npos);
  fs::remove(dir / "model.safetensors");
  EXPECT_NE(refusal().find("model.safetensors"), std::string::npos) << refusal();
  fs::remove(dir / "CRC32");         // as in a run of an older version
  EXPECT_EQ(refusal(), "accepted");  // the weights of a checkpoint are used
  write("run/model.safetensors", "damaged");
  EXPECT_NE(refusal().find("model.safetensors"), std::string::npos) << refusal();
  fs::remove(dir / "model.safetensors");
  fs::remove_all(dir / "checkpoints");
  EXPECT_NE(refusal().find("no weights"), std::string::npos) << refusal();
  write("run/data.json", "{");
  EXPECT_NE(refusal().find("data.json"), std::string::npos) << refusal();
}

class TextRunTest : public RunTest {
 protected:
  std::string gpt(const std::string& data, int steps) const {
    return concat_to_string("data: {type: text, path: ", data, ", block_size: 8}\n",
                            "model: {type: gpt, n_layer: 1, n_head: 2, n_embd: 32}\n"
                            "optimizer: {type: adamw, lr: 0.01}\ntrain: {steps: ",
                            steps, ", batch_size: 16}\ncheckpoint: {every: 1000}\n");
  }
};

TEST_F(TextRunTest, WritesWhatItLearned) {
  std::string text;
  for (int i = 0; i < 200; ++i) text += "abcd.\n";
  const SavedRun run = run_of(gpt(write("text.txt", text), 60));
  GenerateOptions o{.prompt = "ab", .tokens = 16, .temperature = 0};
  EXPECT_EQ(generate(run, o), "abcd.\nabcd.\nabcd.\n");
  o.prompt = "";
  EXPECT_EQ(generate(run, o), "abcd.\nabcd.\nabcd\n");
  o = {.prompt = "a", .tokens = 50, .temperature = 5, .seed = 7};
  const std::string wild = generate(run, o);
  EXPECT_EQ(wild, generate(run, o));
  EXPECT_GE(wild.size(), 51u);
  o.seed = 8;
  EXPECT_NE(wild, generate(run, o));
  o = {.prompt = "ab", .tokens = 4, .temperature = 5, .top_k = 1};
  EXPECT_EQ(generate(run, o), "abcd.\n");
  o.prompt = "xyz";
  EXPECT_NE(refusal_of<ConfigError>([&] { (void)generate(run, o); }).find("the prompt"),
            std::string::npos);
  EXPECT_NE(refusal_of<InputError>([&] { (void)predict(run, "text.txt"); }).find("prompt"),
            std::string::npos);
}

TEST_F(TextRunTest, StopsDrawsFromTheNucleusAndWritesSeveralSamples) {
  std::string text;
  for (int i = 0; i < 200; ++i) text += "abcd.\n";
  const SavedRun run = run_of(gpt(write("text.txt", text), 60));
  GenerateOptions o{.prompt = "ab", .tokens = 16, .temperature = 0, .stop = {"xx", "d.\na", "a"}};
  EXPECT_EQ(generate(run, o), "\n");  // a stop text in the prompt
  o.stop = {"xx", "d.\na"};
  EXPECT_EQ(generate(run, o), "abc\n");
  o.stop = {"z"};
  EXPECT_EQ(generate(run, o), "abcd.\nabcd.\nabcd.\n");
  o = {.prompt = "ab", .tokens = 4, .temperature = 5, .top_p = 1e-9, .samples = 2};
  EXPECT_EQ(generate(run, o), "sample 1:\nabcd.\nsample 2:\nabcd.\n");
  o = {.prompt = "", .tokens = 2, .temperature = 0, .start = "b"};
  EXPECT_EQ(generate(run, o), "cd\n");
  o.start = "bc";
  EXPECT_NE(refusal_of<ConfigError>([&] { (void)generate(run, o); }).find("one token"),
            std::string::npos);
}

TEST_F(TextRunTest, DocumentsEndAndAnotherTextIsMeasured) {
  std::string text;
  for (int i = 0; i < 200; ++i) text += "{\"text\": \"abcd\"}\n";
  const SavedRun run = run_of(gpt(write("text.jsonl", text), 60));
  EXPECT_EQ(generate(run, {.prompt = "", .tokens = 16, .temperature = 0}), "abcd\n");
  EXPECT_NE(evaluate_run(run, write("other.jsonl", text)).find("samples:         124\n"),
            std::string::npos)
      << evaluate_run(run, write("other.jsonl", text));
}

TEST_F(TextRunTest, SamplesAreLoggedDuringTheTraining) {
  std::string text;
  for (int i = 0; i < 200; ++i) text += "abcd.\n";
  std::string config = gpt(write("text.txt", text), 4), said;
  config.replace(config.find("train: {"), 8, "train: {sample_every: 2, ");
  const std::vector<float> plain =
      run_of(gpt(write("text.txt", text), 4)).model->parameters()[0].to_floats();
  fs::remove_all(directory_ / "run");
  const LogGuard guard([&](LogLevel, const std::string& line) {
    said += line;
    return false;
  });
  const SavedRun run = run_of(config);
  EXPECT_NE(said.find("sample after step 2:\n"), std::string::npos) << said;
  EXPECT_NE(said.find("sample after step 4:\n"), std::string::npos) << said;
  EXPECT_EQ(run.model->parameters()[0].to_floats(), plain);
}

TEST_F(TextRunTest, BeginsWithATokenOfTheVocabularyWhereNoLineEnds) {
  std::string text;
  for (int i = 0; i < 200; ++i) text += "abcd.";
  const SavedRun run = run_of(gpt(write("text.txt", text), 60));
  EXPECT_EQ(generate(run, {.prompt = "", .tokens = 6, .temperature = 0}), "abcd.a\n");
}

TEST_F(TextRunTest, RefusesAModelThatGivesNan) {
  std::string text;
  for (int i = 0; i < 200; ++i) text += "abcd.\n";
  const SavedRun run = run_of(gpt(write("text.txt", text), 1));
  const NoGradGuard no_grad;
  for (const NamedTensor& p : run.model->named_parameters()) p.tensor.fill_(NAN);
  for (const double temperature : {0.0, 1.0}) {
    const GenerateOptions o{.prompt = "ab", .tokens = 4, .temperature = temperature};
    EXPECT_NE(refusal_of<DataError>([&] {
                (void)generate(run, o);
              }).find("returns nan or inf for the next token"),
              std::string::npos);
  }
}

TEST_F(TextRunTest, WritesLinesWhereLinesWereLearned) {
  std::string text;
  for (int i = 0; i < 60; ++i) text += "anna\nbo\n";
  std::string config = gpt(write("names.txt", text), 60);
  config.replace(config.find("block_size: 8"), 13, "block_size: 8, lines: true");
  const SavedRun run = run_of(config);
  std::istringstream lines(generate(run, {.prompt = "", .tokens = 60, .temperature = 0.5}));
  std::string line;
  for (int i = 0; i < 8 && std::getline(lines, line); ++i) {
    EXPECT_TRUE(line == "anna" || line == "bo") << line;
  }
}

// --- validate ---

TEST_F(RunTest, ValidateCountsWhatTheRunWillTake) {
  const std::string text = validate(load_config(
      write("run.yaml",
            "data: {type: digits, train_size: 1000, test_size: 100}\nmodel: {type: cnn}\n"
            "device: cuda:7\noptimizer: {type: adam}\n"
            "train: {epochs: 3, batch_size: 64, accumulate: 2, ema: {decay: 0.9}}\n"),
      {}));
  const auto memory = [](std::string name, const std::string& amount) {
    name.resize(30 - amount.size(), ' ');
    return name + amount + " MiB";
  };
  // 1,199,882 parameters in float32; Adam has two more numbers for each (and its counts).
  for (const std::string& part :
       {std::string("parameters: 1,199,882"), std::string("Conv2d 0     [2, 32, 26, 26]"),
        memory("gradients", "4.58"), memory("optimizer state", "9.15"), memory("averages", "4.58"),
        std::string("of 64 samples"), std::string("of 1000 training and 100 test samples"),
        std::string("steps: 24, 8 per epoch")}) {
    EXPECT_NE(text.find(part), std::string::npos) << part << " in:\n" << text;
  }
}

TEST_F(RunTest, AModelWithoutParametersIsRefusedByValidateAsByTrain) {
  const RunConfig c = load_config(
      write("run.yaml",
            concat_to_string("device: cpu\ndata: {type: csv, path: ",
                             write("rows.csv", "x,y\n1,2\n2,4\n3,6\n4,8\n"),
                             ", task: regression}\nmodel: {type: sequential, layers: [relu]}\n"
                             "optimizer: {type: sgd}\ntrain: {epochs: 1}\n")),
      {});
  const std::string says = "the model has no parameters to train";
  EXPECT_EQ(refusal_of<ConfigError>([&] { (void)validate(c); }), says);
  EXPECT_EQ(refusal_of<ConfigError>([&] { train(c, directory_ / "run"); }), says);
}

TEST_F(RunTest, ValidateReadsOnlyTheHeadersOfMnist) {
  for (const std::string half : {"train", "t10k"}) {
    const std::string header{0, 0, 8, 3, 0, 0, 0x13, char(0x88), 0, 0, 0, 9, 0, 0, 0, 7};
    write(half + "-images-idx3-ubyte", header);  // without the 5000 images
    write(half + "-labels-idx1-ubyte", "");
  }
  const std::string text = validate(load_config(
      write("run.yaml",
            concat_to_string("data: {type: mnist, root: ", directory_.string(),
                             "}\nmodel: {type: mlp, hidden: [4]}\noptimizer: {type: sgd}\n"
                             "train: {steps: 7, batch_size: 100}\n")),
      {}));
  EXPECT_NE(text.find("5000 training"), std::string::npos) << text;
  EXPECT_NE(text.find("steps: 7, 50 per epoch"), std::string::npos) << text;
}

}  // namespace
}  // namespace taper::v0::runner
