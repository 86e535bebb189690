// Files with wrong content, and paths that are not regular files.
#include "apps/runner/base/files.h"

#include <functional>
#include <memory>

#include <nlohmann/json.hpp>
#include <sys/resource.h>
#include <sys/stat.h>

#include "apps/runner/base/errors.h"
#include "apps/runner/base/string_utils.h"
#include "apps/runner/commands/commands.h"
#include "apps/runner/gate/gate.h"
#include "apps/runner/run/data_info.h"
#include "apps/runner/settings/run_config.h"
#include "apps/runner/train/train.h"
#include "data/images/images.h"
#include "data/tables/csv.h"
#include "data/text/text_dataset.h"
#include "framework/io/npy.h"
#include "framework/io/safetensors.h"
#include "framework/memory/small_blocks.h"
#include "tests/data_files.h"

namespace taper::v0::runner {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

class Files : public DataFiles {};

// Otherwise a reader would wait for the pipe, or read the device forever.
TEST_F(Files, PipesAndDevicesAreNoInput) {
  const std::string pipe = (directory_ / "pipe").string();
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  for (const std::string& path : {pipe, std::string("/dev/zero")}) {
    const std::function<void()> readers[] = {
        [&] { load_config(path, {}); },
        [&] { data::read_csv(path, {}); },
        [&] { data::read_idx(path); },
        [&] { data::mnist_shape(fs::path(path).parent_path(), true); },
        [&] { data::read_texts(path); },
        [&] { load_recording(path); },
        [&] { (void)load_npy(path); },
        [&] { load_safetensors(path); },
    };
    for (const auto& reader : readers) {
      const std::string text = refusal_of<Error>(reader);
      const bool is_named = text.find("it is a pipe or device, not a regular file") != text.npos ||
                            text.find("MNIST's") != text.npos;
      EXPECT_TRUE(is_named) << text;
    }
  }
}

TEST_F(Files, AFileLargerThanMemoryIsNamed) {
  if (uses_uncached_allocator())
    GTEST_SKIP() << "a sanitizer ends the process when memory runs out";
  const std::string path = write("sparse", "x");
  fs::resize_file(path, uintmax_t(1) << 42);
  // Some systems allocate more memory than they have, so the address space is limited.
  rlimit unlimited{};
  ASSERT_EQ(::getrlimit(RLIMIT_AS, &unlimited), 0);
  const rlimit limited{rlim_t(1) << 41, unlimited.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_AS, &limited), 0);
  const std::string refusal = refusal_of<OutOfMemoryError>([&] { read_file(path, "text"); });
  ASSERT_EQ(::setrlimit(RLIMIT_AS, &unlimited), 0);
  EXPECT_NE(refusal.find(path), std::string::npos) << refusal;
}

TEST_F(Files, AnOverrideOfAConfigThatIsNoMapIsRefused) {
  for (const char* text : {"n", "[1]", "\"x\""}) {
    const std::string path = write("c.yaml", text);
    const std::string message = refusal_of<ConfigError>([&] { load_config(path, {"a.b=1"}); });
    EXPECT_NE(message.find("the file is "), std::string::npos) << text << ": " << message;
  }
}

TEST_F(Files, DataJsonTreatsNewRowsAsTheTrainingRows) {
  data::Csv config;
  config.path = write("t.csv", "a,\"k\xc3\xa9\",y\n1,u,10\n3,v,30\n,u,20\n7,w,1\n");
  config.missing = data::CsvFormat::Missing::kMean;
  config.categories = data::CsvFormat::Categories::kOneHot;
  config.task = Task::kRegression;
  config.scale_target = true;
  const data::Splits data = config.load(5);
  const std::string json = to_json(data);
  const DataInfo again = data_info_from_json(json, "data.json");
  EXPECT_EQ(to_json(again), json);
  const std::string rows = write("new.csv", "a,\"k\xc3\xa9\",y\n1,u,10\n,v,30\n0.1,w,20\n");
  const auto all_of = [&](const DataInfo& info, const std::string& file) {
    return dynamic_cast<const data::TensorDataset&>(*config.more(info, file)).all();
  };
  const Batch a = all_of(data, rows), b = all_of(again, rows);
  EXPECT_EQ(a.inputs.to_floats(), b.inputs.to_floats());
  EXPECT_EQ(a.targets.to_floats(), b.targets.to_floats());
  const std::string bare = write("bare.csv", "a,\"k\xc3\xa9\"\n1,u\n");
  EXPECT_FALSE(all_of(again, bare).targets.defined());
  for (const char* bad : {"", "[]", "{}", R"({"task":"regression","input_shape":[1]})"}) {
    EXPECT_THROW(data_info_from_json(bad, "data.json"), InputError) << bad;
  }
}

TEST_F(Files, DataJsonKeepsTheTokenizer) {
  DataInfo info{.task = Task::kLanguage, .input_shape = {4}};
  for (const auto& t : {data::Tokenizer::bytes(), data::Tokenizer::chars("h\xc3\xa9\"\\\n")}) {
    info.tokenizer = std::make_shared<const data::Tokenizer>(t);
    info.outputs = t.size();
    const std::string json = to_json(info);
    const DataInfo again = data_info_from_json(json, "data.json");
    EXPECT_EQ(to_json(again), json);
    EXPECT_EQ(again.tokenizer->encode("\"h"), t.encode("\"h"));
  }
  Json json = Json::parse(to_json(info));
  for (const char* bad : {"{}", R"({"type":"words"})", R"({"type":"chars"})",
                          R"({"type":"chars","tokens":["a","a","b","c","d"]})",
                          R"({"type":"gpt2","tokens":["a"],"merges":[[0,1]]})",
                          R"({"type":"chars","tokens":[1]})", R"({"type":"chars","tokens":[]})"}) {
    json["tokenizer"] = Json::parse(bad);
    EXPECT_THROW(data_info_from_json(json.dump(), "data.json"), InputError) << bad;
  }
}

// The content of data.json for a table, with one value changed.
TEST_F(Files, DataThatContradictThemselvesAreRefusedByKey) {
  data::Csv config;
  config.path = write("t.csv", "n,kind,y\n1,b,p\n2,a,q\n3,a,p\n4,b,q\n");
  config.categories = data::CsvFormat::Categories::kOneHot;
  config.test_path = config.path;
  const Json whole = Json::parse(to_json(config.load(1)));
  const struct {
    const char *pointer, *value, *says;
  } rows[] = {
      {"/class_names", "[]", "outputs: is not the number"},
      {"/class_names", "\"ab\"", "class_names: expected a list, got 'ab'"},
      {"/class_names", "[1, 2]", "class_names: expected a string, got '1'"},
      {"/outputs", "1000000000", "outputs: expected an integer, at least 1 and at most"},
      {"/outputs", "3", "outputs: is not the number"},
      {"/outputs", "\"2\"", "outputs: expected an integer"},
      {"/outputs", "1e99", "outputs: expected an integer"},
      {"/outputs", "18446744073709551616", "outputs: expected an integer"},
      {"/input_shape", "[-3]", "input_shape.0: expected an integer, at least 1"},
      {"/input_shape", "[]", "input_shape: does not match"},
      {"/input_shape", "[1, 28, 28]", "input_shape: does not match"},
      {"/input_shape", "\"3 x 3\"", "input_shape: expected an integer"},
      {"/target_std", "0", "target_std: expected a number, above 0"},
      {"/target_mean", "null", "target_mean: expected a number"},
      {"/task", "\"language\"", "input_shape: does not match"},
      {"/task", "\"regression\"", "input_shape: does not match"},
      {"/task", "\"clasification\"", "did you mean 'classification'?"},
      {"/table", "[]", "table: expected a map"},
      {"/table/width", "2", "table.width: does not match 'categories'"},
      {"/table/width", "-1", "table.width: expected an integer"},
      {"/table/columns", "3", "table.feature_names: must have one for each"},
      {"/table/label_column", "4", "table.label_column: is not one of"},
      {"/table/label_column", "-1", "table.label_column: expected an integer, at least 0"},
      {"/table/feature_names", "[]", "table.feature_names: must have one for each"},
      {"/table/categories", "[]", "table.categories: must have a list for each"},
      {"/table/categories", "[[], \"ab\"]", "table.categories: expected a list, got 'ab'"},
      {"/table/scale/std", "[]", "table.scale: must have a number for each"},
      {"/table/scale/mean", "[1, 2, 3, 4]", "table.scale: must have a number for each"},
      {"/table/scale/fill", "[1, 2]", "table.scale: must have a number for each"},
      {"/table/scale/std", "[0, 1, 1]", "table.scale.std: needs numbers above 0"},
      {"/table/scale/std", "[1e39, 1, 1]",
       "table.scale.std: needs numbers in the range of float32"},
      {"/table/options/header", "7", "table.options.header: expected one of 0, 1, 2"},
      {"/table/options/more", "1", "unknown key 'more' in 'table.options'"},
      {"/tokenizer", "{\"type\": \"bytes\"}", "input_shape: does not match"},
      {"/tokenizer", "3", "tokenizer: expected a map"},
  };
  EXPECT_EQ(data_info_from_json(whole.dump(), "d").table->width, 3);
  for (const auto& row : rows) {
    Json changed = whole;
    changed[Json::json_pointer(row.pointer)] = Json::parse(row.value, nullptr, true);
    std::string text = changed.dump();
    const std::string message =
        refusal_of<InputError>([&] { data_info_from_json(text, "d.json"); });
    EXPECT_EQ(message.substr(0, 9), "d.json:1:") << row.pointer << row.value;
    EXPECT_NE(message.find(row.says), std::string::npos) << row.pointer << ": " << message;
  }
  for (const std::string key : {"task", "outputs", "scale", "lines"}) {
    Json changed = whole;
    (key == "scale" ? changed["table"] : changed).erase(key);
    EXPECT_NE(refusal_of<InputError>([&] { data_info_from_json(changed.dump(), "d"); }),
              "accepted");
  }
  const std::string deep = std::string(1'000'000, '[');
  EXPECT_NE(refusal_of<InputError>([&] { data_info_from_json(deep, "d"); }).find("nested deeper"),
            std::string::npos);
}

TEST_F(Files, OutputsThatTheWeightsCannotHaveAreRefusedBeforeAModelIsBuilt) {
  const fs::path run = directory_ / "run";
  train(load_config(write("c.yaml",
                          "device: cpu\ndata: {type: digits, train_size: 20, test_size: 10}\n"
                          "model: {type: mlp, hidden: [8]}\n"
                          "optimizer: {type: sgd, lr: 0.1}\n"
                          "train: {steps: 1, batch_size: 10}\n"),
                    {}),
        run);
  Json data = Json::parse(read_file(run / "data.json", ""));
  EXPECT_EQ(open_run(run, {}).info.outputs, 10);
  data["outputs"] = 100'000;
  for (int i = 10; i < 100'000; ++i) data["class_names"].push_back(concat_to_string(i));
  write("run/data.json", data.dump());
  fs::remove(run / kChecksums);  // as in a run of an older version
  EXPECT_NE(refusal_of<InputError>([&] { open_run(run, {}); }).find("more than the"),
            std::string::npos);
}

}  // namespace
}  // namespace taper::v0::runner
