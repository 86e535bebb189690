#include "data/transform.h"

#include <algorithm>
#include <cmath>

#include "framework/error.h"

namespace taper::inline v0::data {

Standardizer fit_standardizer(std::span<const float> matrix, int64_t columns) {
  if (columns <= 0 || matrix.empty() || std::ssize(matrix) % columns != 0) {
    throw ValueError(
        cat("fit_standardizer: ", matrix.size(), " values are no rows of ", columns, " columns"));
  }
  const auto width = static_cast<size_t>(columns);
  Standardizer out;
  for (size_t j = 0; j < width; ++j) {
    double mean = 0, square = 0, count = 0;
    for (size_t i = j; i < matrix.size(); i += width) {
      if (std::isnan(matrix[i])) continue;
      mean += matrix[i];
      ++count;
    }
    mean /= std::max(count, 1.0);
    for (size_t i = j; i < matrix.size(); i += width) {
      if (!std::isnan(matrix[i])) square += (matrix[i] - mean) * (matrix[i] - mean);
    }
    const auto std = static_cast<float>(std::sqrt(square / std::max(count, 1.0)));
    out.mean.push_back(static_cast<float>(mean));
    out.std.push_back(std == 0 ? 1 : std);
  }
  out.fill = out.mean;
  return out;
}

void standardize(std::span<float> matrix, const Standardizer& standardizer) {
  const size_t width = standardizer.mean.size();
  if (width == 0 || matrix.size() % width != 0) {
    throw ValueError(
        cat("standardize: ", matrix.size(), " values are no rows of ", width, " columns"));
  }
  for (size_t i = 0; i < matrix.size(); ++i) {
    const size_t j = i % width;
    const double x = std::isnan(matrix[i]) ? standardizer.fill[j] : matrix[i];
    matrix[i] = static_cast<float>((x - standardizer.mean[j]) / standardizer.std[j]);
  }
}

}  // namespace taper::inline v0::data
