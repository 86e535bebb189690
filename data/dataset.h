// Data sets: samples that are taken in batches, by their numbers.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "data/sampler.h"
#include "framework/tensor/tensor.h"

namespace taper::v0::data {

struct DataLoaderOptions;

// What targets are: classes, numbers, or the tokens that follow (which no table has).
enum class Task { kClassification, kRegression, kLanguage };

// Samples [N, ...] of inputs and targets: float32 images and features, or int64 tokens; int64
// classes [N], float32 values [N], or int64 tokens [N, T] with kIgnoredTarget where a line ended.
struct Batch {
  Tensor inputs{}, targets{};    // targets may be undefined
  std::vector<Tensor> others{};  // what else a sample has: a second image, a length

  // f(x) of each tensor that there is.
  template <class F> Batch map(const F& f) const {
    const auto of = [&](const Tensor& x) { return x.defined() ? f(x) : x; };
    Batch out{of(inputs), of(targets)};
    for (const Tensor& x : others) out.others.push_back(of(x));
    return out;
  }
};

inline constexpr int64_t kIgnoredTarget = -100;  // cross_entropy's ignore_index

// torch.utils.data.Dataset, but that it gives whole batches. Read by several threads at a time.
class Dataset {
 public:
  virtual ~Dataset() = default;

  // Samples of an epoch.
  virtual int64_t size() const = 0;
  // A copy of what rows [B] (int64, on the set's device) name; page-locked when `pinned`, where the
  // set can do that. IndexError for a row out of range (on the GPU: at the next synchronising
  // call).
  virtual Batch get(const Tensor& rows, bool pinned = false) const = 0;

  // What a batch has: "inputs", "targets".
  virtual std::vector<std::string> fields() const { return {"inputs", "targets"}; }
  // How an epoch goes through the samples: each once, in turn or shuffled.
  virtual std::unique_ptr<Sampler> sampler(const DataLoaderOptions& options, uint64_t seed) const;
  virtual Device device() const { return {}; }  // where rows are named, and batches made
  // The whole set there, where it can lie in memory as a whole; else null.
  virtual std::shared_ptr<const Dataset> to(Device) const { return nullptr; }
  // What that takes.
  virtual size_t nbytes() const { return 0; }
};
using DatasetPtr = std::shared_ptr<const Dataset>;

// f of what the batches have at a place, as their inputs: for each place that the first one has.
Batch joined(const std::vector<Batch>& batches,
             const std::function<Tensor(const std::vector<Tensor>&)>& f);

// Samples, whose tensors lack the batch's dimension, as a batch (torch.utils.data.default_collate);
// page-locked when `pinned`. Error: sizes or dtypes differ, with the `numbers` of the samples,
// where they are given.
Batch collate(const std::vector<Batch>& samples, bool pinned = false,
              std::span<const int64_t> numbers = {});

// Within a catch block: rethrows the caught exception, which keeps its type. The message of one of
// Taper's errors gets "sample i: " in front; of a foreign exception a warning names the sample.
[[noreturn]] void rethrow_for_sample(int64_t i);

// A set of single samples, to derive from (torch.utils.data.Dataset). An Error that sample() throws
// gets the sample's number in front.
class MapDataset : public Dataset {
 public:
  // Tensors without the batch's dimension, on the CPU: of a class one without dimensions,
  // `tensor(3)`. Called by several threads at a time.
  virtual Batch sample(int64_t i) const = 0;
  Batch get(const Tensor& rows, bool pinned = false) const final;
};

// The same by a function: FunctionDataset(1000, [](int64_t i) -> Batch { return {x, y}; }).
class FunctionDataset : public MapDataset {
 public:
  FunctionDataset(int64_t size, std::function<Batch(int64_t)> sample)
      : size_(size), sample_(std::move(sample)) {}
  int64_t size() const override { return size_; }
  Batch sample(int64_t i) const override { return sample_(i); }

 private:
  int64_t size_;
  std::function<Batch(int64_t)> sample_;
};

// Rows of tensors of any strides, which are not copied (torch.utils.data.TensorDataset).
class TensorDataset : public Dataset {
 public:
  // Both with N first; without targets a batch has none. Throws ValueError where N differs.
  explicit TensorDataset(Batch all);

  int64_t size() const override { return all_.inputs.size(0); }
  // Wakes no other thread on the CPU.
  Batch get(const Tensor& rows, bool pinned = false) const override;
  std::vector<std::string> fields() const override;
  Device device() const override { return all_.inputs.device(); }
  DatasetPtr to(Device device) const override;
  size_t nbytes() const override;

  const Batch& all() const { return all_; }  // not a copy

 private:
  Batch all_;
};

// Windows of `block` tokens of one long text [N]; their targets are the tokens one further. A row
// is a window's first token, so windows overlap. An epoch has as many as fit side by side, in turn,
// or at random offsets, with replacement as nanoGPT draws them, all batches full. The text may be a
// view, as a split `text.narrow(0, 0, n)` is; it is not copied.
class WindowDataset : public Dataset {
 public:
  // ValueError: tokens that are not [N], or a block below 1.
  WindowDataset(Tensor tokens, int64_t block);

  int64_t size() const override { return (tokens_.size(0) - 1) / block_; }
  // Rows lie in [0, places()).
  int64_t places() const { return tokens_.size(0) - block_; }
  Batch get(const Tensor& rows, bool pinned = false) const override;
  std::unique_ptr<Sampler> sampler(const DataLoaderOptions& options, uint64_t seed) const override;
  Device device() const override { return tokens_.device(); }
  DatasetPtr to(Device device) const override;
  size_t nbytes() const override { return tokens_.nbytes(); }

  const Tensor& tokens() const { return tokens_; }  // [N] int64

 private:
  Tensor tokens_;
  int64_t block_;
};

}  // namespace taper::v0::data
