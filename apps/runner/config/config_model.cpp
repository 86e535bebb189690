#include "apps/runner/config/config_parts.h"
#include "framework/error.h"

namespace taper::runner {
namespace {

constexpr Range kAnyDim{-kMaxDims, kMaxDims - 1};

// The name of a layer and the options that it has; the first one is that of the short form
// `linear: 512`.
struct LayerRow {
  const char* name;
  std::vector<const char*> options;
};

const std::vector<LayerRow>& layer_rows() {  // in the order of LayerType
  static const std::vector<LayerRow> rows = {
      {"relu", {}},
      {"gelu", {"approximate"}},
      {"tanh", {}},
      {"sigmoid", {}},
      {"silu", {}},
      {"leaky_relu", {"negative_slope"}},
      {"relu6", {}},
      {"elu", {"alpha"}},
      {"hardtanh", {"min_val", "max_val"}},
      {"softplus", {"beta", "threshold"}},
      {"softmax", {"dim"}},
      {"log_softmax", {"dim"}},
      {"identity", {}},
      {"linear", {"out_features", "bias"}},
      {"conv1d",
       {"out_channels", "kernel_size", "stride", "padding", "dilation", "groups", "bias"}},
      {"conv2d",
       {"out_channels", "kernel_size", "stride", "padding", "dilation", "groups", "bias"}},
      {"max_pool1d", {"kernel_size", "stride", "zeros", "dilation", "ceil_mode"}},
      {"max_pool2d", {"kernel_size", "stride", "zeros", "dilation", "ceil_mode"}},
      {"avg_pool1d", {"kernel_size", "stride", "zeros", "ceil_mode", "count_include_pad"}},
      {"avg_pool2d", {"kernel_size", "stride", "zeros", "ceil_mode", "count_include_pad"}},
      {"adaptive_avg_pool1d", {"output_size"}},
      {"adaptive_avg_pool2d", {"output_size"}},
      {"batch_norm1d", {"eps", "momentum", "affine", "track_running_stats"}},
      {"batch_norm2d", {"eps", "momentum", "affine", "track_running_stats"}},
      {"group_norm", {"num_groups", "eps", "affine"}},
      {"layer_norm", {"normalized_shape", "eps", "elementwise_affine", "bias"}},
      {"rms_norm", {"normalized_shape", "eps", "elementwise_affine"}},
      {"dropout", {"p"}},
      {"dropout2d", {"p"}},
      {"flatten", {"start_dim", "end_dim"}},
      {"unflatten", {"unflattened_size", "unflattened_dim"}},
      {"upsample", {"scale_factor", "size", "mode"}},
      {"embedding", {"embedding_dim", "num_embeddings", "padding_idx"}},
      {"lstm", {"hidden_size", "num_layers", "bias", "dropout", "bidirectional", "last_step"}},
      {"gru", {"hidden_size", "num_layers", "bias", "dropout", "bidirectional", "last_step"}},
      {"transformer_encoder_layer",
       {"nhead", "dim_feedforward", "dropout", "eps", "norm_first", "bias"}},
  };
  return rows;
}

std::vector<std::string> layer_names(std::size_t count) {
  std::vector<std::string> names;
  for (const LayerRow& row : layer_rows()) names.push_back(row.name);
  names.resize(std::min(count, names.size()));
  return names;
}

// All options by the name that layer_rows() gives them.
std::map<std::string, Field> layer_options(LayerConfig& c) {
  std::map<std::string, Field> options;
  const auto add = [&options](const char* name, auto target, const char* doc,
                              Range range = {}) -> Field& {
    return options[name] = Field{name, Target(target), doc, range};
  };
  const Range sizes{0, kWidth.high};
  add("out_features", &c.out_features, "width of the output", kWidth).required();
  add("out_channels", &c.out_channels, "channels of the output", kWidth).required();
  add("kernel_size", &c.kernel_size, "height and width of the window", kWidth).required();
  add("stride", &c.stride, "step of the window; without it 1, or a pool's window", kWidth);
  add("padding", Padding{&c.padding, &c.same_padding},
      "zeros around the input; same: as many as keep its size", sizes);
  add("zeros", &c.padding, "rows and columns added around the input", sizes).name = "padding";
  add("dilation", &c.dilation, "distance of the window's elements", kWidth);
  add("groups", &c.groups, "parts of the channels that do not mix", kWidth);
  add("ceil_mode", &c.ceil_mode, "windows may reach over the edge");
  add("count_include_pad", &c.count_include_pad, "padding counts in the mean");
  add("output_size", &c.output_size, "height and width of the output", kWidth).required();
  add("bias", &c.bias, "whether a bias is added");
  add("eps", &c.eps, "keeps the division finite; without it 1e-5, or the dtype's for rms_norm",
      kPositive);
  add("momentum", &c.momentum, "share of the new batch in the running statistics", {0, 1});
  add("affine", &c.affine, "whether a weight and a bias follow");
  add("elementwise_affine", &c.affine, "whether a weight follows");
  add("track_running_stats", &c.track_running_stats, "evaluate with running statistics");
  add("num_groups", &c.num_groups, "groups of channels", kWidth).required();
  add("normalized_shape", &c.normalized_shape, "the last sizes of the input; []: the last one",
      kWidth);
  add("p", &c.p, "chance of a zero", kBelowOne);
  add("negative_slope", &c.negative_slope, "slope below 0", kNonNegative);
  add("alpha", &c.alpha, "where it ends far below 0, negated", kPositive);
  add("min_val", &c.min_val, "lower end");
  add("max_val", &c.max_val, "upper end");
  add("beta", &c.beta, "sharpness of the bend", kPositive);
  add("threshold", &c.threshold, "from where on it is a line");
  add("approximate", choice(c.approximate_tanh, {"none", "tanh"}), "formula");
  add("dim", &c.dim, "dimension whose values sum to 1", kAnyDim);
  add("start_dim", &c.start_dim, "first dimension to join; 0 is the batch", kAnyDim);
  add("end_dim", &c.end_dim, "last dimension to join", kAnyDim);
  add("unflattened_size", &c.unflattened_size, "sizes; one may be -1", {-1, kWidth.high}).required();
  add("unflattened_dim", &c.start_dim, "dimension to divide; 0 is the batch", kAnyDim).name = "dim";
  add("scale_factor", &c.scale_factor, "size of the output by that of the input; this or size",
      kPositive);
  add("size", &c.size, "height and width of the output", kWidth);
  add("mode", choice(c.mode, {"nearest", "linear", "bilinear"}), "how values between are made");
  add("embedding_dim", &c.embedding_dim, "width of a vector", kWidth).required();
  add("num_embeddings", &c.num_embeddings, "number of vectors; without it the data's vocabulary",
      kWidth);
  add("padding_idx", &c.padding_idx, "index of the vector that stays 0", sizes);
  add("hidden_size", &c.hidden_size, "width of the state", kWidth).required();
  add("num_layers", &c.num_layers, "layers above one another", {1, 1000});
  add("bidirectional", &c.bidirectional, "a second one reads from the end");
  add("dropout", &c.dropout, "chance of a zero between layers", kBelowOne);
  add("last_step", &c.last_step, "give the output of the last step alone");
  add("nhead", &c.nhead, "attention heads", kWidth).required();
  add("dim_feedforward", &c.dim_feedforward, "width of the inner layer", kWidth);
  add("norm_first", &c.norm_first, "normalise before instead of after");
  return options;
}

Union describe(LayerConfig& c) {
  const std::map<std::string, Field> options = layer_options(c);
  Union out{.tag = choice(c.type, layer_names(layer_rows().size())),
            .alternatives = {},
            .place = &c.place};
  for (const LayerRow& row : layer_rows()) {
    Schema& layer = out.alternatives.emplace_back();
    for (const char* name : row.options) layer.fields.push_back(options.at(name));
  }
  out.alternatives[std::size_t(LayerType::kUpsample)].rules = {
      {"scale_factor", "give either scale_factor or size",
       [&c] { return c.scale_factor.has_value() != c.size.has_value(); }}};
  return out;
}

Schema describe(MlpConfig& c) {
  Schema s;
  s.field("hidden", &c.hidden, "widths of the hidden layers", kWidth);
  s.field("activation", choice(c.activation, layer_names(std::size_t(LayerType::kSoftmax))),
          "after every hidden layer");
  s.field("dropout", &c.dropout, "chance of a zero after every activation", kBelowOne);
  return s;
}

Schema describe(SequentialConfig& c) {
  Schema s;
  const UnionList layers{.resize = [&c](std::size_t n) { c.layers.assign(n, {}); },
                         .size = [&c] { return c.layers.size(); },
                         .item = [&c](std::size_t i) { return describe(c.layers[i]); }};
  s.field("layers", layers, "the layers in order; input sizes are inferred").required();
  return s;
}

Schema describe(CnnConfig& c) {
  Schema s;
  s.field("channels", std::span<int64_t>(c.channels), "of the two convolutions", kWidth);
  s.field("hidden", &c.hidden, "width of the hidden layer", kWidth);
  s.field("dropout", std::span<double>(c.dropout), "after the pool; after the hidden layer",
          kBelowOne);
  return s;
}

Schema describe(ResNet18Config& c) {
  Schema s;
  s.field("width", &c.width, "channels of the first stage; each further one doubles them",
          {1, 1 << 16});
  return s;
}

Schema describe(GptConfig& c) {
  Schema s;
  s.field("n_layer", &c.n_layer, "blocks", {1, 1000});
  s.field("n_head", &c.n_head, "attention heads of a block", kWidth);
  s.field("n_embd", &c.n_embd, "width", kWidth);
  s.field("dropout", &c.dropout, "chance of a zero", kBelowOne);
  s.field("bias", &c.bias, "in the linear layers and norms");
  s.rules = {{"n_head", "must divide n_embd", [&c] { return c.n_embd % c.n_head == 0; }}};
  return s;
}

Schema describe(LstmClassifierConfig& c) {
  Schema s;
  s.field("embedding_dim", &c.embedding_dim, "width of a token's vector", kWidth);
  s.field("hidden_size", &c.hidden_size, "width of the state", kWidth);
  s.field("num_layers", &c.num_layers, "layers above one another", {1, 1000});
  s.field("dropout", &c.dropout, "chance of a zero between layers", kBelowOne);
  return s;
}

Schema describe(CustomConfig& c) {
  Schema s;
  s.field("name", &c.name, "what the program registered it as").required();
  s.field("options", &c.options, "numbers and texts for it");
  return s;
}

}  // namespace

Union describe(ModelConfig& c) {
  return {.tag = choice(
              c.type, {"mlp", "sequential", "cnn", "resnet18", "gpt", "lstm_classifier", "custom"}),
          .alternatives = {describe(c.mlp), describe(c.sequential), describe(c.cnn),
                           describe(c.resnet18), describe(c.gpt), describe(c.lstm_classifier),
                           describe(c.custom)},
          .place = &c.place};
}

}  // namespace taper::runner
