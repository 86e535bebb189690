// Models whose parts are on several devices: the same bits as on one device, where tensors are, and
// what is refused. The devices are two CPU devices and, where there are two GPUs, these.
#include "modules/placement.h"

#include <algorithm>
#include <functional>
#include <memory>

#include <gtest/gtest.h>

#include "autograd/activation_checkpoint.h"
#include "autograd/ops/binary_ops.h"
#include "autograd/ops/matmul_ops.h"
#include "autograd/ops/nn/loss_ops.h"
#include "autograd/ops/reduce_ops.h"
#include "autograd/ops/shape_ops.h"
#include "autograd/ops/unary_ops.h"
#include "autograd/step_graph.h"
#include "framework/distributed/communicator.h"
#include "framework/factory/factories.h"
#include "modules/data_parallel.h"
#include "modules/layers/containers.h"
#include "modules/layers/linear.h"
#include "modules/layers/norm_layers.h"
#include "modules/layers/rnn_layers.h"
#include "modules/layers/stateless.h"
#include "modules/layers/transformer.h"
#include "modules/models/gpt.h"
#include "modules/models/resnet.h"
#include "modules/models/tabular.h"
#include "modules/models/text_classifiers.h"
#include "optim/algorithms/adam.h"
#include "optim/clip.h"
#include "optim/ema.h"
#include "tests/modules/modules.h"
#include "tests/testing.h"

namespace taper::v0::test {
namespace {

using Rules = std::vector<PlacementRule>;

// --- models ---

// A residual branch, a parameter of its own, a buffer, a list of layers, and a checkpointed part.
struct Mixed : ModuleOf<Mixed> {
  Child<Linear> in{*this, "in", 4, 6};
  Child<ModuleList> layers{*this, "layers"};
  Child<BatchNorm1d> norm{*this, "norm", 6};
  Child<Linear> saved{*this, "saved", 6, 6};
  Parameter shift{*this, "shift", numbers({6})};
  Buffer scale{*this, "scale", numbers({6})};

  Mixed() {
    for (int i = 0; i < 3; ++i) layers->add<Linear>(6, 6);
  }
  Tensor forward(const Tensor& x) override {
    Tensor y = in(x) + shift;
    for (int64_t i = 0; i < layers->size(); ++i) y = y + tanh(layers[i](y)) * scale;
    y = checkpoint([this](const std::vector<Tensor>& z) { return z[0] + saved(z[0]); }, {y});
    return norm(y);
  }
};

// Gets masks as arguments, and a state that it passes to a recurrent layer.
struct Masked : ModuleOf<Masked> {
  Child<Transformer> transformer{*this, "transformer", 8, 2,
                                 TransformerOptions{.num_encoder_layers = 2,
                                                    .num_decoder_layers = 2,
                                                    .dim_feedforward = 16,
                                                    .dropout = 0.1,
                                                    .batch_first = true}};
  Child<LSTM> lstm{*this, "lstm", 8, 8, RnnOptions{.num_layers = 2, .batch_first = true}};

  Tensor forward(const Tensor& x) override {
    const TensorOptions here{.device = x.device()};
    const Tensor mask = Transformer::generate_square_subsequent_mask(x.size(1), here);
    const Tensor y = transformer(x, x, {.src_mask = mask, .tgt_mask = mask, .memory_mask = mask});
    const Tensor zero = zeros({2, x.size(0), 8}, here);
    return lstm(y, {zero, zero}).output;
  }
};

struct AnyModel {
  const char* name;
  std::function<std::unique_ptr<Module>()> make;
  std::function<Tensor()> input;
};

template <class M, class Options> std::function<std::unique_ptr<Module>()> maker(Options o) {
  return [o] { return std::make_unique<M>(o); };
}

Tensor tokens() { return remainder(arange(2 * 6, {.dtype = kInt64}), 5).reshape({2, 6}); }

std::vector<AnyModel> all_models() {
  const auto image = [] { return numbers({2, 3, 32, 32}); };
  const auto rows = [] { return cat({numbers({3, 2}), zeros({3, 2})}, 1); };
  return {
      {"GPT",
       maker<GPT>(GPTOptions{.vocab_size = 5,
                             .block_size = 8,
                             .n_layer = 4,
                             .n_head = 2,
                             .n_embd = 8,
                             .dropout = 0.1}),
       tokens},
      {"ResNet",
       [] {
         return std::make_unique<ResNet>(std::array<int64_t, 4>{1, 2, 1, 1},
                                         ResNetOptions{.num_classes = 4, .width = 4});
       },
       image},
      {"LSTMClassifier",
       maker<LSTMClassifier>(LSTMClassifierOptions{.vocab_size = 5,
                                                   .num_classes = 3,
                                                   .embedding_dim = 4,
                                                   .hidden_size = 4,
                                                   .num_layers = 2,
                                                   .dropout = 0.1}),
       tokens},
      {"EncoderClassifier",
       maker<EncoderClassifier>(EncoderClassifierOptions{
           .vocab_size = 5, .num_classes = 3, .d_model = 8, .nhead = 2, .dim_feedforward = 8}),
       tokens},
      {"TabularNet",
       maker<TabularNet>(TabularNetOptions{
           .num_numbers = 2, .category_sizes = {3, 3}, .outputs = 2, .hidden = {5, 5}}),
       rows},
      {"Sequential",
       [] {
         return std::make_unique<Sequential>(Linear(4, 6), ReLU(), BatchNorm1d(6), Dropout(0.2),
                                             Sequential(Linear(6, 6), GELU(), Linear(6, 6)),
                                             Linear(6, 2));
       },
       [] {
         return numbers({5, 4});
       }},
      {"Mixed", [] { return std::make_unique<Mixed>(); },
       [] {
         return numbers({5, 4});
       }},
      {"Masked", [] { return std::make_unique<Masked>(); },
       [] {
         return numbers({2, 5, 8});
       }},
  };
}

// Returns a pattern for each module with at least one and at most `depth` names in its path.
// Neighbors are on different devices.
Rules alternating(Module& model, size_t depth, Device first, Device second) {
  Rules rules;
  bool is_second = true;
  for (const auto& [path, module] : model.named_modules()) {
    if (path.empty() || size_t(std::ranges::count(path, '.')) + 1 > depth) continue;
    const bool is_tied = path == "lm_head" || path == "transformer.wte";
    rules.push_back({path, is_second && !is_tied ? second : first});
    is_second = !is_second;
  }
  // The head of a GPT is tied to an embedding, which is only named in greater depths.
  const auto is_transformer = [](const PlacementRule& r) { return r.pattern == "transformer"; };
  const bool has_head =
      std::ranges::any_of(rules, [](const auto& r) { return r.pattern == "lm_head"; });
  if (has_head && depth == 1) std::erase_if(rules, is_transformer);
  return rules;
}

// --- training ---

struct Trained {
  std::vector<Tensor> losses;
  std::vector<NamedTensor> state;  // weights, buffers, state of the optimizer, averages
};

// Trains for three steps, with everything that reads all gradients or all parameters.
Trained train(Module& model, const Tensor& x) {
  manual_seed(7);
  optim::AdamW optimizer(model.named_parameters(), {.lr = 0.05});
  optim::EMA ema(model.named_parameters(), {.decay = 0.5});
  Trained out;
  for (int step = 0; step < 3; ++step) {
    optimizer.zero_grad();
    const Tensor y = model(x), loss = square(y).mean();
    loss.backward();
    out.losses.push_back(loss.detach().cpu());
    out.losses.push_back(optim::clip_grad_norm_(model.parameters(), 0.5).cpu());
    optimizer.step();
    ema.update();
  }
  for (const auto& part : {model.state_dict(), optimizer.state_dict(), ema.state_dict()}) {
    for (const auto& [name, t] : part) out.state.push_back({name, t.cpu()});
  }
  return out;
}

void expect_same(const Trained& got, const Trained& want) {
  for (size_t i = 0; i < want.losses.size(); ++i) {
    EXPECT_TRUE(same_bits(got.losses[i], want.losses[i])) << i;
  }
  ASSERT_EQ(got.state.size(), want.state.size());
  for (size_t i = 0; i < want.state.size(); ++i) {
    EXPECT_EQ(got.state[i].name, want.state[i].name);
    EXPECT_TRUE(same_bits(got.state[i].tensor, want.state[i].tensor)) << want.state[i].name;
  }
}

std::unique_ptr<Module> made(const AnyModel& kind, Device device) {
  manual_seed(1);
  std::unique_ptr<Module> model = kind.make();
  model->to(device);
  return model;
}

TEST(Placement, AnyPlacementOfAnyModelTrainsToTheBitsOfOneDevice) {
  for (const auto& [first, second] : device_pairs()) {
    for (const AnyModel& kind : all_models()) {
      const Tensor x = kind.input().to(first);
      const Trained want = train(*made(kind, first), x);
      for (size_t depth = 1; depth <= 4; ++depth) {
        SCOPED_TRACE(concat_to_string(kind.name, ", depth ", depth, " on ", first));
        const auto model = made(kind, first);
        model->place(alternating(*model, depth, first, second), first);
        expect_same(train(*model, x), want);
      }
    }
  }
}

// --- where tensors are ---

TEST(Placement, PutsParametersBuffersAndGradientsWhereTheLongestPatternSays) {
  for (const auto& [first, second] : device_pairs()) {
    GPT net({.vocab_size = 5, .block_size = 8, .n_layer = 12, .n_head = 2, .n_embd = 8});
    net.to(first).place({{"transformer.h", second},
                         {"transformer.h.2-10", first},
                         {"transformer.h.3.*ln*", second},
                         {"transformer.h.4.mlp.c_fc", second}});
    (void)net(tokens().to(first)).sum().backward();
    optim::AdamW optimizer(net.parameters(), {});
    optimizer.step();
    for (const auto& [name, p] : net.named_parameters()) {
      const auto is_in = [&name = name](const char* path) {
        return name.starts_with(concat_to_string("transformer.", path, "."));
      };
      const bool is_second = is_in("h.0") || is_in("h.1") || is_in("h.11") || is_in("h.3.ln_1") ||
                             is_in("h.3.ln_2") || is_in("h.4.mlp.c_fc");
      EXPECT_EQ(p.device(), is_second ? second : first) << name;
      EXPECT_EQ(p.grad().device(), p.device()) << name;
    }
    const std::vector<Tensor> params = net.parameters();
    for (const auto& [name, t] : optimizer.state_dict()) {
      if (!name.ends_with("exp_avg")) continue;
      EXPECT_EQ(t.device(), params[size_t(std::atoll(name.c_str() + 6))].device()) << name;
    }
    EXPECT_TRUE(net.is_placed());
  }
}

// Records the device of the input of each module.
TEST(Placement, HooksSeeArgumentsOnTheDeviceOfTheModule) {
  for (const auto& [first, second] : device_pairs()) {
    Sequential net(Linear(4, 4), ReLU(), Linear(4, 4), ReLU());
    net.to(first).place({{"0", second}});
    std::vector<Device> seen, gradients;
    for (const auto& [name, child] : net.children()) {
      child->register_forward_pre_hook([&seen](Module&, const Tensor& x) {
        seen.push_back(x.device());
        return Tensor();
      });
      child->register_full_backward_hook(
          [&gradients](Module&, const std::vector<Tensor>& dx, const std::vector<Tensor>& dy) {
            gradients.push_back(dy[0].device());
            EXPECT_TRUE(!dx[0].defined() || dx[0].device() == dy[0].device());
            return std::vector<Tensor>();
          });
    }
    const Tensor x = numbers({2, 4}).to(first).requires_grad_();
    net(x).sum().backward();
    // An activation without a pattern computes where its argument is.
    EXPECT_EQ(seen, (std::vector<Device>{second, second, first, first}));
    EXPECT_EQ(gradients, (std::vector<Device>{first, first, second, second}));
    EXPECT_EQ(x.grad().device(), first);
  }
}

TEST(Placement, WithoutADeviceForTheRestTensorsStay) {
  const auto [first, second] = device_pairs().back();
  struct Net : Module {
    Child<Linear> encoder{*this, "encoder", 3, 4}, decoder{*this, "decoder", 4, 2};
    Tensor forward(const Tensor& x) override { return decoder(encoder(x)); }
  } net;
  net.place({{"encoder", first}, {"decoder", second}});
  // Nothing is left that would say where the network itself computes, so results stay.
  EXPECT_EQ(net(numbers({1, 3})).device(), second);
  net.place({{"decoder", first}});
  EXPECT_EQ(net.encoder->weight->device(), first);
  EXPECT_EQ(net(numbers({1, 3})).device(), first);
}

TEST(Placement, ADeviceOrAnEmptyListOfPatternsEndsIt) {
  for (const auto& [first, second] : device_pairs()) {
    Sequential net(Linear(4, 4), Linear(4, 4));
    net.to(first).place({{"1", second}});
    EXPECT_TRUE(net.is_placed());
    net.to(kFloat64);
    EXPECT_TRUE(net.is_placed());
    EXPECT_EQ(net(numbers({2, 4}).to(first, kFloat64)).device(), second);
    net.to(second, kFloat32);
    EXPECT_FALSE(net.is_placed());
    for (const Tensor& p : net.parameters()) EXPECT_EQ(p.device(), second);
    EXPECT_TRUE(refuses<Error>([&] { return net(numbers({2, 4}).to(first)); }, "Expected all"));
    net.place({{"1", first}}).place({}, first);
    EXPECT_EQ(net(numbers({2, 4}).to(first)).device(), first);
  }
}

TEST(Placement, MovesAndCopiesOfAModuleKeepIt) {
  for (const auto& [first, second] : device_pairs()) {
    Sequential net(Linear(4, 4), Linear(4, 4));
    net.to(first).place({{"1", second}});
    const Tensor x = numbers({2, 4}).to(first), y = net(x);
    Sequential copy = clone(net), moved = std::move(net);
    for (Sequential* each : {&copy, &moved}) {
      EXPECT_TRUE(each->is_placed());
      EXPECT_EQ((*each)(x).device(), second);
      EXPECT_TRUE(same_bits((*each)(x), y));
    }
  }
}

TEST(Placement, APartOfAPlacedModelCanBePlacedAnew) {
  const auto [first, second] = device_pairs().front();
  Mixed net;
  net.place({{"layers", second}}, first);
  const Tensor x = numbers({5, 4}), y = net(x);
  net.layers->place({{"1", first}}, second);
  EXPECT_EQ(net.layers->at<Linear>(0).weight->device(), second);
  EXPECT_EQ(net.layers->at<Linear>(1).weight->device(), first);
  EXPECT_TRUE(same_bits(net(x), y));
}

TEST(Placement, StateDictsLoadOnAnotherPlacement) {
  for (const auto& [first, second] : device_pairs()) {
    const AnyModel kind = all_models()[0];
    const auto a = made(kind, first), b = made(kind, second);
    a->place({{"transformer.h.0-1", second}}, first);
    for (const Tensor& p : b->parameters()) p.detach().zero_();
    b->place({{"transformer.h.1-3", first}}, second);
    b->load_state_dict(a->state_dict());
    const Tensor x = tokens().to(first);
    EXPECT_TRUE(same_bits(b->eval()(x).to(first), a->eval()(x).to(first)));
  }
}

// --- refusals ---

struct Refusal {
  Rules rules;
  const char* message;
};

TEST(Placement, RefusesPatternsByName) {
  const Device a("cpu"), b("cpu:1");
  const std::vector<Refusal> table = {
      {{{"", a}}, "place: the pattern \"\" has an empty part"},
      {{{"transformer..h", a}}, "place: the pattern \"transformer..h\" has an empty part"},
      {{{"transformer.h.", a}}, "place: the pattern \"transformer.h.\" has an empty part"},
      {{{"transformer.h.3-2", a}},
       "place: the pattern \"transformer.h.3-2\" has the empty range 3-2"},
      {{{"block.0", a}},
       "place: the pattern \"block.0\" matches no module: the model has no module \"block\", but "
       "transformer, lm_head"},
      {{{"transformer.h.4", a}},
       "place: the pattern \"transformer.h.4\" matches no module: transformer.h has no module "
       "\"4\", but 0, 1, 2, 3"},
      {{{"transformer.h.7-9", a}},
       "place: the pattern \"transformer.h.7-9\" matches no module: transformer.h has no module "
       "\"7-9\", but 0, 1, 2, 3"},
      {{{"transformer.h.2-9", a}},
       "place: the pattern \"transformer.h.2-9\" names a module with the number 4, which does not "
       "exist"},
      {{{"lm_head.weight", a}},
       "place: the pattern \"lm_head.weight\" matches no module: lm_head has a tensor of that "
       "name, and only whole modules are placed"},
      {{{"transformer.drop.x", a}},
       "place: the pattern \"transformer.drop.x\" matches no module: transformer.drop has no "
       "module \"x\" and no other"},
      {{{"transformer.h.0-1", a}, {"transformer.h.1-2", a}},
       "place: the patterns \"transformer.h.0-1\" and \"transformer.h.1-2\" both name "
       "transformer.h.1 and have equally many parts; change one of them"},
      {{{"transformer.h.*", a}, {"transformer.h.2", b}},
       "place: the patterns \"transformer.h.*\" and \"transformer.h.2\" both name "
       "transformer.h.2"},
      {{{"lm_head", b}},
       "place: \"lm_head.weight\" belongs to two modules but is one tensor: transformer.wte is "
       "left "
       "on cpu, and lm_head is placed on cpu:1; place both on one device"},
      {{{"transformer", b}, {"lm_head", a}},
       "place: \"lm_head.weight\" belongs to two modules but is one tensor: transformer.wte is "
       "placed on cpu:1, and lm_head is placed on cpu; place both on one device"},
  };
  for (const Refusal& row : table) {
    const auto net = all_models()[0].make();
    EXPECT_TRUE(
        refuses<ValueError>([&] { return net->place(row.rules).is_placed(); }, row.message));
    EXPECT_FALSE(net->is_placed());
    for (const Tensor& p : net->parameters()) EXPECT_EQ(p.device(), a);
  }
}

TEST(Placement, RefusesASharedModuleOnTwoDevices) {
  struct Net : Module {
    Child<Linear> a{*this, "a", 3, 3};
    Net() { register_module("b", *a); }
  } net;
  EXPECT_TRUE(refuses<ValueError>(
      [&] {
        return net.place({{"b", "cpu:1"}}).is_placed();
      },
      "place: \"b\" belongs to two modules but is one module: a is left on cpu, and b is placed on "
      "cpu:1; place both on one device"));
  net.place({{"a", "cpu:1"}, {"b", "cpu:1"}});
  EXPECT_EQ(net.a->weight->device(), Device("cpu:1"));
}

TEST(Placement, RefusesADeviceThatDoesNotExist) {
  Sequential net(Linear(2, 2), Linear(2, 2));
  EXPECT_THROW(net.place({{"0", "cpu:1"}, {"1", "cuda:63"}}), AcceleratorError);
  for (const Tensor& p : net.parameters()) EXPECT_EQ(p.device(), Device());
}

TEST(Placement, SeveralRanksRefuseIt) {
  Sequential net(Linear(2, 2), Linear(2, 2));
  net.place({{"0", "cpu:1"}});
  EXPECT_TRUE(refuses<ValueError>(
      [&] { return DataParallel(net, distributed::Communicator::alone(Device())).bucket_bytes(); },
      "DataParallel: the module is placed on several devices"));
}

// A CUDA graph contains the work of one GPU.
TEST(Placement, AStepGraphCapturesNothingAndSaysSo) {
  for (const auto& [first, second] : device_pairs()) {
    Sequential net(Linear(2, 2), Linear(2, 2));
    net.to(first).place({{"1", second}});
    StepGraph step([&](const std::vector<Tensor>& in) { return std::vector<Tensor>{net(in[0])}; },
                   1);
    const Tensor x = ones({3, 2}, {.device = first}), y = net(x);
    for (int i = 0; i < 3; ++i) EXPECT_TRUE(same_bits(step({x})[0], y));
    EXPECT_EQ(step.num_graphs(), 0u);
    EXPECT_FALSE(step.reason().empty());
  }
}

TEST(Placement, PlansWithoutMovingAnything) {
  Sequential net(Linear(2, 2), Linear(2, 2));
  const auto plan = net.plan_placement({{"1", "cuda:5"}}, Device("cuda:0"));
  ASSERT_EQ(plan.size(), 4u);
  EXPECT_EQ(plan[0].name, "0.weight");
  EXPECT_EQ(plan[0].device, Device("cuda:0"));
  EXPECT_EQ(plan[3].name, "1.bias");
  EXPECT_EQ(plan[3].device, Device("cuda:5"));
  EXPECT_FALSE(net.is_placed());
}

}  // namespace
}  // namespace taper::v0::test
