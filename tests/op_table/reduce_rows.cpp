#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <numeric>
#include <tuple>

#include "autograd/ops/binary_ops.h"
#include "autograd/ops/index/index_ops.h"
#include "autograd/ops/reduce_ops.h"
#include "autograd/ops/shape_ops.h"
#include "framework/factory/factories.h"
#include "tests/op_table/op_table.h"

namespace taper::v0::test {
namespace {

using Slice = std::vector<double>;
using Fold = double (*)(const Slice&);

double total(const Slice& s) { return std::accumulate(s.begin(), s.end(), 0.0); }
double average(const Slice& s) { return total(s) / double(s.size()); }
double product(const Slice& s) {
  return std::accumulate(s.begin(), s.end(), 1.0, std::multiplies<>());
}
double largest(const Slice& s) { return *std::max_element(s.begin(), s.end()); }
double smallest(const Slice& s) { return *std::min_element(s.begin(), s.end()); }
double index_of_largest(const Slice& s) {
  return double(std::max_element(s.begin(), s.end()) - s.begin());
}
double index_of_smallest(const Slice& s) {
  return double(std::min_element(s.begin(), s.end()) - s.begin());
}
double every(const Slice& s) {
  return std::all_of(s.begin(), s.end(), [](double x) { return x != 0; });
}
double some(const Slice& s) {
  return std::any_of(s.begin(), s.end(), [](double x) { return x != 0; });
}

// Sums of a thousand numbers: the error grows with the summands, not with their sum.
const Tolerance kSums{.float32 = 2e-5, .float16 = 5e-3, .bfloat16 = 4e-2};

using Samples = std::vector<std::vector<Shape>>;
const Samples kAll = {{{}}, {{1}}, {{3}}, {{17}}, {{1025}}, {{3, 5, 7}}, {{2, 1, 3}}};
// Three dimensions, so that dims 0, 1 and -1 exist.
const Samples kThreeDims = {{{3, 5, 7}},    {{1, 1, 1}},  {{2, 1, 3}},
                            {{1, 1025, 1}}, {{3, 2, 17}}, {{65, 3, 33}}};

Samples with_empty(Samples samples, const Shape& empty) {
  samples.push_back({empty});
  return samples;
}

Refusal dim_refusal(std::function<Tensor(const Tensor&)> f) {
  return {"dim",
          [f](Device d) {
            return f(ones({2, 3}, {.device = d}));
          },
          "Dimension out of range (expected to be in range of [-2, 1], but got 2)"};
}

Row over_all(const std::string& name, Function f, Fold fold, std::vector<DType> dtypes,
             Gives gives) {
  return {
      .name = name,
      .variant = "all",
      .f = std::move(f),
      .reference = [fold](const std::vector<Array>& x) { return reduced(x[0], {}, false, fold); },
      .samples = kAll,
      .dtypes = std::move(dtypes),
      .gives = gives,
      .tolerance = kSums};
}

struct Dims {
  const char* variant;
  Shape dims;
  bool keepdim;
};
const Dims kDims[] = {{"dim 0", {0}, false},
                      {"dim 1, keepdim", {1}, true},
                      {"dim -1", {-1}, false},
                      {"dims 0 and 2", {0, 2}, false},
                      {"dims -1 and 1, keepdim", {-1, 1}, true}};

using OverDims = Tensor (*)(const Tensor&, const Shape&, BoolArg);

std::vector<Row> over_dims(const std::string& name, OverDims f, Fold fold,
                           const std::vector<DType>& dtypes, Gives gives) {
  std::vector<Row> rows;
  for (const Dims& d : kDims) {
    rows.push_back({.name = name,
                    .variant = d.variant,
                    .f = [f, d](const Tensors& x) { return f(x[0], d.dims, d.keepdim); },
                    .reference =
                        [fold, d](const std::vector<Array>& x) {
                          return reduced(x[0], d.dims, d.keepdim, fold);
                        },
                    .samples = kThreeDims,
                    .dtypes = dtypes,
                    .gives = gives,
                    .tolerance = kSums});
  }
  rows[0].refusals.push_back(dim_refusal([f](const Tensor& x) { return f(x, {2}, false); }));
  rows[0].refusals.push_back({"dim twice",
                              [f](Device d) {
                                return f(ones({2, 3}, {.device = d}), {1, -1}, false);
                              },
                              "dim 1 appears multiple times in the list of dims"});
  return rows;
}

using OverOne = Tensor (*)(const Tensor&, IntArg, BoolArg);

std::vector<Row> arg_rows(const std::string& name, OverOne f, Fold fold) {
  std::vector<Row> rows;
  for (const int64_t dim : {0, 1, -1}) {
    const bool keepdim = dim == 1;
    // A coarse grid has equal elements, of which the first must be returned.
    rows.push_back({.name = name,
                    .variant = concat_to_string("dim ", dim),
                    .f = [f, dim, keepdim](const Tensors& x) { return f(x[0], dim, keepdim); },
                    .reference =
                        [fold, dim, keepdim](const std::vector<Array>& x) {
                          return reduced(x[0], {dim}, keepdim, fold);
                        },
                    .samples = kThreeDims,
                    .domains = {{-3, 3, 0.5}},
                    .dtypes = numbers(),
                    .gives = Gives::kInt64,
                    .derivative = Derivative::kNone});
  }
  rows[0].refusals = {dim_refusal([f](const Tensor& x) { return f(x, 2, false); }),
                      {"empty",
                       [f](Device d) {
                         return f(empty({0, 3}, {.device = d}), 0, false);
                       },
                       name + "(): Expected reduction dim 0 to have non-zero size."}};
  return rows;
}

void append(std::vector<Row>& rows, std::vector<Row> more) {
  for (Row& r : more) rows.push_back(std::move(r));
}

std::vector<Row> sums() {
  std::vector<Row> rows = over_dims(
      "sum", [](const Tensor& x, const Shape& d, BoolArg k) { return sum(x, d, k); }, total,
      everything(), Gives::kWide);
  rows[0].samples = with_empty(kThreeDims, {0, 2, 3});
  rows.push_back(over_all(
      "sum", [](const Tensors& x) { return sum(x[0]); }, total, everything(), Gives::kWide));
  rows.back().samples = with_empty(kAll, {2, 0, 3});

  append(rows, over_dims(
                   "mean", [](const Tensor& x, const Shape& d, BoolArg k) { return mean(x, d, k); },
                   average, floating(), Gives::kSame));
  rows.push_back(over_all(
      "mean", [](const Tensors& x) { return mean(x[0]); }, average, floating(), Gives::kSame));
  rows.back().samples = with_empty(kAll, {0});  // the mean of an empty tensor is 0 / 0
  rows.back().refusals.push_back(
      {"integers", [](Device d) { return mean(ones({2}, {.dtype = kInt64, .device = d})); },
       "mean(): could not infer output dtype. Input dtype must be either a floating point or "
       "complex dtype. Got: Long"});

  rows.push_back(over_all(
      "prod", [](const Tensors& x) { return prod(x[0]); }, product, everything(), Gives::kWide));
  rows.back().samples = {{{}}, {{0}}, {{1}}, {{3}}, {{17}}, {{2, 3, 4}}};
  rows.back().domains = {{0.6, 1.4}};
  rows.back().tolerance.gradient = 8;
  return rows;
}

// Some factors are zero, so the gradient cannot be computed as y / x.
Row products_with_zeros() {
  Row r = over_all(
      "prod", [](const Tensors& x) { return prod(x[0]); }, product, floating(), Gives::kSame);
  r.variant = "zeros";
  r.domains = {{-1, 3, 1}};
  r.samples = {{{1}}, {{3}}, {{4}}, {{5}}, {{6}}, {{2, 3}}};
  return r;
}

std::vector<Row> products() {
  std::vector<Row> rows;
  for (const int64_t dim : {0, 1, -1}) {
    const bool keepdim = dim == 1;
    Row r = over_all(
        "prod", [dim, keepdim](const Tensors& x) { return prod(x[0], dim, keepdim); }, product,
        everything(), Gives::kWide);
    r.variant = concat_to_string("dim ", dim);
    r.reference = [dim, keepdim](const std::vector<Array>& x) {
      return reduced(x[0], {dim}, keepdim, product);
    };
    r.samples = {{{3, 5, 7}}, {{1, 1, 1}}, {{2, 1, 3}}, {{3, 2, 17}}, {{2, 3, 2}}, {{2, 0, 3}}};
    r.domains = {{0.6, 1.4}};
    r.tolerance.gradient = 8;
    rows.push_back(r);
    // One, two and more zeros in a slice.
    r.variant += ", zeros";
    r.domains = {{-1, 2, 1}};
    rows.push_back(r);
  }
  rows[0].refusals.push_back(dim_refusal([](const Tensor& x) { return prod(x, 2); }));
  return rows;
}

// The input of any dtype is cast first.
std::vector<Row> in_float64() {
  const auto row = [](const char* name, Function f, Fold fold) {
    Row r = over_all(name, std::move(f), fold, everything(), Gives::kFloat64);
    r.variant = "in float64, dim 1";
    r.reference = [fold](const std::vector<Array>& x) { return reduced(x[0], {1}, false, fold); };
    r.samples = {{{3, 5, 7}}, {{2, 1, 3}}, {{3, 17}}};
    r.domains = {{0.6, 1.4}};
    return r;
  };
  std::vector<Row> rows = {
      row(
          "sum", [](const Tensors& x) { return sum(x[0], {1}, false, kFloat64); }, total),
      row(
          "mean", [](const Tensors& x) { return mean(x[0], {1}, false, kFloat64); }, average),
      row(
          "prod", [](const Tensors& x) { return prod(x[0], 1, false, kFloat64); }, product)};
  rows[1].refusals = {
      {"integers", [](Device d) { return mean(ones({2}, {.device = d}), kInt64); },
       "mean(): could not infer output dtype. Optional dtype must be either a floating point or "
       "complex dtype. Got: Long"}};
  return rows;
}

// --- running products ---

Row cumprod_row(int64_t dim, Samples samples) {
  return {.name = "cumprod",
          .variant = concat_to_string("dim ", dim),
          .f = [dim](const Tensors& x) { return cumprod(x[0], dim); },
          .reference =
              [dim](const std::vector<Array>& x) {
                Array y = x[0];
                if (y.shape.empty()) return y;
                const int d = wrap_dim(dim, y.shape.size());
                for (int64_t i = 0; i < y.shape.numel(); ++i) {
                  Shape before = index_of(y.shape, i);
                  if (before[d]-- == 0) continue;
                  y.v[size_t(i)] *= y.v[size_t(flat_index(y.shape, before))];
                }
                return y;
              },
          .samples = std::move(samples),
          .domains = {{0.6, 1.4}},
          .dtypes = everything(),
          .gives = Gives::kWide,
          .tolerance = {.float32 = 1e-5, .gradient = 16}};
}

std::vector<Row> running_products() {
  std::vector<Row> rows = {
      cumprod_row(0, {{{5}}, {{3, 4}}, {{}}, {{0, 3}}, {{3, 0}}, {{1, 3}}, {{17, 4}}, {{70, 8}}}),
      cumprod_row(-1, {{{3, 5}}, {{2, 3, 4}}, {{3, 1}}, {{2, 33}}}),
      cumprod_row(1, {{{3, 5}}, {{2, 6, 4}}})};
  Row zeros = cumprod_row(1, {{{3, 5}}, {{2, 7, 2}}, {{4, 2}}});
  zeros.variant += ", zeros";
  zeros.domains = {{-1, 2, 1}};
  rows.push_back(zeros);
  Row in_double = cumprod_row(1, {{{3, 5}}, {{2, 1, 3}}});
  in_double.variant += ", in float64";
  in_double.f = [](const Tensors& x) { return cumprod(x[0], 1, kFloat64); };
  in_double.gives = Gives::kFloat64;
  rows.push_back(in_double);
  // Long rows are multiplied in pieces, which are then combined.
  Row ones_and_minus_ones = cumprod_row(-1, {{{2, 1100}}, {{3000}}});
  ones_and_minus_ones.variant = "long rows of 1 and -1";
  ones_and_minus_ones.f = [](const Tensors& x) { return cumprod(where(x[0] > 0, x[0], -1), -1); };
  ones_and_minus_ones.reference = [one = rows[1].reference](std::vector<Array> x) {
    for (double& v : x[0].v) v = v > 0 ? v : -1;
    return one(x);
  };
  ones_and_minus_ones.domains = {{0, 1, 1}};
  ones_and_minus_ones.dtypes = {kFloat32, kFloat64, kInt64};
  ones_and_minus_ones.derivative = Derivative::kNone;
  rows.push_back(ones_and_minus_ones);
  rows[0].refusals = {dim_refusal([](const Tensor& x) { return cumprod(x, 2); })};
  return rows;
}

// --- deviations, norms, logarithms of sums ---

double squares_apart(const Slice& s) {
  double sum = 0;
  for (const double x : s) sum += (x - average(s)) * (x - average(s));
  return sum;
}
double variance(const Slice& s) { return squares_apart(s) / std::max(double(s.size()) - 1, 0.0); }
double deviation(const Slice& s) { return std::sqrt(variance(s)); }
double log_of_sum(const Slice& s) {
  double sum = 0;
  for (const double x : s) sum += std::exp(x);
  return std::log(sum);
}

// Every slice has at least two elements. The mean of two or three equal ones is exact.
const Samples kWide = {{{3, 5, 7}}, {{2, 3, 4}}, {{3, 2, 17}}, {{2, 65, 33}}};

std::vector<Row> spreads() {
  std::vector<Row> rows = over_dims(
      "var", [](const Tensor& x, const Shape& d, BoolArg k) { return var(x, d, 1, k); }, variance,
      floating(), Gives::kSame);
  append(rows,
         over_dims(
             "std", [](const Tensor& x, const Shape& d, BoolArg k) { return std(x, d, 1, k); },
             deviation, floating(), Gives::kSame));
  for (Row& r : rows) r.samples = kWide;
  const auto over = [&](const char* variant, Function f, Fold fold) {
    rows.push_back(over_all("var", std::move(f), fold, floating(), Gives::kSame));
    rows.back().variant = variant;
    return &rows.back();
  };
  over(
      "all", [](const Tensors& x) { return var(x[0]); }, variance)
      ->samples = {{{3}}, {{17}}, {{1025}}, {{2, 3, 4}}};
  over(
      "uncorrected", [](const Tensors& x) { return var(x[0], {}, 0); },
      [](const Slice& s) { return squares_apart(s) / double(s.size()); })
      ->samples = {{{3}}, {{17}}, {{2, 3, 4}}};
  Row* nothing_left = over(
      "nothing left", [](const Tensors& x) { return var(x[0]); }, variance);
  nothing_left->samples = {{{}}, {{1}}, {{0}}};
  Row* far = over(
      "far from 0", [](const Tensors& x) { return var(x[0]); }, variance);
  far->samples = {{{1025}}, {{17}}};
  far->domains = {{1e4, 1e4 + 1}};
  nothing_left->derivative = far->derivative = Derivative::kNone;
  rows[0].refusals.push_back(
      {"integers", [](Device d) { return var(ones({2}, {.dtype = kInt64, .device = d})); },
       "std and var only support floating point and complex dtypes"});
  rows.push_back(over_all(
      "std", [](const Tensors& x) { return taper::std(x[0]); }, deviation, floating(),
      Gives::kSame));
  rows.back().samples = {{{3}}, {{17}}, {{2, 3, 4}}};
  for (const bool root : {false, true}) {
    Row both = over_all(
        root ? "std_mean" : "var_mean",
        [root](const Tensors& x) {
          if (root) {
            const auto [spread, centre] = std_mean(x[0], {1}, 0, true);
            return cat({spread, centre}, 1);
          }
          const auto [spread, centre] = var_mean(x[0], {1}, 0, true);
          return cat({spread, centre}, 1);
        },
        total, floating(), Gives::kSame);
    both.variant = "dim 1, keepdim";
    both.reference = [root](const std::vector<Array>& x) {
      const Array centre = reduced(x[0], {1}, true, average);
      const Array spread = reduced(x[0], {1}, true, [root](const Slice& s) {
        const double v = squares_apart(s) / double(s.size());
        return root ? std::sqrt(v) : v;
      });
      Array y{{centre.shape[0], 2}, {}};
      for (size_t i = 0; i < centre.v.size(); ++i) {
        y.v.insert(y.v.end(), {spread.v[i], centre.v[i]});
      }
      return y;
    };
    both.samples = {{{3, 5}}, {{2, 3}}, {{17, 4}}};
    rows.push_back(both);
  }
  return rows;
}

// The norms of the differences of rows.
std::vector<Row> distances() {
  const double inf = std::numeric_limits<double>::infinity();
  std::vector<Row> rows;
  for (const double p : {2.0, 1.0, 3.0, 0.5, inf, 0.0}) {
    const auto distance = [p](const Slice& a) {
      double sum = 0, most = 0;
      for (const double v : a) {
        sum += p == 0 ? double(v != 0) : std::pow(std::abs(v), p);
        most = std::max(most, std::abs(v));
      }
      return std::isinf(p) ? most : p == 0 ? sum : std::pow(sum, 1 / p);
    };
    Row r{.name = "cdist",
          .variant = concat_to_string("p ", p),
          .f = [p](const Tensors& x) { return cdist(x[0], x[1], p); },
          .reference =
              [distance](const std::vector<Array>& x) {
                Array a = x[0], b = x[1];
                a.shape.insert(a.shape.size() - 1, 1);
                b.shape.insert(b.shape.size() - 2, 1);
                const Reference apart = of_pairs([](double u, double v) { return u - v; });
                return reduced(apart({a, b}), {-1}, false, distance);
              },
          .samples = {{{3, 2}, {4, 2}},
                      {{2, 3, 2}, {2, 2, 2}},
                      {{2, 1, 2, 2}, {3, 4, 2}},
                      {{0, 3}, {2, 3}},
                      {{2, 0}, {3, 0}},
                      {{17, 5}, {33, 5}}},
          .dtypes = floating(),
          .tolerance = kSums};
    if (p == 0) r.derivative = Derivative::kNone;
    rows.push_back(r);
  }
  const auto of = [](Shape a, Shape b, DType dtype, double p) {
    return [=](Device d) {
      return cdist(ones(a, {.dtype = dtype, .device = d}), ones(b, {.dtype = dtype, .device = d}),
                   p);
    };
  };
  rows[0].refusals = {
      {"columns", of({2, 3}, {3, 4}, kFloat32, 2),
       "X1 and X2 must have the same number of columns. X1: 3 X2: 4"},
      {"rank", of({3}, {2, 3}, kFloat32, 2), "cdist only supports at least 2D tensors, X1 got: 1D"},
      {"rank of the second", of({2, 3}, {3}, kFloat32, 2),
       "cdist only supports at least 2D tensors, X2 got: 1D"},
      {"p", of({2, 3}, {2, 3}, kFloat32, -1), "cdist only supports non-negative p values"},
      {"integers", of({2, 3}, {2, 3}, kInt64, 2),
       "cdist only supports floating-point dtypes, X1 got: Long"},
      {"batches", of({5, 2, 3}, {4, 2, 3}, kFloat32, 2),
       "The size of tensor a (5) must match the size of tensor b (4) at non-singleton dimension "
       "0"}};
  return rows;
}

std::vector<Row> norms() {
  const double inf = std::numeric_limits<double>::infinity();
  std::vector<Row> rows;
  for (const double p : {2.0, 1.0, 3.0, 1.5, 2.3, inf, -inf, 0.0}) {
    const auto fold = [p](const Slice& s) {
      double sum = 0, most = 0, least = INFINITY;
      for (const double x : s) {
        sum += p == 0 ? double(x != 0) : std::pow(std::abs(x), p);
        most = std::max(most, std::abs(x));
        least = std::min(least, std::abs(x));
      }
      return std::isinf(p) ? (p > 0 ? most : least) : p == 0 ? sum : std::pow(sum, 1 / p);
    };
    Row r{
        .name = "norm",
        .variant = concat_to_string("p ", p),
        .f = [p](const Tensors& x) { return norm(x[0], p); },
        .reference = [fold](const std::vector<Array>& x) { return reduced(x[0], {}, false, fold); },
        .samples = {{{}}, {{3}}, {{17}}, {{1025}}, {{3, 5, 7}}},
        .dtypes = floating(),
        .tolerance = kSums};
    if (p == 0) r.derivative = Derivative::kNone;
    rows.push_back(r);
    r.variant += ", dims 0 and 2, keepdim";
    r.f = [p](const Tensors& x) { return norm(x[0], p, {0, -1}, true); };
    r.reference = [fold](const std::vector<Array>& x) { return reduced(x[0], {0, 2}, true, fold); };
    r.samples = {{{3, 5, 7}}, {{2, 3, 4}}, {{1, 1, 1}}};
    rows.push_back(r);
    r.variant = concat_to_string("p ", p, ", dim 0");
    r.f = [p](const Tensors& x) { return norm(x[0], p, {0}); };
    r.reference = [fold](const std::vector<Array>& x) { return reduced(x[0], {0}, false, fold); };
    r.samples = {{{5, 8}}, {{130, 3}}, {{1, 4}}};
    rows.push_back(r);
  }
  rows[0].refusals.push_back(
      {"integers", [](Device d) { return norm(ones({2}, {.dtype = kInt64, .device = d})); },
       "linalg.vector_norm: Expected a floating point or complex tensor as input. Got Long"});
  rows[0].refusals.push_back(
      {"integer dtype",
       [](Device d) { return norm(ones({2}, {.device = d}), 2, {}, false, kInt64); },
       "linalg.vector_norm: dtype should be floating point or complex, but got Long"});
  rows[0].refusals.push_back(
      {"narrower dtype",
       [](Device d) {
         return norm(ones({2}, {.dtype = kFloat64, .device = d}), 2, {}, false, kFloat32);
       },
       "linalg.vector_norm: the dtype of the input (Double) should be convertible without "
       "narrowing to the specified dtype (Float)"});
  rows.push_back(rows[0]);
  rows.back().variant = "p 2, in float64";
  rows.back().f = [](const Tensors& x) { return norm(x[0], 2, {}, false, kFloat64); };
  rows.back().gives = Gives::kFloat64;
  rows.back().refusals.clear();
  return rows;
}

std::vector<Row> sums_of_exponentials() {
  std::vector<Row> rows =
      over_dims("logsumexp", logsumexp, log_of_sum, everything(), Gives::kFloating);
  for (Row& r : rows) r.domains = {{-6, 6}};
  rows[0].samples.push_back({{0, 2, 3}});
  return rows;
}

std::vector<Row> places_in_all() {
  std::vector<Row> rows;
  for (const auto& [name, fn, fold] : {std::tuple<const char*, Tensor (*)(const Tensor&), Fold>(
                                           "argmax", argmax, index_of_largest),
                                       {"argmin", argmin, index_of_smallest}}) {
    rows.push_back(over_all(
        name, [f = fn](const Tensors& x) { return f(x[0]); }, fold, numbers(), Gives::kInt64));
    rows.back().domains = {{-3, 3, 0.5}};
    rows.back().derivative = Derivative::kNone;
    rows.back().refusals.push_back(
        {"empty", [f = fn](Device d) { return f(empty({0}, {.device = d})); },
         concat_to_string(name,
                          "(): Expected reduction dim to be specified for input.numel() == 0.")});
  }
  return rows;
}

std::vector<Row> extremes() {
  std::vector<Row> rows = over_dims("amax", amax, largest, numbers(), Gives::kSame);
  append(rows, over_dims("amin", amin, smallest, numbers(), Gives::kSame));
  for (const auto& [name, fn, fold] :
       {std::tuple("amax", &amax, &largest), std::tuple("amin", &amin, &smallest)}) {
    rows.push_back(over_all(
        name, [f = fn](const Tensors& x) { return f(x[0], {}, false); }, fold, numbers(),
        Gives::kSame));
    rows.back().refusals.push_back(
        {"empty", [f = fn](Device d) { return f(empty({0}, {.device = d}), {}, false); },
         concat_to_string(
             name,
             "(): Expected reduction dim to be specified for input.numel() == 0. Specify the "
             "reduction dim with the 'dim' argument.")});
    rows.back().refusals.push_back(
        {"empty dim",
         [f = fn](Device d) {
           return f(empty({2, 0}, {.device = d}), {1}, false);
         },
         concat_to_string(name, "(): Expected reduction dim 1 to have non-zero size.")});
  }
  return rows;
}

std::vector<Row> truths() {
  std::vector<Row> rows = over_dims("all", all, every, everything(), Gives::kBoolean);
  append(rows, over_dims("any", any, some, everything(), Gives::kBoolean));
  rows.push_back(over_all(
      "all", [](const Tensors& x) { return all(x[0]); }, every, everything(), Gives::kBoolean));
  rows.push_back(over_all(
      "any", [](const Tensors& x) { return any(x[0]); }, some, everything(), Gives::kBoolean));
  for (Row& r : rows) {
    r.derivative = Derivative::kNone;
    r.domains = {{0, r.name == "all" ? 4.0 : 0.6, 1}};
    r.samples = with_empty(r.samples, {2, 0, 3});
  }
  return rows;
}

}  // namespace

std::vector<Row> reduce_rows() {
  std::vector<Row> rows = sums();
  rows.push_back(products_with_zeros());
  append(rows, products());
  append(rows, in_float64());
  append(rows, running_products());
  append(rows, extremes());
  append(rows, spreads());
  append(rows, norms());
  append(rows, distances());
  append(rows, sums_of_exponentials());
  append(rows, places_in_all());
  append(rows, arg_rows("argmax", argmax, index_of_largest));
  append(rows, arg_rows("argmin", argmin, index_of_smallest));
  append(rows, truths());
  return rows;
}

}  // namespace taper::v0::test
