// ONNX Runtime computes, from the raw samples, the same numbers that `taper predict` prints.
#include <fstream>
#include <limits>
#include <sstream>

#include "apps/runner/base/errors.h"
#include "apps/runner/commands/commands.h"
#include "apps/runner/train/train.h"
#include "autograd/node.h"
#include "autograd/ops/binary_ops.h"
#include "framework/factory/factories.h"
#include "framework/io/archive.h"
#include "framework/io/npy.h"
#include "framework/io/pt.h"
#include "modules/onnx/onnx.h"
#include "tests/data_files.h"
#include "tests/onnx/run_onnx.h"

namespace taper::v0::runner {
namespace {

namespace fs = std::filesystem;

class ExportTest : public DataFiles {
 protected:
  ExportTest() {
    cases_ = directory_ / "cases";
    fs::create_directories(cases_);
  }

  SavedRun trained(const std::string& name, const std::string& text) const {
    const fs::path dir = directory_ / name;
    train(load_config(
              write("run.yaml", concat_to_string("device: cpu\noptimizer: {type: adam}\n", text)),
              {}),
          dir);
    return open_run(dir, {});
  }

  // Exports NAME.onnx and writes raw samples and the expected results for run_onnx.py.
  void add(const std::string& name, const SavedRun& run, const Tensor& raw, const std::string& port,
           const Tensor& want) const {
    const std::string start = (cases_ / name).string();
    const std::string said = export_run(run, "onnx", start + ".onnx");
    EXPECT_TRUE(said.starts_with(concat_to_string("wrote ", start, ".onnx: input ", raw.dtype())))
        << said;
    save_npy(start + ".input.npy", raw);
    save_npy(concat_to_string(start, ".", port, ".npy"), want);
  }
  void run_all() const { test::run_onnx(cases_); }

  fs::path cases_;
};

// Returns the first column of the CSV text that predict returns, or all columns but the first.
Tensor numbers_of(const std::string& csv, bool first) {
  std::vector<float> values;
  std::istringstream lines(csv);
  std::string line;
  std::getline(lines, line);
  int64_t rows = 0;
  for (; std::getline(lines, line); ++rows) {
    std::istringstream cells(line);
    std::string cell;
    for (int i = 0; std::getline(cells, cell, ','); ++i) {
      if (first ? i == 0 : i > 0) values.push_back(std::stof(cell));
    }
  }
  return tensor_of(values.data(), {rows, std::ssize(values) / rows});
}

TEST_F(ExportTest, OnnxRuntimeGivesWhatPredictPrints) {
  if (!has_onnx()) GTEST_SKIP() << "built without ONNX (TAPER_ONNX)";
  // Has missing values, which the mean replaces, and words, which become one-hot features.
  std::string table = "size,colour,kind\n";
  for (int i = 0; i < 60; ++i) {
    table += concat_to_string(i % 7 == 0 ? "" : concat_to_string(10 * (i % 3) + i % 4), ",",
                              i % 2 ? "red" : "blue", ",", i % 3 == 0 ? "rose" : "iris", "\n");
  }
  const SavedRun kinds =
      trained("kinds", concat_to_string("data: {type: csv, path: ", write("kinds.csv", table),
                                        ", missing: mean, categories: one_hot}\n",
                                        "model: {type: mlp, hidden: [16], activation: silu}\n",
                                        "train: {epochs: 3, batch_size: 16}\n"));
  const float nan = std::numeric_limits<float>::quiet_NaN();
  add("kinds", kinds, tensor({{1.F, 1.F, 0.F}, {nan, 0.F, 1.F}, {22.F, 0.F, 1.F}}), "probabilities",
      numbers_of(predict(kinds, write("new.csv", "size,colour\n1,blue\n,red\n22,red\n")), false));

  std::string prices = "x,price\n";
  for (int i = 0; i < 60; ++i)
    prices += concat_to_string(i % 10, ",", 100000 + 5000 * (i % 10), "\n");
  const SavedRun values = trained(
      "values",
      concat_to_string("data: {type: csv, path: ", write("prices.csv", prices),
                       ", task: regression, scale_target: true}\nmodel: {type: mlp, hidden: [4]}\n",
                       "train: {epochs: 3, batch_size: 20}\n"));
  add("values", values, tensor({{0.F}, {4.5F}, {9.F}}), "prediction",
      numbers_of(predict(values, write("new.csv", "x\n0\n4.5\n9\n")), true));

  // Images as bytes.
  const Tensor pixels = remainder(arange(3 * 784) * 37, 256).to(kUInt8).reshape({3, 1, 28, 28});
  std::string idx("\0\0\x08\x03\0\0\0\x03\0\0\0\x1c\0\0\0\x1c", 16);
  idx.append(static_cast<const char*>(pixels.data_ptr()), pixels.nbytes());
  const std::string images = write("images", idx);
  for (const char* model :
       {"{type: mlp, hidden: [16], activation: gelu}", "{type: cnn, channels: [4, 8], hidden: 8}",
        "{type: resnet18, width: 2}", "{type: resnet50, width: 2}", "{type: resnet9, width: 2}",
        "{type: sequential, layers: [conv2d: {out_channels: 4, kernel_size: 3}, "
        "batch_norm2d, relu, max_pool2d: 2, flatten, linear: 10]}"}) {
    const std::string type = std::string(model).substr(7);
    const std::string name = concat_to_string("digits_", type.substr(0, type.find(',')));
    const SavedRun run = trained(
        name, concat_to_string("data: {type: digits, train_size: 64, test_size: 32}\nmodel: ",
                               model, "\ntrain: {steps: 2, batch_size: 16}\n"));
    add(name, run, pixels, "probabilities", numbers_of(predict(run, images), false));
  }

  std::string text;
  for (int i = 0; i < 200; ++i) text += "abcd.\n";
  const SavedRun gpt = trained(
      "gpt",
      concat_to_string(
          "data: {type: text, path: ", write("text.txt", text), ", block_size: 8}\n",
          "model: {type: gpt, n_layer: 2, n_head: 2, n_embd: 16, bias: false, dropout: 0.1}\n",
          "train: {steps: 3, batch_size: 16}\n"));
  const Tensor tokens = remainder(arange(24) * 5, gpt.info.vocab_size()).reshape({3, 8});
  const NoGradGuard no_grad;
  add("gpt", gpt, tokens, "logits", (*gpt.model)(tokens));
  run_all();
}

// Returns a table with numbers, codes for missing numbers, words, zip codes and dates.
std::string people(bool has_target) {
  std::string out =
      concat_to_string("age,color,zip,born,", has_target ? "kind,price" : "note", "\n");
  for (int i = 0; i < 80; ++i) {
    out += concat_to_string(i % 7 == 0 ? (i % 2 ? "NA" : "") : concat_to_string(20 + i % 9), ",",
                            i % 5 == 0 ? "?"
                            : i % 2    ? "red"
                                       : "sky blue",
                            ",0", 1230 + i % 3, ",", 1990 + i % 30, "-", i % 12 < 9 ? "0" : "",
                            i % 12 + 1, "-1", i % 10);
    out += has_target ? concat_to_string(",", i % 3 ? "rose" : "iris", ",", 100 + i % 13 * 7, "\n")
                      : ",x\n";
  }
  return out;
}

// The graph takes the columns of people() by name.
TEST_F(ExportTest, OnnxRuntimeTakesTheColumnsOfATable) {
  if (!has_onnx()) GTEST_SKIP() << "built without ONNX (TAPER_ONNX)";
  struct Row {
    const char *name, *data, *model, *port;
  };
  constexpr Row kRows[] = {
      {"kinds", "target: kind, columns: {price: ignore}", "tabular", "probabilities"},
      {"values", "target: price, columns: {kind: ignore}", "tabular", "prediction"},
      {"logs", "target: price, log_target: true, columns: {kind: ignore}", "tabular", "prediction"},
      {"mlp", "target: kind, columns: {price: ignore}", "{type: mlp, hidden: [8]}",
       "probabilities"}};
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const std::string rows =
      "age,color,zip,born\n25,red,01231,1992-03-14\n,?,01232,\nNA,green,99999,2019-12-31\n";
  const std::vector<std::pair<std::string, std::vector<double>>> numbers = {
      {"age", {25, nan, nan}}, {"born", {700531200, nan, 1577750400}}};
  const std::vector<std::pair<std::string, std::string>> words = {{"color", "red\n?\ngreen\n"},
                                                                  {"zip", "01231\n01232\n99999\n"}};
  for (const Row& row : kRows) {
    const std::string file = write("people.csv", people(true));
    const SavedRun run =
        trained(row.name, concat_to_string("data: {type: table, path: ", file, ", ", row.data,
                                           "}\nmodel: ", row.model, "\ntrain: {epochs: 2}\n"));
    const std::string start = (cases_ / row.name).string();
    const std::string said = export_run(run, "onnx", start + ".onnx");
    EXPECT_TRUE(said.starts_with(concat_to_string("wrote ", start, ".onnx: 4 columns [batch, 1]")))
        << said;
    for (const auto& [column, values] : numbers) {
      save_npy(concat_to_string(start, ".", column, ".npy"), tensor_of(values.data(), {3, 1}));
    }
    for (const auto& [column, text] : words) {
      std::ofstream(concat_to_string(start, ".", column, ".txt")) << text;
    }
    save_npy(concat_to_string(start, ".", row.port, ".npy"),
             numbers_of(predict(run, write("new.csv", rows)),
                        std::string_view(row.port) == "prediction"));
  }
  run_all();
}

// Each target or label has an output of its name.
TEST_F(ExportTest, SeveralTargetsAreOutputsOfTheirNames) {
  if (!has_onnx()) GTEST_SKIP() << "built without ONNX (TAPER_ONNX)";
  std::string table = "x,z,price,days,red,round\n";
  for (int i = 0; i < 120; ++i) {
    table += concat_to_string(i * 37 % 60, ",", i % 11, ",", 1000 + i * 37 % 60 * 3, ",",
                              1 + i % 11, ",", i % 3 ? "no" : "yes", ",", i % 2, "\n");
  }
  struct Row {
    const char *name, *data;
    std::vector<std::string> outputs;
    int64_t first;  // number of the first column of predictions that is an output
  };
  const Row rows[] = {{"values",
                       "target: [price, days], columns: {red: ignore, round: ignore}",
                       {"price", "days"},
                       0},
                      {"labels",
                       "target: [red, round], columns: {price: ignore, days: ignore}",
                       {"red", "round"},
                       2}};
  const std::vector<double> x = {1, 30, 59}, z = {10, 5, 0};
  for (const Row& row : rows) {
    const SavedRun run = trained(
        row.name, concat_to_string("data: {type: table, path: ", write("t.csv", table), ", ",
                                   row.data, "}\nmodel: tabular\ntrain: {epochs: 2}\n"));
    const std::string start = (cases_ / row.name).string();
    const std::string said = export_run(run, "onnx", start + ".onnx");
    EXPECT_NE(
        said.find(concat_to_string(row.outputs[0], ", ", row.outputs[1], " float32 [batch, 1]")),
        std::string::npos)
        << said;
    save_npy(start + ".x.npy", tensor_of(x.data(), {3, 1}));
    save_npy(start + ".z.npy", tensor_of(z.data(), {3, 1}));
    const std::string csv = predict(run, write("new.csv", "x,z\n1,10\n30,5\n59,0\n"));
    std::vector<float> values[2];
    std::istringstream lines(csv.substr(csv.find('\n') + 1));
    for (std::string line; std::getline(lines, line);) {
      std::istringstream cells(line);
      std::string cell;
      for (int64_t i = 0; std::getline(cells, cell, ','); ++i) {
        if (i >= row.first) values[i - row.first].push_back(std::stof(cell));
      }
    }
    for (size_t k = 0; k < 2; ++k) {
      ASSERT_EQ(values[k].size(), 3u) << csv;
      save_npy(concat_to_string(start, ".", row.outputs[k], ".npy"),
               tensor_of(values[k].data(), {3, 1}));
    }
  }
  run_all();
}

TEST_F(ExportTest, ColumnsOfTextAreRefusedByName) {
  if (!has_onnx()) GTEST_SKIP() << "built without ONNX (TAPER_ONNX)";
  std::string table = "my note,kind\n";
  for (int i = 0; i < 40; ++i) table += concat_to_string("a word ", i, ",", i % 2, "\n");
  const SavedRun run = trained(
      "text",
      concat_to_string("data: {type: table, target: kind, path: ", write("text.csv", table),
                       ", columns: {my note: text}}\n", "model: tabular\ntrain: {epochs: 1}\n"));
  EXPECT_NE(refusal_of<ConfigError>([&] {
              (void)export_run(run, "onnx", directory_ / "x.onnx");
            }).find("column 'my note' is text"),
            std::string::npos);
}

TEST_F(ExportTest, WritesWeightsForPyTorchAndRefusesOtherFormats) {
  const SavedRun run = trained("digits",
                               "data: {type: digits, train_size: 64, test_size: 32}\n"
                               "model: {type: mlp, hidden: [4]}\n"
                               "train: {steps: 1, batch_size: 16}\n");
  const fs::path file = directory_ / "model.pt";
  EXPECT_NE(refusal_of<ConfigError>([&] {
              (void)export_run(run, "coreml", file);
            }).find("--to: expected onnx or pt, got 'coreml'"),
            std::string::npos);
  for (const char* to : {"onnx", "pt"}) {
    EXPECT_NE(refusal_of<OutputError>([&] {
                (void)export_run(run, to, directory_ / "nowhere" / "model");
              }).find("nowhere/model: cannot create the file: No such file or directory"),
              std::string::npos);
  }
  if (!has_zip()) GTEST_SKIP() << "built without libzip (TAPER_ZIP)";
  EXPECT_EQ(export_run(run, "pt", file), concat_to_string("wrote ", file.string(), "\n"));
  EXPECT_EQ(load_pt(file.string()).size(), run.model->state_dict().size());
}

}  // namespace
}  // namespace taper::v0::runner
