#include "data/dataset.h"

#include <cstring>
#include <span>

#include "autograd/ops/binary.h"
#include "autograd/ops/index.h"
#include "data/loader.h"
#include "framework/factories.h"

namespace taper::inline v0::data {
namespace {

// Rows may overlap, as the windows of a text do.
Tensor rows_of(const Tensor& x, std::span<const int64_t> rows, bool pinned) {
  if (!x.defined()) return {};
  Shape shape = x.shape();
  shape[0] = std::ssize(rows);
  const size_t bytes = size_t(shape.numel()) * x.element_size();
  const Tensor out =
      pinned ? Tensor::make(allocate_pinned(bytes), shape, contiguous_strides(shape), 0, x.dtype())
             : Tensor::make(shape, x.dtype(), Device());
  const char* from = static_cast<const char*>(x.data_ptr());
  char* to = static_cast<char*>(out.data_ptr());
  for (const int64_t row : rows) {
    if (row < 0 || row >= x.size(0)) throw IndexError(cat("no row ", row, " of ", x.size(0)));
    std::memcpy(to, from + row * x.stride(0) * int64_t(x.element_size()), bytes / rows.size());
    to += bytes / rows.size();
  }
  return out;
}

}  // namespace

Tensor SequentialSampler::order(int64_t, Device device) const {
  const Tensor numbers = arange(size_, {.dtype = kInt64, .device = device});
  return step_ == 1 ? numbers : numbers * step_;
}

Tensor RandomSampler::order(int64_t epoch, Device device) const {
  // Draws of their own, one for each epoch, far from the streams that init and dropout take in
  // turn.
  constexpr uint64_t kOrderStreams = uint64_t(1) << 62;
  Generator generator;
  generator.set_state({seed_, kOrderStreams + uint64_t(epoch)});
  const TensorOptions here = {.dtype = kInt64, .device = device};
  if (replaced_ > 0) return randint(0, rows_, {replaced_}, here, &generator);
  return randperm(rows_, here, &generator);
}

std::unique_ptr<Sampler> Dataset::sampler(const DataLoaderOptions& options, uint64_t seed) const {
  if (options.shuffle) return std::make_unique<RandomSampler>(size(), seed);
  return std::make_unique<SequentialSampler>(size());
}

std::vector<std::string> TensorDataset::fields() const {
  if (all_.targets.defined()) return {"inputs", "targets"};
  return {"inputs"};
}

Batch TensorDataset::get(const Tensor& rows, bool pinned) const {
  const auto [inputs, targets] = all_;
  if (inputs.is_cpu()) {
    const std::span<const int64_t> names = rows.span<int64_t>();
    return {rows_of(inputs, names, pinned), rows_of(targets, names, pinned)};
  }
  return {embedding(inputs, rows), targets.defined() ? embedding(targets, rows) : Tensor()};
}

DatasetPtr TensorDataset::to(Device device) const {
  const auto [inputs, targets] = all_;
  return std::make_shared<TensorDataset>(
      Batch{inputs.to(device), targets.defined() ? targets.to(device) : Tensor()});
}

size_t TensorDataset::nbytes() const {
  return all_.inputs.nbytes() + (all_.targets.defined() ? all_.targets.nbytes() : 0);
}

Batch WindowDataset::get(const Tensor& rows, bool pinned) const {
  if (tokens_.is_cpu()) {
    const auto from = [&](int64_t first) {
      const Tensor windows = view_as(tokens_, {places(), block_}, {1, 1}, first);
      return rows_of(windows, rows.span<int64_t>(), pinned);
    };
    return {from(0), from(1)};
  }
  const Tensor at = rows.unsqueeze(1) + arange(block_, {.device = rows.device()});
  return {embedding(tokens_, at), embedding(tokens_, at + 1)};
}

std::unique_ptr<Sampler> WindowDataset::sampler(const DataLoaderOptions& o, uint64_t seed) const {
  if (!o.shuffle) return std::make_unique<SequentialSampler>(size(), block_);
  const int64_t batches = o.batches > 0 ? o.batches : std::max<int64_t>(size() / o.batch_size, 1);
  return std::make_unique<RandomSampler>(places(), seed, batches * o.batch_size);
}

DatasetPtr WindowDataset::to(Device device) const {
  return std::make_shared<WindowDataset>(tokens_.to(device), block_);
}

}  // namespace taper::inline v0::data
