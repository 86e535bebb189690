#include "modules/layers/linear.h"

#include "autograd/ops/index/index_ops.h"
#include "autograd/ops/matmul_ops.h"
#include "framework/factory/factories.h"
#include "modules/init.h"
#include "modules/layers/repr.h"

namespace taper::v0 {
namespace {

std::optional<int64_t> checked_padding(std::optional<int64_t> padding_idx, int64_t rows) {
  if (!padding_idx) return padding_idx;
  // -1 - i is the index from the end, counted from 0. It cannot overflow for any negative i.
  const int64_t from_end = -1 - *padding_idx;
  require<ValueError>(*padding_idx < 0 ? from_end < rows : *padding_idx < rows,
                      "Padding_idx must be within num_embeddings");
  return *padding_idx < 0 ? rows - 1 - from_end : *padding_idx;
}

BagOptions of(const EmbeddingBagOptions& o, const Tensor& per_sample_weights) {
  return {o.mode, per_sample_weights, o.include_last_offset, o.padding_idx};
}

}  // namespace

Linear::Linear(IntArg in, IntArg out, LinearOptions options)
    : in_features(checked(in, in > 0, "Linear: in_features must be positive, got ", in)),
      out_features(checked(out, out > 0, "Linear: out_features must be positive, got ", out)),
      weight(*this, "weight", fan_in_uniform({out, in}, {out, in}, options.device)),
      bias(options.bias ? Parameter(*this, "bias", fan_in_uniform({out, in}, {out}, options.device))
                        : Parameter()) {}

Tensor Linear::forward(const Tensor& x) { return linear(x, weight, bias); }

Tensor Linear::operator()(const Tensor& x, Activation activation) {
  return call_with_hooks(
      [&](const Tensor& input) { return linear(input, weight, bias, activation); }, x);
}

std::string Linear::extra_repr() const {
  return fields("in_features", in_features, "out_features", out_features, "bias", bias.defined());
}

Embedding::Embedding(IntArg rows, IntArg dim, EmbeddingOptions options)
    : num_embeddings(rows),
      embedding_dim(dim),
      padding_idx(checked_padding(options.padding_idx, rows)),
      weight(*this, "weight", randn({rows, dim}, {.device = options.device})) {
  if (padding_idx) init::zeros_(weight->detach()[*padding_idx]);
}

Tensor Embedding::forward(const Tensor& index) { return embedding(weight, index, padding_idx); }

std::string Embedding::extra_repr() const {
  return concat_to_string(num_embeddings, ", ", embedding_dim,
                          padding_idx ? concat_to_string(", padding_idx=", *padding_idx) : "");
}

EmbeddingBag::EmbeddingBag(IntArg rows, IntArg dim, EmbeddingBagOptions o)
    : num_embeddings(rows),
      embedding_dim(dim),
      options{o.mode, checked_padding(o.padding_idx, rows), o.include_last_offset, o.device},
      weight(*this, "weight", randn({rows, dim}, {.device = o.device})) {
  if (options.padding_idx) init::zeros_(weight->detach()[*options.padding_idx]);
}

Tensor EmbeddingBag::forward(const Tensor& index) {
  return embedding_bag(index, weight, {}, of(options, {}));
}

Tensor EmbeddingBag::operator()(const Tensor& index, const Tensor& offsets,
                                const Tensor& per_sample_weights) {
  return call_with_hooks(
      [this](const Tensor& rows, const Tensor& begins, const Tensor& weights) {
        return embedding_bag(rows, weight, begins, of(options, weights));
      },
      index, offsets, per_sample_weights);
}

std::string EmbeddingBag::extra_repr() const {
  const std::string mode = options.mode.word();
  return concat_to_string(
      num_embeddings, ", ", embedding_dim, ", ", fields("mode", mode),
      options.padding_idx ? concat_to_string(", padding_idx=", *options.padding_idx) : "");
}

}  // namespace taper::v0
