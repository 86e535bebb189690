// Byte-pair encoding as in GPT-2 (https://github.com/openai/gpt-2/blob/master/src/encoder.py):
// words of text, and merges of pairs of tokens. Not a public header.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "data/tokenizers/vocabulary.h"

namespace taper::v0::data {

using Token = uint32_t;

// Returns the length of the first word of a text that is not empty, according to GPT-2's regular
// expression
//
//   's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
//
// The last two alternatives match all blanks before a word except the last one.
size_t gpt2_word_length(std::string_view text);

// Returns a position in [from, text.size()] at which a text may be cut without changing the words
// on either side, the first one that is easily found.
size_t safe_cut(std::string_view text, size_t from);

// What pairs of tokens become. A hash table with open addressing, because it is read for each pair
// of each word.
class MergeTable {
 public:
  struct Merge {
    uint32_t rank = kNone, id = 0;  // pairs of lower rank are merged first
    bool exists() const { return rank != kNone; }
  };
  static constexpr uint32_t kNone = 0xFFFFFFFF;

  // Returns false if the pair is in the table.
  bool add(Token left, Token right, Merge merge);
  Merge find(Token left, Token right) const;
  int64_t size() const { return size_; }

 private:
  struct Slot {
    uint64_t key = 0;
    Merge merge{};
  };
  size_t slot_of(uint64_t key) const;

  std::vector<Slot> slots_;  // a power of two; free if the merge does not exist
  int64_t size_ = 0;
};

// Merges pairs in place until none is left, the pairs of the lowest rank first, and equal ones from
// the left. Takes time n log n for n tokens. Calls check_stop().
void merge_pairs(const MergeTable& merges, std::vector<Token>& tokens);

// The tokens of words that occurred before, of which a text has few. It remembers a limited number
// of them.
class WordCache {
 public:
  // Returns the tokens of a word, or an empty span if it is not known. The span is valid until the
  // next add().
  std::span<const Token> find(std::string_view word, uint64_t hash) const;
  void add(std::string_view word, uint64_t hash, std::span<const Token> tokens);
  static uint64_t hash_of(std::string_view word);

 private:
  static constexpr size_t kMostWords = 1 << 18, kLongest = 48;
  struct Slot {
    uint64_t hash;
    uint32_t at, first;  // in bytes_ and tokens_
    uint16_t length, count = 0;
  };

  std::vector<Slot> slots_;
  size_t used_ = 0;
  std::string bytes_;
  std::vector<Token> tokens_;
};

// Counts GPT-2's words in texts and chooses merges for them.
class BpeTrainer {
 public:
  // Counts the words of a text. Words of more than 64 bytes, and new ones after four million
  // different ones, are not counted.
  void add(std::string_view text);

  // Returns at most `most` merges by rank. Tokens 0 to 255 are the bytes, and each merge makes the
  // next one. In each step the most frequent pair is merged, and of equally frequent ones the one
  // with the lowest tokens. Stops when no pair occurs twice.
  std::vector<std::pair<int64_t, int64_t>> merges(int64_t most) const;

 private:
  TextCounts words_;
};

}  // namespace taper::v0::data
