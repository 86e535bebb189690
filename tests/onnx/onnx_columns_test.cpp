// Exported models that take the columns of a table: ONNX Runtime computes the features that Taper
// computes.
#include <array>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <limits>

#include <gtest/gtest.h>
#include <unistd.h>

#include "modules/onnx/onnx.h"
#include "taper.h"
#include "tests/onnx/run_onnx.h"
#include "tests/testing.h"

namespace taper::v0::test {
namespace {

namespace fs = std::filesystem;
using Kind = OnnxColumn::Kind;

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

// Returns its input, so that the features can be compared.
struct Identity : Module {
  Tensor forward(const Tensor& x) override { return x * 1; }
  std::string type_name() const override { return "Identity"; }
};

class OnnxColumns : public testing::Test {
 protected:
  OnnxColumns() : folder_(fs::temp_directory_path() / concat_to_string("taper_cols_", ::getpid())) {
    fs::create_directories(folder_);
  }
  ~OnnxColumns() override { fs::remove_all(folder_); }
  void SetUp() override {
    if (!has_onnx()) GTEST_SKIP() << "built without ONNX (TAPER_ONNX)";
  }

  std::string file(const std::string& name) const { return (folder_ / name).string(); }
  void export_features(const std::string& name, const std::vector<OnnxColumn>& columns,
                       int64_t width, const std::vector<std::string>& outputs = {}) const {
    Identity module;
    export_onnx(module, zeros({2, width}), file(name + ".onnx"),
                {.output_names = outputs, .columns = columns});
  }
  // Writes the input of a column: numbers, or one text per line.
  void give(const std::string& name, const std::string& column,
            const std::vector<double>& values) const {
    save_npy(file(concat_to_string(name, ".", column, ".npy")),
             tensor_of(values.data(), {std::ssize(values), 1}));
  }
  void give(const std::string& name, const std::string& column,
            const std::vector<std::string>& values) const {
    std::ofstream out(file(concat_to_string(name, ".", column, ".txt")));
    for (const std::string& value : values) out << value << "\n";
  }
  void want(const std::string& name, const Tensor& features,
            const std::string& output = "output") const {
    save_npy(file(concat_to_string(name, ".", output, ".npy")), features.to(kFloat32));
  }

  fs::path folder_;
};

// Returns year, month, day, weekday, hour and days since 1970 by the standard library.
std::array<double, 6> by_chrono(double seconds) {
  using namespace std::chrono;
  const auto time = sys_seconds(std::chrono::seconds(int64_t(std::floor(seconds))));
  const auto day = floor<days>(time);
  const year_month_day date(day);
  return {double(int(date.year())),
          double(unsigned(date.month())),
          double(unsigned(date.day())),
          double(weekday(day).iso_encoding() - 1),
          double(duration_cast<hours>(time - day).count()),
          seconds / 86400};
}

TEST_F(OnnxColumns, NumbersAreFilledAndScaledInFloat64) {
  // Times in seconds differ by less than float32 resolves.
  export_features("numbers",
                  {{.name = "age",
                    .mean = {30},
                    .std = {4},
                    .fill = 28,
                    .missing = {-99, -999},
                    .has_gap_feature = true},
                   {.name = "time", .mean = {1.7e9}, .std = {2}, .fill = 1.7e9}},
                  3);
  give("numbers", "age", std::vector<double>{30, 34, -99, kNan, -999});
  give("numbers", "time", std::vector<double>{1.7e9 + 1, 1.7e9 + 2, 1.7e9 + 3, 1.7e9, kNan});
  want("numbers",
       tensor({{0., 0., .5}, {1., 0., 1.}, {-.5, 1., 1.5}, {-.5, 1., 0.}, {-.5, 1., 0.}}));
  run_onnx(folder_);
}

TEST_F(OnnxColumns, WordsBecomeIndices) {
  export_features("words",
                  {{.name = "color",
                    .kind = Kind::kWord,
                    .words = {{"red", 1}, {"sky blue", 2}, {"", 3}, {"NA", 3}}},
                   {.name = "none", .kind = Kind::kWord}},
                  2);
  give("words", "color", std::vector<std::string>{"red", "sky blue", "", "NA", "Red", "größe"});
  give("words", "none", std::vector<std::string>{"a", "", "b", "c", "d", "e"});
  want("words", tensor({{1., 0.}, {2., 0.}, {3., 0.}, {3., 0.}, {0., 0.}, {0., 0.}}));
  run_onnx(folder_);
}

TEST_F(OnnxColumns, DatesAreThoseOfTheGregorianCalendar) {
  std::vector<double> seconds = {0,          -1,         -86400,      86399.5,     951782399,
                                 951782400,  951868800,  4107542400,  -2203891200, -11676096000,
                                 1709164800, 1735689599, 253402300799};
  for (int64_t day = -40000; day < 60000; day += 29)
    seconds.push_back(double(day) * 86400 + 7 * 3600);
  // Means and deviations keep each feature within the precision of the comparison.
  OnnxColumn date{.name = "sold on",
                  .kind = Kind::kDate,
                  .mean = {2000, 6, 15, 3, 12, 1000},
                  .std = {100, 3, 10, 2, 6, 30000},
                  .fill = 951782400,
                  .has_gap_feature = true,
                  .first_date = 86400};
  export_features("dates", {date}, 7);
  std::vector<float> features;
  seconds.push_back(kNan);
  for (const double x : seconds) {
    std::array<double, 6> each = by_chrono(std::isnan(x) ? date.fill : x);
    each[5] -= 1;  // since first_date
    for (size_t i = 0; i < 6; ++i)
      features.push_back(float((each[i] - date.mean[i]) / date.std[i]));
    features.push_back(std::isnan(x) ? 1 : 0);
  }
  give("dates", "sold on", seconds);
  want("dates", tensor_of(features.data(), {std::ssize(seconds), 7}));
  run_onnx(folder_);
}

// A column may have the name of any other value of the graph.
TEST_F(OnnxColumns, NamesOfColumnsAreKept) {
  Linear linear(2, 1);
  const std::vector<OnnxColumn> columns = {{.name = "weight", .mean = {0}, .std = {1}},
                                           {.name = "input", .mean = {0}, .std = {1}}};
  export_onnx(linear, zeros({2, 2}), file("names.onnx"), {.columns = columns});
  give("names", "weight", std::vector<double>{1, 2, 3});
  give("names", "input", std::vector<double>{4, 5, 6});
  const NoGradGuard no_grad;
  want("names", linear(tensor({{1.f, 4.f}, {2.f, 5.f}, {3.f, 6.f}})));
  export_features("output", {{.name = "output", .mean = {0}, .std = {1}}}, 1, {"output"});
  give("output", "output", std::vector<double>{1, 2});
  want("output", tensor({{1.}, {2.}}), "output_");
  export_features("prefix", {{.name = "columns/Sub_4", .mean = {0}, .std = {1}}}, 1);
  fs::remove(folder_ / "prefix.onnx");  // passed ONNX's checker; the name is no name of a file
  run_onnx(folder_);
}

TEST_F(OnnxColumns, ColumnsThatDoNotFitAreRefused) {
  const auto says = [&](const std::vector<OnnxColumn>& columns, const std::string& text) {
    EXPECT_TRUE(refuses<ValueError>([&] { return export_features("x", columns, 2), 0; },
                                    "export_onnx: " + text));
  };
  const OnnxColumn a{.name = "a", .mean = {0}, .std = {1}};
  says({a}, "the columns give 1 features, but the module's input has 2");
  says({a, a}, "every column needs a name of its own, got 'a'");
  says({a, {.name = "b"}}, "column 'b' needs 1 means and standard deviations, got 0 and 0");
  says({{.name = "d", .kind = Kind::kDate, .mean = {0}, .std = {1}}},
       "column 'd' needs 6 means and standard deviations, got 1 and 1");
  Identity module;
  EXPECT_TRUE(refuses<ValueError>(
      [&] {
        return export_onnx(module, zeros({2, 2, 2}), file("x"), {.columns = {a}}), 0;
      },
      "export_onnx: with columns, the module takes one float32 input of shape [batch, features]"));
}

}  // namespace
}  // namespace taper::v0::test
