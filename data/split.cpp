#include "data/split.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <numeric>

#include "autograd/ops/index/index_ops.h"
#include "autograd/ops/shape_ops.h"
#include "framework/factory/factories.h"

namespace taper::v0::data {
namespace {

const Dataset& given(const DatasetPtr& set) {
  require<ValueError>(set != nullptr, "expected a data set, got nullptr");
  return *set;
}

void require_rows(std::span<const int64_t> rows, int64_t size) {
  for (const int64_t row : rows) {
    if (row < 0 || row >= size) throw IndexError("no sample ", row, " of ", size);
  }
}

std::vector<int64_t> counts_of(const std::vector<double>& lengths, int64_t size) {
  const double sum = std::accumulate(lengths.begin(), lengths.end(), 0.0);
  const bool is_fractions = std::abs(sum - 1) < 1e-9 && (size != 1 || lengths.size() > 1);
  std::vector<int64_t> out;
  for (const double length : lengths) {
    require<ValueError>(
        length >= 0 && (is_fractions || length == std::floor(length)),
        "random_split: expected numbers of samples, or fractions with the sum 1, got ",
        length < 0 ? concat_to_string(length) : concat_to_string("the sum ", float(sum)));
    out.push_back(int64_t(is_fractions ? std::floor(double(size) * length) : length));
  }
  int64_t left = size - std::accumulate(out.begin(), out.end(), int64_t(0));
  require<ValueError>(left == 0 || is_fractions,
                      "Sum of input lengths does not equal the length of the input dataset! (",
                      size - left, " and ", size, ")");
  for (size_t i = 0; left > 0; i = (i + 1) % out.size(), --left) ++out[i];
  return out;
}

}  // namespace

Subset::Subset(DatasetPtr set, const Tensor& rows)
    : set_(std::move(set)), rows_(rows.to(given(set_).device())) {
  const Tensor host = rows.cpu();
  require_rows(host.span<int64_t>(), set_->size());
}

Subset::Subset(DatasetPtr set, const std::vector<int64_t>& rows)
    : Subset(std::move(set), tensor_of(rows.data(), {std::ssize(rows)})) {}

Batch Subset::get(const Tensor& rows, bool pinned) const {
  if (rows_.is_cpu()) require_rows(rows.span<int64_t>(), size());
  return set_->get(embedding(rows_, rows), pinned);
}

DatasetPtr Subset::to(Device device) const {
  DatasetPtr moved = set_->to(device);
  return moved ? std::make_shared<Subset>(std::move(moved), rows_) : nullptr;
}

ConcatDataset::ConcatDataset(std::vector<DatasetPtr> sets) : sets_(std::move(sets)) {
  if (sets_.empty()) throw ValueError("datasets should not be an empty iterable");
  int64_t end = 0;
  for (const DatasetPtr& set : sets_) ends_.push_back(end += given(set).size());
}

// Reads the requested rows of each set in one call, and then restores the requested order.
Batch ConcatDataset::get(const Tensor& rows, bool pinned) const {
  const std::span<const int64_t> wanted = rows.span<int64_t>();
  require_rows(wanted, size());
  std::vector<Batch> parts;
  std::vector<int64_t> places(wanted.size());
  int64_t done = 0;
  for (size_t k = 0; k < sets_.size(); ++k) {
    const int64_t begin = k == 0 ? 0 : ends_[k - 1];
    std::vector<int64_t> own;
    for (size_t i = 0; i < wanted.size(); ++i) {
      if (wanted[i] < begin || wanted[i] >= ends_[k]) continue;
      own.push_back(wanted[i] - begin);
      places[i] = done++;
    }
    if (!own.empty()) parts.push_back(sets_[k]->get(tensor_of(own.data(), {std::ssize(own)})));
  }
  if (parts.empty()) return sets_[0]->get(rows, pinned);
  const Batch all = joined(parts, [](const auto& tensors) { return cat(tensors); });
  return TensorDataset(all).get(tensor_of(places.data(), {std::ssize(places)}), pinned);
}

std::vector<DatasetPtr> random_split(const DatasetPtr& set, const std::vector<double>& lengths,
                                     uint64_t seed, const Tensor& stratify) {
  const int64_t size = given(set).size();
  const std::vector<int64_t> counts = counts_of(lengths, size);
  Generator generator(seed);
  std::vector<int64_t> order = randperm(size, {}, &generator).to_vector<int64_t>();
  std::vector<std::vector<int64_t>> parts(counts.size());
  if (!stratify.defined()) {
    auto from = order.begin();
    for (size_t k = 0; k < counts.size(); ++k, from += counts[k - 1]) {
      parts[k].assign(from, from + counts[k]);
    }
  } else {
    require<ValueError>(stratify.shape() == Shape{size}, "random_split: expected ", size,
                        " targets, got the shape ", stratify.shape());
    // Within each class, each sample is assigned to the part that is furthest below its share.
    const std::vector<int64_t> classes = stratify.cpu().to_vector<int64_t>();
    std::ranges::stable_sort(order, {}, [&](int64_t i) { return classes[size_t(i)]; });
    for (int64_t dealt = 0; dealt < size; ++dealt) {
      const auto behind = [&](size_t k) {
        return double(counts[k]) * double(dealt + 1) / double(size) - double(parts[k].size());
      };
      size_t to = 0;
      for (size_t k = 1; k < parts.size(); ++k) to = behind(k) > behind(to) ? k : to;
      parts[to].push_back(order[size_t(dealt)]);
    }
    // Sorted, so that the order within a part is independent of the classes.
    for (std::vector<int64_t>& part : parts) std::ranges::sort(part);
  }
  std::vector<DatasetPtr> out;
  for (const std::vector<int64_t>& part : parts) out.push_back(std::make_shared<Subset>(set, part));
  return out;
}

std::vector<std::vector<int64_t>> divide_rows(int64_t count, const std::vector<double>& lengths,
                                              const std::vector<int64_t>& classes, uint64_t seed) {
  const auto items = std::make_shared<TensorDataset>(Batch{arange(count)});
  const Tensor strata =
      classes.empty() ? Tensor() : tensor_of(classes.data(), {std::ssize(classes)});
  std::vector<double> given;
  for (const double length : lengths) {
    if (length != 0) given.push_back(length);
  }
  const std::vector<DatasetPtr> parts = random_split(items, given, seed, strata);
  std::vector<std::vector<int64_t>> out(lengths.size());
  for (size_t k = 0, next = 0; k < lengths.size(); ++k) {
    if (lengths[k] == 0) continue;
    out[k] = dynamic_cast<const Subset&>(*parts[next++]).rows().to_vector<int64_t>();
    std::ranges::sort(out[k]);
  }
  return out;
}

}  // namespace taper::v0::data
