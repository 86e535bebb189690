#include "apps/runner/data/tokenizer.h"

#include <algorithm>
#include <array>
#include <optional>
#include <set>
#include <sstream>

#include <nlohmann/json.hpp>

#include "apps/runner/data/unicode.h"
#include "apps/runner/errors.h"
#include "apps/runner/text.h"

namespace taper::runner {
namespace {

using nlohmann::json;
using Tokens = std::vector<std::string>;

constexpr std::array<const char*, 3> kKinds = {"chars", "bytes", "gpt2"};

Tokens all_bytes() {
  Tokens out;
  for (int b = 0; b < 256; ++b) out.emplace_back(1, char(b));
  return out;
}

// GPT-2's files spell a byte as a printable character: itself where it is one in Latin-1, else the
// next from U+0100 on.
uint32_t letter_of(uint32_t b) {
  if ((b > 32 && b < 127) || (b > 160 && b != 173)) return b;
  return 0x100 + (b <= 32 ? b : b <= 160 ? b - 94 : 67);
}

std::string spelled(const std::string& bytes) {
  std::string out;
  for (const char b : bytes) {
    const uint32_t c = letter_of(static_cast<unsigned char>(b));
    if (c >= 0x80) out += char(0xC0 | c >> 6);
    out += char(c < 0x80 ? c : 0x80 | (c & 0x3F));
  }
  return out;
}

// No value for what is no spelling.
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

// Where the characters from `at` on are no longer of that class.
size_t end_of_run(std::string_view text, size_t at, CharClass one) {
  while (at < text.size() && class_at(text, at) == one) {
    at += first_code_point(text.substr(at)).length;
  }
  return at;
}

// The length of the first word, by GPT-2's expression
//   's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
// in which the last two give blanks before a word all but the last.
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

}  // namespace

Tokenizer::Tokenizer(Kind kind, Tokens tokens) : kind_(kind), tokens_(std::move(tokens)) {
  for (const std::string& token : tokens_) ids_.emplace(token, std::ssize(ids_));
  if (std::ssize(ids_) != size()) throw ValueError("a tokenizer's vocabulary has a token twice");
}

Tokenizer Tokenizer::chars(std::string_view text) {
  std::set<std::string> seen;  // UTF-8 sorts as code points do
  while (!text.empty()) {
    const CodePoint c = first_code_point(text);
    if (c.value == CodePoint::kInvalid) {
      throw ValueError("the text is not UTF-8: take `tokenizer: bytes`");
    }
    seen.emplace(text.substr(0, c.length));
    text.remove_prefix(c.length);
  }
  return {Kind::kChars, {seen.begin(), seen.end()}};
}

Tokenizer Tokenizer::bytes() { return {Kind::kBytes, all_bytes()}; }

Tokenizer Tokenizer::gpt2(const std::filesystem::path& directory) {
  const std::filesystem::path encoder_file = directory / "encoder.json",
                              merges_file = directory / "vocab.bpe";
  const auto fail = [](const std::filesystem::path& file, const auto&... why) {
    throw InputError(cat(file.string(), ": ", why...));
  };
  const json encoder = json::parse(read_file(encoder_file, "GPT-2 vocabulary"), nullptr, false);
  if (!encoder.is_object()) fail(encoder_file, "expected a JSON object of tokens and their ids");
  Tokens tokens(encoder.size());
  for (const auto& [token, id] : encoder.items()) {
    const std::optional<std::string> bytes = unspelled(token);
    if (!bytes || bytes->empty() || !id.is_number_unsigned() || id >= tokens.size() ||
        !tokens[id].empty()) {
      fail(encoder_file, "token ", in_quotes(token), " has the id ", id.dump(),
           ": expected GPT-2's spelling, and each of 0 .. ", tokens.size() - 1, " once");
    }
    tokens[id] = *bytes;
  }
  Tokenizer out(Kind::kGpt2, std::move(tokens));
  for (const std::string& byte : all_bytes()) {
    if (!out.ids_.contains(byte)) fail(encoder_file, "no token for the byte ", spelled(byte));
  }
  std::istringstream merges(read_file(merges_file, "list of GPT-2's merges"));
  std::string line, left, right;
  for (int64_t number = 1; std::getline(merges, line); ++number) {
    if (line.empty() || line.starts_with("#version")) continue;
    std::istringstream(line) >> left >> right;
    const auto one = unspelled(left), two = unspelled(right);
    if (one && two && out.ids_.contains(*one + *two)) {
      out.add_merge(out.ids_[*one], out.ids_[*two]);
    } else {
      fail(cat(merges_file.string(), ":", number), "expected two tokens of encoder.json that make ",
           "a third, got ", in_quotes(line));
    }
  }
  return out;
}

void Tokenizer::add_merge(int64_t left, int64_t right) {
  const int64_t id = ids_.at(tokens_.at(size_t(left)) + tokens_.at(size_t(right)));
  merges_.emplace(uint64_t(left) << 32 | uint64_t(right), Merge{std::ssize(pairs_), id});
  pairs_.emplace_back(left, right);
}

std::string Tokenizer::to_json() const {
  json out = {{"type", kKinds[size_t(kind_)]}};
  if (kind_ == Kind::kChars) out["tokens"] = tokens_;
  if (kind_ == Kind::kGpt2) {
    for (const std::string& token : tokens_) out["tokens"].push_back(spelled(token));
    out["merges"] = pairs_;
  }
  return out.dump();
}

Tokenizer Tokenizer::from_json(const std::string& text) try {
  const json in = json::parse(text);
  const auto kind = std::ranges::find(kKinds, in.at("type").get<std::string>());
  if (kind == kKinds.end()) throw ValueError(cat("no such type: ", in.at("type").dump()));
  if (*kind == std::string_view("bytes")) return bytes();
  auto tokens = in.at("tokens").get<Tokens>();
  if (*kind == std::string_view("chars")) return {Kind::kChars, std::move(tokens)};
  for (std::string& token : tokens) token = unspelled(token).value();
  Tokenizer out(Kind::kGpt2, std::move(tokens));
  for (const auto& [left, right] : in.at("merges").get<decltype(pairs_)>()) {
    out.add_merge(left, right);
  }
  return out;
} catch (const std::exception& error) {
  throw ValueError(cat("this is no tokenizer of Taper's: ", error.what()));
}

int64_t Tokenizer::id_of(std::string_view token) const {
  const auto found = ids_.find(std::string(token));
  if (found != ids_.end()) return found->second;
  throw ValueError(cat("the vocabulary of ", size(), " characters does not have ", in_quotes(token),
                       ": it was made of the training text"));
}

void Tokenizer::append_pairs(std::string_view word, std::vector<int64_t>& out) const {
  const size_t first = out.size();
  for (const char byte : word) out.push_back(id_of({&byte, 1}));
  const auto merge_at = [&](size_t i) {
    return merges_.find(uint64_t(out[i]) << 32 | uint64_t(out[i + 1]));
  };
  while (true) {
    auto best = merges_.end();
    for (size_t i = first; i + 1 < out.size(); ++i) {
      const auto found = merge_at(i);
      if (found == merges_.end()) continue;
      if (best == merges_.end() || found->second.rank < best->second.rank) best = found;
    }
    if (best == merges_.end()) return;
    size_t end = first;  // of what was written; all places at once, or long words take forever
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
  std::unordered_map<std::string_view, std::vector<int64_t>> known;  // words come again and again
  while (!text.empty()) {
    if (kind_ == Kind::kGpt2) {
      const std::string_view word = text.substr(0, word_length(text));
      auto [found, is_new] = known.try_emplace(word);
      if (is_new) append_pairs(word, found->second);
      out.insert(out.end(), found->second.begin(), found->second.end());
      text.remove_prefix(word.size());
    } else {
      const size_t length = kind_ == Kind::kBytes ? 1 : first_code_point(text).length;
      out.push_back(id_of(text.substr(0, length)));
      text.remove_prefix(length);
    }
  }
  return out;
}

std::string Tokenizer::decode(std::span<const int64_t> ids) const {
  std::string out;
  for (const int64_t id : ids) {
    if (id < 0 || id >= size()) {
      throw ValueError(cat("no token ", id, ": the vocabulary has ", size()));
    }
    out += tokens_[size_t(id)];
  }
  return out;
}

}  // namespace taper::runner
