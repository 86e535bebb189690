#include "data/text/text_dataset.h"

#include <algorithm>
#include <memory>

#include <glob.h>

#include "data/tables/table_report.h"
#include "data/text/token_files.h"
#include "data/tokenizers/bpe.h"
#include "data/tokenizers/vocabulary.h"
#include "framework/base/cancel.h"
#include "framework/factory/factories.h"
#include "framework/io/text_utils.h"

namespace taper::v0::data {
namespace {

namespace fs = std::filesystem;
using namespace detail;

constexpr std::size_t kMaxAlternatives = 1000, kMaxPattern = 4096;

// Returns an upper bound of the number of patterns that the groups {a,b} of a pattern expand to.
std::size_t alternatives_of(std::string_view pattern) {
  std::size_t all = 1;
  std::vector<std::size_t> open;
  for (const char c : pattern) {
    if (c == '{') open.push_back(1);
    if (open.empty() || (c != ',' && c != '}')) continue;
    if (c == ',') {
      ++open.back();
    } else {
      all = std::min(all * open.back(), kMaxAlternatives + 1);
      open.pop_back();
    }
  }
  return all;
}

// Returns windows of the tokens. `what` names the text in messages.
DatasetPtr windows_of(Tensor tokens, int64_t block, const std::string& what) {
  const int64_t count = tokens.numel();
  if (count > block) return std::make_shared<WindowDataset>(std::move(tokens), block);
  throw ValueError(what, " has ", count,
                   " tokens, but a sample takes data.block_size + 1 = ", block + 1,
                   ": lower block_size, or take more text");
}

bool is_token_file(const fs::path& file) { return text_extension(file) == ".bin"; }

// Throws InputError for a compressed file of tokens, which could not be mapped into memory.
void require_plain_tokens(const std::vector<fs::path>& files) {
  for (const fs::path& file : files) {
    const bool is_plain = lower_case(file.extension().string()) == ".bin";
    require<InputError>(is_plain, name_of(file), ": files of tokens are mapped into memory, so ",
                        "they cannot be compressed; decompress it: gzip -d or zstd -d");
  }
}

// The files of a language model's text, and how they are divided.
class Corpus {
 public:
  explicit Corpus(const Text& options);

  Splits load();
  // Returns the tokens of a whole text, for evaluations.
  Tensor tokens(const Tokenizer& tokenizer) const;

 private:
  std::vector<TextSpan> spans_of(const std::vector<fs::path>& files) const;
  // Moves the spans after the training part from train_ to held_.
  void divide();
  Tokenizer make_tokenizer() const;
  Tokenizer learn_pairs() const;
  Tensor encode(const std::vector<TextSpan>& spans, const Tokenizer& tokenizer) const {
    return encode_spans(spans, layout_, tokenizer, is_separated_);
  }
  std::string report(const Tokenizer& tokenizer, int64_t training, int64_t held) const;
  bool is_compressed() const { return std::ranges::any_of(listing_.files, is_compressed_text); }
  Splits load_tokens(const Tokenizer& tokenizer) const;

  const Text& o_;
  TextLayout layout_;
  FolderListing listing_;
  std::vector<TextSpan> train_, held_;
  uint64_t bytes_ = 0;
  bool is_separated_ = false, are_tokens_ = false;
};

Corpus::Corpus(const Text& options) : o_(options), listing_(list_texts(options.path)) {
  using Tokens = Text::Tokens;
  const bool has_pairs = o_.tokenizer == Tokens::kGpt2 || o_.tokenizer == Tokens::kBpe;
  const bool has_pieces = o_.tokenizer == Tokens::kSentencepiece;
  layout_ = {.field = o_.field, .keeps_words = has_pairs, .keeps_lines = has_pieces};
  const auto count = std::ranges::count_if(listing_.files, is_token_file);
  are_tokens_ = count == std::ssize(listing_.files);
  require<InputError>(count == 0 || are_tokens_, o_.path, ": files of tokens (.bin) and of text ",
                      "cannot be read together");
  if (are_tokens_) require_plain_tokens(listing_.files);
  const bool has_lines = std::ranges::any_of(listing_.files, is_json_lines);
  is_separated_ = o_.documents == Text::Documents::kSeparate ||
                  (o_.documents == Text::Documents::kAuto &&
                   (has_lines || ((has_pairs || has_pieces) && listing_.files.size() > 1)));
  train_ = spans_of(listing_.files);
}

std::vector<TextSpan> Corpus::spans_of(const std::vector<fs::path>& files) const {
  std::vector<TextSpan> out;
  for (const fs::path& file : files) {
    check_stop();
    out.push_back({file, 0, text_size(file)});
  }
  return out;
}

// Returns the first byte of the character that contains the byte `at` of a file.
uint64_t begin_of_character(const fs::path& file, uint64_t at) {
  constexpr uint64_t kLongest = 4;
  const uint64_t from = at - std::min(at, kLongest);
  std::string bytes;
  each_text_part({file, from, at + 1}, {}, [&](std::string_view part, bool) { bytes += part; });
  uint64_t back = 0;
  while (at - back > from && at - from < bytes.size() && is_continuation(bytes[at - from - back])) {
    ++back;
  }
  return at - back;
}

void Corpus::divide() {
  if (o_.validation) {
    held_ = spans_of(list_texts(*o_.validation).files);
    return;
  }
  const auto cut = uint64_t(double(bytes_) * (1 - o_.validation_fraction));
  uint64_t before = 0;
  std::vector<TextSpan> train;
  for (TextSpan span : train_) {
    const uint64_t size = span.end, in_file = std::clamp(cut, before, before + size) - before;
    const bool is_cut = in_file > 0 && in_file < size;
    span.end =
        is_cut && !is_json_lines(span.file) ? begin_of_character(span.file, in_file) : in_file;
    if (span.end > 0) train.push_back(span);
    if (span.end < size) held_.push_back({span.file, span.end, size});
    before += size;
  }
  train_ = std::move(train);
}

Tokenizer Corpus::learn_pairs() const {
  // More text would hardly change the most frequent pairs.
  constexpr size_t kMostBytes = 256 << 20;
  BpeTrainer trainer;
  size_t seen = 0;
  for (const TextSpan& span : train_) {
    if (seen >= kMostBytes) break;
    each_text_part(span, layout_, [&](std::string_view part, bool) {
      if (seen < kMostBytes) trainer.add(part);
      seen += part.size();
    });
  }
  const int64_t special = is_separated_ ? 1 : 0;
  return Tokenizer::bpe(trainer.merges(o_.vocabulary_size - 256 - special));
}

Tokenizer Corpus::make_tokenizer() const {
  using Tokens = Text::Tokens;
  if (needs_vocabulary(o_.tokenizer)) {
    return read_vocabulary(o_.tokenizer, o_.vocabulary.value_or(""));
  }
  if (o_.tokenizer == Tokens::kBytes) return Tokenizer::bytes();
  if (o_.tokenizer == Tokens::kBpe) return learn_pairs();
  // The characters of the held-out part are included, as in nanoGPT. Otherwise that part could not
  // be encoded.
  CharacterSet characters;
  for (const auto* spans : {&train_, &held_}) {
    for (const TextSpan& span : *spans) {
      each_text_part(span, layout_, [&](std::string_view part, bool) { characters.add(part); });
    }
  }
  return Tokenizer::of({.kind = Tokenizer::TokenKind::kChars, .tokens = characters.characters()});
}

std::string Corpus::report(const Tokenizer& tokenizer, int64_t training, int64_t held) const {
  const auto files = std::ssize(listing_.files);
  return concat_to_string(
      o_.path, ": ", with_separators(files), files == 1 ? " file, " : " files, ",
      with_separators(int64_t(bytes_)), is_compressed() ? " bytes decompressed" : " bytes",
      "\n  tokens: ", with_separators(training), " training, ", with_separators(held),
      " held out; ", with_separators(tokenizer.size()), " different (", o_.tokenizer, ")",
      is_separated_ ? ", documents separated" : "");
}

Splits Corpus::load_tokens(const Tokenizer& tokenizer) const {
  Tensor train = read_token_files(listing_.files, o_.token_bytes, tokenizer.size()), held;
  if (o_.validation) {
    const std::vector<fs::path> files = list_texts(*o_.validation).files;
    require_plain_tokens(files);
    held = read_token_files(files, o_.token_bytes, tokenizer.size());
  } else {
    const auto cut = int64_t(double(train.numel()) * (1 - o_.validation_fraction));
    held = train.narrow(0, cut, train.numel() - cut);
    train = train.narrow(0, 0, cut);
  }
  Splits out;
  out.report = report(tokenizer, train.numel(), held.numel());
  out.train = windows_of(train, o_.block_size, "the training part of the text");
  out.test = windows_of(held, o_.block_size, "the validation part of the text");
  return out;
}

Splits Corpus::load() {
  for (const TextSpan& span : train_) bytes_ += span.end;
  require<InputError>(bytes_ > 0, "data.path '", o_.path, "' names only empty files");
  Splits out;
  std::shared_ptr<const Tokenizer> made;
  if (are_tokens_) {
    const bool fits = needs_vocabulary(o_.tokenizer) || o_.tokenizer == Text::Tokens::kBytes;
    if (!fits) {
      throw OptionError("tokenizer", concat_to_string("tokenizer: ", o_.path,
                                                      " has tokens; their tokenizer must be gpt2 "
                                                      "or sentencepiece, with its vocabulary, or "
                                                      "bytes"));
    }
    made = std::make_shared<const Tokenizer>(make_tokenizer());
    out = load_tokens(*made);
  } else {
    divide();
    const Tokenizer plain = make_tokenizer();
    made = std::make_shared<const Tokenizer>(is_separated_ ? plain.with_special({Tokenizer::kEnd})
                                                           : plain);
    const Tensor train = encode(train_, *made), held = encode(held_, *made);
    out.report = report(*made, train.numel(), held.numel());
    out.train = windows_of(train, o_.block_size, "the training part of the text");
    out.test = windows_of(held, o_.block_size, "the validation part of the text");
  }
  out.task = Task::kLanguage;
  out.input_shape = {o_.block_size};
  out.outputs = made->size();
  out.tokenizer = made;
  out.note = listing_.left_out.to_text();
  return out;
}

Tensor Corpus::tokens(const Tokenizer& tokenizer) const {
  if (are_tokens_) return read_token_files(listing_.files, o_.token_bytes, tokenizer.size());
  const bool is_separated = is_separated_ && tokenizer.special_id(Tokenizer::kEnd);
  return encode_spans(train_, layout_, tokenizer, is_separated);
}

// Returns one row per line. Its inputs begin with "\n" and end with the line's last token. Its
// targets begin with the line's first token and end with "\n".
Batch line_rows(const Tokenizer& tokenizer, std::string_view text, int64_t block) {
  const int64_t end = tokenizer.encode("\n").at(0);
  std::vector<int64_t> inputs, targets;
  for (size_t at = 0, stop = 0; at < text.size(); at = stop + 1) {
    check_stop();
    stop = std::min(text.find('\n', at), text.size());
    std::string_view line = text.substr(at, stop - at);
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (line.empty()) continue;
    const std::vector<int64_t> tokens = tokenizer.encode(line);
    const int64_t room = block - 1 - std::ssize(tokens);
    if (room < 0) {
      throw ValueError("line ", 1 + std::count(text.begin(), text.begin() + int64_t(at), '\n'),
                       " of the text has ", tokens.size(), " tokens: data.block_size must be ",
                       "at least ", tokens.size() + 1, ", got ", block);
    }
    inputs.push_back(end);
    inputs.insert(inputs.end(), tokens.begin(), tokens.end());
    inputs.insert(inputs.end(), size_t(room), end);
    targets.insert(targets.end(), tokens.begin(), tokens.end());
    targets.push_back(end);
    targets.insert(targets.end(), size_t(room), kIgnoredTarget);
  }
  const Shape shape = {std::ssize(inputs) / block, block};
  return {tensor_of(inputs.data(), shape), tensor_of(targets.data(), shape)};
}

}  // namespace

FolderListing list_texts(const std::string& path) try {
  FolderListing listing;
  std::vector<fs::path>& files = listing.files;
  std::error_code ignored;
  glob_t found{};
  if (fs::is_directory(path, ignored)) {
    listing = files_below(path, [](const fs::path&) { return true; });
  } else if (fs::exists(path, ignored)) {
    files.emplace_back(path);
  } else if (path.size() > kMaxPattern || alternatives_of(path) > kMaxAlternatives) {
    throw InputError("data.path ", in_quotes(path), ": its groups {a,b} make more than ",
                     kMaxAlternatives, " patterns, or it is longer than ", kMaxPattern,
                     " bytes; name a directory");
  } else if (glob(path.c_str(), GLOB_BRACE, nullptr, &found) == 0) {
    for (size_t i = 0; i < found.gl_pathc; ++i) {
      if (!fs::is_directory(found.gl_pathv[i])) files.emplace_back(found.gl_pathv[i]);
    }
  }
  globfree(&found);
  std::ranges::sort(files);
  if (!files.empty()) return listing;
  throw InputError("data.path '", path, "' names no file: expected a text file, ",
                   "a directory of some, or a pattern such as 'src/*.cpp'");
} catch (const fs::filesystem_error& error) {
  throw InputError(error.what());
}

std::vector<fs::path> find_texts(const std::string& path) { return list_texts(path).files; }

std::string read_texts(const std::string& path) {
  std::string text;
  for (const fs::path& file : find_texts(path)) {
    check_stop();
    const std::string part = read_text_file(file);
    require<InputError>(part.find('\0') == std::string::npos, file.string(),
                        ": expected text, got a file with a zero byte");
    text += part;
  }
  if (text.empty()) throw InputError("data.path '", path, "' names only empty files");
  return text;
}

// Loads a text whose lines are sequences of their own.
static Splits load_lines(const Text& o, uint64_t seed) {
  const std::string text = read_texts(o.path);
  const auto make = [&] {
    using Tokens = Text::Tokens;
    if (needs_vocabulary(o.tokenizer)) {
      return read_vocabulary(o.tokenizer, o.vocabulary.value_or(""));
    }
    if (o.tokenizer == Tokens::kBytes) return Tokenizer::bytes();
    if (o.tokenizer == Tokens::kChars) return Tokenizer::chars(text + "\n");
    BpeTrainer trainer;
    trainer.add(text);
    return Tokenizer::bpe(trainer.merges(o.vocabulary_size - 256));
  };
  const auto made = std::make_shared<const Tokenizer>(make());
  const DataInfo info{.task = Task::kLanguage,
                      .input_shape = {o.block_size},
                      .outputs = made->size(),
                      .tokenizer = made,
                      .lines = true};
  Splits out =
      splits_of(info, random_split(line_rows(*made, text, o.block_size), o.validation_fraction,
                                   seed, "data.validation_fraction"));
  out.note = list_texts(o.path).left_out.to_text();
  return out;
}

Splits Text::load(uint64_t seed) const try {
  return lines ? load_lines(*this, seed) : Corpus(*this).load();
} catch (const ValueError& error) {
  throw InputError(path, ": ", error.what());
}

std::vector<DataFile> Text::files() const {
  std::vector<DataFile> out;
  if (vocabulary) out = vocabulary_files(*vocabulary);
  out.push_back({path, find_texts(path)});  // read as one file, as for training
  if (validation) out.push_back({*validation, find_texts(*validation)});
  return out;
}

DatasetPtr Text::more(const DataInfo& info, const fs::path& file) const try {
  require<InputError>(info.tokenizer != nullptr, file.string(), ": the training data were no text");
  Text other = *this;
  other.path = file.string();
  const int64_t block = info.input_shape[0];
  if (info.lines) {
    return std::make_shared<TensorDataset>(
        line_rows(*info.tokenizer, read_texts(other.path), block));
  }
  return windows_of(Corpus(other).tokens(*info.tokenizer), block, "the text");
} catch (const ValueError& error) {
  throw InputError(file.string(), ": ", error.what());
}

}  // namespace taper::v0::data
