// Conversion of text to token ids and back.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "data/tokenizers/words.h"
#include "framework/base/namespace.h"
#include "framework/base/text_enum.h"

namespace taper::v0::data {

class MergeTable;  // data/tokenizers/bpe.h
class WordCache;
class SentencePiece;  // data/tokenizers/sentence_piece.h

// A vocabulary, and the rules by which text is split into its tokens. Immutable.
class Tokenizer {
 public:
  struct TokenKindValues {
    enum class Value : uint8_t { kChars, kBytes, kGpt2, kWordTokens, kBpe, kSentencepiece };
    static constexpr Value kChars = Value::kChars, kBytes = Value::kBytes, kGpt2 = Value::kGpt2,
                           kWordTokens = Value::kWordTokens, kBpe = Value::kBpe,
                           kSentencepiece = Value::kSentencepiece;
    static constexpr const char* kOption = "tokenizer";
    static constexpr const char* kWords[] = {"chars", "bytes", "gpt2",
                                             "words", "bpe",   "sentencepiece"};
  };
  using TokenKind = TextEnum<TokenKindValues>;

  // The data that define a tokenizer, as UTF-8.
  struct Parts {
    TokenKind kind = TokenKind::kChars;
    std::vector<std::string>
        tokens{};         // the spelling of each id, as in GPT-2's files; for kBytes, bytes
    std::string model{};  // kSentencepiece: the bytes of the model file, which define `tokens`
    std::vector<std::pair<int64_t, int64_t>> merges{};  // kGpt2, kBpe: by rank
    // Tokens that no text contains, such as kPadding. Their ids follow those of `tokens`.
    std::vector<std::string> special{};
  };
  static constexpr const char* kPadding = "<pad>";      // fills up short texts
  static constexpr const char* kUnknown = "<unk>";      // in place of tokens without an id
  static constexpr const char* kEnd = "<|endoftext|>";  // between documents

  // Returns a tokenizer of the characters (Unicode code points) in the text, sorted. Throws
  // ValueError if the text is empty or not UTF-8.
  static Tokenizer chars(std::string_view text);
  // Returns the tokenizer of the 256 bytes.
  static Tokenizer bytes() { return of({.kind = TokenKind::kBytes}); }
  // Returns a tokenizer of words (each_word()), with kPadding and kUnknown. Throws ValueError if
  // there are none.
  static Tokenizer words(std::vector<std::string> words);
  // Reads GPT-2's byte-pair encoding (https://github.com/openai/gpt-2/blob/master/src/encoder.py)
  // from encoder.json and vocab.bpe in a directory, or from vocab.json and merges.txt. Throws
  // InputError if a file is missing or damaged.
  static Tokenizer gpt2(const std::filesystem::path& directory);
  // Returns a tokenizer of the 256 bytes and the tokens that these merges make of them
  // (BpeTrainer::merges()). Words are divided as in GPT-2. Throws the errors of of().
  static Tokenizer bpe(const std::vector<std::pair<int64_t, int64_t>>& merges);
  // Reads a model file of the library sentencepiece. Its control pieces are special tokens. Throws
  // InputError with the path if the file is missing or no model, and Error with the package to
  // install if Taper was built without the library.
  static Tokenizer sentencepiece(const std::filesystem::path& file);
  // Builds a tokenizer from its parts. For kBytes and kSentencepiece no tokens are needed. Throws
  // ValueError if there
  // are no tokens, a token is repeated or misspelled, a byte is missing for kGpt2 or kBpe, a merged
  // pair is not a token, or words have no kUnknown.
  static Tokenizer of(Parts parts) { return Tokenizer(std::move(parts)); }
  const Parts& parts() const { return parts_; }  // of() builds an equal tokenizer from these

  // Converts a text to token ids. In GPT-2's encoding, "<|endoftext|>" in a text is not treated as
  // a special token. A character or word that is not in the vocabulary becomes kUnknown. Throws
  // ValueError if there is no such token.
  std::vector<int64_t> encode(std::string_view text) const;
  // Returns the bytes, which may be invalid UTF-8 if the ids were cut off. Words are joined with
  // blanks. Special tokens are written by name. Throws ValueError for an invalid id.
  std::string decode(std::span<const int64_t> ids) const;
  // Returns what a token adds to a text that is continued. It differs from the decoded token for
  // sentencepiece, where blanks at the beginning of a text are not part of it. Throws ValueError
  // for an invalid id.
  std::string continuation(int64_t id) const;
  // Returns the number of tokens, special ones included. Ids are below it.
  int64_t size() const { return std::ssize(parts_.tokens) + std::ssize(parts_.special); }
  // Returns the id of a special token, or std::nullopt if the tokenizer does not have it.
  std::optional<int64_t> special_id(std::string_view name) const;
  // Returns a tokenizer that has these special tokens, too.
  Tokenizer with_special(const std::vector<std::string>& names) const;

 private:
  friend class TokenEncoder;

  explicit Tokenizer(Parts parts);
  bool has_pairs() const {
    return parts_.kind == TokenKind::kGpt2 || parts_.kind == TokenKind::kBpe;
  }
  // Returns false if a token is missing, the merged pair is not a token, or the pair is repeated.
  bool add_merge(int64_t left, int64_t right);
  int64_t id_of(std::string_view token) const;

  Parts parts_;
  std::unordered_map<std::string, int64_t, TextHash, std::equal_to<>> ids_;
  std::optional<int64_t> unknown_;
  std::array<int64_t, 128> ascii_ids_{};  // kChars: of the first characters; -1: has none
  std::array<uint32_t, 256> byte_ids_{};  // kGpt2, kBpe: of each byte
  std::shared_ptr<MergeTable> merges_;    // kGpt2, kBpe; shared by copies, which do not change it
  std::shared_ptr<const SentencePiece> pieces_;  // kSentencepiece
};

// Returns whether a kind of tokens is read from files that the user names.
inline bool needs_vocabulary(Tokenizer::TokenKind kind) {
  return kind == Tokenizer::TokenKind::kGpt2 || kind == Tokenizer::TokenKind::kSentencepiece;
}
// Reads the tokenizer of a directory (kGpt2) or a model file (kSentencepiece). Throws the errors of
// Tokenizer::gpt2() and Tokenizer::sentencepiece().
Tokenizer read_vocabulary(Tokenizer::TokenKind kind, const std::filesystem::path& path);

// Encodes texts one after another, and remembers the tokens of words between them. Used by one
// thread at a time.
class TokenEncoder {
 public:
  explicit TokenEncoder(const Tokenizer& tokenizer);  // which must outlive it
  ~TokenEncoder();
  TokenEncoder& operator=(TokenEncoder&&) = delete;
  // Appends the ids of a text to `out`. Throws the errors of Tokenizer::encode().
  void append(std::string_view text, std::vector<uint32_t>& out);

 private:
  void append_pairs(std::string_view text, std::vector<uint32_t>& out);
  void append_chars(std::string_view text, std::vector<uint32_t>& out);

  const Tokenizer& tokenizer_;
  const std::unique_ptr<WordCache> cache_;
  std::vector<uint32_t> word_;
};

}  // namespace taper::v0::data
