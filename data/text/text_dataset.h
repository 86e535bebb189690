// Text as a data source for language models.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "data/folders.h"
#include "data/source.h"
#include "framework/base/describe.h"
#include "framework/base/text_enum.h"

namespace taper::v0::data {

// Lists the file, all files below a directory (as files_below() does), or all files that match a
// pattern such as "src/*.{h,cpp}", sorted by path. Throws InputError if there is none, or if the
// pattern has too many {a,b}.
FolderListing list_texts(const std::string& path);
std::vector<std::filesystem::path> find_texts(const std::string& path);
// Returns the concatenated bytes of the files. Throws InputError if a file cannot be read or
// contains a zero byte, or if all are empty.
std::string read_texts(const std::string& path);

// Text as a data source. A sample is a window of block_size tokens, or one line. Targets are the
// inputs shifted by one token. Throws the errors of read_texts() and of the tokenizer, and
// InputError for a text or line that does not fit block_size.
struct Text {
  using Tokens = Tokenizer::TokenKind;

  std::string path;  // as for find_texts()
  Tokens tokenizer = Tokens::kChars;
  std::optional<std::string> vocabulary{};  // kGpt2: the directory with encoder.json and vocab.bpe
  int64_t block_size = 256;
  double validation_fraction = 0.1;  // taken from the end of the text
  bool lines = false;                // each line is a sequence of its own

  template <class V> void describe(V& v) {
    v("path", path, kPath, "a file, a directory or a glob pattern such as \"src/*.cpp\"")
        .required();
    v("tokenizer", tokenizer, "how text is split into tokens");
    v("vocabulary", vocabulary, kPath, "gpt2: directory of encoder.json and vocab.bpe")
        .idle_when("the tokenizer is not gpt2", [this] { return tokenizer != Tokens::kGpt2; });
    v("block_size", block_size, kWidth, "length of a sequence, in tokens");
    v("validation_fraction", validation_fraction, kBetweenZeroAndOne,
      "fraction at the end of the text for evaluation");
    v("lines", lines, "treat each line as a separate sequence, as in a list of names");
  }
  template <class V> void rules(V& v) {
    v("tokenizer", "needs a 'vocabulary': the directory of encoder.json and vocab.bpe",
      [this] { return tokenizer != Tokens::kGpt2 || vocabulary; });
  }

  Task learns() const { return Task::kLanguage; }
  Splits load(uint64_t seed) const;
  std::vector<DataFile> files() const;
  DatasetPtr more(const DataInfo& info, const std::filesystem::path& file) const;
};

}  // namespace taper::v0::data
