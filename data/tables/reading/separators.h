// Finds the delimiters and line ends in a text. Not a public header.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#ifdef __SSE2__
#include <emmintrin.h>
#endif

#include "framework/base/namespace.h"

namespace taper::v0::data::reading {

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

  void load() {
#ifdef __SSE2__
    mask_ = load_part(0) | load_part(1) << 16 | load_part(2) << 32 | load_part(3) << 48;
#else
    mask_ = 0;
    for (int i = 0; i < kBlock; ++i) {
      const char c = block_[i];
      const bool is_one = c == delimiter_ || c == other_ || c == '\n' || c == '\r';
      mask_ |= uint64_t(is_one) << i;
    }
#endif
  }
#ifdef __SSE2__
  uint64_t load_part(int part) const {
    const __m128i text = _mm_loadu_si128(reinterpret_cast<const __m128i*>(block_) + part);
    const __m128i cells = _mm_or_si128(_mm_cmpeq_epi8(text, _mm_set1_epi8(delimiter_)),
                                       _mm_cmpeq_epi8(text, _mm_set1_epi8(other_)));
    const __m128i lines = _mm_or_si128(_mm_cmpeq_epi8(text, _mm_set1_epi8('\n')),
                                       _mm_cmpeq_epi8(text, _mm_set1_epi8('\r')));
    return uint64_t(unsigned(_mm_movemask_epi8(_mm_or_si128(cells, lines))));
  }
#endif

  const char* block_;
  const char* end_;
  char delimiter_, other_;
  uint64_t mask_ = 0;  // bit i: block_[i] is a separator that next() did not return
};

}  // namespace taper::v0::data::reading
