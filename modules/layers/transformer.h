// The transformer (https://pytorch.org/docs/stable/generated/torch.nn.Transformer.html,
// .../torch.nn.TransformerEncoderLayer.html, .../torch.nn.TransformerDecoderLayer.html).
#pragma once

#include <optional>

#include "framework/base/text_enum.h"
#include "modules/layers/containers.h"
#include "modules/layers/multihead_attention.h"
#include "modules/layers/norm_layers.h"
#include "modules/layers/stateless.h"

namespace taper::v0 {

// The function between the two linear layers of a feed-forward block.
struct TransformerActivationValues {
  enum class Value : uint8_t { kRelu, kGelu };
  static constexpr Value kRelu = Value::kRelu, kGelu = Value::kGelu;
  static constexpr const char* kOption = "activation";
  static constexpr const char* kWords[] = {"relu", "gelu"};
};
using TransformerActivation = TextEnum<TransformerActivationValues>;

struct TransformerEncoderLayerOptions {
  int64_t dim_feedforward = 2048;
  double dropout = 0.1;
  TransformerActivation activation = TransformerActivation::kRelu;
  double layer_norm_eps = 1e-5;
  bool batch_first = false;
  bool norm_first = false;
  bool bias = true;
  Device device = DeviceType::kCpu;
};
using TransformerDecoderLayerOptions = TransformerEncoderLayerOptions;

// Masks as in AttendOptions.
struct EncodeOptions {
  Tensor src_mask = {};              // [L, L] or [B * nhead, L, L]
  Tensor src_key_padding_mask = {};  // [B, L]
  bool is_causal = false;            // no mask is needed in addition
  void tensors(const auto& each) { each(src_mask, src_key_padding_mask); }
  bool has_masks() const {
    return is_causal || src_mask.defined() || src_key_padding_mask.defined();
  }
};
struct DecodeOptions {
  Tensor tgt_mask = {};                                  // [T, T] or [B * nhead, T, T]
  Tensor memory_mask = {};                               // [T, S] or [B * nhead, T, S]
  Tensor tgt_key_padding_mask = {};                      // [B, T]
  Tensor memory_key_padding_mask = {};                   // [B, S]
  bool tgt_is_causal = false, memory_is_causal = false;  // no masks are needed in addition
  void tensors(const auto& each) {
    each(tgt_mask, memory_mask, tgt_key_padding_mask, memory_key_padding_mask);
  }
};

// Maps src [L, B, d_model], [B, L, d_model] with batch_first, or [L, d_model] to the same shape. A
// derived layer overrides forward(src, how), through which every call is made. If it overrides only
// forward(src), only calls without masks use that, and a TransformerEncoder of such layers throws
// NotImplementedError for masks.
class TransformerEncoderLayer : public Cloneable<TransformerEncoderLayer> {
 public:
  using Options = TransformerEncoderLayerOptions;

  TransformerEncoderLayer(IntArg d_model, IntArg nhead,
                          const TransformerEncoderLayerOptions& options = {});

  Tensor forward(const Tensor& src) override { return forward(src, {}); }
  virtual Tensor forward(const Tensor& src, const EncodeOptions& how);
  using Module::operator();
  Tensor operator()(const Tensor& src, const EncodeOptions& how);

  TransformerEncoderLayerOptions options;
  Child<MultiheadAttention> self_attn;
  Child<Linear> linear1;
  Child<Dropout> dropout;
  Child<Linear> linear2;
  Child<LayerNorm> norm1, norm2;
  Child<Dropout> dropout1, dropout2;

 private:
  template <class Layer> friend class TransformerStack;
  bool takes_masks_ = true;  // false: the class overrides only forward(src)
};

// Maps tgt [T, B, d_model] and memory [S, B, d_model], the output of an encoder, to tgt's shape.
// With batch_first and without a batch, shapes are as for TransformerEncoderLayer.
class TransformerDecoderLayer : public Cloneable<TransformerDecoderLayer> {
 public:
  using Options = TransformerDecoderLayerOptions;

  TransformerDecoderLayer(IntArg d_model, IntArg nhead,
                          const TransformerDecoderLayerOptions& options = {});

  using Module::forward;
  // Derived layers override this.
  virtual Tensor forward(const Tensor& tgt, const Tensor& memory, const DecodeOptions& how);
  Tensor operator()(const Tensor& tgt, const Tensor& memory, const DecodeOptions& how = {});

  TransformerDecoderLayerOptions options;
  Child<MultiheadAttention> self_attn, multihead_attn;
  Child<Linear> linear1;
  Child<Dropout> dropout;
  Child<Linear> linear2;
  Child<LayerNorm> norm1, norm2, norm3;
  Child<Dropout> dropout1, dropout2, dropout3;
};

// A sequence of layers and an optional norm. The function is called once per layer and returns a
// Layer or a layer derived from it, so that each layer has its own initial weights. (PyTorch copies
// one layer.)
template <class Layer> class TransformerStack : public Module {
 public:
  template <class MakeLayer>
  TransformerStack(MakeLayer make_layer, IntArg num_layers) : layers(*this, "layers") {
    using Made = std::decay_t<std::invoke_result_t<MakeLayer&>>;
    static_assert(std::derived_from<Made, Layer>,
                  "the function that creates the layers of a TransformerEncoder or "
                  "TransformerDecoder returns its layer, or one derived from that, by value");
    for (int64_t i = 0; i < num_layers; ++i) {
      Made& layer = layers->add(make_layer());
      if constexpr (requires { layer.takes_masks_; }) {
        layer.takes_masks_ = requires(const Tensor& x) { layer.forward(x, EncodeOptions()); };
      }
    }
  }
  template <class MakeLayer>
  TransformerStack(MakeLayer make_layer, IntArg num_layers, LayerNorm&& final_norm)
      : TransformerStack(make_layer, num_layers) {
    norm.emplace(*this, "norm", std::move(final_norm));
  }

  Child<ModuleList> layers;
  std::optional<Child<LayerNorm>> norm;

 protected:
  // Passes x through each layer, which is called as layer(x, args...), and then through the norm.
  template <class... Args> Tensor run(Tensor x, const Args&... args) {
    for (int64_t i = 0; i < layers->size(); ++i)
      x = layers->template at<Layer>(int64_t(i))(x, args...);
    return norm ? (*norm)(x) : x;
  }
};

// Example:
// TransformerEncoder net([] { return TransformerEncoderLayer(512, 8); }, 6, LayerNorm(512));
class TransformerEncoder
    : public Cloneable<TransformerEncoder, TransformerStack<TransformerEncoderLayer>> {
 public:
  using Cloneable::Cloneable;

  Tensor forward(const Tensor& src) override;
  using Module::operator();
  Tensor operator()(const Tensor& src, const EncodeOptions& how);
  CallStyle call_style() const override { return CallStyle::kPassesOn; }
};

class TransformerDecoder
    : public Cloneable<TransformerDecoder, TransformerStack<TransformerDecoderLayer>> {
 public:
  using Cloneable::Cloneable;

  Tensor operator()(const Tensor& tgt, const Tensor& memory, const DecodeOptions& how = {});
  CallStyle call_style() const override { return CallStyle::kPassesOn; }
};

struct TransformerOptions {
  int64_t num_encoder_layers = 6, num_decoder_layers = 6;
  int64_t dim_feedforward = 2048;
  double dropout = 0.1;
  TransformerActivation activation = TransformerActivation::kRelu;
  double layer_norm_eps = 1e-5;
  bool batch_first = false;
  bool norm_first = false;
  bool bias = true;
  Device device = DeviceType::kCpu;
};
struct TransformOptions {
  Tensor src_mask = {}, tgt_mask = {}, memory_mask = {};
  Tensor src_key_padding_mask = {}, tgt_key_padding_mask = {}, memory_key_padding_mask = {};
  bool src_is_causal = false, tgt_is_causal = false, memory_is_causal = false;
  void tensors(const auto& each) {
    each(src_mask, tgt_mask, memory_mask, src_key_padding_mask, tgt_key_padding_mask,
         memory_key_padding_mask);
  }
};

// An encoder and a decoder, each with a final norm. Matrices are drawn by xavier_uniform_.
class Transformer : public Cloneable<Transformer> {
 public:
  using Options = TransformerOptions;

  explicit Transformer(IntArg d_model = 512, IntArg nhead = 8, const TransformerOptions& o = {});

  Tensor operator()(const Tensor& src, const Tensor& tgt, const TransformOptions& how = {});
  CallStyle call_style() const override { return CallStyle::kPassesOn; }
  // Returns a float32 [size, size] tensor: -inf above the diagonal, 0 elsewhere.
  static Tensor generate_square_subsequent_mask(int64_t size, TensorOptions options = {});

  int64_t d_model, nhead;
  TransformerOptions options;
  Child<TransformerEncoder> encoder;
  Child<TransformerDecoder> decoder;
};

}  // namespace taper::v0
