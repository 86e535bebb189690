// Learning rates compared with those of torch.optim.lr_scheduler, which schedules.py stores.
#include <cmath>

#include <gtest/gtest.h>

#include "framework/factory/factories.h"
#include "framework/io/safetensors.h"
#include "optim/algorithms/sgd.h"
#include "optim/schedule.h"
#include "tests/testing.h"

namespace taper::v0::test {
namespace {

using namespace optim;

constexpr double kBase[] = {0.5, 0.02};

SGD two_groups() {
  const auto group = [](double lr) {
    return ParamGroup<SGDOptions>{{zeros({1}, {.requires_grad = true})}, {.lr = lr}};
  };
  return SGD({group(kBase[0]), group(kBase[1])});
}

struct Case {
  Case(const char* n, Schedule schedule) : name(n), schedules{std::move(schedule)} {}
  Case(const char* n, std::vector<Schedule> each) : name(n), schedules(std::move(each)) {}

  const char* name;
  std::vector<Schedule> schedules;  // a single one, or one for each group
};

Schedule power_cycle(double base_lr, double max_lr) {
  return schedule::cyclic({.base_lr = base_lr,
                           .max_lr = max_lr,
                           .step_size_up = 8,
                           .step_size_down = 3,
                           .mode = schedule::CyclicOptions::Mode::kExpRange,
                           .gamma = 0.97});
}

std::vector<Case> cases() {
  using namespace optim::schedule;
  return {
      {"constant", constant()},
      {"constant 0.25 for 20", constant(0.25, 20)},
      {"constant for 0", constant(0.25, 0)},
      {"linear", linear()},
      {"linear 0.1 to 0.7 in 30", linear(0.1, 0.7, 30)},
      {"linear 1 to 0.01 in 45", linear(1, 0.01, 45)},
      {"step 10", schedule::step(10)},
      {"step 7 gamma 0.5", schedule::step(7, 0.5)},
      {"multi_step", multi_step({5, 30, 31, 50})},
      {"multi_step twice", multi_step({40, 20, 20}, 0.3)},
      {"exponential", exponential(0.9)},
      {"polynomial", polynomial()},
      {"polynomial 50 power 2.5", polynomial(50, 2.5)},
      {"cosine 60", cosine_annealing(60)},
      {"cosine 13 eta_min", cosine_annealing(13, 0.001)},
      {"restarts 10", cosine_annealing_warm_restarts(10)},
      {"restarts 5 times 2", cosine_annealing_warm_restarts(5, 2, 0.001)},
      {"one_cycle", one_cycle({.max_lr = {0.7}, .total_steps = 60})},
      {"one_cycle linear", one_cycle({.max_lr = {0.7, 0.1},
                                      .total_steps = 60,
                                      .pct_start = 0.43,
                                      .anneal_strategy = Anneal::kLinear})},
      {"one_cycle three phases",
       one_cycle({.max_lr = {0.7}, .total_steps = 80, .div_factor = 10, .three_phase = true})},
      {"warm_up cosine", warm_up(10, cosine_annealing(50), 0.01)},
      {"warm_up step", warm_up(4, schedule::step(9))},
      {"warm_up restarts", warm_up(4, cosine_annealing_warm_restarts(9, 2))},
      {"warm_up one_cycle", warm_up(6, one_cycle({.max_lr = {0.7}, .total_steps = 70}))},
      {"sequential", sequential({exponential(0.8), polynomial(30, 2)}, {20})},
      {"lambda", std::vector{lambda([](int64_t t) { return std::pow(0.9, double(t)); }),
                             lambda([](int64_t t) { return 1 / double(1 + t); })}},
      {"multiplicative", multiplicative([](int64_t t) { return 1 - 0.1 / double(t); })},
      {"swa", swa(0.05)},
      {"swa linear", std::vector{swa(0.05, 33, Anneal::kLinear), swa(0.3, 33, Anneal::kLinear)}},
      {"swa at once", swa(0.05, 0)},
      {"cyclic", cyclic({.base_lr = 0.01, .max_lr = 0.7, .step_size_up = 7})},
      {"cyclic halves", cyclic({.base_lr = 0.01,
                                .max_lr = 0.7,
                                .step_size_up = 5,
                                .step_size_down = 9,
                                .mode = CyclicOptions::Mode::kTriangular2})},
      {"cyclic power", std::vector{power_cycle(0.01, 0.7), power_cycle(0.1, 0.9)}},
      {"chained", chained({constant(0.1, 20), exponential(0.9), schedule::step(15)})},
  };
}

struct PlateauCase {
  const char* name;
  PlateauOptions options;
};

std::vector<PlateauCase> plateau_cases() {
  using enum PlateauOptions::Mode::Value;
  using enum PlateauOptions::ThresholdMode::Value;
  return {
      {"plateau", {}},
      {"plateau 3", {.factor = 0.5, .patience = 3, .cooldown = 2, .min_lr = {0.01, 0.002}}},
      {"plateau max", {.mode = kMax, .patience = 5, .threshold = 0.1, .threshold_mode = kAbs}},
      {"plateau abs",
       {.factor = 0.3, .patience = 2, .threshold = 0.02, .threshold_mode = kAbs, .min_lr = {1e-4}}},
  };
}

const SafeTensors& stored() {
  static const SafeTensors file = load_safetensors(TAPER_INTEROP_DIR "/schedules.safetensors");
  return file;
}
Tensor rates_of(const std::string& name) {
  for (const auto& [known, rates] : stored().tensors) {
    if (known == name) return rates;
  }
  throw Error("schedules.safetensors has no " + name);
}

// PyTorch multiplies from step to step, which leaves about 1e-17 where the closed form is 0.
void expect_rates(const std::string& name, int64_t t, const std::vector<double>& got) {
  const Tensor want = rates_of(name).select(0, t);
  for (int g = 0; g < 2; ++g) {
    const double rate = want[g].item<double>();
    EXPECT_NEAR(got[size_t(g)], rate, 1e-12 * std::abs(rate) + 1e-16) << name << ", step " << t;
  }
}

TEST(Schedules, GivePyTorchsRates) {
  for (const Case& c : cases()) {
    SGD optimizer = two_groups();
    LRScheduler scheduler(optimizer, c.schedules);
    for (int64_t t = 0; t < rates_of(c.name).size(0); ++t) {
      if (t > 0) scheduler.step();
      EXPECT_EQ(scheduler.last_epoch(), t);
      EXPECT_EQ(optimizer.lr(1), scheduler.get_last_lr()[1]);
      expect_rates(c.name, t, scheduler.get_last_lr());
    }
  }
}

double metric(int64_t t) {
  return t < 40 ? std::max(1.0 / double(1 + t), 0.05) : 0.01 / double(t - 39);
}

TEST(Schedules, ReduceOnPlateauAsPyTorch) {
  for (const PlateauCase& c : plateau_cases()) {
    SGD optimizer = two_groups();
    ReduceLROnPlateau scheduler(optimizer, c.options);
    for (int64_t t = 0; t < rates_of(c.name).size(0); ++t) {
      if (t > 0) scheduler.step(metric(t - 1));
      expect_rates(c.name, t, scheduler.get_last_lr());
    }
  }
}

TEST(Schedules, EveryStoredOneIsCompared) {
  EXPECT_EQ(stored().tensors.size(), cases().size() + plateau_cases().size());
}

}  // namespace
}  // namespace taper::v0::test
