// Gradients at kinks and poles, as computed by PyTorch 2.11, and cases that rows of a single dtype
// cannot express.
#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <numeric>
#include <string>

#include <gtest/gtest.h>

#include "autograd/autocast.h"
#include "autograd/engine.h"
#include "autograd/ops/binary_ops.h"
#include "autograd/ops/index/index_ops.h"
#include "autograd/ops/index/indexing.h"
#include "autograd/ops/index/order.h"
#include "autograd/ops/index/search.h"
#include "autograd/ops/matmul_ops.h"
#include "autograd/ops/nn/attention_ops.h"
#include "autograd/ops/nn/loss_ops.h"
#include "autograd/ops/nn/pool_ops.h"
#include "autograd/ops/random_ops.h"
#include "autograd/ops/reduce_ops.h"
#include "autograd/ops/shape_ops.h"
#include "autograd/ops/unary_ops.h"
#include "autograd/print.h"
#include "framework/base/describe.h"
#include "framework/factory/factories.h"
#include "tests/testing.h"

namespace taper::v0::test {
namespace {

using Values = std::vector<double>;
constexpr double kInf = std::numeric_limits<double>::infinity();

// The gradients of the sum of f(x, y).
struct Case {
  const char* what;
  Tensor (*f)(const Tensor&, const Tensor&);
  Values x, y, dx, dy;
};

const Case kCases[] = {
    {"pow at 0",
     [](const Tensor& x, const Tensor& y) { return pow(x, y); },
     {0, 0, 0, 0, 0, -2, 2},
     {0, 1, 2, -1, 0.5, 2, 0},
     {0, 1, 0, -kInf, kInf, -4, 0},
     {0, 0, 0, -kInf, 0, NAN, 0.6931471805599453}},
    {"maximum",
     [](const Tensor& x, const Tensor& y) { return maximum(x, y); },
     {NAN, 1, 2, 1},
     {1, 1, 1, NAN},
     {1, 0.5, 1, 1},
     {1, 0.5, 0, 1}},
    {"minimum",
     [](const Tensor& x, const Tensor& y) { return minimum(x, y); },
     {NAN, 1, 2, 1},
     {1, 1, 1, NAN},
     {1, 0.5, 0, 1},
     {1, 0.5, 1, 1}},
    {"where",
     [](const Tensor& x, const Tensor& y) { return where(x > 0, log(x), y * kInf); },
     {-1, 0, 2},
     {1, 2, 3},
     {0, NAN, 0.5},
     {kInf, kInf, NAN}},
    {"clamp",
     [](const Tensor& x, const Tensor& y) { return clamp(x, -1, 1) * y; },
     {-1, 1, NAN, 2, 0},
     {1, 1, 1, 1, 1},
     {1, 1, 0, 0, 1},
     {-1, 1, NAN, 1, 0}},
    {"clamp from below",
     [](const Tensor& x, const Tensor& y) { return clamp(x, 1) * y; },
     {-1, 1, NAN, 2},
     {1, 1, 1, 1},
     {0, 1, 0, 1},
     {1, 1, NAN, 2}},
    {"std of equals",
     [](const Tensor& x, const Tensor& y) { return taper::std(x) * sum(y); },
     {1, 1},
     {1, 0},
     {0, 0},
     {0, 0}},
    {"var of one",
     [](const Tensor& x, const Tensor& y) { return var(x) * sum(y); },
     {1},
     {1},
     {NAN},
     {NAN}},
    {"var with nothing left",
     [](const Tensor& x, const Tensor&) { return var(x, {}, 2); },
     {1, 2},
     {0, 0},
     {-kInf, kInf},
     {}},
    {"norm 2 at 0",
     [](const Tensor& x, const Tensor&) { return norm(x); },
     {0, 0},
     {0},
     {0, 0},
     {}},
    {"norm 1 at 0",
     [](const Tensor& x, const Tensor&) { return norm(x, 1); },
     {0, 2},
     {0},
     {0, 1},
     {}},
    {"norm 1/2 at 0",
     [](const Tensor& x, const Tensor&) { return norm(x, 0.5); },
     {0, 2},
     {0},
     {0, 1},
     {}},
    {"norm 1.5 at 0",
     [](const Tensor& x, const Tensor&) { return norm(x, 1.5); },
     {0, 0},
     {0},
     {0, 0},
     {}},
    {"norm inf, equals",
     [](const Tensor& x, const Tensor&) { return norm(x, kInf); },
     {3, -3},
     {0},
     {0.5, -0.5},
     {}},
    {"norm -inf at 0",
     [](const Tensor& x, const Tensor&) { return norm(x, -kInf); },
     {0, 2},
     {0},
     {0, 0},
     {}},
    {"logsumexp of inf",
     [](const Tensor& x, const Tensor&) { return logsumexp(x, {0}); },
     {kInf, 1},
     {0},
     {NAN, 0},
     {}},
    {"logsumexp of -inf",
     [](const Tensor& x, const Tensor&) { return logsumexp(x, {0}); },
     {-kInf, 1},
     {0},
     {0, 1},
     {}},
    {"prod of zeros",
     [](const Tensor& x, const Tensor&) { return prod(x); },
     {0, 2, 0},
     {0},
     {0, 0, 0},
     {}},
    {"amax of nan",
     [](const Tensor& x, const Tensor&) { return amax(x); },
     {NAN, 1},
     {0},
     {NAN, NAN},
     {}},
    {"max of nan",
     [](const Tensor& x, const Tensor&) { return max(x); },
     {NAN, 1, NAN},
     {0},
     {0.5, 0, 0.5},
     {}},
    {"max of equals",
     [](const Tensor& x, const Tensor&) { return max(x); },
     {2, 1, 2},
     {0},
     {0.5, 0, 0.5},
     {}},
    {"min of equals along a dim",
     [](const Tensor& x, const Tensor&) { return min(x, 0).values; },
     {2, 1, 1},
     {0},
     {0, 1, 0},
     {}},
    {"median of equals",
     [](const Tensor& x, const Tensor&) { return median(x); },
     {1, 2, 1},
     {0},
     {0.5, 0, 0.5},
     {}},
    {"median of nan along a dim",
     [](const Tensor& x, const Tensor&) { return median(x, 0).values; },
     {3, NAN, 1, NAN},
     {0},
     {0, 1, 0, 0},
     {}},
    {"quantile",
     [](const Tensor& x, const Tensor& y) { return quantile(x, y); },
     {4, 1, 2},
     {0.75},
     {0.5, 0, 0.5},
     {4}},
    {"cumprod of zeros",
     [](const Tensor& x, const Tensor&) { return cumprod(x, 0); },
     {3, 0, 2, 0},
     {0},
     {1, 9, 0, 0},
     {}},
    {"cdist of equals",
     [](const Tensor& x, const Tensor& y) { return cdist(unsqueeze(x, 0), unsqueeze(y, 0)); },
     {1, 2},
     {1, 2},
     {0, 0},
     {0, 0}},
};

// A NaN is the maximum, the minimum and the median. Of several NaNs, the first is chosen.
TEST(Edges, NanWinsInOrderStatistics) {
  for (const Device device : all_devices()) {
    const Values v = {1, NAN, 0, NAN, 1, 2, 3, 4};
    const Tensor x = tensor_of(v.data(), {2, 4}, {.device = device});
    for (const Sorted& y : {max(x, 1), min(x, 1), median(x, 1)}) {
      EXPECT_EQ(y.indices[0].item<int64_t>(), 1);
      EXPECT_TRUE(std::isnan(y.values[0].item<double>()));
      EXPECT_FALSE(std::isnan(y.values[1].item<double>()));
    }
    for (const Tensor& y : {max(x), min(x), median(x), quantile(x, 0.5), quantile(x, 0, 1)[0]}) {
      EXPECT_TRUE(std::isnan(y.item<double>()));
    }
    EXPECT_EQ(quantile(x, 0.5, 1)[1].item<double>(), 2.5);
    EXPECT_TRUE(std::isnan(median(empty({0}, {.device = device})).item<double>()));
  }
}

// Also with equal elements and NaNs, along every dimension.
TEST(Edges, MedianIsWhereAStableSortPutsIt) {
  manual_seed(1);
  const Tensor numbers = floor(rand({5, 8, 37}) * 6);
  const Tensor x = where(eq(numbers, 5), full({}, NAN), numbers);
  for (const Device device : all_devices()) {
    for (const Tensor& t : {numbers.to(device), x.to(device), numbers.to(device).to(kInt64)}) {
      for (const int dim : {0, 1, 2}) {
        const Tensor are_numbers = sum(logical_not(isnan(t)), {dim}, true);
        const int64_t n = t.size(dim);
        const Tensor rank = where(eq(are_numbers, n), (n - 1) / 2, are_numbers);
        const Tensor place = gather(argsort(t, dim), dim, rank);
        EXPECT_TRUE(all(eq(median(t, dim, true).indices, place)).item<bool>()) << dim;
      }
    }
  }
}

// The CPU compares groups of elements first, whose number depends on the length.
TEST(Edges, TopkOfManyLengthsIsTheStartOfASortedRow) {
  manual_seed(3);
  for (const int64_t n : {64, 65, 127, 1055, 2048, 4099}) {
    const Tensor x = floor(rand({3, n}) * 100);
    for (const bool descending : {false, true}) {
      const Tensor sorted = argsort(x, 1, descending);
      for (const int64_t k : {int64_t(1), n / 64}) {
        for (const Device device : all_devices()) {
          const Tensor first = topk(x.to(device), k, 1, descending).indices.cpu();
          EXPECT_TRUE(equal(first, sorted.narrow(1, 0, k))) << n << " " << k << " " << descending;
        }
      }
    }
  }
}

// Rows of a length from which on keys are sorted by their bytes, and of one of which few elements
// are selected, with many equal elements.
TEST(Edges, LongRowsAreSortedStably) {
  manual_seed(2);
  const Tensor numbers = floor((rand({3, 1000}) - 0.5) * 600);
  const Tensor x = where(eq(numbers, 7), full({}, NAN), where(eq(numbers, 5), -INFINITY, numbers));
  for (const Device device : all_devices()) {
    for (const DType dtype : {kFloat32, kFloat64, kBFloat16, kInt64}) {
      const Tensor t = (dtype == kInt64 ? numbers : x / 1024).to(device).to(dtype);
      const Tensor on_host = t.cpu().to(kFloat64);
      const double* const value = on_host.data<double>();
      for (const bool descending : {false, true}) {
        const Tensor order = argsort(t, 1, descending).cpu(),
                     few = topk(t, 9, 1, descending).indices.cpu();
        for (int64_t r = 0; r < 3; ++r) {
          std::vector<int64_t> expected(1000);
          std::iota(expected.begin(), expected.end(), 0);
          std::ranges::stable_sort(expected, [&](int64_t i, int64_t j) {
            const double a = value[r * 1000 + i], b = value[r * 1000 + j];
            const bool rises = std::isnan(b) ? !std::isnan(a) : a < b;
            const bool falls = std::isnan(a) ? !std::isnan(b) : a > b;
            return descending ? falls : rises;
          });
          const int64_t* const row = order.data<int64_t>() + r * 1000;
          EXPECT_TRUE(std::equal(row, row + 1000, expected.begin()))
              << name_of(dtype) << descending;
          const int64_t* const first = few.data<int64_t>() + r * 9;
          EXPECT_TRUE(std::equal(first, first + 9, expected.begin()))
              << name_of(dtype) << descending;
        }
      }
    }
  }
}

// As in PyTorch 2.11, the input is cast first, so narrow integers wrap around.
TEST(Edges, ReductionsInADtype) {
  const Tensor x = tensor({300, 5});
  EXPECT_TRUE(close(sum(x, kInt8), tensor(49).to(kInt8), 0));
  EXPECT_TRUE(close(sum(tensor({2, -2}), kBool), tensor(true), 0));
  EXPECT_TRUE(close(cumprod(tensor({200, 3}), 0, kUInt8), tensor({200, 88}).to(kUInt8), 0));
  EXPECT_EQ(mean(x, kFloat16).dtype(), kFloat16);
  EXPECT_EQ(prod(x, kInt32).dtype(), kInt32);
  const AutocastGuard half(DeviceType::kCpu, kBFloat16);
  EXPECT_EQ(sum(ones({2}), kFloat64).dtype(), kFloat64);
  EXPECT_EQ(softmax(ones({2}), 0, kBFloat16).dtype(), kBFloat16);
}

TEST(Edges, GradientsFollowPyTorch) {
  for (const Device device : all_devices()) {
    for (const Case& c : kCases) {
      const auto leaf = [&](const Values& v) {
        return tensor_of(v.data(), {int64_t(v.size())}, {.device = device}).requires_grad_();
      };
      const Tensor x = leaf(c.x), y = leaf(c.y);
      const auto d = grad({sum(c.f(x, y))}, {x, y}, {.allow_unused = true});
      EXPECT_TRUE(close(values_of(d[0]), c.dx, 1e-12)) << c.what;
      if (c.dy.empty()) continue;
      EXPECT_TRUE(close(values_of(d[1]), c.dy, 1e-12)) << c.what;
    }
  }
}

TEST(Edges, LogsumexpOfInfinities) {
  for (const Device device : all_devices()) {
    const Values v = {-kInf, -kInf, kInf, 1, kInf, -kInf, NAN, 1, 1000, 1000};
    const Tensor x = tensor_of(v.data(), {5, 2}, {.device = device});
    const Values sums = {-kInf, kInf, kInf, NAN, 1000.6931471805599453};
    const Tensor columns = contiguous(transpose(x, 0, 1));
    EXPECT_TRUE(close(values_of(logsumexp(x, {1})), sums, 1e-12));
    EXPECT_TRUE(close(values_of(logsumexp(columns, {0})), sums, 1e-12));
    // Softmax is NaN if the largest element of a slice is infinite or NaN.
    EXPECT_TRUE(close(values_of(sum(softmax(columns, 0), {0})), {NAN, NAN, NAN, NAN, 1}, 1e-12));
  }
}

using NamedFunction = std::pair<const char*, std::function<Tensor(const Tensor&)>>;

// Compares the functions and their gradients of x of this shape, in both memory formats, with those
// in double on the CPU.
void check_many_results(std::span<const NamedFunction> functions, const Shape& shape) {
  const auto with_gradient = [](const auto& f, const Tensor& x) {
    const Tensor leaf = x.detach().requires_grad_(), y = f(leaf);
    const Tensor dy = cos(arange(double(y.numel()))).view(y.shape());
    return std::pair{y.detach(), grad({y}, {leaf}, {dy.to(x.device(), x.dtype())})[0]};
  };
  const Tensor values = sin(arange(double(shape.numel()))).view(shape).to(kFloat32);
  const Tensor last = movedim(contiguous(movedim(values, 1, -1)), -1, 1);
  for (const auto& [name, f] : functions) {
    const auto [wanted, gradient] = with_gradient(f, values.to(kFloat64));
    for (const Device device : all_devices()) {
      for (const Tensor& x : {values.to(device), last.to(device)}) {
        const auto [y, dx] = with_gradient(f, x);
        EXPECT_TRUE(close(y.cpu().to(kFloat64), wanted, 1e-4)) << name << x.strides();
        EXPECT_TRUE(close(dx.cpu().to(kFloat64), gradient, 1e-4)) << name << x.strides();
      }
    }
  }
}

NamedFunction resized(const char* name, InterpolateOptions options) {
  return {name, [options](const Tensor& x) { return interpolate(x, options); }};
}

// With this many results a GPU computes a table of weights first.
TEST(Edges, PoolsAndResizesOfManyResults) {
  using enum Interpolation::Value;
  const auto adaptive = [](const char* name, Pair to) {
    return NamedFunction{name, [to](const Tensor& x) { return adaptive_avg_pool2d(x, to); }};
  };
  const NamedFunction functions[] = {
      {"avg_pool2d",
       [](const Tensor& x) {
         return avg_pool2d(x, 3, {.stride = 2, .padding = 1, .ceil_mode = true});
       }},
      adaptive("all in one", 1),
      adaptive("rows in one", {9, 1}),
      adaptive("of one size", {45, 27}),
      adaptive("quads of one size", {45, 28}),
      adaptive("of two sizes", {60, 70}),
      resized("nearest", {.scale_factor = 1.7}),
      resized("bilinear", {.size = Pair{77, 132}, .mode = kBilinear}),
      resized("corners", {.size = Pair{130, 50}, .mode = kBilinear, .align_corners = true}),
      resized("bicubic", {.scale_factor = 1.3, .mode = kBicubic}),
  };
  for (const Shape& shape : {Shape{2, 8, 90, 81}, {2, 8, 90, 84}}) {
    check_many_results(functions, shape);
  }
}

TEST(Edges, PoolsAndResizesOfManyResultsInVolumes) {
  using enum Interpolation::Value;
  const auto adaptive = [](const char* name, Triple to) {
    return NamedFunction{name, [to](const Tensor& x) { return adaptive_avg_pool3d(x, to); }};
  };
  const NamedFunction functions[] = {
      {"avg_pool3d",
       [](const Tensor& x) {
         return avg_pool3d(x, 3, {.stride = Triple(1, 2, 2), .padding = 1, .ceil_mode = true});
       }},
      {"max_pool3d",
       [](const Tensor& x) {
         return max_pool3d(x, 3, {.stride = Triple(1, 2, 2), .padding = 1, .ceil_mode = true});
       }},
      adaptive("all in one", 1),
      adaptive("slabs in one", {4, 1, 1}),
      adaptive("rows in one", {16, 12, 1}),
      adaptive("of one size", {8, 12, 12}),
      adaptive("of two sizes", {11, 17, 20}),
      resized("nearest", {.scale_factor = 1.7}),
      resized("trilinear", {.size = Triple{20, 19, 36}, .mode = kTrilinear}),
      resized("corners", {.size = Triple{9, 30, 40}, .mode = kTrilinear, .align_corners = true}),
  };
  for (const Shape& shape : {Shape{2, 8, 16, 24, 24}, {2, 3, 16, 24, 24}, {1, 41, 16, 12, 12}}) {
    check_many_results(functions, shape);
  }
}

// Also where a product with 1 / 6 would be rounded otherwise, and where x times 6 would overflow.
TEST(Edges, HardFunctionsDivideExactly) {
  const Tensor many = linspace(-4, 4, 100001);
  const Tensor extreme =
      tensor({-0.0f, 0.0f, 1e-45f, -3e-42f, 1e-38f, 2e-30f, -1e-20f, 1e37f, 6e37f, 3e38f, -3e38f,
              float(INFINITY), -float(INFINITY), float(NAN)});
  for (const Tensor& x : {many, extreme}) {
    const Tensor sigmoid = clamp(x + 3, 0, 6) / 6, swish = x * sigmoid;
    for (const Device device : all_devices()) {
      EXPECT_TRUE(close(hardswish(x.to(device)).cpu(), swish, 0)) << concat_to_string(device);
      EXPECT_TRUE(close(hardsigmoid(x.to(device)).cpu(), sigmoid, 0)) << concat_to_string(device);
    }
  }
  const Tensor large = tensor({3.0f, 5.1f, 1e38f, 3e38f});
  for (const Device device : all_devices()) {
    EXPECT_TRUE(close(hardswish(large.to(device)).cpu(), large, 0)) << concat_to_string(device);
  }
}

// Columns and rows longer than one pass of a block, and single rows, compared with formulas that
// divide.
TEST(Edges, LongRunningProductsAndSums) {
  for (const Device device : all_devices()) {
    for (const DType dtype : {kFloat64, kFloat32}) {
      const double near = dtype == kFloat64 ? 1e-10 : 5e-4;
      for (const Shape& shape :
           {Shape{2500, 4}, {2, 2600, 3}, {3, 1, 2500}, {2, 5000}, {2, 18000}, {1, 3}}) {
        const int64_t dim = shape.size() == 3 ? 1 : shape[0] > 2 ? 0 : -1;
        const Tensor values = 1 + 0.01 * sin(arange(double(shape.numel()))).view(shape);
        const Tensor x = values.to(device, dtype).requires_grad_(), z = values.to(kFloat64);
        const Tensor w = cos(arange(double(shape.numel()))).view(shape).to(kFloat64);
        const auto behind = [&](const Tensor& t) {
          return flip(cumsum(flip(t, {dim}), dim), {dim});
        };
        const auto of = [&](const Tensor& y) {
          return grad({sum(y * w.to(device, dtype))}, {x})[0].cpu().to(kFloat64);
        };
        const Tensor y = cumprod(z, dim), dx = behind(y * w) / z;
        EXPECT_TRUE(close(cumprod(x, dim).detach().cpu().to(kFloat64), y, near))
            << concat_to_string(shape);
        EXPECT_TRUE(close(of(cumprod(x, dim)), dx, near * 50)) << concat_to_string(shape);
        EXPECT_TRUE(close(of(cumsum(x, dim)), behind(w), near * 50)) << concat_to_string(shape);
        EXPECT_TRUE(close(grad({sum(prod(x, dim))}, {x})[0].cpu().to(kFloat64),
                          prod(z, dim, true) / z, near));
      }
      const Tensor x = (1 + 0.001 * sin(arange(40001.))).to(device, dtype).requires_grad_();
      const Tensor z = x.detach().cpu().to(kFloat64);
      EXPECT_TRUE(close(grad({prod(x)}, {x})[0].cpu().to(kFloat64), prod(z) / z, near));
    }
  }
}

TEST(Edges, RepeatOfMoreDimensionsThanOnePassHolds) {
  const Tensor x = arange(32).view({2, 2, 2, 2, 2});
  Tensor y = x;
  for (int d = 0; d < 5; ++d) y = cat({y, y}, d);
  EXPECT_TRUE(equal(repeat(x, {2, 2, 2, 2, 2}), y));
}

TEST(Edges, PartsOfASplitThatNoGradientReachesAreZeros) {
  const Tensor x = zeros({7}, {.requires_grad = true});
  const std::vector<Tensor> parts = split(x, {2, 0, 3, 1, 1}, 0);
  (sum(parts[0] * 2) + sum(parts[3] * 5)).backward();
  EXPECT_TRUE(equal(x.grad(), tensor({2.0, 2.0, 0.0, 0.0, 0.0, 5.0, 0.0})));
}

TEST(Edges, CatAndWherePromote) {
  for (const Device device : all_devices()) {
    const auto of = [&](DType t) { return ones({2}, {.dtype = t, .device = device}); };
    EXPECT_EQ(cat({of(kBool), of(kInt64)}).dtype(), kInt64);
    EXPECT_EQ(cat({of(kFloat16), of(kBFloat16)}).dtype(), kFloat32);
    EXPECT_EQ(cat({empty({0}, {.dtype = kFloat64, .device = device}), of(kInt32)}).dtype(),
              kFloat64);
    const Tensor yes = of(kBool);
    EXPECT_EQ(where(yes, of(kInt64), 0.5).dtype(), kFloat32);
    EXPECT_EQ(where(yes, of(kFloat16), 0.5).dtype(), kFloat16);
    EXPECT_EQ(where(of(kUInt8), of(kInt32), of(kFloat16)).dtype(), kFloat16);
    // Integers beyond 2^53 stay exact.
    const int64_t large = (int64_t(1) << 60) + 1;
    EXPECT_EQ(where(yes, full({2}, large, {.device = device}), 0)[0].item<int64_t>(), large);
    // The gradient of a half tensor is half again.
    const Tensor h = of(kFloat16).requires_grad_();
    EXPECT_EQ(grad({sum(cat({h, of(kFloat32)}))}, {h})[0].dtype(), kFloat16);
  }
}

// Scalar arguments keep all their digits in float64 gradients (values of PyTorch 2.11).
TEST(Edges, NumbersKeepTheirDigits) {
  using OfOne = Tensor (*)(const Tensor&);
  struct Row {
    const char* what;
    OfOne f;
    double x, dx;
  };
  const Row rows[] = {
      {"pow(65, x)", [](const Tensor& x) { return pow(65, x); }, 2, 17636.786215309065},
      {"pow(0.1, x)", [](const Tensor& x) { return pow(0.1, x); }, 0.7, -0.4594261263060133},
      {"pow(x, 2.1)", [](const Tensor& x) { return pow(x, 2.1); }, 1.7, 3.7645503339215156},
      {"pow_(2.1)", [](const Tensor& x) { return Tensor((x * 1).pow_(2.1)); }, 1.7,
       3.7645503339215156},
      {"pow_(3)", [](const Tensor& x) { return Tensor((x * 1).pow_(3)); }, 1.7, 8.67},
      {"remainder", [](const Tensor& x) { return remainder(x, 0.1); }, 1.73, 1},
  };
  for (const Device device : all_devices()) {
    for (const Row& row : rows) {
      for (const Shape& shape : {Shape{}, Shape{1}}) {
        const Tensor x = full(shape, row.x, {.dtype = kFloat64, .device = device}).requires_grad_();
        const double dx = grad({sum(row.f(x))}, {x})[0].item<double>();
        EXPECT_NEAR(dx, row.dx, 1e-14 * std::abs(row.dx)) << row.what;
      }
    }
  }
}

// float32 inputs are accumulated in double, because their squares overflow and underflow.
TEST(Edges, DeviationsOfLargeAndSmallNumbers) {
  for (const Device device : all_devices()) {
    for (const double scale : {1e19, 1e-30, 6e37, 1.0}) {
      const Values v = {scale, -scale, 3 * scale};
      const Tensor x = tensor_of(v.data(), {3}, {.dtype = kFloat32, .device = device});
      const Tensor leaf = x.requires_grad_(), y = taper::std(leaf);
      EXPECT_NEAR(y.item<double>() / scale, 2, 1e-6) << scale;
      const Values dx = values_of(grad({y}, {leaf})[0]);
      EXPECT_TRUE(close(dx, {0, -0.5, 0.5}, 1e-6)) << scale;
      EXPECT_NEAR(values_of(taper::std(x.detach().to(kBFloat16)))[0] / scale, 2, 1e-2) << scale;
    }
    const Tensor small = tensor({1e-18, -1e-18, 3e-18}, {.device = device});
    EXPECT_NEAR(var(small).item<double>() / 4e-36, 1, 1e-6);
  }
}

// Functions of a dimension treat a 0-dim tensor as a vector of one element, in both passes.
TEST(Edges, DimensionZeroOfANumber) {
  using OfOne = Tensor (*)(const Tensor&);
  struct Row {
    const char* what;
    OfOne f;
    double y, dx;
  };
  const Row rows[] = {
      {"prod", [](const Tensor& x) { return prod(x, 0); }, 3, 1},
      {"prod, keepdim", [](const Tensor& x) { return prod(x, -1, true); }, 3, 1},
      {"sum", [](const Tensor& x) { return sum(x, {0}); }, 3, 1},
      {"mean", [](const Tensor& x) { return mean(x, {-1}, true); }, 3, 1},
      {"amax", [](const Tensor& x) { return amax(x, {0}); }, 3, 1},
      {"amin", [](const Tensor& x) { return amin(x, {0}); }, 3, 1},
      {"norm", [](const Tensor& x) { return norm(x, 3, {0}); }, 3, 1},
      {"var", [](const Tensor& x) { return var(x, {0}, 0); }, 0, 0},
      {"std", [](const Tensor& x) { return taper::std(x, {0}, 0); }, 0, 0},
      {"logsumexp", [](const Tensor& x) { return logsumexp(x, {0}); }, 3, 1},
      {"cumsum", [](const Tensor& x) { return cumsum(x, 0); }, 3, 1},
      {"cumprod", [](const Tensor& x) { return cumprod(x, 0); }, 3, 1},
      {"max", [](const Tensor& x) { return max(x, 0).values; }, 3, 1},
      {"median", [](const Tensor& x) { return median(x, -1, true).values; }, 3, 1},
      {"quantile", [](const Tensor& x) { return quantile(x, 0.5, 0, true); }, 3, 1},
      {"roll", [](const Tensor& x) { return roll(x, {1}); }, 3, 1},
      {"softmax", [](const Tensor& x) { return softmax(x, 0); }, 1, 0},
      {"log_softmax", [](const Tensor& x) { return log_softmax(x, 0); }, 0, 0},
      {"sort", [](const Tensor& x) { return sort(x, 0).values; }, 3, 1},
      {"topk", [](const Tensor& x) { return topk(x, 1, 0).values; }, 3, 1},
      {"index_select",
       [](const Tensor& x) { return index_select(x, 0, tensor({0}, {.device = x.device()})); }, 3,
       1},
      {"gather", [](const Tensor& x) { return gather(x, 0, tensor(0, {.device = x.device()})); }, 3,
       1},
      {"squeeze", [](const Tensor& x) { return squeeze(x, 0); }, 3, 1},
      {"flatten", [](const Tensor& x) { return flatten(x); }, 3, 1},
      {"movedim", [](const Tensor& x) { return movedim(x, 0, -1); }, 3, 1},
  };
  for (const Device device : all_devices()) {
    for (const Row& row : rows) {
      SCOPED_TRACE(row.what);
      const Tensor x = tensor(3.0, {.dtype = kFloat64, .device = device}).requires_grad_();
      const Tensor y = row.f(x);
      y.backward(ones_like(y));
      EXPECT_NEAR(y.item<double>(), row.y, 1e-12);
      EXPECT_NEAR(x.grad().item<double>(), row.dx, 1e-12);
      EXPECT_EQ(x.grad().dim(), 0);
    }
  }
}

TEST(Edges, QuotientsByNumbersKeepTheDtype) {
  for (const Device device : all_devices()) {
    for (const DType t : {kFloat32, kFloat16, kFloat64, kInt32, kInt8}) {
      for (const Shape& shape : {Shape{}, Shape{2}}) {
        const Tensor x = full(shape, -7, {.dtype = t, .device = device});
        for (const char* mode : {"floor", "trunc"}) {
          EXPECT_EQ(div(x, 2, mode).dtype(), t) << concat_to_string(mode, " of ", shape, " ", t);
          const DType wide = is_floating_point(t) ? t : kFloat32;
          EXPECT_EQ(div(x, 2.0, mode).dtype(), wide)
              << concat_to_string(mode, " of ", shape, " ", t);
        }
      }
    }
  }
}

TEST(Edges, IntegerPowersOfTensors) {
  const Tensor base = tensor({1, 2, -1}), exponent = tensor({-1, -1, -3});
  EXPECT_TRUE(close(pow(base, exponent), tensor({1, 0, -1}), 0));
  EXPECT_TRUE(close(pow(2, tensor({3, 0})), tensor({8, 1}), 0));
}

TEST(Edges, AddmmDoesNotReadABiasOfFactor0) {
  for (const Device device : all_devices()) {
    const Tensor bias = full({4}, NAN, {.device = device});
    const Tensor y =
        addmm(bias, ones({2, 3}, {.device = device}), ones({3, 4}, {.device = device}), 0);
    EXPECT_TRUE(close(y, full({2, 4}, 3, {.dtype = kFloat32, .device = device}), 0));
  }
}

TEST(Edges, MultinomialDrawsByWeight) {
  const std::vector<float> weights = {1, 0, 3, 4};
  const int64_t n = 20000;
  for (const Device device : all_devices()) {
    Generator generator(3);
    const Tensor w = tensor_of(weights.data(), {4}, {.device = device});
    const Tensor many = multinomial(w, n, true, &generator);
    const Tensor first = multinomial(expand(w, {n, 4}), 2, false, &generator);
    for (const Tensor& drawn : {many, first.select(1, 0)}) {
      for (int64_t i = 0; i < 4; ++i) {
        const double share = double(sum(eq(drawn, i)).item<int64_t>()) / double(n);
        EXPECT_NEAR(share, weights[size_t(i)] / 8, 0.015) << i;
      }
    }
    EXPECT_FALSE(any(eq(first.select(1, 0), first.select(1, 1))).item<bool>());
    EXPECT_FALSE(any(eq(first, 1)).item<bool>());
  }
}

TEST(Shapes, ThatDoNotBroadcastAreRefusedWithTheNameOfTheOp) {
  const Tensor a = zeros({2, 3, 4}), b = zeros({5, 4, 3}), c = zeros({5, 3, 4});
  const std::pair<std::string, std::function<Tensor()>> cases[] = {
      {"matmul's batch dimensions", [&] { return matmul(a, b); }},
      {"scaled_dot_product_attention", [&] { return scaled_dot_product_attention(a, c, c); }},
      {"mse_loss", [&] { return mse_loss(a, c); }},
      {"cosine_similarity", [&] { return cosine_similarity(a, c); }},
      {"take_along_dim",
       [&] {
         return take_along_dim(a, zeros({5, 3, 1}, {.dtype = kInt64}), 2);
       }},
      {"masked_select", [&] { return masked_select(a, c > 0); }},
      {"masked_scatter", [&] { return masked_scatter(a, c > 0, a); }},
      {"add_", [&] { return a.add_(c); }},
  };
  for (const auto& [op, f] : cases) {
    try {
      (void)f();
      ADD_FAILURE() << op << ": nothing was thrown";
    } catch (const Error& error) {
      EXPECT_TRUE(std::string(error.what()).ends_with(", in " + op + ")")) << error.what();
    }
  }
}

// Draws with invalid probabilities. The CPU throws immediately, the GPU at the next call that
// synchronizes, with the same message.
struct BadWeights {
  const char* name;
  std::function<Tensor(Device)> draw;
  std::string text;
};

TEST(Random, BadProbabilitiesAreRefused) {
  const double nan = NAN, inf = kInfinity;
  const std::string values = "probability tensor contains either `inf`, `nan` or element < 0";
  const std::string zero = "invalid multinomial distribution (sum of probabilities <= 0)";
  const std::string outside = "bernoulli expects every probability to be in [0, 1]";
  const auto drawn = [](TensorData weights, bool replacement, DType dtype = kFloat32) {
    return [=](Device device) {
      return multinomial(tensor(weights, {.dtype = dtype, .device = device}), 2, replacement);
    };
  };
  const auto flipped = [](TensorData p) {
    return [=](Device device) { return bernoulli(tensor(p, {.device = device})); };
  };
  std::vector<BadWeights> cases = {
      {"too few", drawn({0.0, 2.0, 0.0}, false), "multinomial without replacement needs as many"},
      {"above 1", flipped({0.5, 1.5}), outside},
      {"below 0", flipped({-0.1, 0.5}), outside},
      {"nan", flipped({nan}), outside},
  };
  for (const bool replacement : {true, false}) {
    cases.push_back({"negative", drawn({-1.0, 2.0, 3.0}, replacement), values});
    cases.push_back({"nan", drawn({nan, 2.0, 1.0}, replacement), values});
    cases.push_back({"infinite", drawn({1.0, inf, 1.0}, replacement), values});
    cases.push_back({"a half nan", drawn({1.0, nan, 1.0}, replacement, kFloat16), values});
    cases.push_back({"a later row", drawn({{1.0, 1.0}, {1.0, -1.0}}, replacement), values});
    cases.push_back({"zeros", drawn({0.0, 0.0}, replacement), zero});
    cases.push_back({"a row of zeros", drawn({{1.0, 1.0}, {0.0, 0.0}}, replacement), zero});
  }
  for (const Device device : all_devices()) {
    for (const BadWeights& c : cases) {
      EXPECT_TRUE(refuses<Error>([&] { return c.draw(device).cpu(); }, c.text)) << c.name;
      // The reported error is cleared, and the device is usable again.
      EXPECT_EQ(ones({2}, {.device = device}).sum().item<int>(), 2) << c.name;
    }
    const Tensor fair = tensor({0.0, 1.0, 1.0}, {.device = device});
    EXPECT_NO_THROW((void)multinomial(fair, 2).cpu());
    EXPECT_NO_THROW((void)bernoulli(fair).cpu());
  }
}

}  // namespace
}  // namespace taper::v0::test
