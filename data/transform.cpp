#include "data/transform.h"

#include <algorithm>
#include <cmath>

#include "framework/philox.h"

namespace taper::inline v0::data {
namespace {

constexpr uint64_t kTransformStreams = uint64_t(3) << 61;  // far from all others
constexpr uint64_t kMostDraws = uint64_t(1) << 20;         // of a sample in an epoch

}  // namespace

Draws::Draws(uint64_t seed, int64_t epoch, std::vector<int64_t> samples, Device device)
    : seed_(seed),
      stream_(kTransformStreams + uint64_t(epoch)),
      samples_(std::move(samples)),
      device_(device) {}

Tensor Draws::uniform(int64_t count, double low, double high) {
  if (count < 0 || drawn_ + uint64_t(count) > kMostDraws) {
    throw ValueError(cat("Draws::uniform: ", count, " more numbers after ", drawn_, "; there are ",
                         kMostDraws, " for each sample"));
  }
  const Shape shape{size(), count};
  const size_t bytes = sizeof(float) * size_t(shape.numel());
  const Tensor out = Tensor::make(device_.is_cuda() ? allocate_pinned(bytes) : allocate(bytes, {}),
                                  shape, contiguous_strides(shape), 0, kFloat32);
  float* to = out.data<float>();
  for (const int64_t sample : samples_) {
    for (uint64_t i = 0; i < uint64_t(count); ++i) {
      const uint64_t at = uint64_t(sample) * kMostDraws + drawn_ + i;
      const uint32_t word = philox({seed_, stream_}, at / 4).word[at % 4];
      *to++ = float(low + (high - low) * double(uniform_float(word)));
    }
  }
  drawn_ += uint64_t(count);
  return out.to(device_, {.non_blocking = true});
}

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
