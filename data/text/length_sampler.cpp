#include "data/text/length_sampler.h"

#include <algorithm>
#include <utility>

#include "autograd/ops/random_ops.h"
#include "framework/factory/factories.h"

namespace taper::v0::data {

LengthGroupedSampler::LengthGroupedSampler(std::vector<int64_t> lengths, int64_t batch_size,
                                           uint64_t seed)
    : lengths_(std::move(lengths)), batch_size_(batch_size), seed_(seed) {
  require<ValueError>(batch_size >= 1,
                      "LengthGroupedSampler: expected a batch_size of at least 1, ", "got ",
                      batch_size);
}

std::vector<int64_t> LengthGroupedSampler::rows_of(int64_t epoch) const {
  constexpr int64_t kMostBatches = 50, kLeastGroups = 4;
  Generator generator = draws_of(seed_, epoch);
  const TensorOptions here = {.dtype = kInt64};
  std::vector<int64_t> rows = randperm(size(), here, &generator).to_vector<int64_t>();
  const int64_t batches = size() / batch_size_;
  const int64_t in_group = std::min(kMostBatches, batches / kLeastGroups);
  if (in_group < 2) return rows;
  for (int64_t first = 0; first < batches; first += in_group) {
    const auto begin = rows.begin() + first * batch_size_;
    const auto end = rows.begin() + std::min(first + in_group, batches) * batch_size_;
    std::stable_sort(begin, end, [&](int64_t a, int64_t b) {
      return lengths_[size_t(a)] < lengths_[size_t(b)];
    });
  }
  std::vector<int64_t> out;
  for (const int64_t batch : randperm(batches, here, &generator).to_vector<int64_t>()) {
    const auto begin = rows.begin() + batch * batch_size_;
    out.insert(out.end(), begin, begin + batch_size_);
  }
  out.insert(out.end(), rows.begin() + batches * batch_size_, rows.end());
  return out;
}

Tensor LengthGroupedSampler::order(int64_t epoch, Device device) const {
  const std::vector<int64_t> rows = rows_of(epoch);
  return tensor_of(rows.data(), {std::ssize(rows)}).to(device);
}

std::vector<int64_t> LengthGroupedSampler::batch_lengths(int64_t epoch, int64_t batch_size) const {
  std::vector<int64_t> out;
  int64_t count = 0;
  for (const int64_t row : rows_of(epoch)) {
    if (count++ % batch_size == 0) out.push_back(0);
    out.back() = std::max(out.back(), lengths_[size_t(row)]);
  }
  return out;
}

}  // namespace taper::v0::data
