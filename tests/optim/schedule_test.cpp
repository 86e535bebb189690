// How schedules change an optimizer, and what they refuse. tests/interop compares the learning
// rates with PyTorch.
#include "optim/schedule.h"

#include <cmath>
#include <functional>

#include <gtest/gtest.h>

#include "framework/factory/factories.h"
#include "optim/algorithms/sgd.h"
#include "tests/testing.h"

namespace taper::v0::test {
namespace {

using namespace optim;

SGD two_groups(double first, double second, Device device = {}) {
  const auto group = [&](double lr) {
    const Tensor p = ones({1}, {.dtype = kFloat64, .device = device, .requires_grad = true});
    p.set_grad(ones({1}, {.dtype = kFloat64, .device = device}));
    return ParamGroup<SGDOptions>{{p}, {.lr = lr}};
  };
  return SGD({group(first), group(second)});
}

TEST(Schedule, StepsUseTheRatesOfTheirTime) {
  for (const Device device : all_devices()) {
    SGD optimizer = two_groups(1, 0.5, device);
    LRScheduler scheduler(optimizer, schedule::exponential(0.5));
    for (int t = 0; t < 3; ++t) {
      optimizer.step();
      scheduler.step();
    }
    const std::vector<Tensor> params = optimizer.parameters();
    EXPECT_NEAR(params[0].item<double>(), 1 - 1.75, 1e-12);
    EXPECT_NEAR(params[1].item<double>(), 1 - 0.875, 1e-12);
    EXPECT_EQ(scheduler.get_last_lr(), (std::vector<double>{0.125, 0.0625}));
  }
}

TEST(Schedule, AFunctionOfOnesOwnIsOne) {
  SGD optimizer = two_groups(1, 2);
  LRScheduler scheduler(optimizer, {[](int64_t t, double base) { return base / double(1 + t); }});
  scheduler.step();
  EXPECT_EQ(scheduler.get_last_lr(), (std::vector<double>{0.5, 1}));
}

TEST(Schedule, StateGoesOnWhereItWasInANewRun) {
  const Schedule plan = schedule::warm_up(4, schedule::cosine_annealing(20, 0.01));
  SGD first = two_groups(1, 0.5);
  LRScheduler scheduler(first, plan);
  for (int t = 0; t < 9; ++t) scheduler.step();
  const std::vector<NamedTensor> state = scheduler.state_dict();
  std::vector<std::string> names;
  for (const auto& [name, tensor] : state) names.push_back(name);
  EXPECT_EQ(names, (std::vector<std::string>{"last_epoch", "base_lrs", "_step_count", "_last_lr"}));
  EXPECT_EQ(state[0].tensor.dtype(), kInt64);
  EXPECT_EQ(state[0].tensor.dim(), 0);
  EXPECT_EQ(state[1].tensor.dtype(), kFloat64);

  SGD second = two_groups(7, 8);
  LRScheduler other(second, plan);
  other.load_state_dict(state);
  EXPECT_EQ(second.lr(1), first.lr(1));
  for (int t = 0; t < 5; ++t) {
    scheduler.step();
    other.step();
    EXPECT_EQ(other.get_last_lr(), scheduler.get_last_lr());
  }
  EXPECT_TRUE(refuses<Error>([&] { return other.load_state_dict({state[0]}), 0; },
                             "Error(s) in loading state_dict for LRScheduler: Missing key: "
                             "\"base_lrs\""));
  EXPECT_EQ(other.last_epoch(), 14);
}

TEST(Schedule, PlateauStateGoesOnWhereItWas) {
  const PlateauOptions options{.factor = 0.5, .patience = 2, .cooldown = 1};
  SGD first = two_groups(1, 0.5), second = two_groups(3, 3);
  ReduceLROnPlateau scheduler(first, options), other(second, options);
  for (int t = 0; t < 5; ++t) scheduler.step(1);
  EXPECT_EQ(first.lr(), 0.5);
  other.load_state_dict(scheduler.state_dict());
  for (int t = 0; t < 9; ++t) {
    scheduler.step(1);
    other.step(1);
    EXPECT_EQ(other.get_last_lr(), scheduler.get_last_lr()) << t;
  }
  EXPECT_EQ(first.lr(), 0.125);
  std::vector<std::string> names;
  for (const auto& [name, tensor] : other.state_dict()) names.push_back(name);
  EXPECT_EQ(names, (std::vector<std::string>{"best", "cooldown_counter", "num_bad_epochs",
                                             "last_epoch", "_last_lr"}));
  // A NaN metric is not an improvement.
  other.step(std::nan(""));
  EXPECT_EQ(other.state_dict()[0].tensor.item<double>(), 1);
}

struct Refusal {
  std::function<Schedule()> make;
  const char* text;
};

TEST(Schedule, WrongArgumentsAreRefusedInPyTorchsWords) {
  const std::vector<Refusal> refusals{
      {[] { return schedule::constant(1.5); },
       "Constant multiplicative factor expected to be between 0 and 1."},
      {[] { return schedule::linear(0); },
       "Starting multiplicative factor expected to be greater than 0 and less or equal to 1."},
      {[] { return schedule::linear(1, 1.5); },
       "Ending multiplicative factor expected to be between 0 and 1."},
      {[] { return schedule::step(0); }, "Expected positive integer step_size, but got 0"},
      {[] { return schedule::cosine_annealing(0); }, "Expected positive integer T_max, but got 0"},
      {[] { return schedule::cosine_annealing_warm_restarts(-1); },
       "Expected positive integer T_0, but got -1"},
      {[] { return schedule::cosine_annealing_warm_restarts(1, 0); },
       "Expected integer T_mult >= 1, but got 0"},
      {[] { return schedule::warm_up(-3, schedule::step(3)); },
       "Expected non-negative integer steps, but got -3"},
      {[] { return schedule::one_cycle({.max_lr = {1}}); },
       "Expected positive integer total_steps, but got 0"},
      {[] { return schedule::one_cycle({.max_lr = {1}, .total_steps = 9, .pct_start = 2}); },
       "Expected float between 0 and 1 pct_start, but got 2"},
      {[] { return schedule::sequential({schedule::step(3)}, {1}); },
       "Sequential Schedulers expects number of schedulers provided to be one more than the "
       "number of milestone points, but got number of schedulers 1 and the number of milestones "
       "to be equal to 1"},
  };
  for (const Refusal& r : refusals) EXPECT_TRUE(refuses<ValueError>(r.make, r.text));

  SGD optimizer = two_groups(1, 1);
  EXPECT_TRUE(refuses<ValueError>(
      [&] {
        const auto plan = schedule::one_cycle({.max_lr = {1, 2, 3}, .total_steps = 9});
        return LRScheduler(optimizer, plan).last_epoch();
      },
      "max_lr must have the same length as optimizer.param_groups. max_lr has 3 values, "
      "param_groups has 2."));
  LRScheduler short_one(optimizer, schedule::one_cycle({.max_lr = {1}, .total_steps = 2}));
  short_one.step();
  short_one.step();
  EXPECT_TRUE(refuses<ValueError>([&] { return short_one.step(), 0; },
                                  "Tried to step 3 times. The specified number of total steps is "
                                  "2"));
  EXPECT_TRUE(
      refuses<ValueError>([&] { return ReduceLROnPlateau(optimizer, {.factor = 1}).get_last_lr(); },
                          "Factor should be < 1.0."));
  EXPECT_TRUE(refuses<ValueError>(
      [&] {
        return ReduceLROnPlateau(optimizer, {.min_lr = {0, 0, 0}}).get_last_lr();
      },
      "expected 2 min_lrs, got 3"));
}

}  // namespace
}  // namespace taper::v0::test
