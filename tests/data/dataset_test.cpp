// Datasets as a config selects them, and what is stored with a model for later programs.
#include "data/dataset.h"

#include <cmath>

#include "data/images/images.h"
#include "data/tables/csv.h"
#include "framework/factory/factories.h"
#include "tests/data_files.h"

namespace taper::v0::data {
namespace {

class Data : public DataFiles {};

Csv csv(const std::string& path) {
  Csv out;
  out.path = path;
  out.missing = CsvFormat::Missing::kMean;
  out.categories = CsvFormat::Categories::kOneHot;
  return out;
}

Csv regression(const std::string& path) {
  Csv out = csv(path);
  out.task = Task::kRegression;
  out.scale_target = true;
  return out;
}

const Batch& all_of(const DatasetPtr& set) {
  return dynamic_cast<const TensorDataset&>(*set).all();
}

TEST_F(Data, StatisticsAreThoseOfTheTrainingRows) {
  Csv config = regression(write("train.csv", "a,kind,y\n1,u,10\n3,v,30\n,u,20\n"));
  config.test_path = write("test.csv", "a,kind,y\n1000,v,-99\n?,?,20\n");
  const Splits data = config.load(1);
  EXPECT_EQ(data.task, Task::kRegression);
  EXPECT_EQ(data.input_shape, (Shape{3}));
  EXPECT_EQ(data.outputs, 1);
  EXPECT_EQ(all_of(data.train).inputs.to_floats(),
            (std::vector<float>{-1, 1, 0, 1, 0, 1, 0, 1, 0}));
  EXPECT_EQ(all_of(data.test).inputs.to_floats(),
            (std::vector<float>{998, 0, 1, 0, 2.F / 3, 1.F / 3}));
  EXPECT_EQ(data.target_mean, 20);
  EXPECT_NEAR(data.target_std, std::sqrt(200. / 3), 1e-6);
  EXPECT_EQ(all_of(data.test).targets.to_floats()[1], 0);
  const double y = all_of(data.test).targets.to_floats()[0] * data.target_std + data.target_mean;
  EXPECT_NEAR(y, -99, 1e-5);
}

TEST_F(Data, WithoutStandardizationGapsAreStillFilled) {
  Csv config = regression(write("train.csv", "a,y\n1,10\n3,30\n,20\n"));
  config.test_path = config.path;
  config.standardize = config.scale_target = false;
  const Splits data = config.load(1);
  EXPECT_EQ(all_of(data.train).inputs.to_floats(), (std::vector<float>{1, 3, 2}));
  EXPECT_EQ(all_of(data.train).targets.to_floats(), (std::vector<float>{10, 30, 20}));
}

std::string idx(std::initializer_list<int> shape, const std::string& bytes) {
  std::string out{0, 0, 8, char(shape.size())};
  for (const int n : shape) out += std::string{0, 0, 0, char(n)};
  return out + bytes;
}

TEST_F(Data, FourIdxFilesMakeASet) {
  Idx config;
  config.train_images = write("a", idx({3, 1, 2}, std::string("\0\xff\x33\0\0\0", 6)));
  config.train_labels = write("b", idx({3}, std::string("\0\x0c\1", 3)));
  config.test_images = write("c", idx({1, 1, 2}, "\xff\xff"));
  config.test_labels = write("d", idx({1}, "\x0c"));
  const Splits data = config.load(1);
  EXPECT_EQ(data.input_shape, (Shape{1, 1, 2}));
  EXPECT_EQ(data.outputs, 13);
  EXPECT_EQ(data.class_names.back(), "12");
  EXPECT_EQ(all_of(data.train).inputs.to_floats(), (std::vector<float>{0, 1, 0.2F, 0, 0, 0}));
  EXPECT_EQ(all_of(data.test).targets.to_vector<int64_t>(), std::vector<int64_t>{12});
  const DatasetPtr more = config.more(data, config.test_images);
  EXPECT_EQ(all_of(more).inputs.to_floats(), (std::vector<float>{1, 1}));
  EXPECT_EQ(more->fields(), std::vector<std::string>{"inputs"});
  config.test_labels = write("d", idx({1}, "\x0d"));
  EXPECT_NE(refusal_of<InputError>([&] { config.load(1); }).find("label in 0 .. 12"),
            std::string::npos);
  config.test_labels = write("d", idx({1}, "\1"));
  config.test_images = write("c", idx({1, 2, 1}, "\xff\xff"));
  EXPECT_EQ(refusal_of<InputError>([&] { config.load(1); }),
            "training images are 1x2, test images are 2x1");
}

std::string idx_labels(const std::string& labels) {
  return std::string{0, 0, 8, 1, 0, 0, 0, char(labels.size())} + labels;
}

TEST_F(Data, LabelsThatMakeNoSenseAreRefused) {
  Idx config;
  config.train_images = config.test_images =
      write("x", std::string("\0\0\x08\3\0\0\0\3\0\0\0\1\0\0\0\1abc", 19));
  const auto refusal = [&](const std::string& labels) {
    config.train_labels = config.test_labels = write("y", idx_labels(labels));
    return refusal_of<DataError>([&] { config.load(1); });
  };
  EXPECT_EQ(refusal(std::string("\0\1\2", 3)), "accepted");
  EXPECT_EQ(refusal("\1\2\3"), "accepted");  // with a warning
  EXPECT_NE(refusal("\4\4\4").find("y: all labels are 4"), std::string::npos);
  EXPECT_NE(refusal("\1\xff\2").find("y: record 1 (counted from 0) has the label 255"),
            std::string::npos);
}

TEST_F(Data, ATargetOfOneValueIsRefused) {
  Csv config;
  config.path = write("t.csv", "a,y\n1,7\n2,7\n3,7\n");
  config.test_path = config.path;
  for (const Task task : {Task::kClassification, Task::kRegression}) {
    config.task = task;
    EXPECT_NE(
        refusal_of<DataError>([&] { config.load(1); }).find("t.csv: column 'y' has the one value "),
        std::string::npos);
  }
}

// The edit distance between names of 200 KB would take minutes.
TEST_F(Data, LongNamesAreComparedInNoTime) {
  const std::string a(200'000, 'a'), b(200'000, 'b'), c(200'000, 'c');
  const CsvTable train = read_csv(write("t.csv", concat_to_string("1,", a, "\n2,", b, "\n")), {});
  const std::string other = write("other.csv", concat_to_string("1,", c, "\n"));
  EXPECT_NE(refusal_of<InputError>([&] { read_csv_like(train, other); }).find("the nearest"),
            std::string::npos);
}

TEST_F(Data, TensorsOfUnequalLengthsAreRefused) {
  const auto refused = [](Batch batch) {
    return refusal_of<ValueError>([&] { TensorDataset{std::move(batch)}; });
  };
  EXPECT_NE(refused({zeros({3, 2}), zeros({4})}).find("[4] for inputs of [3, 2]"),
            std::string::npos);
  EXPECT_NE(refused({zeros({4, 2}), {}, {zeros({3})}}).find("Size mismatch"), std::string::npos);
  EXPECT_NE(refused({zeros({}), {}}).find("Size mismatch"), std::string::npos);
}

TEST_F(Data, RowsOfABatchAreCopied) {
  const float x[] = {0, 1, 2, 3, 4, 5};
  const int64_t y[] = {7, 8, 9}, rows[] = {2, 0, 2};
  const TensorDataset set(Batch{tensor_of(x, {3, 2}), tensor_of(y, {3})});
  for (const bool pinned : {false, true}) {
    const Batch b = set.get(tensor_of(rows, {3}), pinned);
    EXPECT_EQ(b.inputs.to_floats(), (std::vector<float>{4, 5, 0, 1, 4, 5}));
    EXPECT_EQ(b.targets.to_vector<int64_t>(), (std::vector<int64_t>{9, 7, 9}));
  }
  const int64_t bad[] = {0, 3};
  EXPECT_THROW(set.get(tensor_of(bad, {2})), IndexError);
  const int64_t negative[] = {-1};
  EXPECT_THROW(set.get(tensor_of(negative, {1})), IndexError);
}

TEST(RealData, CaliforniaHousingLoads) {
  TAPER_REAL_DATA(file, "tables/california-housing.csv");
  Csv config = regression(file);
  config.label = "median_house_value";
  const Splits data = config.load(1);
  EXPECT_EQ(data.train->size(), 16512);
  EXPECT_EQ(data.test->size(), 4128);
  EXPECT_EQ(data.input_shape, (Shape{8 + 5}));
  EXPECT_EQ(data.table->categories[8].size(), 5u);
  float most = 0;
  for (const float v : all_of(data.train).inputs.span<float>()) most = std::max(most, std::abs(v));
  EXPECT_LT(most, 100);  // a NaN would pass this comparison
  EXPECT_FALSE(std::isnan(all_of(data.train).inputs.sum().item<float>()));
  config.missing = CsvFormat::Missing::kRefuse;
  const std::string message = refusal_of<InputError>([&] { config.load(1); });
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
    const Splits data = csv(file).load(1);
    EXPECT_EQ(data.train->size() + data.test->size(), t.rows) << t.name;
    EXPECT_EQ(data.input_shape, (Shape{t.features})) << t.name;
    EXPECT_EQ(data.outputs, t.classes) << t.name;
  }
}

}  // namespace
}  // namespace taper::v0::data
