// The report of what was understood of a table, and warnings about it.
#pragma once

#include <string>
#include <vector>

#include "data/tables/columns.h"
#include "data/tables/table_encoding.h"
#include "data/tables/table_split.h"

namespace taper::v0::data {

// What the report describes.
struct TableView {
  const RawTable& table;
  const std::vector<ColumnSummary>& columns;
  const TableEncoding& encoding;
  const RowParts& parts;
  int64_t dropped = 0;  // rows without a target
};

// Returns lines such as
//
//   titanic.csv: 1,313 rows, 5 columns, read in 0.01 s
//     column    taken as           distinct  missing
//     name      ignored               1,310           nearly every row differs (...)
//     survived  target, 2 classes         2           0: 863, 1: 450
//   split: 919 training, 131 validation, 263 test, stratified by survived, seed 0
//
// A report on more than 40 columns counts the numeric ones in one line.
std::string report_of(const TableView& view);

// Returns one sentence for each of: a random division of rows that are in the order of a date, and
// a column that alone determines the target.
std::vector<std::string> warnings_about(const TableView& view, const TableSplit& split);

// Returns the number of characters of UTF-8 text, by which columns of a report are aligned.
size_t num_characters(const std::string& text);
// Returns a number with separators, "1,313".
std::string with_separators(int64_t number);

}  // namespace taper::v0::data
