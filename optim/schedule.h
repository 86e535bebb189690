// Learning rate schedules (https://pytorch.org/docs/stable/optim.html#how-to-adjust-learning-rate):
//
//   LRScheduler schedule(optimizer, schedule::warm_up(100, schedule::cosine_annealing(900)));
//   for (...) { ...; optimizer.step(); schedule.step(); }
//
// A schedule is a closed-form function of the step, so training can continue from any step. The
// rates, arguments and defaults are those of PyTorch's schedulers.
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "framework/base/describe.h"
#include "framework/base/text_enum.h"
#include "optim/optimizer.h"

namespace taper::v0::optim {

struct Schedule {
  // Returns the rate of a step (counted from 0) for a group whose initial rate is base_lr.
  std::function<double(int64_t step, double base_lr)> lr;
  // The initial rates that replace those of the groups: one rate for all groups, or one for each.
  // If it is empty, the groups keep their own.
  std::vector<double> base_lrs = {};
};

namespace schedule {

// Each function returns a schedule. Its comment gives the rate at step t, and the name of PyTorch's
// class.

// The rate is base_lr * factor for total_iters steps, then base_lr (ConstantLR).
Schedule constant(double factor = 1.0 / 3, int64_t total_iters = 5);
struct LinearOptions {
  double start_factor = 1.0 / 3, end_factor = 1;
  int64_t total_iters = 5;
};
// The rate is base_lr * factor. The factor changes linearly from start_factor to end_factor in
// total_iters steps and stays there (LinearLR).
//
//   linear({.start_factor = 0.01, .total_iters = 500});
Schedule linear(const LinearOptions& options);
Schedule linear(double start_factor = 1.0 / 3, double end_factor = 1, int64_t total_iters = 5);
// The rate is base_lr * gamma^n. n is the number of completed periods of step_size steps (StepLR),
// of milestones reached (MultiStepLR), or of steps (ExponentialLR).
Schedule step(int64_t step_size, double gamma = 0.1);
Schedule multi_step(const std::vector<int64_t>& milestones, double gamma = 0.1);
Schedule exponential(double gamma);
// The rate is base_lr * (1 - t / total_iters)^power, and 0 after total_iters steps (PolynomialLR).
Schedule polynomial(int64_t total_iters = 5, double power = 1);
// The rate follows half a cosine from base_lr at step 0 to eta_min at step T_max
// (CosineAnnealingLR). After T_max it rises again.
Schedule cosine_annealing(int64_t T_max, double eta_min = 0);
// The rate is base_lr * factor(t) (LambdaLR), or base_lr * factor(1) * ... * factor(t)
// (MultiplicativeLR).
Schedule lambda(std::function<double(int64_t step)> factor);
Schedule multiplicative(const std::function<double(int64_t step)>& factor);
// The rate changes from base_lr to swa_lr in anneal_epochs steps and stays there (SWALR).
struct AnnealValues {
  enum class Value : uint8_t { kCos, kLinear };
  static constexpr Value kCos = Value::kCos, kLinear = Value::kLinear;
  static constexpr const char* kOption = "anneal_strategy";
  static constexpr const char* kWords[] = {"cos", "linear"};
};
using Anneal = TextEnum<AnnealValues>;

Schedule swa(double swa_lr, int64_t anneal_epochs = 10, Anneal anneal_strategy = Anneal::kCos);
// Like cosine_annealing(), but restarts at base_lr after T_0 steps. Each period is T_mult times as
// long as the one before (CosineAnnealingWarmRestarts).
Schedule cosine_annealing_warm_restarts(int64_t T_0, int64_t T_mult = 1, double eta_min = 0);

// The rate rises to max_lr and then falls to nearly 0 (OneCycleLR). PyTorch's cycle_momentum is not
// supported: momentum does not change.
struct OneCycleOptions {
  std::vector<double> max_lr;  // one for all groups, or one for each
  int64_t total_steps = 0;     // later steps throw ValueError
  double pct_start = 0.3;      // fraction of the steps in which the rate rises
  Anneal anneal_strategy = Anneal::kCos;
  // The rate starts at initial = max_lr / div_factor and ends at initial / final_div_factor.
  double div_factor = 25, final_div_factor = 1e4;
  bool three_phase = false;

  template <class V> void describe(V& v) {
    v("pct_start", pct_start, kBetweenZeroAndOne, "fraction of the run with a rising rate");
    v("anneal_strategy", anneal_strategy, "shape of the rise and the fall");
    v("div_factor", div_factor, kPositive, "the initial rate is max_lr / div_factor");
    v("final_div_factor", final_div_factor, kPositive,
      "the final rate is the initial rate / final_div_factor");
    v("three_phase", three_phase,
      "let the fall mirror the rise, and add a third phase down to the final rate");
  }
};
Schedule one_cycle(const OneCycleOptions& options);

// The rate rises linearly from base_lr to max_lr in step_size_up steps, falls back in
// step_size_down steps, and repeats this (CyclicLR; Smith, 2015, https://arxiv.org/abs/1506.01186).
// Momentum does not change.
struct CyclicOptions {
  double base_lr = 0, max_lr = 0;
  int64_t step_size_up = 2000;
  std::optional<int64_t> step_size_down = std::nullopt;  // default: step_size_up
  // The factor of the amplitude. kTriangular: 1. kTriangular2: 0.5 to the power of the completed
  // cycles. kExpRange: gamma to the power of the step.
  struct ModeValues {
    enum class Value : uint8_t { kTriangular, kTriangular2, kExpRange };
    static constexpr Value kTriangular = Value::kTriangular, kTriangular2 = Value::kTriangular2,
                           kExpRange = Value::kExpRange;
    static constexpr const char* kOption = "mode";
    static constexpr const char* kWords[] = {"triangular", "triangular2", "exp_range"};
  };
  using Mode = TextEnum<ModeValues>;

  Mode mode = Mode::kTriangular;
  double gamma = 1;

  template <class V> void describe(V& v) {
    v("step_size_up", step_size_up, kCount, "length of the rise");
    v("step_size_down", step_size_down, kCount, "length of the fall; default: step_size_up");
    v("mode", mode, "amplitude: constant, halved each cycle, or gamma to the power of the step");
    v("gamma", gamma, kPositive, "factor of exp_range");
  }
};
Schedule cyclic(const CyclicOptions& options);

// Applies the schedules one after another. Each gets the rate of the one before as its base_lr.
// Schedules that multiply base_lr give the product of their factors (ChainedScheduler).
Schedule chained(const std::vector<Schedule>& schedules);
// Runs one schedule after another. Each counts its steps from its own milestone (SequentialLR).
Schedule sequential(const std::vector<Schedule>& schedules, const std::vector<int64_t>& milestones);
// The rate rises linearly from start_factor * base_lr to base_lr in `steps` steps. After that,
// another schedule begins.
Schedule warm_up(int64_t steps, const Schedule& then, double start_factor = 1.0 / 3);

}  // namespace schedule

// Sets the learning rates of an optimizer, which must outlive it. The constructor sets the rates of
// step 0.
class LRScheduler {
 public:
  LRScheduler(Optimizer& optimizer, Schedule schedule);
  // `schedules` has one schedule for each group. Throws ValueError for another number.
  LRScheduler(Optimizer& optimizer, std::vector<Schedule> schedules);

  // Sets the learning rates of the next step. Call it after optimizer.step().
  void step() { go_to(last_epoch_ + 1); }
  int64_t last_epoch() const { return last_epoch_; }
  std::vector<double> get_last_lr() const;

  // Returns last_epoch, base_lrs, _step_count and _last_lr. load_state_dict() restores them and
  // also sets the rates of the optimizer.
  std::vector<NamedTensor> state_dict() const;
  void load_state_dict(const std::vector<NamedTensor>& state);

 private:
  void go_to(int64_t epoch);

  Optimizer& optimizer_;
  std::vector<Schedule> schedules_;
  std::vector<double> base_lrs_;
  int64_t last_epoch_ = 0;
};

struct PlateauOptions {
  struct ModeValues {
    enum class Value : uint8_t { kMin, kMax };
    static constexpr Value kMin = Value::kMin, kMax = Value::kMax;
    static constexpr const char* kOption = "mode";
    static constexpr const char* kWords[] = {"min", "max"};
  };
  using Mode = TextEnum<ModeValues>;

  Mode mode = Mode::kMin;
  double factor = 0.1;
  int64_t patience = 10;
  double threshold = 1e-4;
  struct ThresholdModeValues {
    enum class Value : uint8_t { kRel, kAbs };
    static constexpr Value kRel = Value::kRel, kAbs = Value::kAbs;
    static constexpr const char* kOption = "threshold_mode";
    static constexpr const char* kWords[] = {"rel", "abs"};
  };
  using ThresholdMode = TextEnum<ThresholdModeValues>;

  ThresholdMode threshold_mode = ThresholdMode::kRel;
  int64_t cooldown = 0;
  std::vector<double> min_lr = {};  // one for all groups, or one for each; empty: 0
  double eps = 1e-8;

  template <class V> void describe(V& v) {
    v("factor", factor, kBetweenZeroAndOne, "factor by which the rate is multiplied");
    v("patience", patience, kCountOrNone, "evaluations without improvement that are tolerated");
    v("threshold", threshold, kNonNegative, "smallest change that counts as an improvement");
    v("threshold_mode", threshold_mode, "threshold relative to the best value, or absolute");
    v("cooldown", cooldown, kCountOrNone, "evaluations to wait after a reduction");
    v("eps", eps, kNonNegative, "smallest change of the rate");
  }
};

// Multiplies the rates by `factor` if a metric has not improved for more than `patience` steps,
// then waits `cooldown` steps (ReduceLROnPlateau).
class ReduceLROnPlateau {
 public:
  explicit ReduceLROnPlateau(Optimizer& optimizer, PlateauOptions options = {});

  void step(double metric);
  std::vector<double> get_last_lr() const;

  // Returns best, cooldown_counter, num_bad_epochs, last_epoch and _last_lr. load_state_dict()
  // restores them and also sets the rates of the optimizer.
  std::vector<NamedTensor> state_dict() const;
  void load_state_dict(const std::vector<NamedTensor>& state);

 private:
  bool is_better(double metric) const;

  Optimizer& optimizer_;
  PlateauOptions options_;
  double best_;
  int64_t cooldown_counter_ = 0, num_bad_epochs_ = 0, last_epoch_ = 0;
};

}  // namespace taper::v0::optim
