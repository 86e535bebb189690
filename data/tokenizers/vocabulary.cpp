#include "data/tokenizers/vocabulary.h"

#include <algorithm>

#include <utf8proc.h>

#include "framework/base/cancel.h"
#include "framework/base/error.h"
#include "framework/io/text_utils.h"

namespace taper::v0::data {

void count_text(TextCounts& counts, std::string_view text) {
  const auto found = counts.find(text);
  if (found != counts.end()) {
    ++found->second;
  } else {
    counts.emplace(text, 1);
  }
}

void CharacterSet::add(std::string_view text) {
  for (size_t done = 0; !text.empty(); ++done) {
    if (done % 4096 == 0) check_stop();
    const detail::CodePoint c = detail::first_code_point(text);
    require<ValueError>(c.value != detail::CodePoint::kInvalid,
                        "the text is not UTF-8: take `tokenizer: bytes`");
    is_member_[c.value] = true;
    text.remove_prefix(c.length);
  }
}

std::vector<std::string> CharacterSet::characters() const {
  std::vector<std::string> out;
  for (size_t c = 0; c < kCodePoints; ++c) {
    if (!is_member_[c]) continue;
    utf8proc_uint8_t bytes[4];
    const auto length = utf8proc_encode_char(utf8proc_int32_t(c), bytes);
    out.emplace_back(reinterpret_cast<const char*>(bytes), size_t(length));
  }
  return out;
}

void WordCounts::add(std::string_view text) {
  check_stop();
  each_word(text, [&](std::string_view word) {
    count_text(counts_, word);
    ++total_;
  });
}

std::vector<std::string> WordCounts::most_frequent(int64_t most) const {
  std::vector<std::pair<int64_t, std::string_view>> found;
  for (const auto& [word, count] : counts_) {
    if (count >= 2) found.emplace_back(-count, word);
  }
  std::ranges::sort(found);
  if (std::ssize(found) > most) found.resize(size_t(most));
  std::vector<std::string> out;
  for (const auto& [count, word] : found) out.emplace_back(word);
  return out;
}

int64_t WordCounts::count(std::string_view word) const {
  const auto found = counts_.find(word);
  return found == counts_.end() ? 0 : found->second;
}

}  // namespace taper::v0::data
