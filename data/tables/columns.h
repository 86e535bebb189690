// The kinds of a table's columns: found from their cells, or given by the user.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "data/dataset.h"
#include "data/tables/dates.h"
#include "data/tables/raw_table.h"

namespace taper::v0::data {

// kKeep: not used, but copied to predictions. kGroup: the rows of a group stay in one part of the
// data; not used otherwise. kWeight: multiplies the loss of its row, and its part in metrics.
enum class ColumnKind {
  kNumber,
  kCategory,
  kDate,
  kText,
  kIgnore,
  kKeep,
  kGroup,
  kWeight,
  kTarget
};

// How the cells of a date column are written: as text, as digits such as 20240131, or as the
// seconds or milliseconds since 1970.
enum class DateForm { kText, kDigits, kSeconds, kMilliseconds };

// The cells of a column that count as missing: these words, and these numbers.
struct MissingCells {
  std::vector<std::string> words{};
  std::vector<double> numbers{};
};

// One column as it was understood.
struct ColumnSummary {
  std::string name;
  ColumnKind kind = ColumnKind::kIgnore;
  // distinct: without missing ones. Of a column of identifiers (RawColumn::words()) it may be
  // somewhat too high.
  int64_t distinct = 0, missing = 0;
  std::string note{};  // why it has this kind, for the report
  MissingCells missing_cells{};
  DateForm date_form = DateForm::kText;
  DateOrder date_order = DateOrder::kMonthFirst;
};

// What the user says about a table. Names of columns may be patterns with * and ?.
struct TableRequest {
  std::vector<std::string> targets;           // names, or indices: 0 is the first, -1 the last
  std::map<std::string, ColumnKind> columns;  // kinds by name
  std::vector<std::string> missing;           // words that say that a value is missing
  std::string group;                          // the column of groups; empty: none
};

// Whether each cell of a column is missing.
class CellReader {
 public:
  CellReader(const RawColumn& column, const MissingCells& missing);

  bool is_missing(int64_t row) const {
    const int64_t word = column_->word(row);
    return word >= 0 ? is_missing_word_[size_t(word)] : is_missing_number(column_->number(row));
  }
  bool is_missing_word(int64_t word) const { return is_missing_word_[size_t(word)]; }
  const RawColumn& column() const { return *column_; }

 private:
  bool is_missing_number(double value) const;

  const RawColumn* column_;
  std::vector<bool> is_missing_word_;  // by the word's index
  std::vector<double> missing_numbers_;
};

// Returns the words that say that a value is missing if the user gives no others.
std::vector<std::string> usual_missing_words();

// Returns what each column is, in the table's order. Columns that tell nothing, or in which nearly
// every row differs, are ignored, and their notes say why. Throws InputError with the file for a
// target that is not in the table, with the nearest names; and for a column of numbers with units
// or separators. Throws OptionError ("columns") for a name or pattern that no column has, and for
// several columns of weights.
std::vector<ColumnSummary> understand_columns(const RawTable& table, const TableRequest& request);

// Returns whether a name or pattern in TableRequest::columns matches the name of a column.
bool matches_column(const std::string& pattern, const std::string& name);

// Returns the index of the column that `name` names: by its name, or by its index.
int64_t find_column(const RawTable& table, const std::string& name);

// Returns a cell of a date column as seconds since 1970; nan for a cell that is no date.
double date_in_cell(const RawColumn& column, int64_t row, DateForm form, DateOrder order);

// Returns the kind of task for this target: values if it has numbers that are not a few integers,
// otherwise classes.
Task task_for(const RawColumn& target, const MissingCells& missing);
// Returns the kind of task for several targets: classes if each has two different words or
// integers, and values if all are numbers. Otherwise throws OptionError ("target"), which names the
// targets that do not fit.
Task task_for_several(const RawTable& table, const std::vector<const ColumnSummary*>& targets);

// Throws InputError "FILE:LINE: column 'NAME': WHAT".
[[noreturn]] void refuse_cell(const RawTable& table, int64_t row, const std::string& column,
                              const std::string& what);

}  // namespace taper::v0::data
