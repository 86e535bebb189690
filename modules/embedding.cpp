#include "modules/embedding.h"

#include "autograd/ops/index.h"
#include "framework/factories.h"

namespace taper {

Embedding::Embedding(int64_t rows, int64_t dim, Device device)
    : num_embeddings(rows),
      embedding_dim(dim),
      weight(*this, "weight", randn({rows, dim}, {.device = device})) {}

Tensor Embedding::forward(const Tensor& index) { return embedding(weight, index); }

}  // namespace taper
