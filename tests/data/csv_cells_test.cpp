// The meaning of a cell of a table: numbers, numbers with decorations, missing values. It is the
// same in every column.
#include <cmath>
#include <string>
#include <system_error>
#include <vector>

#include <gtest/gtest.h>

#include "data/tables/csv.h"
#include "data/tables/reading/csv_decorated.h"
#include "framework/io/text_utils.h"
#include "tests/data_files.h"

namespace taper::v0::data {
namespace {

class CsvCells : public DataFiles {
 protected:
  std::string refusal(const std::string& text, const CsvFormat& options) const {
    const std::string file = write("t.csv", text);
    return refusal_of<InputError>([&] { (void)read_csv(file, options); });
  }
};

CsvFormat format(Task task, CsvFormat::Missing missing, CsvFormat::Categories categories) {
  CsvFormat out;
  out.task = task;
  out.missing = missing;
  out.categories = categories;
  return out;
}

CsvFormat one_hot(CsvFormat::Missing missing = CsvFormat::Missing::kRefuse) {
  return format(Task::kClassification, missing, CsvFormat::Categories::kOneHot);
}

#define EXPECT_SAYS(message, part) EXPECT_NE((message).find(part), std::string::npos) << (message)

TEST(DecoratedNumbers, AreToldFromNumbersAndWords) {
  const struct {
    const char *text, *advice;
  } rows[] = {
      {"1,234", "write 1234 if the comma separates thousands, 1.234 if it is a decimal comma"},
      {"-1,234", "write -1234 if the comma separates thousands, -1.234 if it is a decimal comma"},
      {"1,234.5", "write numbers without thousands separators: 1234.5"},
      {"1.234.567,5", "write numbers without thousands separators: 1234567.5"},
      {"1,234,567", "write numbers without thousands separators: 1234567"},
      {"12,34,567", "write numbers without thousands separators: 1234567"},
      {"5 000", "write numbers without thousands separators: 5000"},
      {"5\xc2\xa0"
       "000",
       "write numbers without thousands separators: 5000"},
      {"1'000", "write numbers without thousands separators: 1000"},
      {"$1,234.00", "write numbers without thousands separators: 1234.00"},
      {"1,5", "write decimals with a point: 1.5"},
      {"1,2345", "write decimals with a point: 1.2345"},
      {"0,371", "write decimals with a point: 0.371"},
      {"$12", "write the number alone: 12"},
      {"-$12", "write the number alone: -12"},
      {"12 km", "write the number alone: 12"},
      {"12km/h", "write the number alone: 12"},
      {"12.5%", "write the number alone: 12.5"},
      {"\xe2\x82\xac 12", "write the number alone: 12"},
      {"12 \xe2\x82\xac", "write the number alone: 12"},
  };
  for (const auto& row : rows) {
    const auto number = csv::decorated_number(row.text);
    ASSERT_TRUE(number) << row.text;
    EXPECT_EQ(number->advice, row.advice) << row.text;
  }
  for (const char* text :
       {"",         "12",    "-1.5e3", "1.234",      "a",     "12b", "2nd",    "1,2,3",
        "10.0.0.1", "12-14", "3 or 4", "2020-01-02", "12:30", "$",   "km",     "nan",
        "inf",      "-",     ",",      "B 12",       "1 2",   "<5",  "a 12 km"}) {
    EXPECT_FALSE(csv::decorated_number(text)) << text;
  }
}

TEST_F(CsvCells, AColumnOfDecoratedNumbersIsNoColumnOfCategories) {
  const struct {
    std::vector<const char*> cells;
    int repeats;       // how often each cell occurs
    const char* says;  // "" if the column is accepted as categories
  } rows[] = {
      {{"\"1,234,567\"", "\"2,345,678\""}, 2, "thousands separators, as '1,234,567'"},
      {{"5 000", "6 000"}, 2, "thousands separators, as '5 000'"},
      {{"1'000", "2'000"}, 2, "write numbers without thousands separators: 1000"},
      {{"$12", "$13", "$14", "$15"}, 1, "a unit, as '$12'"},
      {{"12 km", "13 km", "14 km"}, 1, "write the number alone: 12"},
      {{"\"1,5\"", "\"2,5\""}, 2, "a decimal comma, as '1,5'"},
      {{"2 doors", "4 doors"}, 2, ""},
      {{"12 km", "13 mm", "14 kg"}, 1, ""},
      {{"a", "b", "12 km"}, 1, ""},
      {{"12a", "13a", "14b"}, 1, ""},
  };
  for (const auto& row : rows) {
    std::string text = "n,x,y\n";
    for (const char* cell : row.cells) {
      for (int i = 0; i < row.repeats; ++i) text += concat_to_string("1,", cell, ",p\n");
    }
    const std::string message = refusal(text, one_hot());
    if (std::string(row.says).empty()) {
      EXPECT_EQ(message, "accepted") << row.cells[0];
    } else {
      EXPECT_SAYS(message, ":2: column 'x' has numbers with ");
      EXPECT_SAYS(message, row.says);
    }
  }
}

// A column with hundreds of values is numeric, too.
TEST_F(CsvCells, ManyNumbersWithOneUnitAreNoCategoriesEither) {
  std::string text = "x,y\n";
  for (int i = 0; i < 200; ++i) text += concat_to_string(i % 20, " km,", i % 2, "\n");
  EXPECT_SAYS(refusal(text, one_hot()), ":2: column 'x' has numbers with a unit, as '0 km'");
}

TEST_F(CsvCells, AMissingValueIsWrittenTheSameWayInEveryColumn) {
  using Missing = CsvFormat::Missing;
  using Categories = CsvFormat::Categories;
  for (const std::string word : {"NA", "N/A", "n/a", "#N/A", "<NA>", "nan", "NaN", "NAN", "null",
                                 "Null", "NULL", "-nan", "?"}) {
    for (const Missing missing : {Missing::kRefuse, Missing::kMean}) {
      for (const Categories categories : {Categories::kRefuse, Categories::kOneHot}) {
        const CsvFormat classes = format(Task::kClassification, missing, categories);
        EXPECT_SAYS(
            refusal("n,y\n1,a\n2,b\n3," + word + "\n", classes),
            concat_to_string("t.csv:4: column 'y': expected a class label, got '", word, "'"));
        const CsvFormat values = format(Task::kRegression, missing, categories);
        EXPECT_SAYS(refusal("n,y\n1,2\n2,3\n3," + word + "\n", values),
                    concat_to_string("t.csv:4: column 'y': expected a number, got '", word, "'"));
      }
    }
    EXPECT_SAYS(refusal("n,k,y\n1,u,a\n2," + word + ",b\n", one_hot()),
                concat_to_string("t.csv:3: column 'k': expected a word, got '", word,
                                 "', which says that it is missing (`missing: mean` fills gaps"));
    EXPECT_EQ(refusal("n,k,y\n1,u,a\n2," + word + ",b\n", one_hot(Missing::kMean)), "accepted");
  }
}

TEST_F(CsvCells, AMessageNamesOtherRowsOnlyWhereTheyHaveNumbers) {
  CsvFormat target = one_hot();
  target.task = Task::kRegression;
  const std::string words = refusal("n,kind\n1,Adelie\n2,Gentoo\n", target);
  EXPECT_SAYS(words, "expected a number, got 'Adelie'; `task: regression` predicts numbers");
  EXPECT_SAYS(refusal("n,y\n1,a\nx,b\n", one_hot()), "got 'x'; other rows have numbers there");
  const CsvTable train = read_csv(write("train.csv", "n,y\n1,a\n2,b\n"), one_hot());
  const std::string file = write("more.csv", "n,y\nx,a\n");
  EXPECT_SAYS(refusal_of<InputError>([&] { (void)read_csv_like(train, file); }),
              "got 'x'; the training file has numbers there");
}

TEST_F(CsvCells, AFirstLineNamesTheDelimiterAsInExcel) {
  for (const std::string end : {"\n", "\r\n", "\r"}) {
    const CsvTable t = read_csv(
        write("t.csv", concat_to_string("\xef\xbb\xbfsep=;", end, "x;y", end, "1;a", end)), {});
    EXPECT_EQ(t.feature_names, std::vector<std::string>{"x"});
    EXPECT_EQ(t.options.delimiter, ";");
    const CsvTable more = read_csv_like(t, write("more.csv", "x;y\n2;a\n"));
    EXPECT_EQ(more.cells, std::vector<double>{2});
  }
  EXPECT_SAYS(refusal("sep=;\nx;y\n1;a\nb;c\n", {}), "t.csv:4: column 'x'");
  EXPECT_EQ(read_csv(write("t.csv", "sep=;,y\n1,a\n"), {}).feature_names,
            std::vector<std::string>{"sep=;"});
}

TEST(ParseNumber, RoundsToZeroWhatIsTooSmallAndRefusesWhatIsTooLarge) {
  const struct {
    const char* text;
    std::errc error;
    double value;
  } rows[] = {
      {"1e-400", {}, 0.0},
      {"-1e-400", {}, -0.0},
      {"+12.5e-999999999999999999999", {}, 0.0},
      {"0.00001e-320", {}, 0.0},
      {"123456e-330", {}, 0.0},
      {"4.9406564584124654e-324", {}, 4.9406564584124654e-324},
      {"1e400", std::errc::result_out_of_range, 7},
      {"-1e400", std::errc::result_out_of_range, 7},
      {"0.001e400", std::errc::result_out_of_range, 7},
      {"1e99999999999999999999", std::errc::result_out_of_range, 7},
      {"1e-400x", std::errc::invalid_argument, 7},
      {"", std::errc::invalid_argument, 7},
  };
  for (const auto& row : rows) {
    double value = 7;
    EXPECT_EQ(detail::parse_number(row.text, value), row.error) << row.text;
    EXPECT_EQ(value, row.value) << row.text;
    EXPECT_EQ(std::signbit(value), std::signbit(row.value)) << row.text;
  }
  float small = 7;
  EXPECT_EQ(detail::parse_number("1e-60", small), std::errc());
  EXPECT_EQ(small, 0);
}

}  // namespace
}  // namespace taper::v0::data
