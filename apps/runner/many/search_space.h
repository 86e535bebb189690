// The settings that a sweep tries: ranges and lists of choices, from which each trial draws.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "framework/base/namespace.h"

namespace taper::v0::runner {

// A setting and its values. The text after '=' is one of
//
//   1e-4..1e-2         a number between the two
//   1e-4..1e-2:log     the same, with equal probability for each power of ten
//   8..64              an integer, because both ends are integers; also with :log
//   [64]|[128,64]|...  one of these YAML values
struct SearchDimension {
  std::string key;
  std::vector<std::string> choices{};  // empty: a range
  double low = 0, high = 0;
  bool is_log = false, is_integer = false;

  // Returns the value for a number u in [0, 1). Numbers are rounded to four significant digits, so
  // that no digit is lost when they are printed.
  std::string value_at(double u) const;
};

class SearchSpace {
 public:
  // Parses words such as "optimizer.lr=1e-4..1e-2:log". Words without a range and without choices
  // are settings of all trials. Throws ConfigError for a malformed range, for a key that is
  // searched and given again, and if no word searches.
  explicit SearchSpace(const std::vector<std::string>& words);

  const std::vector<SearchDimension>& dimensions() const { return dimensions_; }
  const std::vector<std::string>& fixed() const { return fixed_; }
  // Returns the words that search, separated by blanks.
  const std::string& text() const { return text_; }

  // Returns the settings of the first `count` trials, no two of which are equal. Fewer if there are
  // not as many combinations of choices. A trial's settings depend only on the seed and its number.
  std::vector<std::vector<std::string>> draw(int64_t count, uint64_t seed) const;

 private:
  // Throws ConfigError if a key is searched and given again.
  void require_single_keys() const;
  // Returns the number of combinations; at most `most` if there are more or infinitely many.
  int64_t combinations(int64_t most) const;

  std::vector<SearchDimension> dimensions_;
  std::vector<std::string> fixed_;
  std::string text_;
};

}  // namespace taper::v0::runner
