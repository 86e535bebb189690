// A network for the rows of a table: embeddings of the categories next to the numbers, and a
// multilayer perceptron (https://arxiv.org/abs/1604.06737).
#pragma once

#include <vector>

#include "modules/layers/containers.h"
#include "modules/layers/linear.h"

namespace taper::v0 {

struct TabularNetOptions {
  int64_t num_numbers;                    // features that are real numbers; they come first
  std::vector<int64_t> category_sizes{};  // the number of indices of each further feature
  int64_t outputs;
  std::vector<int64_t> hidden = {256, 128};
  int64_t embedding_dim =
      0;                 // of each category; 0: by its number of indices (tabular_embedding_dim)
  double dropout = 0.1;  // after each hidden layer
  Device device = DeviceType::kCpu;
};

// Returns 1.6 n^0.56 for n indices, rounded and at most 64: 2 for 2, 6 for 10, 21 for 100
// (https://docs.fast.ai/tabular.model.html#emb_sz_rule).
int64_t tabular_embedding_dim(int64_t indices);

// Maps rows [B, num_numbers + categories], in which an index is written as a number, to
// [B, outputs]. Throws IndexError for an index out of range (on the GPU: at the next synchronizing
// call), and ValueError for no features, or no outputs.
class TabularNet : public Cloneable<TabularNet> {
 public:
  explicit TabularNet(const TabularNetOptions& options);

  Tensor forward(const Tensor& rows) override;

  Child<ModuleList> embeddings;
  Child<Sequential> layers;

 private:
  int64_t num_numbers_;
};

// Replaces the indices of categories at the end of each row by one-hot vectors: rows
// [B, num_numbers + categories] become [B, num_numbers + sum of the sizes]. Has no parameters.
class OneHotColumns : public Cloneable<OneHotColumns> {
 public:
  OneHotColumns(int64_t num_numbers, std::vector<int64_t> category_sizes);

  Tensor forward(const Tensor& rows) override;
  std::string extra_repr() const override;

 private:
  int64_t num_numbers_;
  std::vector<int64_t> category_sizes_;
};

}  // namespace taper::v0
