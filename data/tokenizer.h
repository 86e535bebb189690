// Text to token ids and back.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "framework/base/namespace.h"

namespace taper::v0::data {

// The general categories L* and N*, and the property White_Space, as utf8proc's Unicode has them.
enum class CharClass : uint8_t { kOther, kLetter, kNumber, kSpace };
CharClass class_of(uint32_t code_point);

// A vocabulary, and how text is cut into it. Immutable.
class Tokenizer {
 public:
  enum class Kind { kChars, kBytes, kGpt2 };
  // What it is made of, as UTF-8.
  struct Parts {
    Kind kind = Kind::kChars;
    std::vector<std::string>
        tokens{};  // of each id, as GPT-2's files spell them; for kBytes, bytes
    std::vector<std::pair<int64_t, int64_t>> merges{};  // kGpt2: by rank
  };

  // The characters (Unicode code points) that the text has, in their order. ValueError: not UTF-8,
  // or none.
  static Tokenizer chars(std::string_view text);
  // The 256 bytes.
  static Tokenizer bytes() { return of({.kind = Kind::kBytes}); }
  // GPT-2's byte-pair encoding (https://github.com/openai/gpt-2/blob/master/src/encoder.py) with
  // encoder.json and vocab.bpe of a directory. InputError: a file is missing or damaged.
  static Tokenizer gpt2(const std::filesystem::path& directory);
  // Of kBytes the kind says all. ValueError: no tokens, one that comes twice or is not spelled so,
  // a byte that GPT-2's lack, or a pair that makes no third.
  static Tokenizer of(Parts parts) { return Tokenizer(std::move(parts)); }
  const Parts& parts() const { return parts_; }  // of() makes the same of them

  // "<|endoftext|>" in a text is no special token of GPT-2's here. ValueError: a character that the
  // vocabulary does not have.
  std::vector<int64_t> encode(std::string_view text) const;
  // The bytes, which may be no UTF-8 when ids were cut. ValueError: no such id.
  std::string decode(std::span<const int64_t> ids) const;
  int64_t size() const { return std::ssize(parts_.tokens); }  // tokens: ids lie below it

 private:
  struct Merge {
    int64_t rank, id;  // the lowest rank goes first; what the pair becomes
  };

  explicit Tokenizer(Parts parts);
  // Whether the tokens are there and make a third, and the pair is new.
  bool add_merge(int64_t left, int64_t right);
  int64_t id_of(std::string_view token) const;
  void append_pairs(std::string_view word, std::vector<int64_t>& out) const;

  Parts parts_;
  std::unordered_map<std::string, int64_t> ids_;
  std::unordered_map<uint64_t, Merge> merges_;  // left << 32 | right
};

}  // namespace taper::v0::data
