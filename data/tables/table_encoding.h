// How the rows of a table become features and targets. Fitted on the training rows, and saved with
// a run, so that further files are treated in the same way.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "data/source.h"
#include "data/tables/columns.h"
#include "framework/tensor/tensor.h"

namespace taper::v0::data {

// How one column becomes features.
//
//   kNumber     the number, standardized; missing ones are replaced by the median, and if there
//   were
//               some in training, a second feature is 1 for them and 0 for others
//   kDate       year, month, day, weekday (0: Monday), hour, and days since the first date in
//               training, each standardized; with the same second feature
//   kText       for each of the most frequent words log(1 + its count)
//   kCategory   the index of the word: 0 for words that training did not have or had rarely, then 1
//   +
//               the index in `words`. A missing value is the word "".
struct FeatureColumn {
  std::string name;
  ColumnKind kind = ColumnKind::kNumber;
  MissingCells missing{};
  DateForm date_form = DateForm::kText;
  DateOrder date_order = DateOrder::kMonthFirst;
  double first_date = 0;  // seconds since 1970
  double fill = 0;        // for missing numbers
  bool has_gap_feature = false;
  std::vector<double> mean{}, std{};  // of each feature that is standardized
  std::vector<std::string> words{};

  // Returns the number of features that are real numbers: 0 for a category.
  int64_t real_features() const;
};

struct TargetColumn {
  std::string name;
  MissingCells missing{};
  std::vector<std::string> classes{};  // empty: values
  bool is_log = false;                 // values: the model predicts their logarithm
  double mean = 0, std = 1;            // values: the model's target is (y - mean) / std
};

struct TableEncoding {
  // --- the file ---
  std::string delimiter, decimal, encoding;  // as read_table() takes them
  int64_t skip = 0;
  bool has_header = true;
  std::vector<std::string> column_names{};  // of the training file

  std::vector<FeatureColumn> features{};
  std::string text{};  // the column of the texts whose tokens are the inputs; empty: features are
  std::vector<TargetColumn> targets{};
  std::vector<std::string> keep{};  // columns that predictions repeat
  std::string weight{};             // the column of the rows' weights; empty: none
  bool refuses_unknown = false;     // words that training did not have are an error

  // The first features are real numbers; the last ones are the indices of categories.
  int64_t real_features() const;
  // Returns the number of indices of each category, in the order of their features.
  std::vector<int64_t> category_sizes() const;
  int64_t width() const { return real_features() + std::ssize(category_sizes()); }
};

// Options of the fit.
struct EncodingOptions {
  int64_t rare = 5;          // words in fewer training rows share index 0
  int64_t text_words = 256;  // most words of a text column that become features
  bool standardize = true;
  bool has_missing_category = true;  // missing words are a category; otherwise they are unknown
};

// Fits the features of all columns that are numbers, categories, dates or text on these rows.
std::vector<FeatureColumn> fit_features(const RawTable& table,
                                        const std::vector<ColumnSummary>& columns,
                                        std::span<const int64_t> rows,
                                        const EncodingOptions& options);

// Returns the features of these rows, [n, width()] float32. Throws InputError with the place for a
// word where training had numbers or dates, and, if refuses_unknown, for an unknown word.
Tensor encode_features(const TableEncoding& encoding, const RawTable& table,
                       std::span<const int64_t> rows);
// Returns a further file's table with the columns of the encoding, found by name. A table without a
// header may lack the target columns; then the others are taken in their order. Throws InputError
// if a column of features is missing.
RawTable read_table_like(const TableEncoding& encoding, const std::filesystem::path& file,
                         bool needs_targets);

}  // namespace taper::v0::data
