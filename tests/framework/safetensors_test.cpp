#include "framework/io/safetensors.h"

#include <csignal>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <random>
#include <sstream>

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include "framework/factory/factories.h"
#include "framework/kernels/elementwise/copy.h"
#include "tests/testing.h"

namespace taper::v0 {
namespace {

namespace fs = std::filesystem;

class SafeTensorsTest : public testing::Test {
 protected:
  void SetUp() override {
    directory_ = fs::temp_directory_path() / concat_to_string("taper_safetensors_", ::getpid());
    fs::create_directories(directory_);
    path_ = directory_ / "x.safetensors";
  }
  void TearDown() override { fs::remove_all(directory_); }

  void write(const std::string& bytes) const {
    std::ofstream(path_, std::ios::binary | std::ios::trunc) << bytes;
  }
  // For a file of the same length; faster.
  void overwrite(const std::string& bytes) const {
    std::ofstream(path_, std::ios::binary | std::ios::in) << bytes;
  }
  std::string bytes() const {
    std::ostringstream out;
    out << std::ifstream(path_, std::ios::binary).rdbuf();
    return out.str();
  }
  // Returns the message with which load refuses the file.
  std::string refusal() const {
    try {
      (void)load_safetensors(path_);
    } catch (const Error& e) {
      return e.what();
    }
    return "accepted";
  }

  fs::path directory_;
  std::string path_;
};

std::string file_of(const std::string& header, const std::string& data) {
  const uint64_t length = header.size();
  return std::string(reinterpret_cast<const char*>(&length), sizeof length) + header + data;
}

std::string repeated(const std::string& text, int times) {
  std::string out;
  for (int i = 0; i < times; ++i) out += text;
  return out;
}

const Tensor& find(const SafeTensors& file, const std::string& name) {
  for (const NamedTensor& t : file.tensors) {
    if (t.name == name) return t.tensor;
  }
  throw Error("no tensor " + name);
}

// Returns the numbers -3 to 4 in a dtype, as 2x4.
Tensor sample(DType dtype) {
  const Tensor x = Tensor::make({2, 4}, dtype, Device());
  kernels::copy_into(x, view_as(arange(-3, 5), {2, 4}, {4, 1}, 0));
  return x;
}

TEST_F(SafeTensorsTest, EveryDTypeComesBackAligned) {
  std::vector<NamedTensor> given;
  for (const DType t : kAllDTypes)
    given.push_back({concat_to_string("layer.", name_of(t)), sample(t)});
  save_safetensors(path_, given);
  const SafeTensors file = load_safetensors(path_);
  ASSERT_EQ(file.tensors.size(), given.size());
  for (const NamedTensor& t : given) {
    const Tensor& back = find(file, t.name);
    EXPECT_EQ(back.dtype(), t.tensor.dtype());
    EXPECT_EQ(back.shape(), t.tensor.shape());
    EXPECT_EQ(back.to_vector<double>(), t.tensor.to_vector<double>()) << t.name;
    EXPECT_EQ(reinterpret_cast<uintptr_t>(back.data_ptr()) % back.element_size(), 0u) << t.name;
  }
}

TEST_F(SafeTensorsTest, ScalarsEmptyTensorsViewsAndMetadataComeBack) {
  const Tensor x = arange(12, {.dtype = kFloat32});
  save_safetensors(path_,
                   {{"scalar", tensor(2.5)},
                    {"none", zeros({0, 3})},
                    {"transposed", view_as(x, {4, 3}, {1, 4}, 0)},
                    {"expanded", view_as(x, {2, 3}, {0, 1}, 5)}},
                   {{"step", "12"}, {"note", "\"\n\xc3\xa9"}});
  const SafeTensors file = load_safetensors(path_);
  EXPECT_EQ(find(file, "scalar").dim(), 0);
  EXPECT_EQ(find(file, "scalar").item<float>(), 2.5f);
  EXPECT_EQ(find(file, "none").shape(), Shape({0, 3}));
  EXPECT_EQ(find(file, "transposed").to_floats(),
            (std::vector<float>{0, 4, 8, 1, 5, 9, 2, 6, 10, 3, 7, 11}));
  EXPECT_EQ(find(file, "expanded").to_floats(), (std::vector<float>{5, 6, 7, 5, 6, 7}));
  EXPECT_EQ(file.metadata.at("step"), "12");
  EXPECT_EQ(file.metadata.at("note"), "\"\n\xc3\xa9");
}

TEST_F(SafeTensorsTest, NoTensorsAreAFileToo) {
  save_safetensors(path_, {});
  EXPECT_EQ(bytes(), file_of("{}      ", ""));
  EXPECT_TRUE(load_safetensors(path_).tensors.empty());
}

// The bytes were written by version 0.8 of the Python library.
TEST_F(SafeTensorsTest, BytesAreThoseOfThePythonLibrary) {
  const Tensor x = tensor({1.0, 2.0});
  save_safetensors(path_,
                   {{"a", x},
                    {"u8", tensor({7}, {.dtype = kUInt8})},
                    {"i64", tensor({-1})},
                    {"bf", tensor({1.0}, {.dtype = kBFloat16})},
                    {"B", x}},
                   {{"format", "pt"}});
  const std::string header =
      R"({"__metadata__":{"format":"pt"},"i64":{"dtype":"I64","shape":[1],"data_offsets":[0,8]},)"
      R"("B":{"dtype":"F32","shape":[2],"data_offsets":[8,16]},)"
      R"("a":{"dtype":"F32","shape":[2],"data_offsets":[16,24]},)"
      R"("bf":{"dtype":"BF16","shape":[1],"data_offsets":[24,26]},)"
      R"("u8":{"dtype":"U8","shape":[1],"data_offsets":[26,27]}})";
  const std::string one_two("\0\0\x80\x3f\0\0\0\x40", 8);
  const std::string data = std::string(8, '\xff') + one_two + one_two + "\x80\x3f\x07";
  EXPECT_EQ(bytes(), file_of(header + std::string(7 - (header.size() + 7) % 8, ' '), data));
}

TEST_F(SafeTensorsTest, ChangesInPlaceStayInMemory) {
  save_safetensors(path_, {{"a", tensor({1.0, 2.0})}, {"b", tensor({3.0})}});
  const std::string before = bytes();
  const SafeTensors file = load_safetensors(path_);
  kernels::fill(find(file, "a"), 9);
  EXPECT_EQ(bytes(), before);
  EXPECT_EQ(find(file, "a").to_floats(), (std::vector<float>{9, 9}));
  EXPECT_EQ(find(file, "b").to_floats(), (std::vector<float>{3}));
  EXPECT_NE(find(file, "a").storage(), find(file, "b").storage());
}

TEST_F(SafeTensorsTest, ATensorOutlivesTheFileAndTheOtherTensors) {
  save_safetensors(path_, {{"a", tensor({1.0, 2.0})}, {"b", tensor({3.0})}});
  Tensor kept = find(load_safetensors(path_), "b");
  fs::remove(path_);
  EXPECT_EQ(kept.item<float>(), 3.f);
}

TEST_F(SafeTensorsTest, AMappedFileCanBeSavedOver) {
  save_safetensors(path_, {{"a", arange(50'000)}});
  const SafeTensors file = load_safetensors(path_);
  save_safetensors(path_, {file.tensors[0], {"b", tensor({1})}});
  EXPECT_EQ(file.tensors[0].tensor.span<int64_t>().back(), 49'999);
  EXPECT_EQ(find(load_safetensors(path_), "a").span<int64_t>().back(), 49'999);
}

TEST_F(SafeTensorsTest, UnalignedDataIsReadAndBoolsAreMadeZeroOrOne) {
  write(file_of(R"({"b":{"dtype":"BOOL","shape":[3],"data_offsets":[0,3]},)"
                R"("f":{"dtype":"F32","shape":[1],"data_offsets":[3,7]}})",
                std::string("\0\x01\xff\0\0\x80\x3f", 7)));
  const SafeTensors file = load_safetensors(path_);
  EXPECT_EQ(find(file, "f").item<float>(), 1.f);
  EXPECT_EQ(find(file, "b").to_vector<int64_t>(), (std::vector<int64_t>{0, 1, 1}));
  EXPECT_EQ(file.tensors[0].name, "b");
}

// The format has dtypes and numbers of dimensions that Taper lacks.
TEST_F(SafeTensorsTest, AnEntryThatTaperHasNoTypeForLeavesTheOthersReadable) {
  const std::string long_name = '"' + std::string(1000, 'a') + '"';
  const struct {
    std::string dtype, shape, expected;
  } cases[] = {
      {"\"F8_E4M3\"", "[4]", "dtype F8_E4M3 is not supported; Taper reads I64, F64, F32"},
      {"\"U16\"", "[2]", "dtype U16 is not supported"},
      {"\"f32\"", "[1]", "dtype f32 is not supported"},
      {long_name, "[1]", "dtype aaa"},
      {"\"F32\"", "[1,1,1,1,1,1,1,1,1]", "it has more than 8 dimensions"},
      {"\"F32\"", "[" + repeated("1,", 100'000) + "1]", "it has more than 8 dimensions"},
  };
  for (const auto& [dtype, shape, expected] : cases) {
    write(file_of(concat_to_string(R"({"q":{"dtype":)", dtype, R"(,"shape":)", shape,
                                   R"(,"data_offsets":[4,8]},)",
                                   R"("w":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})"),
                  std::string("\0\0\x80\x3f\1\2\3\4", 8)));
    const SafeTensors file = load_safetensors(path_);
    ASSERT_EQ(file.tensors.size(), 1u);
    EXPECT_EQ(file.tensors.at("w").item<float>(), 1.F);
    const std::string want = concat_to_string(path_, ": tensor 'q': ", expected);
    EXPECT_TRUE(file.tensors.unreadable.at("q").starts_with(want))
        << file.tensors.unreadable.at("q");
    EXPECT_LT(file.tensors.unreadable.at("q").size(), 300u) << "names are cut";
    EXPECT_TRUE(test::refuses<InputError>([&] { return file.tensors.at("q"); }, want));
    EXPECT_TRUE(test::refuses<InputError>([&] { return file.tensors.at("v"); },
                                          path_ + ": has no tensor 'v'; its tensors: w"));
  }
}

TEST_F(SafeTensorsTest, MetadataMayBeNull) {
  write(file_of(R"({"__metadata__":null,"w":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})",
                std::string("\0\0\x80\x3f", 4)));
  const SafeTensors file = load_safetensors(path_);
  EXPECT_TRUE(file.metadata.empty());
  EXPECT_EQ(file.tensors.at("w").item<float>(), 1.F);
}

TEST_F(SafeTensorsTest, ForeignHeadersAreRefusedByName) {
  struct Refusal {
    std::string header, expected;
  };
  const auto one = [](const std::string& dtype, const std::string& shape,
                      const std::string& offsets) {
    return concat_to_string(R"({"w":{"dtype":)", dtype, R"(,"shape":)", shape,
                            R"(,"data_offsets":)", offsets, "}}");
  };
  const std::string ok = R"({"dtype":"F32","shape":[2],"data_offsets":[0,8]})";
  const Refusal cases[] = {
      {"", "empty header"},
      {"[1]", "begin with '{', got byte 91"},
      {" {}", "begin with '{'"},
      {"\xef\xbb\xbf{}", "begin with '{'"},
      {"{", "not valid JSON: the text ends within a value at byte 1"},
      {R"({"w":)" + ok + "} x", "not valid JSON"},
      {std::string("{}\0\0", 4), "a zero byte at byte 2"},
      {"{\"\xff\":" + ok + "}", "not valid JSON: unexpected byte 255 at byte 2"},
      {R"({"w":)" + ok + R"(,"w":)" + ok + "}", "tensor 'w': comes twice"},
      {R"({"w":{"dtype":"F32","dtype":"F32"}})", "tensor 'w': key 'dtype' comes twice"},
      {R"({"__metadata__":{"a":"1","a":"2"}})", "__metadata__: key 'a' comes twice"},
      {R"({"__metadata__":{"a":1}})", "__metadata__: expected a string for 'a', got 1"},
      {R"({"__metadata__":{"a":{}}})", "__metadata__: expected no object within"},
      {R"({"__metadata__":{"a":[1]}})", "expected a string for 'a', got [1]"},
      {R"({"__metadata__":{},"__metadata__":{}})", "__metadata__: comes twice"},
      {R"({"w":null})", "tensor 'w': expected an object, got null"},
      {R"({"__metadata__":"a"})", "__metadata__: expected an object, got \"a\""},
      {R"({"w":3})", "tensor 'w': expected an object, got 3"},
      {R"({"w":[]})", "got a list"},
      {R"({"w":{}})", "tensor 'w': has no dtype"},
      {R"({"w":{"dtype":"F32","data_offsets":[0,8]}})", "has no shape"},
      {R"({"w":{"dtype":"F32","shape":[2]}})", "tensor 'w': has no data_offsets"},
      {R"({"w":{"dtype":"F32","scale":1}})", "got 'scale'"},
      {one("7", "[2]", "[0,8]"), "expected dtype to be a name, got 7"},
      {one("\"F32\"", "2", "[0,8]"), "expected shape to be a list of sizes, got 2"},
      {one("\"F32\"", "[2.0]", "[0,8]"), "got [2.0]"},
      {one("\"F32\"", "[-2]", "[0,8]"), "got [-2]"},
      {one("\"F32\"", "[true]", "[0,8]"), "got [true]"},
      {one("\"F32\"", "[null]", "[0,8]"), "got [null]"},
      {one("\"F32\"", "[[2]]", "[0,8]"), "expected no list within a list"},
      {one("\"F32\"", "[{}]", "[0,8]"), "expected no object within"},
      {one("{}", "[2]", "[0,8]"), "expected no object within"},
      {one("[\"F32\"]", "[2]", "[0,8]"), "expected dtype to be a name, got [\"F32\"]"},
      {one("\"F32\"", "\"2\"", "[0,8]"), "list of sizes, got \"2\""},
      {one("\"F32\"", "[18446744073709551618]", "[0,8]"), "got [1.8446744073709552e+19]"},
      {one("\"F32\"", "[4611686018427387906]", "[0,8]"), "more bytes than can be counted"},
      {one("\"F32\"", "[0,4294967296,4294967296]", "[0,0]"), "more bytes than can be counted"},
      {one("\"F32\"", "[2]", "[0]"), "[begin, end], got 1 numbers"},
      {one("\"F32\"", "[2]", "[0,8,9]"), "[begin, end], got 3 numbers"},
      {one("\"F32\"", "[2]", "[-1,7]"), "list of begin and end, got [-1,7]"},
      {one("\"F32\"", "[2]", "[8,0]"), "do not lie within the 8 bytes"},
      {one("\"F32\"", "[3]", "[0,12]"), "do not lie within the 8 bytes"},
      {one("\"F32\"", "[1]", "[0,8]"), "tensor 'w': expected 4 bytes for shape [1] of float32"},
      {one("\"F32\"", "[1]", "[4,8]"), "begin at 0, where the previous ends, got 4 (a hole)"},
      {one("\"F32\"", "[1]", "[0,4]"), "expected 4 bytes of data after the header, got 8"},
      {R"({"w":)" + ok + R"(,"v":{"dtype":"U8","shape":[4],"data_offsets":[4,8]}})",
       "tensor 'v': expected its data to begin at 8, where the previous ends, got 4 (an overlap)"},
      // Invalid or too large numbers.
      {one("\"F32\"", "[NaN]", "[0,8]"), "not valid JSON"},
      {one("\"F32\"", "[Infinity]", "[0,8]"), "not valid JSON"},
      {one("\"F32\"", "[0x2]", "[0,8]"), "not valid JSON"},
      {one("\"F32\"", "[02]", "[0,8]"), "not valid JSON"},
      {one("\"F32\"", "[1e400]", "[0,8]"), "not valid JSON: a number that is too large"},
      {one("\"F32\"", "[" + std::string(10'000, '9') + "]", "[0,8]"), "a number that is too large"},
      {one("\"F32\"", "[-0]", "[0,8]"), "got [0]"},
      {one("\"F32\"", "[9223372036854775808]", "[0,8]"), "more bytes than can be counted"},
      {one("\"U8\"", "[9223372036854775808]", "[0,8]"), "more bytes than can be counted"},
      {one("\"U8\"", "[18446744073709551615]", "[0,8]"), "more bytes than can be counted"},
      {one("\"U8\"", "[9223372036854775807]", "[0,8]"), "expected 9223372036854775807 bytes"},
      {one("\"U8\"", "[8]", "[9223372036854775808,9223372036854775816]"), "do not lie within"},
      {one("\"U8\"", "[8]", "[18446744073709551608,0]"), "do not lie within"},
      {one("\"U8\"", "[8]", "[0,18446744073709551615]"), "do not lie within"},
      // Very long input, which is refused before its end is read.
      {std::string(100'000, '[').replace(0, 1, "{\"a\":"), "got a list"},
      {one(std::string(100'000, '['), "", ""), "expected no list within a list"},
      {"{\"a\":" + repeated("{\"a\":", 100'000), "expected no object within"},
      {one("\"F32\"", "[" + repeated("1,", 100'000), ""), "not valid JSON"},
      {one("\"F32\"", "[2]", "[" + repeated("0,", 100'000) + "8]"), "[begin, end], got 9 numbers"},
      {"{\"" + std::string(100'000, 'a') + "\":1}", "aaa...': expected an object, got 1"},
      {"{\"" + std::string(100'000, 'a'), "not valid JSON"},
      {repeated("{", 100'000), "not valid JSON"},
  };
  for (const Refusal& c : cases) {
    write(file_of(c.header, std::string(8, '\0')));
    const std::string text = refusal();
    EXPECT_NE(text.find(c.expected), text.npos) << c.header.substr(0, 200) << "\n  " << text;
    EXPECT_EQ(text.rfind(path_, 0), 0u) << text;
    EXPECT_LT(text.size(), 600u) << "names are cut";
  }
}

TEST_F(SafeTensorsTest, ForeignFilesAreRefused) {
  EXPECT_NE(refusal().find("No such file"), std::string::npos) << refusal();
  write("short");
  EXPECT_NE(refusal().find("at least 8 bytes, got 5"), std::string::npos) << refusal();
  // Header lengths that exceed the file.
  for (const uint64_t length : {uint64_t(3), uint64_t(1) << 63, ~uint64_t(0) - 7}) {
    std::string file = file_of("{}", "");
    std::memcpy(file.data(), &length, sizeof length);
    write(file);
    EXPECT_NE(refusal().find(concat_to_string("at most 2 bytes, got ", length)), std::string::npos)
        << refusal();
  }
  write(std::string(8, '\xff') + "{}");
  EXPECT_NE(refusal().find("at most 2 bytes, got 18446744073709551615"), std::string::npos)
      << refusal();
  write("x,y\n1,2.5\n2,4\n");
  EXPECT_NE(refusal().find("(is it a file of another format?)"), std::string::npos) << refusal();
  path_ = directory_;
  EXPECT_NE(refusal().find("not a regular file"), std::string::npos) << refusal();
}

TEST_F(SafeTensorsTest, AHeaderBeyondTheFormatsLimitIsRefused) {
  const uint64_t length = 100'000'001;
  write(std::string(reinterpret_cast<const char*>(&length), sizeof length) + "{}");
  fs::resize_file(path_, length + sizeof length);  // a sparse file
  EXPECT_NE(refusal().find("at most 100000000 bytes, got 100000001"), std::string::npos)
      << refusal();
}

// Every element size, a scalar, an empty tensor, and metadata.
std::vector<NamedTensor> a_bit_of_everything() {
  return {{"a", arange(5)},        {"b", tensor({true, false})}, {"c", sample(kBFloat16)},
          {"d", zeros({2, 0, 3})}, {"e", tensor(2.5)},           {"f.weight", sample(kFloat64)}};
}

TEST_F(SafeTensorsTest, EveryTruncationAndExtensionIsRefused) {
  save_safetensors(path_, a_bit_of_everything(), {{"k", "v"}});
  const std::string whole = bytes();
  for (size_t n = 0; n < whole.size(); ++n) {
    fs::resize_file(path_, whole.size() - 1 - n);
    EXPECT_TRUE(refusal().starts_with(path_)) << n << ": " << refusal();
  }
  write(whole + '\0');
  EXPECT_NE(refusal(), "accepted");
}

// If a file is accepted, its header describes its bytes: every tensor's values are those at its
// offsets, and the tensors together cover all of the data.
void expect_read_correctly(const SafeTensors& file, const std::string& whole) {
  uint64_t length;
  std::memcpy(&length, whole.data(), sizeof length);
  const std::string_view data = std::string_view(whole).substr(sizeof length + length);
  size_t total = 0;
  for (const NamedTensor& t : file.tensors) {
    const std::vector<double> values = t.tensor.to_vector<double>();
    EXPECT_EQ(values.size(), size_t(t.tensor.numel()));
    total += t.tensor.nbytes();
    if (t.tensor.nbytes() == 0 || t.tensor.dtype() == kBool) continue;
    const std::string_view own(static_cast<const char*>(t.tensor.data_ptr()), t.tensor.nbytes());
    EXPECT_NE(data.find(own), data.npos) << t.name;
  }
  if (file.tensors.unreadable.empty()) {
    EXPECT_EQ(total, data.size());
  }
}

TEST_F(SafeTensorsTest, RandomChangesAreRefusedOrReadCorrectly) {
  save_safetensors(path_, a_bit_of_everything(), {{"k", "v"}});
  const std::string whole = bytes();
  constexpr int kRounds = 10'000;
  std::mt19937 random(7);
  int accepted = 0;
  for (int round = 0; round < kRounds; ++round) {
    std::string changed = whole;
    for (uint32_t i = 0; i <= random() % 3; ++i) {
      changed[random() % changed.size()] =
          random() % 2 ? char(random()) : "0123456789[]{}\","[random() % 16];
    }
    overwrite(changed);
    try {
      expect_read_correctly(load_safetensors(path_), changed);
      ++accepted;
    } catch (const Error& e) {
      EXPECT_TRUE(std::string(e.what()).starts_with(path_)) << e.what();
    }
  }
  EXPECT_GT(accepted, kRounds / 40);
  EXPECT_LT(accepted, kRounds * 39 / 40);
}

TEST_F(SafeTensorsTest, NamesThatCannotBeWrittenAreRefused) {
  const Tensor x = tensor({1.0});
  EXPECT_THROW(save_safetensors(path_, {{"a", x}, {"a", x}}), ValueError);
  EXPECT_THROW(save_safetensors(path_, {{"__metadata__", x}}), ValueError);
  EXPECT_THROW(save_safetensors(path_, {{"a", Tensor()}}), ValueError);
  EXPECT_THROW(save_safetensors(path_, {{"\xff", x}}), ValueError);
  EXPECT_THROW(save_safetensors(path_, {{"a", x}}, {{"k", "\xc3"}}), ValueError);
  EXPECT_TRUE(fs::is_empty(directory_));
}

// A limit on the file size simulates a full disk.
TEST_F(SafeTensorsTest, AFailedSaveLeavesTheOldFileAndSaysWhatItNeeds) {
  save_safetensors(path_, {{"a", tensor({1.0})}});
  const std::string before = bytes();
  rlimit old{};
  getrlimit(RLIMIT_FSIZE, &old);
  const rlimit small{4096, old.rlim_max};
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  setrlimit(RLIMIT_FSIZE, &small);
  std::string text = "saved";
  try {
    save_safetensors(path_, {{"a", zeros({4000})}});
  } catch (const Error& e) {
    text = e.what();
  }
  setrlimit(RLIMIT_FSIZE, &old);
  std::signal(SIGXFSZ, handler);
  EXPECT_NE(text.find("cannot write"), text.npos) << text;
  EXPECT_NE(text.find("the file needs 16072 bytes"), text.npos) << text;
  EXPECT_EQ(bytes(), before);
  EXPECT_EQ(std::distance(fs::directory_iterator(directory_), {}), 1);
}

TEST_F(SafeTensorsTest, AMissingDirectoryIsNamed) {
  try {
    save_safetensors(directory_ / "none" / "x", {});
    FAIL();
  } catch (const Error& e) {
    EXPECT_NE(std::string(e.what()).find("none/x: cannot create the file: No such file"),
              std::string::npos)
        << e.what();
  }
}

}  // namespace
}  // namespace taper::v0
