// A table of vectors by index (https://pytorch.org/docs/stable/generated/torch.nn.Embedding.html).
#pragma once

#include <optional>

#include "modules/module.h"

namespace taper {

struct EmbeddingOptions {
  // This row (negative: counted from the end) starts as zeros and gets no gradient.
  std::optional<int64_t> padding_idx = std::nullopt;
  Device device = DeviceType::cpu;
};

// index of any shape (int64 or int32) to [..., embedding_dim]. weight [num_embeddings,
// embedding_dim] is drawn from N(0, 1).
class Embedding : public Module {
 public:
  Embedding(int64_t num_embeddings, int64_t embedding_dim, EmbeddingOptions options = {});

  Tensor forward(const Tensor& index) override;
  std::string type_name() const override { return "Embedding"; }
  std::string extra_repr() const override;

  const int64_t num_embeddings, embedding_dim;
  const std::optional<int64_t> padding_idx;
  Parameter weight;
};

}  // namespace taper
