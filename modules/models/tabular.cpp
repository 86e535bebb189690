#include "modules/models/tabular.h"

#include <algorithm>
#include <cmath>

#include "autograd/ops/index/index_ops.h"
#include "autograd/ops/shape_ops.h"
#include "modules/init.h"
#include "modules/layers/stateless.h"

namespace taper::v0 {

constexpr double kEmbeddingStd = 0.01;

int64_t tabular_embedding_dim(int64_t indices) {
  constexpr int64_t kMost = 64;
  return std::clamp<int64_t>(std::llround(1.6 * std::pow(double(indices), 0.56)), 1, kMost);
}

TabularNet::TabularNet(const TabularNetOptions& o)
    : embeddings(*this, "embeddings"), layers(*this, "layers"), num_numbers_(o.num_numbers) {
  require<ValueError>(o.num_numbers >= 0 && o.num_numbers + std::ssize(o.category_sizes) > 0,
                      "TabularNet: expected at least one feature");
  int64_t width = o.num_numbers;
  for (const int64_t size : o.category_sizes) {
    const int64_t dim = o.embedding_dim > 0 ? o.embedding_dim : tabular_embedding_dim(size);
    auto& embedding = embeddings->add<Embedding>(size, dim, EmbeddingOptions{.device = o.device});
    // With a standard deviation of 1, wide embeddings of many words would drown the numbers.
    init::normal_(embedding.weight, 0, kEmbeddingStd);
    width += dim;
  }
  for (const int64_t hidden : o.hidden) {
    layers->ModuleList::add<Linear>(width, hidden, LinearOptions{.device = o.device});
    layers->add(ReLU());
    if (o.dropout > 0) layers->add(Dropout(o.dropout));
    width = hidden;
  }
  layers->ModuleList::add<Linear>(width, o.outputs, LinearOptions{.device = o.device});
}

Tensor TabularNet::forward(const Tensor& rows) {
  const int64_t expected = num_numbers_ + int64_t(embeddings->size());
  require<ValueError>(rows.dim() == 2 && rows.size(1) == expected, "TabularNet: expected rows [B, ",
                      expected, "], got ", rows.shape());
  if (embeddings->size() == 0) return layers(rows);
  std::vector<Tensor> parts;
  if (num_numbers_ > 0) parts.push_back(rows.narrow(1, 0, num_numbers_));
  int64_t column = num_numbers_;
  for (const auto& [name, embedding] : *embeddings) {
    parts.push_back((*embedding)(rows.select(1, column++).to(kInt64)));
  }
  return layers(cat(parts, 1));
}

OneHotColumns::OneHotColumns(int64_t num_numbers, std::vector<int64_t> category_sizes)
    : num_numbers_(num_numbers), category_sizes_(std::move(category_sizes)) {}

Tensor OneHotColumns::forward(const Tensor& rows) {
  std::vector<Tensor> parts;
  if (num_numbers_ > 0) parts.push_back(rows.narrow(1, 0, num_numbers_));
  int64_t column = num_numbers_;
  for (const int64_t size : category_sizes_) {
    // Compared instead of one_hot(), which has no ONNX form.
    const Tensor words = arange(size, {.dtype = rows.dtype(), .device = rows.device()});
    parts.push_back((rows.narrow(1, column++, 1) == words).to(rows.dtype()));
  }
  return cat(parts, 1);
}

std::string OneHotColumns::extra_repr() const {
  return concat_to_string("numbers=", num_numbers_, ", categories=", category_sizes_.size());
}

}  // namespace taper::v0
