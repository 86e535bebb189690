// Tokenizers and text files.
#include <random>
#include <set>
#include <vector>

#include <gtest/gtest.h>

#include "data/text/text_dataset.h"
#include "data/tokenizer.h"
#include "framework/factory/factories.h"
#include "framework/io/text_utils.h"
#include "tests/data_files.h"

namespace taper::v0::data {
namespace {

namespace fs = std::filesystem;
using namespace detail;
using Ids = std::vector<int64_t>;

class TextFiles : public DataFiles {};

TEST(Unicode, DecodesWhatIsUtf8AndNothingElse) {
  const struct {
    std::string text;
    uint32_t value;
    size_t length;
  } rows[] = {
      {"a", 'a', 1},
      {"\xc3\xa9x", 0xE9, 2},
      {"\xe6\x97\xa5", 0x65E5, 3},
      {"\xf0\x9f\x98\x80", 0x1F600, 4},
      {"\xf4\x8f\xbf\xbf", 0x10FFFF, 4},
      {"\xc3", CodePoint::kInvalid, 1},
      {"\xc3z", CodePoint::kInvalid, 1},
      {"\xa9", CodePoint::kInvalid, 1},
      {"\xc0\x80", CodePoint::kInvalid, 1},
      {"\xe0\x80\x80", CodePoint::kInvalid, 1},
      {"\xed\xa0\x80", CodePoint::kInvalid, 1},
      {"\xf4\x90\x80\x80", CodePoint::kInvalid, 1},
      {"\xff", CodePoint::kInvalid, 1},
  };
  for (const auto& row : rows) {
    const CodePoint c = first_code_point(row.text);
    EXPECT_EQ(c.value, row.value) << row.text;
    EXPECT_EQ(c.length, row.length) << row.text;
  }
}

TEST(Unicode, ClassesAreThoseOfTheGeneralCategories) {
  using enum CharClass;
  const struct {
    uint32_t from, to;
    CharClass one;
  } rows[] = {
      {'a', 'z', kLetter},        {'A', 'Z', kLetter},          {'0', '9', kNumber},
      {'\t', '\r', kSpace},       {' ', ' ', kSpace},           {0x1C, 0x1F, kOther},
      {0x85, 0x85, kSpace},       {0xA0, 0xA0, kSpace},         {0xAA, 0xAA, kLetter},
      {0xB2, 0xB3, kNumber},      {0xBD, 0xBD, kNumber},        {0xD7, 0xD7, kOther},
      {0x301, 0x301, kOther},     {0x663, 0x663, kNumber},      {0x2160, 0x2182, kNumber},
      {0x3000, 0x3000, kSpace},   {0x4E00, 0x9FFF, kLetter},    {0xAC00, 0xD7A3, kLetter},
      {0x1F600, 0x1F64F, kOther}, {0x10FFFF, 0x10FFFF, kOther}, {0x110000, 0x110000, kOther},
  };
  for (const auto& row : rows) {
    for (uint32_t c = row.from; c <= row.to; ++c) EXPECT_EQ(class_of(c), row.one) << std::hex << c;
  }
}

TEST(Tokenizer, CharactersAreNumberedByCodePoint) {
  const Tokenizer t = Tokenizer::chars(
      "b\xc3\xa9"
      "a\xe6\x97\xa5\n"
      "ab");
  EXPECT_EQ(t.size(), 5);
  EXPECT_EQ(t.encode("\nab\xc3\xa9\xe6\x97\xa5"), (Ids{0, 1, 2, 3, 4}));
  EXPECT_EQ(t.decode(Ids{3, 4, 1}),
            "\xc3\xa9\xe6\x97\xa5"
            "a");
  EXPECT_EQ(refusal_of<ValueError>([&] { t.encode("abc"); }),
            "the vocabulary of 5 characters does not have 'c': it was made of the training text");
  EXPECT_EQ(refusal_of<ValueError>([&] { t.decode(Ids{5}); }), "no token 5: the vocabulary has 5");
  EXPECT_NE(refusal_of<ValueError>([&] { Tokenizer::chars("\xff"); }).find("tokenizer: bytes"),
            std::string::npos);
}

TEST(Tokenizer, BytesAreThemselves) {
  const Tokenizer t = Tokenizer::bytes();
  EXPECT_EQ(t.size(), 256);
  EXPECT_EQ(t.encode(std::string("\xff\0a", 3)), (Ids{255, 0, 97}));
  EXPECT_EQ(t.decode(Ids{255, 0, 97}), std::string("\xff\0a", 3));
}

std::string random_bytes(size_t count) {
  std::mt19937 random(5);
  std::string out(count, 0);
  for (char& c : out) c = char(random());
  return out;
}

TEST(Tokenizer, PartsGiveTheSameTokenizer) {
  for (const Tokenizer& t : {Tokenizer::bytes(), Tokenizer::chars("h\xc3\xa9\"\\\n")}) {
    const Tokenizer again = Tokenizer::of(t.parts());
    EXPECT_EQ(again.size(), t.size());
    EXPECT_EQ(again.encode("\"h"), t.encode("\"h"));
  }
  using TokenKind = Tokenizer::TokenKind;
  const Tokenizer::Parts bad[] = {{TokenKind::kChars, {}},
                                  {TokenKind::kChars, {"a", "a"}},
                                  {TokenKind::kChars, {""}},
                                  {TokenKind::kGpt2, {"a"}, {{0, 1}}},
                                  {TokenKind::kGpt2, {"\xe4\xb8\x80"}}};
  for (const Tokenizer::Parts& parts : bad) EXPECT_THROW(Tokenizer::of(parts), ValueError);
}

// The ids are those of GPT-2's own encoder.py.
TEST(Tokenizer, Gpt2GivesTheIdsOfGpt2) {
  TAPER_REAL_DATA(directory, "gpt2-bpe");
  const Tokenizer t = Tokenizer::gpt2(directory);
  const struct {
    std::string text;
    Ids ids;
  } rows[] = {
      {"Hello world", {15496, 995}},
      {"", {}},
      {"I'll don't we've 's", {40, 1183, 836, 470, 356, 1053, 705, 82}},
      {"''s  it's", {7061, 82, 220, 340, 338}},
      {"  a   b\n\n c \n", {220, 257, 220, 220, 275, 628, 269, 220, 198}},
      {"x  \n", {87, 220, 220, 198}},
      {"\t\tif (a == 10) {\n", {197, 197, 361, 357, 64, 6624, 838, 8, 1391, 198}},
      {"1234 5 \xc2\xbd\xd9\xa3", {1065, 2682, 642, 25208, 149, 96}},
      {"na\xc3\xafve caf\xc3\xa9 \xe6\x97\xa5\xe6\x9c\xac\xe8\xaa\x9e \xf0\x9f\x98\x80",
       {2616, 38776, 40304, 10545, 245, 98, 17312, 105, 45739, 252, 30325, 222}},
      {"e\xcc\x81\xc2\xa0\xe3\x80\x80z", {68, 136, 223, 1849, 5099, 222, 89}},
      {" '", {705}},
      {"ACGTACGT_foo-bar", {2246, 19555, 2246, 19555, 62, 21943, 12, 5657}},
  };
  EXPECT_EQ(t.size(), 50257);
  for (const auto& row : rows) {
    EXPECT_EQ(t.encode(row.text), row.ids) << row.text;
    EXPECT_EQ(t.decode(row.ids), row.text);
  }
  const std::string bytes = random_bytes(20000);
  EXPECT_EQ(t.decode(t.encode(bytes)), bytes);
  EXPECT_EQ(t.decode(Ids{50256}), "<|endoftext|>");
  const Tokenizer again = Tokenizer::of(t.parts());
  EXPECT_EQ(again.parts().merges, t.parts().merges);
  EXPECT_EQ(again.encode(bytes), t.encode(bytes));
  // A word of half a megabyte must be encoded in reasonable time.
  EXPECT_EQ(t.encode(std::string(1 << 19, 'a')).size(), size_t((1 << 19) / 4));
}

TEST_F(TextFiles, DamagedVocabulariesAreNamed) {
  const fs::path d = directory_;
  const auto gpt2 = [&] { Tokenizer::gpt2(d); };
  EXPECT_NE(refusal_of<InputError>(gpt2).find("encoder.json: cannot read"), std::string::npos);
  write("encoder.json", "[1]");
  EXPECT_NE(refusal_of<InputError>(gpt2).find("expected a JSON object"), std::string::npos);
  write("encoder.json", R"({"a": 0, "b": 2})");
  EXPECT_NE(refusal_of<InputError>(gpt2).find("token 'b' has the id '2'"), std::string::npos);
  write("encoder.json", R"({"a": 0, "b": 0})");
  EXPECT_NE(refusal_of<InputError>(gpt2).find("has the id '0'"), std::string::npos);
  write("encoder.json", R"({"a": 0, "b": 1})");
  EXPECT_NE(refusal_of<InputError>(gpt2).find("no token for the byte"), std::string::npos);
  write("encoder.json", "{\"a\": 0,\n \"a\": 1}");
  EXPECT_NE(refusal_of<InputError>(gpt2).find("encoder.json:2:2: not valid JSON: the key"),
            std::string::npos);
}

// The vocabulary has all bytes, "th" and "the", in the spelling of GPT-2's files.
TEST_F(TextFiles, MalformedMergesAreRefusedWithTheirLine) {
  std::string encoder = R"({"th": 256, "the": 257)";
  for (uint32_t b = 0; b < 256; ++b) {
    const bool is_printable = (b > 32 && b < 127) || (b > 160 && b != 173);
    const uint32_t c = is_printable ? b : 0x100 + (b <= 32 ? b : b <= 160 ? b - 94 : 67);
    char escape[16];
    std::snprintf(escape, sizeof escape, ", \"\\u%04x\": %u", c, b);
    encoder += escape;
  }
  write("encoder.json", encoder + "}");
  const auto gpt2 = [&](const std::string& merges) {
    write("vocab.bpe", merges);
    return Tokenizer::gpt2(directory_);
  };
  EXPECT_EQ(gpt2("#version: 0.2\nt h\r\nth e\n").encode("the"), Ids{257});
  for (const std::string bad :
       {"t", "t h e", "t  h", " t h", "t h ", "x y", "t h", "#version: 0.2"}) {
    const std::string text = refusal_of<InputError>([&] { gpt2("t h\nth e\n" + bad + "\n"); });
    EXPECT_NE(text.find("vocab.bpe:3: expected two tokens"), std::string::npos)
        << bad << ": " << text;
  }
  // Hugging Face publishes the same files under other names.
  write("hf/vocab.json", encoder + "}");
  write("hf/merges.txt", "#version: 0.2\nt h\nth e\n");
  EXPECT_EQ(Tokenizer::gpt2(directory_ / "hf").encode("the"), Ids{257});
  write("hf/merges.txt", "t h\nx y\n");
  const std::string text =
      refusal_of<InputError>([&] { (void)Tokenizer::gpt2(directory_ / "hf"); });
  EXPECT_NE(text.find("merges.txt:2: expected two tokens"), std::string::npos) << text;
}

TEST_F(TextFiles, AFileADirectoryOrAPatternIsReadInOrder) {
  const std::string b = write("src/b.cpp", "B\n"), a = write("src/sub/a.h", "A\n");
  write("src/.hidden/x", "X");
  write("src/.y", "Y");
  write("src/c.txt", "C");
  const std::string root = directory_.string();
  EXPECT_EQ(read_texts(b), "B\n");
  EXPECT_EQ(read_texts(root + "/src"), "B\nCA\n");
  EXPECT_EQ(read_texts(root + "/src/*.cpp"), "B\n");
  EXPECT_EQ(read_texts(root + "/src/{*,sub/*}.{cpp,h}"), "B\nA\n");
  const std::string none = refusal_of<InputError>([&] { read_texts(root + "/src/*.py"); });
  EXPECT_NE(none.find("names no file"), std::string::npos) << none;
  write("src/binary", std::string("a\0b", 3));
  const std::string binary = refusal_of<InputError>([&] { read_texts(root + "/src"); });
  EXPECT_NE(binary.find("binary: expected text, got a file with a zero byte"), std::string::npos);
  std::string groups = root;
  for (int i = 0; i < 24; ++i) groups += "{a,b}";  // 16 million patterns
  EXPECT_NE(refusal_of<InputError>([&] { read_texts(groups); }).find("more than 1000 patterns"),
            std::string::npos);
  write("empty", "");
  EXPECT_NE(refusal_of<InputError>([&] { read_texts(root + "/empty"); }).find("only empty files"),
            std::string::npos);
}

Text text_of(const std::string& path, int64_t block_size) {
  return {.path = path, .block_size = block_size};
}
const WindowDataset& windows(const DatasetPtr& set) {
  return dynamic_cast<const WindowDataset&>(*set);
}
int64_t tokens_of(const DatasetPtr& set) { return windows(set).tokens().size(0); }

TEST_F(TextFiles, ALongTextGivesWindowsAndTheTokensOneFurther) {
  Text config = text_of(write("t", "abcdefghijklmnopqrst"), 4);
  config.validation_fraction = 0.25;
  const Splits data = config.load(1);
  EXPECT_EQ(data.task, Task::kLanguage);
  EXPECT_EQ(data.outputs, 20);
  EXPECT_EQ(data.vocab_size(), 20);
  EXPECT_EQ(data.input_shape, (Shape{4}));
  EXPECT_EQ(data.output_shape(), (Shape{4, 20}));
  EXPECT_EQ(tokens_of(data.train), 15);
  EXPECT_EQ(data.train->size(), 3);
  EXPECT_EQ(windows(data.train).places(), 11);
  EXPECT_EQ(data.test->size(), 1);
  const Ids rows = {0, 10, 3};
  const Batch b = data.train->get(tensor_of(rows.data(), {3}));
  EXPECT_EQ(b.inputs.shape(), (Shape{3, 4}));
  EXPECT_EQ(b.inputs.to_vector<int64_t>(), (Ids{0, 1, 2, 3, 10, 11, 12, 13, 3, 4, 5, 6}));
  EXPECT_EQ(b.targets.to_vector<int64_t>(), (Ids{1, 2, 3, 4, 11, 12, 13, 14, 4, 5, 6, 7}));
  const Ids beyond = {11};
  EXPECT_THROW(data.train->get(tensor_of(beyond.data(), {1})), IndexError);
}

TEST_F(TextFiles, ATextThatIsTooShortOrNotUtf8IsRefused) {
  const std::string file = write("t", "abcdefghijklmnopqrst");
  EXPECT_EQ(refusal_of<InputError>([&] { text_of(file, 4).load(1); }),
            file +
                ": the validation part of the text has 2 tokens, but a sample takes "
                "data.block_size + 1 = 5: lower block_size, or take more text");
  const std::string latin = write("u", "caf\xe9 and more");
  EXPECT_EQ(refusal_of<InputError>([&] { text_of(latin, 4).load(1); }),
            latin + ":1: the text is not UTF-8: take `tokenizer: bytes`");
}

TEST_F(TextFiles, TheCutIsNotWithinACharacter) {
  std::string text;
  for (int i = 0; i < 20; ++i) text += "\xe6\x97\xa5";
  for (const double fraction : {0.3, 0.31, 0.32, 0.33, 0.34}) {
    Text config = text_of(write("t", text), 2);
    config.validation_fraction = fraction;
    const Splits data = config.load(1);
    EXPECT_EQ(tokens_of(data.train) + tokens_of(data.test), 20);
  }
}

TEST_F(TextFiles, EachLineIsASequenceBetweenLineEnds) {
  Text config = text_of(write("t", "ab\n\nc\r\nabc"), 4);
  config.lines = true;
  config.validation_fraction = 0.3;
  const Splits data = config.load(3);
  EXPECT_EQ(data.train->size(), 2);
  EXPECT_EQ(data.test->size(), 1);
  const int64_t x = kIgnoredTarget;
  const std::set<Ids> wanted = {// "\n" is 0, "\r" 1
                                {0, 2, 3, 0, 2, 3, 0, x},
                                {0, 4, 0, 0, 4, 0, x, x},
                                {0, 2, 3, 4, 2, 3, 4, 0}};
  std::set<Ids> seen;
  for (const DatasetPtr& half : {data.train, data.test}) {
    for (int64_t i = 0; i < half->size(); ++i) {
      const Batch one = half->get(tensor_of(&i, {1}));
      Ids row = one.inputs.to_vector<int64_t>();
      for (const int64_t id : one.targets.to_vector<int64_t>()) row.push_back(id);
      seen.insert(row);
    }
  }
  EXPECT_EQ(seen, wanted);
  config.block_size = 3;
  const std::string message = refusal_of<InputError>([&] { config.load(3); });
  EXPECT_NE(message.find("line 4 of the text has 3 tokens: data.block_size must be at least 4"),
            std::string::npos)
      << message;
}

TEST(RealText, TinyShakespeareHasNanoGptsTokens) {
  TAPER_REAL_DATA(file, "tinyshakespeare/input.txt");
  const Splits chars = text_of(file, 256).load(1);
  EXPECT_EQ(chars.outputs, 65);
  EXPECT_EQ(tokens_of(chars.train), 1003854);
  EXPECT_EQ(tokens_of(chars.test), 111540);
  TAPER_REAL_DATA(vocabulary, "gpt2-bpe");
  Text config = text_of(file, 256);
  config.tokenizer = Text::Tokens::kGpt2;
  config.vocabulary = vocabulary;
  const Splits gpt2 = config.load(1);
  EXPECT_EQ(tokens_of(gpt2.train), 301966);
  EXPECT_EQ(tokens_of(gpt2.test), 36059);
  EXPECT_EQ(gpt2.tokenizer->encode("Hello world"), (Ids{15496, 995}));
}

TEST(RealText, NamesAreSequences) {
  TAPER_REAL_DATA(file, "names/names.txt");
  Text config = text_of(file, 16);
  config.lines = true;
  const Splits data = config.load(1);
  EXPECT_EQ(data.train->size() + data.test->size(), 32033);
  EXPECT_EQ(data.outputs, 27);
}

}  // namespace
}  // namespace taper::v0::data
