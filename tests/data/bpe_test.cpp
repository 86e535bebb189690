// Byte-pair encoding: words, merges, and training.
#include "data/tokenizers/bpe.h"

#include <chrono>
#include <map>
#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "data/tokenizer.h"
#include "framework/io/text_utils.h"
#include "tests/data_files.h"

namespace taper::v0::data {
namespace {

using Merges = std::vector<std::pair<int64_t, int64_t>>;
using Ids = std::vector<int64_t>;

std::vector<std::string> gpt2_words(std::string_view text) {
  std::vector<std::string> out;
  while (!text.empty()) {
    const size_t length = gpt2_word_length(text);
    out.emplace_back(text.substr(0, length));
    text.remove_prefix(length);
  }
  return out;
}

// Text with runs of blanks, punctuation, contractions and letters beyond ASCII.
std::string random_text(std::mt19937& random, int pieces) {
  const char* const kPieces[] = {"a",  "the",      "'s",           "'ll", " ",  "  ",  "\n", "\t",
                                 "12", "\xc3\xa9", "\xe3\x80\x80", "?!",  "-",  "'",   "ab", "ba",
                                 "aa", "\xe6\x97", "\xc2\xa0",     ".",   " b", "\r\n"};
  std::string out;
  for (int i = 0; i < pieces; ++i) out += kPieces[random() % std::size(kPieces)];
  return out;
}

// The algorithm of GPT-2's encoder.py, word by word.
void merge_simply(const MergeTable& merges, std::vector<Token>& tokens) {
  while (true) {
    MergeTable::Merge best;
    std::pair<Token, Token> pair;
    for (size_t i = 0; i + 1 < tokens.size(); ++i) {
      const MergeTable::Merge found = merges.find(tokens[i], tokens[i + 1]);
      if (found.rank < best.rank) {
        best = found;
        pair = {tokens[i], tokens[i + 1]};
      }
    }
    if (!best.exists()) return;
    std::vector<Token> out;
    for (size_t i = 0; i < tokens.size(); ++i) {
      const bool is_pair =
          i + 1 < tokens.size() && tokens[i] == pair.first && tokens[i + 1] == pair.second;
      out.push_back(is_pair ? best.id : tokens[i]);
      i += is_pair;
    }
    tokens = out;
  }
}

TEST(Bpe, LongWordsAreMergedLikeShortOnes) {
  std::mt19937 random(7);
  for (int round = 0; round < 200; ++round) {
    // Merges in a random order, so that pairs may arise that have a lower rank than their parts.
    MergeTable merges;
    std::vector<std::pair<Token, Token>> pairs;
    for (Token id = 4; id < 40; ++id) pairs.emplace_back(random() % id, random() % id);
    std::vector<uint32_t> ranks(pairs.size());
    for (size_t i = 0; i < ranks.size(); ++i) ranks[i] = uint32_t(i);
    std::shuffle(ranks.begin(), ranks.end(), random);
    for (size_t i = 0; i < pairs.size(); ++i) {
      merges.add(pairs[i].first, pairs[i].second, {ranks[i], Token(4 + i)});
    }
    std::vector<Token> tokens(65 + random() % 200);
    for (Token& token : tokens) token = random() % (round % 2 ? 4 : 2);
    std::vector<Token> expected = tokens;
    merge_simply(merges, expected);
    merge_pairs(merges, tokens);
    ASSERT_EQ(tokens, expected) << round;
  }
}

TEST(Bpe, ATextMayBeCutWhereItIsSafe) {
  std::mt19937 random(3);
  for (int round = 0; round < 2000; ++round) {
    const std::string text = random_text(random, 20);
    const size_t cut = safe_cut(text, random() % text.size());
    std::vector<std::string> parts = gpt2_words(std::string_view(text).substr(0, cut));
    for (const std::string& word : gpt2_words(std::string_view(text).substr(cut))) {
      parts.push_back(word);
    }
    ASSERT_EQ(parts, gpt2_words(text)) << text << " at " << cut;
  }
  EXPECT_EQ(safe_cut("ab cd", 0), 2u);
  EXPECT_EQ(safe_cut("\xe6\x97\xa5\n\xe6\x97\xa5", 0), 3u);  // also without ASCII letters
  EXPECT_EQ(safe_cut("ab  cd", 3), 6u);
  EXPECT_EQ(safe_cut("", 0), 0u);
}

TEST(Bpe, TrainingMergesTheMostFrequentPairFirst) {
  BpeTrainer trainer;
  trainer.add("low low low low low lower lower newest newest newest newest newest newest");
  // "es" and "st" occur six times, and so does "we", whose tokens are the highest.
  const Merges merges = trainer.merges(4);
  ASSERT_EQ(merges.size(), 4u);
  EXPECT_EQ(merges[0], (std::pair<int64_t, int64_t>('w', 'e')));  // 8 times
  const Tokenizer t = Tokenizer::bpe(merges);
  EXPECT_EQ(t.size(), 260);
  EXPECT_EQ(t.decode(t.encode("newest low")), "newest low");
  EXPECT_EQ(BpeTrainer().merges(10), Merges());
  BpeTrainer once;
  once.add("abc");
  EXPECT_EQ(once.merges(10), Merges());
}

// A slow implementation of the same rules.
Merges train_simply(const std::string& text, size_t most) {
  std::map<std::string, int64_t> counts;
  for (const std::string& word : gpt2_words(text)) ++counts[word];
  std::vector<std::pair<std::vector<int64_t>, int64_t>> words;
  for (const auto& [word, count] : counts) {
    Ids ids;
    for (const char c : word) ids.push_back(static_cast<unsigned char>(c));
    words.emplace_back(ids, count);
  }
  Merges out;
  while (out.size() < most) {
    std::map<std::pair<int64_t, int64_t>, int64_t> pairs;
    for (const auto& [ids, count] : words) {
      for (size_t i = 0; i + 1 < ids.size(); ++i) pairs[{ids[i], ids[i + 1]}] += count;
    }
    auto best = pairs.end();
    for (auto at = pairs.begin(); at != pairs.end(); ++at) {
      if (best == pairs.end() || at->second > best->second) best = at;
    }
    if (best == pairs.end() || best->second < 2) break;
    for (auto& [ids, count] : words) {
      Ids merged;
      for (size_t i = 0; i < ids.size(); ++i) {
        const bool is_pair =
            i + 1 < ids.size() && ids[i] == best->first.first && ids[i + 1] == best->first.second;
        merged.push_back(is_pair ? int64_t(256 + out.size()) : ids[i]);
        i += is_pair;
      }
      ids = merged;
    }
    out.push_back(best->first);
  }
  return out;
}

TEST(Bpe, TrainingIsThatOfASlowImplementation) {
  std::mt19937 random(11);
  for (int round = 0; round < 10; ++round) {
    const std::string text = random_text(random, 600);
    BpeTrainer trainer;
    trainer.add(text);
    ASSERT_EQ(trainer.merges(60), train_simply(text, 60)) << round;
  }
}

TEST(Bpe, AnyBytesAreEncodedAndDecoded) {
  std::mt19937 random(5);
  std::string text = random_text(random, 3000);
  BpeTrainer trainer;
  trainer.add(text);
  const Tokenizer t = Tokenizer::bpe(trainer.merges(200));
  for (int i = 0; i < 20000; ++i) text += char(random());
  EXPECT_EQ(t.decode(t.encode(text)), text);
  const Tokenizer again = Tokenizer::of(t.parts());
  EXPECT_EQ(again.encode(text), t.encode(text));
  EXPECT_THROW(Tokenizer::bpe({{0, 256}}), ValueError);
  EXPECT_THROW(Tokenizer::bpe({{0, 1}, {0, 1}}), ValueError);
}

// The encoder remembers words, also more of them than it has room for.
TEST(Bpe, RememberedWordsHaveTheirOwnTokens) {
  std::string text;
  for (int i = 0; i < 300'000; ++i) text += concat_to_string(i * 7919 % 300'007, " ");
  BpeTrainer trainer;
  trainer.add(std::string_view(text).substr(0, 10'000));
  const Tokenizer t = Tokenizer::bpe(trainer.merges(100));
  std::vector<uint32_t> ids;
  TokenEncoder encoder(t);
  encoder.append(text, ids);
  encoder.append(text, ids);
  EXPECT_EQ(t.decode(Ids(ids.begin(), ids.end())), text + text);
}

TEST(Bpe, AWordOfManyMegabytesIsEncodedInReasonableTime) {
  BpeTrainer trainer;
  trainer.add("abab abab aabb aabb");
  const Tokenizer t = Tokenizer::bpe(trainer.merges(20));
  std::string word;
  for (int i = 0; i < 1 << 20; ++i) word += i * i % 7 % 2 ? 'a' : 'b';
  EXPECT_EQ(t.decode(t.encode(word)), word);
}

}  // namespace
}  // namespace taper::v0::data
