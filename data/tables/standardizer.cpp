#include "data/tables/standardizer.h"

#include <algorithm>
#include <cmath>

#include "autograd/ops/binary_ops.h"
#include "autograd/ops/shape_ops.h"
#include "autograd/ops/unary_ops.h"
#include "framework/base/error.h"
#include "framework/factory/factories.h"

namespace taper::v0::data {

Standardizer fit_standardizer(std::span<const double> matrix, int64_t columns) {
  require<ValueError>(columns > 0 && !matrix.empty() && std::ssize(matrix) % columns == 0,
                      "fit_standardizer: ", matrix.size(), " values are no rows of ", columns,
                      " columns");
  const auto width = static_cast<size_t>(columns);
  Standardizer out;
  for (size_t j = 0; j < width; ++j) {
    // The sum is computed from the differences to the first value. This keeps precision if values
    // have a large offset, and makes the standard deviation of a constant column exactly 0.
    double shift = NAN, sum = 0, square = 0, count = 0;
    for (size_t i = j; i < matrix.size(); i += width) {
      if (std::isnan(matrix[i])) continue;
      if (std::isnan(shift)) shift = matrix[i];
      sum += matrix[i] - shift;
      ++count;
    }
    const double mean = count == 0 ? 0 : shift + sum / count;
    for (size_t i = j; i < matrix.size(); i += width) {
      if (!std::isnan(matrix[i])) square += (matrix[i] - mean) * (matrix[i] - mean);
    }
    const double std = std::sqrt(square / std::max(count, 1.0));
    out.add(mean, mean, std == 0 ? 1 : std);
  }
  return out;
}

void standardize(std::span<double> matrix, const Standardizer& standardizer) {
  const size_t width = standardizer.mean.size();
  require<ValueError>(width != 0 && matrix.size() % width == 0, "standardize: ", matrix.size(),
                      " values are no rows of ", width, " columns");
  for (size_t i = 0; i < matrix.size(); ++i) matrix[i] = standardizer(matrix[i], i % width);
}

Tensor standardized(const Tensor& samples, const Standardizer& standardizer) {
  Shape shape = samples.shape();
  shape[0] = 1;
  const auto row = [&](const std::vector<double>& x) {
    return tensor_of(x.data(), shape).to(samples.device());
  };
  const Tensor wide = samples.to(kFloat64);
  const Tensor x = where(isnan(wide), row(standardizer.fill), wide);
  return ((x - row(standardizer.mean)) / row(standardizer.std)).to(kFloat32);
}

bool is_beyond_float32(double mean, double std) { return std::abs(mean) > 4096 * std; }

bool is_beyond_float32(const Standardizer& standardizer) {
  for (size_t j = 0; j < standardizer.mean.size(); ++j) {
    if (is_beyond_float32(standardizer.mean[j], standardizer.std[j])) return true;
  }
  return false;
}

}  // namespace taper::v0::data
