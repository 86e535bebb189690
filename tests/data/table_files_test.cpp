// Files of tables: formats, compressions, encodings, and files that are wrong or hostile.
#include <cmath>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <sys/resource.h>

#include "data/tables/raw_table.h"
#include "framework/base/cancel.h"
#include "framework/base/error.h"
#include "framework/io/archive.h"
#include "tests/data/gzip.h"
#include "tests/data/table_fixture.h"

namespace taper::v0::data {
namespace {

namespace fs = std::filesystem;
using Names = std::vector<std::string>;
using Options = TableReadOptions;

using TableFiles = TableFixture;

// "a,b\n1,x\n2,y\n" by zstd 1.5.4 with a checksum.
std::string zstd_table() {
  constexpr unsigned char kBytes[] = {0x28, 0xb5, 0x2f, 0xfd, 0x04, 0x58, 0x61, 0x00, 0x00,
                                      0x61, 0x2c, 0x62, 0x0a, 0x31, 0x2c, 0x78, 0x0a, 0x32,
                                      0x2c, 0x79, 0x0a, 0x2e, 0x9f, 0x21, 0x46};
  return {std::begin(kBytes), std::end(kBytes)};
}

std::string utf16(const std::u16string& text, bool is_big, bool has_mark) {
  std::string out;
  for (const char16_t c : (has_mark ? u"\uFEFF" : u"") + text) {
    const char low = char(c & 0xFF), high = char(c >> 8);
    out += is_big ? high : low;
    out += is_big ? low : high;
  }
  return out;
}

void expect_small_table(const RawTable& t) {
  ASSERT_EQ(t.rows, 2);
  ASSERT_EQ(t.columns.size(), 2u);
  EXPECT_EQ(t.columns[0].name, "a");
  EXPECT_EQ(t.columns[0].number(1), 2);
  EXPECT_EQ(t.columns[1].text(0), "x");
  EXPECT_EQ(t.columns[1].text(1), "y");
}

const std::string kSmall = "a,b\n1,x\n2,y\n";

TEST_F(TableFiles, CompressionIsFoundInTheContent) {
  const struct {
    std::string bytes, name, compression;
  } rows[] = {
      {kSmall, "t.csv", ""},
      {gzip(kSmall), "t.csv.gz", "gzip"},
      {gzip("a,b\n1,") + gzip("x\n2,y\n"), "two_members.csv.gz", "gzip"},
      {gzip(kSmall), "without_its_ending.csv", "gzip"},
      {"a\tb\n1\tx\n2\ty\n", "t.tsv", ""},
      {R"({"a": 1, "b": "x"})"
       "\n\n"
       R"({"b": "y", "a": 2})",
       "t.jsonl", ""},
      {gzip("{\"a\":1,\"b\":\"x\"}\n{\"a\":2,\"b\":\"y\"}\n"), "t.jsonl.gz", "gzip"},
      {"{\"a\":1,\"b\":\"x\"}\n{\"a\":2,\"b\":\"y\"}\n", "lines.json", ""},
  };
  for (const auto& [bytes, name, compression] : rows) {
    SCOPED_TRACE(name);
    const RawTable t = read_table({write(bytes, name)});
    expect_small_table(t);
    EXPECT_EQ(t.files[0].compression, compression);
    EXPECT_EQ(t.files[0].bytes, int64_t(bytes.size()));
  }
}

TEST_F(TableFiles, ZstdIsRead) {
  const fs::path file = write(zstd_table(), "t.csv.zst");
  try {
    expect_small_table(read_table({file}));
  } catch (const InputError& error) {
    ASSERT_NE(std::string(error.what()).find("without zstd"), std::string::npos) << error.what();
    GTEST_SKIP() << "built without zstd (TAPER_ZSTD)";
  }
  const std::string damaged = zstd_table().replace(10, 1, "x");
  EXPECT_EQ(error_of(damaged, "t.csv.zst").substr(0, 34), "t.csv.zst: cannot decompress it: i");
  const std::string cut = zstd_table().substr(0, 20);
  EXPECT_EQ(error_of(cut, "cut.csv.zst"),
            "cut.csv.zst: cannot decompress it: it ends early, at byte 20; is it truncated?");
}

TEST_F(TableFiles, TheOnlyTableInAZipArchiveIsRead) {
  if (!has_zip()) GTEST_SKIP() << "built without libzip (TAPER_ZIP)";
  const std::string file = (directory_ / "t.zip").string();
  write_zip(file, {{"read me.md", "# no table"}, {"data/t.csv", kSmall}, {"__MACOSX/t.csv", "x"}});
  const RawTable t = read_table({file});
  expect_small_table(t);
  EXPECT_EQ(t.files[0].compression, "zip");
  write_zip(file, {{"a.csv", kSmall}, {"b.csv", kSmall}});
  EXPECT_THROW((void)read_table({file}), InputError);
  write_zip(file, {{"a.txt.md", kSmall}});
  EXPECT_THROW((void)read_table({file}), InputError);
}

TEST_F(TableFiles, EncodingsAndByteOrderMarks) {
  const std::u16string wide = u"a,b\n1,\u00e9\u20ac\n2,\U0001F600\n";
  const std::string plain = "a,b\n1,\xc3\xa9\xe2\x82\xac\n2,\xf0\x9f\x98\x80\n";
  const struct {
    std::string bytes, said, found;
  } rows[] = {
      {plain, "utf-8", "utf-8"},
      {"\xEF\xBB\xBF" + plain, "utf-8", "utf-8"},
      {"\xEF\xBB\xBF" + plain, "latin-1", "utf-8"},
      {utf16(wide, false, true), "utf-8", "utf-16"},
      {utf16(wide, true, true), "utf-8", "utf-16"},
      {utf16(wide, false, false), "utf-16", "utf-16"},
      {utf16(wide, true, false), "utf-16", "utf-16"},
  };
  for (const auto& [bytes, said, found] : rows) {
    Options options;
    options.encoding = said;
    const RawTable t = read_table({write(bytes, "t.csv")}, options);
    ASSERT_EQ(t.rows, 2);
    EXPECT_EQ(t.columns[0].name, "a");
    EXPECT_EQ(t.columns[1].text(0), "\xc3\xa9\xe2\x82\xac");
    EXPECT_EQ(t.columns[1].text(1), "\xf0\x9f\x98\x80");
    EXPECT_EQ(t.files[0].encoding, found);
  }
  Options latin;
  latin.encoding = "latin-1";
  const RawTable t = read_table({write("a,b\n1,\xe9\x80\n2,x\n", "t.csv")}, latin);
  EXPECT_EQ(t.columns[1].text(0), "\xc3\xa9\xe2\x82\xac");
}

TEST_F(TableFiles, WrongEncodingsAreNamedWithTheirPlace) {
  EXPECT_EQ(error_of("a,b\n1,x\n2,\xe9\n", "t.csv"),
            "t.csv:3: not UTF-8 text at byte 3 of the line: byte 233; if it is Latin-1 or "
            "Windows-1252, say `read: {encoding: latin-1}`");
  EXPECT_EQ(error_of(utf16(u"a,b\n1,x\n", false, false), "t.csv"),
            "t.csv:1: not UTF-8 text at byte 2 of the line: a zero byte; if it is UTF-16, say "
            "`read: {encoding: utf-16}`");
  EXPECT_EQ(error_of(utf16(u"a,b\n1,x\n", false, true) + "y", "t.csv"),
            "t.csv:3: not utf-16 text at byte 1 of the line: an odd number of bytes");
  // Behind the first part of a large file.
  std::string large = "a,b\n";
  for (int i = 0; i < 100'000; ++i) large += "1,\xc3\xa9\n";
  EXPECT_EQ(error_of(large + "1,\xc3", "t.csv").substr(0, 45),
            "t.csv:100002: not UTF-8 text at byte 3 of the");
  Options options;
  options.encoding = "klingon";
  EXPECT_THROW((void)read_table({write(kSmall, "t.csv")}, options), ValueError);
}

TEST_F(TableFiles, OtherFormatsAreRefusedWithTheCommandThatConverts) {
  const struct {
    std::string bytes, name, part;
  } rows[] = {
      {"PAR1....", "t.parquet", "a Parquet file, which Taper does not read; convert it: python3"},
      {"PAR1....", "t.csv", "a Parquet file"},
      {"PK\3\4", "t.xlsx", "an Excel workbook"},
      {"\xd0\xcf\x11\xe0....", "t.xls", "libreoffice --convert-to csv t.xls"},
      {"BZh91AY", "t.csv.bz2", "bzip2 -dk t.csv.bz2"},
      {std::string("\xfd") + "7zXZ", "t.csv.xz", "xz -dk t.csv.xz"},
      {"[{\"a\": 1}]", "t.json", "jq -c '.[]' t.json > table.jsonl"},
      {"{\n  \"a\": 1\n}", "t.json", "jq -c . FILE > table.jsonl"},
      {"{\"a\": [1]}", "t.jsonl", "t.jsonl:1: key 'a': expected a number"},
      {"{\"a\": 1}\n5\n", "t.jsonl", "t.jsonl:2: expected a JSON object"},
      {"{\"a\": 1}\n{\"a\": 1, \"a\": 2}\n", "t.jsonl", "t.jsonl:2: not one JSON object"},
      {"", "t.csv", "t.csv: expected rows of data, got an empty file"},
      {"\n\n", "t.csv", "t.csv: expected rows of data, got an empty file"},
      {"a,b\n", "t.csv", "expected rows of data, got only a header"},
      {gzip(kSmall).substr(0, 25), "t.csv.gz", "it ends early, at byte 25; is it truncated?"},
      {gzip(kSmall).replace(12, 4, "????"), "t.csv.gz", "its gzip data are damaged"},
  };
  for (const auto& [bytes, name, part] : rows) {
    EXPECT_NE(error_of(bytes, name).find(part), std::string::npos)
        << name << ": " << error_of(bytes, name);
  }
  EXPECT_THROW((void)read_table({directory_}), InputError);
  EXPECT_THROW((void)read_table({directory_ / "missing.csv"}), InputError);
  EXPECT_THROW((void)read_table({}), ValueError);
}

// Returns the largest amount of memory that the process has used, in bytes.
int64_t peak_memory() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return int64_t(usage.ru_maxrss) * 1024;
}

TEST_F(TableFiles, HostileFilesEndInOneMessageAndBoundedMemory) {
  constexpr int64_t kMiB = 1 << 20;
  const int64_t before = peak_memory();
  // A thousand bytes of gzip for each byte.
  const std::string bomb = gzip("a,b\n" + std::string(20 * kMiB, ' '));
  EXPECT_NE(error_of(bomb, "bomb.csv.gz").find("the row has more than 16 MiB"), std::string::npos);
  std::string rows = "a,b\n";
  while (rows.size() < size_t(80 * kMiB)) rows += "1,1\n1,1\n1,1\n1,1\n1,1\n1,1\n1,1\n1,1\n";
  const std::string row_bomb = gzip(rows);
  std::string().swap(rows);
  EXPECT_NE(error_of(row_bomb, "rows.csv.gz").find("MiB, which no table does"), std::string::npos);
  EXPECT_EQ(error_of("a,b\n1,2\n3," + std::string(20 * kMiB, 'x') + "\n", "cell.csv"),
            "cell.csv:3: column 'b': the row has more than 16 MiB");
  EXPECT_EQ(error_of("a,b\n1,2\n3,\"" + std::string(20 * kMiB, 'x') + "\n", "quote.csv"),
            "quote.csv:3: column 'b': the row has more than 16 MiB; is a quote not closed?");
  std::string wide;
  for (int i = 0; i < 1'000'000; ++i) wide += "1,";
  EXPECT_NE(error_of(wide + "1\n" + wide + "1\n", "wide.csv").find("1000001 columns"),
            std::string::npos);
  std::string keys;
  for (int i = 0; i < 300'000; ++i) keys += concat_to_string("{\"k", i, "\":1}\n");
  EXPECT_NE(error_of(keys, "keys.jsonl").find("is this a table?"), std::string::npos);
  // The test itself holds two copies of a text of up to 80 MiB.
  EXPECT_LT(peak_memory() - before, 600 * kMiB);
}

TEST_F(TableFiles, ReadingReportsItsProgressAndCanBeStopped) {
  std::string text = "a,b\n";
  for (int i = 0; i < 200'000; ++i) text += concat_to_string(i, ",", i % 7, "\n");
  const fs::path file = write(text, "t.csv");
  Options options;
  int64_t calls = 0;
  TableReadProgress last;
  options.progress = [&](const TableReadProgress& now) {
    EXPECT_GE(now.bytes, last.bytes);
    EXPECT_GE(now.rows, last.rows);
    EXPECT_LE(now.bytes, now.total_bytes);
    last = now;
    ++calls;
  };
  (void)read_table({file, file}, options);
  EXPECT_GE(calls, 8);
  EXPECT_EQ(last.bytes, int64_t(2 * text.size()));
  EXPECT_EQ(last.total_bytes, last.bytes);
  EXPECT_EQ(last.rows, 400'000);

  // A function for the whole process is called unless the options have one.
  static int64_t shown = 0;
  last = {};
  set_table_progress([](const TableReadProgress&) { ++shown; });
  (void)read_table({file}, options);
  EXPECT_EQ(shown, 0);
  options.progress = {};
  (void)read_table({file}, options);
  EXPECT_GE(shown, 4);
  set_table_progress(nullptr);
  const int64_t before = shown;
  (void)read_table({file}, options);
  EXPECT_EQ(shown, before);

  struct Stopped {};
  set_stop_check([] { throw Stopped(); });
  EXPECT_THROW((void)read_table({file}, options), Stopped);
  set_stop_check(nullptr);
}

}  // namespace
}  // namespace taper::v0::data
