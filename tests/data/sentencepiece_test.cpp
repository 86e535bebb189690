// Models of sentencepiece, compared with the library's own programs.
#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "data/text/labeled_text.h"
#include "data/text/text_dataset.h"
#include "data/tokenizer.h"
#include "framework/factory/factories.h"
#include "tests/data_files.h"
#include "tests/sentencepiece_model.h"
#include "tests/text.h"

namespace taper::v0::data {
namespace {

using Ids = std::vector<int64_t>;

// Returns whether Taper was built with the library. If it was not, checks the message.
bool is_built_with_sentencepiece(const std::string& file) {
  const std::string message = refusal_of<Error>([&] { (void)Tokenizer::sentencepiece(file); });
  if (!contains(message, "built without sentencepiece")) return true;
  EXPECT_TRUE(contains(message, "install libsentencepiece-dev")) << message;
  return false;
}

class SentencePieces : public DataFiles {
 protected:
  void SetUp() override {
    if (!is_built_with_sentencepiece(write("none.model", "x"))) {
      GTEST_SKIP() << "built without sentencepiece (TAPER_SENTENCEPIECE)";
    }
    if (!test::has_sentencepiece_programs()) GTEST_SKIP() << "needs Debian's package sentencepiece";
  }
  std::string model(const std::string& name, const std::string& options) const {
    return test::train_sentencepiece(directory_, name, options);
  }
  // Returns the ids that spm_encode prints for each line.
  std::vector<Ids> encoded_by_library(const std::string& file, const std::string& lines) const {
    const std::string in = write("in.txt", lines), out = in + ".ids";
    const std::string command = concat_to_string("spm_encode --model='", file,
                                                 "' --output_format=id < '", in, "' > '", out, "'");
    EXPECT_EQ(std::system(command.c_str()), 0);
    std::vector<Ids> found;
    std::ifstream read(out);
    for (std::string line; std::getline(read, line);) {
      std::istringstream words(line);
      found.emplace_back(std::istream_iterator<int64_t>(words), std::istream_iterator<int64_t>());
    }
    return found;
  }
};

constexpr const char* kModels[] = {
    "--vocab_size=80", "--vocab_size=120 --model_type=bpe --character_coverage=1.0",
    "--vocab_size=350 --model_type=bpe --byte_fallback=true --pad_id=3 --hard_vocab_limit=false",
    ("--vocab_size=340 --byte_fallback=true --normalization_rule_name=identity "
     "--remove_extra_whitespaces=false --hard_vocab_limit=false")};

TEST_F(SentencePieces, HaveTheIdsOfTheLibrarysProgram) {
  const std::vector<std::string> lines = {"the cat sat on the mat",
                                          "  two  blanks ",
                                          "a",
                                          "",
                                          "Caf\xc3\xa9 \xe2\x96\x81 1234567",
                                          "unseen \xe4\xb8\xad\xe6\x96\x87 \xf0\x9f\x98\x80",
                                          "\xef\xac\x81 \xe3\x8d\x8d \xc2\xbd",
                                          "the dog ran to caf\xc3\xa9 56 quickly! the dog ran"};
  std::string text;
  for (const std::string& line : lines) text += line + "\n";
  int number = 0;
  for (const char* options : kModels) {
    const std::string file = model(concat_to_string("m", number++), options);
    const Tokenizer made = Tokenizer::sentencepiece(file);
    const std::vector<Ids> expected = encoded_by_library(file, text);
    ASSERT_EQ(expected.size(), lines.size());
    for (size_t i = 0; i < lines.size(); ++i) {
      EXPECT_EQ(made.encode(lines[i]), expected[i]) << options << ": " << lines[i];
    }
    const Ids ids = made.encode(lines[0]);
    EXPECT_EQ(made.decode(ids), lines[0]);
    std::string continued;
    for (const int64_t id : ids) continued += made.continuation(id);
    EXPECT_TRUE(continued == lines[0] || continued == " " + lines[0]) << continued;
    const Tokenizer again = Tokenizer::of(made.parts());
    EXPECT_EQ(again.encode(lines[7]), expected[7]);
    EXPECT_EQ(again.size(), made.size());
  }
}

TEST_F(SentencePieces, BytesOfUnknownCharactersComeBack) {
  const Tokenizer made = Tokenizer::sentencepiece(model("m", kModels[2]));
  const std::string text = "the \xe4\xb8\xad cat";
  const Ids ids = made.encode(text);
  EXPECT_EQ(made.decode(ids), text);
  std::string continued;
  for (const int64_t id : ids) continued += made.continuation(id);
  EXPECT_TRUE(contains(continued, "\xe4\xb8\xad")) << continued;
}

TEST_F(SentencePieces, ControlPiecesAreSpecialTokens) {
  const Tokenizer plain = Tokenizer::sentencepiece(model("m", kModels[0]));
  EXPECT_EQ(plain.special_id(Tokenizer::kUnknown), 0);
  EXPECT_EQ(plain.special_id("<s>"), 1);
  EXPECT_EQ(plain.special_id("</s>"), 2);
  EXPECT_EQ(plain.special_id(Tokenizer::kEnd), 2);
  EXPECT_EQ(plain.special_id(Tokenizer::kPadding), std::nullopt);
  EXPECT_EQ(plain.special_id("the"), std::nullopt);
  EXPECT_EQ(plain.continuation(2), "");
  const Tokenizer padded =
      plain.with_special({Tokenizer::kPadding, Tokenizer::kUnknown, Tokenizer::kEnd});
  EXPECT_EQ(padded.size(), plain.size() + 1);
  EXPECT_EQ(padded.special_id(Tokenizer::kPadding), plain.size());
  const Ids ids = padded.encode("the cat");
  Ids two = ids;
  two.push_back(plain.size());
  two.insert(two.end(), ids.begin(), ids.end());
  EXPECT_EQ(padded.decode(two), "the cat<pad>the cat");
  EXPECT_THROW((void)plain.decode(Ids{plain.size()}), ValueError);
  EXPECT_THROW((void)plain.continuation(-1), ValueError);
  EXPECT_EQ(Tokenizer::sentencepiece(model("p", kModels[2])).special_id(Tokenizer::kPadding), 3);
}

TEST_F(SentencePieces, HostileFilesAreRefusedInOneMessage) {
  std::ifstream in(model("m", kModels[0]), std::ios::binary);
  const std::string good{std::istreambuf_iterator<char>(in), {}};
  std::string flipped = good;
  for (size_t i = 0; i < 400; i += 7) flipped[i] = char(flipped[i] ^ 0x55);
  // The trie of the normalization leads out of its memory. Its root is the first of the rules.
  std::string astray = good;
  const size_t rules = good.find("nmt_nfkc") + 8;
  for (size_t i = 8; i < 1000; ++i) astray[rules + i] = char(0x7F);
  // The library throws an exception of its own for a piece with a null character.
  std::string null_in_piece = good;
  null_in_piece[good.find("\xe2\x96\x81the") + 3] = 0;
  const std::string rows[] = {
      "", "no model", flipped, astray, null_in_piece, std::string(1000, '\xff'), good + "x"};
  std::vector<std::string> files(std::begin(rows), std::end(rows));
  // A file that was cut anywhere, also between two pieces.
  for (size_t size = 1; size < good.size(); size += size < 3000 ? 1 : 9973) {
    files.push_back(good.substr(0, size));
  }
  for (const std::string& bytes : files) {
    const std::string file = write("bad.model", bytes);
    const std::string message =
        refusal_of<InputError>([&] { (void)Tokenizer::sentencepiece(file); });
    EXPECT_TRUE(message.starts_with(file + ": not a model of sentencepiece")) << message;
    EXPECT_EQ(std::ranges::count(message, '\n'), 0) << message;
  }
  const std::string huge = write("huge.model", "");
  std::filesystem::resize_file(huge, uint64_t(1) << 34);  // takes no space on the disk
  EXPECT_TRUE(contains(refusal_of<InputError>([&] { (void)Tokenizer::sentencepiece(huge); }),
                       "more than 64 MiB"));
  EXPECT_TRUE(contains(
      refusal_of<InputError>([&] { (void)Tokenizer::sentencepiece(directory_ / "absent"); }),
      "absent"));
}

TEST_F(SentencePieces, LanguageModelsAndLabeledTextsTakeThem) {
  const std::string file = model("m", kModels[0]);
  Text text{.path = (directory_ / "m.txt").string(), .block_size = 16};
  text.tokenizer = Text::Tokens::kSentencepiece;
  text.vocabulary = file;
  text.validation = text.path;
  const Splits data = text.load(0);
  const Tokenizer plain = Tokenizer::sentencepiece(file);
  std::ifstream in(text.path);
  const std::string whole{std::istreambuf_iterator<char>(in), {}};
  const auto& windows = dynamic_cast<const WindowDataset&>(*data.train);
  EXPECT_EQ(windows.tokens().numel(), std::ssize(plain.encode(whole)));
  EXPECT_EQ(data.vocab_size(), plain.size());
  EXPECT_EQ(text.files().size(), 3u);

  std::string rows = "text,y\n";
  for (int i = 0; i < 40; ++i)
    rows += concat_to_string(i % 2 ? "the cat," : "the dog ran,", i % 2, "\n");
  LabeledText labeled;
  labeled.path = {write("t.csv", rows)};
  labeled.text = "text";
  labeled.target = {"y"};
  labeled.tokenizer = LabeledText::Tokens::kSentencepiece;
  labeled.vocabulary = file;
  const Splits parts = labeled.load(0);
  const Batch first = parts.train->get(arange(1));
  const Ids ids = first.inputs[0].to(kInt64).to_vector<int64_t>();
  const Ids expected =
      plain.encode(first.targets[0].item<int64_t>() == 1 ? "the cat" : "the dog ran");
  EXPECT_TRUE(std::equal(expected.begin(), expected.end(), ids.begin()));
  labeled.vocabulary = write("bad.model", "x");
  EXPECT_TRUE(contains(refusal_of<InputError>([&] { labeled.load(0); }), "bad.model: not a model"));
}

}  // namespace
}  // namespace taper::v0::data
