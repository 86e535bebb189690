// Finds delimiters, line ends and quotes in a text. Not a public header.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#ifdef __SSE2__
#include <emmintrin.h>
#endif

#include "framework/base/namespace.h"

namespace taper::v0::data::reading {

// Returns a mask whose bit i is set if at[i] is one of the characters, for 64 characters.
template <class... Chars>
[[gnu::always_inline]] inline uint64_t find_in_block(const char* at, Chars... characters) {
#ifdef __SSE2__
  const auto find = [&](int part) {
    const __m128i text = _mm_loadu_si128(reinterpret_cast<const __m128i*>(at) + part);
    __m128i found = _mm_setzero_si128();
    ((found = _mm_or_si128(found, _mm_cmpeq_epi8(text, _mm_set1_epi8(characters)))), ...);
    return uint64_t(unsigned(_mm_movemask_epi8(found)));
  };
  return find(0) | find(1) << 16 | find(2) << 32 | find(3) << 48;
#else
  uint64_t out = 0;
  for (int i = 0; i < 64; ++i) out |= uint64_t(((at[i] == characters) || ...)) << i;
  return out;
#endif
}

// Finds separators 64 characters at a time. The start of the next cell is then known before the
// number in the current one is converted, so that the processor can work on several cells at once.
class Separators {
 public:
  // Finds `delimiter`, `other`, '\n' and '\r' between `at` and `end`. The 63 characters after `end`
  // must be readable, and none of them may be a separator.
  Separators(const char* at, const char* end, char delimiter, char other)
      : block_(at), end_(end), delimiter_(delimiter), other_(other) {
    if (at < end) load();
  }

  // Returns the next separator and steps over it. Returns nullptr at the end.
  const char* next() {
    while (mask_ == 0) {
      if (end_ - block_ <= kBlock) return nullptr;
      block_ += kBlock;
      load();
    }
    const char* const out = block_ + std::countr_zero(mask_);
    mask_ &= mask_ - 1;
    return out;
  }

  // Skips the separators before `at`. Those that next() returned do not come back.
  void skip_to(const char* at) {
    if (at <= block_) return;
    if (at - block_ < kBlock) {
      mask_ &= ~uint64_t(0) << (at - block_);
    } else {
      block_ = at;
      mask_ = 0;
      if (at < end_) load();
    }
  }

 private:
  static constexpr ptrdiff_t kBlock = 64;

  [[gnu::always_inline]] void load() {
    mask_ = find_in_block(block_, delimiter_, other_, '\n', '\r');
  }

  const char* block_;
  const char* end_;
  char delimiter_, other_;
  uint64_t mask_ = 0;  // bit i: block_[i] is a separator that next() did not return
};

}  // namespace taper::v0::data::reading
