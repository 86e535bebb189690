#include "data/tokenizer.h"

#include <algorithm>
#include <optional>
#include <set>
#include <sstream>

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

CharClass class_at(std::string_view text, size_t at) {
  return class_of(first_code_point(text.substr(at)).value);
}

// Returns the end of the run of characters of that class that starts at `at`.
size_t end_of_run(std::string_view text, size_t at, CharClass one) {
  while (at < text.size() && class_at(text, at) == one) {
    at += first_code_point(text.substr(at)).length;
  }
  return at;
}

// Returns the length of the first word according to GPT-2's regular expression
//
//   's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
//
// The last two alternatives match all blanks before a word except the last one.
size_t word_length(std::string_view text) {
  for (const std::string_view ending : {"'s", "'t", "'re", "'ve", "'m", "'ll", "'d"}) {
    if (text.starts_with(ending)) return ending.size();
  }
  const size_t start = text[0] == ' ' && text.size() > 1 ? 1 : 0;
  const CharClass one = class_at(text, start);
  if (one != CharClass::kSpace) return end_of_run(text, start, one);
  const size_t end = end_of_run(text, 0, CharClass::kSpace);
  if (end == text.size()) return end;
  size_t last = end - 1;
  while (is_continuation(text[last])) --last;
  return last > 0 ? last : end;
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
  require<ValueError>(!is_words || unknown_, "a vocabulary of words needs the special token ",
                      kUnknown);
  for (const auto& [left, right] : std::exchange(parts_.merges, {})) {
    if (add_merge(left, right)) continue;
    throw ValueError("tokens ", left, " and ", right, " make no third, or are merged twice");
  }
}

std::optional<int64_t> Tokenizer::special_id(std::string_view name) const {
  const auto found = std::ranges::find(parts_.special, name);
  if (found == parts_.special.end()) return std::nullopt;
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
  const std::filesystem::path encoder_file = directory / "encoder.json",
                              merges_file = directory / "vocab.bpe";
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

bool Tokenizer::add_merge(int64_t left, int64_t right) {
  const auto count = std::ssize(parts_.tokens);
  if (left < 0 || left >= count || right < 0 || right >= count) return false;
  const auto made = ids_.find(parts_.tokens[size_t(left)] + parts_.tokens[size_t(right)]);
  if (made == ids_.end()) return false;
  const Merge merge{std::ssize(parts_.merges), made->second};
  if (!merges_.emplace(uint64_t(left) << 32 | uint64_t(right), merge).second) return false;
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

void Tokenizer::append_pairs(std::string_view word, std::vector<int64_t>& out) const {
  const size_t first = out.size();
  for (const char byte : word) out.push_back(id_of(spelled({&byte, 1})));
  const auto merge_at = [&](size_t i) {
    return merges_.find(uint64_t(out[i]) << 32 | uint64_t(out[i + 1]));
  };
  while (true) {
    check_stop();  // a word may be as long as the text
    auto best = merges_.end();
    for (size_t i = first; i + 1 < out.size(); ++i) {
      const auto found = merge_at(i);
      if (found == merges_.end()) continue;
      if (best == merges_.end() || found->second.rank < best->second.rank) best = found;
    }
    if (best == merges_.end()) return;
    // `end` is the end of the output. One pass makes all merges of the same rank, to keep long
    // words fast.
    size_t end = first;
    for (size_t i = first; i < out.size(); ++i) {
      const bool is_pair = i + 1 < out.size() && merge_at(i) == best;
      out[end++] = is_pair ? best->second.id : out[i];
      i += is_pair;
    }
    out.resize(end);
  }
}

std::vector<int64_t> Tokenizer::encode(std::string_view text) const {
  std::vector<int64_t> out;
  if (parts_.kind == TokenKind::kWordTokens) {
    check_stop();
    each_word(text, [&](std::string_view word) { out.push_back(id_of(word)); });
    return out;
  }
  std::unordered_map<std::string_view, std::vector<int64_t>> known;  // caches the ids of words,
                                                                     // which often repeat
  for (size_t done = 0; !text.empty(); ++done) {
    if (done % 4096 == 0) check_stop();
    if (has_pairs()) {
      const std::string_view word = text.substr(0, word_length(text));
      auto [found, is_new] = known.try_emplace(word);
      if (is_new) append_pairs(word, found->second);
      out.insert(out.end(), found->second.begin(), found->second.end());
      text.remove_prefix(word.size());
    } else {
      const size_t length = parts_.kind == TokenKind::kBytes ? 1 : first_code_point(text).length;
      out.push_back(id_of(text.substr(0, length)));
      text.remove_prefix(length);
    }
  }
  return out;
}

std::string Tokenizer::decode(std::span<const int64_t> ids) const {
  std::string out;
  const auto count = std::ssize(parts_.tokens);
  for (const int64_t id : ids) {
    require<ValueError>(id >= 0 && id < size(), "no token ", id, ": the vocabulary has ", size());
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
