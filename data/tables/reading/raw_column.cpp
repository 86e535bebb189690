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
    const std::string_view other = words_[slot.number];
    const bool is_found =
        other.size() == word.size() && are_equal(other.data(), word.data(), word.size());
    if (is_found) return at;
  }
}

int64_t WordList::find(std::string_view word) const {
  if (word.empty()) return empty_;
  if (slots_.empty()) return -1;
  const Slot& slot = slots_[slot_of(word, hash_of(word))];
  return slot.number == kFree ? -1 : int64_t(slot.number);
}

int64_t WordList::add(std::string_view word, uint32_t hash) {
  if (word.empty()) {
    if (empty_ < 0) {
      empty_ = std::ssize(words_);
      words_.emplace_back("");
    }
    return empty_;
  }
  if (2 * words_.size() >= slots_.size()) enlarge();
  Slot& slot = slots_[slot_of(word, hash)];
  if (slot.number != kFree) return int64_t(slot.number);
  require<InputError>(words_.size() < kFree - 1, "a column has more than ", kFree - 2,
                      " different words");
  slot = {hash, uint32_t(words_.size())};
  words_.push_back(stored(word));
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

std::string_view WordList::stored(std::string_view word) {
  if (used_ + word.size() > block_size_) {
    // Small columns get small blocks, for a table may have very many.
    block_size_ = std::max(std::clamp(2 * block_size_, kFirstBlock, kLargestBlock), word.size());
    blocks_.push_back(std::make_unique_for_overwrite<char[]>(block_size_));
    used_ = 0;
  }
  char* to = blocks_.back().get() + used_;
  used_ += word.size();
  std::memcpy(to, word.data(), word.size());
  return {to, word.size()};
}

std::string RawColumn::text(int64_t row) const {
  const int64_t index = word(row);
  return index < 0 ? concat_to_string(number(row)) : std::string(words()[size_t(index)]);
}

void RawColumn::add_words(std::string_view word, int64_t count) {
  for (int64_t i = 0; i < count; ++i) add_word(word);
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
