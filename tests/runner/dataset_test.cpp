// Data sets as a config names them, and what is kept of them for later programs.
#include "apps/runner/data/dataset.h"

#include <cmath>

#include "apps/runner/run/errors.h"
#include "framework/factories.h"
#include "tests/runner/data_files.h"

namespace taper::runner {
namespace {

class Data : public DataFiles {};

DataConfig csv_config(const std::string& path) {
  DataConfig out;
  out.type = DataType::kCsv;
  out.csv.path = path;
  out.csv.missing = CsvOptions::Missing::kMean;
  out.csv.categories = CsvOptions::Categories::kOneHot;
  return out;
}

DataConfig regression(const std::string& path) {
  DataConfig out = csv_config(path);
  out.csv.task = Task::kRegression;
  out.csv.scale_target = true;
  return out;
}

TEST_F(Data, StatisticsAreThoseOfTheTrainingRows) {
  DataConfig config = regression(write("train.csv", "a,kind,y\n1,u,10\n3,v,30\n,u,20\n"));
  config.csv.test_path = write("test.csv", "a,kind,y\n1000,v,-99\n?,?,20\n");
  const Dataset data = load_dataset(config, 1);
  EXPECT_EQ(data.task, Task::kRegression);
  EXPECT_EQ(data.input_shape, (Shape{3}));
  EXPECT_EQ(data.outputs, 1);
  EXPECT_EQ(data.train.inputs.to_floats(), (std::vector<float>{-1, 1, 0, 1, 0, 1, 0, 1, 0}));
  EXPECT_EQ(data.test.inputs.to_floats(), (std::vector<float>{998, 0, 1, 0, 2.F / 3, 1.F / 3}));
  EXPECT_EQ(data.target_mean, 20);
  EXPECT_NEAR(data.target_std, std::sqrt(200. / 3), 1e-6);
  EXPECT_EQ(data.test.targets.to_floats()[1], 0);
  const double y = data.test.targets.to_floats()[0] * data.target_std + data.target_mean;
  EXPECT_NEAR(y, -99, 1e-5);
}

TEST_F(Data, WithoutStandardizationGapsAreStillFilled) {
  DataConfig config = regression(write("train.csv", "a,y\n1,10\n3,30\n,20\n"));
  config.csv.test_path = config.csv.path;
  config.csv.standardize = config.csv.scale_target = false;
  const Dataset data = load_dataset(config, 1);
  EXPECT_EQ(data.train.inputs.to_floats(), (std::vector<float>{1, 3, 2}));
  EXPECT_EQ(data.train.targets.to_floats(), (std::vector<float>{10, 30, 20}));
}

TEST_F(Data, JsonTreatsNewRowsAsTheTrainingRows) {
  const Dataset data = load_dataset(regression(write("t.csv",
                                                     "a,\"k\xc3\xa9\",y\n1,u,10\n3,v,30\n,u,"
                                                     "20\n7,w,1\n")),
                                    5);
  const std::string json = to_json(data);
  const DataInfo again = data_info_from_json(json, "data.json");
  EXPECT_EQ(to_json(again), json);
  const std::string rows = write("new.csv", "a,\"k\xc3\xa9\",y\n1,u,10\n,v,30\n0.1,w,20\n");
  const Split a = load_more(data, rows), b = load_more(again, rows);
  EXPECT_EQ(a.inputs.to_floats(), b.inputs.to_floats());
  EXPECT_EQ(a.targets.to_floats(), b.targets.to_floats());
  EXPECT_FALSE(load_more(again, write("bare.csv", "a,\"k\xc3\xa9\"\n1,u\n")).targets.defined());
  for (const char* bad : {"", "[]", "{}", R"({"task":"regression","input_shape":[1]})"}) {
    EXPECT_THROW(data_info_from_json(bad, "data.json"), InputError) << bad;
  }
}

std::string idx(std::initializer_list<int> shape, const std::string& bytes) {
  std::string out{0, 0, 8, char(shape.size())};
  for (const int n : shape) out += std::string{0, 0, 0, char(n)};
  return out + bytes;
}

TEST_F(Data, FourIdxFilesMakeASet) {
  DataConfig config;
  config.type = DataType::kIdx;
  config.idx.train_images = write("a", idx({3, 1, 2}, std::string("\0\xff\x33\0\0\0", 6)));
  config.idx.train_labels = write("b", idx({3}, std::string("\0\x0c\1", 3)));
  config.idx.test_images = write("c", idx({1, 1, 2}, "\xff\xff"));
  config.idx.test_labels = write("d", idx({1}, "\x0c"));
  const Dataset data = load_dataset(config, 1);
  EXPECT_EQ(data.input_shape, (Shape{1, 1, 2}));
  EXPECT_EQ(data.outputs, 13);
  EXPECT_EQ(data.class_names.back(), "12");
  EXPECT_EQ(data.train.inputs.to_floats(), (std::vector<float>{0, 1, 0.2F, 0, 0, 0}));
  EXPECT_EQ(data.test.targets.to_vector<int64_t>(), std::vector<int64_t>{12});
  const Split more =
      load_more(data_info_from_json(to_json(data), "data.json"), config.idx.test_images);
  EXPECT_EQ(more.inputs.to_floats(), (std::vector<float>{1, 1}));
  EXPECT_FALSE(more.targets.defined());
  config.idx.test_labels = write("d", idx({1}, "\x0d"));
  EXPECT_NE(refusal_of<InputError>([&] { load_dataset(config, 1); }).find("label in 0 .. 12"),
            std::string::npos);
  config.idx.test_labels = write("d", idx({1}, "\1"));
  config.idx.test_images = write("c", idx({1, 2, 1}, "\xff\xff"));
  EXPECT_EQ(refusal_of<InputError>([&] { load_dataset(config, 1); }),
            "training images are 1x2, test images are 2x1");
}

TEST_F(Data, RowsOfABatchAreCopied) {
  const float x[] = {0, 1, 2, 3, 4, 5};
  const int64_t y[] = {7, 8, 9}, rows[] = {2, 0, 2};
  const Split split{{tensor_of(x, {3, 2}), tensor_of(y, {3})}};
  for (const bool pinned : {false, true}) {
    const Batch b = batch(split, tensor_of(rows, {3}), pinned);
    EXPECT_EQ(b.inputs.to_floats(), (std::vector<float>{4, 5, 0, 1, 4, 5}));
    EXPECT_EQ(b.targets.to_vector<int64_t>(), (std::vector<int64_t>{9, 7, 9}));
  }
  const int64_t bad[] = {0, 3};
  EXPECT_THROW(batch(split, tensor_of(bad, {2})), IndexError);
  const int64_t negative[] = {-1};
  EXPECT_THROW(batch(split, tensor_of(negative, {1})), IndexError);
}

TEST(RealData, CaliforniaHousingLoads) {
  TAPER_REAL_DATA(file, "tables/california-housing.csv");
  DataConfig config = regression(file);
  config.csv.label = "median_house_value";
  const Dataset data = load_dataset(config, 1);
  EXPECT_EQ(data.train.size(), 16512);
  EXPECT_EQ(data.test.size(), 4128);
  EXPECT_EQ(data.input_shape, (Shape{8 + 5}));
  EXPECT_EQ(data.table->categories[8].size(), 5u);
  float most = 0;
  for (const float v : data.train.inputs.span<float>()) most = std::max(most, std::abs(v));
  EXPECT_LT(most, 100);  // and no nan, which compares as false
  EXPECT_FALSE(std::isnan(data.train.inputs.sum().item<float>()));
  config.csv.missing = CsvOptions::Missing::kRefuse;
  const std::string message = refusal_of<InputError>([&] { load_dataset(config, 1); });
  EXPECT_EQ(message.substr(0, file.size()), file);
  EXPECT_NE(message.find(":292: column 'total_bedrooms' is empty"), std::string::npos) << message;
}

TEST(RealData, SmallTablesLoad) {
  const struct {
    const char* name;
    const char* label;
    int64_t rows, features, classes;
  } tables[] = {{"tables/iris.csv", "-1", 150, 4, 3},
                {"tables/wine.csv", "-1", 178, 13, 3},
                {"tables/optdigits.tra", "-1", 3823, 64, 10}};
  for (const auto& t : tables) {
    TAPER_REAL_DATA(file, t.name);
    const Dataset data = load_dataset(csv_config(file), 1);
    EXPECT_EQ(data.train.size() + data.test.size(), t.rows) << t.name;
    EXPECT_EQ(data.input_shape, (Shape{t.features})) << t.name;
    EXPECT_EQ(data.outputs, t.classes) << t.name;
  }
}

}  // namespace
}  // namespace taper::runner
