// Layers with one matrix: y = x W^T + b, and selection of its rows by index
// (https://pytorch.org/docs/stable/generated/torch.nn.Linear.html, .../torch.nn.Embedding.html).
#pragma once

#include <optional>

#include "autograd/ops/nn/embedding_bag.h"
#include "framework/kernels/elementwise/activation.h"
#include "modules/members.h"

namespace taper::v0 {

struct LinearOptions {
  bool bias = true;
  Device device = DeviceType::kCpu;
  template <class V> void describe(V& v) { v("bias", bias, "whether a bias is added"); }
};

// Maps x [..., in_features] to [..., out_features]. weight [out, in] and bias [out] are drawn from
// U(-1/sqrt(in), 1/sqrt(in)) by the default generator, with the same bits on every device.
class Linear : public Cloneable<Linear> {
 public:
  using Options = LinearOptions;

  Linear(IntArg in_features, IntArg out_features, LinearOptions options = {});
  explicit Linear(int64_t) = delete;  // give both sizes: Linear(in_features, out_features)
  // Accepts only a bool, as in Linear(3, 4, false), and nothing that converts to bool.
  Linear(IntArg in, IntArg out, std::same_as<bool> auto with_bias)
      : Linear(in, out, LinearOptions{.bias = with_bias}) {}

  Tensor forward(const Tensor& x) override;
  using Module::operator();
  // Returns activation(y), computed in one pass.
  Tensor operator()(const Tensor& x, Activation activation);
  std::string extra_repr() const override;

  int64_t in_features, out_features;
  Parameter weight;
  Parameter bias;
};

struct EmbeddingOptions {
  // The row of weight that starts as zeros and gets no gradient. A negative index counts from the
  // end.
  std::optional<int64_t> padding_idx = std::nullopt;
  Device device = DeviceType::kCpu;
};

// Maps an index of any shape (int64 or int32) to [..., embedding_dim]. weight [num_embeddings,
// embedding_dim] is drawn from N(0, 1).
class Embedding : public Cloneable<Embedding> {
 public:
  using Options = EmbeddingOptions;

  Embedding(IntArg num_embeddings, IntArg embedding_dim, EmbeddingOptions options = {});

  Tensor forward(const Tensor& index) override;
  std::string extra_repr() const override;

  int64_t num_embeddings, embedding_dim;
  std::optional<int64_t> padding_idx;
  Parameter weight;
};

struct EmbeddingBagOptions {
  BagMode mode = BagMode::kMean;
  // The row of weight that starts as zeros and does not contribute. A negative index counts from
  // the end.
  std::optional<int64_t> padding_idx = std::nullopt;
  bool include_last_offset = false;
  Device device = DeviceType::kCpu;
};

// Reduces each bag of rows to one vector (embedding_bag). index is [B, n], or [n] with offsets [B].
// weight is initialized like Embedding's.
class EmbeddingBag : public Cloneable<EmbeddingBag> {
 public:
  using Options = EmbeddingBagOptions;

  EmbeddingBag(IntArg num_embeddings, IntArg embedding_dim, EmbeddingBagOptions options = {});

  Tensor forward(const Tensor& index) override;
  using Module::operator();
  Tensor operator()(const Tensor& index, const Tensor& offsets,
                    const Tensor& per_sample_weights = {});
  std::string extra_repr() const override;

  int64_t num_embeddings, embedding_dim;
  EmbeddingBagOptions options;
  Parameter weight;
};

}  // namespace taper::v0
