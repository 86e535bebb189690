#include "data/tables/reading/json_rows.h"

#include <algorithm>
#include <cstring>
#include <optional>

#include "data/tables/reading/number_cell.h"
#include "framework/base/error.h"
#include "framework/io/json_scanner.h"
#include "framework/io/text_utils.h"

namespace taper::v0::data::reading {
namespace {

using taper::detail::in_quotes;

// Reads one line.
class JsonRow {
 public:
  JsonRow(const std::string& path, int64_t line, const JsonTarget& target)
      : path_(path), line_(line), target_(target) {}

  void read(std::string_view text) {
    const auto fault = scan_json(text, [this](const JsonEvent& event) { take(event); });
    if (!fault) return target_.on_row(line_, values_);
    const bool is_cut = fault->at >= text.size();
    fail(concat_to_string("not one JSON object in a line: ", fault->what, " at character ",
                          fault->at + 1,
                          is_cut ? "; if an object takes several lines, convert the file: jq -c . "
                                   "FILE > table.jsonl"
                                 : ""));
  }

 private:
  using Kind = JsonEvent::EventKind;

  [[noreturn]] void fail(const std::string& what) const {
    throw InputError(path_, ":", line_, ": ", what);
  }

  void take(const JsonEvent& event) {
    const bool is_object = event.kind == Kind::kMapStart && !is_open_;
    if (is_object) {
      is_open_ = true;
    } else if (!is_open_) {
      fail("expected a JSON object");
    } else if (event.kind == Kind::kKey) {
      key_ = event.text;
    } else if (event.kind != Kind::kMapEnd) {
      take_value(event);
    }
  }

  void take_value(const JsonEvent& event) {
    if (event.kind == Kind::kMapStart || event.kind == Kind::kListStart) {
      fail(concat_to_string("key ", in_quotes(key_), ": expected a number, a string, true, false ",
                            "or null, got a nested value; leave the key out, or write its parts as "
                            "keys of their own"));
    }
    RawColumn& column = *target_.column_of(key_);
    ++values_;
    if (event.kind == Kind::kNull) return column.add_word("");
    const bool may_be_number = event.kind != Kind::kBoolean && !target_.is_text(key_);
    const auto number = may_be_number ? number_in_cell(event.text) : std::nullopt;
    number ? column.add_number(*number) : column.add_word(event.text);
  }

  const std::string& path_;
  const int64_t line_;
  const JsonTarget& target_;
  bool is_open_ = false;
  std::string key_;
  int64_t values_ = 0;
};

}  // namespace

void scan_json_rows(TextBuffer& text, const std::string& path, int64_t skip,
                    const JsonTarget& target) {
  const char* at = text.begin();
  int64_t line = 1;
  while (true) {
    const auto* end = static_cast<const char*>(std::memchr(at, '\n', size_t(text.end() - at)));
    if (!end) {
      const TextBuffer::More more = text.more(at, line);
      if (more == TextBuffer::More::kAtEnd && at == text.end()) return;
      // A file of one line ends in '\r' if an old Macintosh wrote it.
      require<InputError>(more == TextBuffer::More::kRead, path, ":", line,
                          ": expected one JSON object per line; this line has more than ",
                          TextBuffer::kMostText >> 20, " MiB, or no end");
      target.on_progress();
      continue;
    }
    const std::string_view row(at, size_t(end - at));
    const bool is_blank = row.find_first_not_of(" \t\r") == row.npos;
    if (!is_blank && line > skip) JsonRow(path, line, target).read(row);
    at = end + 1;
    ++line;
  }
}

}  // namespace taper::v0::data::reading
