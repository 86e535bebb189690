#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <numeric>

#include "autograd/engine.h"
#include "autograd/ops/index/index_ops.h"
#include "autograd/ops/index/indexing.h"
#include "autograd/ops/index/scatter.h"
#include "autograd/ops/reduce_ops.h"
#include "framework/factory/factories.h"
#include "tests/op_table/op_table.h"
#include "tests/testing.h"

namespace taper::v0::test {
namespace {

using Line = std::vector<double>;

constexpr double kInf = std::numeric_limits<double>::infinity();
const char* const kBeyondOnCuda = "index 2 is out of bounds for a dimension with size 2";

// The domain of an index: whole numbers in [0, most].
Domain index_domain(double most, DType dtype = kInt64) { return {0, most, 1, dtype}; }

int64_t whole(const Array& x, const Shape& at) {
  return int64_t(x.v[size_t(flat_index(x.shape, at))]);
}

// --- rows and elements by index ---

Array rows_by(const Array& x, const Array& index) {
  Shape shape = index.shape;
  shape.insert(shape.size(), x.shape.size() > 1 ? x.shape[1] : 1);
  if (x.shape.size() == 1) shape.erase(shape.size() - 1);
  const int dims = index.shape.size();
  return gathered(x, shape, [&](const Shape& at) {
    const int64_t row = whole(index, Shape(at.begin(), at.begin() + dims));
    Shape source = {row < 0 ? row + x.shape[0] : row};
    for (int i = dims; i < at.size(); ++i) source.push_back(at[i]);
    return source;
  });
}

Row embedding_row(DType index) {
  return {.name = "embedding",
          .variant = concat_to_string("index ", index),
          .f = [](const Tensors& x) { return embedding(x[0], x[1]); },
          .reference = [](const std::vector<Array>& x) { return rows_by(x[0], x[1]); },
          // More indices than rows, so that several gradients accumulate in one row.
          .samples = {{{5, 3}, {7}},
                      {{5, 3}, {2, 3}},
                      {{5, 1}, {}},
                      {{5, 4}, {0}},
                      {{5, 0}, {3}},
                      {{6}, {40}},
                      {{9, 1}, {30}},
                      {{6, 17}, {1025}},
                      {{70, 40}, {65}}},
          .domains = {Domain(), index_domain(4, index)},
          .dtypes = everything(),
          .tolerance = {.float32 = 1e-5, .gradient = 40},
          .refusals = {{"index dtype",
                        [](Device d) {
                          return embedding(ones({2, 3}, {.device = d}), ones({2}, {.device = d}));
                        },
                        "Expected tensor for argument #1 'indices' to have one of the following "
                        "scalar types: Long, Int; but got Float instead"},
                       {"padding beyond",
                        [](Device d) {
                          return embedding(ones({2, 3}, {.device = d}), longs({0, 1}, d), 2);
                        },
                        "Padding_idx must be within num_embeddings"},
                       {"index beyond",
                        [](Device d) {
                          return embedding(ones({2, 3}, {.device = d}), longs({0, 2}, d)).cpu();
                        },
                        "index out of range in self.", kBeyondOnCuda}}};
}

Row index_row(const std::string& variant, const TensorData& data, bool on_cpu) {
  return {
      .name = "index",
      .variant = variant,
      .f = [data, on_cpu](
               const Tensors& x) { return x[0][longs(data, on_cpu ? Device() : x[0].device())]; },
      .reference =
          [data](const std::vector<Array>& x) {
            return rows_by(x[0], array_of(longs(data, Device())));
          },
      .samples = {{{3, 5}}, {{4}}, {{3, 1}}, {{3, 0}}, {{11, 130}}},
      .dtypes = everything()};
}

std::vector<Refusal> index_refusals() {
  const auto with = [](TensorData data, DType dtype) {
    return [data, dtype](Device d) {
      return index(ones({2, 3}, {.device = d}), tensor(data, {.dtype = dtype, .device = d})).cpu();
    };
  };
  return {{"floats", with({0.0}, kFloat32),
           "tensors used as indices must be long, int, byte or bool tensors"},
          {"beyond", with({2}, kInt64), "index 2 is out of bounds for dimension 0 with size 2",
           kBeyondOnCuda},
          {"below", with({-3}, kInt64), "index -3 is out of bounds for dimension 0 with size 2",
           "index -3 is out of bounds for a dimension with size 2"},
          {"0-dim", [](Device d) { return index(full({}, 3.0, {.device = d}), longs({0}, d)); },
           "too many indices for tensor of dimension 0"}};
}

Row index_select_row(int64_t dim, std::vector<std::vector<Shape>> samples) {
  return {
      .name = "index_select",
      .variant = concat_to_string("dim ", dim),
      .f = [dim](const Tensors& x) { return index_select(x[0], dim, x[1]); },
      .reference =
          [dim](const std::vector<Array>& x) {
            Shape shape = x[0].shape;
            const int d = wrap_dim(dim, shape.size());
            shape[d] = int64_t(x[1].v.size());
            return gathered(x[0], shape, [&](Shape at) {
              at[d] = int64_t(x[1].v[size_t(at[d])]);
              return at;
            });
          },
      .samples = std::move(samples),
      .domains = {Domain(), index_domain(4)},
      .dtypes = everything(),
      .tolerance = {.float32 = 1e-5, .gradient = 40},
      .refusals = {{"index dtype",
                    [](Device d) {
                      return index_select(ones({2, 3}, {.device = d}), 0, ones({2}, {.device = d}));
                    },
                    "index_select(): Expected dtype int32 or int64 for index"},
                   {"matrix",
                    [](Device d) {
                      return index_select(ones({2, 3}, {.device = d}), 0, longs({{0, 1}}, d));
                    },
                    "index_select(): Index is supposed to be a vector"},
                   {"0-dim",
                    [](Device d) {
                      return index_select(full({}, 3.0, {.device = d}), 0, longs({0, 0}, d));
                    },
                    "index_select(): Index to scalar can have only 1 value, got 2 value(s)"},
                   {"beyond",
                    [](Device d) {
                      return index_select(ones({2, 3}, {.device = d}), 0, longs({2}, d)).cpu();
                    },
                    "index out of range in self", kBeyondOnCuda},
                   {"dim",
                    [](Device d) {
                      return index_select(ones({2}, {.device = d}), 1, longs({0}, d));
                    },
                    "Dimension out of range (expected to be in range of [-1, 0], but got 1)"}}};
}

// Returns the index in a tensor that the index's element at `at` selects along dimension d.
Shape named(const Array& index, int d, const Shape& at) {
  Shape source = at;
  if (source.size() > 0) source[d] = whole(index, at);
  return source;
}

Row gather_row(int64_t dim, double most, std::vector<std::vector<Shape>> samples) {
  return {.name = "gather",
          .variant = concat_to_string("dim ", dim, ", to ", most),
          .f = [dim](const Tensors& x) { return gather(x[0], dim, x[1]); },
          .reference =
              [dim](const std::vector<Array>& x) {
                const int d = wrap_dim(dim, x[1].shape.size());
                if (x[0].v.size() == 1) return Array{x[1].shape, Line(x[1].v.size(), x[0].v[0])};
                return gathered(x[0], x[1].shape,
                                [&](const Shape& at) { return named(x[1], d, at); });
              },
          .samples = std::move(samples),
          .domains = {Domain(), index_domain(most)},
          .dtypes = everything(),
          .tolerance = {.float32 = 1e-5, .gradient = 40}};
}

std::vector<Refusal> gather_refusals() {
  const auto with = [](Tensor index) {
    return [index](Device d) { return gather(ones({2, 3}, {.device = d}), 0, index.to(d)).cpu(); };
  };
  return {{"index dtype", with(ones({2, 3})), "gather(): Expected dtype int32/int64 for index"},
          {"dims", with(tensor({0, 1})),
           "Index tensor must have the same number of dimensions as input tensor"},
          {"sizes", with(zeros({2, 4}, {.dtype = kInt64})),
           "Size does not match at dimension 1 expected index [2, 4] to be no larger than self "
           "[2, 3] apart from dimension 0"},
          {"beyond", with(tensor({{2}})), "index 2 is out of bounds for dimension 0 with size 2",
           kBeyondOnCuda},
          {"below", with(tensor({{-1}})), "index -1 is out of bounds for dimension 0 with size 2",
           "index -1 is out of bounds for a dimension with size 2"}};
}

Row scatter_add_row(int64_t dim, double most, std::vector<std::vector<Shape>> samples) {
  return {.name = "scatter_add",
          .variant = concat_to_string("dim ", dim, ", to ", most),
          .f = [dim](const Tensors& x) { return scatter_add(x[0], dim, x[1], x[2]); },
          .reference =
              [dim](const std::vector<Array>& x) {
                Array y = x[0];
                for (size_t i = 0; i < x[1].v.size(); ++i) {
                  const Shape at = index_of(x[1].shape, int64_t(i));
                  const Shape to = at.empty() ? at : named(x[1], wrap_dim(dim, at.size()), at);
                  const double added =
                      at.empty() ? x[2].v[0] : x[2].v[size_t(flat_index(x[2].shape, at))];
                  y.v[y.v.size() == 1 ? 0 : size_t(flat_index(y.shape, to))] += added;
                }
                return y;
              },
          .samples = std::move(samples),
          .domains = {Domain(), index_domain(most), Domain()},
          .dtypes = numbers(),
          .tolerance = {.float32 = 1e-4, .float16 = 2e-3, .bfloat16 = 1.6e-2, .gradient = 8}};
}

std::vector<Refusal> scatter_add_refusals() {
  const auto with = [](Tensor index, DType src = kFloat32) {
    return [index, src](Device d) {
      const Tensor x = ones({2, 3}, {.device = d});
      return scatter_add(x, 0, index.to(d), x.to(src)).cpu();
    };
  };
  return {{"index dtype", with(ones({2, 3})), "scatter(): Expected dtype int32/int64 for index"},
          {"dims", with(tensor({0, 1})),
           "Index tensor must have the same number of dimensions as self tensor"},
          {"sizes", with(zeros({3, 3}, {.dtype = kInt64})),
           "Expected index [3, 3] to be no larger than self [2, 3] apart from dimension 0 and to "
           "be no larger size than src [2, 3]"},
          {"src dtype", with(tensor({{0}}), kFloat64),
           "scatter(): Expected self.dtype to be equal to src.dtype"},
          {"beyond", with(tensor({{2}})), "index 2 is out of bounds for dimension 0 with size 2",
           kBeyondOnCuda}};
}

// Without a number of classes, the largest index determines it.
Row one_hot_of_data_row() {
  return {
      .name = "one_hot",
      .variant = "classes from the data",
      .f = [](const Tensors& x) { return one_hot(x[0]); },
      .reference =
          [](const std::vector<Array>& x) {
            const auto classes = int64_t(*std::ranges::max_element(x[0].v)) + 1;
            Array y{x[0].shape, {}};
            y.shape.push_back(classes);
            for (const double index : x[0].v) {
              for (int64_t c = 0; c < classes; ++c) y.v.push_back(index == double(c));
            }
            return y;
          },
      .samples = {{{4}}, {{2, 3}}, {{}}, {{1025}}},
      .domains = {index_domain(6)},
      .dtypes = {kInt64},
      .gives = Gives::kInt64,
      .derivative = Derivative::kNone,
      .refusals =
          {{"empty", [](Device d) { return one_hot(zeros({0}, {.dtype = kInt64, .device = d})); },
            "Can not infer total number of classes from empty tensor."},
           {"below",
            [](Device d) {
              return one_hot(longs({0, -2}, d)).cpu();
            },
            "Class values must be non-negative", "index -2 is out of bounds for a dimension"},
           {"all below",
            [](Device d) {
              return one_hot(longs({-1, -2}, d));
            },
            "Class values must be non-negative. The largest is -1"},
           {"absurd",
            [](Device d) { return one_hot(longs({std::numeric_limits<int64_t>::max()}, d)); },
            ""}}};
}

Row one_hot_row() {
  return {.name = "one_hot",
          .f = [](const Tensors& x) { return one_hot(x[0], 5); },
          .reference =
              [](const std::vector<Array>& x) {
                Array y{x[0].shape, {}};
                y.shape.push_back(5);
                for (int64_t i = 0; i < y.shape.numel(); ++i) {
                  y.v.push_back(x[0].v[size_t(i / 5)] == double(i % 5));
                }
                return y;
              },
          .samples = {{{4}}, {{2, 3}}, {{}}, {{0, 3}}, {{1025}}},
          .domains = {index_domain(4)},
          .dtypes = {kInt64},
          .gives = Gives::kInt64,
          .derivative = Derivative::kNone,
          .refusals = {{"dtype", [](Device d) { return one_hot(ones({2}, {.device = d}), 2); },
                        "one_hot is only applicable to index tensor of type LongTensor"},
                       {"no classes", [](Device d) { return one_hot(longs({0}, d), 0); },
                        "Class values must be smaller than num_classes. num_classes is 0"},
                       {"fewer than none", [](Device d) { return one_hot(longs({0}, d), -2); },
                        "Class values must be smaller than num_classes. num_classes is -2"},
                       {"beyond", [](Device d) { return one_hot(longs({2}, d), 2).cpu(); },
                        "Class values must be", kBeyondOnCuda}}};
}

// --- elements selected by position ---

Row masked_fill_row(double value, Derivative derivative) {
  return {.name = "masked_fill",
          .variant = concat_to_string("value ", value),
          .f = [value](const Tensors& x) { return masked_fill(x[0], x[1], value); },
          .reference =
              [value](const std::vector<Array>& x) {
                return of_pairs([value](double a, double mask) { return mask ? value : a; })(x);
              },
          .samples = {{{3, 5}, {3, 5}},
                      {{3, 5}, {5}},
                      {{5}, {2, 3, 5}},
                      {{2, 1, 3}, {4, 1}},
                      {{}, {3}},
                      {{0, 3}, {3}},
                      {{1025}, {1025}}},
          .domains = {Domain(), index_domain(1, kBool)},
          .dtypes = std::isinf(value) ? floating() : numbers(),
          .derivative = derivative,
          .refusals = {{"mask dtype",
                        [](Device d) {
                          return masked_fill(ones({2}, {.device = d}), longs({0, 1}, d), 0);
                        },
                        "masked_fill_ only supports boolean masks, but got mask with dtype "},
                       {"shapes",
                        [](Device d) {
                          const Tensor mask = ones({3}, {.dtype = kBool, .device = d});
                          return masked_fill(ones({2}, {.device = d}), mask, 0);
                        },
                        "The size of tensor a (3) must match the size of tensor b (2)"}}};
}

Row band_row(const std::string& name, bool lower, int64_t diagonal) {
  const auto op = lower ? tril : triu;
  return {
      .name = name,
      .variant = concat_to_string("diagonal ", diagonal),
      .f = [op, diagonal](const Tensors& x) { return op(x[0], diagonal); },
      .reference =
          [lower, diagonal](const std::vector<Array>& x) {
            Array y = x[0];
            for (size_t i = 0; i < y.v.size(); ++i) {
              const Shape at = index_of(y.shape, int64_t(i));
              const int64_t right = at.back() - at[at.size() - 2] - diagonal;
              if (lower ? right > 0 : right < 0) y.v[i] = 0;
            }
            return y;
          },
      .samples = {{{3, 3}}, {{4, 2}}, {{2, 3, 5}}, {{1, 1}}, {{2, 0, 3}}, {{33, 40}}, {{2, 5, 48}}},
      .dtypes = everything(),
      .refusals = {{"vector", [op](Device d) { return op(ones({3}, {.device = d}), 0); },
                    concat_to_string(name, ": input tensor must have at least 2 dimensions")}}};
}

Row flip_row(const Shape& dims, std::vector<std::vector<Shape>> samples) {
  return {.name = "flip",
          .variant = concat_to_string("dims ", dims),
          .f = [dims](const Tensors& x) { return flip(x[0], dims); },
          .reference =
              [dims](const std::vector<Array>& x) {
                return gathered(x[0], x[0].shape, [&](Shape at) {
                  for (const int64_t dim : dims) {
                    const int d = wrap_dim(dim, at.size());
                    if (at.size() > 0) at[d] = x[0].shape[d] - 1 - at[d];
                  }
                  return at;
                });
              },
          .samples = std::move(samples),
          .dtypes = everything(),
          .refusals = {{"twice",
                        [](Device d) {
                          return flip(ones({2, 3}, {.device = d}), {0, -2});
                        },
                        "dim 0 appears multiple times in the list of dims"},
                       {"dim", [](Device d) { return flip(ones({2}, {.device = d}), {1}); },
                        "Dimension out of range (expected to be in range of [-1, 0], but got 1)"}}};
}

Row pad_row(const std::vector<int64_t>& padding, double value,
            std::vector<std::vector<Shape>> samples) {
  std::string variant;
  for (const int64_t n : padding) variant += concat_to_string(n, " ");
  return {.name = "pad",
          .variant = concat_to_string(variant, "with ", value),
          .f = [padding, value](const Tensors& x) { return pad(x[0], padding, value); },
          .reference =
              [padding, value](const std::vector<Array>& x) {
                Array y{x[0].shape, {}};
                const int dims = y.shape.size();
                Shape before = y.shape;
                std::fill(before.begin(), before.end(), 0);
                for (size_t i = 0; i < padding.size(); i += 2) {
                  const int d = dims - 1 - int(i / 2);
                  y.shape[d] += padding[i] + padding[i + 1];
                  before[d] = padding[i];
                }
                for (int64_t i = 0; i < y.shape.numel(); ++i) {
                  Shape at = index_of(y.shape, i);
                  bool inside = true;
                  for (int d = 0; d < dims; ++d) {
                    at[d] -= before[d];
                    inside = inside && at[d] >= 0 && at[d] < x[0].shape[d];
                  }
                  y.v.push_back(inside ? x[0].v[size_t(flat_index(x[0].shape, at))] : value);
                }
                return y;
              },
          .samples = std::move(samples),
          .dtypes = numbers()};
}

std::vector<Refusal> pad_refusals() {
  const auto with = [](std::vector<int64_t> padding) {
    return [padding](Device d) { return pad(ones({2, 3}, {.device = d}), padding); };
  };
  return {{"odd", with({1}), "Padding length must be divisible by 2"},
          {"long", with({1, 1, 1, 1, 1, 1}),
           "Padding length should be less than or equal to two times the input dimension but got "
           "padding length 6 and input of dimension 2"},
          {"crop", with({-2, -2}), "narrow(): length must be non-negative."}};
}

// --- along a dimension ---

// Applies f to each slice of x along dim.
Array along(const Array& x, int64_t dim, const std::function<Line(const Line&)>& f) {
  const int d = wrap_dim(dim, x.shape.size());
  const int64_t n = x.shape.size() == 0 ? 1 : x.shape[d];
  int64_t inner = 1;
  for (int i = d + 1; i < x.shape.size(); ++i) inner *= x.shape[i];
  if (x.v.empty()) return x;
  const int64_t lines = int64_t(x.v.size()) / n, count = int64_t(f(Line(size_t(n))).size());
  Array y{x.shape, Line(size_t(lines * count))};
  if (x.shape.size() > 0) y.shape[d] = count;
  for (int64_t l = 0; l < lines; ++l) {
    Line line;
    for (int64_t j = 0; j < n; ++j)
      line.push_back(x.v[size_t((l / inner * n + j) * inner + l % inner)]);
    const Line out = f(line);
    for (int64_t j = 0; j < count; ++j) {
      y.v[size_t((l / inner * count + j) * inner + l % inner)] = out[size_t(j)];
    }
  }
  return y;
}

Line order_of(const Line& x, bool descending) {
  Line order(x.size());
  std::iota(order.begin(), order.end(), 0.0);
  std::stable_sort(order.begin(), order.end(), [&](double i, double j) {
    const double a = x[size_t(descending ? j : i)], b = x[size_t(descending ? i : j)];
    return std::isnan(b) ? !std::isnan(a) : a < b;
  });
  return order;
}

enum class Part { kValues, kIndices };

// The first k elements in sorted order (k = 0: all), as values or as indices.
Row sorted_row(const std::string& name, const std::string& variant, Part part, int64_t k,
               int64_t dim, bool descending, std::function<Tensor(const Tensor&)> f) {
  const bool values = part == Part::kValues;
  Row row = {.name = name,
             .variant = variant,
             .f = [f](const Tensors& x) { return f(x[0]); },
             .reference =
                 [=](const std::vector<Array>& x) {
                   return along(x[0], dim, [&](const Line& line) {
                     Line out = order_of(line, descending);
                     if (k > 0) out.resize(size_t(k));
                     for (double& place : out) place = values ? line[size_t(place)] : place;
                     return out;
                   });
                 },
             .samples = {{{3, 5}}, {{2, 3, 4}}, {{3, 1025, 2}}, {{1, 2}}},
             .dtypes = everything(),
             .gives = values ? Gives::kSame : Gives::kInt64,
             .derivative = values ? Derivative::kSecond : Derivative::kNone,
             .specials = dim == -1};
  if (k == 0) row.samples.insert(row.samples.end(), {{{}}, {{3, 1}}, {{0, 3}}});
  if (dim == -1) row.samples.insert(row.samples.end(), {{{7}}, {{2100}}});
  // Blocks with few and with many elements per thread, and slices longer than any block.
  if (name == "argsort" && dim == -1)
    row.samples.insert(row.samples.end(), {{{3, 200}}, {{2, 4100}}});
  return row;
}

std::vector<Row> sorted_rows() {
  std::vector<Row> rows;
  for (const int64_t dim : {-1, 0, 1}) {
    for (const bool down : {false, true}) {
      const std::string variant = concat_to_string("dim ", dim, down ? " down" : " up");
      const auto add = [&](const char* name, const std::string& what, Part part, int64_t k,
                           std::function<Tensor(const Tensor&)> f) {
        rows.push_back(sorted_row(name, variant + what, part, k, dim, down, std::move(f)));
        if (dim != 1) return;
        std::erase_if(rows.back().samples, [](const auto& s) { return s[0].size() < 2; });
      };
      add("sort", " values", Part::kValues, 0,
          [=](const Tensor& x) { return sort(x, dim, down).values; });
      add("sort", " indices", Part::kIndices, 0,
          [=](const Tensor& x) { return sort(x, dim, down).indices; });
      add("argsort", "", Part::kIndices, 0, [=](const Tensor& x) { return argsort(x, dim, down); });
      const int64_t k = dim == 0 ? 1 : 2;
      add("topk", " values", Part::kValues, k,
          [=](const Tensor& x) { return topk(x, k, dim, down).values; });
      add("topk", " indices", Part::kIndices, k,
          [=](const Tensor& x) { return topk(x, k, dim, down).indices; });
    }
  }
  rows[0].refusals = {{"dim", [](Device d) { return sort(ones({2}, {.device = d}), 1).values; },
                       "Dimension out of range (expected to be in range of [-1, 0], but got 1)"},
                      {"k",
                       [](Device d) {
                         return topk(ones({2, 3}, {.device = d}), 4).values;
                       },
                       "selected index k out of range"}};
  return rows;
}

Row cumsum_row(int64_t dim, std::vector<std::vector<Shape>> samples) {
  return {.name = "cumsum",
          .variant = concat_to_string("dim ", dim),
          .f = [dim](const Tensors& x) { return cumsum(x[0], dim); },
          .reference =
              [dim](const std::vector<Array>& x) {
                return along(x[0], dim, [](const Line& line) {
                  Line sums(line.size());
                  std::partial_sum(line.begin(), line.end(), sums.begin());
                  return sums;
                });
              },
          .samples = std::move(samples),
          .dtypes = everything(),
          .gives = Gives::kWide,
          .tolerance = {.float32 = 2e-5},
          .refusals = {{"dim", [](Device d) { return cumsum(ones({2}, {.device = d}), 1); },
                        "Dimension out of range (expected to be in range of [-1, 0], but got 1)"}}};
}

Row logcumsumexp_row(int64_t dim, std::vector<std::vector<Shape>> samples) {
  return {.name = "logcumsumexp",
          .variant = concat_to_string("dim ", dim),
          .f = [dim](const Tensors& x) { return logcumsumexp(x[0], dim); },
          .reference =
              [dim](const std::vector<Array>& x) {
                return along(x[0], dim, [](const Line& line) {
                  Line y;
                  double most = -kInf, sum = 0;  // sum of exp(x - most)
                  for (const double v : line) {
                    const double peak = std::max(most, v);
                    sum = sum * std::exp(most - peak) + std::exp(v - peak);
                    most = peak;
                    y.push_back(most + std::log(sum));
                  }
                  return y;
                });
              },
          .samples = std::move(samples),
          .dtypes = floating(),
          .tolerance = {.float32 = 1e-5, .float16 = 4e-3, .bfloat16 = 3e-2, .gradient = 40},
          .refusals = {{"dim", [](Device d) { return logcumsumexp(ones({2}, {.device = d}), 1); },
                        "Dimension out of range (expected to be in range of [-1, 0], but got 1)"},
                       {"integers",
                        [](Device d) {
                          return logcumsumexp(longs({1, 2}, d), 0);
                        },
                        "\"logcumsumexp_out_cpu\" not implemented for 'Long'"}}};
}

// Terms far below the largest are not lost, infinities are taken as they are, and elements of -inf
// get no gradient.
TEST(Index, LogcumsumexpOfExtremes) {
  for (const Device device : all_devices()) {
    const auto of = [&](const TensorData& x) {
      return tensor(x, {.dtype = kFloat64, .device = device}).requires_grad_();
    };
    const Tensor far = of({-900, -901, 900, 0});
    const Tensor y = logcumsumexp(far, 0);
    const double two = -900 + std::log1p(std::exp(-1.0));
    EXPECT_TRUE(close(y, {4}, {-900, two, 900, 900}, 1e-12));
    const double share = 1 / (1 + std::exp(-1.0));
    EXPECT_TRUE(close(grad({y[1]}, {far})[0], {4}, {share, 1 - share, 0, 0}, 1e-12));

    const Tensor low = of({-kInf, -kInf, 0, 0});
    const Tensor sums = logcumsumexp(low, 0);
    EXPECT_TRUE(close(sums, {4}, {-kInf, -kInf, 0, std::log(2)}, 1e-12));
    EXPECT_TRUE(close(grad({sum(sums)}, {low})[0], {4}, {0, 0, 1.5, 0.5}, 1e-12));
    EXPECT_TRUE(
        close(logcumsumexp(of({0, kInf, 1, NAN, 0}), 0), {5}, {0, kInf, kInf, NAN, NAN}, 0));
  }
}

Row diff_row(int64_t n, int64_t dim, std::vector<std::vector<Shape>> samples) {
  return {.name = "diff",
          .variant = concat_to_string(n, " times, dim ", dim),
          .f = [=](const Tensors& x) { return diff(x[0], n, dim); },
          .reference =
              [=](const std::vector<Array>& x) {
                const int d = wrap_dim(dim, x[0].shape.size());
                Array y = x[0];
                for (int64_t i = 0; i < std::min(n, x[0].shape[d]); ++i) {
                  Shape shape = y.shape;
                  shape[d] -= 1;
                  const auto from = [&](int64_t offset) {
                    return gathered(y, shape, [=](Shape at) {
                      at[d] += offset;
                      return at;
                    });
                  };
                  y = of_pairs([](double a, double b) { return a - b; })({from(1), from(0)});
                }
                return y;
              },
          .samples = std::move(samples),
          .domains = {{-2, 2, 0.25}},
          .dtypes = numbers(),
          .tolerance = {.float16 = 8e-3, .bfloat16 = 6e-2}};
}

std::vector<Row> diff_rows() {
  std::vector<Row> rows = {
      diff_row(1, -1, {{{5}}, {{2, 3}}, {{3, 1}}, {{0, 3}}, {{3, 0}}, {{2, 1025}}}),
      diff_row(2, 0, {{{5}}, {{4, 3}}, {{1, 3}}, {{2}}}), diff_row(0, 0, {{{5}}, {{4, 3}}}),
      diff_row(9, 0, {{{5}}})};
  Row joined = diff_row(1, 0, {{{5}, {2}, {1}}, {{4, 3}, {1, 3}, {0, 3}}});
  joined.variant = "prepend, append";
  joined.f = [](const Tensors& x) { return diff(x[0], 1, 0, x[1], x[2]); };
  joined.reference = [plain = joined.reference](const std::vector<Array>& x) {
    Array whole = x[1];
    for (const Array* part : {&x[0], &x[2]}) {
      whole.v.insert(whole.v.end(), part->v.begin(), part->v.end());
      whole.shape[0] += part->shape[0];
    }
    return plain({whole});
  };
  Row flips = diff_row(1, 0, {{{5}}, {{4, 3}}});
  flips.variant = "bool";
  flips.reference = [plain = flips.reference](const std::vector<Array>& x) {
    Array y = plain(x);
    for (double& v : y.v) v = v != 0;
    return y;
  };
  flips.dtypes = {kBool};
  flips.derivative = Derivative::kNone;
  const auto of = [](Shape x, int64_t n, int64_t dim, Shape prepend = {}) {
    return [=](Device d) {
      return diff(ones(x, {.device = d}), n, dim,
                  prepend.empty() ? Tensor() : ones(prepend, {.device = d}));
    };
  };
  rows[0].refusals = {
      {"0-dim", of({}, 1, 0), "diff expects input to be at least one-dimensional"},
      {"negative order", of({2}, -1, 0), "order must be non-negative but got -1"},
      {"dim", of({2}, 1, 1), "Dimension out of range"},
      {"dimensions", of({2}, 1, 0, {1, 1}),
       "diff expects prepend or append to be the same dimension as input"},
      {"sizes", of({2, 3}, 1, 1, {3, 1}),
       "diff expects the shape of tensor to prepend or append to match that of input except along "
       "the differencing dimension; input.size(0) = 2, but got tensor.size(0) = 3"}};
  rows.push_back(joined);
  rows.push_back(flips);
  return rows;
}

TEST(Index, MovesAnIndexFromTheCpuAndRefusesTheReverse) {
  if (skip_without_cuda()) return;
  const Device gpu(DeviceType::kCuda, 0);
  EXPECT_TRUE(refuses<Error>([&] { return ones({2})[longs({0}, gpu)]; },
                             "indices should be either on cpu or on the same device as the "
                             "indexed tensor (cpu)"));
}

}  // namespace

std::vector<Row> index_rows() {
  std::vector<Row> rows = {
      embedding_row(kInt64),
      embedding_row(kInt32),
      index_row("vector", {2, 0, -1, 2, -3}, false),
      index_row("matrix from the CPU", {{1, -1}, {0, 0}}, true),
      index_row("one", -2, false),
      index_select_row(
          0, {{{5, 3}, {7}}, {{6}, {2}}, {{5, 2, 3}, {0}}, {{5, 0}, {2}}, {{5, 2, 20}, {9}}}),
      index_select_row(1, {{{3, 5}, {7}}, {{2, 5, 3}, {4}}, {{0, 5}, {2}}, {{3, 5, 1}, {1030}}}),
      index_select_row(-1, {{{3, 5}, {7}}, {{2, 3, 6}, {4}}, {{5}, {3}}}),
      gather_row(0, 4, {{{5, 3}, {2, 3}}, {{6, 2, 3}, {7, 2, 2}}, {{5}, {9}}, {{5, 3}, {0, 3}}}),
      gather_row(-1, 4, {{{3, 5}, {3, 7}}, {{2, 3, 5}, {1, 3, 2}}, {{2, 1025}, {2, 1100}}}),
      gather_row(0, 0, {{{}, {}}, {{1}, {}}, {{}, {3}}, {{1}, {1}}}),
      scatter_add_row(0, 4,
                      {{{5, 3}, {2, 3}, {2, 3}}, {{6, 3}, {7, 2}, {8, 3}}, {{5}, {40}, {40}}}),
      scatter_add_row(1, 4,
                      {{{3, 5}, {2, 4}, {3, 4}},
                       {{2, 5, 3}, {2, 3, 2}, {2, 3, 2}},
                       {{3, 5}, {0, 5}, {3, 5}},
                       {{3, 300}, {3, 1100}, {3, 1100}}}),
      scatter_add_row(0, 0, {{{}, {}, {}}, {{1}, {}, {1}}, {{}, {3}, {3}}}),
      one_hot_row(),
      one_hot_of_data_row(),
      masked_fill_row(2, Derivative::kSecond),
      masked_fill_row(-kInf, Derivative::kNone),
      flip_row({0}, {{{5}}, {{3, 2}}, {{}}, {{1, 3}}, {{0, 2}}, {{1025}}}),
      flip_row({-1, 0}, {{{3, 2}}, {{2, 3, 4}}, {{1, 1}}}),
      flip_row({1}, {{{2, 3, 4}}, {{2, 5}}}),
      flip_row({}, {{{2, 3}}, {{}}}),
      pad_row({1, 2}, 0, {{{3}}, {{2, 3}}, {{2, 0}}, {{1030}}}),
      pad_row({1, 0, 2, 1}, 2, {{{2, 3}}, {{2, 1, 3}}, {{2, 2, 2, 3}}}),
      pad_row({-1, 2, 0, -1}, 1, {{{2, 3}}, {{3, 2, 4}}, {{1, 3}}}),
      pad_row({}, 1, {{{2, 3}}, {{}}}),
      cumsum_row(0, {{{5}}, {{3, 4}}, {{}}, {{0, 3}}, {{3, 0}}, {{1, 3}}, {{300, 4}}}),
      cumsum_row(-1, {{{3, 5}}, {{2, 3, 4}}, {{3, 1}}, {{2, 1100}}}),
      cumsum_row(1, {{{3, 5}}, {{2, 3, 4}}})};
  for (const int64_t diagonal : {0, 1, -2}) {
    rows.push_back(band_row("tril", true, diagonal));
    rows.push_back(band_row("triu", false, diagonal));
  }
  const auto refuse = [&](const char* name, std::vector<Refusal> refusals) {
    const auto row =
        std::find_if(rows.begin(), rows.end(), [&](const Row& r) { return r.name == name; });
    row->refusals = std::move(refusals);
  };
  refuse("index", index_refusals());
  refuse("gather", gather_refusals());
  refuse("scatter_add", scatter_add_refusals());
  refuse("pad", pad_refusals());
  for (Row& row : sorted_rows()) rows.push_back(std::move(row));
  for (Row& row : diff_rows()) rows.push_back(std::move(row));
  rows.push_back(
      logcumsumexp_row(0, {{{5}}, {{3, 4}}, {{}}, {{0, 3}}, {{3, 0}}, {{1, 3}}, {{300, 4}}}));
  rows.push_back(logcumsumexp_row(-1, {{{3, 5}}, {{2, 3, 4}}, {{3, 1}}, {{2, 1100}}}));
  return rows;
}

}  // namespace taper::v0::test
