#include "data/tables/reading/raw_column.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <new>
#include <utility>

#include <sys/mman.h>

#include "framework/base/error.h"

namespace taper::v0::data {
namespace {

constexpr size_t kFirstSlots = 16;
constexpr size_t kFirstBlock = 64, kLargestBlock = size_t(1) << 16;  // bytes

uint64_t load(const char* at, size_t size) {
  uint64_t out = 0;
  std::memcpy(&out, at, size);
  return out;
}

// Mixes two words by a 128-bit product, as wyhash does (https://github.com/wangyi-fudan/wyhash).
uint64_t mix(uint64_t a, uint64_t b) {
  const auto product = static_cast<unsigned __int128>(a) * b;
  return uint64_t(product) ^ uint64_t(product >> 64);
}

// Returns whether two words of one size are equal. Faster than std::memcmp() for short words.
bool are_equal(const char* a, const char* b, size_t size) {
  if (size >= 8) {
    for (size_t at = 0; at + 8 < size; at += 8) {
      if (load(a + at, 8) != load(b + at, 8)) return false;
    }
    return load(a + size - 8, 8) == load(b + size - 8, 8);
  }
  if (size >= 4) {
    return load(a, 4) == load(b, 4) && load(a + size - 4, 4) == load(b + size - 4, 4);
  }
  return a[0] == b[0] && a[size / 2] == b[size / 2] && a[size - 1] == b[size - 1];
}

}  // namespace

uint32_t WordList::hash_of(std::string_view word) {
  constexpr uint64_t kFirst = 0xA0761D6478BD642F, kSecond = 0xE7037ED1A0B428DB;
  const char* at = word.data();
  size_t left = word.size();
  uint64_t state = kFirst ^ left;
  for (; left > 8; left -= 8, at += 8) state = mix(state ^ load(at, 8), kSecond);
  if (word.size() >= 8) {
    state = mix(state ^ load(word.data() + word.size() - 8, 8), kFirst);
  } else if (left >= 4) {
    state = mix(state ^ load(at, 4) ^ load(at + left - 4, 4) << 32, kFirst);
  } else if (left > 0) {
    state = mix(state ^ load(at, 1) ^ load(at + left / 2, 1) << 8 ^ load(at + left - 1, 1) << 16,
                kFirst);
  }
  return uint32_t(state ^ state >> 32);
}

size_t WordList::slot_of(std::string_view word, uint32_t hash) const {
  const size_t mask = slots_.size() - 1;
  for (size_t at = hash & mask;; at = (at + 1) & mask) {
    const Slot& slot = slots_[at];
    if (slot.number == kFree) return at;
    if (slot.hash != hash) continue;
    const std::string_view other = (*this)[slot.number];
    const bool is_found =
        other.size() == word.size() && are_equal(other.data(), word.data(), word.size());
    if (is_found) return at;
  }
}

std::string_view WordList::operator[](int64_t number) const {
  const int64_t after = std::max<int64_t>(number - kDense, 0);
  const char* at = places_[size_t(std::min(number, kDense) + after / kGroup)];
  for (int64_t skipped = after % kGroup;; --skipped) {
    while (static_cast<unsigned char>(*at) == kNext) std::memcpy(&at, at + 1, sizeof at);
    size_t size = static_cast<unsigned char>(*at++);
    if (size == kLong) {
      uint32_t longer;
      std::memcpy(&longer, at, sizeof longer);
      size = longer;
      at += sizeof longer;
    }
    if (skipped == 0) return {at, size};
    at += size;
  }
}

int64_t WordList::find(std::string_view word) const {
  if (word.empty()) return empty_;
  if (is_sampled_) {
    for (int64_t i = 0; i < size_; ++i) {
      if ((*this)[i] == word) return i;
    }
    return -1;
  }
  if (slots_.empty()) return -1;
  const Slot& slot = slots_[slot_of(word, hash_of(word))];
  return slot.number == kFree ? -1 : int64_t(slot.number);
}

int64_t WordList::add(std::string_view word, uint32_t hash) {
  if (word.empty()) {
    if (empty_ < 0) {
      empty_ = size_;
      append("");
    }
    return empty_;
  }
  if (is_sampled_ && !is_in_sample(hash)) {
    append(word);
    return size_ - 1;
  }
  if (2 * size_t(slots_used_) >= slots_.size()) enlarge();
  Slot& slot = slots_[slot_of(word, hash)];
  ++sampled_;
  if (slot.number != kFree) {
    ++repeated_;
    return int64_t(slot.number);
  }
  slot = {hash, uint32_t(size_)};
  ++slots_used_;
  append(word);
  return int64_t(slot.number);
}

void WordList::enlarge() {
  std::vector<Slot> old = std::exchange(
      slots_, std::vector<Slot>(std::max(2 * slots_.size(), kFirstSlots), {0, kFree}));
  const size_t mask = slots_.size() - 1;
  for (const Slot& slot : old) {
    if (slot.number == kFree) continue;
    size_t at = slot.hash & mask;
    while (slots_[at].number != kFree) at = (at + 1) & mask;
    slots_[at] = slot;
  }
}

void WordList::stop_looking_up() {
  std::vector<Slot> old = std::exchange(slots_, {});
  std::erase_if(old, [](const Slot& s) { return s.number == kFree || !is_in_sample(s.hash); });
  slots_used_ = 0;
  for (const Slot& slot : old) {
    if (2 * size_t(slots_used_) >= slots_.size()) enlarge();
    slots_[slot_of((*this)[slot.number], slot.hash)] = slot;
    ++slots_used_;
  }
  is_sampled_ = true;
  sampled_ = repeated_ = 0;
}

double WordList::repeated_share() const {
  return sampled_ > 0 ? double(repeated_) / double(sampled_) : 0;
}

void WordList::append(std::string_view word) {
  require<InputError>(size_ < int64_t(kFree) - 1, "a column has more than ", kFree - 2,
                      " different words");
  const size_t needed = word.size() + kMostOverhead + kLink;
  if (used_ + needed > block_size_) {
    // Small columns get small blocks, for a table may have very many.
    const size_t size = std::max(std::clamp(2 * block_size_, kFirstBlock, kLargestBlock), needed);
    auto block = std::make_unique_for_overwrite<char[]>(size);
    if (!blocks_.empty()) {
      char* const end = blocks_.back().get() + used_;
      *end = char(kNext);
      const char* const next = block.get();
      std::memcpy(end + 1, &next, sizeof next);
    }
    blocks_.push_back(std::move(block));
    block_size_ = size;
    used_ = 0;
  }
  char* to = blocks_.back().get() + used_;
  if (size_ < kDense || size_ % kGroup == 0) places_.push_back(to);
  if (word.size() < kNext) {
    *to++ = char(word.size());
  } else {
    const auto size = uint32_t(word.size());
    *to++ = char(kLong);
    std::memcpy(to, &size, sizeof size);
    to += sizeof size;
  }
  std::memcpy(to, word.data(), word.size());
  used_ = size_t(to + word.size() - blocks_.back().get());
  ++size_;
}

std::string RawColumn::text(int64_t row) const {
  const int64_t index = word(row);
  return index < 0 ? concat_to_string(number(row)) : std::string(words_[index]);
}

void RawColumn::add_words(std::string_view word, int64_t count) {
  for (int64_t i = 0; i < count; ++i) add_word(word);
}

void RawColumn::stop_looking_up_if_unique(int64_t rows) {
  constexpr int64_t kMany = 1 << 16;
  const bool is_unique = words_.size() > kMany && 10 * words_.size() > 9 * rows;
  if (is_unique && words_.is_distinct()) words_.stop_looking_up();
}

void RawColumn::pack_chunk_before(int64_t row, CellAllocator& cells) {
  constexpr auto kCells = size_t(kChunk);
  if (row % kChunk != 0 || row == 0) return;
  const auto index = size_t(row / kChunk) - 1;
  const uint64_t* const from = chunks_[index].get();
  if (!from || is_number_cell(from[0])) return;
  const bool is_small = words_.size() <= 0x10000;
  if (is_small) {
    uint64_t common = from[0];
    for (size_t i = 0; i < kCells; ++i) common &= from[i];
    if (is_number_cell(common)) return;
  }
  for (size_t i = 1; i < kCells && !is_small; ++i) {
    if (from[i] != from[0] + i) return;
  }
  PackedChunk to{.first = from[0]};
  if (words_.size() <= 0x100) {
    to.bytes = std::make_shared_for_overwrite<uint8_t[]>(kCells);
    for (size_t i = 0; i < kCells; ++i) to.bytes[i] = uint8_t(from[i]);
  } else if (is_small) {
    to.pairs = std::make_shared_for_overwrite<uint16_t[]>(kCells);
    for (size_t i = 0; i < kCells; ++i) to.pairs[i] = uint16_t(from[i]);
  }
  packed_.resize(chunks_.size());
  packed_[index] = std::move(to);
  cells.recycle(std::exchange(chunks_[index], nullptr));
}

uint64_t* RawColumn::unpack(size_t index, CellAllocator& cells) {
  std::shared_ptr<uint64_t[]>& chunk = chunks_[index];
  if (!chunk) {
    chunk = cells.allocate(kChunk);
    for (size_t i = 0; i < size_t(kChunk); ++i) chunk[i] = packed_[index].cell(i);
    packed_[index] = {};
  }
  return chunk.get();
}

void RawColumn::finish() {
  constexpr double kFew = 0.1;
  if (words_.is_distinct() || words_.repeated_share() <= kFew) return;
  WordList distinct;
  std::vector<uint32_t> number;
  for (int64_t i = 0; i < words_.size(); ++i) number.push_back(uint32_t(distinct.add(words_[i])));
  CellAllocator cells;
  for (int64_t row = 0; row < size_; ++row) {
    const int64_t index = word(row);
    if (index < 0) continue;
    unpack(size_t(row / kChunk), cells)[row % kChunk] = cell_of_word(number[size_t(index)]);
  }
  words_ = std::move(distinct);
}

int64_t RawColumn::reserve(int64_t row, CellAllocator* cells) {
  constexpr int64_t kFirst = 16;
  CellAllocator own;
  CellAllocator& from = cells ? *cells : own;
  while (row >= room_) {
    if (room_ >= kChunk || room_ == 0) {
      const int64_t count = room_ == 0 ? kFirst : kChunk;
      chunks_.push_back(from.allocate(count));
      room_ += count;
      continue;
    }
    const int64_t count = std::min(4 * room_, kChunk);
    std::shared_ptr<uint64_t[]> longer = from.allocate(count);
    std::copy_n(chunks_[0].get(), room_, longer.get());
    chunks_[0] = std::move(longer);
    room_ = count;
  }
  return room_;
}

std::shared_ptr<uint64_t[]> CellAllocator::allocate(int64_t count) {
  constexpr size_t kBlock = size_t(2) << 20;  // the size of a huge page
  // Chunks of different columns begin in different sets of the processor's cache.
  constexpr size_t kStride = RawColumn::kChunk * sizeof(uint64_t) + 320;
  if (count < RawColumn::kChunk) {
    return std::shared_ptr<uint64_t[]>(new uint64_t[size_t(count)]);
  }
  if (!unused_.empty()) {
    std::shared_ptr<uint64_t[]> out = std::move(unused_.back());
    unused_.pop_back();
    return out;
  }
  if (!block_ || used_ + kStride > kBlock) {
    void* memory = std::aligned_alloc(kBlock, kBlock);
    if (!memory) throw std::bad_alloc();
    block_ = std::shared_ptr<char>(static_cast<char*>(memory), [](char* p) { std::free(p); });
    (void)::madvise(memory, kBlock, MADV_HUGEPAGE);  // which need not succeed
    used_ = 0;
  }
  auto* out = reinterpret_cast<uint64_t*>(block_.get() + used_);
  used_ += kStride;
  return {block_, out};
}

}  // namespace taper::v0::data
