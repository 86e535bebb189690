#include "data/tables/text_words.h"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <set>
#include <string_view>

#include "framework/base/cancel.h"

namespace taper::v0::data {

// Calls f with each word of the text.
template <class F> static void each_word(std::string_view text, const F& f) {
  std::string word;
  const auto end_word = [&] {
    if (!word.empty()) f(word);
    word.clear();
  };
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    const bool is_letter = byte >= 0x80 || std::isalnum(byte) != 0;
    if (is_letter) word += byte < 0x80 ? char(std::tolower(byte)) : c;
    if (!is_letter) end_word();
  }
  end_word();
}

static std::string text_in_cell(const CellReader& cells, int64_t row) {
  return cells.is_missing(row) ? "" : cells.column().text(row);
}

std::vector<std::string> frequent_words(const CellReader& cells, std::span<const int64_t> rows,
                                        int64_t most) {
  std::unordered_map<std::string, int64_t> rows_with;
  for (const int64_t row : rows) {
    check_stop();
    std::set<std::string> words;
    each_word(text_in_cell(cells, row), [&](const std::string& word) { words.insert(word); });
    for (const std::string& word : words) ++rows_with[word];
  }
  std::vector<std::pair<int64_t, std::string>> found;
  for (const auto& [word, count] : rows_with) {
    if (count >= 2) found.emplace_back(-count, word);
  }
  std::ranges::sort(found);
  if (std::ssize(found) > most) found.resize(size_t(most));
  std::vector<std::string> out;
  for (const auto& [count, word] : found) out.push_back(word);
  return out;
}

WordCounter::WordCounter(const std::vector<std::string>& words) {
  for (const std::string& word : words) index_.emplace(word, index_.size());
}

void WordCounter::count(const CellReader& cells, int64_t row, float* out) const {
  std::fill_n(out, index_.size(), 0.0f);
  each_word(text_in_cell(cells, row), [&](const std::string& word) {
    const auto found = index_.find(word);
    if (found != index_.end()) ++out[found->second];
  });
  for (size_t i = 0; i < index_.size(); ++i) out[i] = std::log1p(out[i]);
}

}  // namespace taper::v0::data
