// Modules as values: moved, assigned, swapped, returned and stored in vectors, alone and in trees.
#include <algorithm>
#include <optional>
#include <vector>

#include <gtest/gtest.h>

#include "autograd/ops/binary_ops.h"
#include "autograd/ops/matmul_ops.h"
#include "autograd/ops/reduce_ops.h"
#include "autograd/ops/shape_ops.h"
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
#include "modules/models/gpt.h"
#include "optim/algorithms/sgd.h"
#include "tests/modules/modules.h"
#include "tests/testing.h"

namespace taper::v0::test {
namespace {

// Every kind of member that a tree can have. Maps [N, 4] to [N, 4].
struct MovedNet : ModuleOf<MovedNet> {
  Child<Linear> first{*this, "first", 4, 4}, second{*this, "second", 4, 4};
  std::vector<Child<Linear>> row;
  std::optional<Child<LayerNorm>> norm;
  Child<Sequential> tail{*this, "tail", Linear(4, 4), Tanh(), Sequential(Linear(4, 4))};
  Child<Module> act{*this, "act", Tanh()};
  Parameter scale{*this, "scale", numbers({4})};
  std::optional<Parameter> shift;
  Buffer offset{*this, "offset", ones({4})};
  Linear plain{4, 4};
  Tensor constant = ones({4});
  double factor = 2;

  MovedNet() : MovedNet(true) {}
  explicit MovedNet(bool whole) {
    for (int i = 0; i < (whole ? 3 : 1); ++i)
      row.emplace_back(*this, concat_to_string("row", i), 4, 4);
    if (whole) norm.emplace(*this, "norm", 4);
    if (whole) shift.emplace(*this, "shift", ones({4}));
    second->weight.share(first->weight);
    register_module("again", *first);
    register_module("plain", plain);
    register_parameter("by_hand", ones({4}).requires_grad_());
  }
  // Required for a class with a tensor as a plain member.
  MovedNet(MovedNet& other)
      : ModuleOf(other),
        first(other.first),
        second(other.second),
        row(other.row),
        norm(other.norm),
        tail(other.tail),
        act(other.act),
        scale(other.scale),
        shift(other.shift),
        offset(other.offset),
        plain(other.plain),
        constant(copy_of(other.constant)),
        factor(other.factor) {}
  MovedNet(MovedNet&&) = default;
  MovedNet& operator=(MovedNet&&) = default;

  Tensor forward(Tensor x) {
    x = second(first(x)) * *scale + *offset;
    for (Child<Linear>& layer : row) x = layer(x);
    if (norm) x = (*norm)(x);
    if (shift) x = x + **shift;
    return act(plain(tail(x))) * factor;
  }
};

// The implicit moves of a class with members of its own, below another one.
struct OuterNet : Module {
  Child<MovedNet> inner{*this, "inner"};
  Child<ModuleDict> heads{*this, "heads"};
  Child<ModuleList> list{*this, "list"};
  OuterNet() {
    heads->add<Linear>("left", 4, 4);
    list->add<Linear>(4, 4);
    list->add(ReLU());
  }
  Tensor forward(const Tensor& x) override {
    Tensor y = heads->at<Linear>("left")(inner(x));
    for (const auto& [name, layer] : *list) y = (*layer)(y);
    return y;
  }
};

std::vector<Tensor> tensors_in(const Module& module) {
  std::vector<Tensor> out = module.parameters();
  for (const NamedTensor& t : module.named_buffers()) out.push_back(t.tensor);
  return out;
}

// The observable state of a module: its keys, its tensors (as objects), and what it computes.
template <class M> struct Seen {
  Names names;
  std::vector<Tensor> tensors;
  std::string text;
  Tensor y;

  Seen(M& module, const Tensor& x)
      : names(names_of(module.state_dict())),
        tensors(tensors_in(module)),
        text(to_string(module)),
        y(module(x)) {}
  void expect_is(M& module, const Tensor& x, int line = __builtin_LINE()) const {
    SCOPED_TRACE(concat_to_string("from line ", line));
    EXPECT_EQ(names_of(module.state_dict()), names);
    EXPECT_EQ(to_string(module), text);
    const std::vector<Tensor> now = tensors_in(module);
    ASSERT_EQ(now.size(), tensors.size());
    for (size_t i = 0; i < now.size(); ++i) EXPECT_TRUE(now[i].is_same(tensors[i])) << i;
    EXPECT_TRUE(same_bits(module(x).detach(), y.detach()));
    for (const auto& [path, each] : module.named_modules()) {
      for (const auto& [name, child] : each->children()) EXPECT_TRUE(child) << path << name;
    }
  }
};

template <class M> M chosen(bool first, M a, M b) {
  if (first) return a;
  return b;
}

// The rules for all kinds of modules. `make(i)` creates the i-th module of a type; they may differ.
template <class Make> void check_moves(const Make& make, const Tensor& on_cpu) {
  using M = decltype(make(0));
  for (const Device device : all_devices()) {
    SCOPED_TRACE(to_string(device));
    const Tensor x = on_cpu.to(device);
    const auto made = [&](int i) {
      manual_seed(uint64_t(i));
      M module = make(i);
      module.to(device).eval();
      return module;
    };
    M a = made(0), b = made(1);
    const Seen<M> sa(a, x), sb(b, x);

    M c = std::move(a);
    sa.expect_is(c, x);
    EXPECT_TRUE(a.parameters().empty());
    const std::string text = concat_to_string("this ", a.type_name(), " was moved from");
    EXPECT_TRUE(refuses<Error>([&] { return a(x); }, text));
    a = std::move(c);
    sa.expect_is(a, x);
    std::swap(a, a);
    sa.expect_is(a, x);
    std::swap(a, b);
    sb.expect_is(a, x);
    sa.expect_is(b, x);
    a = std::move(b);  // drops the previous content of a
    sa.expect_is(a, x);
    b = made(1);
    EXPECT_EQ(names_of(b.state_dict()), sb.names);

    const M returned = chosen(true, std::move(a), made(1));
    M best = made(1);
    a = std::move(const_cast<M&>(returned));
    sa.expect_is(a, x);
    for (int i = 0; i < 2; ++i) {
      best = clone(a);
      EXPECT_EQ(names_of(best.state_dict()), sa.names);
      EXPECT_TRUE(same_bits(best(x).detach(), sa.y.detach()));
    }

    std::vector<M> all;
    for (int i = 0; i < 5; ++i) all.push_back(clone(a));
    all.erase(all.begin() + 1);
    all.insert(all.begin(), std::move(a));
    sa.expect_is(all[0], x);
    for (M& each : all) {
      EXPECT_EQ(names_of(each.state_dict()), sa.names);
      EXPECT_TRUE(same_bits(each(x).detach(), sa.y.detach()));
    }
    // The moved-from module is complete after an assignment to it: it is moved, saved and cloned
    // again.
    all[1] = std::move(all[0]);
    all[1].to(Device()).to(device);
    all[1].load_state_dict(all[1].state_dict());
    sa.expect_is(all[1], x);
    M last = clone(all[1]);
    EXPECT_TRUE(same_bits(last(x).detach(), sa.y.detach()));
  }
}

TEST(Moves, KeepNamesTensorsAndResults) {
  const Tensor rows = numbers({3, 4}), images = numbers({2, 1, 8, 8});
  check_moves([](int) { return Linear(4, 4); }, rows);
  check_moves([](int i) { return Linear(4, 4, {.bias = i == 0}); }, rows);
  check_moves([](int i) { return Linear(4, 4, {.bias = i != 0}); }, rows);
  check_moves([](int i) { return Conv2d(1, 2 + i, 3, {.padding = 1}); }, images);
  check_moves([](int i) { return BatchNorm2d(1, {.affine = i == 0}); }, images);
  check_moves([](int) { return PReLU(); }, rows);
  check_moves([](int i) { return ELU(1.0 + i); }, rows);
  check_moves(
      [](int i) {
        Sequential net(Linear(4, 4), ReLU());
        if (i > 0) net.add(Sequential(Linear(4, 5))).add(LayerNorm(5));
        return net;
      },
      rows);
  check_moves([](int i) { return LSTM(4, 3, {.num_layers = 1 + i}); }, numbers({5, 2, 4}));
  check_moves([](int) { return GRUCell(4, 3); }, rows);
  check_moves([](int i) { return MultiheadAttention(4, 2, {.bias = i == 0}); }, numbers({5, 2, 4}));
  check_moves(
      [](int i) {
        const auto layer = [] { return TransformerEncoderLayer(4, 2, {.dim_feedforward = 8}); };
        return i == 0 ? TransformerEncoder(layer, 2) : TransformerEncoder(layer, 1, LayerNorm(4));
      },
      numbers({5, 2, 4}));
  check_moves([](int i) { return MovedNet(i == 0); }, rows);
  check_moves([](int i) { return MovedNet(i != 0); }, rows);
}

TEST(Moves, OfTreesAndModels) {
  check_moves(
      [](int) {
        return GPT({.vocab_size = 11, .block_size = 8, .n_layer = 2, .n_head = 2, .n_embd = 8});
      },
      tensor({{1, 2, 3}}));
}

TEST(Moves, OfAClassWithImplicitMoves) {
  for (const Device device : all_devices()) {
    OuterNet a, b;
    a.to(device);
    b.to(device);
    const Tensor x = numbers({3, 4}, device);
    const Seen<OuterNet> sa(a, x), sb(b, x);
    std::swap(a, b);
    sb.expect_is(a, x);
    sa.expect_is(b, x);
    std::vector<OuterNet> all;
    all.push_back(std::move(a));
    all.push_back(std::move(b));
    std::swap(all[0], all[1]);
    sa.expect_is(all[0], x);
    sb.expect_is(all[1], x);
    EXPECT_TRUE(refuses<Error>([&] { return a(x); }, "this OuterNet was moved from"));
  }
}

TEST(Moves, AnOptimizerKeepsItsParameters) {
  for (const Device device : all_devices()) {
    MovedNet net, other;
    optim::SGD optimizer(net.parameters(), {.lr = 1e-3});
    const auto step = [&](MovedNet& trained) {
      const Tensor before = trained.first->weight->detach().clone();
      optimizer.zero_grad();
      trained(numbers({3, 4}, device)).sum().backward();
      optimizer.step();
      EXPECT_FALSE(same_bits(trained.first->weight->detach(), before));
    };
    MovedNet moved = std::move(net);
    moved.to(device);
    step(moved);
    other.to(device);
    other = std::move(moved);
    step(other);
    std::swap(other, moved);
    step(moved);
    optim::SGD assigned(std::vector<Tensor>{zeros({1}).requires_grad_()});
    assigned = std::move(optimizer);
    optimizer = std::move(assigned);
    step(moved);
  }
}

TEST(Moves, TakeTiedWeightsHooksAndModesAlong) {
  MovedNet net, other;
  int calls = 0;
  const auto count = [&](Module& m, const Tensor&, const Tensor&) {
    calls += &m == &net;
    return Tensor();
  };
  other.tail->eval();
  const ModuleHookHandle hook = other.register_forward_hook(count);
  const ModuleHookHandle dropped =
      net.register_forward_hook([](Module&, const Tensor&, const Tensor&) -> Tensor {
        throw Error("a hook of what was assigned to");
      });
  net = std::move(other);
  EXPECT_TRUE(net.second->weight->is_same(*net.first->weight));
  EXPECT_FALSE(net.tail->is_training());
  EXPECT_TRUE(net.act->is_training());
  (void)net(numbers({3, 4}));
  EXPECT_EQ(calls, 1);
  EXPECT_EQ(net.children().back().second, &net.plain);
  EXPECT_EQ(net.children()[0].second, &*net.first);
}

// --- places in a parent ---

struct PairNet : Module {
  Child<Linear> fc1{*this, "fc1", 2, 2}, fc2{*this, "fc2", 2, 2};
  Tensor forward(const Tensor& x) override { return fc2(fc1(x)); }
};

// The tensors that the state dict has under a name are those that the Child of that name uses.
void expect_named(const PairNet& net, const Tensor& one, const Tensor& two) {
  EXPECT_EQ(names_of(net.state_dict()),
            (Names{"fc1.weight", "fc1.bias", "fc2.weight", "fc2.bias"}));
  EXPECT_TRUE(net.parameters()[0].is_same(one));
  EXPECT_TRUE(net.parameters()[2].is_same(two));
  EXPECT_TRUE(net.fc1->weight->is_same(one));
  EXPECT_TRUE(net.fc2->weight->is_same(two));
}

TEST(MovedChildren, AreNamedByTheMemberThatHoldsThem) {
  PairNet net, other;
  const Tensor a = *net.fc1->weight, b = *net.fc2->weight;
  const Tensor c = *other.fc1->weight, d = *other.fc2->weight;
  std::swap(net.fc1, net.fc2);
  expect_named(net, b, a);
  std::swap(net.fc1, other.fc1);
  expect_named(net, c, a);
  expect_named(other, b, d);
  std::swap(*net.fc1, *net.fc2);
  expect_named(net, a, c);
  std::swap(*net.fc1, *other.fc2);
  expect_named(net, d, c);
  expect_named(other, b, a);
  std::swap(net, other);
  expect_named(other, d, c);
  expect_named(net, b, a);
}

TEST(MovedChildren, MayBeAssignedToAfterTheyWereMovedFrom) {
  PairNet net;
  const Tensor two = *net.fc2->weight;
  Child<Linear> taken = std::move(net.fc1);
  EXPECT_TRUE(refuses<Error>([&] { return net(ones({1, 2})); }, "this Child was moved from"));
  net.fc1 = Linear(2, 2);  // `taken` loses its place in the tree
  expect_named(net, *net.fc1->weight, two);
  EXPECT_EQ(taken(ones({1, 2})).shape(), (Shape{1, 2}));
  // Out of a tree that was destroyed, and back.
  {
    PairNet gone;
    taken = std::move(gone.fc1);
  }
  const Tensor one = *taken->weight;
  net.fc1 = std::move(taken);
  expect_named(net, one, two);
  taken = Linear(2, 2);
  std::swap(taken, net.fc1);
  EXPECT_TRUE(taken->weight->is_same(one));
  expect_named(net, *net.fc1->weight, two);
}

TEST(MovedChildren, InVectorsStayInTheTreeOnceEach) {
  struct Stack : Module {
    std::vector<Child<Linear>> layers;
    Stack() {
      for (int i = 0; i < 6; ++i) layers.emplace_back(*this, concat_to_string("layer", i), 2, 2);
    }
  } net;
  const auto expect_whole = [&] {
    ASSERT_EQ(net.children().size(), net.layers.size());
    for (const Child<Linear>& layer : net.layers) {
      const auto is_layer = [&](const auto& child) { return child.second == &*layer; };
      EXPECT_EQ(std::ranges::count_if(net.children(), is_layer), 1);
    }
  };
  net.layers.erase(net.layers.begin() + 2);
  expect_whole();
  net.layers.insert(net.layers.begin() + 1, Child<Linear>(net, "new", 2, 2));
  expect_whole();
  std::swap(net.layers[0], net.layers[3]);
  expect_whole();
  std::rotate(net.layers.begin(), net.layers.begin() + 2, net.layers.end());
  expect_whole();
  net.layers[4] = Linear(2, 2);
  expect_whole();
  Stack moved = std::move(net);
  net = std::move(moved);
  expect_whole();
  net.layers.clear();
  EXPECT_TRUE(net.children().empty());
}

TEST(MovedModules, ThatAreHeldKeepTheirPlaces) {
  PairNet net;
  const Linear taken = std::move(*net.fc1);
  EXPECT_EQ(net.children()[0].second, &*net.fc1);
  EXPECT_TRUE(refuses<Error>([&] { return net(ones({1, 2})); }, "this Linear was moved from"));
  *net.fc1 = Linear(2, 2);
  EXPECT_EQ(net(ones({1, 2})).shape(), (Shape{1, 2}));
  EXPECT_EQ(names_of(net.named_parameters()).size(), 4u);
  Sequential list(Linear(2, 2), Linear(2, 3));
  list.at<Linear>(0) = Linear(2, 2);
  std::swap(list.at<Linear>(0), list.at<Linear>(1));
  EXPECT_EQ(list.state_dict()[0].tensor.shape(), (Shape{3, 2}));
}

TEST(MovedModules, AreNeverSliced) {
  NonDynamicallyQuantizableLinear derived(2, 2);
  Linear& base = derived;
  const Linear& constant = derived;
  EXPECT_TRUE(
      refuses<TypeError>([&] { return base = Linear(2, 2), 0; },
                         "a Linear cannot be assigned to a NonDynamicallyQuantizableLinear"));
  Sequential net{ReLU()};
  EXPECT_TRUE(refuses<TypeError>([&] { return &net.add(std::move(base)); },
                                 "a NonDynamicallyQuantizableLinear was given as a module of its "
                                 "base type, Linear"));
  EXPECT_TRUE(refuses<TypeError>([&] { return net.replace(0, std::move(base)).in_features; }, ""));
  EXPECT_TRUE(refuses<TypeError>([&] { return clone(constant).in_features; }, ""));
  PairNet pair;
  EXPECT_TRUE(refuses<TypeError>([&] { return pair.fc1 = std::move(base), 0; }, ""));
  EXPECT_EQ(base(ones({1, 2})).shape(), (Shape{1, 2}));
  EXPECT_EQ(net.size(), 1u);
}

TEST(MovedModules, AreNotAssignedToTheirOwnParts) {
  Sequential net(Linear(2, 2));
  net.add(Sequential(Linear(2, 2)));
  Sequential& part = net.at<Sequential>(1);
  const char* const text = "a Sequential cannot be assigned to one that it is a part of";
  EXPECT_TRUE(refuses<Error>([&] { return net = std::move(part), 0; }, text));
  EXPECT_TRUE(refuses<Error>([&] { return part = std::move(net), 0; }, text));
  EXPECT_EQ(net(ones({1, 2})).shape(), (Shape{1, 2}));
  Sequential inner = std::move(part);
  net = std::move(inner);
  EXPECT_EQ(names_of(net.state_dict()), (Names{"0.weight", "0.bias"}));
}

TEST(Moves, OfALossTakeItsWeights) {
  CrossEntropyLoss a({.weight = ones({3})}), b;
  std::swap(a, b);
  EXPECT_TRUE(a.state_dict().empty());
  EXPECT_TRUE(b.named_buffers()[0].tensor.is_same(b.options.weight));
}

// --- any derived class ---

struct Doubled : Linear {
  using Linear::Linear;
  Tensor forward(const Tensor& x) override { return Linear::forward(x) * 2; }
};

TEST(ChildOfAnyType, HoldsTheObjectThatWasGiven) {
  struct Net : Module {
    Child<Module> act{*this, "act", Doubled(2, 2)};
    Child<ModuleList> list{*this, "list"};
    Net() { list->add<Module>(Doubled(2, 2)); }
    Tensor forward(const Tensor& x) override { return act(x); }
  } net;
  const auto& held = dynamic_cast<Doubled&>(*net.act);
  const Tensor x = numbers({3, 2});
  EXPECT_TRUE(same_bits(net(x).detach(), (matmul(x, held.weight->t()) + *held.bias).detach() * 2));
  EXPECT_EQ(names_of(net.state_dict()),
            (Names{"act.weight", "act.bias", "list.0.weight", "list.0.bias"}));
  EXPECT_EQ((*net.list)[0].type_name(), "Doubled");
  net.act = Linear(2, 2);
  EXPECT_EQ(net.act->type_name(), "Linear");
}

}  // namespace
}  // namespace taper::v0::test
