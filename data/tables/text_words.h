// Columns of text as counts of their words. Not a public header.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "data/tables/columns.h"

namespace taper::v0::data {

// Returns the words that occur in most of the rows, at most `most` and each in at least two rows,
// by descending frequency and then by bytes. Words are runs of letters and digits in lower case;
// letters beyond ASCII remain as they are.
std::vector<std::string> frequent_words(const CellReader& cells, std::span<const int64_t> rows,
                                        int64_t most);

// Counts the words of a text.
class WordCounter {
 public:
  explicit WordCounter(const std::vector<std::string>& words);
  // Writes log(1 + count) for each of the words of a cell.
  void count(const CellReader& cells, int64_t row, float* out) const;

 private:
  std::unordered_map<std::string, size_t> index_;
};

}  // namespace taper::v0::data
