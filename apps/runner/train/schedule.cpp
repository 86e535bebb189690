#include "apps/runner/train/schedule.h"

#include <algorithm>

#include <spdlog/spdlog.h>

namespace taper::runner {
namespace {

namespace schedule = optim::schedule;
using optim::Schedule;

// A schedule whose numbers count steps or epochs.
struct Counting {
  enum class Per { kStep, kEpoch } per = Per::kStep;
  template <class V> void describe(V& v) {
    v("per", per, {"step", "epoch"}, "what its numbers count");
  }
  int64_t length(int64_t rest) const { return rest; }
};
// Of a length. Without one it takes what the warm-up leaves of the run.
struct Bounded : Counting {
  std::optional<int64_t> total_iters{};
  template <class V> void describe(V& v) {
    v("total_iters", total_iters, kCount, "its length; without it, the rest of the run");
    Counting::describe(v);
  }
  int64_t length(int64_t rest) const { return total_iters.value_or(rest); }
};

struct LinearSpec : Bounded {
  double start_factor = 1, end_factor = 0;
  template <class V> void describe(V& v) {
    v("start_factor", start_factor, kNonNegative, "of lr at the beginning");
    v("end_factor", end_factor, kNonNegative, "of lr at the end");
    Bounded::describe(v);
  }
  Schedule over(int64_t total, double) const {
    return {[total, from = start_factor, to = end_factor](int64_t t, double base) {
      return base * (from + (to - from) * double(std::min(t, total)) / double(total));
    }};
  }
};

struct Cuts : Counting {
  double gamma = 0.1;
  template <class V> void describe(V& v) {
    v("gamma", gamma, kPositive, "factor of a cut");
    Counting::describe(v);
  }
};
struct StepSpec : Cuts {
  int64_t step_size = 1;
  template <class V> void describe(V& v) {
    v("step_size", step_size, kCount, "from one cut to the next").required();
    Cuts::describe(v);
  }
  Schedule over(int64_t, double) const { return schedule::step(step_size, gamma); }
};
struct MultiStepSpec : Cuts {
  std::vector<int64_t> milestones{};
  template <class V> void describe(V& v) {
    v("milestones", milestones, kCount, "when to cut").required();
    Cuts::describe(v);
  }
  Schedule over(int64_t, double) const { return schedule::multi_step(milestones, gamma); }
};
struct ExponentialSpec : Cuts {
  Schedule over(int64_t, double) const { return schedule::exponential(gamma); }
};

template <class V> void describe_min_lr(V& v, double& min_lr) {
  v("min_lr", min_lr, kNonNegative, "the lowest rate");
}

struct CosineSpec : Bounded {
  double min_lr = 0;
  template <class V> void describe(V& v) {
    describe_min_lr(v, min_lr);
    Bounded::describe(v);
  }
  // Stays at the end, where PyTorch's would rise again.
  Schedule over(int64_t total, double) const {
    const Schedule cosine = schedule::cosine_annealing(total, min_lr);
    return {[=](int64_t t, double base) { return cosine.lr(std::min(t, total), base); }};
  }
};

struct CosineRestartsSpec : Counting {
  int64_t t_0 = 1, t_mult = 1;
  double min_lr = 0;
  template <class V> void describe(V& v) {
    v("T_0", t_0, kCount, "length of the first period").required();
    v("T_mult", t_mult, {1, 1000}, "factor of the periods' lengths");
    describe_min_lr(v, min_lr);
    Counting::describe(v);
  }
  Schedule over(int64_t, double) const {
    return schedule::cosine_annealing_warm_restarts(t_0, t_mult, min_lr);
  }
};

struct OneCycleSpec : Bounded {
  std::optional<double> max_lr{};
  schedule::OneCycleOptions options{};
  template <class V> void describe(V& v) {
    v("max_lr", max_lr, kPositive, "the peak; without it lr");
    options.describe(v);
    Bounded::describe(v);
  }
  Schedule over(int64_t total, double lr) const {
    schedule::OneCycleOptions o = options;
    o.max_lr = {max_lr.value_or(lr)};
    o.total_steps = total;
    const Schedule cycle = schedule::one_cycle(o);
    return {[=](int64_t t, double base) { return cycle.lr(std::min(t, total - 1), base); },
            cycle.base_lrs};
  }
};

struct PolynomialSpec : Bounded {
  double power = 1;
  template <class V> void describe(V& v) {
    v("power", power, kPositive, "of the part that remains");
    Bounded::describe(v);
  }
  Schedule over(int64_t total, double) const { return schedule::polynomial(total, power); }
};

struct ConstantSpec {
  template <class V> void describe(V&) {}
  Schedule make(const ScheduleSite&) const { return schedule::constant(1); }
};

struct PlateauSpec : ConstantSpec {
  std::string metric = "loss";  // of evaluations
  optim::PlateauOptions options{};
  double min_lr = 0;
  template <class V> void describe(V& v) {
    v("metric", metric, goals(), "of the evaluations: loss or one of metrics");
    options.describe(v);
    describe_min_lr(v, min_lr);
  }
};

// What Spec says in its own units, in steps.
template <class Spec> struct InSteps : Spec {
  Schedule make(const ScheduleSite& at) const {
    const bool in_epochs = this->per == Counting::Per::kEpoch;
    const int64_t unit = in_epochs ? std::max<int64_t>(at.steps_per_epoch, 1) : 1;
    const Schedule inner = this->over(this->length((at.steps + unit - 1) / unit), at.lr);
    return {[=](int64_t t, double base) { return inner.lr(t / unit, base); }, inner.base_lrs};
  }
};

constexpr Schedules::Entry kSchedules[] = {
    {"constant", Schedules::of<ConstantSpec>},
    {"linear", Schedules::of<InSteps<LinearSpec>>},
    {"step", Schedules::of<InSteps<StepSpec>>},
    {"multi_step", Schedules::of<InSteps<MultiStepSpec>>},
    {"exponential", Schedules::of<InSteps<ExponentialSpec>>},
    {"cosine", Schedules::of<InSteps<CosineSpec>>},
    {"cosine_restarts", Schedules::of<InSteps<CosineRestartsSpec>>},
    {"one_cycle", Schedules::of<InSteps<OneCycleSpec>>},
    {"polynomial", Schedules::of<InSteps<PolynomialSpec>>},
    {"plateau", Schedules::of<PlateauSpec>},
};

}  // namespace

Schedules& schedules() {
  static Schedules table("schedule", {kSchedules});
  return table;
}

optim::Schedule build_schedule(const ScheduleConfig& config, double lr, int64_t total_steps,
                               int64_t steps_per_epoch) {
  if (config.warmup >= total_steps && config.warmup > 0) {
    spdlog::warn("schedule.warmup has {} steps and the run {}: the learning rate never reaches {}",
                 config.warmup, total_steps, lr);
  }
  const int64_t rest = std::max<int64_t>(total_steps - config.warmup, 1);
  const Schedule then = schedules().make(config, {lr, rest, steps_per_epoch});
  if (config.warmup == 0) return then;
  return schedule::warm_up(config.warmup, then, 1 / double(config.warmup + 1));
}

std::optional<std::string> metric_of(const Component& schedule) {
  const auto* plateau = schedule.get_if<PlateauSpec>();
  return plateau ? std::optional(plateau->metric) : std::nullopt;
}

std::optional<optim::PlateauOptions> plateau_of(const ScheduleConfig& config) {
  const auto* plateau = config.get_if<PlateauSpec>();
  if (plateau == nullptr) return std::nullopt;
  optim::PlateauOptions o = plateau->options;
  o.min_lr = {plateau->min_lr};
  if (GoalConfig{plateau->metric}.is_max()) o.mode = optim::PlateauOptions::Mode::max;
  return o;
}

}  // namespace taper::runner
