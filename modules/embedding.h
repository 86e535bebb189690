// A table of vectors by index (https://pytorch.org/docs/stable/generated/torch.nn.Embedding.html).
#pragma once

#include "modules/module.h"

namespace taper {

// index of any shape (int64 or int32) to [..., embedding_dim]. weight [num_embeddings,
// embedding_dim] is drawn from N(0, 1).
class Embedding : public Module {
 public:
  Embedding(int64_t num_embeddings, int64_t embedding_dim, Device device = DeviceType::cpu);

  Tensor forward(const Tensor& index) override;
  std::string type_name() const override { return "Embedding"; }
  std::string extra_repr() const override { return cat(num_embeddings, ", ", embedding_dim); }

  const int64_t num_embeddings, embedding_dim;
  Parameter weight;
};

}  // namespace taper
