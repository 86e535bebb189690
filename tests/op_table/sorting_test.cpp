// Sorting, selection and medians of rows of many lengths. A GPU sorts short, middle and long rows
// by different kernels, and selects a few elements without sorting the others.
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "autograd/engine.h"
#include "autograd/ops/binary_ops.h"
#include "autograd/ops/index/index_ops.h"
#include "autograd/ops/index/order.h"
#include "autograd/ops/random_ops.h"
#include "autograd/ops/reduce_ops.h"
#include "autograd/ops/shape_ops.h"
#include "autograd/ops/unary_ops.h"
#include "framework/base/describe.h"
#include "framework/factory/factories.h"
#include "tests/layouts.h"
#include "tests/op_table/op_table.h"
#include "tests/testing.h"

namespace taper::v0::test {
namespace {

// At the bounds of each kernel.
constexpr int64_t kLengths[] = {1, 2, 127, 128, 129, 255, 256, 1024, 1025, 4095, 4096, 4097};

using Order = std::vector<int64_t>;

// What rows consist of: numbers that hardly repeat, few numbers with special values among them,
// one number, or zeros of both signs.
enum class Content { kNumbers, kSpecials, kEqual, kZeros };
constexpr Content kContents[] = {Content::kNumbers, Content::kSpecials, Content::kEqual,
                                 Content::kZeros};

float element(Content content, std::mt19937& random) {
  // Two NaNs have different bits, so that tests see which of them is where.
  static const float kSpecials[] = {0.0f,
                                    -0.0f,
                                    INFINITY,
                                    -INFINITY,
                                    std::bit_cast<float>(0x7fc01234u),
                                    std::bit_cast<float>(0xffc00001u)};
  const int any = int(random() >> 8);
  switch (content) {
    case Content::kNumbers: return std::ldexp(float(any - (1 << 23)), -20);
    case Content::kSpecials: return any % 8 == 0 ? kSpecials[any / 8 % 6] : float(any / 8 % 9 - 4);
    case Content::kEqual: return 3;
    default: return any % 2 == 0 ? 0.0f : -0.0f;
  }
}

Tensor rows_of(Content content, int64_t rows, int64_t n, DType dtype) {
  std::mt19937 random(unsigned(n) * 4 + unsigned(content));
  std::vector<float> x(size_t(rows * n));
  for (float& v : x) v = element(content, random);
  return tensor_of(x.data(), {rows, n}).to(dtype);
}

// Returns the order of a stable sort of each row of x [rows, n], in which NaN is the largest value.
std::vector<Order> stable_orders(const Tensor& x, bool descending) {
  const std::vector<double> v = contiguous(x.cpu()).to(kFloat64).to_vector<double>();
  std::vector<Order> orders;
  for (auto row = v.begin(); row != v.end(); row += x.size(1)) {
    Order order(size_t(x.size(1)));
    std::iota(order.begin(), order.end(), 0);
    std::ranges::stable_sort(order, [&](int64_t i, int64_t j) {
      const double a = row[descending ? j : i], b = row[descending ? i : j];
      return std::isnan(b) ? !std::isnan(a) : a < b;
    });
    orders.push_back(std::move(order));
  }
  return orders;
}

// Expects the indices and the bits of the elements of x [rows, n] at them.
void expect_elements(const Tensor& x, const Sorted& y, const std::vector<Order>& expected,
                     const std::string& what) {
  const Tensor from = contiguous(x.cpu()), values = contiguous(y.values.cpu()),
               indices = contiguous(y.indices.cpu());
  ASSERT_EQ(values.dtype(), x.dtype()) << what;
  const size_t size = from.element_size();
  const auto* const elements = static_cast<const char*>(from.data_ptr());
  const auto* value = static_cast<const char*>(values.data_ptr());
  const auto* index = indices.data<int64_t>();
  ASSERT_EQ(indices.numel(), int64_t(expected.size() * expected[0].size())) << what;
  for (size_t r = 0; r < expected.size(); ++r) {
    for (const int64_t place : expected[r]) {
      ASSERT_EQ(*index, place) << what << ", row " << r;
      const int64_t at = int64_t(r) * x.size(1) + place;
      ASSERT_EQ(std::memcmp(value, elements + size_t(at) * size, size), 0) << what << ", row " << r;
      ++index;
      value += size;
    }
  }
}

std::vector<Order> first_of(std::vector<Order> orders, int64_t k) {
  for (Order& order : orders) order.resize(size_t(k));
  return orders;
}

// Returns the place of each row's median: the middle, or the first NaN.
std::vector<Order> medians_of(const Tensor& x, const std::vector<Order>& orders) {
  const std::vector<double> v = contiguous(x.cpu()).to(kFloat64).to_vector<double>();
  std::vector<Order> places;
  for (size_t r = 0; r < orders.size(); ++r) {
    const auto is_nan = [&](int64_t i) { return std::isnan(v[r * orders[r].size() + size_t(i)]); };
    const auto nan = std::ranges::find_if(orders[r], is_nan);
    places.push_back({nan == orders[r].end() ? orders[r][(orders[r].size() - 1) / 2] : *nan});
  }
  return places;
}

// Checks sort, argsort, topk and median of x [rows, n] along its last dimension.
void check_rows(const Tensor& x, const std::string& what) {
  const int64_t n = x.size(1);
  for (const bool descending : {false, true}) {
    const std::vector<Order> orders = stable_orders(x, descending);
    const std::string name = concat_to_string(what, descending ? ", down" : ", up");
    expect_elements(x, sort(x, -1, descending), orders, name);
    expect_elements(x, {sort(x, -1, descending).values, argsort(x, -1, descending)}, orders, name);
    for (const int64_t k : {int64_t(1), int64_t(2), int64_t(10), n / 4, n / 2, n}) {
      if (k < 1 || k > n) continue;
      expect_elements(x, topk(x, k, -1, descending), first_of(orders, k),
                      concat_to_string(name, ", first ", k));
    }
    EXPECT_EQ(topk(x, 0, -1, descending).values.numel(), 0) << name;
    if (descending) continue;
    expect_elements(x, median(x, -1, true), medians_of(x, orders), name + ", median");
  }
}

TEST(Sorting, RowsOfEveryLengthAreInStableOrder) {
  for (const Device device : all_devices()) {
    for (const DType dtype : everything()) {
      for (const int64_t n : kLengths) {
        for (const Content content : kContents) {
          check_rows(rows_of(content, 2, n, dtype).to(device),
                     concat_to_string(device, " ", dtype, ", n ", n, ", content ", int(content)));
        }
      }
    }
  }
}

TEST(Sorting, RowsOfEveryLayoutAreInStableOrder) {
  for (const Device device : all_devices()) {
    for (const DType dtype : {kFloat32, kBFloat16, kInt32}) {
      for (const int64_t n : {7, 200, 1500}) {
        for (const Layout& layout : kLayouts) {
          const Tensor x = layout.of(rows_of(Content::kSpecials, 3, n, dtype).to(device));
          if (x.dim() != 2) continue;
          check_rows(x, concat_to_string(device, " ", dtype, ", n ", n, ", ", layout.name));
        }
      }
    }
  }
}

// There are more rows than a GPU processes at once.
TEST(Sorting, ManyRowsAreInStableOrder) {
  for (const Device device : all_devices()) {
    for (const DType dtype : {kFloat32, kBFloat16}) {
      check_rows(rows_of(Content::kSpecials, 3000, 130, dtype).to(device),
                 concat_to_string(device, " ", dtype));
    }
  }
}

// Other dimensions than the last one give the transposed results.
TEST(Sorting, ColumnsAreSortedLikeRows) {
  for (const Device device : all_devices()) {
    for (const int64_t n : {5, 300, 2000}) {
      const Tensor rows = rows_of(Content::kSpecials, 3, n, kFloat32).to(device);
      const Tensor columns = contiguous(transpose(rows, 0, 1));
      const auto turned = [](const Sorted& y) {
        return Sorted{transpose(y.values, 0, 1), transpose(y.indices, 0, 1)};
      };
      const std::vector<Order> up = stable_orders(rows, false), down = stable_orders(rows, true);
      expect_elements(rows, turned(sort(columns, 0)), up, "sort");
      expect_elements(rows, turned(topk(columns, 2, 0)), first_of(down, 2), "topk");
      expect_elements(rows, turned(median(columns, 0, true)), medians_of(rows, up), "median");
    }
  }
}

// Every element that is part of the result gets the gradient of its place there.
TEST(Sorting, GradientsReturnToThePlacesOfTheElements) {
  for (const Device device : all_devices()) {
    for (const DType dtype : {kFloat32, kFloat64, kBFloat16}) {
      for (const int64_t n : {5, 200, 1500, 4100}) {
        const Tensor x = rows_of(Content::kNumbers, 2, n, dtype).to(device).requires_grad_();
        for (const Sorted& y : {sort(x, -1), topk(x, 3, -1), median(x, -1, true)}) {
          const Tensor dy = remainder(arange(double(y.values.numel())), 97).to(device, dtype) + 1;
          const Tensor shaped = reshape(dy, y.values.shape());
          const Tensor dx = grad({y.values}, {x}, {shaped})[0];
          const std::string what = concat_to_string(device, " ", dtype, ", n ", n);
          EXPECT_TRUE(close(gather(dx, -1, y.indices), shaped, 0)) << what;
          EXPECT_EQ(sum(ne(dx, 0)).item<int64_t>(), shaped.numel()) << what;
        }
      }
    }
  }
}

// Draws without replacement are the first quotients of weights and squared normals, in order.
TEST(Sorting, MultinomialTakesTheFirstQuotients) {
  for (const Device device : all_devices()) {
    for (const DType dtype : {kFloat32, kFloat64, kBFloat16}) {
      for (const int64_t n : {5, 130, 1026, 4096, 4099}) {
        const Tensor weights = (rand({3, n}) + 0.1).to(device, dtype);
        Generator draws(5), again(5);
        const Tensor picked = multinomial(weights, 4, false, &draws);
        const DType wide = accumulate_type(dtype);
        const Tensor z = randn({2, 3, n}, {.dtype = wide, .device = device}, &again);
        const Tensor scores = weights.to(wide) / clamp(square(z[0]) + square(z[1]), 1e-30);
        EXPECT_TRUE(close(picked, topk(scores, 4, -1).indices, 0))
            << concat_to_string(device, " ", dtype, ", n ", n);
      }
    }
  }
}

}  // namespace
}  // namespace taper::v0::test
