#include "data/tables/table_report.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <limits>
#include <map>
#include <ranges>
#include <set>
#include <string_view>
#include <unordered_map>

#include "framework/io/text_utils.h"

namespace taper::v0::data {
namespace {

using detail::in_quotes;

constexpr size_t kManyColumns = 40;
constexpr size_t kShownClasses = 6, kShownName = 20, kShownColumn = 40;

std::string date_text(double seconds) {
  using namespace std::chrono;
  const year_month_day date(
      floor<days>(sys_seconds(std::chrono::seconds(int64_t(std::floor(seconds))))));
  char out[32];
  std::snprintf(out, sizeof out, "%04d-%02u-%02u", int(date.year()), unsigned(date.month()),
                unsigned(date.day()));
  return out;
}

// Returns a number with at most six significant digits.
std::string short_text(double value) { return concat_to_string(float(value)); }

std::string kind_text(const ColumnSummary& column, const TableEncoding& encoding) {
  if (column.kind == ColumnKind::kTarget) {
    for (const TargetColumn& target : encoding.targets) {
      if (target.name != column.name) continue;
      return target.classes.empty() ? target.is_log ? "target, log of values" : "target, values"
             : encoding.targets.size() > 1
                 ? "target, label"
                 : concat_to_string("target, ", target.classes.size(), " classes");
    }
  }
  switch (column.kind) {
    case ColumnKind::kNumber: return "number";
    case ColumnKind::kCategory: return "category";
    case ColumnKind::kDate: return "date";
    case ColumnKind::kText: return "text";
    case ColumnKind::kKeep: return "kept";
    case ColumnKind::kGroup: return "group";
    case ColumnKind::kWeight: return "weight";
    default: return "ignored";
  }
}

// Returns "0: 863, 1: 450", or the range of values.
std::string target_note(const TableView& view, const TargetColumn& target) {
  const RawColumn& column = view.table.columns[size_t(find_column(view.table, target.name))];
  std::map<std::string, int64_t> counts;
  double low = std::numeric_limits<double>::infinity(), high = -low;
  for (const auto* part : {&view.parts.train, &view.parts.validation, &view.parts.test}) {
    for (const int64_t row : *part) {
      if (!target.classes.empty()) ++counts[column.text(row)];
      low = std::fmin(low, column.number(row));
      high = std::fmax(high, column.number(row));
    }
  }
  if (target.classes.empty()) return concat_to_string(short_text(low), " to ", short_text(high));
  std::string out;
  for (size_t i = 0; i < std::min(kShownClasses, target.classes.size()); ++i) {
    const std::string& name = target.classes[i];
    const std::string shown =
        name.size() > kShownName ? detail::escaped_for_display(name, kShownName - 3) : name;
    out += concat_to_string(out.empty() ? "" : ", ", shown, ": ", with_separators(counts[name]));
  }
  return target.classes.size() > kShownClasses ? out + ", ..." : out;
}

bool has_missing_category(const FeatureColumn& f) {
  return std::ranges::count(f.words, std::string()) > 0;
}

std::string gap_note(const ColumnSummary& column, const FeatureColumn& f) {
  const char* const feature = "is missing\" is a feature";
  if (f.kind == ColumnKind::kCategory && column.missing > 0) {
    return has_missing_category(f) ? "missing is a category of its own"
                                   : "missing counts as an unknown word";
  }
  const bool is_filled = f.kind == ColumnKind::kNumber || f.kind == ColumnKind::kDate;
  if (!is_filled || (!f.has_gap_feature && column.missing == 0)) return "";
  const std::string fill = f.kind == ColumnKind::kDate ? date_text(f.fill) : short_text(f.fill);
  return concat_to_string("filled with the median ", fill,
                          f.has_gap_feature ? concat_to_string("; \"", f.name, " ", feature) : "");
}

std::string feature_note(const ColumnSummary& column, const FeatureColumn& f) {
  std::string out = gap_note(column, f);
  const auto add = [&](const std::string& text) {
    out += concat_to_string(out.empty() ? "" : "; ", text);
  };
  const int64_t words = column.distinct + (has_missing_category(f) ? 1 : 0);
  const int64_t rare = words - std::ssize(f.words);
  if (f.kind == ColumnKind::kCategory && rare > 0) {
    add(concat_to_string(with_separators(rare), " rare ", rare == 1 ? "word counts" : "words count",
                         " as unknown"));
  }
  if (f.kind == ColumnKind::kText) {
    add(concat_to_string("the ", f.words.size(), " most frequent words"));
  }
  if (f.kind == ColumnKind::kDate) {
    add(concat_to_string("from ", date_text(f.first_date),
                         ": year, month, day, weekday, hour, days since then"));
  }
  return out;
}

std::string note_of(const TableView& view, const ColumnSummary& column) {
  for (const TargetColumn& target : view.encoding.targets) {
    if (target.name == column.name) return target_note(view, target);
  }
  for (const FeatureColumn& f : view.encoding.features) {
    if (f.name != column.name) continue;
    const std::string own = feature_note(column, f);
    return own.empty() || column.note.empty() ? own + column.note : own + "; " + column.note;
  }
  if (column.kind == ColumnKind::kWeight) return "multiplies the loss and metrics of its row";
  return column.note;
}

struct Line {
  std::string name, kind, distinct, missing, note;
};

void append(std::string& out, const Line& line, size_t name, size_t kind) {
  std::string text = "  " + line.name;
  const auto pad_to = [&](size_t width, size_t used) {
    text.append(width > used ? width - used : 0, ' ');
  };
  pad_to(name, num_characters(line.name));
  text += "  " + line.kind;
  pad_to(kind, line.kind.size());
  text += "  ";
  pad_to(8, line.distinct.size());
  text += line.distinct + "  ";
  pad_to(7, line.missing.size());
  text += line.missing + "  " + line.note;
  text.erase(text.find_last_not_of(' ') + 1);
  out += text + "\n";
}

std::string file_text(const RawTable& table) {
  char seconds[32];
  std::snprintf(seconds, sizeof seconds, "%.2f", table.seconds);
  const std::string name =
      table.files.size() == 1
          ? table.files[0].path
          : concat_to_string(table.files[0].path, " and ", table.files.size() - 1, " more");
  return concat_to_string(name, ": ", with_separators(table.rows), " rows, ", table.columns.size(),
                          " columns, read in ", seconds, " s\n");
}

std::string split_text(const RowParts& parts) {
  std::string out =
      concat_to_string("split: ", with_separators(std::ssize(parts.train)), " training, ");
  if (!parts.validation.empty()) {
    out += concat_to_string(with_separators(std::ssize(parts.validation)), " validation, ");
  }
  return concat_to_string(out, with_separators(std::ssize(parts.test)), " test, ", parts.how);
}

// Returns the text of a cell by which rows are compared; "" if it is missing.
std::string compared_text(const CellReader& cells, int64_t row) {
  return cells.is_missing(row) ? "" : cells.column().text(row);
}

// Returns whether each word of the feature occurs with one class only, several rows a word.
bool determines(const TableView& view, const FeatureColumn& f, const RawColumn& target) {
  const RawColumn& column = view.table.columns[size_t(find_column(view.table, f.name))];
  const CellReader cells(column, f.missing);
  std::unordered_map<std::string, std::string> class_of;
  std::set<std::string> classes;
  for (const int64_t row : view.parts.train) {
    const std::string wanted = target.text(row);
    const auto found = class_of.try_emplace(compared_text(cells, row), wanted).first;
    if (found->second != wanted) return false;
    classes.insert(wanted);
  }
  return classes.size() > 1 && 3 * class_of.size() <= view.parts.train.size();
}

bool is_in_order(const TableView& view, const FeatureColumn& f) {
  const RawColumn& column = view.table.columns[size_t(find_column(view.table, f.name))];
  const CellReader cells(column, f.missing);
  double last = -std::numeric_limits<double>::infinity();
  int64_t rises = 0;
  for (int64_t row = 0; row < column.size(); ++row) {
    if (cells.is_missing(row)) continue;
    const double time = date_in_cell(column, row, f.date_form, f.date_order);
    if (time < last) return false;
    rises += time > last;
    last = time;
  }
  return 2 * rises > column.size();
}

}  // namespace

size_t num_characters(const std::string& text) {
  return size_t(std::ranges::count_if(text, [](char c) { return !detail::is_continuation(c); }));
}

std::string with_separators(int64_t number) {
  std::string out = concat_to_string(number);
  for (auto at = std::ssize(out) - 3; at > (number < 0 ? 1 : 0); at -= 3) {
    out.insert(size_t(at), ",");
  }
  return out;
}

std::string report_of(const TableView& view) {
  std::string out = file_text(view.table);
  constexpr size_t kMostNotes = 10;
  const std::vector<std::string>& notes = view.table.notes;
  for (const std::string& note : notes | std::views::take(kMostNotes)) {
    out += concat_to_string("  ", note, "\n");
  }
  if (notes.size() > kMostNotes) {
    out += concat_to_string("  and ", with_separators(std::ssize(notes) - kMostNotes),
                            " more notes on columns and files\n");
  }
  std::vector<Line> lines = {{"column", "taken as", "distinct", "missing", ""}};
  int64_t numbers = 0;
  for (const ColumnSummary& column : view.columns) {
    const std::string note = note_of(view, column);
    const bool is_plain = column.kind == ColumnKind::kNumber && note.empty();
    numbers += is_plain;
    if (is_plain && view.columns.size() > kManyColumns) continue;
    lines.push_back({detail::escaped_for_display(column.name, kShownColumn),
                     kind_text(column, view.encoding), with_separators(column.distinct),
                     column.missing > 0 ? with_separators(column.missing) : "", note});
  }
  size_t name = 0, kind = 0;
  for (const Line& line : lines) {
    name = std::max(name, num_characters(line.name));
    kind = std::max(kind, line.kind.size());
  }
  for (const Line& line : lines) append(out, line, name, kind);
  if (view.columns.size() > kManyColumns && numbers > 0) {
    out += concat_to_string("  and ", with_separators(numbers), " columns of numbers\n");
  }
  if (view.dropped > 0) {
    out += concat_to_string("dropped: ", with_separators(view.dropped),
                            view.dropped == 1 ? " row" : " rows", " without a target\n");
  }
  return out + split_text(view.parts);
}

std::vector<std::string> warnings_about(const TableView& view, const TableSplit& split) {
  std::vector<std::string> out;
  const std::string& file = view.table.files[0].path;
  const bool is_random =
      split.by == TableSplit::By::kStratify || split.by == TableSplit::By::kRandom;
  for (const FeatureColumn& f : view.encoding.features) {
    if (is_random && f.kind == ColumnKind::kDate && is_in_order(view, f)) {
      out.push_back(concat_to_string(
          file, ": the rows are in the order of ", in_quotes(f.name),
          ", and a random division tests the model on days between those it has learned from; "
          "`split: {by: time, column: ",
          f.name, "}` tests it on later ones"));
    }
  }
  for (const TargetColumn& target : view.encoding.targets) {
    if (target.classes.empty()) continue;
    const RawColumn& wanted = view.table.columns[size_t(find_column(view.table, target.name))];
    for (const FeatureColumn& f : view.encoding.features) {
      if (f.kind != ColumnKind::kCategory && f.kind != ColumnKind::kNumber) continue;
      if (!determines(view, f, wanted)) continue;
      out.push_back(concat_to_string(
          file, ": column ", in_quotes(f.name), " alone determines ", in_quotes(target.name),
          ": if it is not known before the target is, leave it out with `columns: {", f.name,
          ": ignore}`"));
    }
  }
  return out;
}

}  // namespace taper::v0::data
