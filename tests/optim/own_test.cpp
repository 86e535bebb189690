// User-defined optimizers: what is needed to write one, and that everything that works with Taper's
// optimizers works with them.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <functional>
#include <limits>
#include <map>

#include <gtest/gtest.h>
#include <unistd.h>

#include "autograd/step_graph.h"
#include "framework/io/safetensors.h"
#include "modules/layers/containers.h"
#include "modules/layers/linear.h"
#include "optim/ema.h"
#include "optim/grad_scaler.h"
#include "optim/schedule.h"
#include "tests/optim/all_optimizers.h"
#include "tests/optim/own_optimizers.h"

namespace taper::v0::test {
namespace {

using namespace optim;

TEST(OwnOptimizer, FollowsItsFormula) {
  for (const Device device : all_devices()) {
    const Tensor p = full({2}, 1.0, {.dtype = kFloat64, .device = device, .requires_grad = true});
    SignSGD optimizer({p}, {.lr = 0.5, .momentum = 0.5, .weight_decay = 0.25});
    std::vector<std::vector<double>> values;
    for (const double g : {2.0, -1.0, -3.0}) {  // the running means are 1, 0 and -1.5
      p.set_grad(full_like(p, g).detach());
      optimizer.step();
      values.push_back(values_of(p));
    }
    const double first = 1 - 0.5 * (1 + 0.25), second = first - 0.5 * 0.25 * first;
    EXPECT_EQ(values[0], std::vector<double>(2, first));
    EXPECT_EQ(values[1], std::vector<double>(2, second));
    EXPECT_EQ(values[2], std::vector<double>(2, second - 0.5 * (-1 + 0.25 * second)));
    EXPECT_TRUE(p.is_leaf() && p.requires_grad());
  }
}

TEST(OwnOptimizer, BranchesOnTheDevicesCount) {
  for (const Device device : all_devices()) {
    const Tensor p = full({3}, 8.0, {.device = device, .requires_grad = true});
    Lookahead optimizer({p}, {.lr = 1, .alpha = 0.25, .k = 2});
    std::vector<double> values;
    for (int t = 0; t < 4; ++t) {
      p.set_grad(ones({3}, {.device = device}));
      optimizer.step();
      values.push_back(values_of(p)[1]);
    }
    EXPECT_EQ(values, (std::vector<double>{7, 7.5, 6.5, 7}));
  }
}

struct WithoutStateOptions {
  double lr = 1;
  template <class V> void describe(V& v) { v("lr", lr, kPositive, "learning rate"); }
  OptimizerTraits traits() const { return {"WithoutState", {}, OptimizerTraits::kCounted, 0.5}; }
  void update(const ParamStep&) const {}
};

TEST(OwnOptimizer, AnInitialValueNeedsAState) {
  const std::vector<Tensor> params = {ones({2}).requires_grad_()};
  EXPECT_TRUE(refuses<ValueError>(
      [&] { return OptimizerOf<WithoutStateOptions>(params).num_groups(); },
      "WithoutState: traits() gives an initial value but names no state for it"));
}

TEST(OwnOptimizer, GroupsTakeSettingsByName) {
  Sequential net(Linear(3, 4), Linear(4, 2));
  SignSGD optimizer(net.named_parameters(), {.lr = 0.5, .weight_decay = 0.1},
                    {{"0.*", {{"momentum", 0.25}, {"lr", 0.125}}}, no_decay()});
  std::map<std::string, double> settings;
  for (const auto& [name, tensor] : optimizer.state_dict()) {
    if (!name.ends_with("params")) settings[name] = tensor.item<double>();
  }
  const std::map<std::string, double> want = {
      {"param_groups.0.lr", 0.5},           {"param_groups.0.momentum", 0.9},
      {"param_groups.0.weight_decay", 0.1}, {"param_groups.1.lr", 0.125},
      {"param_groups.1.momentum", 0.25},    {"param_groups.1.weight_decay", 0.1},
      {"param_groups.2.lr", 0.5},           {"param_groups.2.momentum", 0.9},
      {"param_groups.2.weight_decay", 0}};
  EXPECT_EQ(settings, want);
  EXPECT_EQ(optimizer.lr(1), 0.125);
}

TEST(OwnOptimizer, SettingsAreHeldToTheirRange) {
  const Tensor p = ones({2}, {.requires_grad = true});
  const auto make = [&](SignSGDOptions o) { return [=] { return SignSGD({p}, o).num_groups(); }; };
  EXPECT_TRUE(refuses<ValueError>(make({.lr = -1}), "Invalid learning rate: -1"));
  EXPECT_TRUE(refuses<ValueError>(make({.momentum = -0.5}), "Invalid momentum value: -0.5"));
  EXPECT_TRUE(
      refuses<ValueError>(make({.weight_decay = std::nan("")}), "Invalid weight_decay value: nan"));
}

Sequential seeded_net() {
  manual_seed(3);
  return Sequential(Linear(5, 4), Linear(4, 2));
}

// A training with everything that works with an optimizer.
template <class O> struct Training {
  Sequential net;
  O optimizer;
  LRScheduler schedule;
  GradScaler scaler{{.init_scale = 8, .growth_interval = 2}};
  EMA ema;

  Training(Device device, const auto& options)
      : net(seeded_net()),
        optimizer((net.to(device), net.named_parameters()), options, {{"*.bias", {{"lr", 0.02}}}}),
        schedule(optimizer, schedule::exponential(0.9)),
        ema(net.named_parameters(), {.decay = 0.5}) {}

  // Returns the loss. An infinite `factor` makes the gradients overflow.
  Tensor update(const Tensor& x, const Tensor& factor) {
    optimizer.zero_grad();
    const Tensor y = net(x), loss = (y * y).sum() * factor;
    scaler.scale(loss).backward();
    scaler.step(optimizer);
    scaler.update();
    ema.update();
    return loss;
  }
  // Runs step t by `run` (inputs to a loss) or by update(). Steps 0 and 4 overflow.
  Tensor step(int t, const StepGraph::Step& run = {}) {
    const Device device = net.parameters()[0].device();
    const double factor = t == 0 || t == 4 ? std::numeric_limits<double>::infinity() : 1;
    const Tensor x = wave({3, 5}, t, kFloat32, device), f = full({}, factor, {.device = device});
    const Tensor loss = run ? run({x, f})[0] : update(x, f);
    schedule.step();
    return loss.detach().clone();
  }
  std::vector<NamedTensor> state() const {
    std::vector<NamedTensor> all;
    const auto add = [&](const std::string& prefix, const std::vector<NamedTensor>& part) {
      for (const auto& [name, x] : part) all.push_back({prefix + name, x.detach().clone()});
    };
    add("model.", net.state_dict());
    add("optimizer.", optimizer.state_dict());
    add("schedule.", schedule.state_dict());
    add("scaler.", scaler.state_dict());
    add("ema.", ema.state_dict());
    return all;
  }
  void load(const std::vector<NamedTensor>& all) {
    const auto part = [&](const std::string& prefix) {
      std::vector<NamedTensor> out;
      for (const auto& [name, x] : all) {
        if (name.starts_with(prefix)) out.push_back({name.substr(prefix.size()), x});
      }
      return out;
    };
    net.load_state_dict(part("model."));
    schedule.load_state_dict(part("schedule."));
    optimizer.load_state_dict(part("optimizer."));
    scaler.load_state_dict(part("scaler."));
    ema.load_state_dict(part("ema."));
  }
};

template <class O> void expect_equal_runs(const Training<O>& a, const Training<O>& b) {
  const std::vector<NamedTensor> left = a.state(), right = b.state();
  ASSERT_EQ(left.size(), right.size());
  for (size_t i = 0; i < left.size(); ++i) {
    EXPECT_EQ(left[i].name, right[i].name);
    EXPECT_TRUE(same_bits(left[i].tensor, right[i].tensor)) << left[i].name;
  }
}

template <class O, class Options> void expect_same_after_a_break(const Options& options) {
  for (const Device device : all_devices()) {
    Training<O> whole(device, options), resumed(device, options);
    for (int t = 0; t < 3; ++t) (void)whole.step(t);
    const std::string path =
        concat_to_string(testing::TempDir(), "/own_optimizer_", getpid(), ".safetensors");
    save_safetensors(path, whole.state());
    (void)resumed.step(9);  // brings it into another state first
    resumed.load(load_safetensors(path).tensors);
    std::remove(path.c_str());
    for (int t = 3; t < 7; ++t) {
      (void)whole.step(t);
      (void)resumed.step(t);
    }
    expect_equal_runs(whole, resumed);
  }
}

// On the CPU the graph calls the step itself.
template <class O, class Options> void expect_same_in_a_graph(const Options& options) {
  for (const Device device : all_devices()) {
    if (device.is_cuda() && skip_without_cache()) return;
    Training<O> eager(device, options), captured(device, options);
    StepGraph graph(
        [&](const std::vector<Tensor>& in) {
          return std::vector<Tensor>{captured.update(in[0], in[1])};
        },
        2);
    for (int t = 0; t < 8; ++t) {
      const Tensor want = eager.step(t), got = captured.step(t, std::ref(graph));
      EXPECT_TRUE(same_bits(got, want)) << to_string(device) << ", step " << t;
    }
    expect_equal_runs(eager, captured);
    EXPECT_EQ(graph.reason(), device.is_cuda() ? "" : "an input is on cpu");
    EXPECT_EQ(graph.num_graphs(), device.is_cuda() ? 1u : 0u);
  }
}

TEST(OwnOptimizer, GoesOnFromWhatWasSavedWithTheSameBits) {
  expect_same_after_a_break<SignSGD>(SignSGDOptions{.lr = 0.1, .weight_decay = 0.1});
  expect_same_after_a_break<Lookahead>(LookaheadOptions{.lr = 0.1, .k = 2});
}

TEST(OwnOptimizer, ACapturedStepHasTheBitsOfTheStepItself) {
  expect_same_in_a_graph<SignSGD>(SignSGDOptions{.lr = 0.1, .weight_decay = 0.1});
  expect_same_in_a_graph<Lookahead>(LookaheadOptions{.lr = 0.1, .k = 2});
}

TEST(OwnOptimizer, AStepWithInfLeavesParameterStateAndCount) {
  for (const Device device : all_devices()) {
    for (const DType dtype : {kFloat32, kFloat64, kBFloat16}) {
      const Tensor p = wave({7}, 1, dtype, device).requires_grad_();
      Lookahead optimizer({p}, {.k = 2});
      EXPECT_TRUE(optimizer.skips_on_device());
      const auto state = [&] {
        std::vector<NamedTensor> all = {{"p", p.detach().clone()}};
        for (const auto& [name, x] : optimizer.state_dict()) all.push_back({name, x.clone()});
        return all;
      };
      p.set_grad(wave({7}, 2, dtype, device));
      optimizer.step();
      const std::vector<NamedTensor> before = state();
      p.set_grad(full_like(p, std::numeric_limits<double>::infinity()).detach());
      optimizer.step_unless(ones({}, {.device = device}));
      const std::vector<NamedTensor> after = state();
      ASSERT_EQ(after.size(), before.size());
      for (size_t i = 0; i < before.size(); ++i) {
        EXPECT_TRUE(same_bits(before[i].tensor, after[i].tensor)) << before[i].name;
      }
    }
  }
}

TEST(OwnOptimizer, TrainsMastersOfHalfParameters) {
  for (const Device device : all_devices()) {
    const auto leaf = [&](DType dtype) { return wave({9, 4}, 1, dtype, device).requires_grad_(); };
    const Tensor half = leaf(kBFloat16), wide = half.detach().to(kFloat32).requires_grad_();
    SignSGD master({half}, {.lr = 1e-3, .master_weights = true}), plain({wide}, {.lr = 1e-3});
    for (int t = 0; t < 6; ++t) {
      half.set_grad(wave({9, 4}, t, kBFloat16, device));
      wide.set_grad(half.grad().to(kFloat32));
      if (t == 3) {  // the master copy follows when a parameter is assigned
        half.detach().select(0, 2).fill_(0.25);
        wide.detach().select(0, 2).fill_(0.25);
      }
      master.step();
      plain.step();
      EXPECT_TRUE(same_bits(half, wide.detach().to(kBFloat16))) << t;
    }
    EXPECT_EQ(master.state_dict()[0].name, "state.0.master_param");
    EXPECT_TRUE(same_bits(master.state_dict()[0].tensor, wide));
  }
}

}  // namespace
}  // namespace taper::v0::test
