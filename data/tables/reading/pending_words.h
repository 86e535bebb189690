// Words that wait for their place in a large list of words. Not a public header.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>

#include "data/tables/reading/raw_column.h"

namespace taper::v0::data::reading {

// Adds words to columns with many different words, several at a time. A place in such a list is
// rarely in the processor's cache. It is loaded while other cells are scanned, which halves the
// time that a column of names takes.
class PendingWords {
 public:
  // Smaller lists are in the cache, and gain nothing.
  static constexpr size_t kManyWords = 4096;

  // Longer words are not accepted.
  static constexpr size_t kLongest = 4096;

  // Takes a copy of the word. flush() writes its cell. Words are added in the order of the calls.
  void add(RawColumn& column, std::string_view word, uint64_t* cell) {
    if (word.size() > text_.size() - used_ || count_ == words_.size()) flush();
    const uint32_t hash = WordList::hash_of(word);
    column.word_list().prefetch(hash);
    char* const copy = text_.data() + used_;
    std::memcpy(copy, word.data(), word.size());
    used_ += word.size();
    words_[count_++] = {&column, {copy, word.size()}, cell, hash};
  }

  void flush() {
    for (size_t i = 0; i < count_; ++i) words_[i].column->word_list().prefetch_word(words_[i].hash);
    for (size_t i = 0; i < count_; ++i) {
      const Word& word = words_[i];
      *word.cell = word.column->word_cell(word.text, word.hash);
    }
    count_ = used_ = 0;
  }

 private:
  struct Word {
    RawColumn* column;
    std::string_view text;
    uint64_t* cell;
    uint32_t hash;
  };

  std::array<Word, 32> words_{};
  size_t count_ = 0;
  std::array<char, kLongest> text_{};
  size_t used_ = 0;
};

}  // namespace taper::v0::data::reading
