// Texts and tokens of language models in files of any size.
#include "data/text/token_files.h"

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "data/text/text_dataset.h"
#include "data/tokenizers/bpe.h"
#include "framework/factory/factories.h"
#include "tests/data/gzip.h"
#include "tests/data_files.h"
#include "tests/text.h"

namespace taper::v0::data {
namespace {

using Ids = std::vector<int64_t>;
namespace fs = std::filesystem;

class TokenFiles : public DataFiles {
 protected:
  Text text_of(const std::string& name, int64_t block = 4) const {
    return {.path = (directory_ / name).string(), .block_size = block};
  }
  // Returns the tokens of a part of the data, which the windows read as int64.
  static Ids ids_of(const DatasetPtr& part) {
    const auto& windows = dynamic_cast<const WindowDataset&>(*part);
    const int64_t last = windows.places() - 1;
    Ids out;
    for (int64_t i = 0; i <= last; ++i) {
      const Batch one = part->get(tensor_of(&i, {1}));
      if (i == 0) out = one.inputs.to_vector<int64_t>();
      out.push_back(one.targets.to_vector<int64_t>().back());
    }
    return out;
  }
  std::string write_tokens(const std::string& name, const std::vector<uint16_t>& ids) const {
    return write(name, {reinterpret_cast<const char*>(ids.data()), 2 * ids.size()});
  }
};

TEST_F(TokenFiles, TokensTakeAsFewBytesAsTheVocabularyNeeds) {
  EXPECT_EQ(token_dtype(256), kUInt8);
  EXPECT_EQ(token_dtype(257), kInt16);
  EXPECT_EQ(token_dtype(1 << 16), kInt16);
  EXPECT_EQ(token_dtype((1 << 16) + 1), kInt32);
  write("t.txt", std::string(20'000, 'a') + std::string(20'000, 'b'));
  const Splits chars = text_of("t.txt").load(0);
  EXPECT_EQ(chars.train->nbytes() + chars.test->nbytes(), 40'000u);
}

TEST_F(TokenFiles, Int16TokensAreUnsigned) {
  const std::vector<uint16_t> ids = {1, 40'000, 65'535, 0, 7, 50'256, 2, 3};
  const Tensor tokens = read_token_files({write_tokens("t.bin", ids)}, 2, 65'536);
  EXPECT_EQ(tokens.dtype(), kInt16);
  const WindowDataset windows(tokens, 3);
  const int64_t row = 1;
  const Batch batch = windows.get(tensor_of(&row, {1}));
  EXPECT_EQ(batch.inputs.dtype(), kInt64);
  EXPECT_EQ(batch.inputs.to_vector<int64_t>(), (Ids{40'000, 65'535, 0}));
  EXPECT_EQ(batch.targets.to_vector<int64_t>(), (Ids{65'535, 0, 7}));
  EXPECT_THROW(WindowDataset(ones({5}), 2), ValueError);
}

TEST_F(TokenFiles, FilesOfTokensAreReadOneOrSeveral) {
  write_tokens("d/a.bin", {1, 2, 3, 4, 5, 6, 7, 8, 9, 10});
  write_tokens("d/b.bin", {11, 12, 13, 14, 15, 16, 17, 18, 19, 20});
  Text o = text_of("d", 2);
  o.tokenizer = Text::Tokens::kBytes;
  o.validation_fraction = 0.25;
  const Splits both = o.load(0);
  EXPECT_EQ(ids_of(both.train), (Ids{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15}));
  EXPECT_EQ(ids_of(both.test), (Ids{16, 17, 18, 19, 20}));
  Text one = text_of("d/a.bin", 2);
  one.tokenizer = Text::Tokens::kBytes;
  one.validation = (directory_ / "d/b.bin").string();
  EXPECT_EQ(ids_of(one.load(0).train), (Ids{1, 2, 3, 4, 5, 6, 7, 8, 9, 10}));
  EXPECT_EQ(ids_of(one.load(0).test), (Ids{11, 12, 13, 14, 15, 16, 17, 18, 19, 20}));
}

TEST_F(TokenFiles, HostileFilesOfTokensAreRefused) {
  Text o = text_of("t.bin", 2);
  write_tokens("t.bin", {1, 2, 3, 4, 5, 6, 7, 8, 9, 300});
  EXPECT_TRUE(contains(refusal_of<OptionError>([&] { o.load(0); }), "has tokens; their tokenizer"));
  o.tokenizer = Text::Tokens::kBytes;
  EXPECT_EQ(
      refusal_of<InputError>([&] { o.load(0); }),
      o.path + ": token 9 (counted from 0) has the id 300, but the vocabulary has 256 tokens");
  write("t.bin", "abc");
  EXPECT_EQ(refusal_of<InputError>([&] { o.load(0); }),
            o.path +
                ": 3 bytes, not a multiple of the 2 bytes of a token: the file is truncated, "
                "or has another width");
  write("m/t.bin", "ab");
  write("m/t.txt", "ab");
  EXPECT_TRUE(contains(refusal_of<InputError>([&] { text_of("m").load(0); }), "together"));
}

TEST_F(TokenFiles, DocumentsAreSeparated) {
  write("t.jsonl",
        "{\"text\": \"ab\"}\r\n\n{\"id\": 1, \"text\": \"b\\u0061\", \"more\": {\"text\": \"x\"}}\n"
        "{\"text\": \"bb\"}\n{\"text\": \"aaaaaaaaaa\"}");
  Text o = text_of("t.jsonl", 2);
  o.validation_fraction = 0.25;
  const Splits data = o.load(0);
  ASSERT_EQ(data.tokenizer->special_id(Tokenizer::kEnd), 2);
  EXPECT_EQ(ids_of(data.train), (Ids{0, 1, 2, 1, 0, 2, 1, 1, 2}));
  EXPECT_EQ(ids_of(data.test), (Ids{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2}));
  o.documents = Text::Documents::kJoined;
  EXPECT_EQ(ids_of(o.load(0).train), (Ids{0, 1, 1, 0, 1, 1}));
  write("d/1.txt", "abab");
  write("d/2.txt", "bbbbbbbbbb");
  Text files = text_of("d", 2);
  files.validation_fraction = 0.4;
  EXPECT_EQ(ids_of(files.load(0).train), (Ids{0, 1, 0, 1, 1, 1, 1, 1}));
  files.documents = Text::Documents::kSeparate;
  EXPECT_EQ(ids_of(files.load(0).train), (Ids{0, 1, 0, 1, 2, 1, 1, 1, 1}));
  EXPECT_EQ(ids_of(files.load(0).test), (Ids{1, 1, 1, 1, 1, 1, 2}));
}

TEST_F(TokenFiles, BadLinesOfJsonAreNamed) {
  const struct {
    std::string text, message;
  } rows[] = {
      {"{\"text\": \"ab\"}\n{\"text\": 3}\n", ":2: no text in the key 'text'"},
      {"{\"text\": \"ab\"}\n\n{\"body\": \"ab\"}\n", ":3: no text in the key 'text'"},
      {"{\"text\": \"ab\"\n", ":1: not valid JSON"},
      {"{\"text\": \"ab\xff\"}\n", ":1: not valid JSON"},
      {"[\"text\", \"ab\"]\n", ":1: no text in the key 'text'"},
  };
  for (const auto& row : rows) {
    write("t.jsonl", row.text);
    const std::string message = refusal_of<InputError>([&] { text_of("t.jsonl").load(0); });
    EXPECT_TRUE(contains(message, "t.jsonl" + row.message)) << message;
  }
}

// The parts in which a file is read do not change its tokens.
TEST_F(TokenFiles, ALongTextHasTheTokensOfItsWhole) {
  std::string text;
  for (int i = 0; text.size() < 5u << 20; ++i) {
    text += concat_to_string(i % 7 ? "the " : "caf\xc3\xa9\n", i * 2654435761u % 1000,
                             i % 5 ? "" : "  ");
  }
  BpeTrainer trainer;
  trainer.add(std::string_view(text).substr(0, 1 << 18));
  const Tokenizer pairs = Tokenizer::bpe(trainer.merges(300));
  const std::string file = write("t.txt", text);
  for (const Tokenizer& tokenizer : {pairs, Tokenizer::bytes(), Tokenizer::chars(text)}) {
    const Tensor tokens =
        encode_spans({{file, 0, text.size()}}, {.keeps_words = true}, tokenizer, false);
    const Ids expected = tokenizer.encode(text);
    ASSERT_EQ(tokens.numel(), std::ssize(expected));
    const WindowDataset windows(tokens, tokens.numel() - 1);
    const int64_t first = 0;
    Ids found = windows.get(tensor_of(&first, {1})).inputs.to_vector<int64_t>();
    EXPECT_TRUE(std::equal(found.begin(), found.end(), expected.begin()));
  }
}

// A text of several MiB, so that parts of it are read one after another.
std::string varied_text(size_t bytes, bool as_json) {
  std::string text;
  for (int i = 0; text.size() < bytes; ++i) {
    const std::string line =
        concat_to_string("the caf\xc3\xa9 ", i * 2654435761u % 1000, " ", i % 5);
    text += as_json ? concat_to_string("{\"text\": \"", line, "\"}\n") : line + "\n";
  }
  return text;
}

TEST_F(TokenFiles, ACompressedTextHasTheTokensOfThePlainOne) {
  const struct {
    std::string name;
    Text::Tokens tokenizer;
    bool lines = false;
  } rows[] = {{"t.txt", Text::Tokens::kBpe},
              {"t.txt", Text::Tokens::kChars},
              {"t.jsonl", Text::Tokens::kBytes},
              {"t.jsonl", Text::Tokens::kBpe},
              {"l.txt", Text::Tokens::kChars, true}};
  for (const auto& row : rows) {
    const bool as_json = row.name == "t.jsonl";
    const std::string text = varied_text(row.lines ? 5'000 : 3u << 20, as_json);
    write(row.name, text);
    // Two members, as files that were compressed in parts have.
    write(row.name + ".gz",
          gzip(text.substr(0, text.size() / 3)) + gzip(text.substr(text.size() / 3)));
    const auto load = [&](const std::string& name) {
      Text o = text_of(name, 32);
      o.tokenizer = row.tokenizer;
      o.vocabulary_size = 300;
      o.lines = row.lines;
      return o.load(7);
    };
    const Splits plain = load(row.name), packed = load(row.name + ".gz");
    EXPECT_EQ(plain.tokenizer->parts().tokens, packed.tokenizer->parts().tokens) << row.name;
    const auto tensors_of = [&](const DatasetPtr& part) {
      if (const auto* windows = dynamic_cast<const WindowDataset*>(part.get())) {
        return windows->tokens();
      }
      return dynamic_cast<const TensorDataset&>(*part).all().inputs;
    };
    for (const auto part : {&Splits::train, &Splits::test}) {
      const Tensor a = tensors_of(plain.*part), b = tensors_of(packed.*part);
      ASSERT_EQ(a.shape(), b.shape()) << row.name;
      EXPECT_EQ(std::memcmp(a.data_ptr(), b.data_ptr(), a.nbytes()), 0) << row.name;
    }
    const bool has_report = contains(packed.report, " bytes decompressed");
    EXPECT_TRUE(has_report || row.lines) << packed.report;
  }
}

TEST_F(TokenFiles, HostileCompressedTextsAreRefusedInOneMessage) {
  const std::string text = varied_text(100'000, false), lines = varied_text(100'000, true);
  const std::string whole = gzip(text);
  const struct {
    std::string name, bytes, message;
  } rows[] = {
      {"t.txt.gz", whole.substr(0, whole.size() / 2), ": cannot decompress it: it ends early"},
      {"t.txt.gz", whole.substr(0, 5), ": cannot decompress it: it ends early"},
      {"t.jsonl.gz", gzip(lines).substr(0, 2'000), ": cannot decompress it: it ends early"},
      {"t.txt.gz", std::string(whole).replace(500, 8, "????????"), "its gzip data are damaged"},
      {"t.txt.gz", gzip(""), "names only empty files"},
      {"t.txt.gz", gzip(std::string("a\0b", 3)), ": expected text, got a file with a zero byte"},
      {"t.bin.gz", whole, ": files of tokens are mapped into memory"},
      // A thousand bytes of text for each byte of the file.
      {"t.txt.gz", gzip(std::string(100u << 20, ' ')), " MiB, which no text does"},
      {"t.jsonl.gz", gzip(std::string(100u << 20, ' ')), " MiB, which no text does"},
  };
  for (const auto& row : rows) {
    write(row.name, row.bytes);
    for (const bool by_line : {false, true}) {
      Text o = text_of(row.name);
      o.lines = by_line && row.name == "t.txt.gz";
      const std::string message = refusal_of<InputError>([&] { o.load(0); });
      EXPECT_TRUE(contains(message, row.message)) << row.name << ": " << message;
      EXPECT_TRUE(contains(message, row.name)) << message;
      EXPECT_EQ(std::ranges::count(message, '\n'), 0) << message;
    }
  }
}

TEST_F(TokenFiles, BadUtf8IsNamedByItsLine) {
  std::string text;
  while (text.size() < 3u << 20) text += "a line of text\n";
  const auto lines = std::count(text.begin(), text.end(), '\n');
  const std::string file = write("t.txt", text + "bad \xff\n");
  EXPECT_EQ(
      refusal_of<InputError>([&] { text_of("t.txt").load(0); }),
      concat_to_string(file, ":", lines + 1, ": the text is not UTF-8: take `tokenizer: bytes`"));
}

TEST_F(TokenFiles, PairsAreLearnedFromTheTrainingPart) {
  std::string text;
  for (int i = 0; i < 200; ++i) text += "lower newest\n";
  write("t.txt", text);
  Text o = text_of("t.txt");
  o.tokenizer = Text::Tokens::kBpe;
  o.vocabulary_size = 300;
  const Splits data = o.load(0);
  EXPECT_LE(data.vocab_size(), 300);
  EXPECT_GT(data.vocab_size(), 256);
  EXPECT_EQ(data.tokenizer->decode(ids_of(data.test)), text.substr(text.size() * 9 / 10));
  EXPECT_LT(data.train->nbytes(), text.size());
  EXPECT_TRUE(contains(data.report, "(bpe)")) << data.report;
  const DatasetPtr more = o.more(data, write("other.txt", "newest lower newest lower"));
  EXPECT_EQ(data.tokenizer->decode(ids_of(more)), "newest lower newest lower");
}

}  // namespace
}  // namespace taper::v0::data
