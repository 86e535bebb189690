// Conversion of text to token ids and back.
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
#include "framework/base/text_enum.h"

namespace taper::v0::data {

// Classes of characters: the general categories L* and N*, and the property White_Space, in the
// Unicode version of utf8proc.
enum class CharClass : uint8_t { kOther, kLetter, kNumber, kSpace };
CharClass class_of(uint32_t code_point);

// A vocabulary, and the rules by which text is split into its tokens. Immutable.
class Tokenizer {
 public:
  struct TokenKindValues {
    enum class Value : uint8_t { kChars, kBytes, kGpt2 };
    static constexpr Value kChars = Value::kChars, kBytes = Value::kBytes, kGpt2 = Value::kGpt2;
    static constexpr const char* kOption = "tokenizer";
    static constexpr const char* kWords[] = {"chars", "bytes", "gpt2"};
  };
  using TokenKind = TextEnum<TokenKindValues>;

  // The data that define a tokenizer, as UTF-8.
  struct Parts {
    TokenKind kind = TokenKind::kChars;
    std::vector<std::string>
        tokens{};  // the spelling of each id, as in GPT-2's files; for kBytes, bytes
    std::vector<std::pair<int64_t, int64_t>> merges{};  // kGpt2: by rank
  };

  // Returns a tokenizer of the characters (Unicode code points) in the text, sorted. Throws
  // ValueError if the text is empty or not UTF-8.
  static Tokenizer chars(std::string_view text);
  // Returns the tokenizer of the 256 bytes.
  static Tokenizer bytes() { return of({.kind = TokenKind::kBytes}); }
  // Reads GPT-2's byte-pair encoding (https://github.com/openai/gpt-2/blob/master/src/encoder.py)
  // from encoder.json and vocab.bpe in a directory. Throws InputError if a file is missing or
  // damaged.
  static Tokenizer gpt2(const std::filesystem::path& directory);
  // Builds a tokenizer from its parts. For kBytes the kind is sufficient. Throws ValueError if
  // there are no tokens, a token is repeated or misspelled, a byte is missing for kGpt2, or a
  // merged pair is not a token.
  static Tokenizer of(Parts parts) { return Tokenizer(std::move(parts)); }
  const Parts& parts() const { return parts_; }  // of() builds an equal tokenizer from these

  // Converts a text to token ids. In GPT-2's encoding, "<|endoftext|>" in a text is not treated as
  // a special token. Throws ValueError for a character that is not in the vocabulary.
  std::vector<int64_t> encode(std::string_view text) const;
  // Returns the bytes, which may be invalid UTF-8 if the ids were cut off. Throws ValueError for an
  // invalid id.
  std::string decode(std::span<const int64_t> ids) const;
  int64_t size() const { return std::ssize(parts_.tokens); }  // number of tokens; ids are below it

 private:
  struct Merge {
    int64_t rank, id;  // pairs of lower rank are merged first; id: the token of the merged pair
  };

  explicit Tokenizer(Parts parts);
  // Returns false if a token is missing, the merged pair is not a token, or the pair is repeated.
  bool add_merge(int64_t left, int64_t right);
  int64_t id_of(std::string_view token) const;
  void append_pairs(std::string_view word, std::vector<int64_t>& out) const;

  Parts parts_;
  std::unordered_map<std::string, int64_t> ids_;
  std::unordered_map<uint64_t, Merge> merges_;  // the key is left << 32 | right
};

}  // namespace taper::v0::data
