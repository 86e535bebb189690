#include <algorithm>

#include "apps/runner/components/components.h"
#include "apps/runner/components/inline_factory.h"
#include "framework/base/log.h"

namespace taper::v0::runner {
namespace {

namespace schedule = optim::schedule;
using optim::Schedule;

// A schedule that kMake creates. Its lengths count steps or epochs, as `per` selects, and kMake
// gets its total length as `at.steps`. If kHasEnd, the option total_iters sets the total length. By
// default the schedule ends with the run.
template <bool kHasEnd, auto kMake, class... Each> struct Counting : InlineFactory<kMake, Each...> {
  std::optional<int64_t> total_iters{};
  enum class Per { kStep, kEpoch } per = Per::kStep;

  template <class V> void describe(V& v) {
    InlineFactory<kMake, Each...>::describe(v);
    if (kHasEnd) {
      v("total_iters", total_iters, kCount, "length; default: the rest of the run");
    }
    v("per", per, {"step", "epoch"}, "unit of lengths and milestones");
  }
  Schedule make(const ScheduleSite& at) const {
    const int64_t unit = per == Per::kEpoch ? std::max<int64_t>(at.steps_per_epoch, 1) : 1;
    ScheduleSite site = at;
    site.steps = total_iters.value_or((at.steps + unit - 1) / unit);
    const Schedule inner = InlineFactory<kMake, Each...>::make(site);
    return {[=](int64_t t, double base) { return inner.lr(t / unit, base); }, inner.base_lrs};
  }
};
template <auto kMake, class... Each>
constexpr auto bounded = Schedules::of<Counting<true, kMake, Each...>>;
template <auto kMake, class... Each>
constexpr auto endless = Schedules::of<Counting<false, kMake, Each...>>;

Schedule linear_lr(const ScheduleSite& at, double start_factor, double end_factor) {
  return {[=, total = at.steps](int64_t t, double base) {
    return base * (start_factor +
                   (end_factor - start_factor) * double(std::min(t, total)) / double(total));
  }};
}
// Returns a schedule that keeps the rate of step `last` for all later steps, where PyTorch's
// schedules would raise the rate again or throw.
Schedule held(const Schedule& inner, int64_t last) {
  return {[=](int64_t t, double base) { return inner.lr(std::min(t, last), base); },
          inner.base_lrs};
}
Schedule cosine(const ScheduleSite& at, double min_lr) {
  return held(schedule::cosine_annealing(at.steps, min_lr), at.steps);
}
Schedule one_cycle(const ScheduleSite& at, std::optional<double> max_lr,
                   schedule::OneCycleOptions o) {
  o.max_lr = {max_lr.value_or(at.lr)};
  o.total_steps = at.steps;
  return held(schedule::one_cycle(o), at.steps - 1);
}
Schedule cyclic(const ScheduleSite& at, double base_lr, std::optional<double> max_lr,
                schedule::CyclicOptions o) {
  o.base_lr = base_lr;
  o.max_lr = max_lr.value_or(at.lr);
  return schedule::cyclic(o);
}
Schedule polynomial(const ScheduleSite& at, double power) {
  return schedule::polynomial(at.steps, power);
}
Schedule constant() { return schedule::constant(1); }

struct PlateauSpec {
  std::string metric = "loss";
  optim::PlateauOptions options{};
  double min_lr = 0;
  template <class V> void describe(V& v) {
    v("metric", metric, goals(), "metric of the evaluations: loss, or one of metrics");
    options.describe(v);
    v("min_lr", min_lr, kNonNegative, "lowest rate");
  }
  Schedule make(const ScheduleSite&) const { return constant(); }
};

using Gamma = Option<"gamma", double, kPositive, "factor of each reduction", 1, 10>;
using MinLr = Option<"min_lr", double, kNonNegative, "lowest rate", 0>;
constexpr Range kPeriods{1, 1000};

constexpr Schedules::Entry kSchedules[] = {
    {"constant", Schedules::of<InlineFactory<constant>>},
    {"linear",
     bounded<linear_lr, Option<"start_factor", double, kNonNegative, "initial factor of lr", 1>,
             Option<"end_factor", double, kNonNegative, "final factor of lr", 0>>},
    {"step",
     endless<
         schedule::step,
         Option<"step_size", int64_t, kCount, "number of steps or epochs between two reductions">,
         Gamma>},
    {"multi_step", endless<schedule::multi_step,
                           Option<"milestones", std::vector<int64_t>, kCount,
                                  "steps or epochs at which the rate is reduced">,
                           Gamma>},
    {"exponential", endless<schedule::exponential, Gamma>},
    {"cosine", bounded<cosine, MinLr>},
    {"cosine_restarts",
     endless<
         schedule::cosine_annealing_warm_restarts,
         Option<"T_0", int64_t, kCount, "length of the first period">,
         Option<"T_mult", int64_t, kPeriods, "factor between the lengths of successive periods", 1>,
         MinLr>},
    {"one_cycle",
     bounded<one_cycle,
             Option<"max_lr", std::optional<double>, kPositive, "peak rate; default: lr">,
             AllOf<schedule::OneCycleOptions>>},
    {"cyclic", endless<cyclic, Option<"base_lr", double, kNonNegative, "lowest rate">,
                       Option<"max_lr", std::optional<double>, kPositive, "peak rate; default: lr">,
                       AllOf<schedule::CyclicOptions>>},
    {"polynomial", bounded<polynomial, Option<"power", double, kPositive, "exponent", 1>>},
    {"plateau", Schedules::of<PlateauSpec>},
};

}  // namespace

Schedules& schedules() { return Schedules::registry("schedule", {kSchedules}); }

optim::Schedule build_schedule(const Component& config, int64_t warmup, const ScheduleSite& at) {
  if (warmup >= at.steps && warmup > 0) {
    warn(concat_to_string("schedule.warmup is ", warmup, " steps, but the run has only ", at.steps,
                          ": the learning rate never reaches ", at.lr));
  }
  const int64_t rest = std::max<int64_t>(at.steps - warmup, 1);
  const Schedule then = schedules().make(config, {at.lr, rest, at.steps_per_epoch});
  if (warmup == 0) return then;
  return schedule::warm_up(warmup, then, 1 / double(warmup + 1));
}

std::optional<std::string> metric_of(const Component& schedule) {
  const auto* plateau = schedule.get_if<PlateauSpec>();
  return plateau ? std::optional(plateau->metric) : std::nullopt;
}

std::optional<optim::PlateauOptions> plateau_of(const Component& config) {
  const auto* plateau = config.get_if<PlateauSpec>();
  if (plateau == nullptr) return std::nullopt;
  optim::PlateauOptions o = plateau->options;
  o.min_lr = {plateau->min_lr};
  if (is_better_when_greater(plateau->metric)) o.mode = optim::PlateauOptions::Mode::kMax;
  return o;
}

}  // namespace taper::v0::runner
