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

// Text for language models as a data source. A sample is a window of block_size tokens, or one
// line. Targets are the inputs shifted by one token. Files are texts or JSON lines, which may be
// compressed by gzip or zstd, or tokens (.bin).
// In memory a token takes one, two or four bytes; a single file of tokens is mapped.
//
// Errors: InputError with the file, and the line if it is known, for a text that cannot be read or
// encoded, and for a text or line that does not fit block_size.
struct Text {
  using Tokens = Tokenizer::TokenKind;

  struct DocumentsValues {
    enum class Value : uint8_t { kAuto, kSeparate, kJoined };
    static constexpr Value kAuto = Value::kAuto, kSeparate = Value::kSeparate,
                           kJoined = Value::kJoined;
    static constexpr const char* kOption = "documents";
    static constexpr const char* kWords[] = {"auto", "separate", "joined"};
  };
  using Documents = TextEnum<DocumentsValues>;

  std::string path;  // as for find_texts()
  Tokens tokenizer = Tokens::kChars;
  std::optional<std::string> vocabulary{};  // kGpt2: a directory; kSentencepiece: a file
  int64_t vocabulary_size = 4096;           // kBpe
  int64_t block_size = 256;
  double validation_fraction = 0.1;         // taken from the end of the text
  std::optional<std::string> validation{};  // files to take instead, as for find_texts()
  bool lines = false;                       // each line is a sequence of its own
  std::string field = "text";               // of JSON lines
  Documents documents = Documents::kAuto;
  int64_t token_bytes = 2;  // of files of tokens

  template <class V> void describe(V& v) {
    v("path", path, kPath,
      "a file, a directory or a glob pattern such as \"src/*.cpp\"; .jsonl files have a text in "
      "each line, .bin files have tokens; texts may be compressed by gzip or zstd")
        .required();
    v("tokenizer", tokenizer, "how text is split into tokens; bpe: learned from the training part");
    v("vocabulary", vocabulary, kPath,
      "gpt2: directory of encoder.json and vocab.bpe, or of vocab.json and merges.txt; "
      "sentencepiece: a model file")
        .idle_when("the tokenizer is not gpt2 or sentencepiece",
                   [this] { return !needs_vocabulary(tokenizer); });
    v("vocabulary_size", vocabulary_size, {257, 1'000'000}, "bpe: number of tokens")
        .idle_when("the tokenizer is not bpe", [this] { return tokenizer != Tokens::kBpe; });
    v("block_size", block_size, kWidth, "length of a sequence, in tokens");
    v("validation_fraction", validation_fraction, kBetweenZeroAndOne,
      "fraction at the end of the text for evaluation");
    v("validation", validation, kPath,
      "files for evaluation, in place of the end of the text: as path");
    v("lines", lines, "treat each line as a separate sequence, as in a list of names");
    v("field", field, "key of the text in .jsonl files");
    v("documents", documents,
      "separate: the token <|endoftext|> follows each file, or each line of .jsonl files; auto: "
      "for .jsonl files, and for several files with bpe or gpt2");
    v("token_bytes", token_bytes, {2, 4}, "bytes of a token in .bin files: 2 or 4");
  }
  template <class V> void rules(V& v) {
    v("tokenizer", "needs a 'vocabulary': the directory of encoder.json and vocab.bpe",
      [this] { return tokenizer != Tokens::kGpt2 || vocabulary; });
    v("tokenizer", "needs a 'vocabulary': the model file of sentencepiece",
      [this] { return tokenizer != Tokens::kSentencepiece || vocabulary; });
    v("tokenizer", "words is for texts with a class or value (type: labeled_text); take bpe",
      [this] { return tokenizer != Tokens::kWordTokens; });
    v("token_bytes", "must be 2 or 4", [this] { return token_bytes != 3; });
    v("tokenizer", "sentencepiece is not for 'lines: true': its models have no line ends",
      [this] { return tokenizer != Tokens::kSentencepiece || !lines; });
    v("validation", "is not for 'lines: true'", [this] { return !validation || !lines; });
  }

  Task learns() const { return Task::kLanguage; }
  Splits load(uint64_t seed) const;
  std::vector<DataFile> files() const;
  // Returns the windows or lines of another text, for evaluations.
  DatasetPtr more(const DataInfo& info, const std::filesystem::path& file) const;
};

}  // namespace taper::v0::data
