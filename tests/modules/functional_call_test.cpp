// Calls of a module with other tensors in the place of its parameters and buffers.
#include "modules/functional_call.h"

#include <cmath>
#include <optional>
#include <stdexcept>

#include <gtest/gtest.h>

#include "autograd/engine.h"
#include "autograd/node.h"
#include "autograd/ops/binary_ops.h"
#include "autograd/ops/matmul_ops.h"
#include "autograd/ops/reduce_ops.h"
#include "autograd/ops/unary_ops.h"
#include "modules/layers/containers.h"
#include "modules/layers/linear.h"
#include "modules/layers/norm_layers.h"
#include "modules/layers/rnn_layers.h"
#include "modules/layers/stateless.h"
#include "optim/algorithms/sgd.h"
#include "tests/modules/modules.h"
#include "tests/testing.h"

namespace taper::v0::test {
namespace {

struct TwoLayers : ModuleOf<TwoLayers> {
  Child<Linear> first{*this, "first", 3, 3}, second{*this, "second", 3, 3};
  Parameter scale{*this, "scale", numbers({3})};
  Buffer shift{*this, "shift", ones({3})};
  Tensor forward(const Tensor& x) { return second(tanh(first(x))) * scale + shift; }
  Tensor forward(const Tensor& x, double factor) { return forward(x) * factor; }
};

std::vector<NamedTensor> doubled(const Module& net) {
  std::vector<NamedTensor> out;
  for (const auto& [name, p] : net.named_parameters()) out.push_back({name, p.detach() * 2});
  return out;
}

TEST(FunctionalCall, ComputesWithTheGivenTensorsAndRestoresItsOwn) {
  for (const Device device : all_devices()) {
    TwoLayers net;
    net.to(device);
    const Tensor x = numbers({2, 3}, device);
    const std::vector<Tensor> own = net.parameters();
    TwoLayers other = clone(net);
    other.load_state_dict(doubled(net), {.strict = false});
    const Tensor before = net(x);
    EXPECT_TRUE(close(functional_call(net, doubled(net), x), other(x), 0));
    EXPECT_TRUE(close(functional_call(net, doubled(net), x, 3.0), other(x, 3.0), 0));
    EXPECT_TRUE(close(net(x), before, 0));
    for (size_t i = 0; i < own.size(); ++i) EXPECT_TRUE(own[i].is_same(net.parameters()[i]));
  }
}

TEST(FunctionalCall, ReplacesOnlyWhatIsNamedAlsoBuffers) {
  TwoLayers net;
  const Tensor x = numbers({2, 3});
  EXPECT_TRUE(close(functional_call(net, {}, x), net(x), 0));
  EXPECT_TRUE(close(functional_call(net, {{"shift", full({3}, 5.0)}}, x), net(x) + 4, 1e-6));
  EXPECT_TRUE(close(*net.shift, ones({3}), 0));
}

TEST(FunctionalCall, GradientsOfAnyOrderReachTheGivenTensorsOnly) {
  TwoLayers net;
  const Tensor x = numbers({2, 3});
  const Tensor factor = full({}, 2.0, {.requires_grad = true});
  std::vector<NamedTensor> given;
  for (const auto& [name, p] : net.named_parameters()) given.push_back({name, p.detach() * factor});
  const Tensor loss = functional_call(net, given, x).square().sum();
  const Tensor first = grad({loss}, {factor}, {.create_graph = true})[0];
  const Tensor second = grad({first}, {factor})[0];
  for (const Tensor& p : net.parameters()) EXPECT_FALSE(p.grad().defined());
  // central differences of the same loss
  const auto loss_at = [&](double f) {
    std::vector<NamedTensor> scaled;
    for (const auto& [name, p] : net.to(kFloat64).named_parameters())
      scaled.push_back({name, p.detach() * f});
    return functional_call(net, scaled, x.to(kFloat64)).square().sum().item<double>();
  };
  const double h = 1e-4;
  EXPECT_NEAR(first.item<double>(), (loss_at(2 + h) - loss_at(2 - h)) / (2 * h),
              1e-4 * (1 + std::abs(first.item<double>())));
  EXPECT_NEAR(second.item<double>(), (loss_at(2 + h) - 2 * loss_at(2) + loss_at(2 - h)) / (h * h),
              1e-3 * (1 + std::abs(second.item<double>())));
}

TEST(FunctionalCall, OwnParametersThatAreNotNamedStillGetGradients) {
  TwoLayers net;
  functional_call(net, {{"scale", ones({3})}}, numbers({2, 3})).sum().backward();
  EXPECT_TRUE(net.first->weight->grad().defined());
  EXPECT_FALSE(net.scale->grad().defined());
}

TEST(FunctionalCall, RestoresWhenAnExceptionLeaves) {
  struct Throwing : ModuleOf<Throwing> {
    Parameter w{*this, "w", ones({2})};
    Tensor forward(const Tensor& x) {
      if (w->sum().item<double>() > 2) throw std::out_of_range("foreign");
      return x * w;
    }
  } net;
  const Tensor own = *net.w;
  EXPECT_THROW((void)functional_call(net, {{"w", full({2}, 9.0)}}, ones({2})), std::out_of_range);
  EXPECT_TRUE(own.is_same(*net.w));
  EXPECT_TRUE(close(net(ones({2})), {2}, {1, 1}, 0));
}

TEST(FunctionalCall, TiedWeightsAreReplacedTogether) {
  struct Tied : ModuleOf<Tied> {
    Child<Linear> in{*this, "in", 3, 3, LinearOptions{.bias = false}};
    Child<Linear> out{*this, "out", 3, 3, LinearOptions{.bias = false}};
    Tied() { out->weight.share(in->weight); }
    Tensor forward(const Tensor& x) override { return out(in(x)); }
  } net;
  const Tensor x = numbers({2, 3}), twice = eye(3) * 2;
  EXPECT_TRUE(close(functional_call(net, {{"in.weight", twice}}, x), x * 4, 1e-6));
  EXPECT_TRUE(close(functional_call(net, {{"out.weight", twice}}, x), x * 4, 1e-6));
  EXPECT_TRUE(
      close(functional_call(net, {{"in.weight", twice}, {"out.weight", twice}}, x), x * 4, 1e-6));
  EXPECT_TRUE(net.in->weight->is_same(*net.out->weight));
  EXPECT_TRUE(refuses<ValueError>(
      [&] {
        return functional_call(net, {{"in.weight", twice}, {"out.weight", eye(3)}}, x);
      },
      "functional_call of a Tied:\n\t\"out.weight\" and \"in.weight\" are tied, but two different "
      "tensors are given"));
}

TEST(FunctionalCall, WhatDoesNotFitIsRefusedByNameAndChangesNothing) {
  TwoLayers net;
  const Tensor own = *net.scale, x = ones({2, 3});
  struct Row {
    std::vector<NamedTensor> given;
    const char* message;
  };
  const Row rows[] = {
      {{{"scale", ones({3})}, {"third.weight", ones({3, 3})}},
       "functional_call of a TwoLayers:\n\t\"third.weight\" is no parameter or buffer of the "
       "module\n\tThe module's tensors: \"scale\", \"shift\", \"first.weight\", \"first.bias\", "
       "\"second.weight\", \"second.bias\""},
      {{{"", ones({3})}}, "functional_call of a TwoLayers:\n\t\"\" is no parameter or buffer"},
      {{{"scale", ones({4})}, {"shift", ones({})}},
       "functional_call of a TwoLayers:\n\t\"scale\" has shape [4], the module's has shape [3]\n\t"
       "\"shift\" has shape [], the module's has shape [3]"},
      {{{"scale", Tensor()}}, "functional_call of a TwoLayers:\n\t\"scale\" is undefined"},
      {{{"scale", ones({3})}, {"scale", ones({3})}},
       "functional_call of a TwoLayers:\n\t\"scale\" is given twice"},
  };
  for (const Row& row : rows) {
    EXPECT_TRUE(
        refuses<ValueError>([&] { return functional_call(net, row.given, x); }, row.message));
    EXPECT_TRUE(own.is_same(*net.scale));
  }
}

TEST(FunctionalCall, WorksOnChildrenListsAndRecurrentLayers) {
  struct Net : Module {
    Child<Sequential> body{*this, "body", Linear(3, 4), ReLU(), Linear(4, 2)};
  } net;
  const Tensor x = numbers({2, 3});
  EXPECT_TRUE(close(functional_call(net.body, {{"2.weight", zeros({2, 4})}}, x),
                    net.body->at<Linear>(2).bias->expand({2, 2}), 0));
  LSTM lstm(3, 4);
  LSTM other = clone(lstm);
  other.load_state_dict(doubled(lstm));
  EXPECT_TRUE(close(functional_call(lstm, doubled(lstm), numbers({5, 2, 3})),
                    other(numbers({5, 2, 3})), 0));
}

TEST(FunctionalCall, RunningStatisticsAreWrittenToTheGivenBuffers) {
  BatchNorm1d norm(3);
  const Tensor mean = zeros({3});
  (void)functional_call(norm, {{"running_mean", mean}}, full({4, 3}, 10.0));
  EXPECT_TRUE(close(mean, {3}, {1, 1, 1}, 1e-6));
  EXPECT_TRUE(close(*norm.running_mean, zeros({3}), 0));
}

TEST(FunctionalCall, GuardsNestAndCoverSeveralCalls) {
  TwoLayers net;
  const Tensor x = numbers({2, 3}), own = *net.scale;
  {
    const FunctionalGuard outer(net, {{"scale", zeros({3})}});
    EXPECT_TRUE(close(net(x), ones({2, 3}), 0));
    {
      const FunctionalGuard inner(net, {{"scale", ones({3})}, {"shift", zeros({3})}});
      EXPECT_FALSE(close(net(x), ones({2, 3}), 0));
    }
    EXPECT_TRUE(close(net(x), ones({2, 3}), 0));
  }
  EXPECT_TRUE(own.is_same(*net.scale));
}

TEST(FunctionalCall, ALayerThatIsReplacedMeanwhileStaysReplaced) {
  struct Net : Module {
    Child<Linear> fc{*this, "fc", 3, 3};
  } net;
  {
    const FunctionalGuard guard(net, {{"fc.weight", ones({3, 3})}});
    net.fc = Linear(3, 2);
  }
  EXPECT_EQ(names_of(net.state_dict()), (Names{"fc.weight", "fc.bias"}));
  EXPECT_EQ(net.fc->weight->shape(), (Shape{2, 3}));
}

TEST(FunctionalCall, ACheckpointThatWouldUseOtherTensorsIsRefused) {
  TwoLayers net;
  const Tensor x = numbers({2, 3}).requires_grad_();
  const auto run = [&](const Tensor& input) {
    return checkpoint([&](const std::vector<Tensor>& in) { return net(in[0]); }, {input}).sum();
  };
  const auto gradient = [&](bool keeps_guard) {
    x.set_grad({});
    std::optional<FunctionalGuard> guard;
    guard.emplace(net, doubled(net));
    const Tensor loss = run(x);
    if (!keeps_guard) guard.reset();
    loss.backward();
    return x.grad();
  };
  TwoLayers other = clone(net);
  other.load_state_dict(doubled(net), {.strict = false});
  const Tensor want = grad({other(x).sum()}, {x})[0];
  EXPECT_TRUE(close(gradient(true), want, 1e-6));
  EXPECT_TRUE(refuses<Error>([&] { return gradient(false); },
                             "taper::checkpoint: the function ran within functional_call()"));
  EXPECT_NO_THROW(run(x).backward());
}

TEST(FunctionalCall, OptimizersDoNotMissTheParametersMeanwhile) {
  TwoLayers net;
  optim::SGD optimizer(net.parameters(), {.lr = 0.1});
  const FunctionalGuard guard(net, doubled(net));
  EXPECT_NO_THROW(optimizer.step());
}

}  // namespace
}  // namespace taper::v0::test
