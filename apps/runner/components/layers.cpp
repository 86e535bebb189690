// The layers of a sequential model: the options that each reads from a config, and how it is
// created. Input sizes are inferred.
#include <memory>
#include <optional>

#include "apps/runner/components/inline_factory.h"
#include "apps/runner/components/tables.h"
#include "autograd/anomaly.h"
#include "autograd/ops/shape_ops.h"
#include "modules/layers/conv_layers.h"
#include "modules/layers/linear.h"
#include "modules/layers/norm_layers.h"
#include "modules/layers/rnn_layers.h"
#include "modules/layers/stateless.h"
#include "modules/layers/transformer.h"

namespace taper::v0::runner {
namespace {

using ModulePtr = std::unique_ptr<Module>;

// Makes a component that creates M from its own options, without the input shape.
template <class M> struct Plain : M::Options {
  ModulePtr make(const LayerSite&) const {
    return std::make_unique<M>(static_cast<const typename M::Options&>(*this));
  }
};
template <class Options> Options on(Device device, Options o) {
  o.device = device;
  return o;
}

// Creates M from the given values, without the input shape.
template <class M> struct New {
  ModulePtr operator()(const auto&... values) const { return std::make_unique<M>(values...); }
};

using Dim = Option<"dim", int64_t, kAnyDim, "dimension whose values sum to 1", -1>;

ModulePtr parametric_relu(const LayerSite& at, int64_t num_parameters, const PReLUOptions& o) {
  return std::make_unique<PReLU>(num_parameters, on(at.device, o));
}

ModulePtr linear(const LayerSite& at, int64_t out_features, const LinearOptions& o) {
  return std::make_unique<Linear>(at.in.back(), out_features, on(at.device, o));
}

using KernelSize = Option<"kernel_size", Pair, kWidth, "size of the window">;
using Bias = Option<"bias", bool, kAny, "whether a bias is added", true>;

// M::Sizes is Pair, or Triple for three spatial dimensions.
template <class M> struct Conv {
  using Sizes = typename M::Sizes;

  int64_t out_channels = 0;
  Sizes kernel_size = 0;
  std::optional<Sizes> stride{};
  PaddingOf<Sizes> padding{};
  typename M::Options options{};

  template <class V> void describe(V& v) {
    v("out_channels", out_channels, kWidth, "channels of the output").required();
    v("kernel_size", kernel_size, kWidth, "size of the window").required();
    v("stride", stride, kWidth, "step of the window; default: 1");
    v("padding", padding, kWidthOrNone, "zeros added on each side; same: as many as keep the size");
    v("dilation", options.dilation, kWidth, "distance between elements of the window");
    v("groups", options.groups, kWidth,
      "number of groups of channels that are convolved separately");
    v("bias", options.bias, "whether a bias is added");
    v("padding_mode", options.padding_mode, "values of the padding");
  }
  ModulePtr make(const LayerSite& at) const {
    auto o = on(at.device, options);
    o.stride = stride.value_or(1);
    o.padding = padding.size;
    if (padding.is_same) o.padding = "same";
    return std::make_unique<M>(at.in[0], out_channels, kernel_size, o);
  }
};

template <class M, class Sizes = typename M::Sizes>
ModulePtr conv_transpose(const LayerSite& at, int64_t out_channels, const Sizes& kernel_size,
                         const Sizes& stride, const Sizes& padding, const Sizes& output_padding,
                         const Sizes& dilation, int64_t groups, bool bias) {
  return std::make_unique<M>(
      at.in[0], out_channels, kernel_size,
      typename M::Options{stride, padding, output_padding, groups, bias, dilation, at.device});
}
template <class M, class Sizes = typename M::Sizes>
using ConvTransposed = InlineFactory<
    conv_transpose<M>, Option<"out_channels", int64_t, kWidth, "channels of the output">,
    Option<"kernel_size", Sizes, kWidth, "size of the window">,
    Option<"stride", Sizes, kWidth, "factor by which the size grows", 1>,
    Option<"padding", Sizes, kWidthOrNone, "elements removed on each side of the output", 0>,
    Option<"output_padding", Sizes, kWidthOrNone, "elements added at the end of the output", 0>,
    Option<"dilation", Sizes, kWidth, "distance between elements of the window", 1>,
    Option<"groups", int64_t, kWidth, "number of groups of channels that are convolved separately",
           1>,
    Bias>;

template <class M> ModulePtr padded(Pair sides) {
  return std::make_unique<M>(std::vector<int64_t>{sides.w, sides.w, sides.h, sides.h});
}
using Sides = Option<"padding", Pair, kWidthOrNone, "rows and columns added on each side">;
template <class M> ModulePtr padded3d(const Triple& sides) {
  const auto& [d, h, w] = sides;
  return std::make_unique<M>(std::vector<int64_t>{w, w, h, h, d, d});
}
using Sides3d =
    Option<"padding", Triple, kWidthOrNone, "slabs, rows and columns added on each side">;

// A size from a config. It converts to the type that the constructor of M takes; for a
// one-dimensional layer, that is the width.
template <class Sizes> struct SizeOf {
  Sizes all;
  operator Sizes() const { return all; }
  operator int64_t() const { return all.w; }
  operator OutputSize() const { return Pair(all.h, all.w); }
  operator OutputSize3d() const { return Triple(all.d, all.h, all.w); }
};
template <class M, class Sizes = typename M::Sizes>
ModulePtr pool(const Sizes& kernel_size, const typename M::Options& options) {
  return std::make_unique<M>(SizeOf<Sizes>{kernel_size}, options);
}
template <class M>
using Pool =
    InlineFactory<pool<M>, Option<"kernel_size", typename M::Sizes, kWidth, "size of the window">,
                  AllOf<typename M::Options>>;

template <class M, class Sizes = Pair> ModulePtr adaptive_pool(const Sizes& output_size) {
  return std::make_unique<M>(SizeOf<Sizes>{output_size});
}
using OutSize = Option<"output_size", Pair, kWidth, "height and width of the output">;
using OutSize3d = Option<"output_size", Triple, kWidth, "depth, height and width of the output">;

using Eps = Option<"eps", std::optional<double>, kPositive,
                   "added to the variance; default: 1e-5, for rms_norm the dtype's epsilon">;
using Affine = Option<"affine", bool, kAny, "learn a weight and a bias", true>;
using NormalizedShape = Option<"normalized_shape", std::vector<int64_t>, kWidth,
                               "sizes of the dimensions to normalize; []: the last dimension", 0>;

template <class Options> Options with(std::optional<double> eps, Options o) {
  o.eps = eps.value_or(o.eps);
  return o;
}
Shape normalized(const LayerSite& at, const std::vector<int64_t>& sizes) {
  return sizes.empty() ? Shape{at.in.back()} : Shape(sizes);
}

template <class M>
ModulePtr batch_norm(const LayerSite& at, std::optional<double> eps, double momentum, bool affine,
                     bool track_running_stats) {
  const BatchNormOptions o{.momentum = momentum,
                           .affine = affine,
                           .track_running_stats = track_running_stats,
                           .device = at.device};
  return std::make_unique<M>(at.in[0], with(eps, o));
}
template <class M>
using BatchNormOf = InlineFactory<
    batch_norm<M>, Eps,
    Option<"momentum", double, kUnit, "weight of the new batch in the running statistics", 1, 10>,
    Affine,
    Option<"track_running_stats", bool, kAny, "use running statistics in evaluations", true>>;

ModulePtr group_norm(const LayerSite& at, int64_t num_groups, std::optional<double> eps,
                     bool affine) {
  const GroupNormOptions o{.affine = affine, .device = at.device};
  return std::make_unique<GroupNorm>(num_groups, at.in[0], with(eps, o));
}

template <class M> ModulePtr instance_norm(const LayerSite& at, const InstanceNormOptions& o) {
  return std::make_unique<M>(at.in[0], on(at.device, o));
}

ModulePtr layer_norm(const LayerSite& at, const std::vector<int64_t>& sizes,
                     std::optional<double> eps, bool elementwise_affine, bool bias) {
  const LayerNormOptions o{
      .elementwise_affine = elementwise_affine, .bias = bias, .device = at.device};
  return std::make_unique<LayerNorm>(normalized(at, sizes), with(eps, o));
}

ModulePtr rms_norm(const LayerSite& at, const std::vector<int64_t>& sizes,
                   const RMSNormOptions& o) {
  return std::make_unique<RMSNorm>(normalized(at, sizes), on(at.device, o));
}

ModulePtr unflatten_to(const std::vector<int64_t>& sizes, int64_t dim) {
  return std::make_unique<Unflatten>(dim, Shape(sizes));
}

template <class M> struct Embedded {
  int64_t embedding_dim = 0;
  std::optional<int64_t> num_embeddings{};
  typename M::Options options{};

  template <class V> void describe(V& v) {
    v("embedding_dim", embedding_dim, kWidth, "size of a vector").required();
    v("num_embeddings", num_embeddings, kWidth,
      "number of vectors; default: the size of the data's vocabulary");
    v("padding_idx", options.padding_idx, kWidthOrNone, "index of a vector that stays 0");
    if constexpr (std::is_same_v<M, EmbeddingBag>) {
      v("mode", options.mode, {"sum", "mean", "max"}, "how the vectors of a bag are combined");
    }
  }
  ModulePtr make(const LayerSite& at) const {
    return std::make_unique<M>(num_embeddings.value_or(at.vocab_size), embedding_dim,
                               on(at.device, options));
  }
};

// Returns the output of the last step only (`last_step: true`), while PyTorch's layer returns all
// steps.
template <class M> struct LastStep : M {
  using M::M;
  Tensor forward(const Tensor& x) override { return M::forward(x).select(1, -1); }
  std::string type_name() const override { return short_name(typeid(M)); }
};
template <class M> struct Recurrent {
  int64_t hidden_size = 0;
  RnnOptions options{.batch_first = true};
  bool last_step = false;

  template <class V> void describe(V& v) {
    v("hidden_size", hidden_size, kWidth, "size of the hidden state").required();
    options.describe(v);
    if constexpr (std::is_same_v<M, LSTM>) {
      v("proj_size", options.proj_size, kWidthOrNone,
        "size of a projected output; 0: no projection");
    } else if constexpr (std::is_same_v<M, RNN>) {
      v("nonlinearity", options.nonlinearity, "nonlinearity of each step");
    }
    v("last_step", last_step, "return only the output of the last step");
  }
  ModulePtr make(const LayerSite& at) const {
    const RnnOptions o = on(at.device, options);
    if (last_step) return std::make_unique<LastStep<M>>(at.in.back(), hidden_size, o);
    return std::make_unique<M>(at.in.back(), hidden_size, o);
  }
};

ModulePtr encoder_layer(const LayerSite& at, int64_t nhead, int64_t dim_feedforward, double dropout,
                        std::optional<double> eps, bool norm_first, bool bias) {
  TransformerEncoderLayerOptions o{.dim_feedforward = dim_feedforward,
                                   .dropout = dropout,
                                   .batch_first = true,
                                   .norm_first = norm_first,
                                   .bias = bias,
                                   .device = at.device};
  o.layer_norm_eps = eps.value_or(o.layer_norm_eps);
  return std::make_unique<TransformerEncoderLayer>(at.in.back(), nhead, o);
}

template <class Spec> constexpr auto layer = Layers::of<Spec>;
template <auto kMake, class... Each> constexpr auto made = layer<InlineFactory<kMake, Each...>>;

constexpr Layers::Entry kActivations[] = {
    {"relu", layer<Plain<ReLU>>},
    {"gelu", layer<Plain<GELU>>},
    {"tanh", layer<Plain<Tanh>>},
    {"sigmoid", layer<Plain<Sigmoid>>},
    {"silu", layer<Plain<SiLU>>},
    {"leaky_relu", layer<Plain<LeakyReLU>>},
    {"relu6", layer<Plain<ReLU6>>},
    {"elu", layer<Plain<ELU>>},
    {"hardtanh", layer<Plain<Hardtanh>>},
    {"softplus", layer<Plain<Softplus>>},
    {"mish", layer<Plain<Mish>>},
    {"selu", layer<Plain<SELU>>},
    {"celu", layer<Plain<CELU>>},
    {"hardsigmoid", layer<Plain<Hardsigmoid>>},
    {"hardswish", layer<Plain<Hardswish>>},
    {"logsigmoid", layer<Plain<LogSigmoid>>},
    {"softsign", layer<Plain<Softsign>>},
    {"tanhshrink", layer<Plain<Tanhshrink>>},
    {"hardshrink", layer<Plain<Hardshrink>>},
    {"softshrink", layer<Plain<Softshrink>>},
};
constexpr Layers::Entry kLayers[] = {
    {"prelu", made<parametric_relu,
                   Option<"num_parameters", int64_t, kWidth,
                          "number of slopes: 1, or the number of channels", 1>,
                   AllOf<PReLUOptions>>},
    {"glu", layer<Plain<GLU>>},
    {"softmax", made<New<Softmax>{}, Dim>},
    {"log_softmax", made<New<LogSoftmax>{}, Dim>},
    {"identity", made<New<Identity>{}>},
    {"linear", made<linear, Option<"out_features", int64_t, kWidth, "size of the output">,
                    AllOf<LinearOptions>>},
    {"conv1d", layer<Conv<Conv1d>>},
    {"conv2d", layer<Conv<Conv2d>>},
    {"conv3d", layer<Conv<Conv3d>>},
    {"conv_transpose1d", layer<ConvTransposed<ConvTranspose1d>>},
    {"conv_transpose2d", layer<ConvTransposed<ConvTranspose2d>>},
    {"conv_transpose3d", layer<ConvTransposed<ConvTranspose3d>>},
    {"zero_pad2d", made<padded<ZeroPad2d>, Sides>},
    {"reflection_pad2d", made<padded<ReflectionPad2d>, Sides>},
    {"replication_pad2d", made<padded<ReplicationPad2d>, Sides>},
    {"circular_pad2d", made<padded<CircularPad2d>, Sides>},
    {"zero_pad3d", made<padded3d<ZeroPad3d>, Sides3d>},
    {"reflection_pad3d", made<padded3d<ReflectionPad3d>, Sides3d>},
    {"replication_pad3d", made<padded3d<ReplicationPad3d>, Sides3d>},
    {"circular_pad3d", made<padded3d<CircularPad3d>, Sides3d>},
    {"unfold", made<New<Unfold>{}, KernelSize, AllOf<UnfoldOptions>>},
    {"fold", made<New<Fold>{}, OutSize, KernelSize, AllOf<UnfoldOptions>>},
    {"pixel_shuffle", layer<Plain<PixelShuffle>>},
    {"pixel_unshuffle", layer<Plain<PixelUnshuffle>>},
    {"max_pool1d", layer<Pool<MaxPool1d>>},
    {"max_pool2d", layer<Pool<MaxPool2d>>},
    {"max_pool3d", layer<Pool<MaxPool3d>>},
    {"avg_pool1d", layer<Pool<AvgPool1d>>},
    {"avg_pool2d", layer<Pool<AvgPool2d>>},
    {"avg_pool3d", layer<Pool<AvgPool3d>>},
    {"adaptive_avg_pool1d", made<adaptive_pool<AdaptiveAvgPool1d>, OutSize>},
    {"adaptive_avg_pool2d", made<adaptive_pool<AdaptiveAvgPool2d>, OutSize>},
    {"adaptive_avg_pool3d", made<adaptive_pool<AdaptiveAvgPool3d, Triple>, OutSize3d>},
    {"adaptive_max_pool1d", made<adaptive_pool<AdaptiveMaxPool1d>, OutSize>},
    {"adaptive_max_pool2d", made<adaptive_pool<AdaptiveMaxPool2d>, OutSize>},
    {"adaptive_max_pool3d", made<adaptive_pool<AdaptiveMaxPool3d, Triple>, OutSize3d>},
    {"batch_norm1d", layer<BatchNormOf<BatchNorm1d>>},
    {"batch_norm2d", layer<BatchNormOf<BatchNorm2d>>},
    {"batch_norm3d", layer<BatchNormOf<BatchNorm3d>>},
    {"group_norm",
     made<group_norm, Option<"num_groups", int64_t, kWidth, "number of groups of channels">, Eps,
          Affine>},
    {"instance_norm1d", made<instance_norm<InstanceNorm1d>, AllOf<InstanceNormOptions>>},
    {"instance_norm2d", made<instance_norm<InstanceNorm2d>, AllOf<InstanceNormOptions>>},
    {"instance_norm3d", made<instance_norm<InstanceNorm3d>, AllOf<InstanceNormOptions>>},
    {"layer_norm", made<layer_norm, NormalizedShape, Eps,
                        Option<"elementwise_affine", bool, kAny, "learn a weight", true>, Bias>},
    {"rms_norm", made<rms_norm, NormalizedShape, AllOf<RMSNormOptions>>},
    {"dropout", layer<Plain<Dropout>>},
    {"dropout2d", layer<Plain<Dropout2d>>},
    {"dropout3d", layer<Plain<Dropout3d>>},
    {"flatten", layer<Plain<Flatten>>},
    {"unflatten",
     made<unflatten_to,
          Option<"unflattened_size", std::vector<int64_t>, kSizeOrRest, "new sizes; one may be -1">,
          Option<"dim", int64_t, kAnyDim, "dimension to split; 0 is the batch", 1>>},
    {"upsample", layer<Plain<Upsample>>},
    {"embedding", layer<Embedded<Embedding>>},
    {"embedding_bag", layer<Embedded<EmbeddingBag>>},
    {"rnn", layer<Recurrent<RNN>>},
    {"lstm", layer<Recurrent<LSTM>>},
    {"gru", layer<Recurrent<GRU>>},
    {"transformer_encoder_layer",
     made<encoder_layer, Option<"nhead", int64_t, kWidth, "number of attention heads">,
          Option<"dim_feedforward", int64_t, kWidth, "size of the inner layer", 2048>,
          Option<"dropout", double, kBelowOne, "dropout probability between layers", 0>, Eps,
          Option<"norm_first", bool, kAny,
                 "normalize before attention and feed-forward layers instead of after", false>,
          Bias>},
};

}  // namespace

Layers& layers() { return Layers::registry("layer", {kActivations, kLayers}); }

std::vector<std::string> activations() {
  std::vector<std::string> names;
  for (const Layers::Entry& entry : kActivations) names.push_back(entry.name);
  return names;
}

}  // namespace taper::v0::runner
