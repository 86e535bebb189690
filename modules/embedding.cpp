#include "modules/embedding.h"

#include "autograd/ops/index.h"
#include "framework/factories.h"
#include "modules/init.h"

namespace taper {
namespace {

std::optional<int64_t> checked(std::optional<int64_t> padding_idx, int64_t rows) {
  if (!padding_idx) return padding_idx;
  if (*padding_idx < -rows || *padding_idx >= rows) {
    throw ValueError("Padding_idx must be within num_embeddings");
  }
  return *padding_idx < 0 ? *padding_idx + rows : *padding_idx;
}

}  // namespace

Embedding::Embedding(int64_t rows, int64_t dim, EmbeddingOptions options)
    : num_embeddings(rows),
      embedding_dim(dim),
      padding_idx(checked(options.padding_idx, rows)),
      weight(*this, "weight", randn({rows, dim}, {.device = options.device})) {
  if (padding_idx) init::zeros_(weight->detach()[*padding_idx]);
}

Tensor Embedding::forward(const Tensor& index) { return embedding(weight, index, padding_idx); }

std::string Embedding::extra_repr() const {
  return cat(num_embeddings, ", ", embedding_dim,
             padding_idx ? cat(", padding_idx=", *padding_idx) : "");
}

}  // namespace taper
