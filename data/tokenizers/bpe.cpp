#include "data/tokenizers/bpe.h"

#include <algorithm>
#include <cstring>
#include <functional>
#include <optional>
#include <queue>
#include <tuple>

#include "data/tokenizers/words.h"
#include "framework/base/cancel.h"
#include "framework/io/text_utils.h"

namespace taper::v0::data {
namespace {

using namespace detail;

// The number of bytes or tokens of work between two calls of check_stop().
constexpr size_t kStopEvery = 1 << 16;

CharClass class_at(std::string_view text, size_t at) {
  const auto byte = static_cast<unsigned char>(text[at]);
  return class_of(byte < 0x80 ? byte : first_code_point(text.substr(at)).value);
}

// Returns the end of the run of characters of that class that starts at `at`.
size_t end_of_run(std::string_view text, size_t at, CharClass one) {
  size_t next_stop = at + kStopEvery;
  while (at < text.size()) {
    const auto byte = static_cast<unsigned char>(text[at]);
    const CodePoint c = byte < 0x80 ? CodePoint{byte, 1} : first_code_point(text.substr(at));
    if (class_of(c.value) != one) break;
    at += c.length;
    if (at < next_stop) continue;
    check_stop();
    next_stop = at + kStopEvery;
  }
  return at;
}

// Returns the length of 's, 't, 're, 've, 'm, 'll or 'd at the beginning of a text; otherwise 0.
size_t contraction_length(std::string_view text) {
  if (text.size() < 2 || text[0] != '\'') return 0;
  if (std::string_view("stmd").find(text[1]) != std::string_view::npos) return 2;
  const std::string_view two = text.substr(1, 2);
  return two == "re" || two == "ve" || two == "ll" ? 3 : 0;
}

uint64_t key_of(Token left, Token right) { return uint64_t(left) << 32 | right; }

uint64_t mixed(uint64_t x) {
  x *= 0x9E3779B97F4A7C15;
  return x ^ x >> 32;
}

// Merges the pairs of a short word, by looking at all pairs for each merge.
void merge_short(const MergeTable& merges, std::vector<Token>& tokens) {
  while (true) {
    MergeTable::Merge best;
    size_t first = 0;
    for (size_t i = 0; i + 1 < tokens.size(); ++i) {
      const MergeTable::Merge found = merges.find(tokens[i], tokens[i + 1]);
      if (found.rank >= best.rank) continue;
      best = found;
      first = i;
    }
    if (!best.exists()) return;
    const Token left = tokens[first], right = tokens[first + 1];
    size_t end = first;
    for (size_t i = first; i < tokens.size(); ++i) {
      const bool is_pair = i + 1 < tokens.size() && tokens[i] == left && tokens[i + 1] == right;
      tokens[end++] = is_pair ? best.id : tokens[i];
      i += is_pair;
    }
    tokens.resize(end);
  }
}

// Merges the pairs of a long word. The tokens are a doubly linked list, and the pairs wait in a
// queue by rank and position.
class LongMerge {
 public:
  LongMerge(const MergeTable& merges, std::vector<Token>& tokens)
      : merges_(merges), tokens_(tokens), next_(tokens.size()), before_(tokens.size()) {
    for (size_t i = 0; i < tokens.size(); ++i) {
      next_[i] = uint32_t(i + 1);
      before_[i] = uint32_t(i) - 1;  // of the first: kNoPlace
      add(uint32_t(i));
    }
    take_new();
  }

  void run() {
    while (!queue_.empty()) {
      // All pairs of a rank are merged before the pairs that arise from them.
      const uint32_t rank = std::get<0>(queue_.top());
      while (!queue_.empty() && std::get<0>(queue_.top()) == rank) {
        const auto [ignored, at, left, right] = queue_.top();
        queue_.pop();
        if (is_valid(at, left, right)) merge(at);
      }
      take_new();
    }
    size_t end = 0;
    for (uint32_t at = 0; at < next_.size(); at = next_[at]) tokens_[end++] = tokens_[at];
    tokens_.resize(end);
  }

 private:
  using Pair = std::tuple<uint32_t, uint32_t, Token, Token>;  // rank, position, both tokens
  static constexpr uint32_t kNoPlace = 0xFFFFFFFF;

  void add(uint32_t at) {
    if (at == kNoPlace || next_[at] >= next_.size()) return;
    const Token left = tokens_[at], right = tokens_[next_[at]];
    const MergeTable::Merge found = merges_.find(left, right);
    if (found.exists()) new_.emplace_back(found.rank, at, left, right);
  }
  void take_new() {
    for (const Pair& pair : new_) queue_.push(pair);
    new_.clear();
  }
  // Returns whether the pair is still there. A token that was merged into the one before it has no
  // place in the list; its next place is 0.
  bool is_valid(uint32_t at, Token left, Token right) const {
    return next_[at] != 0 && next_[at] < next_.size() && tokens_[at] == left &&
           tokens_[next_[at]] == right;
  }
  void merge(uint32_t at) {
    if (++merged_ % kStopEvery == 0) check_stop();
    const uint32_t right = next_[at], after = next_[right];
    tokens_[at] = merges_.find(tokens_[at], tokens_[right]).id;
    next_[at] = after;
    next_[right] = 0;
    if (after < next_.size()) before_[after] = at;
    add(before_[at]);
    add(at);
  }

  const MergeTable& merges_;
  std::vector<Token>& tokens_;
  std::vector<uint32_t> next_, before_;
  std::priority_queue<Pair, std::vector<Pair>, std::greater<>> queue_;
  std::vector<Pair> new_;
  size_t merged_ = 0;
};

}  // namespace

size_t gpt2_word_length(std::string_view text) {
  if (const size_t length = contraction_length(text); length > 0) return length;
  const size_t start = text[0] == ' ' && text.size() > 1 ? 1 : 0;
  const CharClass one = class_at(text, start);
  if (one != CharClass::kSpace) return end_of_run(text, start, one);
  const size_t end = end_of_run(text, 0, CharClass::kSpace);
  if (end == text.size()) return end;
  size_t last = end - 1;
  while (is_continuation(text[last])) --last;
  return last > 0 ? last : end;
}

// No word continues from a character that is not a space to one that is.
size_t safe_cut(std::string_view text, size_t from) {
  for (size_t at = std::max<size_t>(from, 1); at < text.size(); ++at) {
    if (text[at] != ' ' && text[at] != '\n') continue;
    size_t before = at - 1;
    while (before > 0 && is_continuation(text[before])) --before;
    if (class_at(text.substr(0, at), before) != CharClass::kSpace) return at;
  }
  return text.size();
}

size_t MergeTable::slot_of(uint64_t key) const {
  const size_t mask = slots_.size() - 1;
  size_t at = mixed(key) & mask;
  while (slots_[at].merge.exists() && slots_[at].key != key) at = (at + 1) & mask;
  return at;
}

bool MergeTable::add(Token left, Token right, Merge merge) {
  if (2 * (size_ + 1) > std::ssize(slots_)) {
    const std::vector<Slot> old =
        std::exchange(slots_, std::vector<Slot>(std::max<size_t>(64, 2 * slots_.size())));
    for (const Slot& slot : old) {
      if (slot.merge.exists()) slots_[slot_of(slot.key)] = slot;
    }
  }
  Slot& slot = slots_[slot_of(key_of(left, right))];
  if (slot.merge.exists()) return false;
  slot = {key_of(left, right), merge};
  ++size_;
  return true;
}

MergeTable::Merge MergeTable::find(Token left, Token right) const {
  return slots_.empty() ? Merge() : slots_[slot_of(key_of(left, right))].merge;
}

void merge_pairs(const MergeTable& merges, std::vector<Token>& tokens) {
  constexpr size_t kShort = 64;
  if (tokens.size() <= kShort) return merge_short(merges, tokens);
  LongMerge(merges, tokens).run();
}

uint64_t WordCache::hash_of(std::string_view word) {
  uint64_t out = word.size();
  while (word.size() >= 8) {
    uint64_t part = 0;
    std::memcpy(&part, word.data(), 8);
    out = mixed(out ^ part);
    word.remove_prefix(8);
  }
  uint64_t rest = 0;
  std::memcpy(&rest, word.data(), word.size());
  return mixed(out ^ rest);
}

std::span<const Token> WordCache::find(std::string_view word, uint64_t hash) const {
  if (slots_.empty()) return {};
  for (size_t at = hash & (slots_.size() - 1);; at = (at + 1) & (slots_.size() - 1)) {
    const Slot& slot = slots_[at];
    if (slot.count == 0) return {};
    if (slot.hash != hash || slot.length != word.size()) continue;
    if (std::memcmp(bytes_.data() + slot.at, word.data(), word.size()) != 0) continue;
    return std::span(tokens_).subspan(slot.first, slot.count);
  }
}

void WordCache::add(std::string_view word, uint64_t hash, std::span<const Token> tokens) {
  if (used_ >= kMostWords || word.size() > kLongest) return;
  if (2 * (used_ + 1) > slots_.size()) {
    const std::vector<Slot> old =
        std::exchange(slots_, std::vector<Slot>(std::max<size_t>(1024, 2 * slots_.size())));
    for (const Slot& slot : old) {
      if (slot.count == 0) continue;
      size_t at = slot.hash & (slots_.size() - 1);
      while (slots_[at].count > 0) at = (at + 1) & (slots_.size() - 1);
      slots_[at] = slot;
    }
  }
  size_t at = hash & (slots_.size() - 1);
  while (slots_[at].count > 0) at = (at + 1) & (slots_.size() - 1);
  slots_[at] = {hash, uint32_t(bytes_.size()), uint32_t(tokens_.size()), uint16_t(word.size()),
                uint16_t(tokens.size())};
  bytes_ += word;
  tokens_.insert(tokens_.end(), tokens.begin(), tokens.end());
  ++used_;
}

// --- training ---

void BpeTrainer::add(std::string_view text) {
  constexpr size_t kLongest = 64, kMostWords = 4'000'000;
  for (size_t next_stop = text.size(); !text.empty();) {
    if (text.size() <= next_stop) {
      check_stop();
      next_stop = text.size() > kStopEvery ? text.size() - kStopEvery : 0;
    }
    const std::string_view word = text.substr(0, gpt2_word_length(text));
    text.remove_prefix(word.size());
    const bool has_room = words_.size() < kMostWords || words_.contains(word);
    if (word.size() <= kLongest && has_room) count_text(words_, word);
  }
}

namespace {

// The pairs of tokens in words, with their counts.
class PairCounts {
 public:
  explicit PairCounts(const TextCounts& words) {
    // In a fixed order, so that equal inputs give equal merges.
    std::vector<std::pair<std::string_view, int64_t>> sorted(words.begin(), words.end());
    std::ranges::sort(sorted);
    for (const auto& [text, count] : sorted) {
      std::vector<Token> tokens;
      for (const char c : text) tokens.push_back(static_cast<unsigned char>(c));
      words_.push_back({std::move(tokens), count});
    }
    for (size_t w = 0; w < words_.size(); ++w) change_pairs(w, 1, kNoToken);
    for (const auto& [key, pair] : pairs_) queue_.emplace(pair.count, ~key);
  }

  // Returns the next pair to merge, or std::nullopt if none occurs twice.
  std::optional<uint64_t> best() {
    while (!queue_.empty()) {
      const auto [count, inverted] = queue_.top();
      const int64_t now = pairs_[~inverted].count;
      if (now == count) return count >= 2 ? std::optional(~inverted) : std::nullopt;
      queue_.pop();  // the count has changed since it was queued
      if (now > 0) queue_.emplace(now, inverted);
    }
    return std::nullopt;
  }

  void merge(uint64_t key, Token id) {
    const auto left = Token(key >> 32), right = Token(key);
    std::vector<uint32_t> words = std::move(pairs_[key].words);
    std::ranges::sort(words);
    const auto repeated = std::ranges::unique(words);
    words.erase(repeated.begin(), repeated.end());
    for (const uint32_t w : words) {
      change_pairs(w, -1, id);
      std::vector<Token>& tokens = words_[w].tokens;
      size_t end = 0;
      for (size_t i = 0; i < tokens.size(); ++i) {
        const bool is_pair = i + 1 < tokens.size() && tokens[i] == left && tokens[i + 1] == right;
        tokens[end++] = is_pair ? id : tokens[i];
        i += is_pair;
      }
      tokens.resize(end);
      change_pairs(w, 1, id);
    }
    for (const uint64_t each : touched_) queue_.emplace(pairs_[each].count, ~each);
    touched_.clear();
    pairs_.erase(key);
  }

 private:
  struct Word {
    std::vector<Token> tokens;
    int64_t count;
  };
  struct Pair {
    int64_t count = 0;
    std::vector<uint32_t> words{};  // words that have or had the pair, perhaps repeated
  };

  static constexpr Token kNoToken = 0xFFFFFFFF;

  // Adds the pairs of a word to the counts, or removes them. Notes pairs of the token `fresh`.
  void change_pairs(size_t w, int sign, Token fresh) {
    const Word& word = words_[w];
    for (size_t i = 0; i + 1 < word.tokens.size(); ++i) {
      const uint64_t key = key_of(word.tokens[i], word.tokens[i + 1]);
      Pair& pair = pairs_[key];
      pair.count += sign * word.count;
      if (sign < 0) continue;
      if (pair.words.empty() || pair.words.back() != w) pair.words.push_back(uint32_t(w));
      if (word.tokens[i] == fresh || word.tokens[i + 1] == fresh) touched_.push_back(key);
    }
  }

  std::vector<Word> words_;
  std::unordered_map<uint64_t, Pair> pairs_;
  // Counts and inverted keys, so that the lowest of equally frequent pairs is on top.
  std::priority_queue<std::pair<int64_t, uint64_t>> queue_;
  std::vector<uint64_t> touched_;  // pairs that became more frequent
};

}  // namespace

std::vector<std::pair<int64_t, int64_t>> BpeTrainer::merges(int64_t most) const {
  constexpr Token kBytes = 256;
  PairCounts pairs(words_);
  std::vector<std::pair<int64_t, int64_t>> out;
  while (std::ssize(out) < most) {
    check_stop();
    const std::optional<uint64_t> key = pairs.best();
    if (!key) break;
    pairs.merge(*key, kBytes + Token(out.size()));
    out.emplace_back(int64_t(*key >> 32), int64_t(uint32_t(*key)));
  }
  return out;
}

}  // namespace taper::v0::data
