#include "data/tokenizer.h"

#include <algorithm>
#include <optional>
#include <set>
#include <sstream>

#include "data/tokenizers/bpe.h"
#include "data/tokenizers/sentence_piece.h"
#include "data/tokenizers/vocabulary.h"
#include "framework/base/cancel.h"
#include "framework/base/error.h"
#include "framework/io/input_file.h"
#include "framework/io/json_scanner.h"
#include "framework/io/text_utils.h"

namespace taper::v0::data {
namespace {

using namespace detail;
using Tokens = std::vector<std::string>;

constexpr size_t kMaxVocabularyBytes = 64 << 20;

Tokens all_bytes() {
  Tokens out;
  for (int b = 0; b < 256; ++b) out.emplace_back(1, char(b));
  return out;
}

// Returns the character by which GPT-2's files spell a byte. It is the byte's own character if that
// is printable in Latin-1, otherwise the next one from U+0100.
uint32_t letter_of(uint32_t b) {
  if ((b > 32 && b < 127) || (b > 160 && b != 173)) return b;
  return 0x100 + (b <= 32 ? b : b <= 160 ? b - 94 : 67);
}

std::string spelled(std::string_view bytes) {
  std::string out;
  for (const char b : bytes) {
    const uint32_t c = letter_of(static_cast<unsigned char>(b));
    if (c >= 0x80) out += char(0xC0 | c >> 6);
    out += char(c < 0x80 ? c : 0x80 | (c & 0x3F));
  }
  return out;
}

// Returns the bytes that are spelled as `text` in GPT-2's files; std::nullopt if the spelling is
// invalid.
std::optional<std::string> unspelled(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    const auto [c, length] = first_code_point(text);
    const uint32_t k = c - 0x100, b = c < 0x100 ? c : k <= 32 ? k : k < 67 ? k + 94 : 173;
    if (letter_of(b) != c) return std::nullopt;
    out += char(b);
    text.remove_prefix(length);
  }
  return out;
}

// Returns "FILE:LINE:COLUMN", where columns count characters from 1.
std::string place_in(std::string_view text, size_t at, const std::string& file) {
  const std::string_view before = text.substr(0, at);
  const size_t start = before.rfind('\n') + 1;  // npos + 1 is 0
  const auto is_first = [](char c) { return !is_continuation(c); };
  return concat_to_string(file, ":", 1 + std::ranges::count(before, '\n'), ":",
                          1 + std::ranges::count_if(before.substr(start), is_first));
}

// An entry of a JSON object.
struct Entry {
  std::string key, value;
  bool is_number;
  size_t at;
};

std::vector<Entry> entries_of(std::string_view text, const std::string& file) {
  using enum JsonEvent::EventKind;
  std::vector<Entry> out;
  std::string key;
  int depth = 0;
  const auto fault = scan_json(text, [&](const JsonEvent& event) {
    if (event.kind == kListEnd || event.kind == kMapEnd) {
      --depth;
    } else if (depth == 0 && event.kind != kMapStart) {
      throw InputError(file, ": expected a JSON object of tokens and their ids");
    } else if (depth == 1 && event.kind == kKey) {
      key = event.text;
    } else if (depth == 1) {
      out.push_back({key, std::string(event.text), event.kind == kNumber, event.at});
    }
    if (event.kind == kListStart || event.kind == kMapStart) ++depth;
  });
  if (!fault) return out;
  throw InputError(place_in(text, fault->at, file), ": not valid JSON: ", fault->what);
}

}  // namespace

Tokenizer::Tokenizer(Parts parts) : parts_(std::move(parts)) {
  const bool is_words = parts_.kind == TokenKind::kWordTokens;
  if (parts_.kind == TokenKind::kBytes) parts_.tokens = all_bytes();
  if (parts_.kind == TokenKind::kSentencepiece) {
    pieces_ = SentencePiece::read(parts_.model);
    parts_.tokens = pieces_->pieces();
  }
  if (parts_.tokens.empty()) throw ValueError("a vocabulary without tokens");
  for (const std::string& token : parts_.tokens) {
    const bool is_token = !token.empty() && (!has_pairs() || unspelled(token));
    if (!is_token) throw ValueError("no token: ", in_quotes(token));
    const bool is_new = ids_.emplace(token, std::ssize(ids_)).second;
    if (!is_new) throw ValueError("the vocabulary has a token twice");
  }
  for (const std::string& byte : all_bytes()) {
    if (!has_pairs() || ids_.contains(spelled(byte))) continue;
    throw ValueError("no token for the byte ", spelled(byte));
  }
  const std::set<std::string> special(parts_.special.begin(), parts_.special.end());
  require<ValueError>(special.size() == parts_.special.size() && !special.contains(""),
                      "the vocabulary has a special token twice, or one without a name");
  unknown_ = special_id(kUnknown);
  merges_ = std::make_shared<MergeTable>();
  for (size_t c = 0; c < ascii_ids_.size(); ++c) {
    const auto found = ids_.find(std::string(1, char(c)));
    ascii_ids_[c] = found == ids_.end() ? -1 : found->second;
  }
  for (size_t b = 0; has_pairs() && b < byte_ids_.size(); ++b) {
    byte_ids_[b] = uint32_t(ids_.at(spelled(std::string(1, char(b)))));
  }
  require<ValueError>(!is_words || unknown_, "a vocabulary of words needs the special token ",
                      kUnknown);
  for (const auto& [left, right] : std::exchange(parts_.merges, {})) {
    if (add_merge(left, right)) continue;
    throw ValueError("tokens ", left, " and ", right, " make no third, or are merged twice");
  }
}

// Returns the id of a special token among the pieces of a model.
static std::optional<int64_t> special_piece(const SentencePiece& pieces, std::string_view name) {
  if (name == Tokenizer::kUnknown) return pieces.unknown();
  if (name == Tokenizer::kPadding && pieces.padding()) return pieces.padding();
  if (name == Tokenizer::kEnd && pieces.end()) return pieces.end();
  return pieces.control(name);
}

std::optional<int64_t> Tokenizer::special_id(std::string_view name) const {
  const auto found = std::ranges::find(parts_.special, name);
  if (pieces_ && found == parts_.special.end()) return special_piece(*pieces_, name);
  if (found == parts_.special.end()) {  // GPT-2's vocabulary has kEnd among its tokens
    const auto own = has_pairs() && name == kEnd ? ids_.find(name) : ids_.end();
    return own == ids_.end() ? std::nullopt : std::optional(own->second);
  }
  return std::ssize(parts_.tokens) + (found - parts_.special.begin());
}

Tokenizer Tokenizer::with_special(const std::vector<std::string>& names) const {
  Parts parts = parts_;
  for (const std::string& name : names) {
    if (!special_id(name)) parts.special.push_back(name);
  }
  return of(std::move(parts));
}

Tokenizer Tokenizer::words(std::vector<std::string> words) {
  return of({.kind = TokenKind::kWordTokens,
             .tokens = std::move(words),
             .special = {kPadding, kUnknown}});
}

Tokenizer Tokenizer::chars(std::string_view text) {
  CharacterSet found;
  found.add(text);
  return of({.kind = TokenKind::kChars, .tokens = found.characters()});
}

Tokenizer Tokenizer::gpt2(const std::filesystem::path& directory) try {
  // Hugging Face publishes the same files under other names.
  const bool is_renamed = !std::filesystem::exists(directory / "encoder.json") &&
                          std::filesystem::exists(directory / "vocab.json");
  const std::filesystem::path encoder_file =
                                  directory / (is_renamed ? "vocab.json" : "encoder.json"),
                              merges_file = directory / (is_renamed ? "merges.txt" : "vocab.bpe");
  const std::string text = read_file(encoder_file, "GPT-2 vocabulary", kMaxVocabularyBytes);
  const std::vector<Entry> entries = entries_of(text, encoder_file);
  Tokens tokens(entries.size());
  for (const Entry& entry : entries) {
    size_t id = tokens.size();
    const bool has_id = entry.is_number && parse_number(entry.value, id) == std::errc();
    const bool is_free = has_id && id < tokens.size() && tokens[id].empty();
    if (!is_free || !unspelled(entry.key) || entry.key.empty()) {
      throw InputError(place_in(text, entry.at, encoder_file), ": token ", in_quotes(entry.key),
                       " has the id ", in_quotes(entry.value), ": expected GPT-2's spelling, ",
                       "and each of 0 .. ", tokens.size() - 1, " once");
    }
    tokens[id] = entry.key;
  }
  Tokenizer out = of({.kind = TokenKind::kGpt2, .tokens = std::move(tokens)});
  std::istringstream merges(read_file(merges_file, "list of GPT-2's merges"));
  std::string line;
  for (int64_t number = 1; std::getline(merges, line); ++number) {
    if (line.ends_with('\r')) line.pop_back();
    if (line.empty() || (number == 1 && line.starts_with("#version"))) continue;
    const size_t blank = std::min(line.find(' '), line.size());
    const auto left = out.ids_.find(line.substr(0, blank));
    const auto right = out.ids_.find(line.substr(std::min(blank + 1, line.size())));
    const bool is_known = left != out.ids_.end() && right != out.ids_.end();
    if (is_known && out.add_merge(left->second, right->second)) continue;
    throw InputError(merges_file.string(), ":", number,
                     ": expected two tokens of encoder.json that make a third, once and with ",
                     "one blank between them, got ", in_quotes(line));
  }
  return out;
} catch (const ValueError& error) {
  throw InputError((directory / "encoder.json").string(), ": ", error.what());
}

Tokenizer Tokenizer::sentencepiece(const std::filesystem::path& file) try {
  std::string model = read_file(file, "model of sentencepiece", kMaxVocabularyBytes + 1);
  require<ValueError>(model.size() <= kMaxVocabularyBytes, "not a model of sentencepiece: it has ",
                      "more than ", kMaxVocabularyBytes >> 20, " MiB");
  return of({.kind = TokenKind::kSentencepiece, .model = std::move(model)});
} catch (const ValueError& error) {
  throw InputError(file.string(), ": ", error.what());
}

Tokenizer read_vocabulary(Tokenizer::TokenKind kind, const std::filesystem::path& path) {
  const bool is_gpt2 = kind == Tokenizer::TokenKind::kGpt2;
  return is_gpt2 ? Tokenizer::gpt2(path) : Tokenizer::sentencepiece(path);
}

bool Tokenizer::add_merge(int64_t left, int64_t right) {
  const auto count = std::ssize(parts_.tokens);
  if (left < 0 || left >= count || right < 0 || right >= count) return false;
  const auto made = ids_.find(parts_.tokens[size_t(left)] + parts_.tokens[size_t(right)]);
  if (made == ids_.end()) return false;
  const MergeTable::Merge merge{uint32_t(parts_.merges.size()), uint32_t(made->second)};
  if (!merges_->add(Token(left), Token(right), merge)) return false;
  parts_.merges.emplace_back(left, right);
  return true;
}

int64_t Tokenizer::id_of(std::string_view token) const {
  const auto found = ids_.find(token);
  if (found != ids_.end()) return found->second;
  if (unknown_) return *unknown_;
  throw ValueError("the vocabulary of ", size(), " characters does not have ", in_quotes(token),
                   ": it was made of the training text");
}

Tokenizer Tokenizer::bpe(const std::vector<std::pair<int64_t, int64_t>>& merges) {
  Parts parts{.kind = TokenKind::kBpe, .merges = merges};
  for (const std::string& byte : all_bytes()) parts.tokens.push_back(spelled(byte));
  for (const auto& [left, right] : merges) {
    const auto count = std::ssize(parts.tokens);
    require<ValueError>(left >= 0 && left < count && right >= 0 && right < count, "tokens ", left,
                        " and ", right, " do not exist before they are merged");
    parts.tokens.push_back(parts.tokens[size_t(left)] + parts.tokens[size_t(right)]);
  }
  return of(std::move(parts));
}

std::vector<int64_t> Tokenizer::encode(std::string_view text) const {
  std::vector<uint32_t> ids;
  TokenEncoder(*this).append(text, ids);
  return {ids.begin(), ids.end()};
}

// --- encoding ---

// The number of words or characters between two calls of check_stop().
constexpr size_t kEncodedAtOnce = 4096;

TokenEncoder::TokenEncoder(const Tokenizer& tokenizer)
    : tokenizer_(tokenizer), cache_(std::make_unique<WordCache>()) {}
TokenEncoder::~TokenEncoder() = default;

void TokenEncoder::append(std::string_view text, std::vector<uint32_t>& out) {
  using enum Tokenizer::TokenKindValues::Value;
  check_stop();
  switch (tokenizer_.parts().kind) {
    case kBytes:
      for (const char c : text) out.push_back(static_cast<unsigned char>(c));
      return;
    case kWordTokens:
      each_word(text,
                [&](std::string_view word) { out.push_back(uint32_t(tokenizer_.id_of(word))); });
      return;
    case kChars: return append_chars(text, out);
    case kSentencepiece: return tokenizer_.pieces_->encode(text, out);
    default: return append_pairs(text, out);
  }
}

void TokenEncoder::append_chars(std::string_view text, std::vector<uint32_t>& out) {
  for (size_t done = 0; !text.empty(); ++done) {
    if (done % kEncodedAtOnce == 0) check_stop();
    const auto byte = static_cast<unsigned char>(text[0]);
    const size_t length = byte < 0x80 ? 1 : first_code_point(text).length;
    const int64_t known = byte < 0x80 ? tokenizer_.ascii_ids_[byte] : -1;
    out.push_back(uint32_t(known >= 0 ? known : tokenizer_.id_of(text.substr(0, length))));
    text.remove_prefix(length);
  }
}

void TokenEncoder::append_pairs(std::string_view text, std::vector<uint32_t>& out) {
  for (size_t done = 0; !text.empty(); ++done) {
    if (done % kEncodedAtOnce == 0) check_stop();
    const std::string_view word = text.substr(0, gpt2_word_length(text));
    const uint64_t hash = WordCache::hash_of(word);
    std::span<const Token> ids = cache_->find(word, hash);
    if (ids.empty()) {
      word_.clear();
      for (const char c : word)
        word_.push_back(tokenizer_.byte_ids_[static_cast<unsigned char>(c)]);
      merge_pairs(*tokenizer_.merges_, word_);
      cache_->add(word, hash, word_);
      ids = word_;
    }
    out.insert(out.end(), ids.begin(), ids.end());
    text.remove_prefix(word.size());
  }
}

std::string Tokenizer::continuation(int64_t id) const {
  const bool is_piece = pieces_ && id >= 0 && id < std::ssize(parts_.tokens);
  return is_piece ? pieces_->continuation(id) : decode({&id, 1});
}

// Decodes runs of pieces, and writes special tokens between them by name.
static std::string decode_pieces(const SentencePiece& pieces, const Tokenizer::Parts& parts,
                                 std::span<const int64_t> ids) {
  std::string out;
  const auto count = std::ssize(parts.tokens);
  while (!ids.empty()) {
    const auto special = std::ranges::find_if(ids, [&](int64_t id) { return id >= count; });
    const auto run = ids.first(size_t(special - ids.begin()));
    if (!run.empty()) out += pieces.decode(run);
    ids = ids.subspan(run.size());
    for (; !ids.empty() && ids[0] >= count; ids = ids.subspan(1)) {
      out += parts.special[size_t(ids[0] - count)];
    }
  }
  return out;
}

std::string Tokenizer::decode(std::span<const int64_t> ids) const {
  std::string out;
  const auto count = std::ssize(parts_.tokens);
  for (const int64_t id : ids) {
    require<ValueError>(id >= 0 && id < size(), "no token ", id, ": the vocabulary has ", size());
  }
  if (pieces_) return decode_pieces(*pieces_, parts_, ids);
  for (const int64_t id : ids) {
    if (parts_.kind == TokenKind::kWordTokens && !out.empty()) out += ' ';
    if (id >= count) {
      out += parts_.special[size_t(id - count)];
    } else {
      const std::string& token = parts_.tokens[size_t(id)];
      out += has_pairs() ? unspelled(token).value() : token;
    }
  }
  return out;
}

}  // namespace taper::v0::data
