// The transformer's encoder
// (https://pytorch.org/docs/stable/generated/torch.nn.TransformerEncoderLayer.html,
// .../torch.nn.TransformerEncoder.html).
#pragma once

#include <optional>

#include "modules/attention.h"
#include "modules/containers.h"
#include "modules/norm.h"
#include "modules/stateless.h"

namespace taper::inline v0 {

struct TransformerEncoderLayerOptions {
  int64_t dim_feedforward = 2048;
  double dropout = 0.1;
  std::string activation = "relu";  // or "gelu"
  double layer_norm_eps = 1e-5;
  bool batch_first = false;
  bool norm_first = false;
  bool bias = true;
  Device device = DeviceType::cpu;
};

// Masks as in AttendOptions.
struct EncodeOptions {
  Tensor src_mask = {};              // [L, L] or [B * nhead, L, L]
  Tensor src_key_padding_mask = {};  // [B, L]
  bool is_causal = false;            // needs no mask beside it
  auto tensors() { return std::tie(src_mask, src_key_padding_mask); }
};

// src [L, B, d_model], [B, L, d_model] with batch_first, or [L, d_model]; to the same.
class TransformerEncoderLayer : public Module {
 public:
  TransformerEncoderLayer(int64_t d_model, int64_t nhead,
                          TransformerEncoderLayerOptions options = {});

  Tensor forward(const Tensor& src) override { return encode(src, {}); }
  using Module::operator();
  Tensor operator()(const Tensor& src, const EncodeOptions& how) {
    return within([this](const auto&... a) { return encode(a...); }, src, how);
  }
  std::string type_name() const override { return "TransformerEncoderLayer"; }

  const TransformerEncoderLayerOptions options;
  Child<MultiheadAttention> self_attn;
  Child<Linear> linear1;
  Child<Dropout> dropout;
  Child<Linear> linear2;
  Child<LayerNorm> norm1, norm2;
  Child<Dropout> dropout1, dropout2;

 private:
  Tensor encode(const Tensor& src, const EncodeOptions& how);
  Tensor feed_forward(const Tensor& x);
};

// TransformerEncoder net([] { return TransformerEncoderLayer(512, 8); }, 6, LayerNorm({512}));
// The layers one after the other, then a norm where there is one. The function is called for each
// layer, which so has its own first weights (PyTorch copies one layer).
class TransformerEncoder : public Module {
 public:
  template <class MakeLayer>
  TransformerEncoder(MakeLayer make_layer, int64_t num_layers) : layers(*this, "layers") {
    for (int64_t i = 0; i < num_layers; ++i) layers->add<TransformerEncoderLayer>(make_layer());
  }
  template <class MakeLayer>
  TransformerEncoder(MakeLayer make_layer, int64_t num_layers, LayerNorm final_norm)
      : TransformerEncoder(make_layer, num_layers) {
    norm.emplace(*this, "norm", std::move(final_norm));
  }

  Tensor forward(const Tensor& src) override { return encode(src, {}); }
  using Module::operator();
  Tensor operator()(const Tensor& src, const EncodeOptions& how) {
    return within([this](const auto&... a) { return encode(a...); }, src, how);
  }
  std::string type_name() const override { return "TransformerEncoder"; }

  Child<ModuleList> layers;
  std::optional<Child<LayerNorm>> norm;

 private:
  Tensor encode(const Tensor& src, const EncodeOptions& how);
};

}  // namespace taper::inline v0
