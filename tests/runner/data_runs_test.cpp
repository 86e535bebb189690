// Runs with data as they occur in practice: large offsets, wide tables, folders with other files.
#include <cmath>
#include <fstream>
#include <string>

#include <nlohmann/json.hpp>

#include "apps/runner/base/errors.h"
#include "apps/runner/base/string_utils.h"
#include "apps/runner/commands/commands.h"
#include "apps/runner/run/data_info.h"
#include "apps/runner/train/train.h"
#include "autograd/ops/binary_ops.h"
#include "data/images/image_files.h"
#include "data/images/image_source.h"
#include "data/tables/csv.h"
#include "framework/factory/factories.h"
#include "framework/io/npy.h"
#include "tests/data_files.h"
#include "tests/runner/run_process.h"

namespace taper::v0::runner {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr const char* kLinear =
    "device: cpu\nmodel: {type: sequential, layers: [linear: {out_features: 1}]}\n"
    "optimizer: {type: adam, lr: 0.05}\ntrain: {epochs: 40, batch_size: 10}\nmetrics: [mae, r2]\n";

class DataRuns : public DataFiles {
 protected:
  // Trains on the data that `data` describes, and returns the run's directory.
  fs::path trained(const std::string& data, const std::string& name = "run") const {
    const fs::path dir = directory_ / name;
    train(load_config(write(name + ".yaml", concat_to_string(kLinear, "data: ", data, "\n")), {}),
          dir);
    return dir;
  }
  static std::string text_of(const fs::path& file) {
    std::ifstream in(file, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }
  static double last_r2(const fs::path& run) {
    const std::vector<std::string> lines = lines_of(text_of(run / "metrics.jsonl"));
    return json::parse(lines.back()).at("r2").get<double>();
  }
  // Writes a table of times and targets. Times are seconds from `start` on; the targets are the
  // index of the row plus `offset`.
  std::string seconds(const std::string& name, int64_t start, double offset) const {
    std::string out = "time,y\n";
    for (int64_t i = 0; i < 100; ++i)
      out += concat_to_string(start + i, ",", offset + double(i), "\n");
    return write(name, out);
  }
  std::string csv(const std::string& path) const {
    return concat_to_string("{type: csv, path: ", path, ", task: regression, scale_target: true}");
  }
};

TEST_F(DataRuns, AnOffsetOfFeaturesAndTargetsChangesNothing) {
  const fs::path near = trained(csv(seconds("near.csv", 0, 0)), "near");
  const fs::path far = trained(csv(seconds("far.csv", 1'700'000'000, 1'700'000'000)), "far");
  EXPECT_GT(last_r2(near), 0.99999);
  EXPECT_GT(last_r2(far), 0.99999);
  const SavedRun run = open_run(far, {});
  const std::string printed = predict(run, write("new.csv", "time\n1700000050\n"));
  EXPECT_NEAR(std::stod(printed.substr(printed.find('\n'))), 1'700'000'050, 1);
  EXPECT_EQ(source_of(run.config.data)->raw_dtype(run.info), kFloat64);
  const SavedRun plain = open_run(near, {});
  EXPECT_EQ(source_of(plain.config.data)->raw_dtype(plain.info), kFloat32);
}

TEST_F(DataRuns, AnOffsetOfArraysChangesNothing) {
  const auto run_of = [&](const std::string& name, double offset) {
    const Tensor x = arange(200).to(kFloat64).reshape({100, 2}), y = arange(100).to(kFloat64);
    save_npy(directory_ / (name + "_x.npy"), x + offset);
    save_npy(directory_ / (name + "_y.npy"), y + offset);
    return trained(
        concat_to_string("{type: npy, inputs: ", (directory_ / (name + "_x.npy")).string(),
                         ", targets: ", (directory_ / (name + "_y.npy")).string(),
                         ", task: regression, standardize: true, scale_target: true}"),
        name);
  };
  const fs::path near = run_of("near", 0), far = run_of("far", 1'700'000'000);
  EXPECT_GT(last_r2(near), 0.99999);
  EXPECT_GT(last_r2(far), 0.99999);
  const SavedRun run = open_run(far, {});
  ASSERT_TRUE(run.info.scale);
  EXPECT_EQ(run.info.scale->mean.size(), 2u);
  const std::string printed = predict(run, directory_ / "far_x.npy");
  EXPECT_NEAR(std::stod(printed.substr(printed.find('\n'))), 1'700'000'000, 3);
  EXPECT_EQ(source_of(run.config.data)->raw_dtype(run.info), kFloat64);
}

// Earlier versions stored the statistics in float32.
TEST_F(DataRuns, StatisticsThatWereRoundedToFloatsAreOfTheSameData) {
  data::Csv config;
  std::string rows = "a,b,y\n";
  for (int i = 0; i < 50; ++i)
    rows += concat_to_string(i * 0.37 + 5, ",", i % 7 * 0.1, ",", i * 1.1, "\n");
  config.path = write("t.csv", rows);
  config.task = Task::kRegression;
  config.scale_target = true;
  const data::Splits info = config.load(1);
  json saved = json::parse(to_json(info));
  const auto round = [](json& x) { x = double(float(x.get<double>())); };
  for (const char* key : {"fill", "mean", "std"}) {
    for (json& x : saved["table"]["scale"][key]) round(x);
  }
  round(saved["target_mean"]);
  round(saved["target_std"]);
  EXPECT_NE(saved.dump(), json::parse(to_json(info)).dump());
  EXPECT_TRUE(are_same_data(info, data_info_from_json(saved.dump(), "data.json")));
  saved["table"]["scale"]["mean"][0] = 5;
  EXPECT_FALSE(are_same_data(info, data_info_from_json(saved.dump(), "data.json")));
}

std::string wide_table(int columns, int words) {
  std::string out;
  for (int j = 0; j < columns; ++j) out += concat_to_string("c", j, ",");
  out += "y\n";
  for (int i = 0; i < words; ++i) {
    for (int j = 0; j < columns; ++j) out += concat_to_string("w", j == 0 ? i % 5 : i, ",");
    out += concat_to_string(i % 2, "\n");
  }
  return out;
}

TEST_F(DataRuns, ATableOfTooManyFeaturesIsAnErrorOfTheConfig) {
  const std::string data =
      concat_to_string("{type: csv, path: ", write("t.csv", wide_table(12, 999)),
                       ", categories: one_hot, label: y, task: regression}");
  const std::string file = write("wide.yaml", concat_to_string(kLinear, "data: ", data, "\n"));
  const auto load = [&](const std::vector<std::string>& overrides) {
    return source_of(load_config(file, overrides).data)->load(1);
  };
  const std::string message = refusal_of<ConfigError>([&] { (void)load({}); });
  for (const char* part :
       {"wide.yaml:6:", "makes 10994 input features, more than the 10000 of data.max_features",
        "most words are in 'c1' (999), 'c2' (999), 'c3' (999)"}) {
    EXPECT_NE(message.find(part), std::string::npos) << message;
  }
  EXPECT_EQ(load({"data.max_features=10994"}).input_shape, (Shape{10994}));
  RunDirectory at;
  EXPECT_EQ(at.taper({"train", file, "--out", "r"}).code, kExitConfig);
  EXPECT_EQ(at.taper({"train", file, "--validate"}).code, kExitConfig);
}

TEST_F(DataRuns, TheDataLineCountsWhatAFolderReaderLeavesOut) {
  RunDirectory at;
  fs::create_directories(at / "texts");
  std::ofstream(at / "texts/a.txt") << std::string(2000, 'a') << std::string(2000, 'b');
  std::ofstream(at / "texts/.hidden") << "no";
  std::ofstream(at / "run.yaml") << "device: cpu\ndata: {type: text, path: texts, block_size: 8}\n"
                                    "model: {type: gpt, n_layer: 1, n_head: 1, n_embd: 8}\n"
                                    "optimizer: {type: adam, lr: 0.01}\ntrain: {steps: 2}\n";
  const RunDirectory::Outcome outcome = at.taper({"train", "run.yaml", "--out", "r"});
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_NE(outcome.err.find("test samples; left out: 1 hidden\n"), std::string::npos)
      << outcome.err;
}

// Memory that reading used and freed does not count as memory of training.
TEST_F(DataRuns, TheMemoryAtTheEndCountsReading) {
  RunDirectory at;
  std::ofstream out(at / "t.csv");
  for (int i = 0; i < 200'000; ++i) out << i % 97 << ',' << i % 13 << ',' << i % 2 << '\n';
  out.close();
  std::ofstream(at / "run.yaml") << "device: cpu\ndata: {type: csv, path: t.csv}\n"
                                    "model: {type: mlp, hidden: [4]}\n"
                                    "optimizer: {type: sgd, lr: 0.01}\ntrain: {steps: 2}\n";
  const RunDirectory::Outcome outcome = at.taper({"train", "run.yaml", "--out", "r"});
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  std::string last;
  std::ifstream lines(at / "r/timing.jsonl");
  for (std::string line; std::getline(lines, line);) last = line;
  const json row = json::parse(last);
  EXPECT_GT(row["process_peak_bytes"].get<double>(), 3 * row["peak_bytes"].get<double>()) << last;
  EXPECT_NE(outcome.err.find(" MiB for the process, including data"), std::string::npos)
      << outcome.err;
}

#ifdef TAPER_WITH_IMAGES
TEST_F(DataRuns, ClassFoldersThatAreNoUtf8AreKeptInDataJson) {
  for (const char* name :
       {"set/a/1.png", "set/a/2.png", "set/caf\xe9/3.png", "set/caf\xe9/4.png"}) {
    write(name, "");
    data::write_png(zeros({3, 2, 2}, {.dtype = kUInt8}), directory_ / name);
  }
  data::Images images{};
  images.path = directory_ / "set";
  images.split.test = "0.5";
  const data::Splits data = images.load(1);
  const DataInfo again = data_info_from_json(to_json(data), "data.json");
  EXPECT_EQ(again.class_names, (std::vector<std::string>{"a", "caf\\xe9"}));
  EXPECT_EQ(images.more(again, images.path)->size(), 4);
}
#endif

}  // namespace
}  // namespace taper::v0::runner
