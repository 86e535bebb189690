// Data sets: samples that are read in batches by their row numbers.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "data/sampler.h"
#include "framework/base/text_enum.h"
#include "framework/tensor/tensor.h"

namespace taper::v0::data {

struct DataLoaderOptions;

// What the targets are: classes, numbers, or the tokens that follow. Tables have no token targets.
struct TaskValues {
  enum class Value : uint8_t { kClassification, kRegression, kLanguage };
  static constexpr Value kClassification = Value::kClassification, kRegression = Value::kRegression,
                         kLanguage = Value::kLanguage;
  static constexpr const char* kOption = "task";
  static constexpr const char* kWords[] = {"classification", "regression", "language"};
};
using Task = TextEnum<TaskValues>;

// Samples [N, ...] with inputs and targets. Inputs are float32 images and features, or int64
// tokens. Targets are int64 classes [N], float32 values [N], or int64 tokens [N, T] with
// kIgnoredTarget after the end of a line.
struct Batch {
  Tensor inputs{}, targets{};    // targets may be undefined
  std::vector<Tensor> others{};  // further tensors of a sample: a second image, a length

  // Applies f to each tensor that is defined.
  template <class F> Batch map(const F& f) const {
    const auto of = [&](const Tensor& x) { return x.defined() ? f(x) : x; };
    Batch out{of(inputs), of(targets)};
    for (const Tensor& x : others) out.others.push_back(of(x));
    return out;
  }
};

inline constexpr int64_t kIgnoredTarget = -100;  // default ignore_index of cross_entropy

// Samples that a data set lacks, because their files are broken or missing.
struct BrokenSamples {
  // Their rows in the set that would have all samples, in rising order.
  std::vector<int64_t> rows{};
  std::string text{};      // how many, and why, for messages; empty if there are none
  bool is_allowed = true;  // not more than the data's options allow
};

// Base class of data sets (torch.utils.data.Dataset). It returns whole batches and is read by
// several threads at a time.
class Dataset {
 public:
  virtual ~Dataset() = default;

  // Returns the number of samples in an epoch.
  virtual int64_t size() const = 0;
  // Returns a copy of the rows [B] (int64, on the set's device). The copy is in page-locked memory
  // if `pinned` is true and the set supports that. Throws IndexError for a row out of range (on the
  // GPU: at the next synchronizing call).
  virtual Batch get(const Tensor& rows, bool pinned = false) const = 0;

  // Returns the names of the tensors in a batch: "inputs", "targets".
  virtual std::vector<std::string> fields() const { return {"inputs", "targets"}; }
  // Returns the default order of an epoch: each sample once, in sequence or shuffled.
  virtual std::unique_ptr<Sampler> sampler(const DataLoaderOptions& options, uint64_t seed) const;
  virtual Device device() const { return {}; }  // device of row numbers and batches
  // Returns a copy of the whole set on that device, or null if it cannot be copied as a whole.
  virtual std::shared_ptr<const Dataset> to(Device) const { return nullptr; }
  // Returns the bytes of memory that the copy made by to() needs.
  virtual size_t nbytes() const { return 0; }
  // Returns the samples that Source::more() left out.
  virtual BrokenSamples broken() const { return {}; }
};
using DatasetPtr = std::shared_ptr<const Dataset>;

// Joins the batches field by field. f joins the tensors of one field.
Batch joined(const std::vector<Batch>& batches,
             const std::function<Tensor(const std::vector<Tensor>&)>& f);

// Joins samples without a batch dimension into a batch (torch.utils.data.default_collate), which is
// in page-locked memory if `pinned`. Throws Error if sizes or dtypes differ. If `numbers` are
// given, the message contains the numbers of the samples.
Batch collate(const std::vector<Batch>& samples, bool pinned = false,
              std::span<const int64_t> numbers = {});

// Rethrows the exception that is being handled, with its type. Call it in a catch block. The
// message of a taper::Error is preceded by "sample i: ". For a foreign exception, logs a warning
// that names the sample.
[[noreturn]] void rethrow_for_sample(int64_t i);

// Base class of data sets that define single samples (torch.utils.data.Dataset). If sample() throws
// an Error, the sample's number is added to the message.
class MapDataset : public Dataset {
 public:
  // Returns tensors without a batch dimension, on the CPU. A class has no dimensions: `tensor(3)`.
  // Called by several threads at a time.
  virtual Batch sample(int64_t i) const = 0;
  Batch get(const Tensor& rows, bool pinned = false) const final;
};

// A data set from a function: FunctionDataset(1000, [](int64_t i) -> Batch { return {x, y}; }).
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

// A data set of the rows of tensors, which are not copied and may have any strides
// (torch.utils.data.TensorDataset).
class TensorDataset : public Dataset {
 public:
  // All tensors begin with dimension N. If `all` has no targets, neither have batches. Throws
  // ValueError if N differs.
  explicit TensorDataset(Batch all);

  int64_t size() const override { return all_.inputs.size(0); }
  // Uses only the calling thread on the CPU.
  Batch get(const Tensor& rows, bool pinned = false) const override;
  std::vector<std::string> fields() const override;
  Device device() const override { return all_.inputs.device(); }
  DatasetPtr to(Device device) const override;
  size_t nbytes() const override;

  const Batch& all() const { return all_; }  // the tensors themselves, not a copy

 private:
  Batch all_;
};

// A data set of windows of `block` tokens in one long text [N]. Targets are the inputs shifted by
// one token. Row i is the window that starts at token i, so windows overlap. An epoch has as many
// windows as fit next to each other. They are read in sequence, or at random offsets with
// replacement as in nanoGPT, where all batches are full. The text is not copied and may be a view,
// such as text.narrow(0, 0, n), or mapped from a file. Batches are int64.
class WindowDataset : public Dataset {
 public:
  // Reads int16 as unsigned. Throws ValueError for tokens that are not integers [N], or block < 1.
  WindowDataset(Tensor tokens, int64_t block);

  int64_t size() const override { return (tokens_.size(0) - 1) / block_; }
  // Row numbers are in [0, places()).
  int64_t places() const { return tokens_.size(0) - block_; }
  Batch get(const Tensor& rows, bool pinned = false) const override;
  std::unique_ptr<Sampler> sampler(const DataLoaderOptions& options, uint64_t seed) const override;
  Device device() const override { return tokens_.device(); }
  DatasetPtr to(Device device) const override;
  size_t nbytes() const override { return tokens_.nbytes(); }

  const Tensor& tokens() const { return tokens_; }  // [N]

 private:
  Tensor tokens_;
  int64_t block_;
};

}  // namespace taper::v0::data
