// The kinds that are found for the columns of a table.
#include "data/tables/columns.h"

#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include "data/source.h"
#include "tests/data_files.h"
#include "tests/text.h"

namespace taper::v0::data {
namespace {

using Cell = std::function<std::string(int row)>;

class Columns : public DataFiles {
 protected:
  // Returns a table of `rows` rows with a column named `name` and the target y.
  RawTable table_with(const std::string& name, const Cell& cell, int rows = 100) const {
    std::string text = concat_to_string(name, ",other,y\n");
    for (int row = 0; row < rows; ++row) {
      text += concat_to_string(cell(row), ",", row % 7, ",", row % 2, "\n");
    }
    return read_table({write("t.csv", text)}, {.delimiter = ","});
  }
  ColumnSummary summary_of(const std::string& name, const Cell& cell, int rows = 100) const {
    return understand_columns(table_with(name, cell, rows), request())[0];
  }
  static TableRequest request() {
    return {.targets = {"y"}, .columns = {}, .missing = usual_missing_words(), .group = {}};
  }
};

std::string hash_of(int row) { return concat_to_string((row * 7919 + 13) % 1009); }

TEST_F(Columns, AreFoundFromTheirCells) {
  struct Row {
    const char* name;
    Cell cell;
    ColumnKind kind;
    const char* note;
  };
  const Row rows[] = {
      {"x", [](int i) { return concat_to_string(i * 0.37); }, ColumnKind::kNumber, ""},
      {"x", [](int i) { return concat_to_string(i % 3); }, ColumnKind::kNumber, ""},
      {"x", [](int i) { return i == 3 ? std::string() : hash_of(i); }, ColumnKind::kNumber, ""},
      {"row", [](int i) { return concat_to_string(i + 5); }, ColumnKind::kIgnore,
       "the number of the row (columns: {row: number} uses it)"},
      {"userId", hash_of, ColumnKind::kIgnore,
       "an identifier of the row (columns: {userId: number} uses it)"},
      {"movie_id", [](int i) { return concat_to_string(1000 + i % 40); }, ColumnKind::kCategory,
       "the numbers identify something"},
      {"x", hash_of, ColumnKind::kNumber, ""},
      {"name", [](int i) { return concat_to_string("n", i); }, ColumnKind::kIgnore,
       "nearly every row differs (columns: {name: text} uses it)"},
      {"a name", [](int i) { return concat_to_string("n", i % 60); }, ColumnKind::kIgnore,
       "most rows differ (columns: {\"a name\": text} uses it)"},
      {"sex", [](int i) { return i % 2 ? "f" : "m"; }, ColumnKind::kCategory, ""},
      {"zip", [](int i) { return concat_to_string("0123", i % 9); }, ColumnKind::kCategory, ""},
      {"x", [](int) { return "same"; }, ColumnKind::kIgnore, "the same in every row"},
      {"x", [](int) { return "NA"; }, ColumnKind::kIgnore, "empty"},
      {"day", [](int i) { return concat_to_string("2024-01-", i % 28 + 1); }, ColumnKind::kDate,
       ""},
      {"day", [](int i) { return concat_to_string(20240101 + i % 28); }, ColumnKind::kDate, ""},
      {"timestamp", [](int i) { return concat_to_string(1260759144 + 977 * (i % 50)); },
       ColumnKind::kDate, ""},
      {"x", [](int i) { return concat_to_string(1260759144 + 977 * (i % 50)); },
       ColumnKind::kNumber, ""},
      {"x", [](int i) { return i == 7 ? "n/k" : concat_to_string(i % 50); }, ColumnKind::kNumber,
       "'n/k' counts as missing"},
      {"x", [](int i) { return i % 40 == 7 ? "-99" : concat_to_string(i % 50); },
       ColumnKind::kNumber, "'-99' counts as missing"},
      {"x", [](int i) { return i == 7 ? "-99" : concat_to_string(i % 50); }, ColumnKind::kNumber,
       ""},
      {"x", [](int i) { return i % 40 == 7 ? "-99" : concat_to_string(i % 50 - 20); },
       ColumnKind::kNumber, ""},
      {"x", [](int i) { return std::string(i == 7  ? "*"
                                           : i % 2 ? "a"
                                                   : "b"); },
       ColumnKind::kCategory, "'*' counts as missing"},
      {"x", [](int i) { return i % 2 ? concat_to_string("w", i % 5) : concat_to_string(i % 5); },
       ColumnKind::kCategory, ""}};
  for (const Row& row : rows) {
    const ColumnSummary found = summary_of(row.name, row.cell);
    EXPECT_EQ(int(found.kind), int(row.kind)) << row.name << " " << row.cell(0);
    EXPECT_EQ(found.note, row.note) << row.name << " " << row.cell(0);
  }
}

TEST_F(Columns, CountWhatIsMissingAndDifferent) {
  const ColumnSummary found = summary_of("x", [](int i) {
    return i % 10 == 0 ? "NA" : i % 10 == 1 ? "" : concat_to_string(i % 10);
  });
  EXPECT_EQ(found.missing, 20);
  EXPECT_EQ(found.distinct, 8);
}

TEST_F(Columns, CanBeGivenByNameOrPattern) {
  const RawTable table = table_with("old_id", [](int i) { return concat_to_string(i); });
  TableRequest asked = request();
  asked.columns = {{"old_*", ColumnKind::kKeep}, {"other", ColumnKind::kCategory}};
  std::vector<ColumnSummary> found = understand_columns(table, asked);
  EXPECT_EQ(found[0].kind, ColumnKind::kKeep);
  EXPECT_EQ(found[1].kind, ColumnKind::kCategory);
  EXPECT_EQ(found[2].kind, ColumnKind::kTarget);
  asked.columns["old_id"] = ColumnKind::kNumber;  // a name is stronger than a pattern
  EXPECT_EQ(understand_columns(table, asked)[0].kind, ColumnKind::kNumber);
  asked.columns = {{"othr", ColumnKind::kIgnore}};
  EXPECT_TRUE(contains(refusal_of<OptionError>([&] { (void)understand_columns(table, asked); }),
                       "has no column 'othr'; the nearest are 'other'"));
}

TEST_F(Columns, ThatAreSaidToBeCategoriesKeepTheirWords) {
  const RawTable table = table_with("x", [](int i) {
    return i % 40 == 7 ? "-99" : i == 8 ? "other" : concat_to_string(i % 50);
  });
  TableRequest asked = request();
  asked.columns = {{"x", ColumnKind::kCategory}};
  EXPECT_EQ(understand_columns(table, asked)[0].missing, 0);
  EXPECT_GT(understand_columns(table, request())[0].missing, 0);
}

TEST_F(Columns, OfDecoratedNumbersAreRefused) {
  const RawTable table = table_with("x", [](int i) { return concat_to_string(i + 10, " km"); });
  const std::string refusal =
      refusal_of<InputError>([&] { (void)understand_columns(table, request()); });
  EXPECT_TRUE(contains(refusal, "t.csv:2: column 'x' has numbers with a unit, as '10 km'"))
      << refusal;
  EXPECT_TRUE(contains(refusal, "`columns: {x: category}` takes the texts as they are"));
}

// "1,5" explains "0,125" and "1,250", whose commas could separate thousands.
TEST_F(Columns, OfDecimalCommasAreRefusedAsSuch) {
  const struct {
    Cell cell;
    const char* says;
  } rows[] = {
      {[](int i) { return concat_to_string("\"0,", 125 + i, "\""); },
       ":2: column 'x' has numbers with a decimal comma, as '0,125'"},
      {[](int i) { return concat_to_string("\"1,", i == 2 ? 5 : 250 + i, "\""); },
       ":4: column 'x' has numbers with a decimal comma, as '1,5'"},
      {[](int i) { return concat_to_string("\"1,", 250 + i, "\""); },
       ":2: column 'x' has numbers with thousands separators, as '1,250': write 1250 if the comma "
       "separates thousands, 1.250 if it is a decimal comma"}};
  for (const auto& row : rows) {
    const RawTable table = table_with("x", row.cell);
    const std::string refusal =
        refusal_of<InputError>([&] { (void)understand_columns(table, request()); });
    EXPECT_TRUE(contains(refusal, row.says)) << refusal;
    EXPECT_TRUE(contains(refusal, ", or set `read: {decimal: \",\"}`")) << refusal;
  }
}

// Identifiers may be larger than the integers that a double can represent.
TEST_F(Columns, LargeNumbersMayBeIdentifiers) {
  const auto large = [](int i) { return concat_to_string(1234567890123456000 + 4096 * (i * 7)); };
  EXPECT_EQ(understand_columns(table_with("tweet_id", large), request())[0].kind,
            ColumnKind::kIgnore);
  const auto user = [](int i) { return concat_to_string(1234567890123456000 + 4096 * (i % 7)); };
  EXPECT_EQ(understand_columns(table_with("userId", user), request())[0].kind,
            ColumnKind::kCategory);
  const auto constant_steps = [](int i) { return concat_to_string(9007199254740992 + i); };
  EXPECT_EQ(understand_columns(table_with("x", constant_steps), request())[0].kind,
            ColumnKind::kNumber);
}

TEST_F(Columns, AColumnThatIsSaidToHaveNumbersMustHaveThem) {
  const RawTable table = table_with("x", [](int i) { return i == 5 ? "five" : "six"; });
  TableRequest asked = request();
  asked.columns = {{"x", ColumnKind::kNumber}};
  EXPECT_TRUE(contains(refusal_of<InputError>([&] { (void)understand_columns(table, asked); }),
                       "t.csv:2: column 'x': expected a number, got 'six'"));
  asked.columns = {{"x", ColumnKind::kDate}};
  EXPECT_TRUE(contains(refusal_of<InputError>([&] { (void)understand_columns(table, asked); }),
                       "t.csv:2: column 'x': expected a date, got 'six'"));
}

TEST_F(Columns, TheTargetIsNamedOrCounted) {
  const RawTable table = table_with("x", hash_of);
  for (const char* name : {"y", "2", "-1"}) EXPECT_EQ(find_column(table, name), 2) << name;
  EXPECT_EQ(find_column(table, "-3"), 0);
  EXPECT_TRUE(contains(refusal_of<InputError>([&] { (void)find_column(table, "z"); }),
                       "no column 'z'; the nearest of its columns are 'x', 'y', 'other'"));
  EXPECT_NE(refusal_of<InputError>([&] { (void)find_column(table, "3"); }), "accepted");
}

TEST_F(Columns, ATargetHasClassesOrValues) {
  const struct {
    Cell cell;
    Task task;
  } rows[] = {
      {[](int i) { return i % 2 ? "yes" : "no"; }, Task::kClassification},
      {[](int i) { return concat_to_string(i % 10); }, Task::kClassification},
      {[](int i) { return concat_to_string(i % 11); }, Task::kRegression},
      {[](int i) { return i % 2 ? "0.5" : "1.5"; }, Task::kRegression},
      {[](int i) { return i == 3 ? "NA" : concat_to_string(i * 0.1); }, Task::kRegression},
      // A stray word does not make each number a class.
      {[](int i) { return i == 3 ? "soon" : concat_to_string(i * 0.1); }, Task::kRegression},
      {[](int i) { return i == 3 ? "soon" : concat_to_string(i % 5); }, Task::kClassification}};
  for (const auto& row : rows) {
    const RawTable table = table_with("x", row.cell);
    EXPECT_EQ(task_for(table.columns[0], {usual_missing_words(), {}}), row.task) << row.cell(1);
  }
}

// Missing words are recognized in a column whose words may be repeated.
TEST_F(Columns, OfIdentifiersHaveMissingWordsToo) {
  std::string text = "id,y\n";
  for (int i = 0; i < 100'000; ++i) {
    text += concat_to_string(i % 50 == 3 ? "NA" : concat_to_string("id ", i), ",", i % 2, "\n");
  }
  const RawTable table = read_table({write("ids.csv", text)});
  EXPECT_FALSE(table.columns[0].has_distinct_words());
  const std::vector<ColumnSummary> found = understand_columns(
      table, {.targets = {"y"}, .columns = {}, .missing = usual_missing_words(), .group = {}});
  EXPECT_EQ(found[0].kind, ColumnKind::kIgnore);
  EXPECT_EQ(found[0].missing, 2000);
  EXPECT_EQ(found[0].distinct, 98'000);
}

}  // namespace
}  // namespace taper::v0::data
