// Modules that are created, destroyed and moved: the tree stays consistent.
#include <algorithm>
#include <memory>
#include <optional>

#include <gtest/gtest.h>

#include "autograd/ops/binary_ops.h"
#include "autograd/ops/reduce_ops.h"
#include "framework/factory/factories.h"
#include "modules/layers/containers.h"
#include "modules/layers/conv_layers.h"
#include "modules/layers/linear.h"
#include "modules/layers/loss_layers.h"
#include "modules/layers/multihead_attention.h"
#include "modules/layers/norm_layers.h"
#include "modules/layers/rnn_layers.h"
#include "modules/layers/stateless.h"
#include "modules/layers/transformer.h"
#include "optim/algorithms/sgd.h"
#include "tests/modules/modules.h"
#include "tests/testing.h"

namespace taper::v0::test {
namespace {

Names children_of(const Module& module) {
  Names names;
  for (const auto& [name, child] : module.children()) names.push_back(name);
  return names;
}

struct PlacedNet : Module {
  Child<Linear> fc1{*this, "fc1", 3, 4};
  Child<Linear> fc2{*this, "fc2", 4, 2};
  Child<Linear> fc3{*this, "fc3", 2, 2, LinearOptions{.bias = false}};
  Tensor forward(const Tensor& x) override { return fc3(fc2(fc1(x))); }
  std::string type_name() const override { return "PlacedNet"; }
};

// --- what does not compile ---

struct Unrelated {};
using EncoderMaker = TransformerEncoderLayer (*)();

static_assert(std::is_constructible_v<Sequential, Linear, ReLU>);
static_assert(!std::is_constructible_v<Sequential, Linear&>);
static_assert(!std::is_constructible_v<Sequential, Linear, ReLU&>);
static_assert(!std::is_constructible_v<Sequential, const Linear&>);
static_assert(!std::is_constructible_v<Sequential, const Linear>);
static_assert(!std::is_constructible_v<Sequential, Unrelated>);
static_assert(!std::is_constructible_v<Sequential, const Sequential&>);
static_assert(std::is_constructible_v<Sequential, Sequential>);
static_assert(std::is_constructible_v<TransformerEncoder, EncoderMaker, int, LayerNorm>);
static_assert(!std::is_constructible_v<TransformerEncoder, EncoderMaker, int, LayerNorm&>);

// Modules can be moved and swapped, but not copied. A Module of unknown type can do neither.
template <class... Modules>
constexpr bool kMoveOnly = ((std::is_nothrow_move_constructible_v<Modules> &&
                             !std::is_copy_constructible_v<Modules> &&
                             !std::is_copy_assignable_v<Modules> &&
                             std::is_move_assignable_v<Modules> &&
                             std::is_swappable_v<Modules>)&&...);
static_assert(kMoveOnly<PlacedNet, Linear, Conv2d, Sequential, ModuleList, ModuleDict, LayerNorm,
                        BatchNorm2d, ReLU, Dropout, MaxPool2d, LSTM, LSTMCell, CrossEntropyLoss,
                        MultiheadAttention, TransformerEncoder, Transformer, ParameterList>);
static_assert(!std::is_move_constructible_v<Module> && !std::is_move_assignable_v<Module>);
static_assert(!std::is_assignable_v<Module&, Linear>);

// A Child can be moved, and can be assigned an rvalue of its type or of a derived type.
static_assert(std::is_nothrow_move_constructible_v<Child<Linear>>);
static_assert(!std::is_assignable_v<Child<Linear>&, Child<Linear>&>);
static_assert(std::is_assignable_v<Child<Linear>&, Child<Linear>>);
static_assert(std::is_assignable_v<Child<Linear>&, Linear>);
static_assert(std::is_assignable_v<Child<Linear>&, NonDynamicallyQuantizableLinear>);
static_assert(!std::is_assignable_v<Child<Linear>&, Linear&>);
static_assert(!std::is_assignable_v<Child<Linear>&, const Linear&>);
static_assert(!std::is_assignable_v<Child<Linear>&, ReLU>);

template <class M>
concept Replaceable = requires(Sequential& net, M&& m) {
  net.replace(0, std::forward<M>(m));
};
static_assert(Replaceable<Linear> && !Replaceable<Linear&> && !Replaceable<Unrelated>);

// --- children that are destroyed ---

TEST(Places, AChildThatGoesLeavesTheTreeAndTheOthersKeepTheirOrder) {
  struct Optional : Module {
    std::optional<Child<Linear>> a, b, c;
    Optional() {
      a.emplace(*this, "a", 2, 2);
      b.emplace(*this, "b", 2, 3);
      c.emplace(*this, "c", 2, 4);
    }
    std::string type_name() const override { return "Optional"; }
  } net;
  net.b.emplace(net, "b", 5, 6);
  EXPECT_EQ(children_of(net), (Names{"a", "c", "b"}));
  EXPECT_EQ(net.parameters()[4].shape(), (Shape{6, 5}));
  net.a.reset();
  EXPECT_EQ(names_of(net.named_parameters()), (Names{"c.weight", "c.bias", "b.weight", "b.bias"}));
  EXPECT_TRUE(refuses<Error>([&] { return net.c = Child<Linear>(net, "c", 2, 2), 0; },
                             "Submodule 'c' already defined"));
  EXPECT_EQ(children_of(net), (Names{"c", "b"}));
}

TEST(Places, AModuleUnderTwoNamesLeavesBoth) {
  PlacedNet net;
  auto shared = std::make_unique<ReLU>();
  net.register_module("act1", *shared);
  PlacedNet other;
  other.register_module("act", *shared);
  net.register_module("act2", *shared);
  shared.reset();
  EXPECT_EQ(children_of(net), (Names{"fc1", "fc2", "fc3"}));
  EXPECT_EQ(children_of(other), (Names{"fc1", "fc2", "fc3"}));
}

TEST(Places, AChildMayOutliveItsParent) {
  std::optional<Child<Linear>> kept;
  {
    PlacedNet net;
    kept = std::move(net.fc1);
    EXPECT_EQ(children_of(net), (Names{"fc1", "fc2", "fc3"}));
  }
  EXPECT_EQ((*kept)(ones({1, 3})).shape(), (Shape{1, 4}));
  *kept = Linear(3, 5);
  EXPECT_EQ((*kept)->out_features, 5);
  auto plain = std::make_unique<Linear>(2, 2);
  {
    PlacedNet net;
    net.register_module("plain", *plain);
  }
  plain.reset();
}

TEST(Places, AModuleCannotBePutIntoItself) {
  Sequential net(Sequential(Linear(2, 2)));
  EXPECT_TRUE(refuses<Error>([&] { return net.register_module("self", net), 0; },
                             "a Sequential cannot be put into itself"));
  EXPECT_TRUE(refuses<Error>([&] { return net[0].register_module("top", net), 0; },
                             "a Sequential cannot be put into itself"));
  EXPECT_EQ(net.parameters().size(), 2u);
}

// --- replacing ---

TEST(Places, ALayerIsReplacedUnderItsName) {
  for (const Device device : all_devices()) {
    PlacedNet net;
    net.to(device).eval();
    const Tensor old = *net.fc2->weight;
    optim::SGD optimizer(net.parameters(), {.lr = 1});
    net.fc2 = Linear(4, 2, {.device = device});
    EXPECT_EQ(names_of(net.named_parameters()),
              (Names{"fc1.weight", "fc1.bias", "fc2.weight", "fc2.bias", "fc3.weight"}));
    EXPECT_TRUE(net.parameters()[2].is_same(*net.fc2->weight));
    EXPECT_FALSE(net.parameters()[2].is_same(old));
    EXPECT_EQ(net.children()[1].second, &*net.fc2);
    // The new module keeps its own mode, as in PyTorch.
    EXPECT_TRUE(net.fc2->is_training());
    EXPECT_FALSE(net.fc1->is_training());
    // An optimizer that was created before knows only the old module, and refuses to step.
    const Tensor before = net.fc2->weight->detach().clone(), first = net.fc1->weight->clone();
    sum(net(ones({2, 3}).to(device))).backward();
    EXPECT_TRUE(net.fc2->weight->grad().defined());
    EXPECT_TRUE(
        refuses<Error>([&] { return optimizer.step(), 0; }, "SGD: parameter 2 of shape [2, "));
    EXPECT_TRUE(same_bits(net.fc2->weight->detach(), before));
    EXPECT_TRUE(same_bits(net.fc1->weight->detach(), first));
    // Errors name it by the name of its place.
    net.fc2 = Linear(5, 2, {.device = device});
    EXPECT_TRUE(refuses<Error>(
        [&] {
          return net(ones({2, 3}).to(device));
        },
        "mat1 and mat2 shapes cannot be multiplied (2x4 and 5x2)"));
  }
}

TEST(Places, AReplacedLayerIsTiedAndHookedNoLonger) {
  struct TiedLayers : Module {
    Child<Linear> one{*this, "one", 3, 3}, two{*this, "two", 3, 3};
    TiedLayers() { two->weight.share(one->weight); }
    Tensor forward(const Tensor& x) override { return two(one(x)); }
    std::string type_name() const override { return "TiedLayers"; }
  } net;
  int calls = 0;
  ModuleHookHandle hook =
      net.two->register_forward_hook([&](Module&, const Tensor&, const Tensor&) {
        ++calls;
        return Tensor();
      });
  EXPECT_EQ(net.parameters().size(), 3u);
  net.two = Linear(3, 3);
  EXPECT_EQ(net.parameters().size(), 4u);
  (void)net(ones({1, 3}));
  EXPECT_EQ(calls, 0);
  hook.remove();
}

TEST(Places, ADerivedLayerStaysWhatItIs) {
  PlacedNet net;
  net.fc3 = NonDynamicallyQuantizableLinear(2, 2);
  EXPECT_EQ(net.children()[2].second->type_name(), "NonDynamicallyQuantizableLinear");
  EXPECT_EQ(net(ones({1, 3})).shape(), (Shape{1, 2}));
}

TEST(Places, ALayerOfAnotherModelComesUnderTheNameThatItReplaces) {
  PlacedNet net, other;
  const Tensor weight = *other.fc1->weight;
  net.fc1 = std::move(other.fc1);
  EXPECT_TRUE(net.parameters()[0].is_same(weight));
  EXPECT_EQ(children_of(net), (Names{"fc1", "fc2", "fc3"}));
  EXPECT_EQ(children_of(other), (Names{"fc2", "fc3"}));
  EXPECT_EQ(net(ones({1, 3})).shape(), (Shape{1, 2}));
  EXPECT_TRUE(refuses<Error>([&] { return other(ones({1, 3})); }, "this Child was moved from"));
  // The module itself may be moved, too.
  const Tensor second = *other.fc2->weight;
  net.fc2 = std::move(*other.fc2);
  EXPECT_TRUE(net.named_parameters()[2].tensor.is_same(second));
  EXPECT_EQ(names_of(other.named_parameters()), (Names{"fc3.weight"}));
  EXPECT_TRUE(refuses<Error>(
      [&] {
        return other.fc2(ones({1, 4}));
      },
      "this Linear was moved from"));
}

TEST(Places, SwappedLayersAreBothKept) {
  PlacedNet net;
  net.fc1 = Linear(3, 3);
  net.fc2 = Linear(3, 3);
  const Tensor one = *net.fc1->weight, two = *net.fc2->weight;
  std::swap(net.fc1, net.fc2);
  EXPECT_TRUE(net.fc1->weight->is_same(two));
  EXPECT_TRUE(net.fc2->weight->is_same(one));
  EXPECT_EQ(children_of(net), (Names{"fc1", "fc2", "fc3"}));
  EXPECT_EQ(net.parameters().size(), 5u);
  Child<Linear>& itself = net.fc3;
  net.fc3 = std::move(itself);
  EXPECT_EQ(net.parameters().size(), 5u);
  net.fc1 = std::move(net.fc3);
  EXPECT_EQ(net.parameters().size(), 3u);
}

TEST(Places, ContainersReplaceByPlaceAndByName) {
  Sequential net(Linear(3, 4), ReLU(), Linear(4, 10));
  Linear& last = net.replace(-1, Linear(4, 2));
  EXPECT_EQ(&net[2], &last);
  net.replace(1, Sequential(ReLU(), Linear(4, 4)));
  EXPECT_EQ(names_of(net.named_parameters()),
            (Names{"0.weight", "0.bias", "1.1.weight", "1.1.bias", "2.weight", "2.bias"}));
  EXPECT_EQ(net(ones({5, 3})).shape(), (Shape{5, 2}));
  EXPECT_TRUE(refuses<IndexError>([&] { return &net.replace(3, ReLU()); }, "index 3 is out of"));
  ModuleDict heads;
  heads.add<Linear>("left", 2, 3);
  heads.add<Linear>("right", 2, 3);
  heads.replace("left", Linear(2, 7));
  EXPECT_EQ(heads.keys(), (Names{"left", "right"}));
  EXPECT_EQ(heads.at<Linear>("left").out_features, 7);
  EXPECT_TRUE(refuses<IndexError>([&] { return &heads.replace("up", ReLU()); }, "'up' is no key"));
}

// --- moving ---

struct Stack : Module {
  std::vector<Child<Linear>> layers;
  explicit Stack(int n) {
    for (int i = 0; i < n; ++i) layers.emplace_back(*this, "layer" + std::to_string(i), 2, 2);
  }
  Tensor forward(const Tensor& x) override {
    Tensor y = x;
    for (Child<Linear>& layer : layers) y = layer(y);
    return y;
  }
  std::string type_name() const override { return "Stack"; }
};

TEST(Places, ChildrenInAVectorStayInTheTree) {
  Stack net(9);
  ASSERT_EQ(net.children().size(), 9u);
  for (size_t i = 0; i < 9; ++i) EXPECT_EQ(net.children()[i].second, &*net.layers[i]);
  net.layers.erase(net.layers.begin() + 3);
  net.layers.insert(net.layers.begin(), Child<Linear>(net, "new", 2, 2));
  EXPECT_EQ(net.children().size(), 9u);
  for (const Child<Linear>& layer : net.layers) {
    const auto is_layer = [&](const auto& child) { return child.second == &*layer; };
    EXPECT_EQ(std::ranges::count_if(net.children(), is_layer), 1);
  }
  net.layers.erase(net.layers.begin() + 4, net.layers.end());
  EXPECT_EQ(net.children().size(), 4u);
  EXPECT_EQ(net(ones({1, 2})).shape(), (Shape{1, 2}));
}

TEST(Places, AModuleThatMovesTakesItsTreeAlong) {
  auto from = std::make_unique<PlacedNet>();
  const std::vector<Tensor> before = from->parameters();
  PlacedNet to = std::move(*from);
  EXPECT_TRUE(from->parameters().empty());
  EXPECT_TRUE(refuses<Error>(
      [&] {
        return (*from)(ones({1, 3}));
      },
      "this PlacedNet was moved from"));
  from.reset();
  ASSERT_EQ(to.parameters().size(), before.size());
  to.fc1 = Linear(3, 4);
  EXPECT_TRUE(to.parameters()[2].is_same(before[2]));
  EXPECT_FALSE(to.parameters()[0].is_same(before[0]));
  EXPECT_EQ(to(ones({1, 3})).shape(), (Shape{1, 2}));
  std::vector<PlacedNet> nets;
  for (int i = 0; i < 5; ++i) nets.emplace_back();
  for (PlacedNet& net : nets) EXPECT_EQ(net.children()[0].second, &*net.fc1);
}

TEST(Places, APlainMemberThatWasRegisteredMovesWithItsParent) {
  struct Plain : Module {
    Linear layer{2, 3};
    Plain() { register_module("layer", layer); }
    Tensor forward(const Tensor& x) override { return layer(x); }
    std::string type_name() const override { return "Plain"; }
  };
  auto from = std::make_unique<Plain>();
  Plain to = std::move(*from);
  from.reset();
  EXPECT_EQ(to.children()[0].second, &to.layer);
  EXPECT_EQ(to.parameters().size(), 2u);
  EXPECT_EQ(to(ones({1, 2})).shape(), (Shape{1, 3}));
}

// --- parameters and buffers ---

struct Scaled : Module {
  std::optional<Parameter> scale;
  std::optional<Buffer> count;
  Parameter last{*this, "last", ones({2})};
  Buffer mean{*this, "mean", zeros({2})};
  Scaled() {
    scale.emplace(*this, "scale", ones({3}));
    count.emplace(*this, "count", zeros({1}));
  }
  std::string type_name() const override { return "Scaled"; }
};

TEST(Places, AParameterOrBufferThatGoesLeavesTheTree) {
  Scaled net;
  net.scale.reset();
  net.count.reset();
  EXPECT_EQ(names_of(net.state_dict()), (Names{"last", "mean"}));
  EXPECT_EQ(net.to(kFloat64).num_parameters(), 2);
  net.scale.emplace(net, "scale", ones({4}));
  net.scale.emplace(net, "scale", ones({5}));
  net.count.emplace(net, "count", zeros({6}));
  EXPECT_EQ(names_of(net.state_dict()), (Names{"last", "mean", "scale", "count"}));
  EXPECT_EQ(net.parameters()[1].shape(), (Shape{5}));
}

TEST(Places, AMovedParameterStaysInTheTreeAndLeavesAnUndefinedOne) {
  Scaled net;
  {
    const Parameter held = std::move(net.last);
    EXPECT_FALSE(net.last.defined());
    EXPECT_FALSE(net.last->defined());
    EXPECT_TRUE(net.parameters()[0].is_same(*held));
    EXPECT_TRUE(refuses<Error>([&] { return net.last = ones({2}), 0; },
                               "cannot assign to a parameter that the module does not have"));
  }
  EXPECT_EQ(names_of(net.named_parameters()), (Names{"scale"}));
  Scaled other;
  other.mean = full({2}, 4.);
  net.mean = other.mean;
  EXPECT_TRUE(close(*net.mean, full({2}, 4.), 0));
  // Assignment copies values, never handles.
  Linear a(2, 2), b(2, 2);
  const Tensor held = *a.weight;
  a.weight = std::move(b.weight);
  EXPECT_TRUE(a.parameters()[0].is_same(held));
  EXPECT_TRUE(same_bits(held.detach(), b.weight->detach()));
}

TEST(Places, AParameterMayOutliveItsModule) {
  std::optional<Parameter> kept;
  {
    Scaled net;
    kept = std::move(net.scale);
  }
  EXPECT_EQ((*kept)->shape(), (Shape{3}));
  *kept = zeros({3});
}

TEST(Places, AMovedLayerSaysThatItWasMovedFrom) {
  Linear from(2, 2);
  const Linear to = std::move(from);
  EXPECT_TRUE(from.parameters().empty());
  EXPECT_TRUE(refuses<Error>([&] { return from(ones({1, 2})); }, "this Linear was moved from"));
}

}  // namespace
}  // namespace taper::v0::test
