#include "data/text/text_dataset.h"

#include <algorithm>
#include <memory>

#include <glob.h>

#include "framework/base/cancel.h"
#include "framework/factory/factories.h"
#include "framework/io/input_file.h"
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

Tokenizer tokenizer_of(const Text& config, const std::string& text) {
  if (config.tokenizer == Text::Tokens::kGpt2)
    return Tokenizer::gpt2(config.vocabulary.value_or(""));
  if (config.tokenizer == Text::Tokens::kBytes) return Tokenizer::bytes();
  // The characters of the held-out part are included, as in nanoGPT. Otherwise that part could not
  // be encoded.
  return Tokenizer::chars(config.lines ? text + "\n" : text);
}

DatasetPtr windows_of(const Tokenizer& tokenizer, std::string_view text, int64_t block,
                      const char* what) {
  const std::vector<int64_t> ids = tokenizer.encode(text);
  const int64_t count = std::ssize(ids);
  if (count > block) return std::make_shared<WindowDataset>(tensor_of(ids.data(), {count}), block);
  throw ValueError("the ", what, " part of the text has ", count,
                   " tokens, but a sample takes data.block_size + 1 = ", block + 1,
                   ": lower block_size, or take more text");
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
    const std::string part = read_file(file, "text");
    require<InputError>(part.find('\0') == std::string::npos, file.string(),
                        ": expected text, got a file with a zero byte");
    text += part;
  }
  if (text.empty()) throw InputError("data.path '", path, "' names only empty files");
  return text;
}

Splits Text::load(uint64_t seed) const try {
  const std::string text = read_texts(path);
  const auto made = std::make_shared<const Tokenizer>(tokenizer_of(*this, text));
  const DataInfo info{.task = Task::kLanguage,
                      .input_shape = {block_size},
                      .outputs = made->size(),
                      .tokenizer = made,
                      .lines = lines};
  const std::string note = list_texts(path).left_out.to_text();
  if (lines) {
    Splits out =
        splits_of(info, random_split(line_rows(*made, text, block_size), validation_fraction, seed,
                                     "data.validation_fraction"));
    out.note = note;
    return out;
  }
  // As in nanoGPT: first split, then encode each part. The split is not within a character.
  size_t cut = size_t(double(text.size()) * (1 - validation_fraction));
  while (cut > 0 && is_continuation(text[cut])) --cut;
  const std::string_view all = text;
  return {info, windows_of(*made, all.substr(0, cut), block_size, "training"),
          windows_of(*made, all.substr(cut), block_size, "validation"), note};
} catch (const ValueError& error) {
  throw InputError(path, ": ", error.what());
}

std::vector<DataFile> Text::files() const {
  std::vector<DataFile> out;
  if (vocabulary) out = files_in(*vocabulary);
  out.push_back({path, find_texts(path)});  // read as one file, as for training
  return out;
}

DatasetPtr Text::more(const DataInfo&, const fs::path&) const {
  throw InputError("a model of text takes a prompt, not a file of samples");
}

}  // namespace taper::v0::data
