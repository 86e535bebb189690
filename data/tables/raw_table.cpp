#include "data/tables/raw_table.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <new>
#include <numeric>
#include <utility>

#include <fnmatch.h>
#include <glob.h>

#include "data/tables/reading/byte_source.h"
#include "data/tables/reading/csv_decorated.h"
#include "data/tables/reading/json_rows.h"
#include "data/tables/reading/row_scanner.h"
#include "data/tables/reading/table_layout.h"
#include "data/tables/reading/text_buffer.h"
#include "framework/base/error.h"
#include "framework/io/text_utils.h"

namespace taper::v0::data {
namespace {

using taper::detail::in_quotes;

constexpr size_t kMostColumns = 250'000;

std::atomic<ShowTableProgress> shown_progress{nullptr};

// Reads files one after another into one table.
class TableJoiner {
 public:
  TableJoiner(const TableReadOptions& options, const std::vector<std::string>& text_columns)
      : options_(options), text_columns_(text_columns) {}

  RawTable run(const std::vector<std::filesystem::path>& paths) {
    const auto start = std::chrono::steady_clock::now();
    for (const auto& path : paths) {
      std::error_code error;  // read() reports a file that is missing
      const uint64_t size = std::filesystem::file_size(path, error);
      progress_.total_bytes += error ? 0 : int64_t(size);
    }
    for (const auto& path : paths) read(path.string());
    for (RawColumn& column : table_.columns) column.finish();
    note_decimal_commas();
    const std::chrono::duration<double> spent = std::chrono::steady_clock::now() - start;
    table_.seconds = spent.count();
    return std::move(table_);
  }

 private:
  void read(const std::string& path) try {
    std::unique_ptr<reading::ByteSource> source = reading::open_bytes(path);
    const std::string name = source->name;
    table_.files.push_back(
        {.path = path, .bytes = int64_t(source->size), .compression = source->compression});
    reading::TextBuffer text(std::move(source), path, options_.encoding);
    table_.files.back().encoding = text.encoding();
    const bool is_json = has_json(path, name, text);
    table_.files.back().format = is_json ? "jsonl" : "csv";
    is_json ? read_json(path, text) : read_rows(path, text);
    progress_.bytes += table_.files.back().bytes;
  } catch (const std::bad_alloc&) {
    throw OutOfMemoryError(path, ": no memory for its rows; ", table_.rows, " were read");
  }

  void read_rows(const std::string& path, reading::TextBuffer& text) {
    const reading::TableLayout layout = layout_of(path, text);
    TableFile& file = table_.files.back();
    file.has_header = layout.has_header;
    join_names(path);
    file.delimiter = layout.format.is_blanks ? "blanks" : std::string{layout.format.delimiter};
    table_.notes.insert(table_.notes.end(), layout.notes.begin(), layout.notes.end());
    reading::RowTarget target = target_of(path, layout.names);
    target.on_progress = [&](int64_t rows) { report(text, rows); };
    reading::RowScanner scanner(text, path, layout.format, text.begin() + layout.start,
                                layout.start_line);
    file.rows = scanner.scan(target);
    require<InputError>(file.rows > 0, path, ":", layout.start_line,
                        ": expected rows of data, got only a header");
    table_.rows += file.rows;
    for (RawColumn* column : target.columns) column->set_size(table_.rows);
    fill(path);
    report(text, table_.rows);
  }

  // Returns whether a file contains JSON lines, according to its first character. Throws InputError
  // for other JSON.
  static bool has_json(const std::string& path, const std::string& name,
                       const reading::TextBuffer& text) {
    const std::string_view all(text.begin(), text.end());
    const size_t first = std::min(all.find_first_not_of(" \t\r\n"), all.size());
    const std::string_view start = all.substr(first);
    const bool has_name =
        name.find(".json") != std::string::npos || name.find(".ndjson") != std::string::npos;
    require<InputError>(
        !has_name || !start.starts_with('['), path,
        ": this is a JSON array; Taper reads one JSON object per line; convert it: ",
        "jq -c '.[]' ", path, " > table.jsonl");
    const size_t key = std::min(start.find_first_not_of(" \t", 1), start.size());
    return has_name || (start.starts_with('{') && start.substr(key).starts_with('"'));
  }

  void read_json(const std::string& path, reading::TextBuffer& text) {
    table_.files.back().has_header = true;
    join_names(path);
    json_ = {};
    const reading::JsonTarget target{
        .column_of = [&](std::string_view key) { return json_column(path, key); },
        .is_text = [&](std::string_view key) { return is_text(std::string(key)); },
        .on_row = [&](int64_t line, int64_t values) { end_json_row(path, line, values); },
        .on_progress = [&] { report(text, table_.rows); }};
    const int64_t before = table_.rows;
    const size_t columns = table_.columns.size();
    reading::scan_json_rows(text, path, options_.skip, target);
    table_.files.back().rows = table_.rows - before;
    require<InputError>(table_.rows > before, path, ": expected rows of data, got an empty file");
    for (size_t i = columns; before > 0 && i < table_.columns.size(); ++i) note_new(path, i);
    report(text, table_.rows);
  }

  // Keys mostly come in the same order in all rows.
  RawColumn* json_column(const std::string& path, std::string_view key) {
    const bool is_next =
        json_.next < table_.columns.size() && table_.columns[json_.next].name == key;
    const size_t index = is_next ? json_.next : column_of(path, std::string(key)).index;
    json_.next = index + 1;
    return &table_.columns[index];
  }

  void end_json_row(const std::string& path, int64_t line, int64_t values) {
    if (line - table_.rows != json_.place) {
      table_.places.push_back({table_.rows, std::ssize(table_.files) - 1, line});
    }
    json_.place = line - table_.rows;
    json_.values += values;
    json_.next = 0;
    ++table_.rows;
    for (RawColumn& column : table_.columns) {
      if (column.size() < table_.rows) column.add_word("");
    }
    refuse_gaps(path, line);
  }

  // Throws InputError if nearly all cells are empty because each row has other keys, so that memory
  // is bounded by the size of the file.
  void refuse_gaps(const std::string& path, int64_t line) const {
    constexpr int64_t kAlways = int64_t(1) << 24, kMostPerValue = 50;
    const int64_t cells = table_.rows * std::ssize(table_.columns);
    require<InputError>(cells < kAlways || cells / kMostPerValue <= json_.values, path, ":", line,
                        ": the rows have ", std::ssize(table_.columns), " different keys, and all ",
                        "but every fiftieth cell is empty; is this a table?");
  }

  reading::TableLayout layout_of(const std::string& path, reading::TextBuffer& text) const {
    // Rows may be very long.
    constexpr int64_t kFewLines = 20, kFewerLines = 3, kLongText = int64_t(1) << 20;
    const char* at = text.begin();
    while (!text.is_complete()) {
      const int64_t lines = std::count(text.begin(), text.end(), '\n') - options_.skip;
      const bool is_long = text.end() - text.begin() > kLongText;
      if (lines >= (is_long ? kFewerLines : kFewLines)) break;
      if (text.more(at, 1) != reading::TextBuffer::More::kRead) break;
    }
    reading::LayoutRequest request{
        .delimiter = options_.delimiter,
        .decimal = options_.decimal,
        .skip = options_.skip,
        .header = reading::LayoutRequest::Header(options_.header.index())};
    request.expected_names.insert(options_.expected_columns.begin(),
                                  options_.expected_columns.end());
    request.expected_names.insert(text_columns_.begin(), text_columns_.end());
    if (has_names_) {
      for (const RawColumn& column : table_.columns) request.known_names.insert(column.name);
    }
    return reading::find_layout(path, {text.begin(), text.end()}, text.is_complete(), request);
  }

  // Checks that the file at the end of table_.files may be joined to those before it.
  void join_names(const std::string& path) {
    const bool has_header = table_.files.back().has_header;
    if (table_.files.size() == 1) has_names_ = has_header;
    require<InputError>(has_names_ == has_header, path, ": it has ",
                        has_header ? "a header" : "no header", ", unlike ", table_.files[0].path,
                        "; files are joined by the names of their columns");
  }

  // Returns the columns of the table for a file with the given names. Adds columns that are new.
  reading::RowTarget target_of(const std::string& path, const std::vector<std::string>& names) {
    require<InputError>(names.size() <= kMostColumns, path, ": it has ", names.size(),
                        " columns, and at most ", kMostColumns, " are read; is the delimiter ",
                        in_quotes(table_.files.back().delimiter), "?");
    const bool is_first = table_.files.size() == 1;
    require<InputError>(is_first || has_names_ || names.size() == table_.columns.size(), path,
                        ": expected ", table_.columns.size(), " columns as in ",
                        table_.files[0].path, ", got ", names.size());
    std::vector<size_t> indices;
    int64_t shared = 0;
    for (const std::string& name : names) {
      const auto [index, is_new] = column_of(path, name);
      if (is_new && !is_first) note_new(path, index);
      shared += !is_new;
      indices.push_back(index);
    }
    require<InputError>(is_first || shared > 0, path, ": it has no column in common with ",
                        table_.files[0].path);
    reading::RowTarget target{.cells = &cells_, .first_row = table_.rows};
    for (const size_t index : indices) {
      RawColumn& column = table_.columns[index];
      target.columns.push_back(&column);
      target.names.push_back(has_names_ ? concat_to_string("column ", in_quotes(column.name))
                                        : column.name);
      target.is_text.push_back(char(is_text(column.name)));
    }
    target.on_place = [this, index = std::ssize(table_.files) - 1](int64_t row, int64_t line) {
      table_.places.push_back({row, index, line});
    };
    return target;
  }

  // Returns the column of a name. A new one is empty in the rows so far.
  struct FoundColumn {
    size_t index;
    bool is_new;
  };
  FoundColumn column_of(const std::string& path, const std::string& name) {
    const auto [found, is_new] = index_.try_emplace(name, table_.columns.size());
    if (!is_new) return {found->second, false};
    require<InputError>(table_.columns.size() < kMostColumns, path, ": at most ", kMostColumns,
                        " different columns are read");
    RawColumn& column = table_.columns.emplace_back();
    column.name = name;
    column.add_words("", table_.rows);
    return {found->second, true};
  }

  void note_new(const std::string& path, size_t index) {
    table_.notes.push_back(concat_to_string("column ", in_quotes(table_.columns[index].name),
                                            " is new in ", path,
                                            "; it is empty in the rows before"));
  }

  // Fills the columns that the file lacks with empty cells.
  void fill(const std::string& path) {
    for (RawColumn& column : table_.columns) {
      if (column.size() == table_.rows) continue;
      column.add_words("", table_.rows - column.size());
      table_.notes.push_back(concat_to_string(path, " has no column ", in_quotes(column.name),
                                              "; it is empty in its rows"));
    }
  }

  void report(const reading::TextBuffer& text, int64_t rows) {
    const ShowTableProgress show = shown_progress.load(std::memory_order_relaxed);
    if (!options_.progress && show == nullptr) return;
    TableReadProgress now = progress_;
    now.bytes += int64_t(text.source().position());
    now.rows = rows;
    options_.progress ? options_.progress(now) : show(now);
  }

  // Returns whether the name, or a pattern that fits it, is among the text columns.
  bool is_text(const std::string& name) const {
    return std::ranges::any_of(text_columns_, [&](const std::string& pattern) {
      return name == pattern || fnmatch(pattern.c_str(), name.c_str(), 0) == 0;
    });
  }

  void note_decimal_commas() {
    if (options_.decimal == ",") return;
    for (const RawColumn& column : table_.columns) {
      const auto words = column.words();
      const auto found =
          std::ranges::find_if(words, [](std::string_view word) { return !word.empty(); });
      if (found == words.end()) continue;
      const std::string first(*found);
      const auto number = csv::decorated_number(first);
      if (!number || !number->may_have_decimal_comma) continue;
      table_.notes.push_back(concat_to_string(
          "column ", in_quotes(column.name), " has words such as ", in_quotes(first),
          "; if its numbers have decimal commas, say `read: {decimal: \",\"}`"));
      return;
    }
  }

  const TableReadOptions& options_;
  const std::vector<std::string> text_columns_;
  RawTable table_;
  std::map<std::string, size_t> index_;  // of columns by their names
  // The current file of JSON lines.
  struct {
    size_t next = 0;                                      // index of the column expected next
    int64_t place = std::numeric_limits<int64_t>::min();  // line minus row of the last row
    int64_t values = 0;
  } json_;
  bool has_names_ = false;
  CellAllocator cells_;
  TableReadProgress progress_;  // before the current file
};

}  // namespace

void set_table_progress(ShowTableProgress show) { shown_progress = show; }

int64_t RawTable::find(std::string_view name) const {
  const auto found = std::ranges::find(columns, name, &RawColumn::name);
  return found == columns.end() ? -1 : found - columns.begin();
}

std::vector<int64_t> RawTable::all_rows() const {
  std::vector<int64_t> out(static_cast<size_t>(rows));
  std::iota(out.begin(), out.end(), int64_t(0));
  return out;
}

std::string RawTable::place_of(int64_t row) const {
  const auto after = std::ranges::upper_bound(places, row, {}, &Place::row);
  require<ValueError>(row >= 0 && row < rows && after != places.begin(), "place_of: row ", row,
                      " of ", rows);
  const Place& place = after[-1];
  return concat_to_string(files[size_t(place.file)].path, ":", place.line + row - place.row);
}

RawTable read_table(const std::vector<std::filesystem::path>& files,
                    const TableReadOptions& options, const std::vector<std::string>& text_columns) {
  require<ValueError>(!files.empty(), "read_table: expected at least one file");
  return TableJoiner(options, text_columns).run(expand_wildcards(files));
}

std::vector<std::filesystem::path> expand_wildcards(
    const std::vector<std::filesystem::path>& paths) {
  std::vector<std::filesystem::path> out;
  for (const std::filesystem::path& path : paths) {
    std::error_code error;
    const bool has_wildcard = path.string().find_first_of("*?[") != std::string::npos;
    if (!has_wildcard || std::filesystem::exists(path, error)) {
      out.push_back(path);
      continue;
    }
    glob_t found{};
    const auto release = [](glob_t* g) { globfree(g); };
    const std::unique_ptr<glob_t, decltype(release)> guard(&found, release);
    const int code = glob(path.c_str(), 0, nullptr, &found);  // sorts
    require<InputError>(code == 0, path.string(), ": no file has a name of this form");
    out.insert(out.end(), found.gl_pathv, found.gl_pathv + found.gl_pathc);
  }
  return out;
}

}  // namespace taper::v0::data
