// Texts with a class or a value each.
#include "data/text/labeled_text.h"

#include <numeric>
#include <set>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "data/tables/table_encoding.h"
#include "data/tokenizers/vocabulary.h"
#include "framework/base/log.h"
#include "framework/factory/factories.h"
#include "tests/data/gzip.h"
#include "tests/data_files.h"
#include "tests/text.h"

namespace taper::v0::data {
namespace {

using Ids = std::vector<int64_t>;
using Words = std::vector<std::string>;

class LabeledTexts : public DataFiles {
 protected:
  // Writes a table of 60 texts, whose lengths differ.
  std::string table() const {
    std::string text = "id,review,kind,score\n";
    for (int i = 0; i < 60; ++i) {
      text += concat_to_string("r", i, ",\"", i % 2 ? "Good" : "BAD");
      for (int k = 0; k < i % 7; ++k) text += concat_to_string(" w", k);
      text += concat_to_string("\",", i % 2 ? "yes" : "no", ",", i % 2 + i / 60.0, "\n");
    }
    return write("t.csv", text);
  }
  LabeledText of_table(const std::string& target = "kind") const {
    LabeledText out;
    out.path = {table()};
    out.text = "review";
    out.target = {target};
    return out;
  }
};

Words words_of(std::string_view text) {
  Words out;
  each_word(text, [&](std::string_view word) { out.emplace_back(word); });
  return out;
}

TEST(Words, AreRunsOfLettersAndDigitsInLowerCase) {
  const struct {
    std::string text;
    Words words;
  } rows[] = {
      {"", {}},
      {" \t\n", {}},
      {"The Film, 2nd part!", {"the", "film", ",", "2nd", "part", "!"}},
      {"don't 'quote' rock'n'roll '", {"don't", "'", "quote", "'", "rock'n'roll", "'"}},
      {"caf\xc3\x89 \xc3\x84pfel", {"caf\xc3\xa9", "\xc3\xa4pfel"}},
      {"e\xcc\x81t\xc3\xa9", {"e\xcc\x81t\xc3\xa9"}},
      {"a\xc2\xa0"
       "b\xe3\x80\x80"
       "c",
       {"a", "b", "c"}},
      {"\xf0\x9f\x98\x80ok", {"\xf0\x9f\x98\x80", "ok"}},
      {"\xff", {"\xff"}},
      {"1,234.5", {"1", ",", "234", ".", "5"}},
  };
  for (const auto& row : rows) EXPECT_EQ(words_of(row.text), row.words) << row.text;
}

TEST(Words, TheMostFrequentOnesAreChosenInAFixedOrder) {
  WordCounts counts;
  counts.add("b b b a a c c d");
  EXPECT_EQ(counts.most_frequent(10), (Words{"b", "a", "c"}));
  EXPECT_EQ(counts.most_frequent(2), (Words{"b", "a"}));
  EXPECT_EQ(counts.distinct(), 4);
  EXPECT_EQ(counts.total(), 8);
  EXPECT_EQ(counts.count("c"), 2);
  EXPECT_EQ(counts.count("x"), 0);
}

TEST(Words, ATokenizerOfWordsHasAnIdForUnknownOnes) {
  const Tokenizer t = Tokenizer::words({"b", "a"});
  EXPECT_EQ(t.size(), 4);
  EXPECT_EQ(t.special_id(Tokenizer::kPadding), 2);
  EXPECT_EQ(t.special_id(Tokenizer::kUnknown), 3);
  EXPECT_EQ(t.special_id(Tokenizer::kEnd), std::nullopt);
  EXPECT_EQ(t.encode("A b, b"), (Ids{1, 0, 3, 0}));
  EXPECT_EQ(t.decode(Ids{1, 0, 3, 2}), "a b <unk> <pad>");
  const Tokenizer again = Tokenizer::of(t.parts());
  EXPECT_EQ(again.encode("A b, b"), (Ids{1, 0, 3, 0}));
  EXPECT_THROW(Tokenizer::words({}), ValueError);
  EXPECT_THROW(Tokenizer::of({.kind = Tokenizer::TokenKind::kWordTokens, .tokens = {"a"}}),
               ValueError);
  const Tokenizer bytes = Tokenizer::bytes().with_special({Tokenizer::kEnd});
  EXPECT_EQ(bytes.size(), 257);
  EXPECT_EQ(bytes.with_special({Tokenizer::kEnd}).size(), 257);
  EXPECT_EQ(bytes.decode(Ids{97, 256}), "a<|endoftext|>");
  const Tokenizer chars = Tokenizer::chars("ab").with_special({Tokenizer::kUnknown});
  EXPECT_EQ(chars.encode("abc"), (Ids{0, 1, 2}));
}

TEST_F(LabeledTexts, ATableBecomesPaddedTokensAndClasses) {
  const Splits parts = of_table().load(0);
  EXPECT_EQ(parts.task, Task::kClassification);
  EXPECT_EQ(parts.class_names, (Words{"no", "yes"}));
  EXPECT_EQ(parts.input_shape, (Shape{8}));  // 7 tokens at most, in steps of 8
  EXPECT_EQ(parts.train->size() + parts.test->size(), 60);
  const int64_t padding = *parts.tokenizer->special_id(Tokenizer::kPadding);
  const Batch batch = parts.train->get(arange(parts.train->size()));
  EXPECT_EQ(batch.inputs.shape(), (Shape{parts.train->size(), 8}));
  for (int64_t i = 0; i < batch.inputs.size(0); ++i) {
    const Ids ids = batch.inputs[i].to(kInt64).to_vector<int64_t>();
    const bool is_good = batch.targets[i].item<int64_t>() == 1;
    EXPECT_EQ(ids[0], parts.tokenizer->encode(is_good ? "good" : "bad")[0]);
    EXPECT_EQ(ids[7], padding);
  }
  EXPECT_TRUE(contains(parts.report, "review  text ")) << parts.report;
  EXPECT_TRUE(contains(parts.report, "the 8 most frequent of 8 words, 100.0 % of the text"))
      << parts.report;
  EXPECT_TRUE(contains(parts.report, "8 used, which cuts 0 of ")) << parts.report;
}

TEST_F(LabeledTexts, TheVocabularyIsThatOfTheTrainingPart) {
  std::string rows = "text,y,part\n";
  for (int i = 0; i < 20; ++i) rows += concat_to_string("common,", i % 2, ",train\n");
  for (int i = 0; i < 20; ++i) rows += concat_to_string("hidden,", i % 2, ",test\n");
  LabeledText o;
  o.path = {write("t.csv", rows)};
  o.text = "text";
  o.target = {"y"};
  o.split = {.by = TableSplit::By::kColumn, .column = "part"};
  const Splits parts = o.load(0);
  EXPECT_EQ(parts.tokenizer->parts().tokens, (Words{"common"}));
  const Batch test = parts.test->get(arange(1));
  EXPECT_EQ(test.inputs[0][0].item<int64_t>(), *parts.tokenizer->special_id(Tokenizer::kUnknown));
}

TEST_F(LabeledTexts, LongTextsAreCutAndValuesAreTargets) {
  LabeledText o = of_table("score");
  o.length = 3;
  o.tokenizer = LabeledText::Tokens::kChars;
  const Splits parts = o.load(0);
  EXPECT_EQ(parts.task, Task::kRegression);
  EXPECT_EQ(parts.input_shape, (Shape{3}));
  const Batch batch = parts.train->get(arange(1));
  const std::string text = parts.tokenizer->decode(batch.inputs[0].to(kInt64).to_vector<int64_t>());
  EXPECT_TRUE(text == "Goo" || text == "BAD") << text;
}

TEST_F(LabeledTexts, FoldersNameTheClasses) {
  for (const char* part : {"train", "test"}) {
    for (int i = 0; i < 8; ++i) {
      write(concat_to_string("d/", part, "/good/", i, ".txt"), "good film");
      write(concat_to_string("d/", part, "/bad/", i, ".txt"), "bad film");
      write(concat_to_string("d/", part, "/bad/", i, ".html"), "not a text");
    }
  }
  LabeledText o;
  o.path = {(directory_ / "d").string()};
  const Splits parts = o.load(0);
  EXPECT_EQ(parts.class_names, (Words{"bad", "good"}));
  EXPECT_EQ(parts.test->size(), 16);
  EXPECT_EQ(parts.train->size(), 16);
  EXPECT_TRUE(contains(parts.report, "left out: 16 .html")) << parts.report;
  const DatasetPtr more = o.more(parts, directory_ / "d/test");
  EXPECT_EQ(more->size(), 16);
  EXPECT_EQ(more->fields(), (Words{"inputs", "targets"}));
  const DatasetPtr one = o.more(parts, directory_ / "d/test/bad/0.txt");
  EXPECT_EQ(one->size(), 1);
  EXPECT_EQ(one->fields(), (Words{"inputs"}));
  const KeptColumns kept = o.kept(parts, directory_ / "d/test/bad");
  EXPECT_EQ(kept.names, (Words{"file"}));
  ASSERT_EQ(kept.rows.size(), 8u);
  EXPECT_TRUE(kept.rows[0][0].ends_with("0.txt"));
}

TEST_F(LabeledTexts, CompressedTextsAreReadLikePlainOnes) {
  for (int i = 0; i < 12; ++i) {
    write(concat_to_string("d/good/", i, ".txt.gz"), gzip("good film"));
    write(concat_to_string("d/bad/", i, i % 2 ? ".txt" : ".TXT.gz"),
          i % 2 ? "bad film" : gzip("bad film"));
  }
  LabeledText folder;
  folder.path = {(directory_ / "d").string()};
  const Splits parts = folder.load(0);
  EXPECT_EQ(parts.train->size() + parts.test->size(), 24);
  EXPECT_EQ(parts.tokenizer->parts().tokens, (Words{"film", "bad", "good"}));
  EXPECT_EQ(folder.more(parts, directory_ / "d/bad/0.TXT.gz")->size(), 1);
  std::string lines;
  for (int i = 0; i < 40; ++i) {
    lines +=
        concat_to_string("{\"review\": \"", i % 2 ? "good" : "bad", "\", \"kind\": ", i % 2, "}\n");
  }
  LabeledText table = of_table();
  table.path = {write("t.jsonl.gz", gzip(lines))};
  const Splits rows = table.load(0);
  EXPECT_EQ(rows.train->size() + rows.test->size(), 40);
  const std::string cut = write("d/good/0.txt.gz", gzip("good film").substr(0, 20));
  EXPECT_TRUE(contains(refusal_of<InputError>([&] { folder.load(0); }),
                       cut + ": cannot decompress it: it ends early"));
  write("d/good/0.txt.gz", gzip(std::string(17u << 20, 'a')));
  EXPECT_EQ(refusal_of<InputError>([&] { folder.load(0); }),
            cut +
                ": a text of 17 MiB; the most is 16 MiB. A language model (`type: text`) reads "
                "long texts");
}

TEST_F(LabeledTexts, WhatCannotBeReadIsRefusedInOneMessage) {
  const std::string good = write("f/good/a.txt", "good film good film");
  write("f/bad/a.txt", "line 1\nline \xff 2\n");
  LabeledText o;
  o.path = {(directory_ / "f").string()};
  const std::string bad = (directory_ / "f/bad/a.txt").string();
  EXPECT_EQ(refusal_of<InputError>([&] { o.load(0); }),
            bad + ":2: not UTF-8; `iconv -f latin1 -t utf-8` converts Latin-1");
  std::filesystem::resize_file(bad, 1 << 30);  // takes no space on the disk
  EXPECT_EQ(refusal_of<InputError>([&] { o.load(0); }),
            bad +
                ": a text of 1024 MiB; the most is 16 MiB. A language model (`type: text`) reads "
                "long texts");
  o.path = {write("empty/note.md", "x").substr(0, directory_.string().size() + 6)};
  EXPECT_TRUE(
      contains(refusal_of<InputError>([&] { o.load(0); }),
               "no .txt files; left out: 1 .md; expected a folder of them, or one for each class"));
  LabeledText table = of_table();
  table.text = "revue";
  EXPECT_TRUE(contains(refusal_of<OptionError>([&] { table.load(0); }), "'revue'"));
  table.text.clear();
  EXPECT_TRUE(contains(refusal_of<OptionError>([&] { table.load(0); }), "text: which column of "));
  LabeledText once = of_table();
  once.path = {write("once.csv", "review,kind\na,x\nb,y\nc,x\nd,y\ne,x\nf,y\n")};
  EXPECT_TRUE(contains(refusal_of<DataError>([&] { once.load(0); }), "no word occurs twice"));
}

TEST_F(LabeledTexts, TheTargetIsNoText) {
  LabeledText o = of_table();
  o.target = {"review"};
  EXPECT_TRUE(contains(refusal_of<OptionError>([&] { o.load(0); }),
                       "column 'review' is given as text and as target"));
}

// The name of a table may end in .txt, and so may those of further tables for its model.
TEST_F(LabeledTexts, ATableMayHaveTheNameOfAText) {
  std::string rows = "review\tkind\n";
  for (int i = 0; i < 40; ++i) rows += i % 2 ? "good film\tyes\n" : "bad film\tno\n";
  LabeledText o = of_table();
  o.path = {write("t.txt", rows)};
  const Splits parts = o.load(0);
  EXPECT_EQ(parts.train->size() + parts.test->size(), 40);
  EXPECT_EQ(o.more(parts, write("new.txt", "review\tx\ngood\t1\nbad\t2\n"))->size(), 2);
  EXPECT_EQ(o.files().at(0).parts.size(), 1u);
}

// Blanks, commas and semicolons separate no cells in a file whose only column is that of the texts.
TEST_F(LabeledTexts, FurtherTextsMayBeTheOnlyColumn) {
  LabeledText o = of_table();
  const Splits parts = o.load(0);
  const int64_t good = parts.tokenizer->encode("good")[0];
  for (const std::string text :
       {"review\ngood w0 w1\nbad w0 w1\n", "review\r\ngood, w0\r\nbad; w1\r\n",
        "\xef\xbb\xbf\"review\"\n\"good, w0\"\nbad\n", "review\ngood\nbad",
        "review\ngood, w0; w1 w2\nbad\n"}) {
    const DatasetPtr more = o.more(parts, write("new.csv", text));
    ASSERT_EQ(more->size(), 2) << text;
    EXPECT_EQ(more->get(arange(1)).inputs[0][0].item<int64_t>(), good) << text;
  }
}

TEST_F(LabeledTexts, AnEmptyTextHasOneUnknownToken) {
  LabeledText o = of_table();
  const Splits parts = o.load(0);
  const DatasetPtr more = o.more(parts, write("new.csv", "review,x\n\"\",1\n...,2\n"));
  const Batch batch = more->get(arange(2));
  const int64_t unknown = *parts.tokenizer->special_id(Tokenizer::kUnknown);
  EXPECT_EQ(batch.inputs[0][0].item<int64_t>(), unknown);
  EXPECT_FALSE(batch.targets.defined());
}

}  // namespace
}  // namespace taper::v0::data
