#include <array>
#include <memory>
#include <string_view>
#include <system_error>

#include "apps/runner/base/errors.h"
#include "apps/runner/base/string_utils.h"
#include "apps/runner/components/components.h"
#include "autograd/node.h"
#include "data/series/series_encoding.h"
#include "framework/factory/factories.h"
#include "framework/factory/generator.h"
#include "modules/layers/containers.h"
#include "modules/models/forecaster.h"
#include "modules/models/gpt.h"
#include "modules/models/resnet.h"
#include "modules/models/resnet9.h"
#include "modules/models/tabular.h"
#include "modules/models/text_classifiers.h"

namespace taper::v0::runner {
namespace {

using ModulePtr = std::unique_ptr<Module>;

// Returns the number of features of a table's row that are no categories.
int64_t numbers_of(const DataInfo& data) {
  return data.input_shape[0] - std::ssize(data.category_sizes);
}

// Appends the layer of an entry to the model and returns its output for x. Throws ConfigError at
// `place` if the layer does not fit x. `name` is the layer's name in messages.
Tensor append_layer(Sequential& model, const Component& entry, const std::string& name,
                    const Tensor& x, const ModelSite& site, const Place& place) {
  const Shape in = data::sample_shape(x);
  try {
    ModulePtr made = layers().make(entry, {in, site.data.vocab_size(), site.device});
    const Tensor out = made->eval()(x);
    made->train();
    model.add(std::move(made));
    return out;
  } catch (const Error& error) {
    if (is_any<OutOfMemoryError, AcceleratorError, RunError>(error)) throw;
    throw ConfigError(located(place, concat_to_string(name, " does not fit its input of shape ", in,
                                                      " (one sample): ", error.what())));
  } catch (const std::exception& error) {
    layers().refuse(entry, error);
    throw;
  }
}

// Builds the layers in order. The categories of a table become one-hot vectors first. Each layer is
// called once on zeros to determine the next layer's input shape, so that no second implementation
// of the layers' shape rules is needed.
ModulePtr build_sequential(const std::vector<Component>& entries, const ModelSite& site) {
  const auto& [data, device, model_place] = site;
  const NoGradGuard no_grad;
  auto model = std::make_unique<Sequential>();
  Place place = model_place;
  Tensor x = sample_batch(data, 1, device);
  if (!data.category_sizes.empty()) {
    model->add(OneHotColumns(numbers_of(data), data.category_sizes));
    x = (*model)(x);
  }
  for (std::size_t i = 0; const Component& entry : entries) {
    if (entry.place.source) place = entry.place;
    const Shape in = data::sample_shape(x);
    const std::string name = concat_to_string("layer ", i++, " (", entry.type, ")");
    x = append_layer(*model, entry, name, x, site, place);
    const bool is_last = i == entries.size();
    if (x.defined() && x.dim() > (is_last ? 0 : 1)) continue;
    throw ConfigError(located(
        place,
        concat_to_string(
            name, " returns ",
            x.defined() ? concat_to_string("a tensor of shape ", x.shape()) : "an undefined tensor",
            " for one sample of shape ", in,
            ": the first dimension of its result must be the batch",
            is_last ? "" : " and at least one more must remain for the next layer")));
  }
  const Shape out = data::sample_shape(x);
  if (out == data.output_shape()) return model;
  throw ConfigError(located(
      place, concat_to_string(
                 "the model's last layer returns shape ", out, ", but the data need shape ",
                 data.output_shape(),
                 out.size() > data.output_shape().size() ? ": put a flatten layer before it" : "",
                 out.size() == data.output_shape().size()
                     ? concat_to_string(": end with `linear: ", data.outputs, "`")
                     : "")));
}

// Throws ConfigError unless `fits`. The message says that this model takes `takes`, and describes
// the data.
void check(bool fits, const ModelSite& at, const char* takes) {
  require<ConfigError>(
      fits,
      located(at.place, concat_to_string(
                            "this model takes ", takes, ", but the data have samples of shape ",
                            at.data.input_shape, at.data.vocab_size() > 0 ? " (tokens)" : "",
                            " and targets that need an output of shape ", at.data.output_shape())));
}
bool are_tokens(const DataInfo& data) {
  return data.vocab_size() > 0 && data.input_shape.size() == 1;
}

struct SequentialSpec {
  std::vector<Component> entries{};
  template <class V> void describe(V& v) {
    v("layers", entries, layers(), "the layers in order; input sizes are inferred").required();
  }
  ModulePtr make(const ModelSite& at) const { return build_sequential(entries, at); }
};

// Returns the layer of that name with its first options set to `values`.
Component layer_of(const std::string& name, const auto&... values) {
  Component out = layers().component(name);
  std::size_t i = 0;
  (read_word(out.schema().fields.at(i++), concat_to_string(values)), ...);
  return out;
}
void add_dropout(std::vector<Component>& all, double p) {
  if (p > 0) all.push_back(layer_of("dropout", p));
}

struct MlpSpec {
  std::vector<int64_t> hidden = {512, 512};
  std::string activation = "relu";
  double dropout = 0;
  template <class V> void describe(V& v) {
    v("hidden", hidden, kWidth, "widths of the hidden layers");
    v("activation", activation, activations(), "activation after each hidden layer");
    v("dropout", dropout, kBelowOne, "dropout probability after each activation");
  }
  ModulePtr make(const ModelSite& at) const {
    check(at.data.vocab_size() == 0, at, "numbers");
    std::vector<Component> all;
    if (at.data.input_shape.size() > 1) all.push_back(layer_of("flatten"));
    for (const int64_t width : hidden) {
      all.push_back(layer_of("linear", width));
      all.push_back(layer_of(activation));
      add_dropout(all, dropout);
    }
    all.push_back(layer_of("linear", at.data.outputs));
    return build_sequential(all, at);
  }
};

// The network of PyTorch's MNIST example: two convolutions with 3 x 3 kernels, a pooling layer of
// size 2 and two linear layers.
struct CnnSpec {
  std::array<int64_t, 2> channels = {32, 64};
  int64_t hidden = 128;
  std::array<double, 2> dropout = {0.25, 0.5};
  template <class V> void describe(V& v) {
    v("channels", channels, kWidth, "channels of the two convolutions");
    v("hidden", hidden, kWidth, "width of the hidden layer");
    v("dropout", dropout, kBelowOne,
      "dropout probabilities after the pooling and after the hidden layer");
  }
  ModulePtr make(const ModelSite& at) const {
    check(at.data.input_shape.size() == 3, at, "images");
    std::vector<Component> all;
    for (const int64_t out : channels) {
      all.push_back(layer_of("conv2d", out, 3));
      all.push_back(layer_of("relu"));
    }
    all.push_back(layer_of("max_pool2d", 2));
    add_dropout(all, dropout[0]);
    all.push_back(layer_of("flatten"));
    all.push_back(layer_of("linear", hidden));
    all.push_back(layer_of("relu"));
    add_dropout(all, dropout[1]);
    all.push_back(layer_of("linear", at.data.outputs));
    return build_sequential(all, at);
  }
};

// Halves the image until its shorter side is below 8, with two convolutions at each size, and
// averages over what remains.
struct ConvNetSpec {
  int64_t width = 32;
  double dropout = 0.2;
  template <class V> void describe(V& v) {
    v("width", width, {1, 1 << 12},
      "channels at the full size; each halving doubles them, up to 8 times as many");
    v("dropout", dropout, kBelowOne, "dropout probability before the last layer");
  }
  ModulePtr make(const ModelSite& at) const {
    constexpr int64_t kLarge = 96, kLeast = 8;
    check(at.data.input_shape.size() == 3, at, "images");
    int64_t side = std::min(at.data.input_shape[1], at.data.input_shape[2]), channels = width;
    std::vector<Component> all;
    const auto add_convolution = [&](int64_t stride) {
      all.push_back(layer_of("conv2d", channels, 3, stride, 1));
      all.push_back(layer_of("batch_norm2d"));
      all.push_back(layer_of("relu"));
    };
    const int64_t first_stride = side > kLarge ? 2 : 1;
    add_convolution(first_stride);
    side /= first_stride;
    do {
      if (side >= kLeast) all.push_back(layer_of("max_pool2d", 2));
      side /= 2;
      channels = std::min(2 * channels, 8 * width);
      add_convolution(1);
      add_convolution(1);
    } while (side >= kLeast);
    all.push_back(layer_of("adaptive_avg_pool2d", 1));
    all.push_back(layer_of("flatten"));
    add_dropout(all, dropout);
    all.push_back(layer_of("linear", at.data.outputs));
    return build_sequential(all, at);
  }
};

// Builds torchvision's network for pictures of any size.
template <ResNet (*network)(ResNetOptions)>
ModulePtr resnet_of(ResNetOptions o, const ModelSite& at) {
  const Shape in = at.data.input_shape, out = at.data.output_shape();
  check(in.size() == 3 && out.size() == 1, at, "images");
  o.num_classes = out[0];
  o.in_channels = in[0];
  o.device = at.device;
  return std::make_unique<ResNet>(network(o));
}

ModulePtr resnet9_of(ResNet9Options o, const ModelSite& at) {
  const Shape in = at.data.input_shape, out = at.data.output_shape();
  check(in.size() == 3 && out.size() == 1 && std::min(in[1], in[2]) >= 8, at,
        "images of at least 8 x 8 pixels");
  o.num_classes = out[0];
  o.in_channels = in[0];
  o.device = at.device;
  return std::make_unique<ResNet9>(o);
}

ModulePtr gpt(GPTOptions o, const ModelSite& at) {
  const DataInfo& data = at.data;
  const Shape in = data.input_shape;
  check(are_tokens(data) && data.output_shape() == Shape{in[0], data.vocab_size()}, at, "text");
  o.vocab_size = data.vocab_size();
  o.block_size = in[0];
  o.device = at.device;
  return std::make_unique<GPT>(o);
}

// Builds a classifier of texts, or a model of one or several values of each text.
template <class M, class Options> ModulePtr text_classifier(Options o, const ModelSite& at) {
  const Shape out = at.data.output_shape();
  check(are_tokens(at.data) && out.size() == 1, at, "tokens with a class or value for each text");
  o.vocab_size = at.data.vocab_size();
  o.num_classes = out[0];
  o.padding_idx = at.data.tokenizer->special_id(data::Tokenizer::kPadding);
  if constexpr (requires { o.max_len; }) o.max_len = at.data.input_shape[0];
  o.device = at.device;
  return std::make_unique<M>(o);
}

struct TabularSpec {
  std::vector<int64_t> hidden = {256, 128};
  std::string embedding = "auto";
  double dropout = 0.1;
  template <class V> void describe(V& v) {
    v("hidden", hidden, kWidth, "widths of the hidden layers");
    v("embedding", embedding, "width of a category's embedding; auto: by its number of words")
        .of_form("auto or an integer from 1 to 4096", is_width);
    v("dropout", dropout, kBelowOne, "dropout probability after each hidden layer");
  }
  ModulePtr make(const ModelSite& at) const {
    check(at.data.vocab_size() == 0 && at.data.input_shape.size() == 1, at, "rows of a table");
    int64_t dim = 0;
    (void)parse_number(embedding, dim);  // 0: auto
    return std::make_unique<TabularNet>(TabularNetOptions{.num_numbers = numbers_of(at.data),
                                                          .category_sizes = at.data.category_sizes,
                                                          .outputs = at.data.outputs,
                                                          .hidden = hidden,
                                                          .embedding_dim = dim,
                                                          .dropout = dropout,
                                                          .device = at.device});
  }

 private:
  static bool is_width(const std::string& text) {
    int64_t dim = 0;
    return text == "auto" || (parse_number(text, dim) == std::errc() && dim >= 1 && dim <= 4096);
  }
};

struct ForecasterSpec {
  std::vector<int64_t> hidden = {128, 128};
  double dropout = 0.1;
  template <class V> void describe(V& v) {
    v("hidden", hidden, kWidth, "widths of the hidden layers");
    v("dropout", dropout, kBelowOne, "dropout probability after each hidden layer");
  }
  ModulePtr make(const ModelSite& at) const {
    check(at.data.series != nullptr, at, "series");
    const int64_t past = at.data.series->past;
    return std::make_unique<Forecaster>(ForecasterOptions{.past = past,
                                                          .others = at.data.input_shape[0] - past,
                                                          .horizon = at.data.outputs,
                                                          .hidden = hidden,
                                                          .dropout = dropout,
                                                          .device = at.device});
  }
};

constexpr Models::Entry kModels[] = {
    {"mlp", Models::of<MlpSpec>},
    {"sequential", Models::of<SequentialSpec>},
    {"cnn", Models::of<CnnSpec>},
    {"convnet", Models::of<ConvNetSpec>},
    {"resnet18", Models::of<ResNetOptions, resnet_of<resnet18>>},
    {"resnet50", Models::of<ResNetOptions, resnet_of<resnet50>>},
    {"resnet9", Models::of<ResNet9Options, resnet9_of>},
    {"gpt", Models::of<GPTOptions, gpt>},
    {"bag_classifier",
     Models::of<BagClassifierOptions, text_classifier<BagClassifier, BagClassifierOptions>>},
    {"lstm_classifier",
     Models::of<LSTMClassifierOptions, text_classifier<LSTMClassifier, LSTMClassifierOptions>>},
    {"encoder_classifier",
     Models::of<EncoderClassifierOptions,
                text_classifier<EncoderClassifier, EncoderClassifierOptions>>},
    {"tabular", Models::of<TabularSpec>},
    {"forecaster", Models::of<ForecasterSpec>},
};

}  // namespace

Models& models() { return Models::registry("model", {kModels}); }

template <class... Types> static bool is_one_of(const Module& model) {
  return (... || (dynamic_cast<const Types*>(&model) != nullptr));
}

bool takes_any_length(const Module& model) {
  return is_one_of<GPT, BagClassifier, LSTMClassifier, EncoderClassifier>(model);
}

bool pays_for_padding(const Component& model) {
  return model.get_if<LSTMClassifierOptions>() || model.get_if<EncoderClassifierOptions>();
}

Tensor sample_batch(const DataInfo& data, int64_t count, Device device) {
  Shape shape = data.input_shape;
  shape.insert(0, count);
  return zeros(shape, {.dtype = data.vocab_size() > 0 ? kInt64 : kFloat32, .device = device});
}

ModulePtr build_model(const Component& config, const DataInfo& data, Device device) {
  return models().make(config, {data, device, config.place});
}

// Returns the path of the module in whose forward() the error was thrown; empty if it was thrown
// elsewhere.
static std::string path_of(const std::exception& error) {
  const auto* own = dynamic_cast<const Error*>(&error);
  return own ? own->module_path() : module_of(error);
}

void refuse_layer(Module& model, const Component& config, const std::exception& error) {
  const std::string path = path_of(error);
  if (path.empty()) return models().refuse_call(config, error);
  std::string where = concat_to_string(" (in module ", path);
  for (const auto& [name, module] : model.named_modules()) {
    if (name == path) where += concat_to_string(", ", module->type_name());
  }
  const auto* layered = config.get_if<SequentialSpec>();
  const auto& children = model.children();
  const bool has_one_hot = !children.empty() && children[0].second->type_name() == "OneHotColumns";
  size_t child = 0;
  const bool is_child =
      layered && parse_number(path.substr(0, path.find('.')), child) == std::errc();
  const size_t layer = child - has_one_hot;  // a huge number for the one-hot columns themselves
  if (is_child && layer < layered->entries.size()) {
    layers().refuse_call(layered->entries[layer], error, where + ")");
  }
  models().refuse_call(config, error, where + ")");
}

Tensor run_model(Module& model, const Component& config, const DataInfo& data,
                 const Tensor& x) try {
  const Tensor y = model(x);
  Shape needed = data.output_shape();
  if (data.task == Task::kLanguage) needed[0] = x.size(1);  // can be shorter than the data's length
  needed.insert(0, x.size(0));
  const auto refuse = [&](const auto&... what) {
    throw ConfigError(
        located(config.place, concat_to_string("model '", config.type, "' returns ", what...)));
  };
  if (!y.defined() || y.shape() != needed) {
    refuse(y.defined() ? concat_to_string("shape ", y.shape()) : "an undefined tensor",
           " for a batch of shape ", x.shape(), ", but the data need shape ", needed);
  }
  if (is_grad_enabled() && !y.requires_grad()) {
    refuse("a result that does not require grad: it is detached from the model's parameters");
  }
  return y;
} catch (const std::exception& error) {
  refuse_layer(model, config, error);
  throw;
}

bool computes_loss_in_blocks(const Module& model, const Loss& loss, int64_t tokens) {
  constexpr int64_t kManyLogits = kLossBlockBytes / 2;
  const auto* gpt = dynamic_cast<const GPT*>(&model);
  return gpt && loss.cross_entropy && !gpt->has_hooks() && !gpt->lm_head->has_hooks() &&
         checked_mul(tokens, gpt->options.vocab_size) > kManyLogits;
}

Tensor run_loss_in_blocks(Module& model, const Component& config, const Loss& loss,
                          const Tensor& tokens, const Tensor& targets) try {
  return dynamic_cast<GPT&>(model).loss(tokens, targets, *loss.cross_entropy);
} catch (const std::exception& error) {
  refuse_layer(model, config, error);
  throw;
}

Tensor run_before_head(Module& model, const Component& config, const Tensor& tokens) try {
  return sum(dynamic_cast<GPT&>(model).transformer(tokens));
} catch (const std::exception& error) {
  refuse_layer(model, config, error);
  throw;
}

void try_model(Module& model, const Component& config, const DataInfo& data, Device device) {
  if (!models().is_added(config.type)) return;  // built-in models fit by construction
  Generator apart(default_generator());
  const DrawGuard draws(apart);
  model.eval();
  (void)run_model(model, config, data, sample_batch(data, 2, device));
  model.train();
}

}  // namespace taper::v0::runner
