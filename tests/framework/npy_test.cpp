#include "framework/io/npy.h"

#include <filesystem>
#include <fstream>
#include <random>
#include <sstream>

#include <gtest/gtest.h>
#include <unistd.h>

#include "framework/factory/factories.h"
#include "framework/kernels/elementwise/copy.h"

namespace taper::v0 {
namespace {

namespace fs = std::filesystem;

class NpyTest : public testing::Test {
 protected:
  NpyTest() : path_(fs::temp_directory_path() / concat_to_string("taper_", ::getpid(), ".npy")) {}
  ~NpyTest() override { fs::remove(path_); }

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
  std::string refusal() const {
    try {
      (void)load_npy(path_);
    } catch (const Error& e) {
      return e.what();
    }
    return "accepted";
  }

  std::string path_;
};

std::string npy_of(const std::string& header, const std::string& data, char version = 1) {
  std::string out = "\x93NUMPY" + std::string{version, '\0'};
  const uint32_t length = uint32_t(header.size());
  out.append(reinterpret_cast<const char*>(&length), version == 1 ? 2 : 4);
  return out + header + data;
}

std::string dict(const std::string& descr, const std::string& shape,
                 const std::string& fortran = "False") {
  return concat_to_string("{'descr': ", descr, ", 'fortran_order': ", fortran, ", 'shape': ", shape,
                          ", }\n");
}

std::string bytes_of(const std::vector<float>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float)};
}

template <class Exception> std::string save_refusal(const Tensor& x) {
  try {
    save_npy("/nonexistent/x.npy", x);
  } catch (const Exception& e) {
    return e.what();
  }
  return "accepted";
}

TEST_F(NpyTest, EveryDTypeAndRankComesBack) {
  const Shape shapes[] = {{}, {0}, {1}, {5}, {3, 4}, {2, 0, 3}, {1, 2, 1, 2, 1, 2, 1, 2}};
  for (const DType dtype : kAllDTypes) {
    if (dtype == kBFloat16) continue;
    for (const Shape& shape : shapes) {
      const Tensor x = Tensor::make(shape, dtype, Device());
      kernels::copy_into(x, view_as(arange(-2, shape.numel() - 2), shape, x.strides(), 0));
      save_npy(path_, x);
      EXPECT_EQ((bytes().size() - x.nbytes()) % 64, 0u);
      const Tensor back = load_npy(path_);
      EXPECT_EQ(back.dtype(), dtype);
      EXPECT_EQ(back.shape(), shape);
      EXPECT_EQ(back.to_vector<double>(), x.to_vector<double>()) << name_of(dtype);
    }
  }
}

TEST_F(NpyTest, HeaderIsThatOfFormatOne) {
  save_npy(path_, tensor({{1.0, 2.0}}));
  const std::string expected =
      "{'descr': '<f4', 'fortran_order': False, 'shape': (1, 2, ), }" + std::string(56, ' ') + "\n";
  EXPECT_EQ(bytes(), npy_of(expected, bytes_of({1, 2})));
}

TEST_F(NpyTest, AViewIsWrittenDense) {
  const Tensor x = arange(6, {.dtype = kFloat32});
  save_npy(path_, view_as(x, {3, 2}, {1, 3}, 0));
  EXPECT_EQ(load_npy(path_).to_floats(), (std::vector<float>{0, 3, 1, 4, 2, 5}));
}

TEST_F(NpyTest, LaterVersionsAndOtherSpellingsAreRead) {
  const std::string data = bytes_of({1, 2, 3});
  for (const char version : {1, 2, 3}) {
    write(npy_of(dict("'<f4'", "(3,)"), data, version));
    EXPECT_EQ(load_npy(path_).to_floats(), (std::vector<float>{1, 2, 3})) << int(version);
  }
  // Python 2 wrote long integers in this form.
  write(npy_of(dict("'<f4'", "(3L, 1L)"), data));
  EXPECT_EQ(load_npy(path_).shape(), Shape({3, 1}));
  write(npy_of("{\"shape\":(3),\"fortran_order\":True,\"descr\":\"=f4\"}", data));
  EXPECT_EQ(load_npy(path_).shape(), Shape{3});
}

TEST_F(NpyTest, ColumnMajorDataIsReadRowMajor) {
  write(npy_of(dict("'<f4'", "(2, 3)", "True"), bytes_of({0, 1, 2, 3, 4, 5})));
  const Tensor x = load_npy(path_);
  EXPECT_TRUE(x.is_contiguous());
  EXPECT_EQ(x.shape(), Shape({2, 3}));
  EXPECT_EQ(x.to_floats(), (std::vector<float>{0, 2, 4, 1, 3, 5}));
}

TEST_F(NpyTest, ForeignAndDamagedFilesAreRefused) {
  struct Refusal {
    std::string bytes, expected;
  };
  const std::string data = bytes_of({1, 2, 3});
  const Refusal cases[] = {
      {"", "expected 8 bytes of magic and version, got 0"},
      {"PK\x03\x04 a zip archive", "does not begin with"},
      {npy_of("", "", 4), "got 4.0"},
      {npy_of("", "", 1), "expected '{', got its end"},
      {npy_of(std::string(70'000, ' '), "", 2), "at most 65536 bytes, got 70000"},
      {npy_of(dict("'>f4'", "(3,)"), data), "dtype '>f4' is big-endian"},
      {npy_of(dict("'<c8'", "(3,)"), data), "dtype '<c8' is not supported"},
      {npy_of(dict("'|O'", "(3,)"), data), "dtype '|O' is not supported"},
      {npy_of(dict("''", "(3,)"), data), "dtype '' is not supported"},
      {npy_of(dict("[('a', '<f4')]", "(3,)"), data), "structured arrays"},
      {npy_of(dict("'<f4'", "(4,)"), data), "expected 16 bytes for shape [4] of float32, got 12"},
      {npy_of(dict("'<f4'", "(2,)"), data), "expected 8 bytes for shape [2] of float32, got 12"},
      {npy_of(dict("'<f4'", "(-3,)"), data), "expected a size, got '-3"},
      {npy_of(dict("'<f4'", "(3.0,)"), data), "expected ',' or ')', got '.0"},
      {npy_of(dict("'<f4'", "(L,)"), data), "expected a size, got 'L"},
      {npy_of(dict("'<f4'", "(3LL,)"), data), "expected ',' or ')', got 'L"},
      {npy_of(dict("'<f4'", "(99999999999999999999,)"), data), "expected a size"},
      {npy_of(dict("'<f4'", "(4611686018427387907,)"), data), "than can be counted"},
      {npy_of(dict("'<f4'", "(0, 4294967296, 4294967296)"), ""), "than can be counted"},
      {npy_of(dict("'<f4'", "(1, 1, 1, 1, 1, 1, 1, 1, 3)"), data), "more than 8 dimensions"},
      {npy_of(dict("'<f4'", "(3,)", "Maybe"), data), "expected True or False, got 'Maybe"},
      {npy_of("{'descr': '<f4', 'shape': (3,)}", data), "lacks one of"},
      {npy_of("{'descr': '<f4', 'descr': '<f4'}", data), "repeated key 'descr'"},
      {npy_of(dict("'<f4'", "(3,)") + "x", data), "expected the end, got 'x'"},
      {npy_of("{'descr': '<f4", data), "expected a string, got ''<f4'"},
  };
  for (const Refusal& c : cases) {
    write(c.bytes);
    const std::string text = refusal();
    EXPECT_NE(text.find(c.expected), text.npos) << c.expected << "\n  " << text;
    EXPECT_EQ(text.rfind(path_, 0), 0u) << text;
  }
  fs::remove(path_);
  EXPECT_NE(refusal().find("No such file"), std::string::npos) << refusal();
}

TEST_F(NpyTest, EveryTruncationIsRefused) {
  save_npy(path_, arange(3));
  const std::string whole = bytes();
  for (size_t n = 0; n < whole.size(); ++n) {
    write(whole.substr(0, n));
    EXPECT_NE(refusal(), "accepted") << n;
  }
}

TEST_F(NpyTest, RandomChangesAreRefusedOrReadWithinTheFile) {
  const std::string whole = npy_of(dict("'<f4'", "(3, 1)", "True"), bytes_of({1, 2, 3}));
  write(whole);
  std::mt19937 random(3);
  for (int round = 0; round < 3000; ++round) {
    std::string changed = whole;
    changed[random() % 72] = random() % 2 ? char(random()) : "0123456789(),'}"[random() % 15];
    overwrite(changed);
    try {
      EXPECT_LE(load_npy(path_).nbytes(), 12u);
    } catch (const Error&) {
    }
  }
}

TEST_F(NpyTest, WhatNumPyCannotHoldIsRefusedInPyTorchsWords) {
  EXPECT_EQ(save_refusal<TypeError>(zeros({2}, {.dtype = kBFloat16})),
            "Got unsupported ScalarType BFloat16. Use tensor.to(kFloat32) first, which keeps every "
            "value.");
  EXPECT_EQ(save_refusal<Error>(zeros({2}, {.requires_grad = true})),
            "Can't call numpy() on Tensor that requires grad. Use save_npy(path, tensor.detach()) "
            "instead.");
  // The device is checked before the memory is accessed, so no GPU is needed.
  float value = 0;
  StoragePtr storage = borrow(&value, sizeof value, Device(DeviceType::kCuda, 0), nullptr);
  EXPECT_EQ(save_refusal<TypeError>(Tensor::make(std::move(storage), {1}, {1}, 0, kFloat32)),
            "can't convert cuda:0 device type tensor to numpy. Use Tensor.cpu() to copy the tensor "
            "to host memory first.");
  EXPECT_EQ(save_refusal<Error>(zeros({2})),
            "/nonexistent/x.npy: cannot create the file: No such file or directory");
}

}  // namespace
}  // namespace taper::v0
