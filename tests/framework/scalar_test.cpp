// Numbers as elements of a dtype: every function that takes a number refuses one that the dtype
// cannot hold.
#include <cmath>
#include <functional>
#include <limits>

#include <gtest/gtest.h>

#include "autograd/ops/binary_ops.h"
#include "autograd/ops/index/index_ops.h"
#include "autograd/ops/unary_ops.h"
#include "framework/factory/factories.h"
#include "tests/testing.h"

namespace taper::v0::test {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr int64_t kLargest = std::numeric_limits<int64_t>::max();

struct Row {
  Scalar number;
  DType dtype;
  bool held;
};

// As in PyTorch 2.11's fill_.
const Row kNumbers[] = {{300, kInt8, false},
                        {-128, kInt8, true},
                        {127, kInt8, true},
                        {127.9, kInt8, false},
                        {-128.7, kInt8, false},
                        {2.7, kInt8, true},
                        {true, kInt8, true},
                        {NAN, kInt8, false},
                        {kInfinity, kInt8, false},
                        {-1, kUInt8, true},
                        {-255, kUInt8, true},
                        {-256, kUInt8, false},
                        {256, kUInt8, false},
                        {-1.5, kUInt8, false},
                        {40000, kInt16, false},
                        {int64_t(1) << 31, kInt32, false},
                        {(int64_t(1) << 31) - 1, kInt32, true},
                        {-2147483648.9, kInt32, false},
                        {kLargest, kInt64, true},
                        {9.3e18, kInt64, false},
                        {0x1p63, kInt64, false},
                        {-0x1p63, kInt64, true},
                        {NAN, kInt64, false},
                        {7, kBool, true},
                        {NAN, kBool, true},
                        {65504, kFloat16, true},
                        {65519, kFloat16, false},
                        {1e6, kFloat16, false},
                        {-kInfinity, kFloat16, true},
                        {NAN, kFloat16, true},
                        {3.3895e38, kBFloat16, true},
                        {3.4e38, kBFloat16, false},
                        {3.4028234e38, kFloat32, true},
                        {-1e39, kFloat32, false},
                        {kLargest, kFloat32, true},
                        {kLargest, kFloat16, false},
                        {1e308, kFloat64, true}};

TEST(Numbers, AreRefusedByDtypesThatCannotHoldThem) {
  for (const Device device : all_devices()) {
    for (const Row& row : kNumbers) {
      for (const int64_t n : {0, 2}) {
        const auto fill = [&] {
          return zeros({n}, {.dtype = row.dtype, .device = device}).fill_(row.number).clone();
        };
        const std::string what = concat_to_string(row.number.to_double(), " as ", row.dtype);
        if (row.held) {
          EXPECT_NO_THROW((void)fill()) << what;
        } else {
          EXPECT_TRUE(refuses<Error>(fill, "value cannot be converted to type ")) << what;
        }
      }
    }
  }
}

TEST(Numbers, NobodyWrapsThem) {
  struct Call {
    const char* what;
    std::function<Tensor(Device)> f;
    const char* text = "value cannot be converted to type int8_t without overflow";
  };
  const auto bytes = [](Device d) { return ones({2}, {.dtype = kInt8, .device = d}); };
  const auto halves = [](Device d) { return ones({2}, {.dtype = kFloat16, .device = d}); };
  const auto mask = [](Device d) { return ones({2}, {.dtype = kBool, .device = d}); };
  const auto options = [](Device d) { return TensorOptions{.dtype = kInt8, .device = d}; };
  const char* half = "value cannot be converted to type c10::Half without overflow";
  const Call calls[] = {
      {"fill_", [=](Device d) { return Tensor(bytes(d).fill_(300)); }},
      {"full", [=](Device d) { return full({2}, 300, options(d)); }},
      {"full of float", [](Device d) { return full({2}, 1e39, {.device = d}); },
       "value cannot be converted to type float without overflow"},
      {"full_like", [=](Device d) { return full_like(bytes(d), 300); }},
      {"tensor",
       [=](Device d) {
         return tensor({1, 300}, options(d));
       }},
      {"linspace", [=](Device d) { return linspace(0, 300, 3, options(d)); }},
      {"masked_fill", [=](Device d) { return masked_fill(bytes(d), mask(d), 300); }},
      {"masked_fill_", [=](Device d) { return Tensor(bytes(d).masked_fill_(mask(d), 300)); }},
      {"where", [=](Device d) { return where(mask(d), bytes(d), 300); }},
      {"where, first", [=](Device d) { return where(mask(d), 300, bytes(d)); }},
      {"where of half", [=](Device d) { return where(mask(d), halves(d), -1e9); }, half},
      {"clamp", [=](Device d) { return clamp(bytes(d), 0, 300); }},
      {"clamp from below", [=](Device d) { return clamp(bytes(d), -300); }},
      {"clamp of half", [=](Device d) { return clamp(halves(d), -1e9, 1e9); }, half},
      {"pad",
       [=](Device d) {
         return pad(bytes(d), {1, 1}, 300);
       }},
      {"pow", [=](Device d) { return pow(bytes(d), 300); }},
      {"pow_", [=](Device d) { return Tensor(bytes(d).pow_(300)); }},
      {"alpha", [=](Device d) { return add(bytes(d), bytes(d), 300); }},
      {"alpha in place", [=](Device d) { return Tensor(bytes(d).sub_(bytes(d), 300)); }},
      {"alpha of half", [=](Device d) { return add(halves(d), halves(d), 1e9); }, half},
      {"fraction as alpha in place", [=](Device d) { return Tensor(bytes(d).add_(bytes(d), 1.5)); },
       "For integral input tensors, argument alpha must not be a floating point number."},
      {"randint", [=](Device d) { return randint(0, 300, {2}, options(d)); },
       "to - 1 is out of bounds for signed char"},
      {"randint, negative",
       [](Device d) { return randint(-1, 3, {2}, {.dtype = kUInt8, .device = d}); },
       "from is out of bounds for unsigned char"},
      {"uniform_", [=](Device d) { return Tensor(halves(d).uniform_(0, 1e6)); },
       "to is out of bounds for c10::Half"},
  };
  for (const Device device : all_devices()) {
    for (const Call& call : calls) {
      EXPECT_TRUE(refuses<Error>([&] { return call.f(device); }, call.text)) << call.what;
    }
  }
}

TEST(Numbers, ItemIsRefusedATypeThatCannotHoldIt) {
  const auto refuses_item = [](auto type, const Tensor& x, const std::string& name) {
    return refuses<Error>([&] { return x.item<decltype(type)>(); },
                          "value cannot be converted to type " + name + " without overflow");
  };
  EXPECT_TRUE(refuses_item(int8_t(), tensor(300), "int8_t"));
  EXPECT_TRUE(refuses_item(uint8_t(), tensor(-1), "uint8_t"));
  EXPECT_TRUE(refuses_item(int(), tensor(int64_t(1) << 31), "int"));
  EXPECT_TRUE(refuses_item(size_t(), tensor(-1), "int64_t"));
  EXPECT_TRUE(refuses_item(int64_t(), tensor(NAN), "int64_t"));
  EXPECT_TRUE(refuses_item(float(), tensor(1e39, {.dtype = kFloat64}), "float"));
  EXPECT_EQ(tensor(-2.0).item<int8_t>(), -2);
  EXPECT_EQ(tensor(255).item<uint8_t>(), 255);
  EXPECT_EQ(tensor(7).item<size_t>(), 7u);
  EXPECT_EQ(tensor(kInfinity).item<float>(), float(kInfinity));
  EXPECT_TRUE(tensor(NAN).item<bool>());
}

TEST(Numbers, ItemIsRefusedAnIntegerTypeForAFraction) {
  for (const Device device : all_devices()) {
    const Tensor x = full({}, -2.5, {.device = device});
    EXPECT_TRUE(refuses<Error>([&] { return x.item<int8_t>(); },
                               "value -2.5 cannot be converted to type int8_t without losing its "
                               "fraction; read it as a double, or round it first"));
    EXPECT_TRUE(
        refuses<Error>([&] { return x.item<int64_t>(); }, "value -2.5 cannot be converted"));
    EXPECT_TRUE(x.item<bool>());
    EXPECT_EQ(x.item<double>(), -2.5);
  }
}

// Converts elements of one dtype to another: which are refused, and the first one that is.
struct Narrowing {
  const char* name;
  TensorData values;
  DType from;
  std::function<void(const Tensor&)> read;
  std::string error;  // empty: nothing is lost
};
template <class T> auto read_as() {
  return [](const Tensor& x) { (void)x.to_vector<T>(); };
}

TEST(Numbers, ToVectorIsRefusedATypeThatCannotHoldAnElement) {
  const double inf = kInfinity;
  const Narrowing cases[] = {
      {"a fraction",
       {1.0, 2.5, 0.5},
       kFloat32,
       read_as<int64_t>(),
       "element 1 of a tensor of "
       "dtype float32 is 2.5, which int64 cannot hold"},
      {"a half", {0.5}, kFloat16, read_as<int32_t>(), "element 0 of a tensor of dtype float16"},
      {"nan", {0.0, double(NAN)}, kFloat64, read_as<int64_t>(), "element 1"},
      {"infinity", {inf}, kFloat32, read_as<int16_t>(), "element 0"},
      {"2^63", {0x1p63}, kFloat64, read_as<int64_t>(), "element 0"},
      {"the smallest", {-0x1p63}, kFloat64, read_as<int64_t>(), ""},
      {"whole numbers", {-3.0, 4.0, -0.0}, kFloat32, read_as<int8_t>(), ""},
      {"beyond int32", {1, int64_t(1) << 31}, kInt64, read_as<int32_t>(), "element 1"},
      {"a negative one", {-1}, kInt32, read_as<uint8_t>(), "element 0"},
      {"of equal size", {200}, kUInt8, read_as<int8_t>(), "element 0"},
      {"bytes", {0, 255}, kInt64, read_as<uint8_t>(), ""},
      {"a large double", {1.0, 1e39}, kFloat64, read_as<float>(), "element 1"},
      {"a rounded double", {0.1, inf}, kFloat64, read_as<float>(), ""},
      {"integers as floats", {(int64_t(1) << 60) + 1}, kInt64, read_as<float>(), ""},
  };
  for (const Narrowing& c : cases) {
    const Tensor x = tensor(c.values, {.dtype = c.from});
    const auto read = [&] { return c.read(x), 0; };
    if (c.error.empty()) {
      EXPECT_NO_THROW(read()) << c.name;
    } else {
      EXPECT_TRUE(refuses<Error>(read, "to_vector: " + c.error)) << c.name;
    }
  }
  EXPECT_EQ(tensor({0.5, 0.0, 256.0}).to_vector<bool>(), (std::vector<bool>{true, false, true}));
  EXPECT_EQ(tensor({{1.0, 2.0}, {3.0, 4.0}}).t().to_vector<int>(), (std::vector<int>{1, 3, 2, 4}));
}

TEST(Numbers, AnIntegerBeyondInt64IsRefused) {
  EXPECT_TRUE(refuses<Error>([] { return full({1}, uint64_t(kLargest) + 1); },
                             "value cannot be converted to type int64_t without overflow"));
  EXPECT_EQ(full({1}, uint64_t(kLargest)).item<int64_t>(), kLargest);
}

// 2^60 + 1 is not representable as a double.
TEST(Numbers, BoundsOfInt64AreExact) {
  const int64_t bound = (int64_t(1) << 60) + 1;
  for (const Device device : all_devices()) {
    const Tensor x = full({2}, bound + 1, {.device = device});
    EXPECT_EQ(clamp(x, 0, bound)[0].item<int64_t>(), bound);
    EXPECT_EQ(clamp(-x, -bound)[1].item<int64_t>(), -bound);
  }
}

}  // namespace
}  // namespace taper::v0::test
