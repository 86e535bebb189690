// The layers of a sequential model: what each takes from a config beside its input, which is
// inferred, and how it is made.
#include <memory>
#include <optional>

#include "apps/runner/config/tables.h"
#include "autograd/ops/shape.h"
#include "modules/conv.h"
#include "modules/linear.h"
#include "modules/norm.h"
#include "modules/rnn.h"
#include "modules/stateless.h"
#include "modules/transformer.h"

namespace taper::runner {
namespace {

using ModulePtr = std::unique_ptr<Module>;

// M made of its own options and nothing else.
template <class M> struct Plain : M::Options {
  ModulePtr make(const LayerSite&) const {
    return std::make_unique<M>(static_cast<const typename M::Options&>(*this));
  }
};
struct IdentitySpec {
  template <class V> void describe(V&) {}
  ModulePtr make(const LayerSite&) const { return std::make_unique<Identity>(); }
};

template <class M> struct SoftmaxSpec {
  int64_t dim = -1;
  template <class V> void describe(V& v) {
    v("dim", dim, kAnyDim, "dimension whose values sum to 1");
  }
  ModulePtr make(const LayerSite&) const { return std::make_unique<M>(dim); }
};

struct LinearSpec {
  int64_t out_features = 1;
  LinearOptions options{};
  template <class V> void describe(V& v) {
    v("out_features", out_features, kWidth, "width of the output").required();
    options.describe(v);
  }
  ModulePtr make(const LayerSite& at) const {
    return std::make_unique<Linear>(at.in.back(), out_features,
                                    LinearOptions{options.bias, at.device});
  }
};

// Layers of windows, of one dimension: the width alone.
template <class V> void describe_window(V& v, Pair& kernel_size) {
  v("kernel_size", kernel_size, kWidth, "height and width of the window").required();
}
struct Size {
  Pair both;
  operator Pair() const { return both; }
  operator int64_t() const { return both.w; }
};

template <class M> struct ConvSpec {
  int64_t out_channels = 1;
  Pair kernel_size = 1;
  std::optional<Pair> stride{};
  Padding padding = 0;
  ConvOptions options{};
  template <class V> void describe(V& v) {
    v("out_channels", out_channels, kWidth, "channels of the output").required();
    describe_window(v, kernel_size);
    v("stride", stride, kWidth, "step of the window; without it 1, or a pool's window");
    v("padding", padding, kWidthOrNone, "zeros around the input; same: as many as keep its size");
    v("dilation", options.dilation, kWidth, "distance of the window's elements");
    v("groups", options.groups, kWidth, "parts of the channels that do not mix");
    v("bias", options.bias, "whether a bias is added");
  }
  ModulePtr make(const LayerSite& at) const {
    ConvOptions o = options;
    o.stride = stride.value_or(1);
    o.padding = padding.is_same ? ConvPadding("same") : ConvPadding(padding.size);
    o.device = at.device;
    return std::make_unique<M>(at.in[0], out_channels, kernel_size, o);
  }
};

template <class M, class Options> struct PoolSpec {
  Pair kernel_size = 1;
  Options options{};
  template <class V> void describe(V& v) {
    describe_window(v, kernel_size);
    options.describe(v);
  }
  ModulePtr make(const LayerSite&) const { return std::make_unique<M>(Size{kernel_size}, options); }
};

template <class M> struct AdaptivePoolSpec {
  Pair output_size = 1;
  template <class V> void describe(V& v) {
    v("output_size", output_size, kWidth, "height and width of the output").required();
  }
  ModulePtr make(const LayerSite&) const { return std::make_unique<M>(Size{output_size}); }
};

template <class V> void describe_eps(V& v, std::optional<double>& eps) {
  v("eps", eps, kPositive,
    "keeps the division finite; without it 1e-5, or the dtype's for rms_norm");
}

template <class M> struct BatchNormSpec {
  std::optional<double> eps{};
  double momentum = 0.1;
  BatchNormOptions options{};
  template <class V> void describe(V& v) {
    describe_eps(v, eps);
    v("momentum", momentum, kUnit, "share of the new batch in the running statistics");
    v("affine", options.affine, "whether a weight and a bias follow");
    v("track_running_stats", options.track_running_stats, "evaluate with running statistics");
  }
  ModulePtr make(const LayerSite& at) const {
    BatchNormOptions o = options;
    o.eps = eps.value_or(o.eps);
    o.momentum = momentum;
    o.device = at.device;
    return std::make_unique<M>(at.in[0], o);
  }
};

struct GroupNormSpec {
  int64_t num_groups = 1;
  std::optional<double> eps{};
  GroupNormOptions options{};
  template <class V> void describe(V& v) {
    v("num_groups", num_groups, kWidth, "groups of channels").required();
    describe_eps(v, eps);
    v("affine", options.affine, "whether a weight and a bias follow");
  }
  ModulePtr make(const LayerSite& at) const {
    return std::make_unique<GroupNorm>(
        num_groups, at.in[0],
        GroupNormOptions{eps.value_or(options.eps), options.affine, at.device});
  }
};

// What layer_norm and rms_norm work on.
struct NormalizedShape {
  std::vector<int64_t> sizes{};
  template <class V> void describe(V& v) {
    v("normalized_shape", sizes, kWidth, "the last sizes of the input; []: the last one");
  }
  Shape at(const LayerSite& site) const {
    return sizes.empty() ? Shape{site.in.back()} : Shape(sizes);
  }
};

struct LayerNormSpec {
  NormalizedShape shape{};
  std::optional<double> eps{};
  LayerNormOptions options{};
  template <class V> void describe(V& v) {
    shape.describe(v);
    describe_eps(v, eps);
    v("elementwise_affine", options.elementwise_affine, "whether a weight follows");
    v("bias", options.bias, "whether a bias is added");
  }
  ModulePtr make(const LayerSite& at) const {
    LayerNormOptions o = options;
    o.eps = eps.value_or(o.eps);
    o.device = at.device;
    return std::make_unique<LayerNorm>(shape.at(at), o);
  }
};

struct RmsNormSpec {
  NormalizedShape shape{};
  RMSNormOptions options{};
  template <class V> void describe(V& v) {
    shape.describe(v);
    options.describe(v);
  }
  ModulePtr make(const LayerSite& at) const {
    return std::make_unique<RMSNorm>(
        shape.at(at), RMSNormOptions{options.eps, options.elementwise_affine, at.device});
  }
};

struct UnflattenSpec {
  std::vector<int64_t> unflattened_size{};
  int64_t dim = 1;
  template <class V> void describe(V& v) {
    v("unflattened_size", unflattened_size, kSizeOrRest, "sizes; one may be -1").required();
    v("dim", dim, kAnyDim, "dimension to divide; 0 is the batch");
  }
  ModulePtr make(const LayerSite&) const {
    return std::make_unique<Unflatten>(dim, Shape(unflattened_size));
  }
};

struct EmbeddingSpec {
  int64_t embedding_dim = 1;
  std::optional<int64_t> num_embeddings{}, padding_idx{};
  template <class V> void describe(V& v) {
    v("embedding_dim", embedding_dim, kWidth, "width of a vector").required();
    v("num_embeddings", num_embeddings, kWidth,
      "number of vectors; without it the data's vocabulary");
    v("padding_idx", padding_idx, kWidthOrNone, "index of the vector that stays 0");
  }
  ModulePtr make(const LayerSite& at) const {
    return std::make_unique<Embedding>(num_embeddings.value_or(at.vocab_size), embedding_dim,
                                       EmbeddingOptions{padding_idx, at.device});
  }
};

// PyTorch's gives all steps; `last_step: true` the last one alone.
template <class M> struct LastStep : M {
  using M::M;
  Tensor forward(const Tensor& x) override { return M::forward(x).select(1, -1); }
};
template <class M> struct RecurrentSpec {
  int64_t hidden_size = 1;
  RnnOptions options{};
  bool last_step = false;
  template <class V> void describe(V& v) {
    v("hidden_size", hidden_size, kWidth, "width of the state").required();
    options.describe(v);
    v("last_step", last_step, "give the output of the last step alone");
  }
  ModulePtr make(const LayerSite& at) const {
    RnnOptions o = options;
    o.batch_first = true;
    o.device = at.device;
    if (last_step) return std::make_unique<LastStep<M>>(at.in.back(), hidden_size, o);
    return std::make_unique<M>(at.in.back(), hidden_size, o);
  }
};

struct EncoderLayerSpec {
  int64_t nhead = 1;
  std::optional<double> eps{};
  TransformerEncoderLayerOptions options{.dropout = 0};
  template <class V> void describe(V& v) {
    v("nhead", nhead, kWidth, "attention heads").required();
    v("dim_feedforward", options.dim_feedforward, kWidth, "width of the inner layer");
    v("dropout", options.dropout, kBelowOne, "chance of a zero between layers");
    describe_eps(v, eps);
    v("norm_first", options.norm_first, "normalise before instead of after");
    v("bias", options.bias, "whether a bias is added");
  }
  ModulePtr make(const LayerSite& at) const {
    TransformerEncoderLayerOptions o = options;
    o.layer_norm_eps = eps.value_or(o.layer_norm_eps);
    o.batch_first = true;
    o.device = at.device;
    return std::make_unique<TransformerEncoderLayer>(at.in.back(), nhead, o);
  }
};

template <class Spec> constexpr auto layer = Layers::of<Spec>;

constexpr Layers::Entry kActivations[] = {
    {"relu", layer<Plain<ReLU>>},         {"gelu", layer<Plain<GELU>>},
    {"tanh", layer<Plain<Tanh>>},         {"sigmoid", layer<Plain<Sigmoid>>},
    {"silu", layer<Plain<SiLU>>},         {"leaky_relu", layer<Plain<LeakyReLU>>},
    {"relu6", layer<Plain<ReLU6>>},       {"elu", layer<Plain<ELU>>},
    {"hardtanh", layer<Plain<Hardtanh>>}, {"softplus", layer<Plain<Softplus>>},
    {"mish", layer<Plain<Mish>>},
};
constexpr Layers::Entry kLayers[] = {
    {"softmax", layer<SoftmaxSpec<Softmax>>},
    {"log_softmax", layer<SoftmaxSpec<LogSoftmax>>},
    {"identity", layer<IdentitySpec>},
    {"linear", layer<LinearSpec>},
    {"conv1d", layer<ConvSpec<Conv1d>>},
    {"conv2d", layer<ConvSpec<Conv2d>>},
    {"max_pool1d", layer<PoolSpec<MaxPool1d, MaxPoolOptions>>},
    {"max_pool2d", layer<PoolSpec<MaxPool2d, MaxPoolOptions>>},
    {"avg_pool1d", layer<PoolSpec<AvgPool1d, AvgPoolOptions>>},
    {"avg_pool2d", layer<PoolSpec<AvgPool2d, AvgPoolOptions>>},
    {"adaptive_avg_pool1d", layer<AdaptivePoolSpec<AdaptiveAvgPool1d>>},
    {"adaptive_avg_pool2d", layer<AdaptivePoolSpec<AdaptiveAvgPool2d>>},
    {"batch_norm1d", layer<BatchNormSpec<BatchNorm1d>>},
    {"batch_norm2d", layer<BatchNormSpec<BatchNorm2d>>},
    {"group_norm", layer<GroupNormSpec>},
    {"layer_norm", layer<LayerNormSpec>},
    {"rms_norm", layer<RmsNormSpec>},
    {"dropout", layer<Plain<Dropout>>},
    {"dropout2d", layer<Plain<Dropout2d>>},
    {"flatten", layer<Plain<Flatten>>},
    {"unflatten", layer<UnflattenSpec>},
    {"upsample", layer<Plain<Upsample>>},
    {"embedding", layer<EmbeddingSpec>},
    {"lstm", layer<RecurrentSpec<LSTM>>},
    {"gru", layer<RecurrentSpec<GRU>>},
    {"transformer_encoder_layer", layer<EncoderLayerSpec>},
};

}  // namespace

Layers& layers() {
  static Layers table("layer", {kActivations, kLayers});
  return table;
}

std::vector<std::string> activations() {
  std::vector<std::string> names;
  for (const Layers::Entry& entry : kActivations) names.push_back(entry.name);
  return names;
}

}  // namespace taper::runner
