// The data type `table`: features, targets, parts and the report.
#include "data/tables/table.h"

#include <cmath>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "data/tables/table_report.h"
#include "framework/base/log.h"
#include "tests/data_files.h"
#include "tests/text.h"

namespace taper::v0::data {
namespace {

using Floats = std::vector<float>;

class Tables : public DataFiles {
 protected:
  // Returns a table with a number, a category, a date and a target. In rows whose number is a
  // multiple of 10 the number is missing; in the last row the target is.
  static std::string rows(int count) {
    std::string text = "age,sex,day,y\n";
    for (int i = 0; i < count; ++i) {
      text += concat_to_string(i % 10 == 0 ? "" : concat_to_string(i % 10), ",", i % 2 ? "f" : "m",
                               ",2024-", i % 12 + 1, "-05,",
                               i + 1 == count ? ""
                               : i % 3        ? "a"
                                              : "b",
                               "\n");
    }
    return text;
  }
  Table table(const std::string& text, const std::string& target = "y") const {
    return {.path = {write("t.csv", text)}, .target = {target}};
  }
  static Floats inputs_of(const DatasetPtr& set) {
    return dynamic_cast<const TensorDataset&>(*set).all().inputs.to_floats();
  }
  static Tensor targets_of(const DatasetPtr& set) {
    return dynamic_cast<const TensorDataset&>(*set).all().targets;
  }
  // Returns what is logged by f().
  template <class F> static std::string log_of(F f) {
    std::string out;
    const LogGuard guard([&](LogLevel, const std::string& text) {
      out += text + "\n";
      return false;
    });
    f();
    return out;
  }
};

TEST_F(Tables, ReportWhatWasUnderstood) {
  const Splits data = table(rows(301)).load(7);
  const std::string report = data.report.substr(data.report.find(": ") + 2);
  EXPECT_TRUE(contains(report, "301 rows, 4 columns, read in 0."));
  EXPECT_EQ(report.substr(report.find('\n')),
            "\n  column  taken as           distinct  missing\n"
            "  age     number                    9       31  filled with the median 5; \"age is "
            "missing\" is a feature\n"
            "  sex     category                  2\n"
            "  day     date                     12           from 2024-01-05: year, month, day, "
            "weekday, hour, days since then\n"
            "  y       target, 2 classes         2        1  a: 200, b: 100\n"
            "dropped: 1 row without a target\n"
            "split: 210 training, 30 validation, 60 test, stratified by y, seed 0");
  EXPECT_EQ(data.task, data::Task::kClassification);
  EXPECT_EQ(data.class_names, (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(data.input_shape, (Shape{2 + 6 + 1}));
  EXPECT_EQ(data.category_sizes, std::vector<int64_t>{3});
}

// Names are aligned by their characters, and a header over several lines stays on one.
TEST_F(Tables, ReportNamesOfAnyForm) {
  std::string text =
      "gr\xc3\xb6\xc3\x9f"
      "e,\"two\nlines\",y\n";
  for (int i = 0; i < 40; ++i) text += concat_to_string(i * 7 % 10, ",", i % 4, ",", i % 2, "\n");
  EXPECT_TRUE(contains(table(text).load(0).report,
                       "\n  gr\xc3\xb6\xc3\x9f"
                       "e         number                   10\n"
                       "  two\\x0alines  number                    4\n"));
  // Files with many columns of their own do not fill the screen.
  std::string wide, row;
  for (int i = 0; i < 30; ++i) {
    wide += concat_to_string("c", i, ",");
    row += concat_to_string(i, ",");
  }
  wide += "x,y\n";
  for (int i = 0; i < 9; ++i) wide += concat_to_string(row, i * 7 % 10, ",", i % 2, "\n");
  Table both = table("x,y\n1,0\n5,1\n2,0\n7,1\n3,1\n");
  both.path.push_back(write("wide.csv", wide));
  const std::string report = both.load(0).report;
  EXPECT_TRUE(contains(report, "  column 'c9' is new in ")) << report;
  EXPECT_FALSE(contains(report, "  column 'c10' is new in ")) << report;
  EXPECT_TRUE(contains(report, "\n  and 20 more notes on columns and files\n")) << report;
}

// Gaps that no training row has are filled, too.
TEST_F(Tables, ReportHowFewGapsAreFilled) {
  std::string text = "x,part,y\n";
  for (int i = 0; i < 40; ++i) {
    text += concat_to_string(i == 39 ? "" : concat_to_string(i * 7 % 10), ",",
                             i < 30 ? "train" : "test", ",", i % 2, "\n");
  }
  Table t = table(text);
  t.split = {.by = TableSplit::By::kColumn, .column = "part"};
  const std::string report = t.load(0).report;
  EXPECT_TRUE(contains(report, "10        1  filled with the median 4.5\n")) << report;
}

// The features are those of the formulas: standardized numbers, the gap, and indices of words.
TEST_F(Tables, BecomeFeaturesByTheTrainingRows) {
  write("train.csv", "x,w,y\n1,a,5\n2,b,6\n,a,7\n6,b,9\n3,a,4\n3,a,1\n");
  write("test.csv", "x,w,y\n,c,2\n10,b,2\n");
  Table t{.path = {(directory_ / "train.csv").string()}, .target = {"y"}};
  t.task = Table::Task::kRegression;
  t.split.test = (directory_ / "test.csv").string();
  t.split.validation = "0";
  t.rare = 1;
  const Splits data = t.load(0);
  EXPECT_FALSE(data.validation);
  // x without the gap: 1 2 6 3 3, mean 3, variance (4 + 1 + 9) / 5 = 2.8; the median is 3.
  const float s = std::sqrt(2.8f);
  const Floats train = inputs_of(data.train), test = inputs_of(data.test);
  const Floats wanted = {-2 / s, 0, 1, -1 / s, 0, 2, 0, 1, 1, 3 / s, 0, 2, 0, 0, 1, 0, 0, 1};
  ASSERT_EQ(train.size(), wanted.size());
  for (size_t i = 0; i < wanted.size(); ++i) EXPECT_NEAR(train[i], wanted[i], 1e-6) << i;
  const Floats unseen = {0, 1, 0, 7 / s, 0, 2};
  ASSERT_EQ(test.size(), unseen.size());
  for (size_t i = 0; i < unseen.size(); ++i) EXPECT_NEAR(test[i], unseen[i], 1e-6) << i;
  // Targets: mean of 5 6 7 9 4 1.
  EXPECT_NEAR(data.target_mean, 32. / 6, 1e-12);
  EXPECT_NEAR(data.target_scales()[0].original(targets_of(data.test).to_floats()[0]), 2, 1e-5);
}

TEST_F(Tables, OfDatesHaveTheirParts) {
  write("t.csv", "d,y\n2024-02-29T13:30,1\n2023-02-28,2\n2024-12-31 23:00,3\n2024-06-01,4\n");
  Table t{.path = {(directory_ / "t.csv").string()}, .target = {"y"}};
  t.standardize = false;
  t.task = Table::Task::kRegression;
  t.columns = {{"d", "date"}};
  t.split = {.validation = "0", .test = "0.25"};
  const Splits data = t.load(0);
  Floats all = inputs_of(data.train);
  const Floats test = inputs_of(data.test);
  all.insert(all.end(), test.begin(), test.end());
  std::set<Floats> rows;
  for (size_t i = 0; i < all.size(); i += 6) {
    rows.insert(Floats(all.begin() + int64_t(i), all.begin() + int64_t(i) + 5));
  }
  EXPECT_EQ(
      rows,
      (std::set<Floats>{
          {2024, 2, 29, 3, 13}, {2023, 2, 28, 1, 0}, {2024, 12, 31, 1, 23}, {2024, 6, 1, 5, 0}}));
}

TEST_F(Tables, OfTextsCountFrequentWords) {
  std::string text = "note,y\n";
  for (int i = 0; i < 40; ++i) {
    text += concat_to_string(i % 2 ? "\"Good, good service\"" : "bad food", ",", i % 2, "\n");
  }
  Table t = table(text);
  t.columns = {{"note", "text"}};
  t.text_words = 3;
  const Splits data = t.load(0);
  EXPECT_EQ(data.input_shape, Shape{3});  // of four words
  const Floats x = inputs_of(data.train);
  EXPECT_EQ(std::set<float>(x.begin(), x.end()),
            (std::set<float>{0, std::log1p(1.f), std::log1p(2.f)}));
  EXPECT_TRUE(contains(data.report, "text"));
}

TEST_F(Tables, HaveOneSplitWhateverTheRunsSeed) {
  const Table t = table(rows(100));
  EXPECT_EQ(inputs_of(t.load(1).test), inputs_of(t.load(2).test));
  Table other = t;
  other.split.seed = 5;
  EXPECT_NE(inputs_of(t.load(1).test), inputs_of(other.load(1).test));
}

TEST_F(Tables, StratifiedPartsHaveTheSharesOfTheClasses) {
  const Splits data = table(rows(301)).load(0);
  const std::pair<DatasetPtr, int64_t> parts[] = {
      {data.train, 210}, {data.validation, 30}, {data.test, 60}};
  for (const auto& [set, count] : parts) {
    ASSERT_EQ(set->size(), count);
    int64_t of_b = 0;
    for (const int64_t y : targets_of(set).to_vector<int64_t>()) of_b += y;
    EXPECT_NEAR(double(of_b), double(count) / 3, 1);
  }
}

TEST_F(Tables, CanBeDividedByGroupTimeAndColumn) {
  std::string text = "patient,when,part,x,y\n";
  for (int i = 0; i < 300; ++i) {
    text += concat_to_string("p", i % 30, ",", 1000 - i, ",",
                             i % 3 == 0   ? "test"
                             : i % 3 == 1 ? "Train"
                                          : "val",
                             ",", i, ",", i % 2, "\n");
  }
  Table t = table(text);
  t.standardize = false;
  t.columns = {{"x", "number"}, {"when", "ignore"}, {"part", "ignore"}, {"patient", "ignore"}};
  const auto xs = [&](const DatasetPtr& set) {
    std::set<int> out;
    for (const float x : inputs_of(set)) out.insert(int(x));
    return out;
  };
  t.split = {.by = TableSplit::By::kTime, .column = "when"};
  Splits data = t.load(0);
  // The latest times are in the first rows.
  EXPECT_EQ(*xs(data.test).rbegin(), 59);
  EXPECT_EQ(*xs(data.validation).begin(), 60);
  EXPECT_EQ(*xs(data.validation).rbegin(), 89);
  EXPECT_TRUE(contains(data.report, "in the order of when"));
  t.split = {.by = TableSplit::By::kColumn, .column = "part"};
  data = t.load(0);
  for (const int x : xs(data.test)) EXPECT_EQ(x % 3, 0);
  for (const int x : xs(data.validation)) EXPECT_EQ(x % 3, 2);
  t.split = {.by = TableSplit::By::kGroup, .column = "patient"};
  t.columns.erase("patient");
  data = t.load(0);
  std::map<int, std::set<const Dataset*>> parts_of_group;
  for (const DatasetPtr& set : {data.train, data.validation, data.test}) {
    for (const int x : xs(set)) parts_of_group[x % 30].insert(set.get());
  }
  EXPECT_EQ(parts_of_group.size(), 30u);
  for (const auto& [group, parts] : parts_of_group) EXPECT_EQ(parts.size(), 1u) << group;
}

TEST_F(Tables, FoldsCoverTheRowsOnce) {
  Table t = table(rows(101));
  std::multiset<float> days;
  for (int fold = 0; fold < 4; ++fold) {
    t.split = {.folds = 4, .fold = fold};
    const Splits data = t.load(0);
    EXPECT_EQ(data.test->size(), 25);
    EXPECT_TRUE(contains(data.report, concat_to_string("fold ", fold, " of 4")));
  }
}

TEST_F(Tables, RefuseWhatTheyCannotUse) {
  struct Row {
    const char* what;
    Table table;
    const char* says;
  };
  const Table good = table(rows(50));
  const auto with = [&](auto change) {
    Table out = good;
    change(out);
    return out;
  };
  const Row cases[] = {
      {"no such target", with([](Table& t) { t.target = {"z"}; }), "no column 'z'"},
      {"missing targets refused",
       with([](Table& t) { t.missing.target = MissingOptions::Target::kRefuse; }),
       "t.csv:51: column 'y': the target is missing"},
      {"missing numbers refused",
       with([](Table& t) { t.missing.numbers = MissingOptions::Numbers::kRefuse; }),
       "t.csv:2: column 'age' is missing"},
      {"values of words", with([](Table& t) { t.task = Table::Task::kRegression; }),
       "column 'y': expected a number, got"},
      {"nothing to train", with([](Table& t) { t.split = {.validation = "0.5", .test = "0.5"}; }),
       "leave nothing to train"},
      {"no test rows", with([](Table& t) { t.split = {.validation = "0", .test = "0"}; }),
       "both must be at least 1"},
      {"time that is no time",
       with([](Table& t) { t.split = {.by = TableSplit::By::kTime, .column = "sex"}; }),
       "which is no date and no number"},
      {"no split column",
       with([](Table& t) { t.split = {.by = TableSplit::By::kGroup, .column = "patient"}; }),
       "no column 'patient'"},
      {"wide", with([](Table& t) { t.max_features = 5; }), "of data.max_features"},
      {"nothing to learn from", with([](Table& t) {
         t.columns = {{"*", "ignore"}};
       }),
       "t.csv: no column is left to learn from; 'age' is ignored; 'sex' is ignored"},
      {"logarithm of words", with([](Table& t) {
         t.target = {"age"};
         t.log_target = true;
         t.columns = {{"y", "ignore"}};
       }),
       "accepted"}};
  for (const Row& row : cases) {
    EXPECT_TRUE(contains(refusal_of<Error>([&] { (void)row.table.load(0); }), row.says))
        << row.what << ": " << refusal_of<Error>([&] { (void)row.table.load(0); });
  }
}

TEST_F(Tables, RefuseWhatTeachesNothing) {
  std::string numbers = "x,y\n";
  for (int i = 0; i < 100; ++i) {
    numbers +=
        concat_to_string(i * 7 % 10, ",", i == 31 ? "soon" : concat_to_string(i * 0.5), "\n");
  }
  struct Row {
    std::string rows;
    const char* says;
  };
  const Row cases[] = {
      {"n,same,y\n1,a,p\n2,a,q\n3,a,p\n4,a,q\n5,a,p\n6,a,q\n",
       "t.csv: no column is left to learn from; 'n' is ignored: the number of the row (columns: "
       "{n: number} uses it); 'same' is ignored: the same in every row"},
      {"y\na\nb\na\nb\na\nb\n", "t.csv: no column is left to learn from"},
      {"x,y\n5,1.5\n3,1.5\n8,1.5\n1,1.5\n2,1.5\n9,1.5\n",
       "t.csv: column 'y' has the one value 1.5 in all training rows: there is nothing to learn"},
      {numbers,
       "t.csv:33: column 'y': expected a number, got 'soon'; if it says that the value is missing, "
       "list it in missing.values"}};
  for (const Row& row : cases) {
    const Table t = table(row.rows);
    EXPECT_TRUE(contains(refusal_of<Error>([&] { (void)t.load(0); }), row.says)) << row.says;
  }
  Table listed = table(numbers);
  listed.missing.values = {"soon"};
  EXPECT_EQ(listed.load(0).task, data::Task::kRegression);
}

// Returns rows with a number, a weight and a class, of which b is rarer.
static std::string weighted_rows() {
  std::string text = "x,w,y\n";
  for (int i = 0; i < 60; ++i) {
    text += concat_to_string(i * 37 % 60 * 0.5, ",", i % 5 * 0.5, ",", i % 3 ? "a" : "b", "\n");
  }
  return text;
}

TEST_F(Tables, HaveOneColumnOfWeights) {
  Table t = table(weighted_rows());
  t.columns = {{"w", "weight"}};
  const Splits data = t.load(0);
  EXPECT_TRUE(data.has_weights);
  EXPECT_EQ(data.input_shape, Shape{1});
  EXPECT_TRUE(contains(data.report, "w       weight")) << data.report;
  const Batch train = dynamic_cast<const TensorDataset&>(*data.train).all();
  ASSERT_EQ(train.others.size(), 1u);
  EXPECT_EQ(train.others[0].size(0), 48);
  EXPECT_EQ(train.others[0].dtype(), kFloat32);
  t.columns["x"] = "weight";
  EXPECT_TRUE(contains(refusal_of<OptionError>([&] { (void)t.load(0); }),
                       "columns: only one column can be the weight, not 'x' and 'w'"));
}

TEST_F(Tables, WeightsOfClassesArePartOfThoseOfRows) {
  Table t = table(weighted_rows());
  t.columns = {{"w", "weight"}};
  const Batch plain = dynamic_cast<const TensorDataset&>(*t.load(0).train).all();
  t.class_weights = {{"b", "3"}};
  const Splits data = t.load(0);
  EXPECT_TRUE(data.class_weights.empty());
  const Batch train = dynamic_cast<const TensorDataset&>(*data.train).all();
  for (int64_t i = 0; i < data.train->size(); ++i) {
    const float factor = train.targets[i].item<int64_t>() == 1 ? 3 : 1;
    EXPECT_EQ(train.others[0][i].item<float>(), factor * plain.others[0][i].item<float>());
  }
  t.class_weights.clear();
  t.balance = Table::Balance::kWeights;
  const Batch even = dynamic_cast<const TensorDataset&>(*t.load(0).train).all();
  double sums[2] = {0, 0};
  for (int64_t i = 0; i < data.train->size(); ++i) {
    sums[even.targets[i].item<int64_t>()] += double(even.others[0][i].item<float>());
  }
  EXPECT_NEAR(sums[0], sums[1], 1e-4);
}

TEST_F(Tables, RefuseBadWeights) {
  struct Row {
    const char *cell, *says;
  };
  constexpr Row kRows[] = {
      {"", "t.csv:4: column 'w': the weight is missing; expected a number of at least 0"},
      {"NA", "t.csv:4: column 'w': expected a weight, a number of at least 0, got 'NA'"},
      {"-1", "t.csv:4: column 'w': expected a weight, a number of at least 0, got '-1'"},
      {"2 kg", "t.csv:4: column 'w': expected a weight, a number of at least 0, got '2 kg'"},
      {"1e39", "t.csv:4: column 'w': expected a weight, a number of at least 0, got '1e+39'"},
      {"0", "accepted"}};
  for (const Row& row : kRows) {
    std::string text = "x,w,y\n1.5,1,a\n2.5,1,b\n";
    text += concat_to_string("3.5,", row.cell, ",a\n");
    for (int i = 0; i < 20; ++i) text += concat_to_string(i * 0.25, ",1,", i % 2 ? "a" : "b", "\n");
    Table t = table(text);
    t.columns = {{"w", "weight"}};
    const std::string said = refusal_of<Error>([&] { (void)t.load(0); });
    EXPECT_TRUE(contains(said, row.says)) << said;
  }
  std::string zeros = "x,w,y\n";
  for (int i = 0; i < 20; ++i) zeros += concat_to_string(i * 0.25, ",0,", i % 2 ? "a" : "b", "\n");
  Table t = table(zeros);
  t.columns = {{"w", "weight"}};
  EXPECT_TRUE(contains(refusal_of<DataError>([&] { (void)t.load(0); }),
                       "column 'w' is 0 in all 16 rows of one of the parts"));
}

TEST_F(Tables, FurtherFilesNeedNoWeights) {
  Table t = table(weighted_rows());
  t.columns = {{"w", "weight"}};
  const Splits data = t.load(0);
  EXPECT_EQ(t.more(data, write("bare.csv", "x\n1\n2\n"))->size(), 2);
  const auto others = [&](const std::string& file) {
    return dynamic_cast<const TensorDataset&>(*t.more(data, file)).all().others;
  };
  EXPECT_EQ(others(write("both.csv", "w,y,x\n2,a,1\n4,b,2\n")).at(0).to_floats(), (Floats{2, 4}));
  const std::string said =
      log_of([&] { EXPECT_TRUE(others(write("labels.csv", "y,x\na,1\nb,2\n")).empty()); });
  EXPECT_TRUE(contains(said, "it has no column 'w' of weights")) << said;
  // Without a header, columns are found by position.
  std::string text;
  for (int i = 0; i < 50; ++i) text += concat_to_string(i * 0.5, ",", i % 7, ",1,", i % 2, "\n");
  const Table plain{
      .path = {write("plain.csv", text)}, .target = {"3"}, .columns = {{"column 2", "weight"}}};
  const Splits found = plain.load(0);
  EXPECT_EQ(inputs_of(plain.more(found, write("p1.csv", "2.5,3\n4,5\n"))),
            inputs_of(plain.more(found, write("p2.csv", "2.5,3,1,0\n4,5,1,1\n"))));
}

// Rows with two labels, of which the second has words.
static std::string labeled_rows() {
  std::string text = "x,red,round,size,n\n";
  for (int i = 0; i < 240; ++i) {
    text += concat_to_string(i * 37 % 240 * 0.5, ",", i % 4 == 0 ? 1 : 0, ",", i % 3 ? "no" : "yes",
                             ",",
                             i % 3 == 0   ? "s"
                             : i % 3 == 1 ? "m"
                                          : "l",
                             ",", i * 0.25, "\n");
  }
  return text;
}

TEST_F(Tables, SeveralTargetsOfTwoValuesAreLabels) {
  Table t = table(labeled_rows());
  t.target = {"red", "round"};
  const Splits data = t.load(0);
  EXPECT_EQ(data.task, Task::kClassification);
  EXPECT_EQ(data.outputs, 2);
  EXPECT_EQ(data.class_names, (std::vector<std::string>{"red", "round"}));
  ASSERT_EQ(data.labels.size(), 2u);
  EXPECT_EQ(data.labels[1].classes, (std::vector<std::string>{"no", "yes"}));
  EXPECT_TRUE(contains(data.report, "red     target, label")) << data.report;
  EXPECT_TRUE(contains(data.report, "stratified by red and round")) << data.report;
  const Tensor targets = targets_of(data.test);
  EXPECT_EQ(targets.shape(), (Shape{48, 2}));
  EXPECT_EQ(targets.dtype(), kFloat32);
  // Each combination has its share: 240 * 0.2 / 4 rows have the first label, a third the second.
  double red = 0, round = 0, both = 0;
  for (int64_t i = 0; i < 48; ++i) {
    const bool a = targets[i][0].item<float>() == 1, b = targets[i][1].item<float>() == 1;
    red += a;
    round += b;
    both += a && b;
  }
  EXPECT_EQ(red, 12);
  EXPECT_EQ(round, 16);
  EXPECT_EQ(both, 4);
}

TEST_F(Tables, SeveralTargetsAreOfOneKind) {
  struct Row {
    std::vector<std::string> targets;
    const char* says;
  };
  const std::vector<Row> cases = {
      {{"red", "x"}, "accepted"},  // both are numbers
      {{"round", "x"}, "these have words: 'round'; and these numbers: 'x'; train a model for each"},
      {{"round", "size"}, "these have words: 'round', 'size' (3 words); train a model for each"},
      {{"red", "round", "n"}, "these have words: 'round'; and these numbers: 'red', 'n'"}};
  for (const Row& row : cases) {
    Table t = table(labeled_rows());
    t.target = row.targets;
    const std::string said = refusal_of<Error>([&] { (void)t.load(0); });
    EXPECT_TRUE(contains(said, row.says)) << said;
  }
  Table t = table(labeled_rows());
  t.target = {"red", "x"};
  EXPECT_EQ(t.load(0).task, Task::kRegression);
  t.task = Table::Task::kClassification;
  EXPECT_TRUE(
      contains(refusal_of<DataError>([&] { (void)t.load(0); }),
               "column 'x' has 240 classes; several targets of classes must have two each"));
  t.target = {"red", "round"};
  t.task = Table::Task::kRegression;
  EXPECT_TRUE(contains(refusal_of<InputError>([&] { (void)t.load(0); }),
                       "column 'round': expected a number, got"));
}

TEST_F(Tables, ALogarithmNeedsPositiveValues) {
  Table t = table("x,y\n1,2\n2,0\n3,4\n4,5\n5,6\n");
  t.log_target = true;
  EXPECT_TRUE(contains(refusal_of<InputError>([&] { (void)t.load(0); }),
                       "t.csv:3: column 'y': its logarithm is the target, but it is 0"));
}

TEST_F(Tables, MatchFurtherFilesByName) {
  Table t = table(rows(100));
  t.columns = {{"day", "keep"}};
  const Splits data = t.load(0);
  const std::string file = write("new.csv", "extra,day,sex,age\n1,01.02.2024,x,3\n2,b,m,\n");
  const DatasetPtr more = t.more(data, file);
  EXPECT_EQ(more->size(), 2);
  EXPECT_EQ(more->fields(), std::vector<std::string>{"inputs"});
  const Floats x = inputs_of(more);
  EXPECT_EQ(x[1], 0);
  EXPECT_EQ(x[2], 0) << "an unknown word";
  EXPECT_EQ(x[4], 1) << "a missing number";
  EXPECT_EQ(x[5], 2) << "m";
  const KeptColumns kept = t.kept(data, file);
  EXPECT_EQ(kept.names, std::vector<std::string>{"day"});
  EXPECT_EQ(kept.rows, (std::vector<std::vector<std::string>>{{"01.02.2024"}, {"b"}}));
  write("less.csv", "sex\nm\n");
  EXPECT_TRUE(contains(refusal_of<Error>([&] { (void)t.more(data, directory_ / "less.csv"); }),
                       "no column 'age', which the model was trained with"));
  write("words.csv", "sex,age\nm,old\n");
  EXPECT_TRUE(
      contains(refusal_of<InputError>([&] { (void)t.more(data, directory_ / "words.csv"); }),
               "words.csv:2: column 'age': expected a number, as in training, got 'old'"));
  t.unknown = Table::Unknown::kRefuse;
  EXPECT_TRUE(contains(refusal_of<InputError>([&] { (void)t.more(t.load(0), file); }),
                       "new.csv:2: column 'sex': 'x' is not among the words of training"));
}

TEST_F(Tables, WithoutAHeaderAreMatchedByPosition) {
  std::string text;
  for (int i = 0; i < 50; ++i) text += concat_to_string(i % 2, "\t", i * 0.5, "\t", i % 7, "\n");
  const Table t{.path = {write("t.tsv", text)}, .target = {"0"}};
  const Splits data = t.load(0);
  const Floats whole = inputs_of(t.more(data, write("a.tsv", "1\t2.5\t3\n0\t4\t5\n")));
  const Floats bare = inputs_of(t.more(data, write("b.tsv", "2.5\t3\n4\t5\n")));
  EXPECT_EQ(whole, bare);
  EXPECT_TRUE(
      contains(refusal_of<InputError>([&] { (void)t.more(data, write("c.tsv", "1\n2\n")); }),
               "expected 3 columns, as the training file has, got 1"));
}

TEST_F(Tables, WarnOfLeaksAndOfRandomDivisionsOfSeries) {
  std::string text = "code,day,y\n";
  for (int i = 0; i < 120; ++i) {
    text += concat_to_string(i % 4 ? "k" : "l", ",2024-", i / 28 + 1, "-", i % 28 + 1, ",",
                             i % 4 ? "yes" : "no", "\n");
  }
  Table t = table(text);
  std::string said = log_of([&] { (void)t.load(0); });
  EXPECT_TRUE(contains(said, "column 'code' alone determines 'y'")) << said;
  EXPECT_TRUE(contains(said, "the rows are in the order of 'day'")) << said;
  t.split = {.by = TableSplit::By::kTime, .column = "day"};
  t.columns = {{"code", "ignore"}};
  EXPECT_EQ(log_of([&] { (void)t.load(0); }), "");
}

TEST(WithSeparators, GroupsThousands) {
  const std::pair<int64_t, const char*> rows[] = {{0, "0"},          {999, "999"},
                                                  {1000, "1,000"},   {1234567, "1,234,567"},
                                                  {-1000, "-1,000"}, {-100, "-100"}};
  for (const auto& [number, text] : rows) EXPECT_EQ(with_separators(number), text);
}

}  // namespace
}  // namespace taper::v0::data
