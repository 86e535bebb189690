// Tables in CSV files: numeric feature columns and one label column, and their standardisation.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

namespace taper::runner {

enum class Task { kClassification, kRegression };  // labels are classes, or numbers to predict

struct CsvOptions {
  // kAuto: the first row is a header if it has words, and no numbers, in the columns where the
  // second row has numbers.
  enum class Header { kAuto, kPresent, kAbsent };

  std::string label = "-1";  // the label column: a header name or an index; -1 is the last
  Header header = Header::kAuto;
  std::string delimiter = ",";  // one character
  Task task = Task::kClassification;
};

struct CsvTable {
  bool has_header = false;
  std::vector<std::string> feature_names;  // (columns); "column 3" where there is no header
  std::string label_name;
  int64_t label_column = 0;  // in the file, from 0
  int64_t rows = 0;
  int64_t columns = 0;          // features, so one fewer than in the file
  std::vector<float> features;  // (rows, columns) row by row

  // Classification: the class names, sorted (by value if all are integers, else by bytes), and an
  // index into them for each row. Both are empty for regression.
  std::vector<std::string> classes;
  std::vector<int64_t> labels;
  std::vector<float> targets;  // regression: (rows)
};

// Reads a CSV file: quoted fields with doubled quotes, CRLF, blank lines, a UTF-8 BOM and blanks
// around fields are understood; numbers do not depend on the locale.
// InputError, naming file and line: missing or empty file, not text, no rows, a ragged row, an
// empty field, text or nan or inf or too large a number in a number column, an unclosed quote, no
// such label column, no feature column, and with Header::kAuto a first row that has both
// numbers and text where the second row has numbers. ConfigError: an impossible delimiter.
CsvTable read_csv(const std::filesystem::path& file, const CsvOptions& options);

// Reads a further file of the same data, as a test set: label column, kind of label and class
// indices are those of `train` (options.label and options.task are not used).
// InputError: as read_csv; also other columns than in `train`, or a class that it does not have.
CsvTable read_csv_like(const CsvTable& train, const std::filesystem::path& file,
                       const CsvOptions& options);

// Mean and standard deviation (over N, not N - 1) of each column; a constant column has std 1.
struct Standardizer {
  std::vector<float> mean, std;  // (columns)
};

// Measures matrix (rows, columns), row-major, in double. ValueError: no rows, or a size that is
// no multiple of columns.
Standardizer fit_standardizer(std::span<const float> matrix, int64_t columns);

// matrix[i][j] = (matrix[i][j] - mean[j]) / std[j], in place. ValueError: other columns.
void standardize(std::span<float> matrix, const Standardizer& standardizer);

}  // namespace taper::runner
