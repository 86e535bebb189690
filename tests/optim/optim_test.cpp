// Optimizers compared with plain double-precision loops, and how they treat their parameters.
#include <cmath>
#include <functional>
#include <memory>

#include <gtest/gtest.h>

#include "autograd/node.h"
#include "autograd/ops/binary_ops.h"
#include "autograd/ops/reduce_ops.h"
#include "framework/factory/factories.h"
#include "modules/layers/linear.h"
#include "optim/algorithms/adam.h"
#include "optim/algorithms/sgd.h"
#include "tests/testing.h"

namespace taper::v0::test {
namespace {

using optim::Adam;
using optim::AdamOptions;
using optim::AdamW;
using optim::AdamWOptions;
using optim::Optimizer;
using optim::ParamGroup;
using optim::SGD;
using optim::SGDOptions;

constexpr int kUpdates = 10;

// --- the formulas of PyTorch's documentation, one element at a time ---

struct State {
  double first = 0, second = 0;
};
// Returns the new value of a parameter with gradient g at step t, counted from 1.
using Rule = std::function<double(double p, double g, State& state, int t)>;

Rule sgd_rule(SGDOptions o) {
  return [o](double p, double g, State& s, int t) {
    g += o.weight_decay * p;
    if (o.momentum != 0) {
      s.first = t == 1 ? g : o.momentum * s.first + g;
      g = o.nesterov ? g + o.momentum * s.first : s.first;
    }
    return p - o.lr * g;
  };
}

Rule adam_rule(AdamWOptions o, bool decoupled) {
  return [=](double p, double g, State& s, int t) {
    if (decoupled) p -= o.lr * o.weight_decay * p;
    if (!decoupled) g += o.weight_decay * p;
    s.first = o.betas[0] * s.first + (1 - o.betas[0]) * g;
    s.second = o.betas[1] * s.second + (1 - o.betas[1]) * g * g;
    const double m = s.first / (1 - std::pow(o.betas[0], t));
    const double v = s.second / (1 - std::pow(o.betas[1], t));
    return p - o.lr * m / (std::sqrt(v) + o.eps);
  };
}

struct Case {
  const char* name;
  std::function<std::unique_ptr<Optimizer>(const std::vector<Tensor>&)> make;
  Rule rule;
};

Case sgd(const char* name, SGDOptions o) {
  return {name, [o](const auto& params) { return std::make_unique<SGD>(params, o); }, sgd_rule(o)};
}
Case adam(const char* name, AdamOptions o) {
  return {name, [o](const auto& params) { return std::make_unique<Adam>(params, o); },
          adam_rule({o.lr, o.betas, o.eps, o.weight_decay}, false)};
}
Case adamw(const char* name, AdamWOptions o) {
  return {name, [o](const auto& params) { return std::make_unique<AdamW>(params, o); },
          adam_rule(o, true)};
}

const std::vector<Case>& cases() {
  static const std::vector<Case> all = {
      sgd("SGD", {.lr = 0.1}),
      sgd("SGD with decay", {.lr = 0.1, .weight_decay = 0.3}),
      sgd("SGD with momentum", {.lr = 0.1, .momentum = 0.9}),
      sgd("SGD with all", {.lr = 0.1, .momentum = 0.8, .weight_decay = 0.1, .nesterov = true}),
      adam("Adam", {.lr = 0.05}),
      adam("Adam with decay", {.lr = 0.05, .betas = {0.8, 0.95}, .weight_decay = 0.2}),
      adamw("AdamW", {.lr = 0.05}),
      adamw("AdamW with decay", {.lr = 0.05, .eps = 1e-3, .weight_decay = 0.5}),
  };
  return all;
}

// A gradient that depends on the step and on the parameter.
double gradient(double p, size_t i, int t) { return p - std::sin(double(i) + t) * 0.7; }

Tensor start(int64_t n, double shift, DType dtype, Device device) {
  std::vector<double> values;
  for (int64_t i = 0; i < n; ++i) values.push_back(std::cos(double(i) * 1.3 + shift));
  return tensor_of(values.data(), {n}, {.dtype = dtype, .device = device, .requires_grad = true});
}

void give_gradient(const Tensor& p, int t) {
  std::vector<double> values = values_of(p);
  for (size_t i = 0; i < values.size(); ++i) values[i] = gradient(values[i], i, t);
  p.set_grad(tensor_of(values.data(), p.shape(), {.dtype = p.dtype(), .device = p.device()}));
}

// Applies the rule for `steps` steps and returns the result. Steps for which active(t) is false are
// skipped.
std::vector<double> expected(const Rule& rule, std::vector<double> p, int steps,
                             const std::function<bool(int)>& active = {}) {
  std::vector<State> states(p.size());
  int count = 0;
  for (int t = 1; t <= steps; ++t) {
    if (active && !active(t)) continue;
    ++count;
    for (size_t i = 0; i < p.size(); ++i) p[i] = rule(p[i], gradient(p[i], i, t), states[i], count);
  }
  return p;
}

TEST(Optimizers, FollowTheirFormulas) {
  for (const Device device : all_devices()) {
    for (const DType dtype : {kFloat32, kFloat64}) {
      for (const Case& c : cases()) {
        const std::vector<Tensor> params = {start(1, 0, dtype, device), start(17, 1, dtype, device),
                                            start(1025, 2, dtype, device)};
        std::vector<std::vector<double>> want;
        for (const Tensor& p : params) want.push_back(expected(c.rule, values_of(p), kUpdates));
        const std::unique_ptr<Optimizer> optimizer = c.make(params);
        for (int t = 1; t <= kUpdates; ++t) {
          for (const Tensor& p : params) give_gradient(p, t);
          optimizer->step();
        }
        for (size_t i = 0; i < params.size(); ++i) {
          EXPECT_TRUE(close(values_of(params[i]), want[i], dtype == kFloat64 ? 1e-10 : 1e-5))
              << c.name << " " << name_of(dtype) << " on " << to_string(device);
        }
      }
    }
  }
}

TEST(Optimizers, TrainHalfParametersWithStateInFloat) {
  for (const Device device : all_devices()) {
    for (const Case& c : cases()) {
      const Tensor p = start(17, 0, kBFloat16, device);
      const std::vector<double> want = expected(c.rule, values_of(p), kUpdates);
      const std::unique_ptr<Optimizer> optimizer = c.make({p});
      for (int t = 1; t <= kUpdates; ++t) {
        give_gradient(p, t);
        optimizer->step();
      }
      EXPECT_EQ(p.dtype(), kBFloat16);
      EXPECT_TRUE(close(values_of(p), want, 0.06)) << c.name << " on " << to_string(device);
    }
  }
}

TEST(Optimizers, AParameterWithoutGradientIsLeftAlone) {
  for (const Device device : all_devices()) {
    for (const Case& c : cases()) {
      const Tensor always = start(3, 0, kFloat64, device), never = start(3, 1, kFloat64, device);
      const Tensor sometimes = start(5, 2, kFloat64, device);
      const std::vector<double> before = values_of(never);
      // Updated at steps 1, 2, 5, 6, 9 and 10, so its count of updates falls behind that of the
      // other parameters.
      const auto active = [](int t) { return t % 4 == 1 || t % 4 == 2; };
      const std::vector<double> want = expected(c.rule, values_of(sometimes), kUpdates, active);
      const std::vector<double> want_always = expected(c.rule, values_of(always), kUpdates);
      const std::unique_ptr<Optimizer> optimizer = c.make({never, always, sometimes});
      for (int t = 1; t <= kUpdates; ++t) {
        optimizer->zero_grad();
        give_gradient(always, t);
        if (active(t)) give_gradient(sometimes, t);
        optimizer->step();
      }
      EXPECT_EQ(values_of(never), before) << c.name;
      EXPECT_TRUE(close(values_of(always), want_always, 1e-10)) << c.name;
      EXPECT_TRUE(close(values_of(sometimes), want, 1e-10)) << c.name;
    }
  }
}

TEST(Optimizers, GroupsKeepTheirOwnSettings) {
  for (const Device device : all_devices()) {
    const Tensor a = start(7, 0, kFloat64, device), b = start(9, 1, kFloat64, device);
    const SGDOptions fast{.lr = 0.2, .momentum = 0.9}, slow{.lr = 0.01, .weight_decay = 0.1};
    const std::vector<double> want_a = expected(sgd_rule(fast), values_of(a), kUpdates);
    const std::vector<double> want_b = expected(sgd_rule(slow), values_of(b), kUpdates);
    SGD optimizer({ParamGroup<SGDOptions>{{a}, fast}, ParamGroup<SGDOptions>{{b}, slow}});
    EXPECT_EQ(optimizer.num_groups(), 2u);
    EXPECT_EQ(optimizer.lr(1), 0.01);
    for (int t = 1; t <= kUpdates; ++t) {
      give_gradient(a, t);
      give_gradient(b, t);
      optimizer.step();
    }
    EXPECT_TRUE(close(values_of(a), want_a, 1e-10));
    EXPECT_TRUE(close(values_of(b), want_b, 1e-10));
  }
}

TEST(Optimizers, ANewLearningRateTakesEffectAtTheNextStep) {
  for (const Device device : all_devices()) {
    const Tensor p = ones({1}, {.dtype = kFloat64, .device = device, .requires_grad = true});
    SGD optimizer({p}, {.lr = 0.5});
    p.set_grad(ones({1}, {.dtype = kFloat64, .device = device}));
    optimizer.step();
    EXPECT_EQ(p.item<double>(), 0.5);
    optimizer.set_lr(0.25);
    optimizer.step();
    EXPECT_EQ(p.item<double>(), 0.25);
    optimizer.set_lr(0, 0);
    optimizer.step();
    EXPECT_EQ(p.item<double>(), 0.25);
    EXPECT_THROW(optimizer.set_lr(1, 0.1), IndexError);
  }
}

TEST(Optimizers, StepsAreNotOnTheTapeButBumpTheVersion) {
  const Tensor p = ones({2}, {.requires_grad = true});
  SGD optimizer({p}, {.lr = 0.1});
  const Tensor y = (p * p).sum();
  p.set_grad(ones({2}));
  optimizer.step();
  EXPECT_TRUE(p.is_leaf());
  EXPECT_TRUE(refuses<Error>([&] { return y.backward(), 0; },
                             "one of the variables needed for gradient computation has been "
                             "modified by an inplace operation"));
}

// The model is moved halfway through the steps. Its gradients are computed in double.
void expect_state_follows(const Case& c, const std::function<void(Module&)>& move,
                          double tolerance) {
  manual_seed(11);
  Linear layer(5, 3);
  std::vector<std::vector<double>> want;
  for (const Tensor& p : layer.parameters())
    want.push_back(expected(c.rule, values_of(p), kUpdates));
  const std::unique_ptr<Optimizer> optimizer = c.make(layer.parameters());
  for (int t = 1; t <= kUpdates; ++t) {
    if (t == kUpdates / 2) move(layer);
    for (const Tensor& p : layer.parameters()) give_gradient(p, t);
    optimizer->step();
  }
  for (size_t i = 0; i < want.size(); ++i) {
    EXPECT_TRUE(close(values_of(layer.parameters()[i]), want[i], tolerance)) << c.name;
  }
}

TEST(Optimizers, MadeBeforeAChangeOfDtypeGoOn) {
  for (const Case& c : cases()) {
    expect_state_follows(
        c, [](Module& m) { m.to(kFloat64); }, 1e-5);
  }
}

TEST(Optimizers, MadeBeforeAMoveToTheGpuGoOnThere) {
  if (skip_without_cuda()) return;
  for (const Case& c : cases()) {
    expect_state_follows(
        c, [](Module& m) { m.cuda(); }, 1e-5);
    expect_state_follows(
        c, [](Module& m) { m.to(Device("cuda"), kFloat64); }, 1e-5);
  }
}

TEST(Optimizers, TheGpuFollowsTheCpu) {
  if (skip_without_cuda()) return;
  for (const Case& c : cases()) {
    const Tensor here = start(1025, 0, kFloat32, Device());
    const Tensor there = start(1025, 0, kFloat32, Device("cuda:0"));
    const auto on_cpu = c.make({here}), on_gpu = c.make({there});
    for (int t = 1; t <= kUpdates; ++t) {
      give_gradient(here, t);
      there.set_grad(here.grad().cuda());
      on_cpu->step();
      on_gpu->step();
    }
    EXPECT_TRUE(close(there, here, 1e-6)) << c.name;
  }
}

TEST(Optimizers, WrongSettingsAndParametersAreRefused) {
  const Tensor p = ones({2}, {.requires_grad = true});
  const auto make_sgd = [](std::vector<Tensor> params, SGDOptions o) {
    return [=] { return SGD(params, o).num_groups(); };
  };
  const auto make_adam = [&](AdamOptions o) { return [=] { return Adam({p}, o).num_groups(); }; };
  EXPECT_TRUE(refuses<ValueError>(make_sgd({}, {}), "optimizer got an empty parameter list"));
  EXPECT_TRUE(refuses<ValueError>(make_sgd({p}, {.lr = -1}), "Invalid learning rate: -1"));
  EXPECT_TRUE(
      refuses<ValueError>(make_sgd({p}, {.lr = std::nan("")}), "Invalid learning rate: nan"));
  EXPECT_TRUE(refuses<ValueError>(make_sgd({p}, {.momentum = -1}), "Invalid momentum value: -1"));
  EXPECT_TRUE(
      refuses<ValueError>(make_sgd({p}, {.weight_decay = -1}), "Invalid weight_decay value: -1"));
  EXPECT_TRUE(refuses<ValueError>(make_sgd({p}, {.nesterov = true}),
                                  "Nesterov momentum requires a momentum and zero dampening"));
  EXPECT_TRUE(refuses<ValueError>(make_adam({.betas = {1, 0.999}}),
                                  "Invalid beta parameter at index 0: 1"));
  EXPECT_TRUE(refuses<ValueError>(make_adam({.betas = {0.9, -0.5}}),
                                  "Invalid beta parameter at index 1: -0.5"));
  EXPECT_TRUE(refuses<ValueError>(make_adam({.eps = -1}), "Invalid epsilon value: -1"));
  EXPECT_TRUE(
      refuses<ValueError>(make_adam({.weight_decay = -1}), "Invalid weight_decay value: -1"));
  EXPECT_TRUE(refuses<ValueError>(make_sgd({p, p}, {}),
                                  "some parameters appear in more than one parameter group"));
  EXPECT_TRUE(refuses<ValueError>(make_sgd({p * 2}, {}), "can't optimize a non-leaf Tensor"));
  EXPECT_TRUE(refuses<ValueError>(make_sgd({ones({2}, {.dtype = kInt64})}, {}),
                                  "parameter 0 of group 0 has dtype int64"));
  EXPECT_TRUE(
      refuses<ValueError>(make_sgd({p, Tensor()}, {}), "parameter 1 of group 0 is undefined"));
}

}  // namespace
}  // namespace taper::v0::test
