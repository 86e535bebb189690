// The division of a table's rows into training, validation and test parts.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "data/tables/columns.h"
#include "data/tables/raw_table.h"
#include "framework/base/describe.h"
#include "framework/base/text_enum.h"

namespace taper::v0::data {

// How rows are divided.
//
//   kStratify   at random, with the same share of every class in each part
//   kRandom     at random
//   kGroup      whole groups at random: rows with the same word in `column`
//   kTime       by the dates or numbers in `column`: the earliest for training, the latest for
//               the test
//   kColumn     by the words train, validation (or val, valid) and test in `column`
struct TableSplit {
  // The form of a part in configs, which the runner recognizes as that of a path.
  static constexpr const char* kPartForm = "a number of at least 0 and below 1, or a path";

  struct ByValues {
    enum class Value : uint8_t { kStratify, kRandom, kGroup, kTime, kColumn };
    static constexpr Value kStratify = Value::kStratify, kRandom = Value::kRandom,
                           kGroup = Value::kGroup, kTime = Value::kTime, kColumn = Value::kColumn;
    static constexpr const char* kOption = "by";
    static constexpr const char* kWords[] = {"stratify", "random", "group", "time", "column"};
  };
  using By = TextEnum<ByValues>;

  // Fractions of the rows as "0.1", or paths of files. Not given: 0.1 and 0.2 of more than 200
  // rows, otherwise nothing and 0.2.
  std::optional<std::string> validation{}, test{};
  By by = By::kStratify;
  std::string column{};
  int64_t folds = 0, fold = 0;  // folds > 0: the test part is fold number `fold`
  uint64_t seed = 0;

  template <class V> void describe(V& v) {
    v("validation", validation,
      "fraction of the rows that chooses the weights to save, or a file; default: 0.1 of more than "
      "200 rows, otherwise 0")
        .of_form(kPartForm, is_part);
    v("test", test, "fraction of the rows for the test, or a file; default: 0.2")
        .of_form(kPartForm, is_part);
    v("by", by,
      "stratify: at random, with the same share of every class; group: rows with the same word in "
      "`column` stay together; time: the latest rows of `column` are the test; column: `column` "
      "says train, validation or test");
    v("column", column, "column for group, time and column");
    v("folds", folds, {0, 1000}, "divide into this many folds, of which one is the test; 0: none");
    v("fold", fold, {0, 999}, "number of the fold that is the test, from 0");
    v("seed", seed, "seed of the random division; independent of the run's seed");
  }
  template <class V> void rules(V& v) {
    v("column", "names the column for group, time and column",
      [this] { return column.empty() == (by == By::kStratify || by == By::kRandom); });
    v("fold", "must be below folds", [this] { return folds == 0 ? fold == 0 : fold < folds; });
    v("folds", "is at least 2, and only for stratify, random and group", [this] {
      return folds == 0 || (folds >= 2 && by != By::kTime && by != By::kColumn && !test);
    });
  }

  // Returns whether a part is given as a fraction, and the fraction.
  static std::optional<double> fraction_of(const std::string& text);
  static bool is_part(const std::string& text);
};

struct RowParts {
  std::vector<int64_t> train, validation, test;
  std::string how;  // "stratified by survived, seed 0"
};

// Divides these rows of the table. With kStratify, `classes` has the class of each of the rows; if
// it is empty, the division is random. Throws OptionError ("split") for parts without rows, and for
// a column that does not fit.
RowParts split_rows(const RawTable& table, const std::vector<int64_t>& rows,
                    const std::vector<int64_t>& classes, const std::string& target,
                    const TableSplit& split);

}  // namespace taper::v0::data
