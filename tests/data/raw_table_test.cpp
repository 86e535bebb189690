#include "data/tables/raw_table.h"

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "framework/base/error.h"
#include "tests/data/table_fixture.h"

namespace taper::v0::data {
namespace {

namespace fs = std::filesystem;
using Names = std::vector<std::string>;
using Options = TableReadOptions;

using RawTables = TableFixture;

Names names_of(const RawTable& table) {
  Names out;
  for (const RawColumn& column : table.columns) out.push_back(column.name);
  return out;
}

// Returns rows as text: numbers as they are, and words in quotes.
Names rows_of(const RawTable& table) {
  Names out;
  for (int64_t row = 0; row < table.rows; ++row) {
    std::string line;
    for (const RawColumn& column : table.columns) {
      const std::string cell = column.text(row);
      line += (line.empty() ? "" : " ") + (column.is_number(row) ? cell : "'" + cell + "'");
    }
    out.push_back(line);
  }
  return out;
}

TEST_F(RawTables, NumbersAndWordsOfTheUsualForms) {
  const struct {
    const char* text;
    const char* cell;  // of the last column of the last row
  } rows[] = {
      {"a,b\nx,1\n", "1"},
      {"a,b\nx,-1.5\n", "-1.5"},
      {"a,b\nx,+1.5\n", "1.5"},
      {"a,b\nx,1e3\n", "1000"},
      {"a,b\nx,.5\n", "0.5"},
      {"a,b\nx,5.\n", "5"},
      {"a,b\nx,0\n", "0"},
      {"a,b\nx,-0.0\n", "-0"},
      {"a,b\nx,0.10\n", "0.1"},
      {"a,b\nx,1.7976931348623157e308\n", "1.7976931348623157e+308"},
      {"a,b\nx,0.1234567890123456789012345\n", "0.12345678901234568"},
      {"a,b\nx,9007199254740993\n", "9007199254740992"},
      {"a,b\nx,1e-400\n", "0"},
      {"a,b\nx, 12 \n", "12"},
      {"a,b\nx,\"12\"\n", "12"},
      {"a,b\nx,\t12\t\n", "12"},
      {"a,b\nx,01234\n", "'01234'"},
      {"a,b\nx,-01\n", "'-01'"},
      {"a,b\nx,00\n", "'00'"},
      {"a,b\nx,1e400\n", "'1e400'"},
      {"a,b\nx,inf\n", "'inf'"},
      {"a,b\nx,nan\n", "'nan'"},
      {"a,b\nx,0x10\n", "'0x10'"},
      {"a,b\nx,1.2.3\n", "'1.2.3'"},
      {"a,b\nx,12 km\n", "'12 km'"},
      {"a,b\nx,-\n", "'-'"},
      {"a,b\nx,.\n", "'.'"},
      {"a,b\nx,+-1\n", "'+-1'"},
      {"a,b\nx,1e\n", "'1e'"},
      {"a,b\nx,2012-01-01\n", "'2012-01-01'"},
      {"a,b\nx,\n", "''"},
      {"a,b\nx,\"\"\n", "''"},
      {"a,b\nx, \" y\" \n", "' y'"},
      {"a,b\nx,\"y \"\"z\"\", w\"\n", "'y \"z\", w'"},
      {"a,b\nx,\"y\nz\"\n", "'y\nz'"},
      {"a,b\nx,y\"z\n", "'y\"z'"},
  };
  Options options;
  options.delimiter = ",";
  options.header = Options::Header::kPresent;
  for (const auto& [text, cell] : rows) {
    SCOPED_TRACE(text);
    const RawTable table = read(text, options);
    ASSERT_EQ(table.rows, 1);
    EXPECT_EQ(rows_of(table)[0], std::string("'x' ") + cell);
  }
}

TEST_F(RawTables, WordsAreNumberedInTheOrderOfTheirFirstOccurrence) {
  const RawTable t = read("kind,x\nb,1\na,2\nb,3\n,4\n");
  const RawColumn& kind = t.columns[0];
  EXPECT_EQ(Names(kind.words().begin(), kind.words().end()), (Names{"b", "a", ""}));
  EXPECT_EQ(kind.word(0), 0);
  EXPECT_EQ(kind.word(2), 0);
  EXPECT_EQ(kind.word(3), 2);
  EXPECT_EQ(kind.find_word("a"), 1);
  EXPECT_EQ(kind.find_word("c"), -1);
  EXPECT_TRUE(std::isnan(kind.number(0)));
  EXPECT_EQ(t.columns[1].word(0), -1);
  EXPECT_EQ(t.columns[1].number(3), 4);
}

TEST_F(RawTables, ColumnsOfTextKeepTheSpellingOfNumbers) {
  const RawTable t = read("id,x\n1.50,1.50\n 2,2\n", {}, {"i?", "absent"});
  EXPECT_EQ(rows_of(t), (Names{"'1.50' 1.5", "'2' 2"}));
  const RawTable zips = read("zip,x\n1,1\nx,x\n\"2\",2\ny,y\n3,3\n", {}, {"zip"});
  EXPECT_EQ(rows_of(zips), (Names{"'1' 1", "'x' 'x'", "'2' 2", "'y' 'y'", "'3' 3"}));
}

TEST_F(RawTables, ManyRowsAndWordsCrossEveryBoundary) {
  constexpr int64_t kRows = 30'000;
  const auto word = [](int64_t i) {
    // Some words are longer than what is set aside for words that wait.
    return i % 5000 == 17 ? std::string(5000, 'w') : concat_to_string("word ", i % 5000, "\"");
  };
  std::string text = "n,word,even\n";
  for (int64_t i = 0; i < kRows; ++i) {
    std::string quoted = word(i);
    if (quoted.ends_with('"')) quoted += '"';
    text += concat_to_string(i, ",\"", quoted, "\",", i % 2, i % 3 == 0 ? "\r\n" : "\n");
  }
  const RawTable t = read(text);
  ASSERT_EQ(t.rows, kRows);
  ASSERT_EQ(t.columns[1].words().size(), 5000u);
  for (int64_t i = 0; i < kRows; ++i) {
    ASSERT_EQ(t.columns[0].number(i), double(i));
    ASSERT_EQ(t.columns[1].word(i), i % 5000);
    ASSERT_EQ(t.columns[1].text(i), word(i));
    ASSERT_EQ(t.columns[2].number(i), double(i % 2));
  }
  EXPECT_TRUE(t.place_of(kRows - 1).ends_with(concat_to_string("t.csv:", kRows + 1)));
}

// Short quoted cells are scanned at once, longer ones quote by quote.
TEST_F(RawTables, QuotedCellsOfEveryLengthKeepTheirText) {
  const std::string kinds[] = {"x", "\"", "x\"", "\"x", "xy\n", "\"\n", ",", "\"\"\"x"};
  std::string text = "n,cell\n";
  Names cells;
  for (const std::string& kind : kinds) {
    for (size_t size = 0; size < 140; ++size) {
      std::string cell = "w";
      while (cell.size() < size) cell += kind;
      cells.push_back(cell);
      std::string quoted;
      for (const char c : cell) quoted += c == '"' ? "\"\"" : std::string{c};
      text += concat_to_string(cells.size(), ",\"", quoted, "\"\n");
    }
  }
  const RawTable t = read(text);
  ASSERT_EQ(t.rows, std::ssize(cells));
  int64_t line = 2;
  for (int64_t i = 0; i < t.rows; ++i) {
    ASSERT_EQ(t.columns[1].text(i), cells[size_t(i)]);
    ASSERT_TRUE(t.place_of(i).ends_with(concat_to_string(":", line))) << t.place_of(i);
    line += 1 + std::ranges::count(cells[size_t(i)], '\n');
  }
}

// Chunks of words are stored in one or two bytes a cell, or as they are beside numbers.
TEST_F(RawTables, ColumnsOfFewAndManyWordsKeepTheirCells) {
  constexpr int64_t kRows = 100'000;
  const auto few = [](int64_t i) { return concat_to_string("w", i * 7 % 5); };
  const auto more = [](int64_t i) { return concat_to_string("w", i * 7 % (2 + i / 50)); };
  const auto many = [](int64_t i) { return concat_to_string("w", i / 2 * 2654435761U % 999'983); };
  const auto mixed = [](int64_t i) { return concat_to_string(i == 50'000 ? "" : "w", i % 3); };
  std::string text = "few,more,many,mixed\n";
  for (int64_t i = 0; i < kRows; ++i) {
    text += concat_to_string(few(i), ",", more(i), ",", many(i), ",", mixed(i), "\n");
  }
  const RawTable t = read(text);
  ASSERT_EQ(t.rows, kRows);
  for (int64_t i = 0; i < kRows; ++i) {
    ASSERT_EQ(t.columns[0].text(i), few(i));
    ASSERT_EQ(t.columns[1].text(i), more(i));
    ASSERT_EQ(t.columns[2].text(i), many(i));
    ASSERT_EQ(t.columns[3].text(i), mixed(i));
    ASSERT_EQ(t.columns[3].is_number(i), i == 50'000);
  }
}

TEST_F(RawTables, LineEndsMayDiffer) {
  EXPECT_EQ(rows_of(read("a,b\n1,x\r2,y\r")), (Names{"1 'x'", "2 'y'"}));
  EXPECT_EQ(rows_of(read("a,b\r1,x\n2,\"y\nz\"\r\n3,x\r")), (Names{"1 'x'", "2 'y\nz'", "3 'x'"}));
  std::string old = "a,b\n1,x";
  for (int i = 0; i < 100'000; ++i) old += concat_to_string("\r", i, ",y");
  EXPECT_EQ(read(old).rows, 100'001);
}

// Words of a column in which nearly every row differs are not compared with each other.
TEST_F(RawTables, IdentifiersKeepTheirWords) {
  constexpr int64_t kRows = 150'000;
  struct Row {
    const char* what;
    std::string (*word)(int64_t row);
    int64_t words;     // in the list
    bool is_distinct;  // whether the list has each word once
  };
  const Row rows[] = {
      {"all differ", [](int64_t i) { return concat_to_string("id ", i); }, kRows, false},
      {"later ones are repeated", [](int64_t i) { return concat_to_string("id ", i % 100'000); },
       100'000, true},
      {"numbers among them",
       [](int64_t i) { return concat_to_string(i % 3 == 0 ? "" : "w", 1 + i / 2 * 2); }, 75'000,
       true},
      {"some are empty",
       [](int64_t i) { return i % 100 == 0 ? std::string() : concat_to_string("id ", i); },
       kRows - kRows / 100 + 1, false},
      {"long ones",
       [](int64_t i) {
         const size_t size = i % 1000 == 7 ? size_t(248 + i % 13) : i % 40'000 == 5 ? 70'000u : 1u;
         return concat_to_string(std::string(size, 'x'), i);
       },
       kRows, false}};
  for (const Row& row : rows) {
    SCOPED_TRACE(row.what);
    std::string text = "n,id\n";
    for (int64_t i = 0; i < kRows; ++i) text += concat_to_string(i, ",", row.word(i), "\n");
    const RawTable t = read(text);
    ASSERT_EQ(t.rows, kRows);
    const RawColumn& ids = t.columns[1];
    for (int64_t i = 0; i < kRows; ++i) ASSERT_EQ(ids.text(i), row.word(i));
    EXPECT_EQ(int64_t(ids.words().size()), row.words);
    EXPECT_EQ(ids.has_distinct_words(), row.is_distinct);
    EXPECT_EQ(ids.find_word(row.word(70'001)), ids.word(70'001));
    EXPECT_EQ(ids.find_word("another word"), -1);
    const RawTable twice = read_table({directory_ / "t.csv", directory_ / "t.csv"});
    for (int64_t i = 0; i < 2 * kRows; i += 7) {
      ASSERT_EQ(twice.columns[1].text(i), row.word(i % kRows));
    }
    EXPECT_TRUE(twice.columns[1].has_distinct_words());
  }
}

TEST_F(RawTables, LinesAboveTheTableAreNamedWithTheOptionThatSkipsThem) {
  EXPECT_EQ(error_of("4,2,a,b,c\n1.5,2,0\n2.5,1,1\n3.5,4,0\n"),
            "t.csv:1: this line has 5 cells, but the rows from line 2 on have 3; what is neither a "
            "header nor a row is left out by `read: {skip: 1}`");
  Options options;
  options.skip = 1;
  EXPECT_EQ(read("4,2,a,b,c\n1.5,2,0\n2.5,1,1\n3.5,4,0\n", options).rows, 3);
}

TEST_F(RawTables, RaggedRowsAreNamed) {
  EXPECT_EQ(error_of("a,b,c\n1,2,3\n\n1,2\n1,2,3\n1,2,3\n"), "t.csv:4: expected 3 cells, got 2");
  EXPECT_EQ(error_of("a,b,c\n1,2,3\n1,2,3,4,\"5,\"\n1,2,3\n"), "t.csv:3: expected 3 cells, got 5");
  EXPECT_EQ(error_of("a,b,c\n1,2,3\n1,2,3\n1,2"),
            "t.csv:4: expected 3 cells, got 2; it is the last row: is the file truncated?");
  EXPECT_EQ(error_of("a,b,c\n1,2,3\n1,\"2,3\n1,2,3\n"),
            "t.csv:3: column 'b': a quote is opened here and never closed");
  EXPECT_EQ(error_of("a,b,c\n1,2,3\n1,\"2\"x,3\n"),
            "t.csv:3: column 'b': expected the cell to end after its closing quote; a quote within "
            "quotes is written twice");
}

TEST_F(RawTables, FilesAreJoinedByTheNamesOfTheirColumns) {
  const fs::path a = write("x,y\n1,a\n2,b\n", "s-1.csv");
  const fs::path b = write("y;z;x\nc;5;3\n", "s-2.csv");
  const RawTable t = read_table({directory_ / "s-*.csv"});
  EXPECT_EQ(names_of(t), (Names{"x", "y", "z"}));
  EXPECT_EQ(rows_of(t), (Names{"1 'a' ''", "2 'b' ''", "3 'c' 5"}));
  EXPECT_EQ(t.notes.size(), 1u);
  EXPECT_EQ(t.place_of(2), b.string() + ":2");
  EXPECT_EQ(t.place_of(1), a.string() + ":3");
  EXPECT_THROW((void)read_table({directory_ / "none-*.csv"}), InputError);
}

TEST_F(RawTables, TheLayoutIsFound) {
  const struct {
    const char* text;
    const char* delimiter;
    bool has_header;
    Names names, rows;
  } cases[] = {
      {"a,b\n1,2\n", ",", true, {"a", "b"}, {"1 2"}},
      {"a;b\n1;2\n", ";", true, {"a", "b"}, {"1 2"}},
      {"a\tb\n1\t2\n", "\t", true, {"a", "b"}, {"1 2"}},
      {"a|b\n1|2\n", "|", true, {"a", "b"}, {"1 2"}},
      {"1 2\n3 4\n", "blanks", false, {"column 0", "column 1"}, {"1 2", "3 4"}},
      {"  1\t  2 \n 3 4\n", "blanks", false, {"column 0", "column 1"}, {"1 2", "3 4"}},
      {"a b\n1 \"x y\"\n2 z\n", "blanks", true, {"a", "b"}, {"1 'x y'", "2 'z'"}},
      {"1,2\n3,4\n", ",", false, {"column 0", "column 1"}, {"1 2", "3 4"}},
      {"sep=;\na;b\n1;2\n", ";", true, {"a", "b"}, {"1 2"}},
      {"a;b\n1,5;2\n2,5;3\n", ";", true, {"a", "b"}, {"'1,5' 2", "'2,5' 3"}},
      {"n,tags\n1,p;q\n2,r\n", ",", true, {"n", "tags"}, {"1 'p;q'", "2 'r'"}},
      {"a\n1\n2\n", ",", true, {"a"}, {"1", "2"}},
      {"a,b\r\n1,2\r\n", ",", true, {"a", "b"}, {"1 2"}},
      {"a,b\r1,2\r3,4\r", ",", true, {"a", "b"}, {"1 2", "3 4"}},
      {"\n\na,b\n\n1,2\n \n3,4", ",", true, {"a", "b"}, {"1 2", "3 4"}},
      {"a,\n1,2\n", ",", true, {"a", "column 1"}, {"1 2"}},
      {"a,a,a\n1,2,3\n", ",", true, {"a", "a (2)", "a (3)"}, {"1 2 3"}},
      {"x y\nr1 1 2\nr2 3 4\n", "blanks", true, {"column 0", "x", "y"}, {"'r1' 1 2", "'r2' 3 4"}},
      {"x,y\n1,2,\n3,4,\n", ",", true, {"x", "y", "column 2"}, {"1 2 ''", "3 4 ''"}},
      {"kind,size\nred,big\nred,big\nblue,big\nblue,small\n",
       ",",
       true,
       {"kind", "size"},
       {"'red' 'big'", "'red' 'big'", "'blue' 'big'", "'blue' 'small'"}},
      {"country,2019,2020\nFrance,1,2\nSpain,3,4\n",
       ",",
       true,
       {"country", "2019", "2020"},
       {"'France' 1 2", "'Spain' 3 4"}},
      {"x,2019,2020\ny,2019,2020\n",
       ",",
       false,
       {"column 0", "column 1", "column 2"},
       {"'x' 2019 2020", "'y' 2019 2020"}},
      {"red,big\nred,big\nblue,small\n",
       ",",
       false,
       {"column 0", "column 1"},
       {"'red' 'big'", "'red' 'big'", "'blue' 'small'"}},
  };
  for (const auto& [text, delimiter, has_header, names, rows] : cases) {
    SCOPED_TRACE(text);
    const RawTable t = read(text);
    EXPECT_EQ(t.files[0].delimiter, delimiter);
    EXPECT_EQ(t.files[0].has_header, has_header);
    EXPECT_EQ(names_of(t), names);
    EXPECT_EQ(rows_of(t), rows);
  }
}

TEST_F(RawTables, OptionsSayWhatCannotBeFound) {
  Options options;
  options.decimal = ",";
  EXPECT_EQ(rows_of(read("a;b\n1,5;-0,25\n1.5;2\n1,2,3;1e2\n", options)),
            (Names{"1.5 -0.25", "'1.5' 2", "'1,2,3' 100"}));
  EXPECT_EQ(rows_of(read("a,b\n\"1,5\",2\n", {})), (Names{"'1,5' 2"}));
  options = {};
  options.header = Options::Header::kPresent;
  EXPECT_EQ(names_of(read("1,2\n3,4\n", options)), (Names{"1", "2"}));
  options.header = Options::Header::kAbsent;
  EXPECT_EQ(rows_of(read("a,b\n3,4\n", options)), (Names{"'a' 'b'", "3 4"}));
  options = {};
  options.expected_columns = {"-1", "3", "b"};
  EXPECT_EQ(names_of(read("a,b\nx,y\nz,w\n", options)), (Names{"a", "b"}));
  EXPECT_EQ(names_of(read("a,c\nx,y\nz,w\n", options)), (Names{"column 0", "column 1"}));
  EXPECT_EQ(names_of(read("3,4\n5,6\n", options)), (Names{"column 0", "column 1"}));
  EXPECT_EQ(names_of(read("a,c\nx,y\n", {}, {"c"})), (Names{"a", "c"}));
  options = {};
  options.delimiter = ":";
  EXPECT_EQ(rows_of(read("a:b\n3:4\n", options)), (Names{"3 4"}));
  options.delimiter = "blanks";
  EXPECT_EQ(rows_of(read("a b,c\n3  4,5\n", options)), (Names{"3 '4,5'"}));
  for (const std::string delimiter : {"", "ab", "x", "1", "\"", "\n", ".", "-"}) {
    options.delimiter = delimiter;
    EXPECT_NE(error_of<ValueError>("a,b\n1,2\n", options), "no error") << delimiter;
  }
  options = {.delimiter = ",", .decimal = ","};
  EXPECT_NE(error_of<ValueError>("a,b\n1,2\n", options), "no error");
  options = {.decimal = "x"};
  EXPECT_NE(error_of<ValueError>("a,b\n1,2\n", options), "no error");
  options = {};
  options.skip = -1;
  EXPECT_NE(error_of<ValueError>("a,b\n1,2\n", options), "no error");
  options.skip = 5;
  EXPECT_NE(error_of("a,b\n1,2\n", options).find("read.skip is 5"), std::string::npos);
}

TEST_F(RawTables, WhatAUserShouldKnowIsNoted) {
  EXPECT_NE(read("a;b\n1,5;2\n2,5;3\n").notes.at(0).find("decimal: \",\""), std::string::npos);
  EXPECT_NE(read("a,a\n1,2\n").notes.at(0).find("'a (2)'"), std::string::npos);
  EXPECT_TRUE(read("a,b\n1,2\n").notes.empty());
}

TEST_F(RawTables, ARowThatMayBeAHeaderIsRefused) {
  EXPECT_EQ(error_of("x,2\n1,2\n3,4\n").substr(0, 21), "t.csv:1: column 0 has");
}

TEST_F(RawTables, FilesThatCannotBeJoinedAreNamed) {
  const fs::path a = write("x,y\n1,2\n", "a.csv"), b = write("z,w\n1,2\n", "b.csv");
  const fs::path c = write("1,2\n3,4\n", "c.csv"), d = write("1,2,3\n3,4,5\n", "d.csv");
  EXPECT_THROW((void)read_table({a, b}), InputError);
  EXPECT_THROW((void)read_table({a, c}), InputError);
  EXPECT_THROW((void)read_table({c, d}), InputError);
  EXPECT_EQ(read_table({c, c}).rows, 4);
  // A header of numbers is known from the first file.
  const fs::path e = write("2019,2020\n1,2\n", "e.csv");
  Options options;
  options.header = Options::Header::kPresent;
  EXPECT_EQ(rows_of(read_table({e, e}, options)), (Names{"1 2", "1 2"}));
}

TEST_F(RawTables, MemoryIsThatOfTheCells) {
  std::string text = "a,b,c,d\n";
  for (int i = 0; i < 100'000; ++i) text += "0.123456,-12.5,17,yes\n";
  const RawTable t = read(text);
  EXPECT_EQ(t.places.size(), 1u);  // one entry for all rows
  EXPECT_EQ(t.columns[3].words().size(), 1u);
}

}  // namespace
}  // namespace taper::v0::data
