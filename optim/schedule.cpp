#include "optim/schedule.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <memory>
#include <numbers>

#include "framework/factory/factories.h"
#include "optim/shared.h"

namespace taper::v0::optim {
namespace schedule {
namespace {

void check_positive(const char* name, int64_t value) {
  require<ValueError>(value > 0, "Expected positive integer ", name, ", but got ", value);
}

// Returns a schedule that multiplies base_lr by a function of the step.
template <class F> Schedule scaled(F factor) {
  return {[factor](int64_t t, double base) { return base * factor(t); }};
}

// Returns t / total, but at most 1. If total is 0, returns 0 forever, like PyTorch.
double share(int64_t t, int64_t total) {
  return total <= 0 ? 0 : double(std::min(t, total)) / double(total);
}

// Interpolates from start to end, as part increases from 0 to 1.
double annealed(Anneal way, double start, double end, double part) {
  if (way == Anneal::kLinear) return (end - start) * part + start;
  return end + (start - end) / 2 * (1 + std::cos(std::numbers::pi * part));
}

}  // namespace

Schedule constant(double factor, int64_t total_iters) {
  require<ValueError>(factor >= 0 && factor <= 1,
                      "Constant multiplicative factor expected to be between 0 and 1.");
  return scaled([=](int64_t t) { return share(t, total_iters) < 1 ? factor : 1; });
}

Schedule linear(double start_factor, double end_factor, int64_t total_iters) {
  require<ValueError>(
      start_factor > 0 && start_factor <= 1,
      "Starting multiplicative factor expected to be greater than 0 and less or equal to 1.");
  require<ValueError>(end_factor >= 0 && end_factor <= 1,
                      "Ending multiplicative factor expected to be between 0 and 1.");
  return scaled([=](int64_t t) {
    return start_factor + (end_factor - start_factor) * share(t, total_iters);
  });
}

Schedule linear(const LinearOptions& options) {
  return linear(options.start_factor, options.end_factor, options.total_iters);
}

Schedule step(int64_t step_size, double gamma) {
  check_positive("step_size", step_size);
  return scaled([=](int64_t t) { return std::pow(gamma, double(t / step_size)); });
}

Schedule multi_step(const std::vector<int64_t>& milestones, double gamma) {
  return scaled([=](int64_t t) {
    const auto passed = [t](int64_t milestone) { return milestone >= 0 && milestone <= t; };
    return std::pow(gamma, double(std::count_if(milestones.begin(), milestones.end(), passed)));
  });
}

Schedule exponential(double gamma) {
  return scaled([=](int64_t t) { return std::pow(gamma, double(t)); });
}

Schedule polynomial(int64_t total_iters, double power) {
  return scaled([=](int64_t t) { return std::pow(1 - share(t, total_iters), power); });
}

Schedule cosine_annealing(int64_t T_max, double eta_min) {
  check_positive("T_max", T_max);
  return {[=](int64_t t, double base) {
    return annealed(Anneal::kCos, base, eta_min, double(t) / double(T_max));
  }};
}

Schedule lambda(std::function<double(int64_t)> factor) { return scaled(std::move(factor)); }

// Caches the products, so that each factor is computed once.
Schedule multiplicative(const std::function<double(int64_t)>& factor) {
  const auto products = std::make_shared<std::vector<double>>(1, 1.0);
  return scaled([=](int64_t t) {
    while (std::ssize(*products) <= t) {
      products->push_back(products->back() * factor(std::ssize(*products)));
    }
    return (*products)[size_t(t)];
  });
}

Schedule swa(double swa_lr, int64_t anneal_epochs, Anneal anneal_strategy) {
  require<ValueError>(anneal_epochs >= 0, "anneal_epochs must be equal or greater than 0, got ",
                      anneal_epochs);
  return {[=](int64_t t, double base) {
    const double part = anneal_epochs == 0 ? 1 : share(t, anneal_epochs);
    return annealed(anneal_strategy, base, swa_lr, part);
  }};
}

Schedule cosine_annealing_warm_restarts(int64_t T_0, int64_t T_mult, double eta_min) {
  check_positive("T_0", T_0);
  require<ValueError>(T_mult >= 1, "Expected integer T_mult >= 1, but got ", T_mult);
  return {[=](int64_t t, double base) {
    int64_t period = T_0;
    if (T_mult == 1) t %= period;
    for (; t >= period; period *= T_mult) t -= period;
    return annealed(Anneal::kCos, base, eta_min, double(t) / double(period));
  }};
}

Schedule one_cycle(const OneCycleOptions& o) {
  check_positive("total_steps", o.total_steps);
  require<ValueError>(o.pct_start >= 0 && o.pct_start <= 1,
                      "Expected float between 0 and 1 pct_start, but got ", o.pct_start);
  Schedule out;
  for (const double max_lr : o.max_lr) out.base_lrs.push_back(max_lr / o.div_factor);
  out.lr = [o](int64_t step, double base) {
    require<ValueError>(step <= o.total_steps, "Tried to step ", step,
                        " times. The specified number of total steps is ", o.total_steps);
    const double t = double(step), total = double(o.total_steps), peak = o.pct_start * total - 1;
    const double top = base * o.div_factor, low = base / o.final_div_factor;
    const auto phase = [&](double first, double last, double start, double end) {
      // A phase of length 0 is complete immediately.
      const double part = last == first ? 1 : (t - first) / (last - first);
      return annealed(o.anneal_strategy, start, end, part);
    };
    if (t <= peak) return phase(0, peak, base, top);
    if (!o.three_phase) return phase(peak, total - 1, top, low);
    return t <= 2 * peak ? phase(peak, 2 * peak, top, base) : phase(2 * peak, total - 1, base, low);
  };
  return out;
}

Schedule cyclic(const CyclicOptions& o) {
  using Mode = CyclicOptions::Mode;
  check_positive("step_size_up", o.step_size_up);
  check_positive("step_size_down", o.step_size_down.value_or(1));
  const int64_t up = o.step_size_up, total = up + o.step_size_down.value_or(up);
  const auto height = [=](int64_t t) {
    if (o.mode == Mode::kExpRange) return std::pow(o.gamma, double(t));
    return o.mode == Mode::kTriangular2 ? std::pow(0.5, double(t / total)) : 1;
  };
  return {[=, max_lr = o.max_lr](int64_t t, double base) {
            const int64_t x = t % total;
            const double part =
                x <= up ? double(x) / double(up) : double(total - x) / double(total - up);
            return base + (max_lr - base) * part * height(t);
          },
          {o.base_lr}};
}

Schedule chained(const std::vector<Schedule>& schedules) {
  require<ValueError>(
      !schedules.empty(),
      "ChainedScheduler expects at least one scheduler to be chained, but got no scheduler.");
  return {[=](int64_t t, double rate) {
            for (const Schedule& s : schedules) rate = s.lr(t, rate);
            return rate;
          },
          schedules[0].base_lrs};
}

Schedule sequential(const std::vector<Schedule>& schedules,
                    const std::vector<int64_t>& milestones) {
  require<ValueError>(
      milestones.size() + 1 == schedules.size(),
      "Sequential Schedulers expects number of schedulers provided to be one more than the "
      "number of milestone points, but got number of schedulers ",
      schedules.size(), " and the number of milestones to be equal to ", milestones.size());
  Schedule out;
  for (const Schedule& s : schedules) {
    if (out.base_lrs.empty()) out.base_lrs = s.base_lrs;
  }
  out.lr = [schedules, milestones](int64_t t, double base) {
    const auto next = std::upper_bound(milestones.begin(), milestones.end(), t);
    const int64_t start = next == milestones.begin() ? 0 : *(next - 1);
    return schedules[size_t(next - milestones.begin())].lr(t - start, base);
  };
  return out;
}

Schedule warm_up(int64_t steps, const Schedule& then, double start_factor) {
  require<ValueError>(steps >= 0, "Expected non-negative integer steps, but got ", steps);
  return sequential({linear(start_factor, 1, steps), then}, {steps});
}

}  // namespace schedule

namespace {

std::vector<double> rates_of(const Optimizer& optimizer) {
  std::vector<double> rates;
  for (size_t i = 0; i < optimizer.num_groups(); ++i) rates.push_back(optimizer.lr(i));
  return rates;
}

// Repeats a single value for all groups. Throws ValueError if there is neither one value nor one
// for each group.
template <class T> void spread(std::vector<T>& values, size_t groups, const std::string& refusal) {
  require<ValueError>(values.size() == 1 || values.size() == groups, refusal);
  values.resize(groups, T(values[0]));
}

Tensor doubles(const std::vector<double>& values) { return tensor(values, {.dtype = kFloat64}); }

}  // namespace

LRScheduler::LRScheduler(Optimizer& optimizer, Schedule schedule)
    : LRScheduler(optimizer, std::vector<Schedule>{std::move(schedule)}) {}
LRScheduler::LRScheduler(Optimizer& optimizer, std::vector<Schedule> schedules)
    : optimizer_(optimizer), schedules_(std::move(schedules)), base_lrs_(rates_of(optimizer)) {
  const size_t given = schedules_.size(), groups = base_lrs_.size();
  require<ValueError>(groups > 0,
                      "LRScheduler: the optimizer has no groups whose rates it could set");
  spread(schedules_, groups, concat_to_string("Expected ", groups, " lr_lambdas, but got ", given));
  for (size_t i = 0; i < groups; ++i) {
    std::vector<double> own = schedules_[i].base_lrs;
    if (own.empty()) continue;
    spread(
        own, groups,
        concat_to_string("max_lr must have the same length as optimizer.param_groups. max_lr has ",
                         own.size(), " values, param_groups has ", groups, "."));
    base_lrs_[i] = own[i];
  }
  go_to(0);
}

void LRScheduler::go_to(int64_t epoch) {
  last_epoch_ = epoch;
  for (size_t i = 0; i < base_lrs_.size(); ++i) {
    optimizer_.set_lr(i, schedules_[i].lr(epoch, base_lrs_[i]));
  }
}

std::vector<double> LRScheduler::get_last_lr() const { return rates_of(optimizer_); }

std::vector<NamedTensor> LRScheduler::state_dict() const {
  return {{"last_epoch", tensor(last_epoch_)},
          {"base_lrs", doubles(base_lrs_)},
          {"_step_count", tensor(last_epoch_ + 1)},
          {"_last_lr", doubles(get_last_lr())}};
}

void LRScheduler::load_state_dict(const std::vector<NamedTensor>& state) {
  const StateReader saved{state, "LRScheduler"};
  const int64_t epoch = saved.number<int64_t>("last_epoch");
  base_lrs_ = saved.entry("base_lrs", {int64_t(base_lrs_.size())}).cpu().to_vector<double>();
  go_to(epoch);
}

ReduceLROnPlateau::ReduceLROnPlateau(Optimizer& optimizer, PlateauOptions options)
    : optimizer_(optimizer), options_(std::move(options)) {
  require<ValueError>(options_.factor < 1, "Factor should be < 1.0.");
  if (options_.min_lr.empty()) options_.min_lr = {0};
  const size_t given = options_.min_lr.size(), groups = optimizer.num_groups();
  spread(options_.min_lr, groups, concat_to_string("expected ", groups, " min_lrs, got ", given));
  const double inf = std::numeric_limits<double>::infinity();
  best_ = options_.mode == PlateauOptions::Mode::kMin ? inf : -inf;
}

bool ReduceLROnPlateau::is_better(double metric) const {
  const bool relative = options_.threshold_mode == PlateauOptions::ThresholdMode::kRel;
  const bool falls = options_.mode == PlateauOptions::Mode::kMin;
  const double margin = falls ? -options_.threshold : options_.threshold;
  const double bound = relative ? best_ * (1 + margin) : best_ + margin;
  return falls ? metric < bound : metric > bound;
}

void ReduceLROnPlateau::step(double metric) {
  ++last_epoch_;
  ++num_bad_epochs_;
  if (is_better(metric)) {
    best_ = metric;
    num_bad_epochs_ = 0;
  }
  if (cooldown_counter_ > 0) {
    --cooldown_counter_;
    num_bad_epochs_ = 0;
  }
  if (num_bad_epochs_ <= options_.patience) return;
  for (size_t i = 0; i < optimizer_.num_groups(); ++i) {
    const double old = optimizer_.lr(i), lr = std::max(old * options_.factor, options_.min_lr[i]);
    if (old - lr > options_.eps) optimizer_.set_lr(i, lr);
  }
  cooldown_counter_ = options_.cooldown;
  num_bad_epochs_ = 0;
}

std::vector<double> ReduceLROnPlateau::get_last_lr() const { return rates_of(optimizer_); }

std::vector<NamedTensor> ReduceLROnPlateau::state_dict() const {
  return {{"best", tensor(best_, {.dtype = kFloat64})},
          {"cooldown_counter", tensor(cooldown_counter_)},
          {"num_bad_epochs", tensor(num_bad_epochs_)},
          {"last_epoch", tensor(last_epoch_)},
          {"_last_lr", doubles(get_last_lr())}};
}

void ReduceLROnPlateau::load_state_dict(const std::vector<NamedTensor>& state) {
  const StateReader saved{state, "ReduceLROnPlateau"};
  const Shape groups{int64_t(optimizer_.num_groups())};
  const auto rates = saved.entry("_last_lr", groups).cpu().to_vector<double>();
  const double best = saved.number<double>("best");
  const int64_t cooldown = saved.number<int64_t>("cooldown_counter");
  const int64_t bad = saved.number<int64_t>("num_bad_epochs");
  last_epoch_ = saved.number<int64_t>("last_epoch");
  best_ = best;
  cooldown_counter_ = cooldown;
  num_bad_epochs_ = bad;
  for (size_t i = 0; i < rates.size(); ++i) optimizer_.set_lr(i, rates[i]);
}

}  // namespace taper::v0::optim
