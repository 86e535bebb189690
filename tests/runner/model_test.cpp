// Models, optimizers and schedules that configs name.
#include <memory>
#include <set>
#include <tuple>

#include "apps/runner/base/errors.h"
#include "apps/runner/components/components.h"
#include "apps/runner/settings/run_config.h"
#include "autograd/engine.h"
#include "autograd/ops/binary_ops.h"
#include "autograd/ops/reduce_ops.h"
#include "autograd/ops/unary_ops.h"
#include "framework/factory/factories.h"
#include "framework/factory/generator.h"
#include "modules/layers/containers.h"
#include "modules/layers/linear.h"
#include "optim/algorithms/sgd.h"
#include "tests/data_files.h"

namespace taper::v0::runner {
namespace {

// Loads configs that have these lines after the sections that every config needs.
class ModelTest : public DataFiles {
 protected:
  ~ModelTest() override {
    layers() = layers_;
    models() = models_;
    optimizers() = optimizers_;
  }

  RunConfig config(const std::string& model, const std::string& optimizer = "{type: sgd}",
                   const std::string& more = "") const {
    return load_config(write("run.yaml", concat_to_string("data: {type: digits}\nmodel: ", model,
                                                          "\noptimizer: ", optimizer,
                                                          "\ntrain: {epochs: 1}\n", more, "\n")),
                       {});
  }
  std::unique_ptr<Module> build(const std::string& model, const DataInfo& data) const {
    return build_model(config(model).model, data, DeviceType::kCpu);
  }

 private:  // the registries without the components that a test adds
  const Layers layers_ = layers();
  const Models models_ = models();
  const Optimizers optimizers_ = optimizers();
};

DataInfo values(const Shape& input, int64_t outputs) {
  DataInfo info;
  info.input_shape = input;
  info.outputs = outputs;
  return info;
}
DataInfo text(int64_t block) {
  DataInfo info;
  info.task = Task::kLanguage;
  info.tokenizer = std::make_shared<const data::Tokenizer>(data::Tokenizer::chars("abcde"));
  info.input_shape = {block};
  info.outputs = 5;
  return info;
}

// --- layers ---

struct LayerRow {
  const char* layer;  // in YAML
  Shape in;
  int64_t out;         // number of values per sample
  int64_t parameters;  // number of parameters
};
const LayerRow kLayers[] = {
    {"relu", {3, 4}, 12, 0},
    {"gelu: tanh", {5}, 5, 0},
    {"tanh", {5}, 5, 0},
    {"sigmoid", {5}, 5, 0},
    {"silu", {5}, 5, 0},
    {"leaky_relu: 0.2", {5}, 5, 0},
    {"relu6", {5}, 5, 0},
    {"elu: 0.5", {5}, 5, 0},
    {"hardtanh: {min_val: -2, max_val: 2}", {5}, 5, 0},
    {"softplus: {beta: 2}", {5}, 5, 0},
    {"mish", {5}, 5, 0},
    {"selu", {5}, 5, 0},
    {"celu: 0.5", {5}, 5, 0},
    {"hardsigmoid", {5}, 5, 0},
    {"hardswish", {5}, 5, 0},
    {"logsigmoid", {5}, 5, 0},
    {"softsign", {5}, 5, 0},
    {"tanhshrink", {5}, 5, 0},
    {"hardshrink: 0.2", {5}, 5, 0},
    {"softshrink", {5}, 5, 0},
    {"prelu", {5}, 5, 1},
    {"glu", {6}, 3, 0},
    {"softmax: 1", {5}, 5, 0},
    {"log_softmax", {5}, 5, 0},
    {"identity", {5}, 5, 0},
    {"linear: 7", {5}, 7, 42},
    {"linear: {out_features: 7, bias: false}", {2, 5}, 14, 35},
    {"conv1d: {out_channels: 4, kernel_size: 3}", {2, 8}, 24, 28},
    {"conv2d: {out_channels: 4, kernel_size: 3, stride: 2, padding: 1}", {2, 8, 8}, 64, 76},
    {"conv2d: {out_channels: 4, kernel_size: [1, 3], padding: same, groups: 2}",
     {2, 5, 6},
     120,
     16},
    {"conv3d: {out_channels: 4, kernel_size: 3, padding: 1}", {2, 3, 4, 5}, 240, 220},
    {"conv_transpose1d: {out_channels: 4, kernel_size: 3}", {2, 8}, 40, 28},
    {"conv_transpose2d: {out_channels: 4, kernel_size: 2, stride: 2}", {2, 3, 3}, 144, 36},
    {"conv_transpose3d: {out_channels: 4, kernel_size: 2, stride: 2}", {2, 1, 2, 3}, 192, 68},
    {"zero_pad2d: 1", {2, 3, 3}, 50, 0},
    {"reflection_pad2d: 1", {2, 3, 3}, 50, 0},
    {"replication_pad2d: [1, 2]", {2, 3, 3}, 70, 0},
    {"circular_pad2d: 1", {2, 3, 3}, 50, 0},
    {"zero_pad3d: 1", {2, 1, 3, 3}, 150, 0},
    {"reflection_pad3d: [0, 1, 1]", {2, 1, 3, 3}, 50, 0},
    {"replication_pad3d: [1, 2, 0]", {2, 1, 3, 3}, 126, 0},
    {"circular_pad3d: 1", {2, 1, 3, 3}, 150, 0},
    {"unfold: 2", {2, 3, 3}, 32, 0},
    {"fold: {output_size: 3, kernel_size: 2}", {8, 4}, 18, 0},
    {"pixel_shuffle: 2", {4, 3, 3}, 36, 0},
    {"pixel_unshuffle: 2", {1, 4, 4}, 16, 0},
    {"max_pool1d: 2", {2, 8}, 8, 0},
    {"max_pool2d: {kernel_size: 3, stride: 2, padding: 1}", {2, 8, 8}, 32, 0},
    {"max_pool3d: {kernel_size: 3, stride: [1, 2, 2], padding: 1}", {2, 4, 8, 8}, 128, 0},
    {"avg_pool1d: 2", {2, 8}, 8, 0},
    {"avg_pool2d: {kernel_size: 2, ceil_mode: true}", {2, 5, 5}, 18, 0},
    {"avg_pool3d: {kernel_size: [1, 2, 2], ceil_mode: true}", {2, 3, 5, 5}, 54, 0},
    {"adaptive_avg_pool1d: 3", {2, 8}, 6, 0},
    {"adaptive_avg_pool2d: [2, 3]", {2, 8, 8}, 12, 0},
    {"adaptive_avg_pool3d: [1, 2, 3]", {2, 4, 8, 8}, 12, 0},
    {"adaptive_max_pool1d: 3", {2, 8}, 6, 0},
    {"adaptive_max_pool2d: [2, 3]", {2, 8, 8}, 12, 0},
    {"adaptive_max_pool3d: 2", {2, 4, 8, 8}, 16, 0},
    {"batch_norm1d", {6}, 6, 12},
    {"batch_norm2d: {affine: false}", {6, 2, 2}, 24, 0},
    {"batch_norm3d", {6, 2, 2, 1}, 24, 12},
    {"instance_norm1d", {2, 8}, 16, 0},
    {"instance_norm2d: {affine: true}", {6, 2, 2}, 24, 12},
    {"instance_norm3d: {affine: true}", {6, 2, 2, 1}, 24, 12},
    {"group_norm: 3", {6, 2, 2}, 24, 12},
    {"layer_norm", {4, 6}, 24, 12},
    {"layer_norm: {normalized_shape: [4, 6], bias: false}", {4, 6}, 24, 24},
    {"rms_norm", {4, 6}, 24, 6},
    {"dropout: 0.3", {5}, 5, 0},
    {"dropout2d: 0.3", {2, 3, 3}, 18, 0},
    {"dropout3d: 0.3", {2, 3, 3, 1}, 18, 0},
    {"flatten", {2, 3}, 6, 0},
    {"unflatten: {unflattened_size: [2, -1]}", {6}, 6, 0},
    {"upsample: {scale_factor: 2, mode: bilinear}", {1, 3, 3}, 36, 0},
    {"upsample: {scale_factor: 2, mode: trilinear}", {1, 2, 3, 3}, 144, 0},
    {"upsample: {size: [2, 3, 4]}", {1, 2, 3, 3}, 24, 0},
    {"rnn: {hidden_size: 4, last_step: true}", {7, 3}, 4, 36},
    {"lstm: {hidden_size: 4, last_step: true}", {7, 3}, 4, 144},
    {"gru: {hidden_size: 4, num_layers: 2, bidirectional: true}", {7, 3}, 56, 552},
    {"transformer_encoder_layer: {nhead: 2, dim_feedforward: 8}", {7, 4}, 28, 172},
};

TEST_F(ModelTest, EveryLayerOfASequentialModelInfersItsInput) {
  std::set<std::string> seen = {"embedding", "embedding_bag"};  // tested below
  for (const LayerRow& row : kLayers) {
    SCOPED_TRACE(row.layer);
    const std::string model =
        concat_to_string("{type: sequential, layers: [", row.layer, ", flatten]}");
    const RunConfig c = config(model);
    const std::string name = row.layer;
    seen.insert(name.substr(0, name.find(':')));
    const DataInfo data = values(row.in, row.out);
    const auto built = build_model(c.model, data, DeviceType::kCpu);
    EXPECT_TRUE(built->is_training());
    EXPECT_EQ(built->num_parameters(), row.parameters);
    EXPECT_EQ((*built)(sample_batch(data, 3, DeviceType::kCpu)).shape(), Shape({3, row.out}));
  }
  for (const std::string& name : layers().names()) EXPECT_EQ(seen.count(name), 1u) << name;
}

TEST_F(ModelTest, AnEmbeddingTakesTheVocabularyOfTheData) {
  const DataInfo data = text(4);
  const auto model =
      build("{type: sequential, layers: [embedding: 3, gru: {hidden_size: 6}, linear: 5]}", data);
  EXPECT_EQ(model->parameters()[0].shape(), Shape({5, 3}));
  EXPECT_EQ((*model)(sample_batch(data, 2, DeviceType::kCpu)).shape(), Shape({2, 4, 5}));
  const auto bag = build(
      "{type: sequential, layers: [embedding_bag: 3, linear: 20, "
      "unflatten: {unflattened_size: [4, 5]}]}",
      data);
  EXPECT_EQ(bag->parameters()[0].shape(), Shape({5, 3}));
  EXPECT_EQ((*bag)(sample_batch(data, 2, DeviceType::kCpu)).shape(), Shape({2, 4, 5}));
}

// The initial weights must not depend on the calls that infer shapes.
TEST_F(ModelTest, BuildingDrawsInitialWeightsAlone) {
  manual_seed(3);
  const auto model = build("{type: sequential, layers: [dropout, linear: 2]}", values({3}, 2));
  manual_seed(3);
  const Linear alone(3, 2);
  EXPECT_EQ(model->parameters()[0].to_floats(), alone.weight->to_floats());
  EXPECT_EQ(default_generator().state().stream, 2u);
}

struct ReadyRow {
  const char* model;
  DataInfo data;
  int64_t parameters;
  const char* key;  // a name in the state dict
};

TEST_F(ModelTest, ReadyModelsFitTheData) {
  DataInfo names = text(6);
  names.task = Task::kClassification;
  names.outputs = 3;
  const ReadyRow rows[] = {
      {"{type: mlp, hidden: [8, 8], dropout: 0.1}", values({1, 4, 4}, 3), 136 + 72 + 27,
       "1.weight"},
      {"{type: mlp, hidden: []}", values({6}, 1), 7, "0.weight"},
      // the model of PyTorch's example
      {"{type: cnn}", values({1, 28, 28}, 10), 1199882, "0.weight"},
      {"{type: resnet18, width: 4}", values({3, 32, 32}, 10), 45102, "layer1.0.conv1.weight"},
      {"{type: resnet50, width: 4}", values({3, 32, 32}, 10), 96782, "layer1.0.conv3.weight"},
      {"{type: resnet9, width: 4}", values({3, 32, 32}, 10), 26340, "layer1.0.weight"},
      {"{type: gpt, n_layer: 1, n_head: 2, n_embd: 8}", text(6), 976,
       "transformer.h.0.attn.c_attn.weight"},
      {"{type: lstm_classifier, embedding_dim: 4, hidden_size: 8}", names, 20 + 448 + 27,
       "lstm.weight_ih_l0"},
  };
  for (const ReadyRow& row : rows) {
    SCOPED_TRACE(row.model);
    const auto model = build(row.model, row.data);
    EXPECT_EQ(model->num_parameters(), row.parameters);
    Shape out = row.data.output_shape();
    out.insert(0, 2);
    EXPECT_EQ((*model)(sample_batch(row.data, 2, DeviceType::kCpu)).shape(), out);
    std::set<std::string> names_of_state;
    for (const NamedTensor& t : model->state_dict()) names_of_state.insert(t.name);
    EXPECT_TRUE(names_of_state.contains(row.key));
  }
}

struct WrongModel {
  const char* model;
  DataInfo data;
  std::vector<std::string> says;
};

TEST_F(ModelTest, ShapesThatDoNotFitAreRefusedAtTheLayer) {
  const WrongModel rows[] = {
      {"{type: sequential, layers: [linear: 4, conv2d: {out_channels: 3, kernel_size: 3}]}",
       values({6}, 3),
       {"run.yaml:2:47", "shape [4]", "conv2d"}},
      {"{type: sequential, layers: [flatten, linear: 4]}",
       values({1, 2, 3}, 3),
       {"run.yaml:2:45", "returns shape [4]", "need shape [3]", "`linear: 3`"}},
      {"{type: sequential, layers: [linear: 3]}",
       values({1, 2, 6}, 3),
       {"run.yaml:2:36", "returns shape [1, 2, 3]", "flatten"}},
      {"{type: sequential, layers: [group_norm: 4]}",
       values({6, 2, 2}, 3),
       {"run.yaml:2:36", "divisible"}},
      {"{type: sequential, layers: [max_pool2d: 9, flatten]}",
       values({1, 4, 4}, 1),
       {"run.yaml:2:36", "[1, 4, 4]"}},
      {"{type: mlp}", text(4), {"run.yaml:2:8", "numbers", "tokens"}},
      {"{type: gpt}", values({1, 4, 4}, 3), {"run.yaml:2:8", "text", "[1, 4, 4]"}},
      {"{type: resnet18}", values({5}, 3), {"run.yaml:2:8", "images", "[5]"}},
      {"{type: resnet9}", values({3, 32, 7}, 3), {"run.yaml:2:8", "images of at least 8 x 8"}},
      {"{type: cnn}", values({1, 5, 5}, 3), {"run.yaml:2:8", "[64, 1, 1]"}},
  };
  for (const WrongModel& row : rows) {
    SCOPED_TRACE(row.model);
    const std::string message = refusal_of<ConfigError>([&] { (void)build(row.model, row.data); });
    for (const std::string& part : row.says) {
      EXPECT_NE(message.find(part), std::string::npos) << part << " in:\n" << message;
    }
  }
}

struct OneLineOptions {
  bool bias = true;
  template <class V> void describe(V& v) { v("bias", bias, "whether a bias is added"); }
};

TEST_F(ModelTest, AProgramRegistersModelsOfItsOwn) {
  const auto make = [](const OneLineOptions& o, const ModelSite& at) {
    return std::make_unique<Linear>(at.data.input_shape[0], at.data.outputs,
                                    LinearOptions{o.bias, at.device});
  };
  register_model<OneLineOptions>("one_line", make);
  EXPECT_EQ(build("{type: one_line}", values({4}, 2))->num_parameters(), 10);
  EXPECT_EQ(build("{type: one_line, bias: false}", values({4}, 2))->num_parameters(), 8);
  EXPECT_THROW(register_model<OneLineOptions>("one_line", make), ValueError);
  EXPECT_THROW(register_model<OneLineOptions>("one: line", make), ValueError);
  const std::string message = refusal_of<ConfigError>([&] { (void)config("{type: one_lime}"); });
  EXPECT_NE(message.find("run.yaml:2:15: model.type: expected one of mlp, "), std::string::npos);
  EXPECT_NE(message.find("got 'one_lime'; did you mean 'one_line'?"), std::string::npos) << message;
}

TEST_F(ModelTest, AModelOfItsOwnThatDoesNotFitTheDataIsNamedWithBothShapes) {
  struct Wrong : Module {
    explicit Wrong(const ModelSite& at, Tensor (*g)(const Tensor&), int64_t more)
        : f(g), fc(*this, "fc", at.data.input_shape[0], at.data.outputs + more) {}
    Tensor forward(const Tensor& x) override { return f(fc(x)); }
    Tensor (*const f)(const Tensor&);
    Child<Linear> fc;
  };
  struct Row {
    Tensor (*f)(const Tensor&);
    int64_t more;
    const char* says;  // what follows the model's name
  };
  const Row rows[] = {
      {[](const Tensor& y) { return y; }, 1,
       "shape [2, 4] for a batch of shape [2, 5], but the "
       "data need shape [2, 3]"},
      {[](const Tensor& y) { return y; }, -1, "shape [2, 2] for"},
      {[](const Tensor& y) { return sum(y, {1}); }, 0, "shape [2] for"},
      {[](const Tensor& y) { return y.narrow(0, 0, 1); }, 0, "shape [1, 3] for"},
      {[](const Tensor&) { return Tensor(); }, 0, "an undefined tensor for"},
      {[](const Tensor& y) { return y.detach(); }, 0, "a result that does not require grad"},
  };
  const DataInfo data = values({5}, 3);
  for (int number = 0; const auto& [f, more, says] : rows) {
    SCOPED_TRACE(says);
    const std::string name = concat_to_string("wrong_", number++);
    register_model<OneLineOptions>(name, [f, more](const OneLineOptions&, const ModelSite& at) {
      return std::make_unique<Wrong>(at, f, more);
    });
    const Component c = config(concat_to_string("{type: ", name, "}")).model;
    const auto model = build_model(c, data, DeviceType::kCpu);
    const std::string refusal =
        refusal_of<ConfigError>([&] { try_model(*model, c, data, DeviceType::kCpu); });
    EXPECT_NE(refusal.find(concat_to_string("run.yaml:2:8: model '", name, "' returns ", says)),
              std::string::npos)
        << refusal;
  }
}

TEST_F(ModelTest, AModelOfTheCommandLineIsRefusedThere) {
  const std::string file = write(
      "run.yaml",
      "data: {type: digits}\nmodel: {type: mlp}\noptimizer: {type: sgd}\ntrain: {epochs: 1}\n");
  const Component c = load_config(file, {"model.type=gpt"}).model;
  const std::string refusal = refusal_of<ConfigError>([&] {
    (void)build_model(c, values({1, 4, 4}, 3), DeviceType::kCpu);
  });
  EXPECT_TRUE(refusal.starts_with("override: model.type=gpt: this model takes text")) << refusal;
}

struct WrongOptions {
  std::string key = "width", mode = "a";
  int64_t width = 1, other = 1;
  template <class V> void describe(V& v) {
    v("width", width, kWidth, "in range");
    v(key.c_str(), other, kAny, "of any name");
    v("mode", mode, {"a", "b"}, "one of two");
  }
};
template <int kRow> struct WrongOptionsOf : WrongOptions {
  WrongOptionsOf() {
    key = kRow == 0 ? "width" : kRow == 1 ? "type" : "other";
    if (kRow == 2) width = 0;
    if (kRow == 3) mode = "c";
  }
};

TEST_F(ModelTest, OptionsThatNoConfigCanHaveAreRefusedAtRegistration) {
  const auto refusal = []<class Options>(const Options&) {
    return refusal_of<ValueError>([] {
      register_model<Options>(
          "wrong", [](const auto&, const ModelSite&) { return std::make_unique<Sequential>(); });
    });
  };
  EXPECT_EQ(refusal(WrongOptionsOf<0>()),
            "model 'wrong': the key 'width' is reserved or used twice");
  EXPECT_EQ(refusal(WrongOptionsOf<1>()),
            "model 'wrong': the key 'type' is reserved or used twice");
  EXPECT_EQ(refusal(WrongOptionsOf<2>()),
            "model 'wrong': the default of 'width' must be an integer, at least 1 and at most "
            "16777216");
  EXPECT_EQ(refusal(WrongOptionsOf<3>()),
            "model 'wrong': the default of 'mode' must be one of a, b");
  EXPECT_EQ(refusal(WrongOptionsOf<4>()), "accepted");
}

// y = by * x + shift, with a learned shift.
struct ScaleOptions {
  double by = 2;
  template <class V> void describe(V& v) { v("by", by, kPositive, "factor of the test's layer"); }
};
struct ScaleLayer : Module {
  ScaleLayer(int64_t features, double by, Device device)
      : factor(by), shift(*this, "shift", zeros({features}, {.device = device})) {}
  Tensor forward(const Tensor& x) override { return x * factor + shift; }
  std::string type_name() const override { return "Scale"; }

  const double factor;
  Parameter shift;
};

// A layer that consists of its forward function.
struct OddOptions {
  template <class V> void describe(V&) {}
};
struct OddLayer : Module {
  explicit OddLayer(Tensor (*g)(const Tensor&)) : f(g) {}
  Tensor forward(const Tensor& x) override { return f(x); }
  std::string type_name() const override { return "Odd"; }
  Tensor (*const f)(const Tensor&);
};

TEST_F(ModelTest, AWrongLayerOfItsOwnIsNamed) {
  using Forward = Tensor (*)(const Tensor&);
  const auto add = [](const std::string& name, Forward f) {
    register_layer<OddOptions>(
        name, [f](const OddOptions&, const LayerSite&) { return std::make_unique<OddLayer>(f); });
  };
  add("odd_scalar", [](const Tensor& x) { return sum(x); });
  add("odd_flat", [](const Tensor& x) { return sum(x, {1}); });
  add("odd_nothing", [](const Tensor&) { return Tensor(); });
  add("odd_throws", [](const Tensor&) -> Tensor { throw std::runtime_error("my own"); });
  register_layer<OddOptions>(
      "odd_null", [](const OddOptions&, const LayerSite&) { return std::unique_ptr<Module>(); });
  register_layer<OddOptions>("odd_factory",
                             [](const OddOptions&, const LayerSite&) -> std::unique_ptr<Module> {
                               throw std::runtime_error("my factory");
                             });
  const std::vector<std::tuple<const char*, ExitCode, const char*>> rows = {
      {"odd_scalar", kExitConfig, "layer 0 (odd_scalar) returns a tensor of shape []"},
      {"odd_flat", kExitConfig, "layer 0 (odd_flat) returns a tensor of shape [1]"},
      {"odd_nothing", kExitConfig, "layer 0 (odd_nothing) returns an undefined tensor"},
      {"odd_throws", kExitBug,
       "an exception of type std::runtime_error from the layer 'odd_throws', which is not part of "
       "Taper: my own"},
      {"odd_null", kExitBug,
       "layer 'odd_null', which is not part of Taper: its factory returned null"},
      {"odd_factory", kExitBug,
       "an exception of type std::runtime_error from the layer 'odd_factory', which is not part of "
       "Taper: my factory"},
  };
  for (const auto& [name, code, says] : rows) {
    SCOPED_TRACE(name);
    try {
      (void)build(concat_to_string("{type: sequential, layers: [", name, ", linear: 2]}"),
                  values({4}, 2));
      ADD_FAILURE() << "accepted";
    } catch (const RunError& error) {
      EXPECT_EQ(error.code, code);
      const std::string message = error.what();
      EXPECT_NE(message.find(concat_to_string("run.yaml:2:36: ", says)), std::string::npos)
          << message;
    }
  }
  // The original exception is nested in the error.
  try {
    (void)build("{type: sequential, layers: [odd_throws, linear: 2]}", values({4}, 2));
  } catch (const ForeignError& error) {
    EXPECT_THROW(error.rethrow_nested(), std::runtime_error);
  }
}

TEST_F(ModelTest, AProgramRegistersLayersOfItsOwn) {
  register_layer<ScaleOptions>("scale_test", [](const ScaleOptions& o, const LayerSite& at) {
    return std::make_unique<ScaleLayer>(at.in.back(), o.by, at.device);
  });
  const RunConfig c = config("{type: sequential, layers: [flatten, scale_test: 3, linear: 10]}",
                             "{type: sgd, lr: 0.1}");
  EXPECT_NE(to_yaml(c).find("    - scale_test: {by: 3}\n"), std::string::npos) << to_yaml(c);
  const std::string refusal =
      refusal_of<ConfigError>([&] { (void)config("{type: sequential, layers: [scale_test: 0]}"); });
  EXPECT_NE(refusal.find("run.yaml:2:48: model.layers.0.scale_test.by: expected a number, above 0"),
            std::string::npos)
      << refusal;
  EXPECT_NE(json_schema().find("factor of the test's layer"), std::string::npos);
  EXPECT_NE(config_reference().find("| `scale_test` | `by` | a number, above 0 | `2` |"),
            std::string::npos);

  const DataInfo data = values({2, 3}, 10);
  manual_seed(1);
  const auto model = build_model(c.model, data, DeviceType::kCpu);
  const auto optimizer = build_optimizer(c.optimizer, {*model, c.optimizer.no_decay});
  const Tensor x = randn({8, 2, 3});
  const auto loss = [&] { return mean(square((*model)(x))); };
  const float before = loss().item<float>();
  loss().backward();
  optimizer->step();
  EXPECT_LT(loss().item<float>(), before);
  EXPECT_EQ(model->named_parameters()[0].name, "1.shift");
}

TEST_F(ModelTest, RowsOfATableAreUnique) {
  const ComponentRegistry* const kinds[] = {&layers(), &models(), &losses(), &optimizers(),
                                            &schedules()};
  for (const ComponentRegistry* kind : kinds) {
    const std::vector<std::string> names = kind->names();
    EXPECT_EQ(std::set(names.begin(), names.end()).size(), names.size());
  }
}

// --- optimizers ---

TEST_F(ModelTest, EveryOptimizerLearns) {
  const char* optimizers[] = {"{type: sgd, lr: 0.1, momentum: 0.9, nesterov: true}",
                              "{type: adam, amsgrad: true}",
                              "{type: adamw, no_decay: true}",
                              "{type: adagrad}",
                              "{type: adadelta, rho: 0.8}",
                              "{type: rmsprop, centered: true}",
                              "{type: lion}",
                              "{type: muon, adjust_lr_fn: match_rms_adamw, no_decay: true}"};
  const DataInfo data = values({4}, 2);
  for (const char* text : optimizers) {
    SCOPED_TRACE(text);
    const RunConfig c = config("{type: mlp, hidden: [8, 8]}", text);
    manual_seed(1);
    const auto model = build_model(c.model, data, DeviceType::kCpu);
    const auto optimizer = build_optimizer(c.optimizer, {*model, c.optimizer.no_decay});
    EXPECT_EQ(optimizer->parameters().size(), model->parameters().size());
    const Tensor x = randn({16, 4});
    const auto loss = [&] { return mean(square((*model)(x))); };
    const float before = loss().item<float>();
    for (int i = 0; i < 20; ++i) {
      optimizer->zero_grad();
      loss().backward();
      optimizer->step();
    }
    EXPECT_LT(loss().item<float>(), before);
    const auto again = build_optimizer(c.optimizer, {*model, c.optimizer.no_decay});
    again->load_state_dict(optimizer->state_dict());
  }
}

TEST_F(ModelTest, AProgramRegistersOptimizersOfItsOwn) {
  register_optimizer<optim::LionOptions>("lion_test");
  const RunConfig c =
      config("{type: mlp, hidden: [4]}", "{type: lion_test, lr: 0.5, no_decay: true}");
  EXPECT_NE(to_yaml(c).find("  type: lion_test\n  lr: 0.5\n  betas: [0.9, 0.99]\n"),
            std::string::npos);
  EXPECT_NE(config_reference().find("| `lion_test` | `lr` |"), std::string::npos);
  const auto model = build_model(c.model, values({3}, 2), DeviceType::kCpu);
  const auto optimizer = build_optimizer(c.optimizer, {*model, c.optimizer.no_decay});
  EXPECT_EQ(optimizer->lr(), 0.5);
  EXPECT_EQ(optimizer->num_groups(), 2u);
  EXPECT_THROW(register_optimizer<optim::LionOptions>("sgd"), ValueError);
}

TEST_F(ModelTest, NoDecayMakesAGroupOfVectors) {
  const RunConfig c = config("{type: mlp, hidden: [8]}", "{type: adamw, no_decay: true}");
  const auto model = build_model(c.model, values({4}, 2), DeviceType::kCpu);
  EXPECT_EQ(build_optimizer(c.optimizer, {*model, c.optimizer.no_decay})->num_groups(), 2u);
  const RunConfig plain =
      config("{type: sequential, layers: [linear: {out_features: 2, bias: false}]}",
             "{type: adamw, no_decay: true}");
  const auto matrix = build_model(plain.model, values({4}, 2), DeviceType::kCpu);
  EXPECT_EQ(build_optimizer(plain.optimizer, {*matrix, plain.optimizer.no_decay})->num_groups(),
            1u);
}

TEST_F(ModelTest, ModelsThatCannotBeTrainedAreRefused) {
  const auto refusal = [&](const char* model, const char* optimizer) {
    const RunConfig c = config(model, optimizer);
    const auto built = build_model(c.model, values({3}, 3), DeviceType::kCpu);
    return refusal_of<ConfigError>([&] {
      (void)build_optimizer(c.optimizer, {*built, c.optimizer.no_decay});
    });
  };
  EXPECT_EQ(refusal("{type: sequential, layers: [relu]}", "{type: sgd}"),
            "the model has no parameters to train");
  EXPECT_NE(refusal("{type: sequential, layers: [linear: 3]}", "{type: muon}").find("adamw"),
            std::string::npos);
}

// --- schedules ---

struct ScheduleRow {
  const char* schedule;
  std::vector<double> rates;  // at steps 0, 1, ...; 10 steps, 5 per epoch, lr 1
};

TEST_F(ModelTest, SchedulesFollowTheirFormulas) {
  const ScheduleRow rows[] = {
      {"{type: constant}", {1, 1, 1}},
      {"{type: constant, warmup: 3}", {0.25, 0.5, 0.75, 1, 1}},
      {"{type: linear}", {1, 0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3, 0.2, 0.1}},
      {"{type: linear, end_factor: 0.5, total_iters: 2}", {1, 0.75, 0.5, 0.5}},
      {"{type: linear, warmup: 5}", {1. / 6, 2. / 6, 3. / 6, 4. / 6, 5. / 6, 1, 0.8, 0.6}},
      {"{type: step, step_size: 2, gamma: 0.5}", {1, 1, 0.5, 0.5, 0.25}},
      {"{type: step, step_size: 1, gamma: 0.5, per: epoch}", {1, 1, 1, 1, 1, 0.5, 0.5}},
      {"{type: multi_step, milestones: [1, 3]}", {1, 0.1, 0.1, 0.01}},
      {"{type: exponential, gamma: 0.5}", {1, 0.5, 0.25}},
      {"{type: polynomial, power: 2}", {1, 0.81, 0.64}},
      {"{type: cosine, min_lr: 0.2, total_iters: 2}", {1, 0.6, 0.2, 0.2}},
      {"{type: cosine, warmup: 2, total_iters: 2}", {1. / 3, 2. / 3, 1, 0.5, 0, 0}},
      {"{type: cosine_restarts, T_0: 2}", {1, 0.5, 1, 0.5}},
      {"{type: one_cycle, max_lr: 2, pct_start: 0.3, anneal_strategy: linear, total_iters: 10}",
       {0.08, 1.04, 2}},
      {"{type: plateau}", {1, 1}},
  };
  for (const ScheduleRow& row : rows) {
    SCOPED_TRACE(row.schedule);
    const RunConfig c =
        config("{type: mlp}", "{type: sgd, lr: 1}", concat_to_string("schedule: ", row.schedule));
    const optim::Schedule schedule = build_schedule(c.schedule, c.schedule.warmup, {1, 10, 5});
    const double base = schedule.base_lrs.empty() ? 1 : schedule.base_lrs[0];
    for (size_t t = 0; t < row.rates.size(); ++t) {
      EXPECT_NEAR(schedule.lr(int64_t(t), base), row.rates[t], 1e-12) << "step " << t;
    }
    for (int64_t t = 0; t < 12; ++t) EXPECT_GE(schedule.lr(t, base), 0) << "step " << t;
    EXPECT_EQ(plateau_of(c.schedule).has_value(), c.schedule.type == "plateau");
  }
}

}  // namespace
}  // namespace taper::v0::runner
