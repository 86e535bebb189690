// Texts that have a class or a value each.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "data/tables/table.h"
#include "data/tokenizer.h"

namespace taper::v0::data {

// The data type `labeled_text`: a table with a column of texts, or a folder with a folder of .txt
// files for each class. A folder may have such folders in `train`, `test` and, if it likes,
// `validation`. The inputs of a model are the first `length` tokens of a text, [length] int32.
// Shorter texts are filled up with Tokenizer::kPadding. Everything else is as in a table, of which
// the other columns are not used.
struct LabeledText : Table {
  using Tokens = Tokenizer::TokenKind;

  std::string text{};  // the column of texts
  Tokens tokenizer = Tokens::kWordTokens;
  std::optional<std::string> vocabulary{};  // kGpt2: a directory; kSentencepiece: a file
  int64_t vocabulary_size = 20'000;         // kWordTokens, kBpe
  int64_t length = 0;                       // 0: chosen from the training texts
  bool group_by_length = true;

  template <class V> void describe(V& v) {
    v("path", path, kPath,
      "files with the rows, joined by column name, or a folder with a folder of .txt files for "
      "each class")
        .required();
    v("text", text, "column of the texts; not needed for a folder");
    v("target", target,
      "columns to predict: names or indices; several are values, or labels of two values each; not "
      "needed for a folder");
    describe_task(v);
    v("tokenizer", tokenizer,
      "tokens of the texts; words: the most frequent ones of the training texts, in lower case; "
      "bpe: learned from the training texts");
    v("vocabulary", vocabulary, kPath,
      "gpt2: directory of encoder.json and vocab.bpe, or of vocab.json and merges.txt; "
      "sentencepiece: a model file")
        .idle_when("the tokenizer is not gpt2 or sentencepiece",
                   [this] { return !needs_vocabulary(tokenizer); });
    v("vocabulary_size", vocabulary_size, {1, 10'000'000},
      "words, bpe: most tokens of the vocabulary");
    v("length", length, {0, 1'000'000},
      "tokens of a text that are used, from its beginning; 0: enough for 95 % of the training "
      "texts, at most 256");
    v("group_by_length", group_by_length,
      "lstm_classifier, encoder_classifier: train on batches of texts of similar length, with less "
      "padding");
    v("columns", columns, {"keep", "weight", "ignore"},
      "columns that predictions repeat, and the weight of a row, by name or pattern");
    v("missing", missing, "missing values");
    describe_reading(v);
    v("log_target", log_target, "values: train on the logarithm of the target");
    describe_balance(v);
  }
  template <class V> void rules(V& v) {
    Table::rules(v);
    v("vocabulary_size", "must be at least 257 for bpe: the bytes and a merge",
      [this] { return tokenizer != Tokens::kBpe || vocabulary_size > 256; });
    v("tokenizer", "needs a 'vocabulary': the directory of encoder.json and vocab.bpe",
      [this] { return tokenizer != Tokens::kGpt2 || vocabulary; });
    v("tokenizer", "needs a 'vocabulary': the model file of sentencepiece",
      [this] { return tokenizer != Tokens::kSentencepiece || vocabulary; });
  }

  Splits load(uint64_t seed) const;
  std::vector<DataFile> files() const;
  // A table's columns are found by name. The file may also be a folder or a .txt file.
  DatasetPtr more(const DataInfo& info, const std::filesystem::path& file) const;
  // Reads neither targets nor weights.
  DatasetPtr unlabeled(const DataInfo& info, const std::filesystem::path& file) const;
  KeptColumns kept(const DataInfo& info, const std::filesystem::path& file) const;
  DType raw_dtype(const DataInfo&) const { return kInt64; }
};

}  // namespace taper::v0::data
