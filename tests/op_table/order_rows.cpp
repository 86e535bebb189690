#include <algorithm>
#include <cmath>
#include <functional>

#include "autograd/ops/index/order.h"
#include "framework/factory/factories.h"
#include "tests/op_table/op_table.h"

namespace taper::v0::test {
namespace {

using Slice = std::vector<double>;
using Fold = std::function<double(const Slice&)>;
using OfAll = Tensor (*)(const Tensor&);
using AlongOne = Sorted (*)(const Tensor&, IntArg, BoolArg);

double largest(const Slice& s) { return *std::max_element(s.begin(), s.end()); }
double smallest(const Slice& s) { return *std::min_element(s.begin(), s.end()); }
Slice sorted(Slice s) {
  std::sort(s.begin(), s.end());
  return s;
}
double middle(const Slice& s) { return sorted(s)[(s.size() - 1) / 2]; }

// Returns the first position of the element that f returns.
Fold first_place_of(Fold f) {
  return [f](const Slice& s) { return double(std::find(s.begin(), s.end(), f(s)) - s.begin()); };
}
// Returns the position of the median. Equal elements are ordered as by a stable sort.
double place_of_middle(const Slice& s) {
  std::vector<size_t> order(s.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return s[a] < s[b]; });
  return double(order[(s.size() - 1) / 2]);
}

Reference over(const Shape& dims, bool keepdim, const Fold& f) {
  return [=](const std::vector<Array>& x) { return reduced(x[0], dims, keepdim, f); };
}

// Rows for the value of all elements, and for values and indices along dimensions.
void add_rows(std::vector<Row>& rows, const std::string& name, OfAll all, AlongOne along,
              const Fold& value, const Fold& place) {
  rows.push_back({.name = name,
                  .variant = "all",
                  .f = [all](const Tensors& x) { return all(x[0]); },
                  .reference = over({}, false, value),
                  .samples = {{{}}, {{1}}, {{3}}, {{6}}, {{1025}}, {{3, 5, 7}}, {{2, 1, 3}}},
                  .dtypes = everything()});
  for (const int64_t dim : {0, 1, -1}) {
    const bool keepdim = dim == 1;
    Row row{.name = name,
            .variant = concat_to_string("dim ", dim),
            .f = [=](const Tensors& x) { return along(x[0], dim, keepdim).values; },
            .reference = over({dim}, keepdim, value),
            .samples = {{{3, 5, 7}}, {{1, 1, 1}}, {{2, 1, 4}}, {{1, 1025, 1}}, {{65, 3, 33}}},
            .dtypes = everything()};
    row.refusals = {{"dim",
                     [along](Device d) {
                       return along(ones({2, 3}, {.device = d}), 2, false).values;
                     },
                     "Dimension out of range (expected to be in range of [-2, 1], but got 2)"},
                    {"empty",
                     [along](Device d) {
                       return along(empty({2, 0}, {.device = d}), 1, false).values;
                     },
                     name + "(): Expected reduction dim 1 to have non-zero size."}};
    rows.push_back(row);
    // A coarse grid has equal elements.
    row.variant += ", places";
    row.f = [=](const Tensors& x) { return along(x[0], dim, keepdim).indices; };
    row.reference = over({dim}, keepdim, place);
    row.domains = {{-3, 3, 0.5}};
    row.gives = Gives::kInt64;
    row.derivative = Derivative::kNone;
    row.refusals.clear();
    rows.push_back(row);
  }
}

void add_pairs(std::vector<Row>& rows, const std::string& name,
               Tensor (*f)(const Tensor&, const Tensor&), double (*value)(double, double)) {
  rows.push_back({.name = name,
                  .variant = "of two",
                  .f = [f](const Tensors& x) { return f(x[0], x[1]); },
                  .reference = of_pairs(value),
                  .samples = {{{3}, {3}}, {{2, 3}, {3}}, {{1025}, {1025}}, {{0}, {1}}},
                  .dtypes = everything()});
}

double at_rank(const Slice& values, double q, QuantileMode mode) {
  const Slice s = sorted(values);
  const double rank = q * double(s.size() - 1), below = std::floor(rank), above = std::ceil(rank);
  const auto element = [&](double place) { return s[size_t(place)]; };
  switch (mode) {
    case QuantileMode::kLower: return element(below);
    case QuantileMode::kHigher: return element(above);
    case QuantileMode::kNearest: return element(std::nearbyint(rank));
    case QuantileMode::kMidpoint: return (element(below) + element(above)) / 2;
    default: return element(below) + (element(above) - element(below)) * (rank - below);
  }
}

std::vector<Row> quantiles() {
  std::vector<Row> rows;
  const std::pair<const char*, QuantileMode> modes[] = {{"linear", QuantileMode::kLinear},
                                                        {"lower", QuantileMode::kLower},
                                                        {"higher", QuantileMode::kHigher},
                                                        {"midpoint", QuantileMode::kMidpoint},
                                                        {"nearest", QuantileMode::kNearest}};
  for (const auto& [name, mode] : modes) {
    const Fold value = [m = mode](const Slice& s) { return at_rank(s, 0.3, m); };
    Row row{.name = "quantile",
            .variant = name,
            .f = [m = mode](const Tensors& x) { return quantile(x[0], 0.3, {}, false, m); },
            .reference = over({}, false, value),
            .samples = {{{}}, {{1}}, {{6}}, {{2, 3}}, {{1026}}},
            .dtypes = {kFloat32, kFloat64}};
    rows.push_back(row);
    row.variant = concat_to_string(name, ", dim 1, keepdim");
    row.f = [m = mode](const Tensors& x) { return quantile(x[0], 0.3, 1, true, m); };
    row.reference = over({1}, true, value);
    row.samples = {{{3, 5}}, {{2, 6, 3}}, {{1, 1}}};
    rows.push_back(row);
  }
  // The results of several q are stacked in a leading dimension. Also checks the gradient for q,
  // which interpolates between two elements.
  Row several{.name = "quantile",
              .variant = "several, dim -1",
              .f = [](const Tensors& x) { return quantile(x[0], x[1], -1); },
              .reference =
                  [](const std::vector<Array>& x) {
                    Array y{x[1].shape, {}};
                    for (const double q : x[1].v) {
                      const Array one = reduced(x[0], {-1}, false, [q](const Slice& s) {
                        return at_rank(s, q, QuantileMode::kLinear);
                      });
                      y.v.insert(y.v.end(), one.v.begin(), one.v.end());
                    }
                    for (int d = 0; d + 1 < x[0].shape.size(); ++d)
                      y.shape.push_back(x[0].shape[d]);
                    return y;
                  },
              .samples = {{{5}, {2}}, {{3, 7}, {3}}, {{2, 2, 4}, {}}, {{3, 2}, {1}}},
              .domains = {{-2, 2}, {0.55, 0.6}},
              .dtypes = {kFloat32, kFloat64},
              .tolerance = {.float32 = 1e-5}};
  rows.push_back(several);
  const auto of = [](Shape shape, double q, DType dtype) {
    return [=](Device d) { return quantile(ones(shape, {.dtype = dtype, .device = d}), q); };
  };
  const auto with = [](Shape shape, DType dtype) {
    return [=](Device d) {
      return quantile(ones({2}, {.device = d}), full(shape, 0.5, {.dtype = dtype, .device = d}));
    };
  };
  rows[0].refusals = {
      {"range", of({2}, 2, kFloat32), "quantile() q must be in the range [0, 1] but got 2"},
      {"empty", of({2, 0}, 0.5, kFloat32), "quantile() input tensor must be non-empty"},
      {"half", of({2}, 0.5, kFloat16), "quantile() input tensor must be either float or double"},
      {"integers", of({2}, 0.5, kInt64), "quantile() input tensor must be either float or double"},
      {"matrix of q", with({1, 1}, kFloat32), "quantile() q must be a scalar or 1D tensor"},
      {"dtype of q", with({1}, kFloat64),
       "quantile() q tensor must be same dtype as the input tensor"},
      {"values of q on the host",
       [](Device) {
         return quantile(ones({2}), tensor({0.5, 1.5}));
       },
       "quantile() q values must be in the range [0, 1]"}};
  return rows;
}

}  // namespace

std::vector<Row> order_rows() {
  std::vector<Row> rows;
  add_rows(rows, "max", max, max, largest, first_place_of(largest));
  add_rows(rows, "min", min, min, smallest, first_place_of(smallest));
  add_rows(rows, "median", median, median, middle, place_of_middle);
  for (const std::string name : {"max", "min"}) {
    const auto all = std::find_if(rows.begin(), rows.end(), [&](const Row& r) {
      return r.name == name && r.variant == "all";
    });
    const OfAll f = name == "max" ? OfAll(max) : OfAll(min);
    all->refusals = {{"empty", [f](Device d) { return f(empty({0}, {.device = d})); },
                      name + "(): Expected reduction dim to be specified for input.numel() == 0. "
                             "Specify the reduction dim with the 'dim' argument."}};
  }
  add_pairs(rows, "max", max, [](double a, double b) { return std::max(a, b); });
  add_pairs(rows, "min", min, [](double a, double b) { return std::min(a, b); });
  for (Row& row : quantiles()) rows.push_back(std::move(row));
  return rows;
}

}  // namespace taper::v0::test
