// Copies of modules, modules with any forward(), functions as layers, gradients in hooks, and
// modules in the forms that users write.
#include <memory>
#include <optional>

#include <gtest/gtest.h>

#include "autograd/ops/binary_ops.h"
#include "autograd/ops/reduce_ops.h"
#include "autograd/ops/unary_ops.h"
#include "framework/factory/factories.h"
#include "modules/layers/containers.h"
#include "modules/layers/conv_layers.h"
#include "modules/layers/loss_layers.h"
#include "modules/layers/rnn_layers.h"
#include "modules/layers/transformer.h"
#include "modules/models/gpt.h"
#include "modules/models/resnet.h"
#include "optim/algorithms/optimizers.h"
#include "tests/testing.h"

namespace taper::v0::test {
namespace {

using Tensors = std::vector<Tensor>;

// Every kind of member that a tree can have, with a tied weight and a child in two places.
struct ClonedNet : ModuleOf<ClonedNet> {
  Child<Linear> first{*this, "first", 4, 4}, second{*this, "second", 4, 4};
  std::vector<Child<Linear>> row;
  std::optional<Child<LayerNorm>> norm;
  Child<Sequential> tail{*this, "tail", Linear(4, 4), ReLU(), Dropout(0.5)};
  Parameter scale{*this, "scale", ones({4})};
  Buffer calls{*this, "calls", zeros({}, {.dtype = kInt64})};

  ClonedNet() {
    for (int i = 0; i < 2; ++i) row.emplace_back(*this, concat_to_string("row", i), 4, 4);
    norm.emplace(*this, "norm", 4);
    second->weight.share(first->weight);
    register_module("again", *first);
  }
  using Module::forward;
  Tensor forward(const Tensor& x, double factor) {
    calls->add_(1);
    Tensor y = second(first(x));
    for (Child<Linear>& layer : row) y = layer(y);
    return tail((*norm)(y * *scale)) * factor;
  }
};

TEST(Clone, HasTheSameTreeInMemoryOfItsOwn) {
  ClonedNet net;
  net.tail->at<Dropout>(2).eval();
  net.row[0]->weight->set_grad(ones({4, 4}));
  ClonedNet copy = clone(net);
  EXPECT_EQ(to_string(copy), to_string(net));
  const std::vector<NamedTensor> a = net.state_dict(), b = copy.state_dict();
  ASSERT_EQ(a.size(), b.size());
  for (size_t i = 0; i < a.size(); ++i) {
    EXPECT_EQ(a[i].name, b[i].name);
    EXPECT_TRUE(same_bits(a[i].tensor, b[i].tensor)) << a[i].name;
    EXPECT_NE(a[i].tensor.data_ptr(), b[i].tensor.data_ptr()) << a[i].name;
  }
  // Tied tensors stay tied, and a child in two places is copied once.
  EXPECT_EQ(copy.parameters().size(), net.parameters().size());
  EXPECT_TRUE(copy.second->weight->is_same(*copy.first->weight));
  EXPECT_EQ(copy.children().back().second, &*copy.first);
  EXPECT_FALSE(copy.row[0]->weight->grad().defined());
  EXPECT_FALSE(copy.tail->at<Dropout>(2).is_training());
  EXPECT_TRUE(copy.is_training());
  for (const Tensor& p : copy.parameters()) EXPECT_TRUE(p.requires_grad() && p.is_leaf());

  const Tensor x = randn({2, 4});
  EXPECT_TRUE(same_bits(net(x, 2.0).detach(), copy(x, 2.0).detach()));
  copy.first->weight = zeros({4, 4});
  EXPECT_NE(values_of(net.second->weight->detach())[0], 0);
  EXPECT_EQ(values_of(copy.second->weight->detach())[0], 0);
  EXPECT_EQ(net.calls->item<int64_t>(), 1);
}

TEST(Clone, OutlivesWhatItWasMadeOfAndMoves) {
  std::optional<ClonedNet> net(std::in_place);
  const Tensor x = randn({3, 4});
  net->eval();
  const Tensor want = (*net)(x, 1.0).detach();
  std::vector<ClonedNet> copies;
  for (int i = 0; i < 3; ++i) copies.push_back(clone(*net));
  net.reset();
  for (ClonedNet& copy : copies) {
    EXPECT_TRUE(same_bits(copy(x, 1.0).detach(), want));
    EXPECT_EQ(copy.named_modules().size(), copies[0].named_modules().size());
  }
}

TEST(Clone, OfUnknownTypesIsTheWholeModule) {
  const ResNet resnet = resnet18({.num_classes = 3, .in_channels = 1, .width = 2});
  const std::unique_ptr<Module> copy = static_cast<const Module&>(resnet).clone();
  EXPECT_EQ(to_string(*copy), to_string(resnet));
  EXPECT_NE(dynamic_cast<ResNet*>(copy.get()), nullptr);
  Sequential net(
      Linear(2, 2), [](const Tensor& x) { return x * 2; }, ModuleDict());
  const Module& behind = net;
  EXPECT_EQ(to_string(*behind.clone()), to_string(net));
  GPT gpt({.vocab_size = 5, .block_size = 3, .n_layer = 1, .n_head = 2, .n_embd = 4});
  EXPECT_EQ(clone(gpt).parameters().size(), gpt.parameters().size());
  CrossEntropyLoss loss({.weight = ones({3})});
  CrossEntropyLoss other = clone(loss);
  other.to(kFloat64);
  EXPECT_EQ(other.options.weight.dtype(), kFloat64);
  EXPECT_EQ(loss.options.weight.dtype(), kFloat32);
}

TEST(Clone, LeavesHooksBehind) {
  Sequential net(Linear(2, 2));
  int calls = 0;
  net.register_forward_hook(FirstHook([&](Module&, const Tensor&, const Tensor&) {
    ++calls;
    return Tensor();
  }));
  Sequential copy = clone(net);
  (void)copy(ones({1, 2}));
  EXPECT_EQ(calls, 0);
  EXPECT_FALSE(copy.has_hooks());
}

struct Plain : Module {
  Child<Linear> layer{*this, "layer", 2, 2};
  Tensor forward(const Tensor& x) override { return layer(x); }
};
struct SharedChild : ModuleOf<SharedChild> {
  explicit SharedChild(Linear& shared) { register_module("shared", shared); }
};

TEST(Clone, RefusesWhatItCannotCopy) {
  Plain plain;
  EXPECT_EQ(to_string(clone(plain)), to_string(plain));  // possible for a known type
  Sequential net(std::move(plain));
  EXPECT_TRUE(
      refuses<Error>([&] { return clone(net).size(); }, "clone: of a Plain behind a Module"));
  Linear shared(2, 2);
  const SharedChild sibling(shared);
  EXPECT_TRUE(refuses<Error>([&] { return clone(sibling).num_parameters(); },
                             "clone: SharedChild does not hold its child 'shared'"));
  EXPECT_EQ(shared.num_parameters(), 6);
  Linear layer(2, 2);
  EXPECT_TRUE(refuses<Error>([&] { return Linear(layer).in_features; }, "a module is not copied"));
  EXPECT_TRUE(
      refuses<Error>([&] { return Parameter(layer.weight).defined(); }, "a module is not copied"));
}

// --- forward of any arguments and results ---

struct Gated : ModuleOf<Gated> {
  Child<Linear> gate{*this, "gate", 4, 4};
  using Module::forward;
  std::pair<Tensor, int64_t> forward(const Tensor& x, const Tensor& context, int64_t n = 7) {
    return {x * sigmoid(gate(context)), n};
  }
};
struct Quiet : ModuleOf<Quiet> {
  int64_t seen = 0;
  using Module::forward;
  void forward(const std::vector<Tensor>& many) { seen += std::ssize(many); }
};

TEST(ModuleOf, TakesAnyArgumentsAndResultsWithHooksAndPlaces) {
  Gated net;
  EXPECT_EQ(net.type_name(), "Gated");
  const Tensor x = ones({2, 4});
  EXPECT_EQ(net(x, x).second, 7);
  EXPECT_EQ(net(x, x, 3).second, 3);
  net.register_forward_pre_hook(ForwardPreHook([](Module&, const Tensors& in) {
    return Tensors{in[0] * 0, in[1]};
  }));
  EXPECT_EQ(net(x, x).first.sum().item<double>(), 0);
  Quiet quiet;
  quiet(Tensors{x, x});
  size_t seen = 0;
  quiet.register_forward_pre_hook(ForwardPreHook([&](Module&, const Tensors& in) {
    seen = in.size();
    return Tensors();
  }));
  quiet(Tensors{x, x, x});
  EXPECT_EQ(quiet.seen, 5);
  EXPECT_EQ(seen, 3u);
  try {
    (void)net(x, ones({2, 3}));
    FAIL() << "a context of the wrong width";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("gate"), std::string::npos) << error.what();
  }
  Gated without_hooks;
  EXPECT_TRUE(
      refuses<NotImplementedError>([&] { return static_cast<Module&>(without_hooks)(x); },
                                   "Module [Gated] is missing the required \"forward\" function"));
}

// --- backward hooks ---

TEST(BackwardHooks, SeeAndReplaceTheGradientsOfACall) {
  for (const Device device : all_devices()) {
    Sequential net(Linear(3, 2, {.device = device}), ReLU());
    Tensors in, out;
    ModuleHookHandle handle = net[0].register_full_backward_hook(
        [&](Module& m, const Tensors& grad_input, const Tensors& grad_output) {
          EXPECT_EQ(&m, &net[0]);
          in = grad_input;
          out = grad_output;
          return Tensors{grad_input[0] * 2};
        });
    const Tensor x = randn({4, 3}, {.device = device, .requires_grad = true});
    const Tensor y = net(x);
    y.sum().backward();
    const Tensor slope = gt(y.detach(), 0).to(kFloat32);
    ASSERT_EQ(in.size(), 1u);
    EXPECT_TRUE(close(out.at(0), slope, 1e-6));
    EXPECT_TRUE(close(x.grad(), in[0] * 2, 1e-6));
    const Tensor plain = x.grad() / 2;
    x.set_grad({});
    handle.remove();
    net(x).sum().backward();
    EXPECT_TRUE(close(x.grad(), plain, 1e-6));
  }
}

TEST(BackwardHooks, RunWithoutInputsThatRequireGradAndAfterAMove) {
  std::optional<Linear> layer(std::in_place, 2, 2);
  int calls = 0;
  bool undefined = false;
  layer->register_full_backward_hook([&](Module&, const Tensors& in, const Tensors& out) {
    ++calls;
    undefined = !in[0].defined() && out[0].defined();
    return Tensors();
  });
  const Tensor y = (*layer)(ones({1, 2}));
  const auto nothing = [](Module&, const Tensors& in, const Tensors&) { return in; };
  layer->register_full_backward_hook(nothing);  // an undefined tensor replaces nothing
  Linear moved = std::move(*layer);
  layer.reset();
  y.sum().backward();
  EXPECT_EQ(calls, 1);
  EXPECT_TRUE(undefined);
  moved.register_full_backward_hook([](Module&, const Tensors& in, const Tensors&) {
    return Tensors(in.size(), ones({1, 2}));
  });
  const Tensor z = moved(ones({1, 2}));
  EXPECT_TRUE(refuses<Error>([&] { return z.sum().backward(), 0; },
                             "Backward hook for Modules where no input requires gradient"));
}

// All inputs and results of an LSTM, of which c is not differentiated.
TEST(BackwardHooks, SeeEveryTensorOfACall) {
  LSTM layer(3, 4);
  size_t inputs = 0, outputs = 0;
  layer.register_full_backward_hook([&](Module&, const Tensors& in, const Tensors& out) {
    for (const Tensor& t : in) inputs += t.defined();
    for (const Tensor& t : out) outputs += t.defined();
    return Tensors();
  });
  const Tensor x = randn({5, 2, 3}, {.requires_grad = true});
  const Tensor h = randn({1, 2, 4}, {.requires_grad = true});
  const RnnResult y = layer(x, {.h = h});
  (y.output.sum() + y.h_n.sum()).backward();
  EXPECT_EQ(inputs, 2u);
  EXPECT_EQ(outputs, 2u);
  EXPECT_TRUE(x.grad().defined() && h.grad().defined());
}

// --- modules in the forms that users write ---

struct Written : Module {
  Child<Conv2d> conv{*this, "conv", 1, 8, 3, {.padding = 1}};
  Child<MaxPool2d> pool{*this, "pool", 2, {.stride = 1}};
  Child<Linear> fc{*this, "fc", 8, 4, {.bias = false}};
  Child<Linear> out{*this, "out", 4, 2, false};
  Child<LayerNorm> norm{*this, "norm", 64, {.eps = 1e-3}};
  Child<Dropout> drop{*this, "drop", {.p = 0.1}};
  Child<LSTM> lstm{*this, "lstm", 3, 4, {.num_layers = 2}};
  Child<ParameterList> scales{*this, "scales"};
  Child<Sequential> both{*this, "both", Linear(2, 2), [](const Tensor& x) { return x + 1; }};
};

TEST(Written, AsPeopleDo) {
  Written net;
  EXPECT_EQ(net.type_name(), "Written");
  EXPECT_EQ(net.conv->options.padding.h, 1);
  EXPECT_EQ(net.pool->options.stride->h, 1);
  EXPECT_FALSE(net.fc->bias.defined() || net.out->bias.defined());
  EXPECT_EQ(net.norm->options.eps, 1e-3);
  EXPECT_EQ(net.drop->p, 0.1);
  EXPECT_EQ(net.lstm->options.num_layers, 2);
  EXPECT_TRUE(Linear(3, 4, {}).bias.defined());
  EXPECT_EQ(LayerNorm(64).normalized_shape, Shape{64});
  EXPECT_EQ(RMSNorm(64).normalized_shape, Shape{64});
  const std::vector<Tensor> params = net.parameters();
  EXPECT_EQ(optim::Adam(params).lr(), 1e-3);
  net.scales->append(ones({2, 3}));
  net.scales->append(ones({4}));
  EXPECT_EQ((*net.scales)[-1]->shape(), Shape{4});
  EXPECT_EQ(net.named_parameters().back().name, "both.0.bias");
  EXPECT_EQ(to_string(*net.scales),
            "ParameterList(\n    (0): Parameter containing: [torch.float32 of size 2x3]\n"
            "    (1): Parameter containing: [torch.float32 of size 4]\n)");
  EXPECT_EQ(to_string(ParameterList()), "ParameterList()");
  EXPECT_EQ(to_string(net.both->at<Module>(1)), "Lambda()");
}

Tensor doubled(const Tensor& x) { return x * 2; }

TEST(Lambda, IsALayerAmongLayers) {
  double factor = 3;
  Sequential net([](const Tensor& x) { return x + 1; }, doubled, ReLU());
  net.add([&](const Tensor& x) { return x * factor; }).add(Flatten());
  EXPECT_EQ(net.size(), 5);
  EXPECT_TRUE(close(net(ones({2, 2})), full({2, 2}, 12.0), 1e-6));
}

// Modules that are registered by hand may be moved; whatever holds them knows their names.
TEST(Places, ModulesInVectorsAndOptionalsStayInTheTree) {
  struct Stack : Module {
    std::vector<Linear> layers;
    std::optional<Conv1d> conv;
    Stack() {
      layers.reserve(1);
      for (int i = 0; i < 5; ++i)
        register_module(concat_to_string("layer", i), layers.emplace_back(2, 2));
      register_module("conv", conv.emplace(1, 1, 1));
    }
    Tensor forward(const Tensor& x) override {
      Tensor y = x;
      for (Linear& layer : layers) y = layer(y);
      return y;
    }
  };
  Stack stack;
  EXPECT_EQ(stack.parameters().size(), 12u);
  EXPECT_EQ(stack.children()[0].second, &stack.layers[0]);
  Stack moved = std::move(stack);
  EXPECT_EQ(moved.children()[4].second, &moved.layers[4]);
  moved.conv.reset();
  moved.layers.pop_back();
  EXPECT_EQ(moved.parameters().size(), 8u);
  moved(ones({1, 2})).sum().backward();
  EXPECT_TRUE(moved.layers[0].weight->grad().defined());
}

}  // namespace
}  // namespace taper::v0::test
