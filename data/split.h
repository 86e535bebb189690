// Parts of data sets, and several as one (torch.utils.data: Subset, ConcatDataset, random_split).
// ValueError: a set is null.
#pragma once

#include <cstdint>
#include <vector>

#include "data/dataset.h"

namespace taper::v0::data {

// The samples of a set that `rows` name, in their order.
class Subset : public Dataset {
 public:
  // rows [n] int64. IndexError: one is out of range.
  Subset(DatasetPtr set, const Tensor& rows);
  Subset(DatasetPtr set, const std::vector<int64_t>& rows);

  int64_t size() const override { return rows_.size(0); }
  Batch get(const Tensor& rows, bool pinned = false) const override;
  std::vector<std::string> fields() const override { return set_->fields(); }
  Device device() const override { return set_->device(); }
  DatasetPtr to(Device device) const override;
  size_t nbytes() const override { return set_->nbytes(); }

  const Tensor& rows() const { return rows_; }  // where the set lies

 private:
  DatasetPtr set_;
  Tensor rows_;
};

// Sets one behind the other, on the CPU. ValueError: none.
class ConcatDataset : public Dataset {
 public:
  explicit ConcatDataset(std::vector<DatasetPtr> sets);

  int64_t size() const override { return ends_.back(); }
  Batch get(const Tensor& rows, bool pinned = false) const override;
  std::vector<std::string> fields() const override { return sets_[0]->fields(); }

 private:
  std::vector<DatasetPtr> sets_;
  std::vector<int64_t> ends_;  // of each set: the samples of it and those before it
};

// A set cut at random into parts of these lengths, whose sum is its size; or into these fractions
// of it, whose sum is 1: what rounding down leaves goes to the parts in turn. With targets [n]
// (classes, int64) each part has the same share of every class, but for one sample or two. A
// function of the seed. ValueError: other sums, or targets of another size.
std::vector<DatasetPtr> random_split(const DatasetPtr& set, const std::vector<double>& lengths,
                                     uint64_t seed = 0, const Tensor& stratify = {});

}  // namespace taper::v0::data
