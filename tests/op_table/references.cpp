// Double-precision references and inputs that rows are built from.
#include <algorithm>
#include <cmath>
#include <functional>
#include <random>

#include "framework/factory/factories.h"
#include "tests/op_table/op_table.h"
#include "tests/testing.h"

namespace taper::v0::test {
namespace {

// Returns the index into an operand for an index into the broadcast result.
Shape clipped(const Shape& at, const Shape& shape) {
  Shape out = shape;
  for (int d = 0; d < shape.size(); ++d) {
    out[d] = shape[d] == 1 ? 0 : at[at.size() - shape.size() + d];
  }
  return out;
}

// Moves x if it is within 0.01 of a multiple of 0.5, where many functions have a kink.
double off_kinks(double x) {
  const double nearest = std::round(x * 2) / 2;
  return std::abs(x - nearest) < 0.01 ? nearest + 0.02 : x;
}

double value_for(DType dtype, double x) {
  if (is_floating_point(dtype)) return x;
  const double whole = std::round(x);
  if (dtype == kBool) return whole != 0;
  return dtype == kUInt8 ? std::abs(whole) : whole;
}

}  // namespace

double Tolerance::of(DType t) const {
  if (t == kFloat64) return float64;
  if (t == kFloat16) return float16;
  if (t == kBFloat16) return bfloat16;
  return t == kFloat32 ? float32 : 0;
}

const Domain& Row::domain(size_t argument) const {
  return domains[std::min(argument, domains.size() - 1)];
}

std::vector<DType> floating() { return {kFloat32, kFloat64, kFloat16, kBFloat16}; }
std::vector<DType> numbers() {
  return {kFloat32, kFloat64, kFloat16, kBFloat16, kInt64, kInt32, kInt16, kInt8, kUInt8};
}
std::vector<DType> everything() { return {std::begin(kAllDTypes), std::end(kAllDTypes)}; }

int64_t flat_index(const Shape& shape, const Shape& at) {
  int64_t flat = 0;
  for (int d = 0; d < shape.size(); ++d) flat = flat * shape[d] + at[d];
  return flat;
}

Shape index_of(const Shape& shape, int64_t flat) {
  Shape at = shape;
  for (int d = shape.size() - 1; d >= 0; --d) {
    at[d] = flat % shape[d];
    flat /= shape[d];
  }
  return at;
}

Reference of_each(std::function<double(double)> f) {
  return [f](const std::vector<Array>& x) {
    Array y = x[0];
    for (double& v : y.v) v = f(v);
    return y;
  };
}

Reference of_pairs(std::function<double(double, double)> f) {
  return [f](const std::vector<Array>& x) {
    Array y{broadcast_shapes(x[0].shape, x[1].shape), {}};
    for (int64_t i = 0; i < y.shape.numel(); ++i) {
      const Shape at = index_of(y.shape, i);
      const auto operand = [&](const Array& a) {
        return a.v[size_t(flat_index(a.shape, clipped(at, a.shape)))];
      };
      y.v.push_back(f(operand(x[0]), operand(x[1])));
    }
    return y;
  };
}

Reference of_triples(std::function<double(double, double, double)> f) {
  return [f](const std::vector<Array>& x) {
    // Broadcasts each argument to the common shape, then goes element by element.
    const Reference spread = of_pairs([](double, double b) { return b; });
    const Shape shape = broadcast_shapes(broadcast_shapes(x[0].shape, x[1].shape), x[2].shape);
    const Array all{shape, std::vector<double>(size_t(shape.numel()))};
    const Array a = spread({all, x[0]}), b = spread({all, x[1]});
    Array y = spread({all, x[2]});
    for (size_t i = 0; i < y.v.size(); ++i) y.v[i] = f(a.v[i], b.v[i], y.v[i]);
    return y;
  };
}

Array reduced(const Array& x, Shape dims, bool keepdim,
              const std::function<double(const std::vector<double>&)>& f) {
  std::vector<bool> gone(size_t(x.shape.size()), dims.empty());
  for (const int64_t d : dims) {
    if (x.shape.size() > 0) gone[size_t(wrap_dim(d, x.shape.size()))] = true;
  }
  Shape kept = x.shape, result;
  for (int d = 0; d < x.shape.size(); ++d) {
    if (gone[size_t(d)]) kept[d] = 1;
    if (!gone[size_t(d)] || keepdim) result.push_back(kept[d]);
  }
  std::vector<std::vector<double>> slices(size_t(kept.numel()));
  for (size_t i = 0; i < x.v.size(); ++i) {
    const Shape at = clipped(index_of(x.shape, int64_t(i)), kept);
    slices[size_t(flat_index(kept, at))].push_back(x.v[i]);
  }
  Array y{result, {}};
  for (const auto& slice : slices) y.v.push_back(f(slice));
  return y;
}

Array gathered(const Array& x, const Shape& shape,
               const std::function<Shape(const Shape&)>& source) {
  Array y{shape, {}};
  for (int64_t i = 0; i < shape.numel(); ++i) {
    y.v.push_back(x.v[size_t(flat_index(x.shape, source(index_of(shape, i))))]);
  }
  return y;
}

Array matrix_product(const Array& a, const Array& b) {
  if (a.shape.size() == 1) {
    Array row{a.shape, a.v};
    row.shape.insert(0, 1);
    Array y = matrix_product(row, b);
    y.shape.erase(b.shape.size() == 1 ? 0 : y.shape.size() - 2);
    return y;
  }
  if (b.shape.size() == 1) {
    Array column{b.shape, b.v};
    column.shape.push_back(1);
    Array y = matrix_product(a, column);
    y.shape.erase(y.shape.size() - 1);
    return y;
  }
  const int64_t n = a.shape[a.shape.size() - 2], k = a.shape.back(), m = b.shape.back();
  const Shape batch_a(a.shape.begin(), a.shape.end() - 2),
      batch_b(b.shape.begin(), b.shape.end() - 2);
  const Shape batch = broadcast_shapes(batch_a, batch_b);
  Array y{batch, {}};
  y.shape.push_back(n);
  y.shape.push_back(m);
  for (int64_t s = 0; s < batch.numel(); ++s) {
    const Shape at = index_of(batch, s);
    const double* x = a.v.data() + flat_index(batch_a, clipped(at, batch_a)) * n * k;
    const double* z = b.v.data() + flat_index(batch_b, clipped(at, batch_b)) * k * m;
    for (int64_t i = 0; i < n * m; ++i) {
      double sum = 0;
      for (int64_t j = 0; j < k; ++j) sum += x[i / m * k + j] * z[j * m + i % m];
      y.v.push_back(sum);
    }
  }
  return y;
}

Tensor filled(const Shape& shape, const Domain& domain, uint64_t seed, DType dtype, Device device) {
  std::mt19937_64 random(seed);
  std::vector<double> values;
  for (int64_t i = 0; i < shape.numel(); ++i) {
    const double u = double(random() >> 11) * 0x1p-53;
    const double x = domain.low + (domain.high - domain.low) * u;
    const double placed =
        domain.step > 0 ? std::round(x / domain.step) * domain.step : off_kinks(x);
    values.push_back(value_for(dtype, placed));
  }
  return tensor_of(values.data(), shape, {.dtype = dtype, .device = device});
}

Tensors arguments(const Row& row, size_t sample, DType dtype, Device device) {
  Tensors out;
  for (const Shape& shape : row.samples[sample]) {
    const size_t i = out.size();
    const Domain& domain = row.domain(i);
    out.push_back(
        filled(shape, domain, 1 + 100 * sample + i, domain.dtype.value_or(dtype), device));
  }
  return out;
}

Array array_of(const Tensor& x) { return {x.shape(), values_of(x)}; }

const std::vector<Row>& all_rows() {
  static const std::vector<Row> rows = [] {
    std::vector<Row> all;
    for (const auto& family :
         {unary_rows(),    binary_rows(),        reduce_rows(),    matmul_rows(), shape_rows(),
          softmax_rows(),  loss_rows(),          distance_rows(),  random_rows(), index_rows(),
          indexing_rows(), norm_rows(),          conv_rows(),      pool_rows(),   volume_rows(),
          image_rows(),    embedding_bag_rows(), attention_rows(), rnn_rows(),    order_rows(),
          arrange_rows(),  linalg_rows()}) {
      all.insert(all.end(), family.begin(), family.end());
    }
    return all;
  }();
  return rows;
}

Array normalised(const Array& x, int64_t dim, bool log) {
  const Array peak = reduced(x, {dim}, true, [](const std::vector<double>& s) {
    return *std::max_element(s.begin(), s.end());
  });
  const Reference minus = of_pairs([](double a, double b) { return a - b; });
  const Array shifted = minus({x, peak});
  const Array lse = reduced(shifted, {dim}, true, [](const std::vector<double>& s) {
    double sum = 0;
    for (const double v : s) sum += std::exp(v);
    return std::log(sum);
  });
  Array y = minus({shifted, lse});
  for (double& v : y.v) v = log ? v : std::exp(v);
  return y;
}

}  // namespace taper::v0::test
