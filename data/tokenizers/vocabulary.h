// Counts what occurs in training texts, to choose the tokens of a vocabulary. Not a public header.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "data/tokenizers/words.h"
#include "framework/base/namespace.h"

namespace taper::v0::data {

using TextCounts = std::unordered_map<std::string, int64_t, TextHash, std::equal_to<>>;

// Adds 1 to the count of a text.
void count_text(TextCounts& counts, std::string_view text);

// The characters that texts have.
class CharacterSet {
 public:
  CharacterSet() : is_member_(kCodePoints) {}
  // Throws ValueError for a text that is not UTF-8.
  void add(std::string_view text);
  // Returns the characters as UTF-8, by code point.
  std::vector<std::string> characters() const;

 private:
  static constexpr size_t kCodePoints = 0x110000;
  std::vector<bool> is_member_;
};

// Counts the words of texts (each_word()).
class WordCounts {
 public:
  void add(std::string_view text);

  // Returns the most frequent words, at most `most` and each at least twice, by descending
  // frequency and then by bytes.
  std::vector<std::string> most_frequent(int64_t most) const;
  int64_t distinct() const { return std::ssize(counts_); }
  int64_t total() const { return total_; }
  // Returns how often a word occurs.
  int64_t count(std::string_view word) const;

 private:
  TextCounts counts_;
  int64_t total_ = 0;
};

}  // namespace taper::v0::data
