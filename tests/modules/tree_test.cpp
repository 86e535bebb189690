// The mechanisms of Module: hooks, traversal, freezing, sharing, strict loading, summaries, and
// tensors outside of the tree.
#include <tuple>

#include <gtest/gtest.h>

#include "autograd/node.h"
#include "autograd/ops/binary_ops.h"
#include "autograd/ops/matmul_ops.h"
#include "autograd/ops/reduce_ops.h"
#include "autograd/ops/unary_ops.h"
#include "framework/factory/factories.h"
#include "modules/layers/containers.h"
#include "modules/layers/conv_layers.h"
#include "modules/layers/linear.h"
#include "modules/layers/norm_layers.h"
#include "modules/layers/stateless.h"
#include "modules/summary.h"
#include "optim/algorithms/sgd.h"
#include "tests/testing.h"

namespace taper::v0::test {
namespace {

Sequential small_net() { return Sequential(Linear(3, 4), ReLU(), Linear(4, 2)); }

TEST(ModuleTree, NamedModulesListsEveryModuleOnceFromTheTop) {
  Sequential net = small_net();
  std::vector<std::string> names;
  for (const auto& [path, module] : net.named_modules())
    names.push_back(path + ":" + module->type_name());
  EXPECT_EQ(names, (std::vector<std::string>{":Sequential", "0:Linear", "1:ReLU", "2:Linear"}));

  struct Twice : Module {
    Child<Linear> one{*this, "one", 2, 2};
    Twice() { register_module("two", *one); }
    Tensor forward(const Tensor& x) override { return one(one(x)); }
    std::string type_name() const override { return "Twice"; }
  } twice;
  EXPECT_EQ(twice.named_modules().size(), 2u);
  EXPECT_EQ(twice.parameters().size(), 2u);
  EXPECT_EQ(twice.state_dict().size(), 4u);
}

TEST(ModuleTree, ApplyVisitsChildrenBeforeTheirParent) {
  Sequential net = small_net();
  std::vector<std::string> types;
  net.apply([&](Module& m) { types.push_back(m.type_name()); });
  EXPECT_EQ(types, (std::vector<std::string>{"Linear", "ReLU", "Linear", "Sequential"}));
}

TEST(ModuleTree, FrozenParametersGetNoGradient) {
  Sequential net = small_net();
  net[0].requires_grad_(false);
  sum(net(ones({2, 3}))).backward();
  EXPECT_FALSE(net.parameters()[0].grad().defined());
  EXPECT_TRUE(net.parameters()[2].grad().defined());
  net.requires_grad_();
  sum(net(ones({2, 3}))).backward();
  EXPECT_TRUE(net.parameters()[0].grad().defined());
}

TEST(ModuleHooks, SeeAndReplaceInputsAndOutputs) {
  Sequential net = small_net();
  std::vector<std::string> log;
  ModuleHookHandle before = net[0].register_forward_pre_hook([&](Module& m, const Tensor& x) {
    log.push_back("before " + m.type_name() + to_string(x.shape()));
    return x * 0;
  });
  ModuleHookHandle after =
      net[0].register_forward_hook([&](Module& m, const Tensor& x, const Tensor& y) {
        log.push_back("after " + m.type_name() + to_string(x.shape()) + to_string(y.shape()));
        EXPECT_TRUE(same_bits(x, zeros({2, 3})));
        return Tensor();
      });
  ModuleHookHandle last = net.register_forward_hook(
      [&](Module&, const Tensor&, const Tensor& y) { return full_like(y, 7); });
  EXPECT_TRUE(close(net(ones({2, 3})), full({2, 2}, 7.), 0));
  EXPECT_EQ(log, (std::vector<std::string>{"before Linear[2, 3]", "after Linear[2, 3][2, 4]"}));
  before.remove();
  after.remove();
  last.remove();
  last.remove();
  (void)net(ones({2, 3}));
  EXPECT_EQ(log.size(), 2u);
}

TEST(ModuleHooks, MayRemoveThemselves) {
  Linear layer(2, 2);
  int calls = 0;
  ModuleHookHandle handle;
  handle = layer.register_forward_hook([&](Module&, const Tensor&, const Tensor&) {
    ++calls;
    handle.remove();
    return Tensor();
  });
  (void)layer(ones({1, 2}));
  (void)layer(ones({1, 2}));
  EXPECT_EQ(calls, 1);
}

// An output layer that uses the embedding's weight.
struct TiedHead : Module {
  Child<Embedding> embedding{*this, "embedding", 5, 3};
  Child<Linear> head{*this, "head", 3, 5, LinearOptions{.bias = false}};
  TiedHead() { head->weight.share(embedding->weight); }
  Tensor forward(const Tensor& x) override { return head(embedding(x)); }
  std::string type_name() const override { return "TiedHead"; }
};

TEST(ModuleSharing, OneParameterUnderTwoNames) {
  for (const Device device : all_devices()) {
    TiedHead net;
    ASSERT_EQ(net.parameters().size(), 1u);
    EXPECT_EQ(net.named_parameters()[0].name, "embedding.weight");
    EXPECT_EQ(net.state_dict().size(), 2u);
    net.to(device);
    EXPECT_TRUE(net.head->weight->is_same(*net.embedding->weight));
    sum(net(tensor({0, 1}).to(device))).backward();
    EXPECT_TRUE(net.embedding->weight->grad().defined());
    optim::SGD optimizer(net.parameters(), {.lr = 1});
    optimizer.step();
    EXPECT_TRUE(same_bits(*net.head->weight, *net.embedding->weight));
    // A moved module keeps what is shared.
    const TiedHead moved = std::move(net);
    EXPECT_EQ(moved.parameters().size(), 1u);
  }
}

TEST(ModuleSharing, OneOfTheNamesIsEnoughToLoad) {
  TiedHead net;
  const Tensor weight = arange(15.).view({5, 3});
  for (const char* name : {"embedding.weight", "head.weight"}) {
    net.load_state_dict({{name, weight}});
    EXPECT_TRUE(close(*net.head->weight, weight, 0));
    net.embedding->weight = zeros({5, 3});
  }
  EXPECT_TRUE(refuses<Error>([&] { net.load_state_dict({}); },
                             "Error(s) in loading state_dict for TiedHead:\n\tMissing key(s) in "
                             "state_dict: \"embedding.weight\", \"head.weight\"."));
}

TEST(ModuleSharing, OtherShapesAreRefused) {
  Linear a(2, 3), b(3, 3), c(3, 3, {.bias = false});
  EXPECT_TRUE(refuses<Error>([&] { a.weight.share(b.weight); },
                             "cannot share a parameter of shape [3, 3] as one of shape [3, 2]"));
  EXPECT_TRUE(refuses<Error>([&] { a.bias.share(c.bias); },
                             "cannot share a parameter of shape none as one of shape [3]"));
}

struct LoadRow {
  const char* rule;
  std::vector<NamedTensor> state;
  LoadOptions options;
  std::string says;  // empty: loads
};

TEST(LoadStateDict, ReportsWhatDoesNotFit) {
  const Tensor w = ones({2, 3}), b = ones({2});
  const std::string head = "Error(s) in loading state_dict for Linear:";
  const std::vector<LoadRow> rows = {
      {"fits", {{"weight", w}, {"bias", b}}, {}, ""},
      {"missing", {{"weight", w}}, {}, head + "\n\tMissing key(s) in state_dict: \"bias\"."},
      {"unexpected",
       {{"weight", w}, {"z", b}, {"bias", b}, {"a", b}},
       {},
       head + "\n\tUnexpected key(s) in state_dict: \"z\", \"a\"."},
      {"shape",
       {{"weight", b}, {"bias", b}},
       {},
       head + "\n\tsize mismatch for weight: copying a param with shape [2] from "
              "checkpoint, the shape in current model is [2, 3]."},
      {"shape counts without strict",
       {{"weight", b}},
       {.strict = false},
       head + "\n\tsize mismatch"},
      {"not strict", {{"weight", w}, {"other", w}}, {.strict = false}, ""},
      {"twice",
       {{"weight", w}, {"weight", w}},
       {},
       "load_state_dict: the state has two tensors \"weight\""},
      {"prefix of the state",
       {{"module.weight", w}, {"module.bias", b}},
       {},
       head +
           "\n\tMissing key(s) in state_dict: \"weight\", \"bias\".\n\tUnexpected key(s) in "
           "state_dict: \"module.weight\", \"module.bias\".\n\tThe names of the state begin with "
           "\"module.\", the model's do not: load_state_dict(state, {.prefix = \"module.\"})."},
      {"prefix given", {{"module.weight", w}, {"module.bias", b}}, {.prefix = "module."}, ""},
      {"prefix given, others left",
       {{"module.weight", w}, {"module.bias", b}, {"x", b}},
       {.prefix = "module."},
       head + "\n\tUnexpected key(s) in state_dict: \"x\"."},
  };
  for (const LoadRow& row : rows) {
    SCOPED_TRACE(row.rule);
    Linear layer(3, 2);
    const Tensor before = layer.weight->detach().clone();
    if (row.says.empty()) {
      layer.load_state_dict(row.state, row.options);
      EXPECT_TRUE(close(*layer.weight, w, 0));
    } else {
      EXPECT_TRUE(refuses<Error>([&] { layer.load_state_dict(row.state, row.options); }, row.says));
      EXPECT_TRUE(same_bits(*layer.weight, before));
    }
  }
}

TEST(LoadStateDict, NamesTheModuleWhenTheModelHasThePrefix) {
  struct Wrapped : Module {
    Child<Linear> net{*this, "net", 3, 2};
    Tensor forward(const Tensor& x) override { return net(x); }
    std::string type_name() const override { return "Wrapped"; }
  } model;
  try {
    model.load_state_dict(model.net->state_dict());
    FAIL() << "loaded";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("load it into the module \"net\""), std::string::npos);
  }
}

TEST(LoadStateDict, ReturnsWhatDidNotMatch) {
  Linear layer(3, 2);
  const IncompatibleKeys keys =
      layer.load_state_dict({{"weight", ones({2, 3})}, {"more", ones({1})}}, {.strict = false});
  EXPECT_EQ(keys.missing_keys, std::vector<std::string>{"bias"});
  EXPECT_EQ(keys.unexpected_keys, std::vector<std::string>{"more"});
}

// A layer as a plain member: without Child and name.
struct Forgetful : Module {
  Linear layer{2, 2};
  Tensor forward(const Tensor& x) override { return layer(x); }
  std::string type_name() const override { return "Forgetful"; }
};

TEST(OutsideTheTree, ALayerThatWasNotRegisteredIsRefusedWhenItRuns) {
  Forgetful net;
  EXPECT_TRUE(refuses<Error>(
      [&] {
        (void)net(ones({1, 2}));
      },
      "Linear runs inside Forgetful's forward but is in no module's tree"));
  {
    const NoGradGuard guard;
    (void)net(ones({1, 2}));
  }
  net.layer.requires_grad_(false);
  EXPECT_EQ(net(ones({1, 2})).shape(), (Shape{1, 2}));
  // A module that is used alone, or without parameters, needs no tree.
  Linear alone(2, 2);
  (void)alone(ones({1, 2}));
}

TEST(OutsideTheTree, ATensorThatTrainsNowhereIsNamedByItsShape) {
  struct Stray : Module {
    Child<Linear> fc{*this, "fc", 2, 2};
    Tensor scale = ones({2, 1}).requires_grad_();
    Tensor forward(const Tensor& x) override { return fc(x) * scale; }
    std::string type_name() const override { return "Stray"; }
  } net;
  EXPECT_TRUE(refuses<Error>(
      [&] {
        check_all_registered(net, sum(net(ones({2, 2}))));
      },
      "the loss depends on tensors that require grad and are no parameters of the Stray, of "
      "shapes [2, 1]"));
  check_all_registered(net, sum(net.fc(ones({2, 2}))));
}

TEST(Summary, CountsParametersMultiplyAddsAndActivations) {
  for (const Device device : all_devices()) {
    Sequential net(Conv2d(3, 8, 3, {.padding = 1}), ReLU(), Flatten(), Linear(8 * 4 * 4, 10));
    net.to(device);
    net[3].requires_grad_(false);
    const Tensor x = ones({2, 3, 4, 4}).to(device);
    const std::vector<ModuleSummary> rows = summarize(net, x);
    ASSERT_EQ(rows.size(), 5u);
    const auto& [all, conv, relu, flat, linear] =
        std::tie(rows[0], rows[1], rows[2], rows[3], rows[4]);
    EXPECT_EQ(conv.path, "0");
    EXPECT_EQ(conv.type, "Conv2d");
    EXPECT_EQ(conv.output, (Shape{2, 8, 4, 4}));
    EXPECT_EQ(conv.parameters, 8 * 3 * 9 + 8);
    EXPECT_EQ(conv.multiply_adds, 2 * 8 * 16 * 27);
    EXPECT_EQ(linear.multiply_adds, 2 * 128 * 10);
    EXPECT_EQ(linear.parameters, 1290);
    EXPECT_EQ(linear.trained, 0);
    EXPECT_EQ(all.multiply_adds, conv.multiply_adds + linear.multiply_adds);
    EXPECT_EQ(all.parameters, 224 + 1290);
    EXPECT_EQ(all.trained, 224);
    EXPECT_EQ(all.output, (Shape{2, 10}));
    // Half of the outputs are kept only by the backward passes of ReLU and Linear.
    EXPECT_GE(all.activation_bytes, 2 * 128 * 4);
    EXPECT_EQ(relu.calls, 1);
    EXPECT_EQ(flat.parameters, 0);
    // Its hooks have been removed.
    (void)net(x);
    // A convolution of volumes counts the products of all kernel positions, although planes that do
    // not depend on each other are computed like images.
    for (const auto& [kernel, positions] :
         {std::pair(Triple(3), 27), std::pair(Triple(1, 3, 2), 6)}) {
      Sequential deep(Conv3d(3, 8, kernel, {.padding = "same", .device = device}));
      const ModuleSummary row = summarize(deep, ones({2, 3, 5, 4, 6}, {.device = device}))[1];
      EXPECT_EQ(row.type, "Conv3d");
      EXPECT_EQ(row.output, (Shape{2, 8, 5, 4, 6}));
      EXPECT_EQ(row.parameters, 8 * 3 * positions + 8);
      EXPECT_EQ(row.multiply_adds, 2 * 8 * 120 * 3 * positions);
    }
  }
}

TEST(Summary, PrintsATable) {
  Sequential net(Linear(3, 4), ReLU(), Linear(4, 2, {.bias = false}));
  const NoGradGuard guard;
  const std::string text = summary(net, ones({5, 3}));
  EXPECT_TRUE(
      text.starts_with("module      output  parameters  multiply-adds  activations\n"
                       "Sequential  [5, 2]          24            100"))
      << text;
  EXPECT_NE(text.find("\n  Linear 0  [5, 4]          16             60"), std::string::npos)
      << text;
  EXPECT_NE(text.find("\nparameters: 24 (24 trained), 96 B\nmultiply-adds: 100\nactivations: "),
            std::string::npos)
      << text;
}

}  // namespace
}  // namespace taper::v0::test
