#include "data/dataset.h"

#include <algorithm>
#include <cstring>
#include <functional>
#include <memory>
#include <typeinfo>

#include "autograd/ops/binary_ops.h"
#include "autograd/ops/index/index_ops.h"
#include "data/loader.h"
#include "framework/base/log.h"
#include "framework/factory/factories.h"

namespace taper::v0::data {
namespace {

// Copies a sample of at least one dimension and any strides (in bytes) to dense row-major memory;
// returns the end of the copy.
template <size_t kWidth>
char* copy_strided(const char* from, std::span<const int64_t> sizes,
                   std::span<const int64_t> strides, char* to) {
  const bool is_innermost = sizes.size() == 1;
  for (int64_t i = 0; i < sizes[0]; ++i, from += strides[0]) {
    if (is_innermost) {
      std::memcpy(to, from, kWidth);
      to += kWidth;
    } else {
      to = copy_strided<kWidth>(from, sizes.subspan(1), strides.subspan(1), to);
    }
  }
  return to;
}

auto copy_strided_of(size_t width) {
  switch (width) {
    case 1: return copy_strided<1>;
    case 2: return copy_strided<2>;
    case 4: return copy_strided<4>;
    default: return copy_strided<8>;
  }
}

// Copies rows of a CPU tensor of any strides and offset into dense memory. Rows may overlap, as the
// windows of a text do. Does not use the thread pool, since workers call it.
Tensor rows_of(const Tensor& x, std::span<const int64_t> rows, bool pinned) {
  const auto width = int64_t(x.element_size());
  Shape shape = x.shape();
  const Shape sample(x.shape().begin() + 1, x.shape().end());
  Shape strides(x.strides().begin() + 1, x.strides().end());
  const bool is_dense = is_contiguous(sample, strides);
  for (int64_t& stride : strides) stride *= width;
  shape[0] = std::ssize(rows);
  const Tensor out = Tensor::make(shape, x.dtype(), Device(), pinned);
  const auto bytes = size_t(sample.numel() * width);
  const auto copy = copy_strided_of(size_t(width));
  const char* from = static_cast<const char*>(x.data_ptr());
  char* to = static_cast<char*>(out.data_ptr());
  for (const int64_t row : rows) {
    if (row < 0 || row >= x.size(0)) throw IndexError("no row ", row, " of ", x.size(0));
    if (bytes == 0) continue;
    const char* first = from + row * x.stride(0) * width;
    if (is_dense) {
      std::memcpy(to, first, bytes);
    } else {
      (void)copy(first, sample, strides, to);
    }
    to += bytes;
  }
  return out;
}

// Stacks tensors as collate() describes.
Tensor stacked(const std::vector<Tensor>& parts, bool pinned, std::span<const int64_t> numbers) {
  const Tensor& first = parts[0];
  Shape shape = first.shape();
  shape.insert(0, std::ssize(parts));
  const Tensor out = Tensor::make(shape, first.dtype(), Device(), pinned);
  char* to = static_cast<char*>(out.data_ptr());
  for (size_t i = 0; i < parts.size(); ++i) {
    const Tensor& x = parts[i];
    if (!x.defined() || x.shape() != first.shape() || x.dtype() != first.dtype()) {
      const auto text = [](const Tensor& t) {
        return t.defined() ? concat_to_string(t.shape(), " of ", t.dtype())
                           : std::string("nothing");
      };
      throw Error("stack expects each tensor to be equal size, but got ", text(first),
                  " at entry 0 and ", text(x), " at entry ", i,
                  numbers.empty()
                      ? ""
                      : concat_to_string(" (samples ", numbers[0], " and ", numbers[i], ")"),
                  "; DataLoaderOptions::collate may join them in another way");
    }
    std::memcpy(to + i * x.nbytes(), x.cpu().contiguous().data_ptr(), x.nbytes());
  }
  return out;
}

// Returns the windows of `block` tokens that begin at `rows` + `shift`, [rows, block] int64. Reads
// through the stride of the tokens. Does not use the thread pool.
template <class T>
Tensor windows_in(const Tensor& tokens, std::span<const int64_t> rows, int64_t block, int64_t shift,
                  bool pinned) {
  const int64_t places = tokens.size(0) - block, stride = tokens.stride(0);
  const Tensor out = Tensor::make({std::ssize(rows), block}, kInt64, Device(), pinned);
  const T* from = static_cast<const T*>(tokens.data_ptr());
  int64_t* to = out.data<int64_t>();
  for (const int64_t row : rows) {
    if (row < 0 || row >= places)
      throw IndexError("no row ", row, " of ", std::max<int64_t>(places, 0));
    const T* at = from + (row + shift) * stride;
    for (int64_t k = 0; k < block; ++k) *to++ = int64_t(at[k * stride]);
  }
  return out;
}

auto windows_of_dtype(DType dtype) {
  switch (dtype) {
    case kUInt8: return windows_in<uint8_t>;
    case kInt8: return windows_in<int8_t>;
    case kInt16: return windows_in<uint16_t>;
    case kInt32: return windows_in<int32_t>;
    default: return windows_in<int64_t>;
  }
}

template <class... Kinds> bool is_exactly_one_of(const Error& error) {
  return ((typeid(error) == typeid(Kinds)) || ...);
}

}  // namespace

std::unique_ptr<Sampler> Dataset::sampler(const DataLoaderOptions& options, uint64_t seed) const {
  if (options.shuffle) return std::make_unique<RandomSampler>(size(), seed);
  return std::make_unique<SequentialSampler>(size());
}

TensorDataset::TensorDataset(Batch all) : all_(std::move(all)) {
  (void)all_.map([&](const Tensor& x) {
    if (x.dim() > 0 && x.size(0) == all_.inputs.size(0)) return x;
    throw ValueError("Size mismatch between tensors: ", x.shape(), " for inputs of ",
                     all_.inputs.shape(), "; all have a row for each sample");
  });
}

std::vector<std::string> TensorDataset::fields() const {
  if (all_.targets.defined()) return {"inputs", "targets"};
  return {"inputs"};
}

Batch TensorDataset::get(const Tensor& rows, bool pinned) const {
  if (all_.inputs.is_cpu()) {
    const Tensor dense = rows.contiguous();
    const std::span<const int64_t> names = dense.span<int64_t>();
    return all_.map([&](const Tensor& x) { return rows_of(x, names, pinned); });
  }
  return all_.map([&](const Tensor& x) { return embedding(x, rows); });
}

DatasetPtr TensorDataset::to(Device device) const {
  return std::make_shared<TensorDataset>(all_.map([&](const Tensor& x) { return x.to(device); }));
}

size_t TensorDataset::nbytes() const {
  size_t out = 0;
  (void)all_.map([&](const Tensor& x) {
    out += x.nbytes();
    return x;
  });
  return out;
}

Batch joined(const std::vector<Batch>& batches,
             const std::function<Tensor(const std::vector<Tensor>&)>& f) {
  const auto at = [&](const auto& place) {
    std::vector<Tensor> tensors;
    for (const Batch& b : batches) tensors.push_back(std::invoke(place, b));
    return tensors[0].defined() ? f(tensors) : Tensor();
  };
  Batch out{at(&Batch::inputs), at(&Batch::targets)};
  for (size_t k = 0; k < batches[0].others.size(); ++k) {
    out.others.push_back(
        at([k](const Batch& b) { return k < b.others.size() ? b.others[k] : Tensor(); }));
  }
  return out;
}

Batch collate(const std::vector<Batch>& samples, bool pinned, std::span<const int64_t> numbers) {
  if (samples.empty()) throw ValueError("collate: no samples");
  return joined(samples, [&](const auto& parts) { return stacked(parts, pinned, numbers); });
}

void rethrow_for_sample(int64_t i) try { throw; } catch (Error& error) {
  // Other errors, such as lack of memory or a signal, are not caused by this sample.
  if (is_exactly_one_of<Error, InputError, IndexError, ValueError, TypeError, DataError>(error)) {
    error.add_prefix(concat_to_string("sample ", i, ": "));
  }
  throw;
} catch (const std::exception& error) {
  warn(concat_to_string("sample ", i, " threw an exception that is not Taper's: ", error.what()));
  throw;
}

Batch MapDataset::get(const Tensor& rows, bool pinned) const {
  const Tensor dense = rows.contiguous();
  const std::span<const int64_t> numbers = dense.span<int64_t>();
  std::vector<Batch> samples;
  for (const int64_t i : numbers) {
    if (i < 0 || i >= size()) throw IndexError("no sample ", i, " of ", size());
    try {
      samples.push_back(sample(i));
    } catch (...) {
      rethrow_for_sample(i);
    }
  }
  return collate(samples, pinned, numbers);
}

WindowDataset::WindowDataset(Tensor tokens, int64_t block)
    : tokens_(std::move(tokens)), block_(block) {
  require<ValueError>(tokens_.dim() == 1, "WindowDataset: expected tokens [N], got the shape ",
                      tokens_.shape());
  const bool are_integers = !tokens_.is_floating_point() && tokens_.dtype() != kBool;
  require<ValueError>(are_integers, "WindowDataset: expected integer tokens, got ",
                      tokens_.dtype());
  require<ValueError>(block_ >= 1, "WindowDataset: expected a block of at least 1 token, got ",
                      block_);
}

Batch WindowDataset::get(const Tensor& rows, bool pinned) const {
  if (tokens_.is_cpu()) {
    const Tensor dense = rows.contiguous();
    const auto read = windows_of_dtype(tokens_.dtype());
    const std::span<const int64_t> firsts = dense.span<int64_t>();
    return {read(tokens_, firsts, block_, 0, pinned), read(tokens_, firsts, block_, 1, pinned)};
  }
  const Tensor at = rows.unsqueeze(1) + arange(block_, {.device = rows.device()});
  const auto widened = [](const Tensor& x) {
    const Tensor out = x.to(kInt64);
    return x.dtype() == kInt16 ? remainder(out, 1 << 16) : out;
  };
  return {widened(embedding(tokens_, at)), widened(embedding(tokens_, at + 1))};
}

std::unique_ptr<Sampler> WindowDataset::sampler(const DataLoaderOptions& o, uint64_t seed) const {
  if (!o.shuffle) return std::make_unique<SequentialSampler>(size(), block_);
  const int64_t batches = o.batches > 0 ? o.batches : std::max<int64_t>(size() / o.batch_size, 1);
  return std::make_unique<RandomSampler>(places(), seed, batches * o.batch_size);
}

DatasetPtr WindowDataset::to(Device device) const {
  return std::make_shared<WindowDataset>(tokens_.to(device), block_);
}

}  // namespace taper::v0::data
