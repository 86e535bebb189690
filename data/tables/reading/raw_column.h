// One column of a table as it was read: each cell is a finite number or a word.
#pragma once

#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <limits>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "framework/base/namespace.h"

namespace taper::v0::data {

// Words, numbered in the order in which they are added. At first they are distinct. A column that
// is known to have a different word in nearly every row need not look each of them up: see
// stop_looking_up(). Views of words stay valid as long as the object, even if it is moved.
class WordList {
 public:
  // Returns the word's number, counted from 0. Adds the word if it is new. Throws InputError for
  // more than 4 billion words.
  int64_t add(std::string_view word) { return add(word, word.empty() ? 0 : hash_of(word)); }
  int64_t add(std::string_view word, uint32_t hash);
  static uint32_t hash_of(std::string_view word);
  // Asks the processor to load what add() will need for a word of that hash.
  void prefetch(uint32_t hash) const {
    if (!slots_.empty()) __builtin_prefetch(&slots_[hash & (slots_.size() - 1)]);
  }
  // Asks the processor to load the word that add() will compare with one of that hash.
  void prefetch_word(uint32_t hash) const {
    if (slots_.empty()) return;
    const Slot& slot = slots_[hash & (slots_.size() - 1)];
    if (slot.hash == hash && slot.number < kDense) __builtin_prefetch(places_[slot.number]);
  }
  // Returns the number of the first such word, or -1 if the list does not have it. Compares all
  // words if they are not distinct.
  int64_t find(std::string_view word) const;

  int64_t size() const { return size_; }
  std::string_view operator[](int64_t number) const;

  // From now on add() appends words without comparing them with others, so that the list may have
  // equal ones. Words whose hash is in a sample of 1/64 are still distinct.
  void stop_looking_up();
  bool is_distinct() const { return !is_sampled_; }
  // Returns the share of words of the sample that were added again, from 0 to 1, since
  // stop_looking_up().
  double repeated_share() const;

 private:
  struct Slot {
    uint32_t hash, number;
  };
  static constexpr uint32_t kFree = 0xFFFFFFFF;
  static constexpr int64_t kDense = 1 << 16, kGroup = 8;
  static bool is_in_sample(uint32_t hash) { return hash >> 26 == 0; }

  size_t slot_of(std::string_view word, uint32_t hash) const;
  void enlarge();
  void append(std::string_view word);

  // Words lie one after another in blocks, each after its length: a byte, or kLong and four bytes.
  // kNext precedes the address of the block in which the next word lies.
  static constexpr unsigned char kLong = 0xFF, kNext = 0xFE;
  static constexpr size_t kMostOverhead = 5, kLink = 1 + sizeof(char*);
  // Where the first kDense words lie, and after them every eighth word.
  std::vector<const char*> places_;
  int64_t size_ = 0;
  std::vector<std::unique_ptr<char[]>> blocks_;
  size_t block_size_ = 0, used_ = 0;  // of the last block

  std::vector<Slot> slots_;  // open addressing; a power of two
  int64_t slots_used_ = 0;
  int64_t empty_ = -1;  // the number of the empty word
  bool is_sampled_ = false;
  int64_t sampled_ = 0, repeated_ = 0;  // words of the sample that were added
};

// The words of a list in the order of their numbers. The list must outlive iterators, and must not
// be moved meanwhile.
class WordRange {
 public:
  class Iterator {
   public:
    using iterator_category = std::input_iterator_tag;
    using value_type = std::string_view;
    using difference_type = std::ptrdiff_t;
    using pointer = const std::string_view*;
    using reference = std::string_view;

    Iterator() = default;
    Iterator(const WordList& list, int64_t number) : list_(&list), number_(number) {}
    std::string_view operator*() const { return (*list_)[number_]; }
    Iterator& operator++() {
      ++number_;
      return *this;
    }
    Iterator operator++(int) {
      Iterator before = *this;
      ++number_;
      return before;
    }
    bool operator==(const Iterator& other) const { return number_ == other.number_; }

   private:
    const WordList* list_ = nullptr;
    int64_t number_ = 0;
  };

  explicit WordRange(const WordList& list) : list_(&list) {}
  size_t size() const { return size_t(list_->size()); }
  bool empty() const { return size() == 0; }
  std::string_view operator[](size_t number) const { return (*list_)[int64_t(number)]; }
  Iterator begin() const { return {*list_, 0}; }
  Iterator end() const { return {*list_, list_->size()}; }

 private:
  const WordList* list_;
};

// Allocates memory for cells. Large requests are served from blocks in huge pages if the system has
// them, which saves a fifth of the time for reading a large table.
class CellAllocator {
 public:
  // Returns uninitialized memory, which may outlive the allocator.
  std::shared_ptr<uint64_t[]> allocate(int64_t count);
  // Takes back a chunk of RawColumn::kChunk cells, which allocate() then returns again.
  void recycle(std::shared_ptr<uint64_t[]> chunk) { unused_.push_back(std::move(chunk)); }

 private:
  std::vector<std::shared_ptr<uint64_t[]>> unused_;
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
  // Returns the words in the order of their first occurrence. They are distinct, unless the column
  // has more than 65,536 words and a different one in nearly every row: then about a tenth of them
  // at most may be repeated, and rows with the same word may have different indices.
  WordRange words() const { return WordRange(words_); }
  bool has_distinct_words() const { return words_.is_distinct(); }
  // Returns the index of the first such word, or -1 if no cell has the word.
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
  // Stops looking up words if nearly every one of the first `rows` rows has a different one.
  void stop_looking_up_if_unique(int64_t rows);
  // Stores the chunk that ends before this row in less memory if all of its cells are words whose
  // numbers are below 65,536, or consecutive as those of identifiers are.
  void pack_chunk_before(int64_t row, CellAllocator& cells);
  // Makes the words distinct if more than a few are repeated. Call it after the last row.
  void finish();
  static uint64_t cell_of_word(int64_t index) { return kWord | uint64_t(index); }
  void set_size(int64_t size) { size_ = size; }

 private:
  // The bits of a quiet NaN, which no finite number has.
  static constexpr uint64_t kWord = 0x7FF8000000000000;
  static bool is_number_cell(uint64_t bits) { return (bits & kWord) != kWord; }
  uint64_t cell(int64_t row) const {
    const auto index = size_t(row / kChunk);
    const uint64_t* const chunk = chunks_[index].get();
    return chunk ? chunk[row % kChunk] : packed_[index].cell(size_t(row % kChunk));
  }
  // Returns writable cells of a chunk, which may be packed.
  uint64_t* unpack(size_t index, CellAllocator& cells);
  void put(int64_t row, uint64_t bits) {
    if (row >= room_) reserve(row);
    chunk(row)[row % kChunk] = bits;
  }

  // A chunk of words in one or two bytes a cell, or in none if their numbers are consecutive.
  struct PackedChunk {
    uint64_t first = 0;  // the first cell, if the numbers are consecutive
    std::shared_ptr<uint8_t[]> bytes{};
    std::shared_ptr<uint16_t[]> pairs{};

    uint64_t cell(size_t i) const {
      if (bytes) return kWord | bytes[std::ptrdiff_t(i)];
      return pairs ? kWord | pairs[std::ptrdiff_t(i)] : first + i;
    }
  };

  // All chunks have kChunk cells, except that the first one is shorter in a short table. Those that
  // are null are in packed_.
  std::vector<std::shared_ptr<uint64_t[]>> chunks_;
  std::vector<PackedChunk> packed_;
  int64_t size_ = 0, room_ = 0;
  WordList words_;
};

}  // namespace taper::v0::data
