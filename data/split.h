// Parts of data sets, and concatenation (torch.utils.data: Subset, ConcatDataset, random_split).
// All throw ValueError for a null set.
#pragma once

#include <cstdint>
#include <vector>

#include "data/dataset.h"

namespace taper::v0::data {

// The samples of a set that `rows` selects, in the order of `rows`.
class Subset : public Dataset {
 public:
  // rows: [n] int64. Throws IndexError if one is out of range.
  Subset(DatasetPtr set, const Tensor& rows);
  Subset(DatasetPtr set, const std::vector<int64_t>& rows);

  int64_t size() const override { return rows_.size(0); }
  Batch get(const Tensor& rows, bool pinned = false) const override;
  std::vector<std::string> fields() const override { return set_->fields(); }
  Device device() const override { return set_->device(); }
  DatasetPtr to(Device device) const override;
  size_t nbytes() const override { return set_->nbytes(); }

  const Tensor& rows() const { return rows_; }  // on the device of the set

 private:
  DatasetPtr set_;
  Tensor rows_;
};

// Concatenates data sets on the CPU. Throws ValueError if there are none.
class ConcatDataset : public Dataset {
 public:
  explicit ConcatDataset(std::vector<DatasetPtr> sets);

  int64_t size() const override { return ends_.back(); }
  Batch get(const Tensor& rows, bool pinned = false) const override;
  std::vector<std::string> fields() const override { return sets_[0]->fields(); }

 private:
  std::vector<DatasetPtr> sets_;
  std::vector<int64_t> ends_;  // for each set, the number of samples in it and in those before it
};

// Splits a set at random into parts. The numbers are the lengths of the parts, which sum to the
// size of the set, or their fractions, which sum to 1. Samples left over by rounding down are given
// to the parts in turn. If the targets [n] (classes, int64) are given, each part has the same share
// of every class, up to one or two samples. The result is a function of the seed. Throws ValueError
// for other sums, or targets of another size.
std::vector<DatasetPtr> random_split(const DatasetPtr& set, const std::vector<double>& lengths,
                                     uint64_t seed = 0, const Tensor& stratify = {});

// Divides the numbers from 0 to count - 1 in the same way, into parts of these lengths, each
// sorted. A part of length 0 is empty and does not change the others. classes: [count], or empty.
std::vector<std::vector<int64_t>> divide_rows(int64_t count, const std::vector<double>& lengths,
                                              const std::vector<int64_t>& classes, uint64_t seed);

}  // namespace taper::v0::data
