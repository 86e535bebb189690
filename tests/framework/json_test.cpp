// JSON from outside: the reported elements, and the positions of errors.
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "framework/base/error.h"
#include "framework/io/json_scanner.h"

namespace taper::v0 {
namespace {

using EventKind = JsonEvent::EventKind;

TEST(Json, EveryValueIsToldAsItIsSpelledAndWhereItBegins) {
  const std::string text =
      "{\"a\\\"b\": [1, -2.50e3,\n true], \"c\" : null, \"d\":\"\\u00e9\\\\\"}";
  std::vector<std::string> seen;
  const auto fault = scan_json(text, [&](const JsonEvent& e) {
    seen.push_back(concat_to_string(int(e.kind), " ", e.text, " @", e.at));
  });
  EXPECT_FALSE(fault) << fault->what;
  const auto row = [](EventKind kind, const char* what, size_t at) {
    return concat_to_string(int(kind), " ", what, " @", at);
  };
  EXPECT_EQ(seen, (std::vector<std::string>{
                      row(EventKind::kMapStart, "", 0), row(EventKind::kKey, "a\"b", 1),
                      row(EventKind::kListStart, "", 9), row(EventKind::kNumber, "1", 10),
                      row(EventKind::kNumber, "-2.50e3", 13), row(EventKind::kBoolean, "true", 23),
                      row(EventKind::kListEnd, "", 27), row(EventKind::kKey, "c", 30),
                      row(EventKind::kNull, "null", 36), row(EventKind::kKey, "d", 42),
                      row(EventKind::kString, "\xc3\xa9\\", 46), row(EventKind::kMapEnd, "", 56)}));
}

TEST(Json, FaultsAreToldInOurWordsWithTheirPlace) {
  const struct {
    std::string text;
    size_t at;
    const char* what;
  } rows[] = {
      {"", 0, "the text ends within a value"},
      {"  ", 2, "the text ends within a value"},
      {"[1, 2", 5, "the text ends within a value"},
      {"{\"a", 3, "the text ends within a value"},
      {"[1,]", 3, "unexpected ']'"},
      {"{\"a\":1,}", 7, "unexpected '}'"},
      {"[NaN]", 1, "unexpected 'N'"},
      {"[02]", 2, "unexpected '2'"},
      {"1 2", 2, "unexpected '2'"},
      {"'a'", 0, "unexpected '''"},
      {"\"\xff\"", 1, "unexpected byte 255"},
      {"\"\n\"", 1, "unexpected byte 10"},
      {std::string("{}\0", 3), 2, "a zero byte"},
      {"[1, 1e400]", 4, "a number that is too large"},
      {"{\"a\":1, \"b\":{\"a\":2}, \"a\":3}", 21, "the key \"a\" comes twice"},
      {std::string(200'000, '['), kMaxJsonDepth, "nested deeper than 64 levels"},
      {"/**/1", 0, "unexpected '/'"},
  };
  for (const auto& row : rows) {
    const auto fault = scan_json(row.text, [](const JsonEvent&) {});
    ASSERT_TRUE(fault) << row.text;
    EXPECT_EQ(fault->what, row.what) << row.text.substr(0, 80);
    EXPECT_EQ(fault->at, row.at) << row.text.substr(0, 80);
  }
  EXPECT_FALSE(scan_json(std::string(64, '[') + std::string(64, ']'), [](const JsonEvent&) {}));
}

}  // namespace
}  // namespace taper::v0
