// The order in which an epoch takes samples (torch.utils.data.Sampler).
#pragma once

#include "framework/tensor.h"

namespace taper::data {

class Sampler {
 public:
  virtual ~Sampler() = default;
  // Samples of an epoch.
  virtual int64_t size() const = 0;
  // Their rows (int64, on the device): a function of the sampler and the epoch alone.
  virtual Tensor order(int64_t epoch, Device device) const = 0;
};

// Rows 0, step, 2 step, ...
class SequentialSampler : public Sampler {
 public:
  explicit SequentialSampler(int64_t size, int64_t step = 1) : size_(size), step_(step) {}
  int64_t size() const override { return size_; }
  Tensor order(int64_t epoch, Device device) const override;

 private:
  int64_t size_, step_;
};

// Each of `rows` once, in another order every epoch; or so many of them, with replacement.
class RandomSampler : public Sampler {
 public:
  RandomSampler(int64_t rows, uint64_t seed, int64_t with_replacement = 0)
      : rows_(rows), replaced_(with_replacement), seed_(seed) {}
  int64_t size() const override { return replaced_ > 0 ? replaced_ : rows_; }
  Tensor order(int64_t epoch, Device device) const override;

 private:
  int64_t rows_, replaced_;
  uint64_t seed_;
};

}  // namespace taper::data
