#include <cmath>
#include <limits>
#include <vector>

#include <gtest/gtest.h>

#include "framework/cuda/cuda.h"
#include "framework/factory/factories.h"
#include "framework/factory/format_tensor.h"
#include "framework/factory/print_options.h"
#include "framework/kernels/elementwise/copy.h"

namespace taper::v0 {
namespace {

constexpr double kInf = INFINITY, kNan = NAN;

Tensor shaped(const Tensor& x, const Shape& shape) {
  return view_as(x, shape, contiguous_strides(shape), 0);
}
Tensor counting(const Shape& shape, DType dtype = kInt64) {
  return shaped(arange(shape.numel(), {.dtype = dtype}), shape);
}

struct Case {
  Tensor x;
  const char* text;
};

// Texts are those of PyTorch 2.11, without the prefix "torch." of dtypes.
void check(std::initializer_list<Case> cases) {
  for (const Case& c : cases) EXPECT_EQ(format_tensor(c.x), c.text);
}

TEST(Print, Integers) {
  check({
      {tensor({1, 2, 3}), "tensor([1, 2, 3])"},
      {tensor(7), "tensor(7)"},
      {tensor({1, 2}, {.dtype = kInt32}), "tensor([1, 2], dtype=int32)"},
      {tensor({1, 255}, {.dtype = kUInt8}), "tensor([  1, 255], dtype=uint8)"},
      {tensor({-1, 127}, {.dtype = kInt8}), "tensor([ -1, 127], dtype=int8)"},
      {tensor({true, false}), "tensor([ True, False])"},
      {tensor(true), "tensor(True)"},
      {tensor({INT64_MIN, int64_t(0)}), "tensor([-9223372036854775808,                    0])"},
  });
}

TEST(Print, FloatsInShortFixedAndScientificForm) {
  check({
      {tensor({1.0, 2.0}), "tensor([1., 2.])"},
      {tensor({1.0, 20.0, 300.0}), "tensor([  1.,  20., 300.])"},
      {tensor({0.1344, -0.1416, 0.2403}), "tensor([ 0.1344, -0.1416,  0.2403])"},
      {tensor(3.5), "tensor(3.5000)"},
      {tensor(3.0), "tensor(3.)"},
      {tensor({1e9, 1.0}), "tensor([1.0000e+09, 1.0000e+00])"},
      {tensor({1e-5, 1.0}), "tensor([1.0000e-05, 1.0000e+00])"},
      {tensor({1.0, 1000.0}), "tensor([   1., 1000.])"},
      {tensor({1.0, 1001.0}), "tensor([1.0000e+00, 1.0010e+03])"},
      {tensor({1e8}), "tensor([100000000.])"},
      {tensor({1.00000008e8}), "tensor([1.0000e+08])"},
      {tensor({-0.0, 10.0}), "tensor([-0., 10.])"},
      {tensor({1e300}, {.dtype = kFloat64}), "tensor([1.0000e+300], dtype=float64)"},
      {tensor({1.5}, {.dtype = kFloat64}), "tensor([1.5000], dtype=float64)"},
      {tensor({1.5, 2.25}, {.dtype = kFloat16}), "tensor([1.5000, 2.2500], dtype=float16)"},
      {tensor({1.5, 2.25}, {.dtype = kBFloat16}), "tensor([1.5000, 2.2500], dtype=bfloat16)"},
  });
}

TEST(Print, ZeroNanAndInfDoNotSetTheForm) {
  check({
      {tensor({1.0, kNan, kInf, -kInf}), "tensor([1., nan, inf, -inf])"},
      {tensor({100.0, kNan}), "tensor([100.,  nan])"},
      {tensor({1.5, -kNan, 0.0, -kInf}), "tensor([1.5000,    nan, 0.0000,   -inf])"},
      {tensor({1e9, kNan, 0.0}), "tensor([1.0000e+09,        nan, 0.0000e+00])"},
      {tensor({0.0, -0.0, kNan}), "tensor([0., -0., nan])"},
  });
}

TEST(Print, BracketsNestWithBlankLinesBetweenMatrices) {
  check({
      {tensor({{1.0, 2.0}, {3.0, 4.0}}), "tensor([[1., 2.],\n        [3., 4.]])"},
      {tensor({{-0.1367}, {-0.1584}}), "tensor([[-0.1367],\n        [-0.1584]])"},
      {counting({2, 3, 4}),
       "tensor([[[ 0,  1,  2,  3],\n"
       "         [ 4,  5,  6,  7],\n"
       "         [ 8,  9, 10, 11]],\n"
       "\n"
       "        [[12, 13, 14, 15],\n"
       "         [16, 17, 18, 19],\n"
       "         [20, 21, 22, 23]]])"},
      {counting({2, 1, 1, 1}), "tensor([[[[0]]],\n\n\n        [[[1]]]])"},
  });
}

TEST(Print, ViewsShowTheirOwnOrder) {
  EXPECT_EQ(format_tensor(view_as(arange(6), {2, 2}, {1, 3}, 1)),
            "tensor([[1, 4],\n        [2, 5]])");
}

TEST(Print, EmptyTensorsShowSizeAndDType) {
  check({
      {zeros({0}), "tensor([])"},
      {zeros({0, 3}), "tensor([], size=(0, 3))"},
      {zeros({0}, {.dtype = kInt64}), "tensor([], dtype=int64)"},
      {zeros({2, 0}, {.dtype = kBool}), "tensor([], size=(2, 0), dtype=bool)"},
      {Tensor(), "tensor(undefined)"},
  });
}

TEST(Print, LongLinesBreakAtEightyColumns) {
  check({
      {linspace(0, 1, 30),
       "tensor([0.0000, 0.0345, 0.0690, 0.1034, 0.1379, 0.1724, 0.2069, 0.2414, 0.2759,\n"
       "        0.3103, 0.3448, 0.3793, 0.4138, 0.4483, 0.4828, 0.5172, 0.5517, 0.5862,\n"
       "        0.6207, 0.6552, 0.6897, 0.7241, 0.7586, 0.7931, 0.8276, 0.8621, 0.8966,\n"
       "        0.9310, 0.9655, 1.0000])"},
      // These lines break only because PyTorch's text is six characters longer.
      {tensor({12, 95, 53, 66, 97, 79, 60, 23, 7, 79, 94, 40, 45, 79}, {.dtype = kUInt8}),
       "tensor([12, 95, 53, 66, 97, 79, 60, 23,  7, 79, 94, 40, 45, 79],\n"
       "       dtype=uint8)"},
  });
  EXPECT_EQ(format_tensor(tensor({0.035, 0.2302, -0.0881}, {.dtype = kFloat64}),
                          "grad_fn=<ViewBackward0>"),
            "tensor([ 0.0350,  0.2302, -0.0881], dtype=float64,\n       grad_fn=<ViewBackward0>)");
}

TEST(Print, TheTapesSuffixComesLast) {
  EXPECT_EQ(format_tensor(tensor({1.0, 2.0}), "requires_grad=True"),
            "tensor([1., 2.], requires_grad=True)");
  EXPECT_EQ(format_tensor(tensor(3.0), "grad_fn=<SumBackward0>"),
            "tensor(3., grad_fn=<SumBackward0>)");
}

constexpr const char* kBigMatrix =
    "tensor([[0.0000e+00, 1.0000e+00, 2.0000e+00,  ..., 1.9700e+02, 1.9800e+02,\n"
    "         1.9900e+02],\n"
    "        [2.0000e+02, 2.0100e+02, 2.0200e+02,  ..., 3.9700e+02, 3.9800e+02,\n"
    "         3.9900e+02],\n"
    "        [4.0000e+02, 4.0100e+02, 4.0200e+02,  ..., 5.9700e+02, 5.9800e+02,\n"
    "         5.9900e+02],\n"
    "        ...,\n"
    "        [3.9400e+04, 3.9401e+04, 3.9402e+04,  ..., 3.9597e+04, 3.9598e+04,\n"
    "         3.9599e+04],\n"
    "        [3.9600e+04, 3.9601e+04, 3.9602e+04,  ..., 3.9797e+04, 3.9798e+04,\n"
    "         3.9799e+04],\n"
    "        [3.9800e+04, 3.9801e+04, 3.9802e+04,  ..., 3.9997e+04, 3.9998e+04,\n"
    "         3.9999e+04]]";

TEST(Print, MoreThanAThousandElementsAreSummarised) {
  const std::string thousand = format_tensor(arange(1000));
  EXPECT_EQ(thousand.find("..."), std::string::npos);
  check({
      {arange(2000), "tensor([   0,    1,    2,  ..., 1997, 1998, 1999])"},
      // Short dimensions are shown completely.
      {counting({2, 501}),
       "tensor([[   0,    1,    2,  ...,  498,  499,  500],\n"
       "        [ 501,  502,  503,  ...,  999, 1000, 1001]])"},
  });
  EXPECT_EQ(format_tensor(counting({200, 200}, kFloat32)), concat_to_string(kBigMatrix, ")"));
}

TEST(Print, FormIsChosenByTheShownElementsOnly) {
  const Tensor x = ones({2000});
  kernels::fill(view_as(x, {1}, {1}, 1000), 1e-9);
  EXPECT_EQ(format_tensor(x), "tensor([1., 1., 1.,  ..., 1., 1., 1.])");
}

// Sets print options until the end of the scope.
struct PrintOptionsGuard {
  explicit PrintOptionsGuard(const PrintOptions& options) { set_printoptions(options); }
  ~PrintOptionsGuard() { set_printoptions(before); }
  PrintOptions before = get_printoptions();
};

struct OptionsCase {
  PrintOptions options;
  std::vector<Case> cases;
};

TEST(Print, FollowsTheOptions) {
  const Tensor thirds = linspace(0, 1999. / 3, 2000);
  const OptionsCase all[] = {
      {{.precision = 2},
       {{tensor({1.23456, 2.0}), "tensor([1.23, 2.00])"},
        {tensor({1e-6, 2.0}), "tensor([1.00e-06, 2.00e+00])"}}},
      {{.precision = 0},
       {{tensor({1.5, 2.25}), "tensor([2, 2])"}, {tensor({1e-9, 2.25}), "tensor([1e-09, 2e+00])"}}},
      {{.precision = 10}, {{tensor({1 / 3.0}), "tensor([0.3333333433])"}}},
      {{.profile = PrintProfile::kShort},
       {{thirds, "tensor([0.00e+00, 3.33e-01,  ..., 6.66e+02, 6.66e+02])"}}},
      {{.sci_mode = true},
       {{tensor({1.5, 2.0}), "tensor([1.5000e+00, 2.0000e+00])"},
        {tensor({1.0, 2.0}), "tensor([1.0000e+00, 2.0000e+00])"},
        {tensor({1, 2}), "tensor([1, 2])"},
        {tensor({kNan, 1.0, kInf}), "tensor([       nan, 1.0000e+00,        inf])"}}},
      {{.sci_mode = false},
       {{tensor({1e-6, 1e10}), "tensor([          0.0000, 10000000000.0000])"},
        {tensor({1e10, 2.0}), "tensor([10000000000.,           2.])"},
        {tensor({1e30}), "tensor([1000000015047466219876688855040.])"}}},
      {{.linewidth = 40},
       {{linspace(0, 1, 8),
         "tensor([0.0000, 0.1429, 0.2857, 0.4286,\n        0.5714, 0.7143, 0.8571, 1.0000])"}}},
      {{.linewidth = 10},
       {{tensor({1.23456, 2.0, 3.0}), "tensor([1.2346,\n        2.0000,\n        3.0000])"},
        {zeros({2, 2}, {.dtype = kFloat64}),
         "tensor([[0.,\n         0.],\n        [0.,\n         0.]],\n       dtype=float64)"}}},
      {{.threshold = 5, .edgeitems = 1},
       {{counting({10}), "tensor([0,  ..., 9])"},
        {counting({3, 3}), "tensor([[0,  ..., 2],\n        ...,\n        [6,  ..., 8]])"},
        {counting({5}), "tensor([0, 1, 2, 3, 4])"}}},
      {{.threshold = 3, .edgeitems = 2},
       {{counting({5}), "tensor([0, 1,  ..., 3, 4])"}, {counting({4}), "tensor([0, 1, 2, 3])"}}},
      {{.threshold = 0},
       {{counting({7}), "tensor([0, 1, 2,  ..., 4, 5, 6])"}, {tensor(5), "tensor(5)"}}},
      {{.threshold = 0, .edgeitems = std::numeric_limits<int64_t>::max()},
       {{counting({4}), "tensor([0, 1, 2, 3])"}}}};
  for (const OptionsCase& c : all) {
    const PrintOptionsGuard guard(c.options);
    for (const Case& each : c.cases) EXPECT_EQ(format_tensor(each.x), each.text);
  }
  EXPECT_EQ(format_tensor(tensor({1.5})), "tensor([1.5000])");
}

TEST(Print, OptionsWithoutAValueStay) {
  const PrintOptionsGuard guard({.precision = 2, .sci_mode = true});
  set_printoptions({.edgeitems = 5});
  EXPECT_EQ(get_printoptions().precision, 2);
  EXPECT_EQ(get_printoptions().edgeitems, 5);
  EXPECT_EQ(get_printoptions().sci_mode, std::nullopt);
  set_printoptions({.precision = 3, .profile = PrintProfile::kFull});
  EXPECT_EQ(get_printoptions().precision, 3);
  EXPECT_EQ(get_printoptions().edgeitems, 3);
  EXPECT_EQ(format_tensor(counting({2000})).find("..."), std::string::npos);
}

TEST(Print, WrongOptionsAreRefusedWithoutAChange) {
  const PrintOptionsGuard guard({});
  const std::pair<PrintOptions, const char*> wrong[] = {
      {{.precision = -1}, "set_printoptions: precision must be at least 0, got -1"},
      {{.precision = 7, .threshold = -1}, "set_printoptions: threshold must be at least 0, got -1"},
      {{.precision = 7, .edgeitems = 0}, "set_printoptions: edgeitems must be at least 1, got 0"},
      {{.precision = 7, .linewidth = 0}, "set_printoptions: linewidth must be at least 1, got 0"}};
  for (const auto& [options, text] : wrong) {
    try {
      set_printoptions(options);
      ADD_FAILURE() << "accepted: " << text;
    } catch (const ValueError& error) {
      EXPECT_EQ(std::string(error.what()).find(text), 0u) << error.what();
    }
    EXPECT_EQ(get_printoptions().precision, 4);
  }
}

TEST(Print, ADeviceThatIsNotTheCpuIsNamedFirst) {
  // An empty tensor has no elements to read, so no GPU is needed.
  const auto empty = [](const Shape& shape) {
    return Tensor::make(borrow(nullptr, 0, Device(DeviceType::kCuda, 1), nullptr), shape,
                        contiguous_strides(shape), 0, kFloat64);
  };
  check({
      {empty({0}), "tensor([], device='cuda:1', dtype=float64)"},
      {empty({0, 2}), "tensor([], device='cuda:1', size=(0, 2), dtype=float64)"},
  });
}

TEST(Print, GpuTensorsAreCopiedForPrinting) {
  if (!cuda::is_available()) GTEST_SKIP() << cuda::unavailable_reason();
  check({
      {tensor({true, false}, {.device = "cuda:0"}), "tensor([ True, False], device='cuda:0')"},
      {tensor({1.5, 2.25}, {.dtype = kFloat16, .device = "cuda:0"}),
       "tensor([1.5000, 2.2500], device='cuda:0', dtype=float16)"},
  });
  const Tensor x = shaped(arange(40'000, {.dtype = kFloat32, .device = "cuda:0"}), {200, 200});
  EXPECT_EQ(format_tensor(x), concat_to_string(kBigMatrix, ", device='cuda:0')"));
}

}  // namespace
}  // namespace taper::v0
