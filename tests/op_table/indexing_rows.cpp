#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <numeric>

#include "autograd/ops/binary_ops.h"
#include "autograd/ops/index/index_ops.h"
#include "autograd/ops/index/indexing.h"
#include "autograd/ops/index/scatter.h"
#include "autograd/ops/index/search.h"
#include "framework/factory/factories.h"
#include "tests/op_table/op_table.h"
#include "tests/testing.h"

namespace taper::v0::test {
namespace {

using Line = std::vector<double>;
using Indices = std::vector<TensorIndex>;
using Source = std::function<Shape(const Shape&)>;

const char* const kNineOnCuda = "index 9 is out of bounds for a dimension with size 2";

Domain whole_numbers(double low, double high, DType dtype) { return {low, high, 1, dtype}; }

Tensor bools(const TensorData& data, Device d) {
  return tensor(data, {.dtype = kBool, .device = d});
}

double& element(Array& x, const Shape& at) { return x.v[size_t(flat_index(x.shape, at))]; }
double element(const Array& x, const Shape& at) { return x.v[size_t(flat_index(x.shape, at))]; }

// --- operator[] ---

// x[indices] of shape `result`. Its element at an index is x's element at source(index).
struct Bracket {
  const char* name;
  std::function<Indices(Device)> indices;
  Shape x, result;
  Source source;
};

std::vector<Bracket> brackets() {
  const auto at = [](std::vector<int64_t> list, int64_t i) { return list[size_t(i)]; };
  return {
      {"two tensors",
       [](Device d) {
         return Indices{longs({{0, -1}, {2, 2}}, d), longs({1, 0}, Device())};
       },
       {4, 3, 5},
       {2, 2, 5},
       [=](const Shape& i) {
         return Shape{at({0, 3, 2, 2}, i[0] * 2 + i[1]), at({1, 0}, i[1]), i[2]};
       }},
      {"two tensors apart",
       [](Device d) {
         return Indices{longs({0, 3}, d), Slice(), longs({{-1}, {2}}, d)};
       },
       {4, 3, 5},
       {2, 2, 3},
       [=](const Shape& i) {
         return Shape{at({0, 3}, i[1]), i[2], at({4, 2}, i[0])};
       }},
      {"a slice and a mask",
       [](Device d) {
         return Indices{Slice(1, -1), bools({true, false, true}, d)};
       },
       {4, 3, 5},
       {2, 2, 5},
       [](const Shape& i) {
         return Shape{1 + i[0], 2 * i[1], i[2]};
       }},
      {"a mask of two dimensions",
       [](Device d) {
         return Indices{bools({{false, true, false}, {true, true, false}}, d)};
       },
       {2, 3, 5},
       {3, 5},
       [=](const Shape& i) {
         return Shape{at({0, 1, 1}, i[0]), at({1, 0, 1}, i[0]), i[1]};
       }},
      {"a mask and a tensor",
       [](Device d) {
         return Indices{bools({true, false, true, true}, d), longs({0, 2, 0}, d)};
       },
       {4, 3, 5},
       {3, 5},
       [=](const Shape& i) {
         return Shape{at({0, 2, 3}, i[0]), at({0, 2, 0}, i[0]), i[1]};
       }},
      {"ellipsis, None, and one twice",
       [](Device d) {
         return Indices{"...", None, longs({4, 0, 4}, d)};
       },
       {4, 3, 5},
       {4, 3, 1, 3},
       [=](const Shape& i) {
         return Shape{i[0], i[1], at({4, 0, 4}, i[3])};
       }},
      {"a number and a step",
       [](Device d) {
         return Indices{-2, Slice(None, None, 2), longs({1, 1, 3}, d)};
       },
       {4, 3, 5},
       {2, 3},
       [=](const Shape& i) {
         return Shape{2, 2 * i[0], at({1, 1, 3}, i[1])};
       }},
      {"true in front",
       [](Device d) {
         return Indices{true, longs({0, 2}, d)};
       },
       {4, 3},
       {2, 3},
       [](const Shape& i) {
         return Shape{2 * i[0], i[1]};
       }},
      {"nothing",
       [](Device d) {
         return Indices{bools({false, false}, d), Ellipsis};
       },
       {2, 3},
       {0, 3},
       [](const Shape& i) { return i; }},
  };
}

std::vector<Refusal> indexing_refusals() {
  const auto with = [](std::function<Indices(Device)> indices) {
    return [indices](Device d) { return index(ones({2, 3}, {.device = d}), indices(d)).cpu(); };
  };
  return {
      {"floats", with([](Device d) { return Indices{ones({1}, {.device = d})}; }),
       "tensors used as indices must be long, int, byte or bool tensors"},
      {"beyond", with([](Device d) {
         return Indices{longs({9}, d), longs({0}, d)};
       }),
       "index 9 is out of bounds for dimension 0 with size 2", kNineOnCuda},
      {"a number beyond", with([](Device) {
         return Indices{0, 5};
       }),
       "index 5 is out of bounds for dimension 1 with size 3"},
      {"too many", with([](Device) {
         return Indices{0, 0, Slice()};
       }),
       "too many indices for tensor of dimension 2"},
      {"shapes", with([](Device d) {
         return Indices{longs({0, 1}, d), longs({0, 1, 2}, d)};
       }),
       "shape mismatch: indexing tensors could not be broadcast together with shapes [2], [3]"},
      {"mask", with([](Device d) {
         return Indices{bools({true, false, true}, d)};
       }),
       "The shape of the mask [3] at index 0 does not match the shape of the indexed tensor [2, 3] "
       "at index 0"},
      {"step", with([](Device) { return Indices{Slice(None, None, -1)}; }),
       "step must be greater than zero"},
      {"text", [](Device) { return index(ones({2}), {"x"}); },
       "Expected \"...\" to represent an ellipsis index, but got \"x\""}};
}

std::vector<Refusal> index_put_refusals() {
  const auto with = [](const Tensor& value) {
    return [value](Device d) {
      return index_put(ones({3, 2}, {.device = d}), {longs({0, 1}, d)}, value.to(d));
    };
  };
  return {{"shapes", with(ones({3})),
           "shape mismatch: value tensor of shape [3] cannot be broadcast to indexing result of "
           "shape [2, 2]"},
          {"dtypes", with(ones({2}, {.dtype = kFloat64})),
           "Index put requires the source and destination dtypes match, got Float for the "
           "destination and Double for the source."}};
}

std::vector<Row> bracket_rows() {
  std::vector<Row> rows;
  for (const Bracket& b : brackets()) {
    rows.push_back({.name = "index",
                    .variant = b.name,
                    .f = [b](const Tensors& x) { return index(x[0], b.indices(x[0].device())); },
                    .reference = [b](const auto& x) { return gathered(x[0], b.result, b.source); },
                    .samples = {{b.x}},
                    .dtypes = everything(),
                    .tolerance = {.gradient = 8}});
    Shape row = b.result;
    row.erase(0);
    for (const bool accumulate : {false, true}) {
      rows.push_back(
          {.name = "index_put",
           .variant = concat_to_string(b.name, accumulate ? ", added" : ""),
           .f =
               [b, accumulate](const Tensors& x) {
                 return index_put(x[0], b.indices(x[0].device()), x[1], accumulate);
               },
           .reference =
               [b, accumulate](const std::vector<Array>& x) {
                 Array y = x[0];
                 const int extra = b.result.size() - x[1].shape.size();
                 for (int64_t i = 0; i < b.result.numel(); ++i) {
                   const Shape at = index_of(b.result, i);
                   Shape from(at.begin() + extra, at.end());
                   for (int d = 0; d < from.size(); ++d) {
                     if (x[1].shape[d] == 1) from[d] = 0;
                   }
                   double& to = element(y, b.source(at));
                   to = element(x[1], from) + (accumulate ? to : 0);
                 }
                 return y;
               },
           .samples = {{b.x, b.result}, {b.x, row}, {b.x, {1}}},
           .dtypes = accumulate ? numbers() : everything(),
           .tolerance = {.float32 = 1e-5, .float16 = 2e-3, .bfloat16 = 1.6e-2, .gradient = 16}});
    }
  }
  rows[0].refusals = indexing_refusals();
  rows[1].refusals = index_put_refusals();
  return rows;
}

TEST(Index, NumbersAndSlicesGiveAViewThatCanBeWritten) {
  for (const Device device : all_devices()) {
    const Tensor x = zeros({3, 2}, {.device = device});
    EXPECT_EQ(index(x, {1, Slice(None, 1)}).storage(), x.storage());
    index(x, {Ellipsis, 1}) = tensor({1.0, 2.0, 3.0}, {.device = device});
    index_put_(x, {Slice(1), 0}, 5);
    EXPECT_TRUE(close(x, {3, 2}, {0, 1, 5, 2, 5, 3}, 0));
  }
}

TEST(Index, OfWhatIsPutInOnePlaceTheLastStays) {
  for (const Device device : all_devices()) {
    const Tensor x = zeros({3}, {.device = device}), ones_of_x = longs({1, 1, 2, 1}, device);
    index_put_(x, {ones_of_x}, tensor({4.0, 5.0, 6.0, 7.0}, {.device = device}));
    EXPECT_TRUE(close(x, {3}, {0, 7, 6}, 0));
  }
}

TEST(Index, WhatIsPutMayBeATensorsOwnElements) {
  for (const Device device : all_devices()) {
    const Tensor x = tensor({1.0, 2.0, 3.0}, {.device = device});
    index_put_(x, {longs({1, 2, 0}, device)}, x);
    EXPECT_TRUE(close(x, {3}, {3, 1, 2}, 0));
    EXPECT_EQ(x.version(), 1u);
  }
}

TEST(Index, ALeafIsNotWritten) {
  const Tensor x = zeros({3}, {.requires_grad = true});
  EXPECT_TRUE(refuses<Error>([&] { return index_put_(x, {longs({0}, Device())}, 1); },
                             "a leaf Variable that requires grad is being used in an in-place"));
  EXPECT_TRUE(refuses<Error>([&] { return index_put_(x, {Slice(1)}, 1); },
                             "a view of a leaf Variable that requires grad is being used in an"));
}

// --- masks ---

std::vector<Row> mask_rows() {
  const Domain mask = whole_numbers(0, 1, kBool);
  const auto clipped = [](const Array& x, const Shape& at) {
    Shape from(at.end() - x.shape.size(), at.end());
    for (int d = 0; d < from.size(); ++d) {
      if (x.shape[d] == 1) from[d] = 0;
    }
    return element(x, from);
  };
  const auto masked_places = [](const Tensor& bad, const char* text) {
    return Refusal{"mask dtype",
                   [bad](Device d) { return masked_select(ones({2}, {.device = d}), bad.to(d)); },
                   text};
  };
  return {
      {.name = "masked_select",
       .f = [](const Tensors& x) { return masked_select(x[0], x[1]); },
       .reference =
           [=](const std::vector<Array>& x) {
             Array y;
             const Shape shape = broadcast_shapes(x[0].shape, x[1].shape);
             for (int64_t i = 0; i < shape.numel(); ++i) {
               const Shape at = index_of(shape, i);
               if (clipped(x[1], at)) y.v.push_back(clipped(x[0], at));
             }
             y.shape = {int64_t(y.v.size())};
             return y;
           },
       .samples = {{{3, 4}, {3, 4}}, {{3, 4}, {4}}, {{4}, {3, 1}}, {{0, 2}, {2}}, {{1100}, {1100}}},
       .domains = {Domain(), mask},
       .dtypes = everything(),
       .tolerance = {.gradient = 8},
       .refusals = {masked_places(ones({2}), "masked_select: expected BoolTensor for mask")}},
      {.name = "masked_scatter",
       .f = [](const Tensors& x) { return masked_scatter(x[0], x[1], x[2]); },
       .reference =
           [=](const std::vector<Array>& x) {
             Array y{broadcast_shapes(x[0].shape, x[1].shape), {}};
             size_t next = 0;
             for (int64_t i = 0; i < y.shape.numel(); ++i) {
               const Shape at = index_of(y.shape, i);
               y.v.push_back(clipped(x[1], at) ? x[2].v[next++] : clipped(x[0], at));
             }
             return y;
           },
       .samples = {{{3, 4}, {3, 4}, {12}}, {{3, 4}, {4}, {4, 5}}, {{4}, {3, 1}, {12}}},
       .domains = {Domain(), mask, Domain()},
       .dtypes = everything(),
       .refusals = {{"few",
                     [](Device d) {
                       return masked_scatter(ones({3}, {.device = d}),
                                             ones({3}, {.dtype = kBool, .device = d}),
                                             ones({2}, {.device = d}));
                     },
                     "Number of elements of source < number of ones in mask"},
                    {"dtypes",
                     [](Device d) {
                       return masked_scatter(ones({1}, {.device = d}),
                                             ones({1}, {.dtype = kBool, .device = d}),
                                             longs({1}, d));
                     },
                     "masked_scatter: expected self and source to have same dtypes but got"}}},
      {.name = "nonzero",
       .f = [](const Tensors& x) { return nonzero(x[0]); },
       .reference =
           [](const std::vector<Array>& x) {
             Array y{{0, x[0].shape.size()}, {}};
             for (size_t i = 0; i < x[0].v.size(); ++i) {
               if (x[0].v[i] == 0) continue;
               const Shape at = index_of(x[0].shape, int64_t(i));
               y.v.insert(y.v.end(), at.begin(), at.end());
               ++y.shape[0];
             }
             return y;
           },
       .samples = {{{7}}, {{2, 3, 4}}, {{}}, {{0, 2}}, {{3000}}},
       .domains = {{-1, 1, 1}},
       .dtypes = everything(),
       .gives = Gives::kInt64,
       .derivative = Derivative::kNone},
      {.name = "count_nonzero",
       .variant = "dim 1",
       .f = [](const Tensors& x) { return count_nonzero(x[0], {1}); },
       .reference =
           [](const std::vector<Array>& x) {
             return reduced(x[0], {1}, false, [](const Line& line) {
               return double(line.size()) - double(std::ranges::count(line, 0.0));
             });
           },
       .samples = {{{3, 5}}, {{2, 0, 2}}},
       .domains = {{-1, 1, 1}},
       .dtypes = everything(),
       .gives = Gives::kInt64,
       .derivative = Derivative::kNone}};
}

// --- scatter ---

// Returns the index in x that the index's element at `at` selects.
Shape named_along(const Array& index, int64_t dim, Shape at) {
  if (at.size() > 0) at[wrap_dim(dim, at.size())] = int64_t(element(index, at));
  return at;
}

// Replaces every element of x[0] by f(element, the elements of x[2] that x[1] assigns to it).
Array each_with(const std::vector<Array>& x, int64_t dim,
                const std::function<double(double, const Line&)>& f) {
  std::vector<Line> there(x[0].v.size());
  for (size_t i = 0; i < x[1].v.size(); ++i) {
    const Shape at = index_of(x[1].shape, int64_t(i));
    const size_t to =
        x[0].shape.empty() ? 0 : size_t(flat_index(x[0].shape, named_along(x[1], dim, at)));
    there[to].push_back(element(x[2], at));
  }
  Array y = x[0];
  for (size_t i = 0; i < y.v.size(); ++i) {
    if (!there[i].empty()) y.v[i] = f(y.v[i], there[i]);
  }
  return y;
}

const std::vector<std::vector<Shape>> kAlong0 = {{{5, 3}, {2, 3}, {2, 3}},
                                                 {{5, 3}, {7, 2}, {8, 3}},
                                                 {{5}, {40}, {40}},
                                                 {{5, 3}, {0, 3}, {2, 3}}};
const std::vector<std::vector<Shape>> kAlong1 = {
    {{3, 5}, {2, 4}, {3, 4}}, {{2, 5, 3}, {2, 3, 2}, {2, 3, 2}}, {{3, 300}, {3, 1100}, {3, 1100}}};

std::vector<Row> scatter_rows() {
  std::vector<Row> rows;
  for (const int64_t dim : {0, 1}) {
    rows.push_back({.name = "scatter",
                    .variant = concat_to_string("dim ", dim),
                    .f = [dim](const Tensors& x) { return scatter(x[0], dim, x[1], x[2]); },
                    .reference =
                        [dim](const std::vector<Array>& x) {
                          return each_with(x, dim,
                                           [](double, const Line& line) { return line.back(); });
                        },
                    .samples = dim == 0 ? kAlong0 : kAlong1,
                    .domains = {Domain(), whole_numbers(0, 4, kInt64), Domain()},
                    .dtypes = everything()});
  }
  const auto refused = [](const Tensor& index, const Tensor& src) {
    return [=](Device d) {
      return scatter(ones({2, 3}, {.device = d}), 0, index.to(d), src.to(d)).cpu();
    };
  };
  rows[0].refusals = {
      {"index dtype", refused(ones({1, 1}), ones({1, 1})),
       "scatter(): Expected dtype int32/int64 for index"},
      {"dtypes", refused(tensor({{0}}), tensor({{1}})),
       "scatter(): Expected self.dtype to be equal to src.dtype"},
      {"dims", refused(tensor({0}), ones({1, 1})),
       "Index tensor must have the same number of dimensions as self tensor"},
      {"sizes", refused(tensor({{0, 0, 0, 0}}), ones({1, 4})),
       "Expected index [1, 4] to be no larger than self [2, 3] apart from dimension 0"},
      {"beyond", refused(tensor({{9}}), ones({1, 1})),
       "index 9 is out of bounds for dimension 0 with size 2", kNineOnCuda}};
  rows.push_back({.name = "scatter",
                  .variant = "a number",
                  .f = [](const Tensors& x) { return scatter(x[0], -1, x[1], 1); },
                  .reference =
                      [](const std::vector<Array>& x) {
                        const Array src{x[1].shape, Line(x[1].v.size(), 1)};
                        return each_with({x[0], x[1], src}, -1,
                                         [](double, const Line& line) { return line.back(); });
                      },
                  .samples = {{{3, 5}, {2, 4}}, {{5}, {9}}},
                  .domains = {Domain(), whole_numbers(0, 4, kInt32)},
                  .dtypes = everything()});

  using Fold = double (*)(const Line&);
  const std::pair<const char*, Fold> kFolds[] = {
      {"sum", [](const Line& l) { return std::accumulate(l.begin(), l.end(), 0.0); }},
      {"prod",
       [](const Line& l) { return std::accumulate(l.begin(), l.end(), 1.0, std::multiplies<>()); }},
      {"mean",
       [](const Line& l) { return std::accumulate(l.begin(), l.end(), 0.0) / double(l.size()); }},
      {"amax", [](const Line& l) { return *std::max_element(l.begin(), l.end()); }},
      {"amin", [](const Line& l) { return *std::min_element(l.begin(), l.end()); }}};
  for (const auto& [reduce, fold] : kFolds) {
    for (const bool self : {true, false}) {
      const std::string name = reduce;
      std::vector<std::vector<Shape>> samples = self ? kAlong0 : kAlong1;
      if (name == "prod") std::erase_if(samples, [](const auto& s) { return s[1].numel() > 20; });
      rows.push_back({.name = "scatter_reduce",
                      .variant = name + (self ? "" : " without self"),
                      .f =
                          [name, self](const Tensors& x) {
                            return scatter_reduce(x[0], self ? 0 : 1, x[1], x[2], name, self);
                          },
                      .reference =
                          [fold, self](const std::vector<Array>& x) {
                            return each_with(x, self ? 0 : 1, [=](double own, Line line) {
                              if (self) line.insert(line.begin(), own);
                              return fold(line);
                            });
                          },
                      .samples = samples,
                      .domains = {Domain(), whole_numbers(0, 4, kInt64), Domain()},
                      .dtypes = name == "mean" ? floating() : numbers(),
                      .tolerance = {.float64 = 1e-11,
                                    .float32 = 1e-4,
                                    .float16 = 4e-3,
                                    .bfloat16 = 3.2e-2,
                                    .gradient = 16}});
    }
  }
  rows.back().refusals = {
      {"reduce",
       [](Device d) {
         return scatter_reduce(ones({2}, {.device = d}), 0, longs({0}, d), ones({1}, {.device = d}),
                               "max");
       },
       "'max' is not a valid value for reduce, which is 'sum', 'prod', 'mean', 'amax' or 'amin'"}};
  return rows;
}

// --- slices by index ---

Row slices_row(const char* name, int64_t dim, std::function<Tensor(const Tensors&)> f,
               double (*join)(double own, double given)) {
  return {.name = name,
          .variant = concat_to_string("dim ", dim),
          .f = std::move(f),
          .reference =
              [dim, join](const std::vector<Array>& x) {
                Array y = x[0];
                for (size_t i = 0; i < x[2].v.size(); ++i) {
                  Shape to = index_of(x[2].shape, int64_t(i));
                  const int d = wrap_dim(dim, to.size());
                  if (to.size() > 0) to[d] = int64_t(x[1].v[size_t(to[d])]);
                  double& own = element(y, to);
                  own = join(own, x[2].v[i]);
                }
                return y;
              },
          .samples = dim == 0 ? std::vector<std::vector<Shape>>{{{5, 3}, {7}, {7, 3}},
                                                                {{5}, {2}, {2}},
                                                                {{5, 2, 33}, {0}, {0, 2, 33}},
                                                                {{5, 0}, {3}, {3, 0}}}
                              : std::vector<std::vector<Shape>>{{{3, 5}, {2}, {3, 2}},
                                                                {{2, 3, 5}, {60}, {2, 3, 60}}},
          .domains = {Domain(), whole_numbers(0, 4, kInt64), Domain()},
          .dtypes = numbers(),
          .tolerance = {.float32 = 2e-5, .float16 = 4e-3, .bfloat16 = 3.2e-2, .gradient = 16}};
}

std::vector<Row> slice_rows() {
  std::vector<Row> rows;
  for (const int64_t dim : {0, -1}) {
    rows.push_back(slices_row(
        "index_add", dim, [dim](const Tensors& x) { return index_add(x[0], dim, x[1], x[2], 2); },
        [](double own, double given) { return own + 2 * given; }));
    rows.push_back(slices_row(
        "index_copy", dim, [dim](const Tensors& x) { return index_copy(x[0], dim, x[1], x[2]); },
        [](double, double given) { return given; }));
    rows.push_back(slices_row(
        "index_fill", dim, [dim](const Tensors& x) { return index_fill(x[0], dim, x[1] - 5, 3); },
        [](double, double) { return 3.0; }));
    rows.back().domains[2] = whole_numbers(0, 1, kBool);  // only its shape matters
  }
  using Op = Tensor (*)(const Tensor&, const Tensor&, const Tensor&);
  const auto with = [](Op op, const Tensor& index, const Tensor& source) {
    return [=](Device d) {
      return op(ones({2, 4}, {.device = d}), index.to(d), source.to(d)).cpu();
    };
  };
  const Op added = [](const Tensor& x, const Tensor& i, const Tensor& s) {
    return index_add(x, 0, i, s);
  };
  const Op copied = [](const Tensor& x, const Tensor& i, const Tensor& s) {
    return index_copy(x, 0, i, s);
  };
  const Op filled = [](const Tensor& x, const Tensor& i, const Tensor&) {
    return index_fill(x, 0, i, 1);
  };
  const Tensor one = ones({1, 4});
  rows[0].refusals = {
      {"matrix", with(added, tensor({{0}}), one), "index_add_(): Index is supposed to be a vector"},
      {"index dtype", with(added, ones({1}), one),
       "index_add_(): Expected dtype int32/int64 for index but got: Float"},
      {"dtypes", with(added, tensor({0}), one.to(kFloat64)),
       "index_add_(): self (Float) and source (Double) must have the same scalar type"},
      {"count", with(added, tensor({0}), ones({2, 4})),
       "index_add_(): Number of indices (1) should be equal to source.size(dim): (2), for dim: 0"},
      {"shapes", with(added, tensor({0}), ones({1, 3})),
       "source tensor shape must match self tensor shape, excluding the specified dimension."},
      {"beyond", with(added, tensor({9}), one),
       "index 9 is out of bounds for dimension 0 with size 2", kNineOnCuda}};
  rows[1].refusals = {{"matrix", with(copied, tensor({{0}}), one),
                       "index_copy_(): Index should have dimension 1 or 0 (got 2)"},
                      {"index dtype", with(copied, ones({1}), one),
                       "index_copy_(): Expected a long tensor for index, but got Float"},
                      {"count", with(copied, tensor({0}), ones({2, 4})),
                       "index_copy_(): Number of indices (1) should be equal to source.size(dim)"}};
  rows[2].refusals = {{"beyond", with(filled, tensor({-3}), one),
                       "index -3 is out of bounds for dimension 0 with size 2",
                       "index -3 is out of bounds for a dimension with size 2"}};
  return rows;
}

// --- counting and finding ---

Line sorted_line(Line line) {
  std::sort(line.begin(), line.end());
  return line;
}

Row search_row(const char* name, bool right, std::vector<std::vector<Shape>> samples) {
  const bool rows = std::string(name) == "searchsorted";
  return {.name = name,
          .variant = right ? "right" : "left",
          .f =
              [=](const Tensors& x) {
                const Tensor rising = sort(x[0]).values;
                return rows ? searchsorted(rising, x[1], right) : bucketize(x[1], rising, right);
              },
          .reference =
              [right](const std::vector<Array>& x) {
                const size_t n = size_t(x[0].shape.back());
                const size_t count =
                    x[0].shape.size() == 1 ? x[1].v.size() : size_t(x[1].shape.back());
                Array y = x[1];
                for (size_t i = 0; i < y.v.size(); ++i) {
                  const auto from = x[0].v.begin() + int64_t(i / count * n);
                  const Line line = sorted_line(Line(from, from + int64_t(n)));
                  const auto at = right ? std::upper_bound(line.begin(), line.end(), x[1].v[i])
                                        : std::lower_bound(line.begin(), line.end(), x[1].v[i]);
                  y.v[i] = double(at - line.begin());
                }
                return y;
              },
          .samples = std::move(samples),
          .dtypes = numbers(),
          .gives = Gives::kInt64,
          .derivative = Derivative::kNone};
}

Row unique_row(const char* what, Gives gives, std::function<Tensor(const Uniques&)> part,
               Array (*reference)(const Array& x, const Line& values)) {
  return {.name = "unique",
          .variant = what,
          .f = [part](const Tensors& x) { return part(unique(x[0], true, true, true)); },
          .reference =
              [reference](const std::vector<Array>& x) {
                Line values = sorted_line(x[0].v);
                values.erase(std::unique(values.begin(), values.end()), values.end());
                return reference(x[0], values);
              },
          .samples = {{{9}}, {{2, 3}}, {{}}, {{0, 2}}, {{1500}}},
          .domains = {{-2, 2, 1}},
          .dtypes = everything(),
          .gives = gives,
          .derivative = Derivative::kNone};
}

Array repeated(const Array& x, int64_t dim, const std::function<int64_t(int64_t)>& times) {
  std::vector<int64_t> from;
  for (int64_t i = 0; i < x.shape[int(dim)]; ++i) from.insert(from.end(), size_t(times(i)), i);
  Shape shape = x.shape;
  shape[int(dim)] = int64_t(from.size());
  return gathered(x, shape, [&](Shape at) {
    at[int(dim)] = from[size_t(at[int(dim)])];
    return at;
  });
}

std::vector<Row> found_rows() {
  const Domain few = whole_numbers(0, 4, kInt64);
  const auto counts = [](const Array& index, const Line& weights, size_t least) {
    double most = -1;
    for (const double i : index.v) most = std::max(most, i);
    Line y(std::max(size_t(most + 1), least));
    for (size_t i = 0; i < index.v.size(); ++i) y[size_t(index.v[i])] += weights[i];
    return Array{{int64_t(y.size())}, y};
  };
  const auto repeats_refused = [](const TensorData& repeats, std::optional<int64_t> size) {
    return [=](Device d) {
      return repeat_interleave(ones({3}, {.device = d}), tensor(repeats, {.device = d}), 0, size);
    };
  };
  std::vector<Row> rows = {
      {.name = "bincount",
       .f = [](const Tensors& x) { return bincount(x[0], {}, 3); },
       .reference = [=](const auto& x) { return counts(x[0], Line(x[0].v.size(), 1), 3); },
       .samples = {{{9}}, {{0}}, {{2000}}},
       .domains = {few},
       .dtypes = {kInt64},
       .gives = Gives::kInt64,
       .derivative = Derivative::kNone,
       .refusals = {{"negative", [](Device d) { return bincount(longs({1, -1}, d)); },
                     "bincount only supports 1-d non-negative integral inputs."},
                    {"floats", [](Device d) { return bincount(ones({2}, {.device = d})); },
                     "bincount only supports 1-d non-negative integral inputs."},
                    {"weights",
                     [](Device d) { return bincount(longs({1}, d), ones({2}, {.device = d})); },
                     "weights should be 1-d and have the same length as input"},
                    {"minlength", [](Device d) { return bincount(longs({1}, d), {}, -1); },
                     "minlength should be >= 0"}}},
      {.name = "bincount",
       .variant = "weights",
       .f = [](const Tensors& x) { return bincount(x[1], x[0]); },
       .reference = [=](const auto& x) { return counts(x[1], x[0].v, 0); },
       .samples = {{{9}, {9}}, {{2000}, {2000}}},
       .domains = {Domain(), few},
       .dtypes = {kFloat32, kFloat64},
       .tolerance = {.float32 = 1e-4}},
      {.name = "repeat_interleave",
       .variant = "a number",
       .f = [](const Tensors& x) { return repeat_interleave(x[0], 3, 1); },
       .reference = [](const auto& x) { return repeated(x[0], 1, [](int64_t) { return 3; }); },
       .samples = {{{2, 3}}, {{2, 3, 2}}, {{3, 0}}},
       .dtypes = everything(),
       .refusals = {{"negative",
                     [](Device d) {
                       return repeat_interleave(ones({2}, {.device = d}), -1);
                     },
                     "Repeats must be non-negative"}}},
      {.name = "repeat_interleave",
       .variant = "a tensor",
       .f = [](const Tensors& x) { return repeat_interleave(x[0], x[1], 0); },
       .reference =
           [](const std::vector<Array>& x) {
             return repeated(x[0], 0, [&](int64_t i) {
               return int64_t(x[1].v[x[1].v.size() == 1 ? 0 : size_t(i)]);
             });
           },
       .samples = {{{5, 3}, {5}}, {{4}, {1}}, {{0, 2}, {0}}, {{600, 2}, {600}}},
       .domains = {Domain(), few},
       .dtypes = everything(),
       .tolerance = {.gradient = 16},
       .refusals =
           {{"negative", repeats_refused({1, -1, 1}, {}), "repeats can not be negative"},
            {"count", repeats_refused({1, 1}, {}),
             "repeats must have the same size as input along dim, but got repeats.size(0) = 2"},
            {"floats", repeats_refused({1.0, 1.0, 1.0}, {}), "repeats has to be Long or Int tensor"},
            {"matrix", repeats_refused({{1, 1, 1}}, {}),
             "repeats must be 0-dim or 1-dim tensor"}}},
      {.name = "take_along_dim",
       .f = [](const Tensors& x) { return take_along_dim(x[0], x[1] - 2, 1); },
       .reference =
           [](const std::vector<Array>& x) {
             Shape shape = x[1].shape;
             shape[0] = std::max(shape[0], x[0].shape[0]);
             return gathered(x[0], shape, [&](const Shape& at) {
               const Shape of = {x[1].shape[0] == 1 ? 0 : at[0], at[1]};
               const int64_t place = int64_t(element(x[1], of)) - 2;
               return Shape{x[0].shape[0] == 1 ? 0 : at[0],
                            place < 0 ? place + x[0].shape[1] : place};
             });
           },
       .samples = {{{3, 4}, {3, 2}}, {{1, 4}, {3, 5}}, {{3, 4}, {1, 2}}, {{2, 3}, {2, 0}}},
       .domains = {Domain(), few},
       .dtypes = everything(),
       .tolerance = {.gradient = 16},
       .refusals = {{"dtype",
                     [](Device d) {
                       return take_along_dim(ones({2}, {.device = d}), ones({1}, {.device = d}), 0);
                     },
                     "taper::take_along_dim(): dtype of indices should be Long but got Float"},
                    {"dims",
                     [](Device d) {
                       return take_along_dim(ones({2, 2}, {.device = d}), longs({0}, d), 0);
                     },
                     "taper::take_along_dim(): input and indices should have the same number of "
                     "dimensions, but got 2 dimensions for input, and 1 dimensions for indices"}}},
      unique_row("values", Gives::kSame, [](const Uniques& u) { return u.output; },
                 [](const Array&, const Line& values) {
                   return Array{{int64_t(values.size())}, values};
                 }),
      unique_row("inverse", Gives::kInt64, [](const Uniques& u) { return u.inverse_indices; },
                 [](const Array& x, const Line& values) {
                   Array y = x;
                   for (double& v : y.v) {
                     v = double(std::ranges::lower_bound(values, v) - values.begin());
                   }
                   return y;
                 }),
      unique_row("counts", Gives::kInt64, [](const Uniques& u) { return u.counts; },
                 [](const Array& x, const Line& values) {
                   Array y{{int64_t(values.size())}, {}};
                   for (const double v : values) y.v.push_back(double(std::ranges::count(x.v, v)));
                   return y;
                 })};
  for (const bool right : {false, true}) {
    rows.push_back(search_row(
        "searchsorted", right,
        {{{7}, {4}}, {{7}, {2, 3}}, {{3, 5}, {3, 2}}, {{1}, {}}, {{4}, {0}}, {{1000}, {1500}}}));
    rows.push_back(search_row("bucketize", right, {{{7}, {2, 3}}}));
  }
  const auto sequence = [](const Shape& sorted, const Shape& x) {
    return
        [=](Device d) { return searchsorted(ones(sorted, {.device = d}), ones(x, {.device = d})); };
  };
  rows[rows.size() - 4].refusals = {
      {"0-dim", sequence({}, {2}),
       "taper::searchsorted(): boundaries tensor should have positive dimension, but got 0"},
      {"a number", sequence({2, 3}, {}),
       "taper::searchsorted(): input value can be a scalar only when boundaries tensor dimension "
       "is "
       "1"},
      {"shapes", sequence({3, 4}, {2, 2}),
       "taper::searchsorted(): boundaries tensor should be 1 dimension or the first N-1 "
       "dimensions"}};
  rows[rows.size() - 3].refusals = {
      {"matrix",
       [](Device d) {
         return bucketize(ones({2}, {.device = d}), ones({2, 2}, {.device = d}));
       },
       "boundaries tensor must be 1 dimension, but got dim(2)"}};
  return rows;
}

}  // namespace

std::vector<Row> indexing_rows() {
  std::vector<Row> rows;
  for (auto family : {bracket_rows(), mask_rows(), scatter_rows(), slice_rows(), found_rows()}) {
    for (Row& row : family) rows.push_back(std::move(row));
  }
  return rows;
}

}  // namespace taper::v0::test
