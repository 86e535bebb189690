// One column of a table as it was read: each cell is a finite number or a word.
#pragma once

#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "framework/base/namespace.h"

namespace taper::v0::data {

// Distinct words, numbered in the order in which they are added. The views stay valid as long as
// the object, even if it is moved.
class WordList {
 public:
  // Returns the word's number, counted from 0. Adds the word if it is new. Throws InputError for
  // more than 4 billion words.
  int64_t add(std::string_view word) { return add(word, hash_of(word)); }
  int64_t add(std::string_view word, uint32_t hash);
  static uint32_t hash_of(std::string_view word);
  // Asks the processor to load what add() will need for a word of that hash.
  void prefetch(uint32_t hash) const {
    if (!slots_.empty()) __builtin_prefetch(&slots_[hash & (slots_.size() - 1)]);
  }
  // Returns the word's number, or -1 if it is not in the list.
  int64_t find(std::string_view word) const;
  const std::vector<std::string_view>& words() const { return words_; }

 private:
  struct Slot {
    uint32_t hash, number;
  };
  static constexpr uint32_t kFree = 0xFFFFFFFF;

  size_t slot_of(std::string_view word, uint32_t hash) const;
  void enlarge();
  std::string_view stored(std::string_view word);

  std::vector<std::string_view> words_;
  std::vector<Slot> slots_;  // open addressing; a power of two
  std::vector<std::unique_ptr<char[]>> blocks_;
  size_t block_size_ = 0, used_ = 0;  // of the last block
  int64_t empty_ = -1;                // the number of the empty word
};

// Allocates memory for cells. Large requests are served from blocks in huge pages if the system has
// them, which saves a fifth of the time for reading a large table.
class CellAllocator {
 public:
  // Returns uninitialized memory, which may outlive the allocator.
  std::shared_ptr<uint64_t[]> allocate(int64_t count);

 private:
  std::shared_ptr<char> block_;
  size_t used_ = 0;
};

// A cell takes 8 bytes: a finite double, or a NaN whose payload is the number of a word. An empty
// cell is the empty word.
class RawColumn {
 public:
  std::string name;  // from the header, or "column 3", counted from 0

  int64_t size() const { return size_; }
  bool is_number(int64_t row) const { return is_number_cell(cell(row)); }
  // Returns NaN for a word.
  double number(int64_t row) const {
    const uint64_t bits = cell(row);
    return is_number_cell(bits) ? std::bit_cast<double>(bits)
                                : std::numeric_limits<double>::quiet_NaN();
  }
  // Returns the index in words(), or -1 for a number.
  int64_t word(int64_t row) const {
    const uint64_t bits = cell(row);
    return is_number_cell(bits) ? -1 : int64_t(bits & ~kWord);
  }
  // Returns the distinct words in the order of their first occurrence.
  const std::vector<std::string_view>& words() const { return words_.words(); }
  // Returns the word's index, or -1 if no cell has the word.
  int64_t find_word(std::string_view word) const { return words_.find(word); }
  // Returns the cell as text. A number has its shortest spelling ("1.50" in the file is "1.5"),
  // unless the column was read as text.
  std::string text(int64_t row) const;

  void add_number(double finite) { put(size_++, std::bit_cast<uint64_t>(finite)); }
  void add_word(std::string_view word) { put(size_++, word_cell(word)); }
  void add_words(std::string_view word, int64_t count);

  // These functions are for the scanner, which writes cells by row. The cell of a row is
  // chunk(row)[row % kChunk]. Cells count as part of the column once set_size() includes them.
  static constexpr int64_t kChunk = 8192;
  // Reserves memory for the row, and returns the first row that has no memory yet.
  int64_t reserve(int64_t row, CellAllocator* cells = nullptr);
  uint64_t* chunk(int64_t row) { return chunks_[size_t(row / kChunk)].get(); }
  uint64_t word_cell(std::string_view word) { return cell_of_word(words_.add(word)); }
  uint64_t word_cell(std::string_view word, uint32_t hash) {
    return cell_of_word(words_.add(word, hash));
  }
  const WordList& word_list() const { return words_; }
  static uint64_t cell_of_word(int64_t index) { return kWord | uint64_t(index); }
  void set_size(int64_t size) { size_ = size; }

 private:
  // The bits of a quiet NaN, which no finite number has.
  static constexpr uint64_t kWord = 0x7FF8000000000000;
  static bool is_number_cell(uint64_t bits) { return (bits & kWord) != kWord; }
  uint64_t cell(int64_t row) const { return chunks_[size_t(row / kChunk)][size_t(row % kChunk)]; }
  void put(int64_t row, uint64_t bits) {
    if (row >= room_) reserve(row);
    chunk(row)[row % kChunk] = bits;
  }

  // All chunks have kChunk cells, except that the first one is shorter in a short table.
  std::vector<std::shared_ptr<uint64_t[]>> chunks_;
  int64_t size_ = 0, room_ = 0;
  WordList words_;
};

}  // namespace taper::v0::data
