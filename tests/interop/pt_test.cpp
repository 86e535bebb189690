// Files of torch.save: those that pt.py has stored, and small or damaged ones that are created
// here. Also checks that PyTorch reads Taper's files.
#include "framework/io/pt.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>

#include <gtest/gtest.h>
#include <unistd.h>

#include "autograd/ops/shape_ops.h"
#include "framework/factory/factories.h"
#include "framework/io/archive.h"
#include "framework/io/safetensors.h"
#include "framework/io/text_utils.h"
#include "modules/layers/containers.h"
#include "modules/layers/linear.h"
#include "modules/layers/norm_layers.h"
#include "tests/testing.h"
#include "tests/text.h"

namespace taper::v0::test {
namespace {

namespace fs = std::filesystem;

fs::path stored(const char* name) { return fs::path(TAPER_INTEROP_DIR) / "pt" / name; }

class PtTest : public testing::Test {
 protected:
  void SetUp() override {
    if (!has_zip()) GTEST_SKIP() << "built without libzip (TAPER_ZIP)";
    directory_ = fs::temp_directory_path() / concat_to_string("taper_pt_", ::getpid());
    fs::create_directories(directory_);
    path_ = directory_ / "x.pt";
  }
  void TearDown() override {
    if (!directory_.empty()) fs::remove_all(directory_);
  }
  void write(const std::string& bytes) const {
    std::ofstream(path_, std::ios::binary | std::ios::trunc) << bytes;
  }
  // Returns the message, without the path, with which a file with this pickle is refused.
  std::string refusal(const std::string& pickle) const {
    write_zip(path_, {{"x/data.pkl", pickle}, {"x/data/0", "12345678"}});
    return said();
  }
  std::string said() const {
    try {
      (void)load_pt(path_);
    } catch (const InputError& e) {
      const std::string text = e.what();
      return text.substr(std::min(text.size(), path_.size() + 2));
    }
    return "accepted";
  }

  fs::path directory_;
  std::string path_;
};

std::map<std::string, Tensor> by_name(const std::vector<NamedTensor>& tensors) {
  std::map<std::string, Tensor> out;
  for (const auto& [name, x] : tensors) EXPECT_TRUE(out.emplace(name, x).second) << name;
  return out;
}

std::string bytes_of(const fs::path& file) {
  std::ostringstream out;
  out << std::ifstream(file, std::ios::binary).rdbuf();
  return out.str();
}

TEST_F(PtTest, EveryDtypeLayoutAndSharingIsReadAsPyTorchWroteIt) {
  const auto got = by_name(load_pt(stored("kinds.pt")));
  const Tensor six = arange(6).reshape({2, 3}), x = arange(24).to(kFloat32);
  for (const DType dtype :
       {kFloat32, kFloat64, kFloat16, kBFloat16, kInt64, kInt32, kInt16, kInt8, kUInt8}) {
    const Tensor& y = got.at(to_string(dtype));
    EXPECT_TRUE(y.dtype() == dtype) << to_string(dtype);
    EXPECT_TRUE(close(y.to(kFloat64), six.to(kFloat64), 0)) << to_string(dtype);
  }
  EXPECT_TRUE(got.at("bool").dtype() == kBool);
  EXPECT_TRUE(close(got.at("bool").to(kFloat32), {3}, {1, 0, 1}, 0));
  EXPECT_TRUE(close(got.at("scalar"), {}, {2.5}, 0));
  EXPECT_EQ(got.at("empty").shape(), Shape({0, 3}));
  EXPECT_TRUE(close(got.at("transposed"), six.to(kFloat32).t().contiguous(), 0));
  EXPECT_TRUE(close(got.at("sliced"), {2, 3}, {6, 8, 10, 12, 14, 16}, 0));
  EXPECT_EQ(got.at("sliced").strides(), Shape({6, 2}));
  EXPECT_EQ(got.at("sliced").storage(), got.at("shared").storage());
  EXPECT_TRUE(close(got.at("shared"), {4}, {20, 21, 22, 23}, 0));
  EXPECT_TRUE(close(got.at("expanded"), {2, 3}, {1, 1, 1, 1, 1, 1}, 0));
  EXPECT_TRUE(close(got.at("channels_last"), x.reshape({1, 2, 3, 4}), 0));
  EXPECT_TRUE(got.at("channels_last").strides() == Shape({24, 1, 8, 2}));
  EXPECT_EQ(got.at("tied").data_ptr(), got.at("tied_again").data_ptr());
  EXPECT_TRUE(close(got.at("nested.list.0"), {1}, {1}, 0));
  EXPECT_TRUE(close(got.at("nested.list.1.0"), {1}, {0}, 0));
  EXPECT_EQ(got.at("nested.3").item<int64_t>(), 3);
  EXPECT_EQ(got.size(), 22u);
}

TEST_F(PtTest, AModelsEntryOfACheckpointComputesWhatPyTorchComputed) {
  const auto all = by_name(load_pt(stored("checkpoint.pt")));
  EXPECT_TRUE(all.contains("optimizer.state.0.exp_avg"));
  for (const char* file : {"checkpoint.pt", "protocol4.pt"}) {
    Sequential net(Linear(4, 8), BatchNorm1d(8));
    net.load_state_dict(load_weights(stored(file), file[0] == 'c' ? "model" : ""));
    EXPECT_TRUE(close(net.eval()(all.at("x")), all.at("y"), 1e-6)) << file;
  }
  EXPECT_EQ(load_pt(stored("checkpoint.pt"), "model.0").size(), 2u);
  EXPECT_EQ(load_pt(stored("checkpoint.pt"), "model.0.weight").at(0).name, "");
  EXPECT_TRUE(refuses<InputError>(
      [] { return load_pt(stored("checkpoint.pt"), "ema"); },
      stored("checkpoint.pt").string() +
          ": has no tensors below 'ema'; its entries: epoch, model, optimizer, x, y"));
}

// old.pt has the content of kinds.pt in the format before PyTorch 1.6.
TEST_F(PtTest, TheFormatBeforeArchivesIsReadToo) {
  const auto got = by_name(load_weights(stored("old.pt"))),
             want = by_name(load_pt(stored("kinds.pt")));
  ASSERT_EQ(got.size(), want.size());
  for (const auto& [name, x] : want) {
    EXPECT_TRUE(got.at(name).dtype() == x.dtype() && got.at(name).strides() == x.strides()) << name;
    EXPECT_TRUE(close(got.at(name).to(kFloat64), x.to(kFloat64), 0)) << name;
  }
  EXPECT_EQ(got.at("sliced").storage(), got.at("shared").storage());
  const std::string good = bytes_of(stored("old.pt"));
  for (size_t n = 14; n < good.size(); n += 5) {
    write(good.substr(0, n));
    EXPECT_NE(said(), "accepted") << n;
  }
}

TEST_F(PtTest, WhatIsSavedIsReadBackAndTiedTensorsStayTied) {
  Tensor x = arange(24).to(kFloat32).reshape({4, 6});
  const Tensor part = x.narrow(1, 1, 2);
  save_pt(path_, {{"a.b", x}, {"part", part}, {"again", x}, {"none", zeros({0, 2})}});
  const auto got = by_name(load_weights(path_));
  ASSERT_EQ(got.size(), 4u);
  EXPECT_TRUE(close(got.at("a.b"), x, 0));
  EXPECT_TRUE(close(got.at("part"), part.contiguous(), 0));
  EXPECT_EQ(got.at("a.b").storage(), got.at("again").storage());
  EXPECT_TRUE(refuses<ValueError>(
      [&] {
        save_pt(path_, {{"a", x}, {"a", x}});
        return 0;
      },
      path_ + ": cannot save: tensor 'a' is given twice"));
  EXPECT_EQ(load_weights(path_).size(), 4u);
}

TEST_F(PtTest, ObjectsThatPythonWouldConstructAreNamedAndNothingRuns) {
  const std::string call = stored("call.pt").string() + ": call/data.pkl: at byte 177: 'more': " +
                           "it needs Python's 'posix.system', which is not run";
  const LoadedTensors tensors = load_pt(stored("call.pt"));
  EXPECT_EQ(tensors.size(), 1u);
  EXPECT_TRUE(close(tensors.at("weight"), {2}, {1, 1}, 0));
  EXPECT_TRUE(refuses<InputError>([&] { return tensors.at("more"); }, call));
  EXPECT_TRUE(refuses<InputError>([] { return load_pt(stored("call.pt"), "more"); }, call));
  EXPECT_FALSE(fs::exists("/tmp/taper_was_here"));
  EXPECT_TRUE(refuses<InputError>([] { return load_pt(stored("module.pt")); },
                                  stored("module.pt").string() +
                                      ": module/data.pkl: at byte 2: it needs Python's "
                                      "'torch.nn.modules.container.Sequential'"));
  EXPECT_TRUE(refuses<InputError>([&] { return load_pt(path_); }, path_ + ": cannot read"));
  write("no archive");
  EXPECT_TRUE(refuses<InputError>([&] { return load_pt(path_); },
                                  path_ + ": not a valid zip archive: Not a zip archive (is the "
                                          "file truncated, or of another format?)"));
}

// Parts of pickles. The only storage of the file has eight bytes.
std::string storage_pickle(const std::string& type, const std::string& size,
                           const char* key = "0") {
  return "((U\007storagectorch\n" + type + "\nU\001" + key + "U\003cpu" + size + "tQ";
}
std::string tensor_pickle(const std::string& storage, const std::string& rest,
                          const char* version = "2") {
  return concat_to_string("ctorch._utils\n_rebuild_tensor_v", version, "\n", storage, rest, "tR");
}
const std::string kTwoFloats = storage_pickle("FloatStorage", "K\002");
const std::string kFirstFloat = tensor_pickle(kTwoFloats, std::string("K\0K\001\x85K\001\x85", 8));
std::string key_pickle(const std::string& name) {
  return "U" + std::string(1, char(name.size())) + name;
}
// Pickles {"weight": tensor, "bias": VALUE}.
std::string with_bias(const std::string& value) {
  return "}(" + key_pickle("weight") + kFirstFloat + key_pickle("bias") + value + "u.";
}

struct Scale : Module {
  Parameter weight{*this, "weight", zeros({1})};
};
struct Affine : Module {
  Parameter weight{*this, "weight", zeros({1})}, bias{*this, "bias", zeros({1})};
};

TEST_F(PtTest, AnEntryThatTaperCannotRepresentLeavesTheOthersReadable) {
  const std::string untyped = "((U\007storagectorch.storage\nUntypedStorage\nU\0010U\003cpuK\010tQ";
  const std::string strides(9, '\0'), zero("K\0", 2), plain = zero + "K\001\x85K\001\x85";
  std::string nine;
  for (int i = 0; i < 9; ++i) nine += "K\001";
  const struct {
    std::string value, expected;
  } cases[] = {
      {tensor_pickle(untyped, plain + "\x89}ctorch\nuint16\n", "3"),
       "dtype uint16 is not supported"},
      {tensor_pickle(untyped, plain + "\x89}ctorch\nfloat8_e5m2\n", "3"),
       "dtype float8_e5m2 is not supported; Taper has float32"},
      {tensor_pickle(storage_pickle("ComplexFloatStorage", "K\001"), plain),
       "storage type 'torch.ComplexFloatStorage' is not supported"},
      {tensor_pickle(kTwoFloats, zero + "(" + nine + "t(" + nine + "t"),
       "it has more than 8 dimensions"},
      {tensor_pickle(kTwoFloats, plain + "\x89}}(U\004conj\x88u"), "it is conjugated or negated"},
      {"ctorch._utils\n_rebuild_parameter\n(ctorch._utils\n_rebuild_qtensor\n)R\x89}tR",
       "it needs Python's 'torch._utils._rebuild_qtensor'"},
      {"cnumpy.core.multiarray\nscalar\nU\001xK\001\x86R", "'numpy.core.multiarray.scalar'"},
      {"cargparse\nNamespace\n)\x81}(U\002lrK\001ub", "'argparse.Namespace'"},
      {"\x8c\001a\x8c\001B\x93)}\x92", "'a.B'"},
      {"ccollections\ndefaultdict\nc__builtin__\nint\n\x85R(U\001kK\001u",
       "'collections.defaultdict'"},
      {"ccollections\ndeque\n)R(K\001K\002e", "'collections.deque'"},
  };
  for (const auto& [value, expected] : cases) {
    write_zip(path_, {{"x/data.pkl", with_bias(value)}, {"x/data/0", "12345678"}});
    const LoadedTensors tensors = load_weights(path_);
    ASSERT_EQ(tensors.size(), 1u) << expected;
    EXPECT_EQ(load_pt(path_, "weight").at(0).tensor.shape(), Shape{1});
    const auto names_it = [&](const auto& f) {
      try {
        (void)f();
      } catch (const Error& e) {
        const std::string text = e.what();
        return text.find(expected) != text.npos && text.find(path_) != text.npos &&
               text.find("'bias'") != text.npos;
      }
      return false;
    };
    EXPECT_TRUE(names_it([&] { return tensors.at("bias"); })) << expected;
    EXPECT_TRUE(names_it([&] { return load_pt(path_, "bias"); })) << expected;
    EXPECT_TRUE(names_it([&] { return load_weights(path_, "bias.0"); })) << expected;
    Scale scale;
    scale.load_state_dict(tensors);
    EXPECT_TRUE(tensors.at("weight").equal(scale.weight));
    Affine affine;
    EXPECT_TRUE(names_it([&] { return affine.load_state_dict(tensors), 0; })) << expected;
    EXPECT_TRUE(names_it([&] { return affine.load_state_dict(tensors, {.strict = false}), 0; }));
    EXPECT_TRUE(zeros({1}).equal(affine.weight)) << "nothing was changed";
  }
}

TEST_F(PtTest, ValuesThatAreNoTensorsArePassedOver) {
  for (const std::string& value : {
           std::string("\x8a\011\377\377\377\377\377\377\377\377\001"),  // 2^65 - 1
           std::string("\x8a\011\0\0\0\0\0\0\0\x80\0", 11),              // 2^63
           std::string("\x8b\002\0\0\0\1\0", 7),
           std::string("ctorch\nSize\nK\001\x85\x85R"),
           std::string("ctorch\nfloat16\n"),
           std::string("(K\001\x91"),
           std::string("\x96\002\0\0\0\0\0\0\0ab", 11),
       }) {
    write_zip(path_, {{"x/data.pkl", with_bias(value)}, {"x/data/0", "12345678"}});
    const LoadedTensors tensors = load_pt(path_);
    EXPECT_EQ(tensors.size(), 1u);
    EXPECT_TRUE(tensors.unreadable.empty()) << tensors.unreadable.begin()->second;
  }
}

TEST_F(PtTest, KeysThatAreNoTextAreNamedAsPythonPrintsThem) {
  const struct {
    std::string key, name;
  } cases[] = {{"K\003", "3"},
               {"J\377\377\377\377", "-1"},
               {"\x88", "True"},
               {"N", "None"},
               {std::string("G\x3f\xf8\0\0\0\0\0\0", 9), "1.5"},
               {std::string("G\x40\0\0\0\0\0\0\0", 9), "2.0"},
               {"K\001K\002\x86", "(1, 2)"},
               {"U\001a\x85", "('a',)"},
               {")", "()"},
               {"ctorch\nfloat16\n", "torch.float16"}};
  for (const auto& [key, name] : cases) {
    write_zip(path_, {{"x/data.pkl", "}(" + key + kFirstFloat + "u."}, {"x/data/0", "12345678"}});
    EXPECT_EQ(load_pt(path_).at(0).name, name);
  }
  write_zip(path_, {{"x/data.pkl", "}(cf\ng\n)R" + kFirstFloat + "u."}, {"x/data/0", "12345678"}});
  EXPECT_EQ(load_pt(path_).at(0).name, "<key at byte 8>");
}

// The file contains {"a.b": w, "a": {"b": w}, "c": w}.
TEST_F(PtTest, ANameThatTwoTensorsHaveIsRefusedWhereItIsAskedFor) {
  const std::string inner = "}(" + key_pickle("b") + kFirstFloat + "u";
  write_zip(path_, {{"x/data.pkl", "}(" + key_pickle("a.b") + kFirstFloat + key_pickle("a") +
                                       inner + key_pickle("c") + kFirstFloat + "u."},
                    {"x/data/0", "12345678"}});
  const LoadedTensors tensors = load_pt(path_);
  ASSERT_EQ(tensors.size(), 1u);
  EXPECT_EQ(tensors[0].name, "c");
  for (const char* entry : {"a", "a.b"}) {
    EXPECT_TRUE(refuses<InputError>([&] { return load_pt(path_, entry); },
                                    path_ + ": x/data.pkl: at byte 101: 'a.b': two values of the "
                                            "file have this name"));
  }
}

// The archive of checkpoint.pt, compressed by another program.
TEST_F(PtTest, ADeflatedArchiveIsReadToo) {
  const auto packed = by_name(load_pt(stored("deflated.pt"))),
             plain = by_name(load_pt(stored("checkpoint.pt")));
  ASSERT_EQ(packed.size(), plain.size());
  for (const auto& [name, x] : plain) EXPECT_TRUE(packed.at(name).equal(x)) << name;
  const std::string good = bytes_of(stored("deflated.pt"));
  for (size_t n = 0; n < good.size(); n += 17) {
    write(good.substr(0, n));
    EXPECT_NE(said(), "accepted") << n;
  }
}

TEST_F(PtTest, AnEntryOfSafetensorsIsPickedByTheSameKeys) {
  const Tensor x = arange(2).to(kFloat32);
  const std::string file = path_ + ".safetensors";
  save_safetensors(file, {{"a.b", x}, {"a.c", x}, {"ab", x}});
  EXPECT_EQ(load_weights(file, "a").size(), 2u);
  EXPECT_EQ(load_weights(file, "a").at(1).name, "c");
  EXPECT_EQ(load_weights(file, "ab").at(0).name, "");
  EXPECT_TRUE(refuses<InputError>([&] { return load_weights(file, "d"); },
                                  file + ": has no tensors below 'd'; its entries: a.b, a.c, ab"));
}

TEST_F(PtTest, APickleThatMakesNoSenseIsRefusedAtItsByte) {
  const std::string at = "x/data.pkl: at byte ";
  const auto tensor = [&](const std::string& of, const std::string& rest) {
    return tensor_pickle(of, rest) + ".";
  };
  const std::string two = kTwoFloats, plain = "K\001\x85K\001\x85";
  EXPECT_EQ(refusal(tensor(two, std::string("K\000", 2) + plain)), "accepted");
  const struct {
    std::string pickle, said;
  } cases[] = {
      {"N", "1: expected 1 bytes more, got 0 (is the file truncated?)"},
      {"X\377\377\377\377", "0: expected 4294967295 bytes more, got 0 (is the file truncated?)"},
      {"\x80\x09", "0: protocol 9, not 2 to 5"},
      {"i", "0: opcode 105 is no part of a file of tensors and containers"},
      {"R", "0: it takes what is not there"},
      {"t", "0: it takes what is above a mark that is not there"},
      {"h\005", "0: it names value 5, which it has not kept"},
      {"}(K\001u.", "4: a key without a value"},
      {"NN.", "accepted"},
      {"N.N", "2: bytes follow the end"},
      {tensor(two, "\x8a\011\377\377\377\377\377\377\377\377\001" + plain),
       "expected an offset as value 1 of a tensor"},
      {"K\001(K\001e.", "5: expected a list, got another value"},
      {"K\001)R.", "3: expected a callable, got another value"},
      {"]q\000h\000a.", ""},
      {tensor(two, "K\002" + plain),
       "85: shape [1] with strides [1] from 2 does not lie in a storage of 2"},
      {tensor(two, "K\001K\002\x85K\001\x85"), "85: shape [2] with strides [1] from 1 does not"},
      {tensor(two, "K\001K\001\x85)"), "83: shape [1] with strides [] from 1 does not"},
      {tensor(storage_pickle("FloatStorage", "K\003"), "K\001" + plain),
       "storage '0' of 3 x float32 has 8 bytes"},
      {tensor(storage_pickle("FloatStorage", "K\002", "1"), "K\001" + plain),
       "the archive has no data/1"},
      {tensor(storage_pickle("ComplexFloatStorage", "K\001"), "K\001" + plain),
       "storage type 'torch.ComplexFloatStorage' is not supported"},
      {tensor("(N", "K\001" + plain), "expected a storage as value 0 of a tensor"},
  };
  for (const auto& [pickle, expected] : cases) {
    const std::string got = refusal(pickle);
    EXPECT_NE(got.find(expected), got.npos)
        << detail::escaped_for_display(pickle, 200) << "\n " << got;
  }
  // A list that contains itself.
  const std::string loop = refusal(std::string("]q\000h\000a.", 7));
  EXPECT_EQ(loop, at + "0: containers within one another without an end");
}

// A key of a megabyte costs a few bytes each time it is repeated, so the names of a small file can
// fill the memory.
TEST_F(PtTest, NamesThatFillTheMemoryAreRefused) {
  const std::string size("\0\0\x10\0", 4), key(1 << 20, 'k');
  std::string pickle = "}(X" + size + key + "}(";
  for (int i = 0; i < 300; ++i) pickle += key_pickle(concat_to_string(i)) + kFirstFloat;
  EXPECT_TRUE(contains(refusal(pickle + "uu."), "the names of its values take more than 268435456"))
      << refusal(pickle + "uu.");
}

// An archive that claims two gigabytes of zeros in three megabytes.
TEST_F(PtTest, AnArchiveThatUnpacksToManyTimesItsSizeIsRefused) {
  constexpr uint32_t kBytes = uint32_t(1) << 31;
  const std::string count("J\0\0\0\x20", 5);
  const std::string tensor = tensor_pickle(storage_pickle("FloatStorage", count),
                                           std::string("K\0K\001\x85K\001\x85", 8)) +
                             ".";
  write_zip(path_, {{"x/data.pkl", tensor}, {"x/data/0", std::string(3 << 20, 'z')}});
  std::string bytes = bytes_of(path_);
  // The fields of the central directory: the compression (deflate), and the size.
  const size_t at = bytes.rfind("PK\1\2");
  bytes[at + 10] = 8;
  for (size_t i = 0; i < 4; ++i) bytes[at + 24 + i] = char(kBytes >> (8 * i));
  write(bytes);
  EXPECT_TRUE(contains(said(),
                       "its tensors take at least 2147483648 bytes, the compressed file "
                       "only 3"))
      << said();
}

TEST_F(PtTest, ADamagedFileIsReadOrRefusedWithOneMessage) {
  const std::string good = bytes_of(stored("protocol4.pt"));
  ASSERT_GT(good.size(), 1000u);
  int refused = 0;
  for (size_t n = 0; n < good.size(); n += 7) {
    write(good.substr(0, n));
    EXPECT_NE(said(), "accepted") << n;
  }
  for (size_t i = 0; i < good.size(); ++i) {
    std::string bad = good;
    bad[i] = char(bad[i] ^ 0x41);
    write(bad);
    refused += said() != "accepted";
  }
  // Some bytes of a file are read by nobody.
  EXPECT_GT(refused, int(good.size()) / 3);
}

// The Python with PyTorch is TAPER_PYTHON or, by default, python3.
TEST_F(PtTest, PyTorchReadsWhatIsSavedHere) {
  const char* given = std::getenv("TAPER_PYTHON");
  const std::string python = given ? given : "python3";
  if (std::system((python + " -c 'import torch' 2>/dev/null").c_str()) != 0) {
    GTEST_SKIP() << python << " has no PyTorch; set TAPER_PYTHON to another one";
  }
  const auto kinds = by_name(load_pt(stored("kinds.pt")));
  std::vector<NamedTensor> tensors;
  for (const char* name :
       {"float32", "float64", "float16", "bfloat16", "int64", "int32", "int16", "int8", "uint8",
        "bool", "scalar", "empty", "transposed", "tied", "tied_again"}) {
    tensors.push_back({name, kinds.at(name)});
  }
  save_pt(path_, tensors);
  const fs::path script = fs::path(TAPER_INTEROP_DIR) / "pt.py";
  EXPECT_EQ(
      std::system(concat_to_string(python, " '", script.string(), "' check '", path_, "'").c_str()),
      0);
}

}  // namespace
}  // namespace taper::v0::test
