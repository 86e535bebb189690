// Invalid input is reported with its position. Valid input is written back with the same bytes.
#include <filesystem>
#include <fstream>
#include <random>

#include <gtest/gtest.h>
#include <unistd.h>

#include "apps/runner/base/errors.h"
#include "apps/runner/config/schema.h"
#include "apps/runner/settings/run_config.h"
#include "data/tables/csv.h"
#include "data/text/text_dataset.h"

namespace taper::v0::runner {
namespace {

namespace fs = std::filesystem;

class ConfigTest : public ::testing::Test {
 protected:
  ConfigTest()
      : directory_(fs::temp_directory_path() / concat_to_string("taper_config_", getpid())) {
    fs::create_directories(directory_);
  }
  ~ConfigTest() override { fs::remove_all(directory_); }

  std::string put(const std::string& name, const std::string& text) const {
    const fs::path path = directory_ / name;
    fs::create_directories(path.parent_path());
    std::ofstream(path, std::ios::binary) << text;
    return path.string();
  }
  std::string file(const std::string& text) const { return put("run.yaml", text); }

  RunConfig load(const std::string& text, const std::vector<std::string>& overrides = {}) const {
    return load_config(file(text), overrides);
  }

  // Returns the error message without the directory, or "" if the text is accepted.
  std::string error_of(const std::string& text,
                       const std::vector<std::string>& overrides = {}) const {
    try {
      load(text, overrides);
      return "";
    } catch (const ConfigError& error) {
      std::string what = error.what();
      const std::string prefix = directory_.string() + "/";
      for (std::size_t i; (i = what.find(prefix)) != std::string::npos;)
        what.erase(i, prefix.size());
      return what;
    }
  }

  fs::path directory_;
};

const std::vector<std::string> kBase = {"data: {type: digits}", "model: {type: mlp}",
                                        "optimizer: {type: sgd}", "train: {epochs: 1}"};

// Returns the smallest config of a run, with one of its four lines replaced.
std::string with_line(std::size_t line, const std::string& text) {
  std::string out;
  for (std::size_t i = 0; i < kBase.size(); ++i) out += (i + 1 == line ? text : kBase[i]) + "\n";
  return out;
}

struct WrongRow {
  // the line that `text` replaces; positions in later lines of `text` count on from there
  std::size_t line;
  std::string text;
  std::string place;
  std::string fragment;
};

const std::vector<WrongRow> kWrong = {
    // Keys.
    {4, "trian: {}", "4:1", "unknown key 'trian'; did you mean 'train'?; known keys: name, seed"},
    {4, "train:\n  batchsize: 3", "5:3",
     "unknown key 'batchsize' in 'train'; did you mean 'batch_size'?"},
    {4, "train: {Batch-Size: 3}", "4:9", "did you mean 'batch_size'?"},
    {4, "train: {num_epochs: 3}", "4:9", "did you mean 'epochs'?"},
    {4, "batch_size: 3", "4:1", "did you mean 'train.batch_size'?"},
    {4, "lr: 3", "4:1", "did you mean 'optimizer.lr'?"},
    {3, "optimizer: {type: sgd, learning_rate: 1}", "3:24", "did you mean 'lr'?"},
    {1, "data: {type: csv, path: a, target: y}", "1:28", "only for type table"},
    {4, "target: y", "4:1", "did you mean 'data.label'?"},
    {4, "train: {patience: 3}", "4:9", "did you mean 'train.early_stopping.patience'?"},
    {4, "train: {metric: loss}", "4:9", "did you mean 'train.early_stopping.metric'?"},
    {4, "train: {monitor: loss}", "4:9", "did you mean 'train.early_stopping.metric'?"},
    {4, "train: {decay: 0.9}", "4:9", "did you mean 'train.ema.decay'?"},
    {4, "train: {grad_clip: 1}", "4:9", "did you mean 'clip_norm'?"},
    {4, "momentun: 0.9", "4:1", "did you mean 'optimizer.momentum'?"},
    {4, "lr_scheduler: {type: step}", "4:1", "did you mean 'schedule'?"},
    {4, "train: {zzzzzz: 3}", "4:9", "unknown key 'zzzzzz' in 'train'; known keys: epochs"},
    {4, "train:\n  epochs: 1\n  epochs: 2", "6:3", "duplicate key 'epochs', first used in line 5"},
    {4, "data: {type: digits}", "4:1", "duplicate key 'data', first used in line 1"},
    {1, "", "2:1",
     "missing key 'data' (training and test data, with a type: digits, mnist, idx, cifar, images, "
     "table, csv, text, npy, series, labeled_text)"},
    {1, "data: {}", "1:1",
     "missing key 'type' in 'data'; one of digits, mnist, idx, cifar, images, table, csv, text, "
     "npy, series, labeled_text (the "
     "path of a .csv, .tsv, .jsonl or .txt file, and that of a folder, implies it)"},
    {1, "data: {type: mnist}", "1:1", "missing key 'root' in 'data'"},
    {1, "data: {type: digits, root: x}", "1:22",
     "key 'root' is not valid for data of type digits, only for type mnist"},
    {3, "optimizer: {type: sgd, betas: [0.9, 0.99]}", "3:24",
     "only for type adam, adamw, adamax, nadam, radam, lion"},
    {1, "data: {type: csv, path: a, test_path: b, test_fraction: 0.1}", "1:42",
     "has no effect if test_path is given"},
    {4, "train: &t {epochs: 1}\ncheckpoint: {<<: *t}", "5:14", "unknown key '<<' in 'checkpoint'"},
    {4, "train: {? [a] : 1}", "4:11", "a key must be a string"},
    {4, "train: {~: 1}", "4:9", "a key must be a string"},
    // Names.
    {1, "data: {type: digit}", "1:14",
     "expected one of digits, mnist, idx, cifar, images, table, csv, text, npy, series, "
     "labeled_text, got "
     "'digit'; did "
     "you mean "
     "'digits'?"},
    {2, "model: {type: MLP}", "2:15", "did you mean 'mlp'?"},
    {2, "model: {type: [mlp]}", "2:15", "got a list"},
    {2, "model: {type: mlp, activation: leakyrelu}", "2:32", "did you mean 'leaky_relu'?"},
    {1, "data: {type: csv, path: a, header: yes}", "1:36", "expected one of auto, present, absent"},
    {4, "device: gpu", "4:9",
     "device: expected auto, cpu, cuda or cuda:N with N from 0 to 63, got 'gpu'"},
    {4, "device: cuda:-1", "4:9", "expected auto, cpu, cuda or cuda:N"},
    {4, "visible_devices: 0 1", "4:18",
     "visible_devices: expected GPU numbers joined by commas, such as \"0\" or \"1,2\""},
    {4, "visible_devices: -1", "4:18", "got '-1'"},
    {4, "visible_devices: '1,1'", "4:18", "each once"},
    {4, "visible_devices: [0, 1]", "4:18", "got a list"},
    {4, "name: a/b", "4:7", "without '/'"},
    {4, "name: |\n  abc", "4:7", "without '/' and control characters, got 'abc\\x0a'"},
    {1, "data: {type: mnist, root: ''}", "1:27", "data.root: expected a path that is not empty"},
    {1, "data: {type: csv, path: a, delimiter: ab}", "1:39", "one character"},
    // Numbers.
    {4, "train: {epochs: 010}", "4:17", "a leading 0 may mean octal or decimal; write 10"},
    {4, "train: {epochs: -007}", "4:17", "write -7"},
    {4, "train: {epochs: 0x10}", "4:17", "write it in decimal"},
    {4, "train: {epochs: 0o17}", "4:17", "write it in decimal"},
    {4, "train: {epochs: 1_000}", "4:17", "write 1000"},
    {4, "train: {epochs: 1e3}", "4:17",
     "expected an integer, at least 1 and at most 1000000000, got '1e3'; write 1000"},
    {4, "train: {epochs: 5.0}", "4:17", "write 5"},
    {4, "train: {epochs: 2.5}", "4:17", "expected an integer"},
    {4, "train: {epochs: '5'}", "4:17", "remove the quotes"},
    {4, "train: {epochs: five}", "4:17", "train.epochs: expected an integer"},
    {4, "train: {epochs: 0}", "4:17", "at least 1"},
    {4, "train: {epochs: 99999999999999999999}", "4:17", "does not fit in 64 bits"},
    {4, "train: {epochs: }", "4:9", "train.epochs: give the run's length"},
    {4, "train:\n  batch_size:", "5:3", "got nothing"},
    {4, "train: {epochs: [1]}", "4:17", "got a list"},
    {4, "train: {epochs: {a: 1}}", "4:17", "got a map"},
    {4, "seed: -1", "4:7", "seed: expected an integer of 0 or more, got '-1'"},
    {4, "seed: 18446744073709551616", "4:7", "does not fit in 64 bits"},
    {3, "optimizer: {type: sgd, lr: 0}", "3:28",
     "optimizer.lr: expected a number, above 0, got '0'"},
    {3, "optimizer: {type: sgd, lr: .inf}", "3:28", "it must be finite"},
    {3, "optimizer: {type: sgd, lr: nan}", "3:28", "it must be finite"},
    {3, "optimizer: {type: sgd, lr: 1e999}", "3:28", "does not fit in a double"},
    {3, "optimizer: {type: sgd, lr: 1e-400}", "3:28",
     "it is so small that a double rounds it to 0"},
    {3, "optimizer: {type: sgd, lr: 1e}", "3:28", "expected a number"},
    {3, "optimizer: {type: sgd, lr: 0.1x}", "3:28", "expected a number"},
    {3, "optimizer: {type: sgd, momentum: 1}", "3:34", "at least 0 and below 1"},
    {3, "optimizer: {type: adam, betas: 0.9}", "3:32", "expected a list of 2 numbers, got '0.9'"},
    {3, "optimizer: {type: adam, betas: [0.9]}", "3:32", "it has 1"},
    {3, "optimizer: {type: adam, betas: [0.9, 1]}", "3:38", "optimizer.betas.1: expected a number"},
    {2, "model: {type: mlp, hidden: wide}", "2:28",
     "model.hidden: expected an integer, at least 1 and at most 16777216, or a list of them"},
    {2, "model: {type: mlp, hidden: [512, 0]}", "2:34",
     "model.hidden.1: expected an integer, at least 1"},
    // Booleans.
    {4, "train: {shuffle: yes}", "4:18",
     "train.shuffle: expected true or false, got 'yes'; write true"},
    {4, "train: {shuffle: Off}", "4:18", "write false"},
    {4, "train: {shuffle: TRUE}", "4:18", "write true"},
    {4, "train: {shuffle: 'true'}", "4:18", "write true"},
    {4, "train: {shuffle: maybe}", "4:18", "expected true or false, got 'maybe'"},
    // Layers.
    {2, "model: {type: sequential}", "2:1", "missing key 'layers' in 'model'"},
    {2, "model: {type: sequential, layers: []}", "2:35",
     "a list of at least one entry, such as a line '- name', got an empty list"},
    {2, "model: {type: sequential, layers: relu}", "2:35", "a list of at least one entry"},
    {2, "model: {type: sequential, layers: [liner: 3]}", "2:36",
     "model.layers.0: expected one of relu, gelu"},
    {2, "model: {type: sequential, layers: [relu, linear]}", "2:42",
     "missing key 'out_features' in 'model.layers.1.linear'"},
    {2, "model: {type: sequential, layers: [linear: 0]}", "2:44",
     "model.layers.0.linear.out_features"},
    {2, "model: {type: sequential, layers: [linear: {outfeatures: 3, out_features: 2}]}", "2:45",
     "did you mean 'out_features'?"},
    {2, "model: {type: sequential, layers: [relu: 3]}", "2:42", "write only the name"},
    {2, "model: {type: sequential, layers: [dropout: 1]}", "2:45", "below 1"},
    {2, "model:\n  type: sequential\n  layers:\n    - linear: 3\n      relu:", "5:7",
     "it has 2 keys, but an entry has a single name"},
    {2, "model: {type: sequential, layers: [[relu]]}", "2:36", "got a list"},
    // Sections and rules.
    {4, "train: 3", "4:8", "train: expected a map with the keys epochs"},
    {4, "train:\n  epochs:3", "5:3", "put a space after ':'"},
    {1, "data: numbers", "1:7",
     "data: expected a type or a map with one: digits, mnist, idx, cifar, images, table, csv, "
     "text, npy, series, labeled_text, "
     "got 'numbers'"},
    {1, "data: mnist", "1:1", "missing key 'root' in 'data'"},
    {3, "optimizer: {type: sgd, nesterov: true}", "3:24",
     "optimizer.nesterov: needs a momentum above 0"},
    {2, "model: {type: sequential, layers: [conv2d: 8]}", "2:36",
     "missing key 'kernel_size' in 'model.layers.0.conv2d' (size of the window)"},
    {2, "model: {type: sequential, layers: [max_pool2d: [2, 3, 4]]}", "2:48",
     "model.layers.0.max_pool2d.kernel_size: expected a list of 2 numbers, got a list; it has 3"},
    {2, "model: {type: sequential, layers: [conv3d: {out_channels: 8, kernel_size: [3, 3]}]}",
     "2:75",
     "model.layers.0.conv3d.kernel_size: expected a list of 3 numbers, got a list; it has 2"},
    {2, "model: {type: sequential, layers: [conv3d: {out_channels: 8, kernel_size: x}]}", "2:75",
     "expected an integer, at least 1 and at most 16777216, or three of them as a list, got 'x'"},
    {2, "model: {type: sequential, layers: [max_pool2d: {kernel_size: 2, padding: same}]}", "2:74",
     "expected an integer, at least 0"},
    {2, "model: {type: sequential, layers: [upsample: {scale_factor: 2, size: 4}]}", "2:47",
     "model.layers.0.upsample.scale_factor: give either scale_factor or size"},
    {2, "model: {type: cnn, channels: [32]}", "2:30", "expected a list of 2 numbers"},
    {2, "model: {type: gpt, n_head: 5}", "2:20", "model.n_head: must divide n_embd"},
    {2, "model: {typ: mlp}", "2:9", "unknown key 'typ' in 'model'; did you mean 'type'?"},
    // Values, and combinations of values.
    {4, "train: {}", "4:1", "train.epochs: give the run's length: 'epochs: 5' or 'steps: 1000'"},
    {4, "train: {epochs: 1, steps: 2}", "4:20",
     "train.steps: give either epochs or steps, not both"},
    {4, "train: {steps: 2, clip_norm: 1, clip_value: 1}", "4:33", "train.clip_value: give either"},
    {4, "train: {steps: 2, time_limit: 2 hours}", "4:31", "expected a time such as 90 (seconds)"},
    {4, "train: {steps: 2, time_limit: -1h}", "4:31", "expected a time"},
    {4, "train: {steps: 2, precision: float16}", "4:30", "expected one of fp32, tf32, bf16, fp16"},
    {4, "train: {steps: 2, ema: 0.9}", "4:24", "train.ema: expected a map with the keys decay"},
    {4, "train: {steps: 2, ema: {decay: 1}}", "4:32", "train.ema.decay: expected a number"},
    {4, "train: {steps: 2, early_stopping: {metric: acuracy}}", "4:44", "did you mean 'accuracy'?"},
    {4, "train: {steps: 2, early_stopping: {metric: top5}}", "4:36",
     "train.early_stopping.metric: is not measured; add it to 'metrics'"},
    {4, "train: {steps: 2, best: {metric: rmse}}", "4:26", "train.best.metric: is not measured"},
    {4, "train: {steps: 2}\nmetrics: [accuracy, rmse]", "5:1", "metrics: not all fit the data"},
    {4, "train: {steps: 2}\nmetrics: [accurate]", "5:11", "did you mean 'accuracy'?"},
    {4, "train: {steps: 2}\nmetrics: {accuracy: true}", "5:10", "got a map"},
    {4, "train: {steps: 2}\nloss: {type: mse}", "5:8", "loss.type: does not fit the data"},
    {4, "train: {steps: 2}\nloss: {type: l1}", "5:8",
     "mse, l1, huber and poisson_nll are for 'task: regression'"},
    {4, "train: {steps: 2}\nloss: mse", "5:7", "loss.type: does not fit the data"},
    {4, "train: {steps: 2}\nloss: [mse]", "5:7", "loss: expected a type or a map with one: "},
    {4, "train: {steps: 2, early_stopping: yes}", "4:35", "expected a map with the keys metric"},
    {4, "train: {steps: 2}\nschedule: {type: cosine, eta_min: 0}", "5:26",
     "did you mean 'min_lr'?"},
    {4, "train: {steps: 2}\nschedule: {type: step}", "5:1", "missing key 'step_size'"},
    {4, "train: {steps: 2}\nschedule: {type: plateau, metric: rmse}", "5:27",
     "schedule.metric: is not measured"},
    {4, "train: {steps: 2}\ncheckpoint: {keep: 0}", "5:20", "checkpoint.keep: expected an integer"},
    {1, "data: {type: csv, path: a, scale_target: true}", "1:28", "is for 'task: regression' only"},
    {1, "data: {type: text, path: a, tokenizer: gpt2}", "1:29", "needs a 'vocabulary'"},
    {1, "data: {type: text, path: a, vocabulary: b}", "1:29", "no effect if the tokenizer is not"},
    {1, "data: {type: digits, workers: 5000}", "1:31", "at most 1024"},
    // YAML itself.
    {4, "---\ntrain: {}", "4:1", "second document"},
    {4, "train: {epochs: 3", "4:8", "not valid YAML: this bracket is never closed"},
    {4, "train: [1", "4:8", "this bracket is never closed"},
    {4, "name: \"ab", "4:1", "a quote opened in this line is never closed"},
    {2, "model: {type: 'mlp}", "2:1", "a quote opened in this line is never closed"},
    {4, "train:\n\tepochs: 3", "5:1", "indent with spaces"},
    {4, "train: {epochs: !!int 3}", "4:17", "tags (!name) are not allowed"},
    {4, "train: &a {epochs: *a}", "4:20", "contains itself"},
    {4, "train: *none", "4:8", "not valid YAML"},
    {4, "name: a\x04\ntrian: 3", "4:8", "control character (byte 4)"},
    {4, "name: \"\xff\"", "4:8", "not UTF-8"},
    {4, "name: {a\xc3\xa9: 1, \xc3\xa9/: 1}", "4:7", "name: expected a name fit for a directory"},
    {4, "name: \xc3\xa9\xc3\xa9/", "4:7", "without '/'"},
    {4, "train: {\xc3\xa9: 1, epochs: x}", "4:23", "expected an integer"},
};

TEST_F(ConfigTest, WrongInputPointsAtItsPlace) {
  EXPECT_EQ(error_of(with_line(0, "")), "");
  for (const WrongRow& row : kWrong) {
    const std::string error = error_of(with_line(row.line, row.text));
    const std::size_t at = error.find("run.yaml:" + row.place + (row.place.empty() ? "" : ": "));
    EXPECT_NE(at, std::string::npos) << row.text << "\n" << error;
    if (at == std::string::npos) continue;
    const std::string rest = error.substr(at, error.find('\n', at) - at);
    EXPECT_NE(rest.find(row.fragment), std::string::npos) << row.text << "\n" << error;
  }
}

TEST_F(ConfigTest, ATypeThatIsNotThereMayBeOfAnotherProgram) {
  const std::string own = "; a type that a program registers is only known to that program";
  for (const char* text : {"data: {type: moons}", "model: {type: mixer}", "loss: {type: focal}",
                           "optimizer: {type: sophia}", "schedule: {type: zigzag}",
                           "model: {type: sequential, layers: [swish]}"}) {
    std::string config = with_line(0, "");
    const std::string key = std::string(text).substr(0, std::string(text).find(':') + 1);
    if (const auto old = config.find(key); old != std::string::npos) {
      config.erase(old, config.find('\n', old) + 1 - old);
    }
    const std::string error = error_of(config + text + "\n");
    EXPECT_NE(error.find(own + "\n"), std::string::npos) << error;
  }
  EXPECT_NE(
      error_of(with_line(2, "model: {type: sequental}")).find("; did you mean 'sequential'?" + own),
      std::string::npos);
  // At these places no component can be registered, so the message does not mention registration.
  for (const char* model : {"{type: [mlp]}", "{type: mlp, activation: swish}"}) {
    const std::string error = error_of(with_line(2, concat_to_string("model: ", model)));
    EXPECT_NE(error, "");
    EXPECT_EQ(error.find("registers"), std::string::npos) << error;
  }
}

TEST_F(ConfigTest, AllProblemsAreReportedAtOnceInTheOrderOfTheFile) {
  EXPECT_EQ(
      error_of("sed: 3\n"
               "data: {type: digits, \xc3\xa9: 1}\n"
               "model: {type: mlp, hidden: [8]}\n"
               "optimizer: {type: sgd, lr: fast}\n",
               {"train.epochs=no", "train.batch=3"}),
      "run.yaml:1:1: unknown key 'sed'; did you mean 'seed'?; known keys: name, seed, device, "
      "visible_devices, threads, include, data, model, loss, optimizer, schedule, train, "
      "checkpoint, log, distributed, metrics, threshold\n"
      "  1 | sed: 3\n"
      "    | ^\n"
      "run.yaml:2:22: unknown key '\xc3\xa9' in 'data'; known keys: type, train_size, "
      "test_size, seed, workers, on_device, transforms\n"
      "  2 | data: {type: digits, \xc3\xa9: 1}\n"
      "    |                      ^\n"
      "run.yaml:4:28: optimizer.lr: expected a number, above 0, got 'fast'\n"
      "  4 | optimizer: {type: sgd, lr: fast}\n"
      "    |                            ^\n"
      "override: train.epochs=no: train.epochs: expected an integer, at least 1 and at "
      "most 1000000000, got 'no'\n"
      "override: train.batch=3: unknown key 'batch' in 'train'; did you mean "
      "'batch_size'?; known keys: epochs, steps, batch_size, shuffle, drop_last, accumulate, "
      "shards, "
      "clip_norm, "
      "clip_value, precision, ema, log_every, eval_every, eval_batches, sample_every, "
      "eval_batch_size, "
      "early_stopping, best, time_limit, on_nan, graph, recompute, profile, tensorboard");
}

TEST_F(ConfigTest, LongLinesAreCutAroundTheCaret) {
  const std::string error =
      error_of(with_line(4, "train: {" + std::string(5000, ' ') + "epochs: x}"));
  EXPECT_NE(error.find("run.yaml:4:5017: "), std::string::npos) << error;
  EXPECT_LT(error.size(), 500u);
}

TEST_F(ConfigTest, MissingFilesAndDirectoriesAreRefused) {
  EXPECT_THROW(load_config(directory_ / "none.yaml", {}), ConfigError);
  EXPECT_THROW(load_config(directory_, {}), ConfigError);
}

TEST_F(ConfigTest, AbsurdSizesAreRefused) {
  EXPECT_NE(error_of(std::string(kMaxYamlBytes + 1, '#')).find("more than 1048576 bytes"),
            std::string::npos);
  EXPECT_NE(error_of(std::string(100000, '[')).find("nested deeper than 64"), std::string::npos);
  std::string bomb = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n";
  for (int i = 1; i < 12; ++i) {
    bomb += concat_to_string("a", i, ": &a", i, " [");
    for (int k = 0; k < 10; ++k) bomb += concat_to_string(k ? ", " : "", "*a", i - 1);
    bomb += "]\n";
  }
  EXPECT_NE(error_of(bomb).find("after the expansion of aliases"), std::string::npos);
  std::string many;
  for (int i = 0; i < 40000; ++i) many += concat_to_string("unknown_key_", i, ": 1\n");
  EXPECT_NE(error_of(many).find("more"), std::string::npos);
  std::string layers = "model:\n  type: sequential\n  layers:\n";
  for (int i = 0; i < 50000; ++i) layers += "    - relu\n";
  EXPECT_NE(error_of(with_line(2, layers)).find("at most 1000 entries"), std::string::npos);
  EXPECT_NE(error_of(",").find("run.yaml:"), std::string::npos);
  EXPECT_NE(error_of("").find("run.yaml:1:1: missing key 'data'"), std::string::npos);
  EXPECT_NE(error_of("- 1").find("expected a map"), std::string::npos);
}

// A valid file with random changes is either accepted or refused with ConfigError, and loading
// always ends.
TEST_F(ConfigTest, MutatedFilesAreRefusedOrAcceptedButNeverWorse) {
  const std::string base = to_yaml(load(with_line(
      2,
      "model: {type: sequential, layers: [flatten, linear: 8, relu, dropout: 0.5, linear: 2]}")));
  const std::string letters = "{}[],:#&*!|>'\"%@`-? \n\t\\01x~";
  std::mt19937 random(7);
  int refused = 0;
  for (int i = 0; i < 1500; ++i) {
    std::string text = base;
    for (unsigned n = random() % 3 + 1; n > 0; --n) {
      const std::size_t at = random() % text.size();
      const char letter = letters[random() % letters.size()];
      if (random() % 2) {
        text[at] = letter;
      } else {
        text.insert(at, 1, letter);
      }
    }
    refused += error_of(text).empty() ? 0 : 1;
  }
  EXPECT_GT(refused, 750);
}

// Expects these texts in the written config.
void expect_lines(const RunConfig& c, const std::vector<std::string>& texts) {
  const std::string yaml = to_yaml(c);
  for (const std::string& text : texts) {
    EXPECT_NE(yaml.find(text), std::string::npos) << text << "\nis not in:\n" << yaml;
  }
}

TEST_F(ConfigTest, ValuesArriveWithTheirPlaces) {
  const RunConfig c = load(
      "seed: 18446744073709551615\n"
      "device: cuda:1\n"
      "data: {type: csv, path: a.csv, label: -1, delimiter: \"\\t\", header: absent,\n"
      "       task: regression, test_path: b.csv}\n"
      "model:\n"
      "  type: sequential\n"
      "  layers:\n"
      "    - flatten\n"
      "    - linear: 512\n"
      "    - leaky_relu: {negative_slope: 0.2}\n"
      "    - linear: {out_features: 10, bias: false}\n"
      "    - dropout:\n"
      "optimizer: {type: adamw, lr: 1e-3, betas: [.5, 0.75], eps: 1E-6}\n"
      "train: {epochs: 1}\n");
  EXPECT_EQ(c.name, "run");
  EXPECT_EQ(c.seed, 18446744073709551615u);
  EXPECT_EQ(c.device, "cuda:1");
  EXPECT_FALSE(c.visible_devices.has_value());
  EXPECT_EQ(c.data.type, "csv");
  const auto& csv = c.data.as<data::Csv>();
  EXPECT_EQ(csv.label, "-1");
  EXPECT_EQ(csv.delimiter, "\t");
  EXPECT_EQ(csv.header, data::CsvFormat::Header::kAbsent);
  EXPECT_EQ(csv.task, data::Task::kRegression);
  EXPECT_EQ(csv.test_path, "b.csv");
  expect_lines(c, {"  type: adamw\n  lr: 0.001\n  betas: [0.5, 0.75]\n  eps: 1e-06\n"
                   "  weight_decay: 0.01\n"});
  EXPECT_EQ(c.train.batch_size, 128);

  expect_lines(c, {"    - flatten: {start_dim: 1, end_dim: -1}\n",
                   "    - linear: {out_features: 512, bias: true}\n",
                   "    - leaky_relu: {negative_slope: 0.2}\n",
                   "    - linear: {out_features: 10, bias: false}\n", "    - dropout: {p: 0.5}\n"});
  const Place place = c.places.at("model.layers.3");
  EXPECT_EQ(place.line, 11);
  EXPECT_EQ(place.column, 7);
  EXPECT_EQ(located(place, "no"),
            file("") +
                ":11:7: no\n  11 |     - linear: {out_features: 10, bias: false}\n"
                "     |       ^");
  EXPECT_EQ(c.places.at("optimizer.lr").line, 13);
  EXPECT_EQ(c.places.count("train.batch_size"), 0u);
}

// The saved config of a run by an earlier version lacks keys that were added later. The run
// continues with their defaults.
TEST_F(ConfigTest, AKeyThatASavedConfigLacksHasItsDefault) {
  const std::string whole = to_yaml(load(with_line(1, "data: {type: csv, path: t.csv}")));
  const std::string line = "  max_features: 10000\n";
  const std::size_t at = whole.find(line);
  ASSERT_NE(at, std::string::npos);
  std::string saved = whole;
  saved.erase(at, line.size());
  EXPECT_EQ(with_defaults(saved), whole);
  EXPECT_EQ(with_defaults(whole), whole);
  for (const char* other : {"", "a: b\n", "[", "data: {type: unknown}\n"}) {
    EXPECT_EQ(with_defaults(other), other);
  }
}

// Without this, a run of pictures that an earlier version began would be another one.
TEST_F(ConfigTest, AnOldNameInASavedConfigIsItsNewOne) {
  const std::string old =
      "name: run\n" + with_line(1, "data: {type: images, root: photos, test_fraction: 0.1}");
  const std::string now = with_defaults(old);
  EXPECT_EQ(now, to_yaml(load(old)));
  EXPECT_NE(now.find("  path: photos\n"), std::string::npos) << now;
  EXPECT_EQ(with_defaults(now), now);
}

TEST_F(ConfigTest, AliasesStandForWhatTheyName) {
  const RunConfig c = load(
      "data: {type: digits, train_size: &n 64}\nmodel: {type: mlp}\n"
      "optimizer: {type: sgd}\ntrain: {epochs: 1, batch_size: *n}\n");
  EXPECT_EQ(c.train.batch_size, 64);
}

TEST_F(ConfigTest, WindowsFilesWithByteOrderMarkAreRead) {
  EXPECT_EQ(error_of("\xEF\xBB\xBF"
                     "data: {type: digits}\r\nmodel: {type: mlp}\r\n"
                     "optimizer: {type: sgd}\r\nseed: x\r\ntrain: {epochs: 1}"),
            "run.yaml:4:7: seed: expected an integer of 0 or more, got 'x'\n"
            "  4 | seed: x\n    |       ^");
}

TEST_F(ConfigTest, OptionalAndPairedValuesArrive) {
  const RunConfig c = load(
      "data: {type: csv, path: a.csv, task: regression, scale_target: true, missing: mean}\n"
      "model:\n"
      "  type: sequential\n"
      "  layers:\n"
      "    - conv2d: {out_channels: 8, kernel_size: [3, 5], padding: same, stride: 1}\n"
      "    - conv3d: {out_channels: 8, kernel_size: [3, 1, 1], padding: same, stride: [1, 1, 1]}\n"
      "    - conv_transpose3d: {out_channels: 8, kernel_size: 2, stride: [1, 2, 2]}\n"
      "    - max_pool2d: 2\n"
      "    - avg_pool2d: [2, 1]\n"
      "    - max_pool3d: {kernel_size: [1, 2, 2], stride: 2}\n"
      "    - upsample: {size: 8}\n"
      "    - upsample: {size: [4, 8]}\n"
      "    - upsample: {size: [4, 8, 2], mode: trilinear}\n"
      "    - gelu: tanh\n"
      "    - lstm: {hidden_size: 4, last_step: true}\n"
      "optimizer: {type: rmsprop, alpha: 0.9, no_decay: true}\n"
      "schedule: {type: cosine_restarts, T_0: 10, T_mult: 2, per: epoch, warmup: 5}\n"
      "loss: {type: huber, delta: 2}\n"
      "train: {steps: 10, clip_norm: 1, ema: {decay: 0.9}, time_limit: 1.5h, epochs: null,\n"
      "        early_stopping: {metric: r2, patience: 3}}\n"
      "metrics: r2\n");
  expect_lines(
      c, {"    - conv2d: {out_channels: 8, kernel_size: [3, 5], stride: 1, padding: same, ",
          "    - conv3d: {out_channels: 8, kernel_size: [3, 1, 1], stride: 1, padding: same, ",
          "    - conv_transpose3d: {out_channels: 8, kernel_size: 2, stride: [1, 2, 2], ",
          "    - max_pool2d: {kernel_size: 2, padding: 0, ",
          "    - avg_pool2d: {kernel_size: [2, 1], padding: 0, ",
          "    - max_pool3d: {kernel_size: [1, 2, 2], stride: 2, padding: 0, ",
          "    - upsample: {size: 8, mode: nearest}\n",
          "    - upsample: {size: [4, 8], mode: nearest}\n",
          "    - upsample: {size: [4, 8, 2], mode: trilinear}\n",
          "    - gelu: {approximate: tanh}\n", ", last_step: true}\n"});
  EXPECT_TRUE(c.optimizer.no_decay);
  EXPECT_EQ(c.schedule.warmup, 5);
  expect_lines(c, {"  alpha: 0.9\n", "  T_0: 10\n  T_mult: 2\n  min_lr: 0\n  per: epoch\n",
                   "loss:\n  type: huber\n  delta: 2\n"});
  EXPECT_FALSE(c.train.epochs.has_value());
  EXPECT_EQ(c.train.clip_norm, 1);
  EXPECT_EQ(c.train.ema->decay, 0.9);
  EXPECT_EQ(c.train.early_stopping->patience, 3);
  EXPECT_TRUE(c.train.early_stopping->is_max());
  EXPECT_EQ(seconds_of(c.train.time_limit.value()), 5400);
  EXPECT_EQ(metrics_of(c, data::Task::kRegression), std::vector<std::string>{"r2"});
  EXPECT_EQ(to_yaml(load(to_yaml(c))), to_yaml(c));
}

TEST_F(ConfigTest, IncludedFilesAreLaidBelow) {
  put("base.yaml", with_line(4, "train: {epochs: 3, batch_size: 7}"));
  put("sub/more.yaml", "include: ../base.yaml\nseed: 5\ntrain: {batch_size: 8}\n");
  const std::string text =
      "include: [sub/more.yaml]\noptimizer: {type: adam, lr: 0.5}\ntrain: {shuffle: false}\n";
  const RunConfig c = load(text, {"train.log_every=2"});
  EXPECT_EQ(c.name, "run");
  EXPECT_EQ(c.seed, 5u);
  EXPECT_EQ(c.train.epochs, 3);
  EXPECT_EQ(c.train.batch_size, 8);
  EXPECT_FALSE(c.train.shuffle);
  EXPECT_EQ(c.optimizer.type, "adam");  // of another type, so all options of sgd are dropped
  EXPECT_TRUE(c.include.empty());
  const std::string origins = to_yaml_with_origins(c);
  for (const char* line : {"base.yaml:4:17\n", "sub/more.yaml:3:21\n", "run.yaml:3:18\n",
                           "log_every: 2  # override: train.log_every=2\n"}) {
    EXPECT_NE(origins.find(line), std::string::npos) << line << origins;
  }
  EXPECT_EQ(to_yaml(load(origins)), to_yaml(c));
  const std::string both = error_of(text, {"train.steps=9"});
  EXPECT_NE(both.find("'epochs: null' (train.epochs=null) removes a value"), std::string::npos)
      << both;
  EXPECT_EQ(load(text, {"train.steps=9", "train.epochs=null"}).train.steps, 9);
  EXPECT_EQ(error_of(text, {"include=base.yaml"}),
            "override: include=base.yaml: include can only be used in a file");
}

TEST_F(ConfigTest, WrongIncludesPointAtTheirPlace) {
  put("wrong.yaml", "seed: x\ntrain: {epoch: 1}\n");
  put("broken.yaml", "train: {\n");
  put("list.yaml", "- 1\n");
  put("word.yaml", "epochs:3\n");
  put("a.yaml", "include: b.yaml\n");
  put("b.yaml", "seed: 1\ninclude:\n  - a.yaml\n");
  for (int i = 0; i < 12; ++i) {
    put(concat_to_string("deep", i, ".yaml"),
        i < 11 ? concat_to_string("include: deep", i + 1, ".yaml\n") : "");
    put(concat_to_string("wide", i, ".yaml"),
        i < 8 ? concat_to_string("include: [wide", i + 1, ".yaml, wide", i + 1, ".yaml]\n") : "");
  }
  struct Row {
    const char* include;
    std::vector<const char*> fragments;
  };
  const std::vector<Row> rows = {
      {"wrong.yaml",
       {"wrong.yaml:1:7: seed: expected an integer", "  1 | seed: x\n",
        "wrong.yaml:2:9: unknown key 'epoch' in 'train'; did you mean 'epochs'?"}},
      {"broken.yaml", {"broken.yaml:1:8: not valid YAML: this bracket is never closed"}},
      {"list.yaml", {"list.yaml:1:1: expected a map, got a list"}},
      {"word.yaml", {"word.yaml:1:1: expected a map, got 'epochs:3'"}},
      {"none.yaml", {"run.yaml:1:10: ", "none.yaml", "  1 | include: none.yaml\n"}},
      {"''", {"run.yaml:1:10: include: expected a file or a list of files, got ''"}},
      {"{a: 1}", {"run.yaml:1:10: include: expected a file or a list of files, got a map"}},
      {"[wrong.yaml, [1]]", {"run.yaml:1:23: include: expected a file"}},
      {"run.yaml", {"run.yaml:1:10: include: the files include each other: ", "run.yaml -> "}},
      {"a.yaml",
       {"b.yaml:3:5: include: the files include each other: ", "a.yaml -> ", "b.yaml -> "}},
      {"deep0.yaml", {"deep7.yaml:1:10: include: files are nested deeper than 8"}},
      {"wide0.yaml", {"include: more than 64 files"}},
  };
  for (const Row& row : rows) {
    const std::string error =
        error_of(concat_to_string("include: ", row.include, "\n", with_line(0, "")));
    for (const char* fragment : row.fragments) {
      EXPECT_NE(error.find(fragment), std::string::npos) << row.include << "\n" << error;
    }
  }
}

TEST_F(ConfigTest, TimesAreReadWithTheirUnits) {
  EXPECT_EQ(seconds_of("90"), 90);
  EXPECT_EQ(seconds_of("90s"), 90);
  EXPECT_EQ(seconds_of("1.5m"), 90);
  EXPECT_EQ(seconds_of("2h"), 7200);
  EXPECT_EQ(seconds_of("1d"), 86400);
  for (const char* wrong : {"", "h", "0", "-1", "2 h", "1e99", "inf", "nan", "1h30m", "2H"}) {
    EXPECT_FALSE(seconds_of(wrong).has_value()) << wrong;
  }
}

TEST_F(ConfigTest, OverridesGoThroughTheSameChecks) {
  const std::string base = with_line(2, "model: {type: sequential, layers: [{linear: 4}, relu]}");
  const RunConfig c = load(base, {"train.epochs=3", "train.epochs=4", "name=x",
                                  "optimizer={type: adam, betas: [0.5, 0.6]}",
                                  "model.layers.0.linear=7", "data.train_size=10"});
  EXPECT_EQ(c.train.epochs, 4);
  EXPECT_EQ(c.name, "x");
  EXPECT_EQ(c.optimizer.type, "adam");
  expect_lines(c, {"  betas: [0.5, 0.6]\n"});
  expect_lines(c, {"    - linear: {out_features: 7, bias: true}\n"});
  EXPECT_EQ(to_string(c.places.at("train.epochs")), "override: train.epochs=4");

  struct Row {
    const char* text;
    const char* fragment;
  };
  const std::vector<Row> rows = {
      {"train.epoch=3", "unknown key 'epoch' in 'train'; did you mean 'epochs'?"},
      {"trian.epochs=3", "unknown key 'trian'; did you mean 'train'?"},
      {"train.epochs=010", "write 10"},
      {"train.epochs=", "give the run's length"},
      {"train.epochs", "expected key=value"},
      {"=3", "expected key=value"},
      {"train..epochs=3", "joined by single dots"},
      {"data.type.x=3", "'data.type' is 'digits', not a map, so it has no 'x'"},
      {"model.layers.2=relu",
       "'model.layers' is a list of 2 entries, counted from 0, so it has no '2'"},
      {"model.layers.1=rleu", "did you mean 'relu'?"},
      {"train.epochs=[1", "not valid YAML"},
      {"train={epochs: 1, epochs: 2}", "duplicate key 'epochs'"},
      {"train=3", "expected a map"},
      {"data.root=x", "key 'root' is not valid for data of type digits, only for type mnist"},
      {"optimizer.nesterov=true", "needs a momentum above 0"},
  };
  for (const Row& row : rows) {
    const std::string error = error_of(base, {row.text});
    EXPECT_EQ(error.find(concat_to_string("override: ", row.text, ": ")), 0u) << error;
    EXPECT_NE(error.find(row.fragment), std::string::npos) << error;
  }
}

TEST_F(ConfigTest, AnOverrideOfAWrongValueHealsIt) {
  EXPECT_EQ(error_of(with_line(4, "train: {epochs: 0}"), {"train.epochs=1"}), "");
  EXPECT_EQ(error_of(with_line(3, ""), {"optimizer.type=adam"}), "");
}

TEST_F(ConfigTest, ResolvedTextComesBackAsTheSameBytes) {
  const std::vector<std::string> texts = {
      with_line(0, ""),
      with_line(1, "data: {type: mnist, root: ../shared/data}"),
      with_line(1, "data: {type: csv, path: 'a b: #1.csv', label: '010', delimiter: \"\\t\"}"),
      with_line(1, "data: {type: csv, path: \"\\e\\\"\\\\\xc3\xa9\\n\", test_path: 'null'}"),
      with_line(1, "name: 'yes'\ndata: {type: csv, path: '- x', label: 'true'}"),
      with_line(2, "model: {type: mlp, hidden: [], activation: silu, dropout: 0.3333333333333333}"),
      with_line(2,
                "model: {type: sequential, layers: [flatten, linear: 3, dropout, relu, "
                "leaky_relu: 0.1, linear: {out_features: 2, bias: false}]}"),
      with_line(3, "optimizer: {type: adam, lr: 1e-300, eps: 1.7976931348623157e308}"),
      with_line(3, "optimizer: {type: sgd, lr: 3, momentum: 0.9, nesterov: true}"),
      with_line(
          1, "data: {type: digits}\nlog: {level: warn, console: false, file: null, format: json}"),
      with_line(1, "data: {type: digits}\nlog: {file: run.jsonl}"),
  };
  for (const std::string& text : texts) {
    const std::string first = to_yaml(load(text));
    EXPECT_EQ(to_yaml(load(first)), first) << text;
    EXPECT_EQ(to_yaml(load(to_yaml_with_origins(load(text)))), first) << text;
  }
}

TEST_F(ConfigTest, ResolvedTextIsReadable) {
  const RunConfig c = load(
      "data: {type: digits}\nmodel: {type: sequential, layers: [linear: 3, relu]}\n"
      "optimizer: {type: adam}\n",
      {"train.epochs=2", "train.ema={}"});
  EXPECT_EQ(to_yaml(c),
            "name: run\nseed: 0\ndevice: auto\nthreads: 0\n"
            "data:\n  type: digits\n  train_size: 20000\n  test_size: 4000\n  seed: 1\n"
            "  workers: 0\n  on_device: auto\n"
            "model:\n  type: sequential\n  layers:\n"
            "    - linear: {out_features: 3, bias: true}\n    - relu\n"
            "loss:\n  type: auto\n"
            "optimizer:\n  type: adam\n  lr: 0.001\n  betas: [0.9, 0.999]\n  eps: 1e-08\n"
            "  weight_decay: 0\n  amsgrad: false\n  maximize: false\n  master_weights: false\n"
            "  no_decay: false\n"
            "schedule:\n  type: constant\n  warmup: 0\n"
            "train:\n  epochs: 2\n  batch_size: 128\n  shuffle: true\n  drop_last: false\n  "
            "accumulate: 1\n"
            "  precision: fp32\n  ema:\n    decay: 0.999\n  log_every: 1\n  eval_every: 0\n"
            "  eval_batches: 0\n  sample_every: 0\n"
            "  on_nan: stop\n  graph: auto\n  recompute: none\n  tensorboard: false\n"
            "checkpoint:\n  interval: \"10m\"\n  keep: 2\n  background: auto\n"
            "log:\n  level: info\n  console: true\n  file: log.txt\n  format: text\n"
            "distributed:\n  timeout: 600\n  bucket_mb: 25\n  reduce: fp32\n"
            "  shard_optimizer: false\n  sync_batch_norm: false\n");
  const std::string origins = to_yaml_with_origins(c);
  EXPECT_NE(origins.find("epochs: 2  # override: train.epochs=2\n"), std::string::npos);
  EXPECT_NE(origins.find("seed: 0  # default\n"), std::string::npos);
  EXPECT_NE(origins.find("run.yaml:2:36\n"), std::string::npos);
}

TEST_F(ConfigTest, VisibleDevicesAreATextThatReadsBack) {
  for (const std::string value : {"0", "1,2", "''", "'3'", "GPU-8932f937-d72c"}) {
    const RunConfig c = load(with_line(0, "") + concat_to_string("visible_devices: ", value));
    ASSERT_TRUE(c.visible_devices.has_value()) << value;
    const RunConfig again = load(to_yaml(c));
    EXPECT_EQ(again.visible_devices, c.visible_devices) << to_yaml(c);
  }
  EXPECT_EQ(load(with_line(0, "") + "visible_devices: 1,2").visible_devices, "1,2");
  EXPECT_EQ(load(with_line(0, "") + "visible_devices: ''").visible_devices, "");
}

TEST_F(ConfigTest, EveryShippedConfigLoads) {
  const std::vector<std::string> names = {"cifar10",
                                          "digits",
                                          "digits_cnn",
                                          "housing",
                                          "iris",
                                          "mnist",
                                          "mnist_cnn",
                                          "names",
                                          "optdigits",
                                          "shakespeare_char",
                                          "shakespeare_char_cpu",
                                          "shakespeare_char_muon",
                                          "sources"};
  for (const std::string& name : names) {
    const RunConfig c = load_config(fs::path(TAPER_SOURCE_DIR) / "configs" / (name + ".yaml"), {});
    EXPECT_EQ(c.name, name);
    const std::string text = to_yaml(c);
    EXPECT_EQ(to_yaml(load(text)), text) << name;
    EXPECT_EQ(to_yaml(load(to_yaml_with_origins(c))), text) << name;
  }
}

// Checks what shakespeare_char_cpu.yaml takes over from the config that it includes, and what it
// changes.
TEST_F(ConfigTest, TheCpuRecipeBuildsOnTheOther) {
  const RunConfig c =
      load_config(fs::path(TAPER_SOURCE_DIR) / "configs/shakespeare_char_cpu.yaml", {});
  EXPECT_EQ(c.data.as<data::Text>().block_size, 64);
  expect_lines(c, {"  n_layer: 4\n", "  n_embd: 128\n", "  dropout: 0\n  bias: false\n"});
  expect_lines(c, {"  betas: [0.9, 0.99]\n", "  min_lr: 1e-04\n"});
  EXPECT_EQ(c.train.steps, 2000);
  EXPECT_EQ(c.train.batch_size, 12);
  EXPECT_EQ(c.train.precision, Precision::kFp32);
}

TEST(ConfigNames, NearestFindsWhatWasMeant) {
  const std::vector<std::string> known = {"epochs", "batch_size", "shuffle", "lr"};
  EXPECT_EQ(nearest("epoch", known), "epochs");
  EXPECT_EQ(nearest("BatchSize", known), "batch_size");
  EXPECT_EQ(nearest("shufle", known), "shuffle");
  EXPECT_EQ(nearest("xyz", known), "");
  EXPECT_EQ(nearest("", known), "");
}

}  // namespace
}  // namespace taper::v0::runner
