#include "data/tables/csv.h"

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "framework/base/log.h"
#include "tests/data_files.h"

namespace taper::v0::data {
namespace {

namespace fs = std::filesystem;
using Header = CsvFormat::Header;
using Floats = std::vector<float>;
using Doubles = std::vector<double>;
using Ints = std::vector<int64_t>;
using Names = std::vector<std::string>;

class CsvFiles : public ::testing::Test {
 protected:
  CsvFiles() {
    std::string name = (fs::temp_directory_path() / "csv_test_XXXXXX").string();
    if (!mkdtemp(name.data())) throw std::runtime_error("no temporary directory");
    directory_ = name;
  }
  ~CsvFiles() override { fs::remove_all(directory_); }

  fs::path write(const std::string& text, const std::string& name = "t.csv") const {
    const fs::path file = directory_ / name;
    std::ofstream(file, std::ios::binary) << text;
    return file;
  }
  CsvTable read(const std::string& text, const CsvFormat& options = {}) const {
    return read_csv(write(text), options);
  }

  fs::path directory_;
};

Floats features(const CsvTable& table) { return features_of(table).to_floats(); }

CsvFormat with_label(std::string label) {
  CsvFormat options;
  options.label = std::move(label);
  return options;
}

CsvFormat with_header(Header header) {
  CsvFormat options;
  options.header = header;
  return options;
}

CsvFormat for_regression() {
  CsvFormat options;
  options.task = Task::kRegression;
  return options;
}

// Expects that `message` is a single line that starts with `start` and contains all of `parts`.
void expect_message(const std::string& message, const std::string& start, const Names& parts) {
  EXPECT_EQ(message.substr(0, start.size()), start) << message;
  EXPECT_EQ(message.find('\n'), std::string::npos) << message;
  for (const std::string& part : parts) {
    EXPECT_NE(message.find(part), std::string::npos) << "wanted: " << part << "\nin: " << message;
  }
}

TEST_F(CsvFiles, ReadsFeaturesAndTextClasses) {
  const CsvTable t = read("5.1,3.5,setosa\n4.9,-3,virginica\n1e-1,+.5,setosa\n");
  EXPECT_FALSE(t.has_header);
  EXPECT_EQ(t.rows, 3);
  EXPECT_EQ(t.columns, 2);
  EXPECT_EQ(features(t), (Floats{5.1F, 3.5F, 4.9F, -3.F, 0.1F, 0.5F}));
  EXPECT_EQ(t.feature_names, (Names{"column 0", "column 1"}));
  EXPECT_EQ(t.classes, (Names{"setosa", "virginica"}));
  EXPECT_EQ(t.labels, (Ints{0, 1, 0}));
  EXPECT_TRUE(t.targets.empty());
}

TEST_F(CsvFiles, IntegerClassesSortByValueAndOthersByBytes) {
  EXPECT_EQ(read("1,10\n1,9\n1,-2\n1,+9\n1,010\n").classes, (Names{"-2", "9", "10"}));
  EXPECT_EQ(read("1,10\n1,9\n1,-2\n1,+9\n1,010\n").labels, (Ints{2, 1, 0, 1, 2}));
  EXPECT_EQ(read("1,10\n1,9\n1,b\n1,B\n").classes, (Names{"10", "9", "B", "b"}));
  EXPECT_EQ(read("1,10\n1,9\n1,b\n1,B\n").labels, (Ints{0, 1, 3, 2}));
}

TEST_F(CsvFiles, TheLabelColumnIsAnIndexFromEitherEndOrAName) {
  const std::string rows = "1,2,3\n4,5,6\n";
  const struct {
    std::string text, label;
    int64_t column;
    Floats features;
  } cases[] = {
      {rows, "-1", 2, {1, 2, 4, 5}},
      {rows, "0", 0, {2, 3, 5, 6}},
      {rows, "-3", 0, {2, 3, 5, 6}},
      {rows, "1", 1, {1, 3, 4, 6}},
      {"a,b,c\n" + rows, "b", 1, {1, 3, 4, 6}},
      {"a,b,c\n" + rows, "-1", 2, {1, 2, 4, 5}},
      {"a,b,-1\n" + rows, "b", 1, {1, 3, 4, 6}},
  };
  for (const auto& c : cases) {
    CsvFormat options = with_label(c.label);
    options.header = c.text == rows ? Header::kAbsent : Header::kPresent;
    const CsvTable t = read(c.text, options);
    EXPECT_EQ(t.label_column, c.column) << c.label;
    EXPECT_EQ(features(t), c.features) << c.label;
  }
}

TEST_F(CsvFiles, ANameInTheHeaderGoesBeforeAnIndex) {
  EXPECT_EQ(read("1,0,x\n7,8,9\n", {.label = "1", .header = Header::kPresent}).label_column, 0);
}

TEST_F(CsvFiles, AHeaderIsWordsAboveNumbers) {
  const struct {
    std::string text;
    bool has_header;
    int64_t rows;
  } cases[] = {
      {"a,b,c\n1,2,x\n3,4,y\n", true, 2},
      {"1,2,x\n3,4,y\n", false, 2},
      {"1,2,3\n3,4,5\n", false, 2},
      {",a,c\n1,2,x\n", true, 1},
      {"a,b,c\n\n\n1,2,x\n", true, 1},
      {"1,2,x\n", false, 1},
      {"1,2,class\n3,4,y\n5,6,z\n", false, 3},
      {"a,b,7\n1,2,x\n", true, 1},
  };
  for (const auto& c : cases) {
    const CsvTable t = read(c.text);
    EXPECT_EQ(t.has_header, c.has_header) << c.text;
    EXPECT_EQ(t.rows, c.rows) << c.text;
  }
  EXPECT_EQ(read("a,b,c\n1,2,x\n").feature_names, (Names{"a", "b"}));
  EXPECT_EQ(read("a,b,c\n1,2,x\n").label_name, "c");
  EXPECT_EQ(read("1,2,3\n4,5,6\n", with_header(Header::kPresent)).rows, 1);
}

TEST_F(CsvFiles, ARowWithTheLabelsNameIsAHeader) {
  CsvFormat options = with_label("kind");
  options.categories = CsvFormat::Categories::kOneHot;
  EXPECT_EQ(read("colour,kind\nred,a\nblue,b\n", options).rows, 2);
}

TEST_F(CsvFiles, ARowThatSeemsToBeAHeaderIsNamed) {
  const struct {
    std::string text;
    Header header;
    bool is_named;
  } cases[] = {
      {"x,cls\nred,a\nblue,b\nred,b\nblue,a\n", Header::kAuto, true},
      {"x,cls\nred,0\nblue,1\nred,1\nblue,0\n", Header::kAbsent, true},
      {"x,cls\nred,a\nblue,b\nred,b\nblue,a\n", Header::kPresent, false},
      {"red,a\nblue,b\nred,b\nblue,a\n", Header::kAuto, false},     // its words occur again
      {"green,c\nred,a\nblue,b\nbrown,d\n", Header::kAuto, false},  // no word occurs again
  };
  for (const auto& c : cases) {
    SCOPED_TRACE(c.text);
    std::string heard;
    const LogGuard scope([&](LogLevel, const std::string& message) {
      heard += message;
      return false;
    });
    CsvFormat options = with_header(c.header);
    options.categories = CsvFormat::Categories::kOneHot;
    read(c.text, options);
    EXPECT_EQ(heard.find(":1: this row is read as data, but") != std::string::npos, c.is_named)
        << heard;
  }
}

TEST_F(CsvFiles, AWordInTheFirstRowOfNumbersIsNotTakenForAHeader) {
  const std::string message = refusal_of<InputError>([&] { read("5,abc,3\n4,2,3\n"); });
  expect_message(message, (directory_ / "t.csv").string() + ":1: column 1",
                 {"'abc'", "data.header"});
}

TEST_F(CsvFiles, RegressionTargetsAreNumbers) {
  const CsvTable t = read("1,2.5\n3,-4\n", for_regression());
  EXPECT_EQ(t.targets, (Doubles{2.5, -4}));
  EXPECT_TRUE(t.labels.empty());
  EXPECT_TRUE(t.classes.empty());
}

TEST_F(CsvFiles, ToleratesQuotesLineEndsBlankLinesBomAndBlanks) {
  const std::string texts[] = {
      "x,y\n1,a b\n2,c\n",
      "x,y\n1,a b\n2,c",
      "x,y\r\n1,a b\r\n2,c\r\n",
      "x,y\r1,a b\r2,c\r",
      "\n\nx,y\n \n1,a b\n\r\n\t\n2,c\n\n",
      "\xef\xbb\xbfx,y\n1,a b\n2,c\n",
      "\xef\xbb\xbf\"x\",y\n1,a b\n2,c\n",
      " x , y \n  1\t,\ta b \n2 , c\n",
      "\"x\",\"y\"\n\"1\",\"a b\"\n \"2\" ,\"c\" \n",
  };
  for (const std::string& text : texts) {
    const CsvTable t = read(text);
    EXPECT_EQ(t.feature_names, Names{"x"}) << text;
    EXPECT_EQ(t.label_name, "y") << text;
    EXPECT_EQ(features(t), (Floats{1, 2})) << text;
    EXPECT_EQ(t.classes, (Names{"a b", "c"})) << text;
  }
}

TEST_F(CsvFiles, AQuotedFieldMayHoldDelimiterQuotesAndLineEnds) {
  const CsvTable t = read("1,\"a,\"\"b\"\"\n c \"\n2,it\"s\n3,\"\"\"\"\n");
  EXPECT_EQ(t.classes, (Names{"\"", "a,\"b\"\n c ", "it\"s"}));
  EXPECT_EQ(t.labels, (Ints{1, 2, 0}));
}

TEST_F(CsvFiles, OtherDelimiters) {
  for (const char delimiter : {';', '\t', ' ', '|'}) {
    CsvFormat options;
    options.delimiter = delimiter;
    const std::string d(1, delimiter);
    const CsvTable t = read("1" + d + "2" + d + "a,b\n3" + d + "4" + d + "c\n", options);
    EXPECT_EQ(features(t), (Floats{1, 2, 3, 4})) << delimiter;
    EXPECT_EQ(t.classes, (Names{"a,b", "c"})) << delimiter;
  }
  for (const char delimiter : {'"', '\n', '\r'}) {
    CsvFormat options;
    options.delimiter = delimiter;
    EXPECT_THROW(read("1,2\n", options), ValueError);
  }
}

TEST_F(CsvFiles, NumbersStayDoublesUntilTheyAreFeatures) {
  const CsvTable t = read("3.4028234e38,1e-60,16777217,1e-400,-1e-400,x\n");
  EXPECT_EQ(t.cells, (Doubles{3.4028234e38, 1e-60, 16777217, 0, 0}));
  EXPECT_TRUE(std::signbit(t.cells[4]));
  EXPECT_EQ(features(t), (Floats{3.4028234e38F, 0, 16777216, 0, 0}));
}

// The rows differ only in digits that float32 does not represent.
TEST_F(CsvFiles, ALargeOffsetLosesNoDigitsBeforeItIsTakenOff) {
  CsvTable t = read("1700000000,1700000003.5\n1700000001,1700000000.5\n", for_regression());
  t.scale = fit_standardizer(t.cells, 1);
  EXPECT_EQ(t.scale.mean, Doubles{1700000000.5});
  EXPECT_EQ(features(t), (Floats{-1, 1}));
  EXPECT_EQ(t.targets, (Doubles{1700000003.5, 1700000000.5}));
}

TEST_F(CsvFiles, RefusesBadRowsWithFileAndLine) {
  static const struct {
    std::string text;
    CsvFormat options;
    std::string start;  // what follows the file's name
    Names parts;
  } cases[] = {
      {"", {}, ": ", {"empty file"}},
      {" \n\r\n\xef\xbb\xbf", {}, ":3: ", {"one field"}},
      {"\n \n\n", {}, ": ", {"empty file"}},
      {"a,b\n", with_header(Header::kPresent), ":1: ", {"only a header"}},
      {"\nlength,kind\n", {}, ":2: expected rows of data, got only a header", {}},
      {"a,b\n1,x\n2,\xe9t\xe9\n", {}, ":3: not UTF-8 text (byte 233)", {"save the file as UTF-8"}},
      {"l\xe4nge,b\n1,x\n", {}, ":1: not UTF-8 text (byte 228)", {}},
      {"a,b\n\"1,5\",x\n", with_header(Header::kPresent), ":2: column 'a'", {"with a point"}},
      {"a,b\n1;2,x\n", with_header(Header::kPresent), ":2: column 'a'", {"delimiter ';'?"}},
      {"1,2,x\n\n3,4\n", {}, ":3: expected 3 fields, got 2", {}},
      {"1,2,x\n3,4,y,\n", {}, ":2: expected 3 fields, got 4", {}},
      {"a,b,c\n1,2,x\n3,4\n", {}, ":3: expected 3 fields, got 2", {}},
      {"1,\"a\nb\"\n3,c,5\n", {}, ":3: expected 2 fields, got 3", {}},
      {"1;2;x\n3;4;y\n", {}, ":1: ", {"'1;2;x'", "delimiter ','"}},
      {"a,b,c\n1,2,x\n3,four,y\n", {}, ":3: column 'b': expected a number, got 'four'", {}},
      {"1,2,x\n3,4 5,y\n", {}, ":2: column 1: expected a number, got '4 5'", {}},
      {"a,b,c\n1,0x10,x\n", with_header(Header::kPresent), ":2: column 'b'", {"'0x10'"}},
      {"1,2,x\n3,--4,y\n", {}, ":2: column 1: expected a number", {}},
      {"1,2,x\n3,+-4,y\n", {}, ":2: column 1: expected a number", {}},
      {"1,2,x\n3,\"4,5\",y\n", {}, ":2: column 1: expected a number, got '4,5'", {}},
      {"1,a\tb,x\n3,c,y\n", {}, ":1: column 1", {"'a\\x09b'", "must be numeric"}},
      {"1,2,x\n3,,y\n", {}, ":2: column 1 is empty", {}},
      {"1,2,x\n3,\"\",y\n", {}, ":2: column 1 is empty", {}},
      {"1,2,x\n3,4,\n", {}, ":2: column 2 is empty", {"class label"}},
      {"1,2,x\n3,nan,y\n", {}, ":2: column 1: expected a number, got 'nan'", {"missing: mean"}},
      {"1,2,x\n3,NA,y\n", {}, ":2: column 1: expected a number, got 'NA'", {"missing: mean"}},
      {"nan,2,x\n3,4,y\n", {}, ":1: column 0: expected a number, got 'nan'", {"missing: mean"}},
      {"1,2,x\n3,-Inf,y\n", {}, ":2: column 1: expected a finite number, got '-Inf'", {}},
      {"1,2,x\n3,1e39,y\n", {}, ":2: column 1: '1e39' is out of float32's range", {}},
      {"1,2,x\n3,1e999,y\n", {}, ":2: column 1: '1e999' is out of float32's range", {}},
      {"1,2,x\n3,\"4,y\n5,6,z\n", {}, ":2: a quote is opened", {"never closed"}},
      {"1,2,x\n3,\"4\"4,y\n", {}, ":2: ", {"closing quote"}},
      {"1,2\n3,x\n", for_regression(), ":2: column 1: expected a number, got 'x'", {}},
      {"1,2\n3,\n", for_regression(), ":2: column 1 is empty", {}},
      {"len,width,kind\n1,2,x\n",
       with_label("knd"),
       ":1: no label column 'knd'",
       {"nearest are 'kind'"}},
      {"1,2,x\n3,4,y\n",
       with_label("kind"),
       ":1: no label column 'kind'",
       {"-3 .. 2", "no header"}},
      {"1,2,x\n3,4,y\n",
       with_label("3"),
       ":1: no label column '3'",
       {"-3 .. 2", "header: present"}},
      {"2019,2020,2021\n3,4,5\n",
       with_label("2021"),
       ":1: no label column '2021'",
       {"was read as data", "`header: present`"}},
      {"a,b\n1,2\n3,x\n", for_regression(), ":3: column 'b'", {"`task: classification`"}},
      {"a,b\n1,2\n3,NA\n", for_regression(), ":3: column 'b'", {"'NA'", "remove the row"}},
      {"a,b\n1,\"1,234\"\n", for_regression(), ":2: column 'b'", {"write 1234 if", "1.234 if"}},
      {"1,2,x\n3,4,y\n", with_label("-4"), ":1: no label column '-4'", {}},
      {"a,b,b\n1,2,x\n", with_label("b"), ":1: two columns are named 'b'", {"index"}},
      {std::string("1,2\n\0,3\n", 8), {}, ": ", {"zero byte at offset 4"}},
  };
  for (const auto& c : cases) {
    const std::string message = refusal_of<InputError>([&] { read(c.text, c.options); });
    expect_message(message, (directory_ / "t.csv").string() + c.start, c.parts);
  }
}

TEST_F(CsvFiles, RefusesAMissingFileAndADirectory) {
  const fs::path missing = directory_ / "missing.csv";
  expect_message(refusal_of<InputError>([&] { read_csv(missing, {}); }), missing.string() + ": ",
                 {"No such file"});
  expect_message(refusal_of<InputError>([&] { read_csv(directory_, {}); }),
                 directory_.string() + ": ", {"directory"});
}

TEST_F(CsvFiles, LongTextIsShortenedBetweenCharacters) {
  std::string word;
  for (int i = 0; i < 30; ++i) word += "\xc3\xa9";
  const std::string message = refusal_of<InputError>([&] { read("1,2,x\n3,a" + word + ",y\n"); });
  EXPECT_NE(message.find("\xc3\xa9...'"), std::string::npos) << message;
  EXPECT_EQ(message.find("\xc3..."), std::string::npos) << message;
}

TEST_F(CsvFiles, ATestFileTakesItsClassesFromTheTrainingFile) {
  const CsvTable train = read("a,kind,b\n1,x,2\n3,y,4\n5,z,6\n", with_label("kind"));
  const CsvTable test = read_csv_like(train, write("7,z,8\n9,x,10\n", "test.csv"));
  EXPECT_EQ(test.classes, train.classes);
  EXPECT_EQ(test.labels, (Ints{2, 0}));
  EXPECT_EQ(features(test), (Floats{7, 8, 9, 10}));
  const CsvTable numbers = read("1,3\n1,12\n");
  EXPECT_EQ(read_csv_like(numbers, write("1,012\n", "test.csv")).labels, Ints{1});
  const CsvTable target = read("1,3\n1,12\n", for_regression());
  EXPECT_EQ(read_csv_like(target, write("1,7\n", "test.csv")).targets, Doubles{7});
}

TEST_F(CsvFiles, RefusesATestFileThatDoesNotFitTheTrainingFile) {
  const CsvTable train = read("a,b,kind\n1,2,rose\n3,4,lily\n");
  const struct {
    std::string text, start;
    Names parts;
  } cases[] = {
      {"1,2,rose\n3,4,lilly\n", ":2: column 2: class 'lilly'", {"nearest", "'lily', 'rose'"}},
      {"a,b,kind\n\n1,2,iris\n", ":3: column 'kind': class 'iris'", {}},
      {"1,rose\n", ":1: expected 3 fields as in the training file, got 2", {}},
      {"b,a,kind\n1,2,rose\n", ":1: expected column 0 (the first is 0) to be 'a'", {"got 'b'"}},
  };
  for (const auto& c : cases) {
    const fs::path file = write(c.text, "test.csv");
    expect_message(refusal_of<InputError>([&] { read_csv_like(train, file); }),
                   file.string() + c.start, c.parts);
  }
}

CsvFormat tolerant() {
  CsvFormat options;
  options.missing = CsvFormat::Missing::kMean;
  options.categories = CsvFormat::Categories::kOneHot;
  return options;
}

TEST_F(CsvFiles, WordsBecomeAFeatureEach) {
  const CsvTable t = read("n,kind,y\n1,b,x\n2,a,x\n3,b,z\n", tolerant());
  EXPECT_EQ(t.columns, 2);
  EXPECT_EQ(t.width, 3);
  EXPECT_EQ(t.categories, (std::vector<Names>{{}, {"a", "b"}}));
  EXPECT_EQ(features(t), (Floats{1, 0, 1, 2, 1, 0, 3, 0, 1}));
}

TEST_F(CsvFiles, GapsAreNanInAllFeaturesOfTheirColumn) {
  for (const std::string gap : {"", "NA", "N/A", "NaN", "nan", "null", "?"}) {
    const CsvTable t = read("n,kind,y\n" + gap + ",b,x\n2," + gap + ",x\n3,a,z\n", tolerant());
    EXPECT_EQ(t.width, 3) << gap;
    std::string nans;
    for (const float x : features(t)) nans += std::isnan(x) ? '1' : '0';
    EXPECT_EQ(nans, "100011000") << gap;
  }
}

TEST_F(CsvFiles, GapsAreFilledWithTheMeanOfTheOtherRows) {
  const double nan = std::nan("");
  Doubles matrix{1, 0, nan, nan, 5, 1, 3, 1};
  const Standardizer s = fit_standardizer(matrix, 2);
  EXPECT_EQ(s.fill, (Doubles{3, 2. / 3}));
  standardize(matrix, s);
  EXPECT_EQ(matrix[2], 0);
  EXPECT_EQ(matrix[3], 0);
  Doubles other{nan, 1};
  standardize(other, {.fill = {7, 8}, .mean = {0, 0}, .std = {1, 1}});
  EXPECT_EQ(other, (Doubles{7, 1}));
}

TEST_F(CsvFiles, RefusesWhatNoOptionMakesGood) {
  std::string many = "n,kind,y\n";
  for (int i = 0; i < 1001; ++i) many += "1,w" + std::to_string(i) + ",x\n";
  const struct {
    std::string text, start;
    Names parts;
  } cases[] = {
      {"n,y\n1,x\n3+,x\n", ":3: column 'n': expected a number, got '3+'", {"other rows"}},
      {"n,y\n1,x\n2,\n", ":3: column 'y' is empty: expected a class label", {"remove the row"}},
      {"n,kind,y\n1,\"1,5\",x\n2,\"2,5\",x\n", ":2: column 'kind' has numbers", {"decimal comma"}},
      {many, ": column 'kind' has 1001 different words", {"at most 1000"}},
  };
  for (const auto& c : cases) {
    const std::string message = refusal_of<InputError>([&] { read(c.text, tolerant()); });
    expect_message(message, (directory_ / "t.csv").string() + c.start, c.parts);
  }
  CsvFormat strict = tolerant();
  strict.missing = CsvFormat::Missing::kRefuse;
  expect_message(refusal_of<InputError>([&] { read("n,kind,y\n1,b,x\n2,,x\n", strict); }),
                 (directory_ / "t.csv").string() + ":3: column 'kind' is empty: expected a word",
                 {"missing: mean"});
}

TEST_F(CsvFiles, AFurtherFileIsTreatedAsTheTrainingFile) {
  const CsvTable train = read("n,kind,y\n1,b,p\n2,a,q\n", tolerant());
  const CsvTable test = read_csv_like(train, write("n,kind,y\n?,a,q\n", "test.csv"));
  EXPECT_TRUE(std::isnan(features(test)[0]));
  EXPECT_EQ(features(test)[1], 1);
  EXPECT_EQ(test.labels, Ints{1});
  const fs::path unknown = write("n,kind,y\n1,a,p\n1,c,p\n", "test.csv");
  expect_message(refusal_of<InputError>([&] { read_csv_like(train, unknown); }),
                 unknown.string() +
                     ":3: column 'kind': 'c' is no category of the training file; it has 'a', 'b'",
                 {});
}

TEST_F(CsvFiles, AnIgnoredLabelMayBeAnything) {
  for (const auto task : {Task::kClassification, Task::kRegression}) {
    CsvFormat o = tolerant();
    o.label = "y";
    o.task = task;
    const CsvTable train = read("n,y,kind\n1,3,b\n2,4,a\n", o);
    for (const char* label : {"zebra", ""}) {
      const fs::path file = write(concat_to_string("n,y,kind\n4,", label, ",a\n"), "new.csv");
      const CsvTable t = read_csv_like(train, file, LabelColumn::kIgnored);
      EXPECT_EQ(features(t), (Floats{4, 1, 0}));
      EXPECT_TRUE(t.labels.empty() && t.targets.empty());
      expect_message(
          refusal_of<InputError>([&] { read_csv_like(train, file, LabelColumn::kOptional); }),
          file.string() + ":2: column 'y'", {});
    }
    const fs::path bare = write("n,kind\n4,a\n");
    EXPECT_EQ(features(read_csv_like(train, bare, LabelColumn::kIgnored)), (Floats{4, 1, 0}));
  }
}

TEST_F(CsvFiles, AFileToPredictMayLackTheLabel) {
  const CsvTable train = read("n,y,kind\n1,p,b\n2,q,a\n", [] {
    auto o = tolerant();
    o.label = "y";
    return o;
  }());
  const fs::path bare = write("n,kind\n4,a\n", "bare.csv");
  const CsvTable t = read_csv_like(train, bare, LabelColumn::kOptional);
  EXPECT_EQ(features(t), (Floats{4, 1, 0}));
  EXPECT_TRUE(t.labels.empty());
  EXPECT_EQ(t.classes, train.classes);
  expect_message(refusal_of<InputError>([&] { read_csv_like(train, bare); }),
                 bare.string() + ":1: expected 3 fields as in the training file, got 2", {});
  const fs::path too_long = write("n,y,kind,more\n4,q,a,1\n", "long.csv");
  expect_message(
      refusal_of<InputError>([&] { read_csv_like(train, too_long, LabelColumn::kOptional); }),
      too_long.string() +
          ":1: expected 3 fields as in the training file, or 2 without the label, got 4",
      {});
  const fs::path text = write("seed: 1\n", "run.yaml");
  expect_message(
      refusal_of<InputError>([&] { read_csv_like(train, text, LabelColumn::kOptional); }),
      text.string() + ":1: expected 2 features, got the one field 'seed: 1'", {});
  EXPECT_EQ(read_csv_like(train, write("n,y,kind\n4,q,a\n"), LabelColumn::kOptional).labels,
            Ints{1});
  const CsvTable one = read("n,y\n1,p\n2,q\n");
  EXPECT_EQ(features(read_csv_like(one, write("n\n7\n8\n"), LabelColumn::kOptional)),
            (Floats{7, 8}));
  const fs::path other = write("n,sort\n4,a\n");
  expect_message(
      refusal_of<InputError>([&] { read_csv_like(train, other, LabelColumn::kOptional); }),
      other.string() + ":1: expected column 1 (the first is 0) to be 'kind'", {});
}

}  // namespace
}  // namespace taper::v0::data
