// Learning rates over time
// (https://pytorch.org/docs/stable/optim.html#how-to-adjust-learning-rate):
//
//   LRScheduler schedule(optimizer, schedule::warm_up(100, schedule::cosine_annealing(900)));
//   for (...) { ...; optimizer.step(); schedule.step(); }
//
// A schedule is a function in closed form, so that a step may be jumped to. The rates are those
// that PyTorch's optimizers see. Each argument is PyTorch's, with its default.
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "framework/base/describe.h"
#include "optim/optimizer.h"

namespace taper::v0::optim {

struct Schedule {
  // The rate of a step (from 0) for a group that began with base_lr.
  std::function<double(int64_t step, double base_lr)> lr;
  // Replace the rates that the groups began with: none, one for all, or one for each group.
  std::vector<double> base_lrs = {};
};

namespace schedule {

// base_lr * factor for total_iters steps, then base_lr.
Schedule constant(double factor = 1.0 / 3, int64_t total_iters = 5);
// The factor goes straight from start_factor to end_factor, where it stays.
Schedule linear(double start_factor = 1.0 / 3, double end_factor = 1, int64_t total_iters = 5);
// gamma to the power of the number of whole step_sizes, or of milestones, passed.
Schedule step(int64_t step_size, double gamma = 0.1);
Schedule multi_step(const std::vector<int64_t>& milestones, double gamma = 0.1);
Schedule exponential(double gamma);
// (1 - t / total_iters)^power, then 0.
Schedule polynomial(int64_t total_iters = 5, double power = 1);
// Half a cosine from base_lr at 0 to eta_min at T_max; beyond, it rises again.
Schedule cosine_annealing(int64_t T_max, double eta_min = 0);
// factor(t), or the product of factor(1) ... factor(t).
Schedule lambda(std::function<double(int64_t step)> factor);
Schedule multiplicative(std::function<double(int64_t step)> factor);
// To swa_lr, where it stays, in anneal_epochs steps (PyTorch: SWALR).
enum class Anneal : uint8_t { kCos, kLinear };
Schedule swa(double swa_lr, int64_t anneal_epochs = 10, Anneal anneal_strategy = Anneal::kCos);
// Begins again after T_0 steps, each period T_mult times as long as the one before.
Schedule cosine_annealing_warm_restarts(int64_t T_0, int64_t T_mult = 1, double eta_min = 0);

// Up to max_lr and down again. PyTorch's cycle_momentum is not there: momentum stays as it is.
struct OneCycleOptions {
  std::vector<double> max_lr;  // one for all groups, or one for each
  int64_t total_steps = 0;     // the scheduler refuses to go beyond
  double pct_start = 0.3;      // the rising part
  Anneal anneal_strategy = Anneal::kCos;
  double div_factor = 25, final_div_factor = 1e4;  // begins at max / div, ends at that / final_div
  bool three_phase = false;

  template <class V> void describe(V& v) {
    v("pct_start", pct_start, kBetweenZeroAndOne, "fraction of the run with a rising rate");
    v("anneal_strategy", anneal_strategy, {"cos", "linear"}, "shape of the rise and the fall");
    v("div_factor", div_factor, kPositive, "the initial rate is max_lr / div_factor");
    v("final_div_factor", final_div_factor, kPositive,
      "the final rate is the initial rate / final_div_factor");
    v("three_phase", three_phase, "fall as slowly as the rise, then down to the final rate");
  }
};
Schedule one_cycle(const OneCycleOptions& options);

// From base_lr straight to max_lr in step_size_up steps and back in step_size_down, again and again
// (Smith, 2015, https://arxiv.org/abs/1506.01186). Momentum stays as it is.
struct CyclicOptions {
  double base_lr = 0, max_lr = 0;
  int64_t step_size_up = 2000;
  std::optional<int64_t> step_size_down = std::nullopt;  // none: step_size_up
  // What a cycle's height is multiplied by: nothing, half of the cycle's before, gamma^step.
  enum class Mode : uint8_t { kTriangular, kTriangular2, kExpRange } mode = Mode::kTriangular;
  double gamma = 1;

  template <class V> void describe(V& v) {
    v("step_size_up", step_size_up, kCount, "length of the rise");
    v("step_size_down", step_size_down, kCount, "length of the fall; default: step_size_up");
    v("mode", mode, {"triangular", "triangular2", "exp_range"},
      "amplitude: constant, halved each cycle, or gamma to the power of the step");
    v("gamma", gamma, kPositive, "factor of exp_range");
  }
};
Schedule cyclic(const CyclicOptions& options);

// Each one's rate is the base_lr of the next: of multiples of base_lr the product
// (ChainedScheduler).
Schedule chained(const std::vector<Schedule>& schedules);
// One schedule after another; each counts its steps from its own milestone (SequentialLR).
Schedule sequential(const std::vector<Schedule>& schedules, const std::vector<int64_t>& milestones);
// In front of any other: from start_factor * base_lr straight up to base_lr in `steps` steps.
Schedule warm_up(int64_t steps, const Schedule& then, double start_factor = 1.0 / 3);

}  // namespace schedule

// Sets the rates of an optimizer, which must outlive it: those of step 0 when it is made.
class LRScheduler {
 public:
  LRScheduler(Optimizer& optimizer, Schedule schedule);
  // One for each group.
  LRScheduler(Optimizer& optimizer, std::vector<Schedule> schedules);

  // Call after optimizer.step().
  void step() { go_to(last_epoch_ + 1); }
  int64_t last_epoch() const { return last_epoch_; }
  std::vector<double> get_last_lr() const;

  // last_epoch, base_lrs, _step_count, _last_lr. Loading also sets the optimizer's rates.
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
  enum class Mode : uint8_t { kMin, kMax } mode = Mode::kMin;
  double factor = 0.1;
  int64_t patience = 10;
  double threshold = 1e-4;
  enum class ThresholdMode : uint8_t { kRel, kAbs } threshold_mode = ThresholdMode::kRel;
  int64_t cooldown = 0;
  std::vector<double> min_lr = {};  // one for all groups, or one for each; none: 0
  double eps = 1e-8;

  template <class V> void describe(V& v) {
    v("factor", factor, kBetweenZeroAndOne, "of a cut");
    v("patience", patience, kCountOrNone, "evaluations without improvement that are tolerated");
    v("threshold", threshold, kNonNegative, "smallest change that counts as an improvement");
    v("threshold_mode", threshold_mode, {"rel", "abs"},
      "threshold relative to the best value, or absolute");
    v("cooldown", cooldown, kCountOrNone, "evaluations to wait after a reduction");
    v("eps", eps, kNonNegative, "smallest change of the rate");
  }
};

// Multiplies the rates by `factor` when a metric has not become better for more than `patience`
// steps, then waits `cooldown` steps.
class ReduceLROnPlateau {
 public:
  explicit ReduceLROnPlateau(Optimizer& optimizer, PlateauOptions options = {});

  void step(double metric);
  std::vector<double> get_last_lr() const;

  // best, cooldown_counter, num_bad_epochs, last_epoch, _last_lr. Loading also sets the optimizer's
  // rates.
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
