// Losses, optimizers and schedules.
#include "apps/runner/config/config_parts.h"

namespace taper::runner {
namespace {

// Those settings that the optimizer has, under PyTorch's names.
template <class Options> Schema settings_of(Options& c) {
  Schema s;
  const auto number = [&s](const char* name, auto& x, const char* doc, Range range) -> Field& {
    if constexpr (requires { x.size(); }) {
      return s.field(name, std::span(x), doc, range);
    } else {
      return s.field(name, &x, doc, range);
    }
  };
  const auto flag = [&s](const char* name, bool& x, const char* doc) { s.field(name, &x, doc); };
  number("lr", c.lr, "learning rate", kPositive).often_called("learning_rate");
  if constexpr (requires { c.momentum; }) {
    number("momentum", c.momentum, "part of the last step that is kept", kBelowOne);
    if constexpr (requires { c.nesterov; }) {
      flag("nesterov", c.nesterov, "look ahead along the momentum");
    }
  }
  if constexpr (requires { c.dampening; }) {
    number("dampening", c.dampening, "part of a gradient that the momentum leaves out", kBelowOne);
    s.rules = {{"nesterov", "needs a momentum above 0, as in 'momentum: 0.9', and no dampening",
                [&c] { return !c.nesterov || (c.momentum > 0 && c.dampening == 0); }}};
  }
  if constexpr (requires { c.betas; }) {
    number("betas", c.betas, "decay of the two running means", kBelowOne);
  }
  if constexpr (requires { c.rho; }) number("rho", c.rho, "decay of running means", kBelowOne);
  if constexpr (requires { c.alpha; }) {
    number("alpha", c.alpha, "decay of the mean of squared gradients", kBelowOne);
    flag("centered", c.centered, "divide by the deviation instead of the root mean square");
  }
  if constexpr (requires { c.lr_decay; }) {
    number("lr_decay", c.lr_decay, "the rate is lr / (1 + step * lr_decay)", kNonNegative);
    number("initial_accumulator_value", c.initial_accumulator_value,
           "what the sum of squares begins with", kNonNegative);
  }
  if constexpr (requires { c.eps; }) number("eps", c.eps, "keeps the division finite", kPositive);
  constexpr bool kShrinks = std::is_same_v<Options, optim::AdamWOptions> ||
                            std::is_same_v<Options, optim::LionOptions> ||
                            std::is_same_v<Options, optim::MuonOptions>;
  number("weight_decay", c.weight_decay,
         kShrinks ? "part of the weight that is taken off, times lr"
                  : "L2 penalty, added to the gradient",
         kNonNegative);
  if constexpr (requires { c.amsgrad; }) {
    flag("amsgrad", c.amsgrad, "divide by the largest mean of squares so far");
  }
  if constexpr (requires { c.ns_steps; }) {
    number("ns_coefficients", c.ns_coefficients, "of the Newton-Schulz polynomial", {});
    number("ns_steps", c.ns_steps, "Newton-Schulz iterations", {1, 100});
    s.field("adjust_lr_fn", choice(c.adjust_lr_fn, {"original", "match_rms_adamw"}),
            "how lr follows a matrix's shape");
  }
  if constexpr (requires { c.maximize; }) flag("maximize", c.maximize, "climb, do not descend");
  flag("master_weights", c.master_weights, "train float32 copies of half weights");
  return s;
}

}  // namespace

Union describe(LossConfig& c) {
  Schema cross_entropy, huber;
  cross_entropy.field("label_smoothing", &c.label_smoothing, "share that all classes get", {0, 1});
  huber.field("delta", &c.delta, "where the square becomes a line", kPositive);
  return {.tag = choice(c.type, {"auto", "cross_entropy", "mse", "l1", "huber", "bce_with_logits"}),
          .alternatives = {{}, cross_entropy, {}, {}, huber, {}}};
}

Union describe(OptimizerConfig& c) {
  Schema common;
  common.field("no_decay", &c.no_decay, "biases and norms, of one dimension, without weight_decay");
  return {
      .tag = choice(c.type,
                    {"sgd", "adam", "adamw", "adagrad", "adadelta", "rmsprop", "lion", "muon"}),
      .alternatives = each_with({settings_of(c.sgd), settings_of(c.adam), settings_of(c.adamw),
                                 settings_of(c.adagrad), settings_of(c.adadelta),
                                 settings_of(c.rmsprop), settings_of(c.lion), settings_of(c.muon)},
                                common)};
}

Union describe(ScheduleConfig& c) {
  Schema linear, step, multi_step, exponential, cosine, restarts, one_cycle, polynomial, plateau;
  linear.field("start_factor", &c.start_factor, "of lr at the beginning", kNonNegative);
  linear.field("end_factor", &c.end_factor, "of lr at the end", kNonNegative);
  step.field("step_size", &c.step_size, "from one cut to the next", kCount).required();
  multi_step.field("milestones", &c.milestones, "when to cut", kCount).required();
  for (Schema* s : {&step, &multi_step, &exponential}) {
    s->field("gamma", &c.gamma, "factor of a cut", kPositive);
  }
  restarts.field("T_0", &c.t_0, "length of the first period", kCount).required();
  restarts.field("T_mult", &c.t_mult, "factor of the periods' lengths", {1, 1000});
  polynomial.field("power", &c.power, "of the part that remains", kPositive);
  optim::schedule::OneCycleOptions& o = c.one_cycle;
  one_cycle.field("max_lr", &c.max_lr, "the peak; without it lr", kPositive);
  one_cycle.field("pct_start", &o.pct_start, "part that climbs", kBetweenZeroAndOne);
  one_cycle.field("anneal_strategy", choice(o.anneal_strategy, {"cos", "linear"}),
                  "form of the way up and down");
  one_cycle.field("div_factor", &o.div_factor, "begins at max_lr / this", kPositive);
  one_cycle.field("final_div_factor", &o.final_div_factor, "ends at the first rate / this",
                  kPositive);
  one_cycle.field("three_phase", &o.three_phase, "down as slowly as up, then to the end");
  optim::PlateauOptions& p = c.plateau;
  plateau.field("metric", &c.metric, "of the evaluations: loss or one of metrics").one_of(goals());
  plateau.field("factor", &p.factor, "of a cut", kBetweenZeroAndOne);
  plateau.field("patience", &p.patience, "evaluations that may pass without a better value",
                kCountOrNone);
  plateau.field("threshold", &p.threshold, "what counts as better", kNonNegative);
  plateau.field("threshold_mode", choice(p.threshold_mode, {"rel", "abs"}),
                "part of the best value, or the difference from it");
  plateau.field("cooldown", &p.cooldown, "evaluations to wait after a cut", kCountOrNone);
  plateau.field("eps", &p.eps, "smaller changes of the rate are not made", kNonNegative);
  for (Schema* s : {&cosine, &restarts, &plateau}) {
    s->field("min_lr", &c.min_lr, "the lowest rate", kNonNegative).often_called("eta_min");
  }
  for (Schema* s : {&linear, &cosine, &one_cycle, &polynomial}) {
    s->field("total_iters", &c.total_iters, "its length; without it, the rest of the run", kCount)
        .often_called("T_max");
  }
  for (Schema* s :
       {&linear, &step, &multi_step, &exponential, &cosine, &restarts, &one_cycle, &polynomial}) {
    s->field("per", choice(c.per, {"step", "epoch"}), "what its numbers count");
  }
  Schema common;
  common.field("warmup", &c.warmup, "steps of a climb to lr; the schedule begins after it",
               kCountOrNone);
  return {
      .tag = choice(c.type, {"constant", "linear", "step", "multi_step", "exponential", "cosine",
                             "cosine_restarts", "one_cycle", "polynomial", "plateau"}),
      .alternatives = each_with({{},
                                 linear,
                                 step,
                                 multi_step,
                                 exponential,
                                 cosine,
                                 restarts,
                                 one_cycle,
                                 polynomial,
                                 plateau},
                                common)};
}

}  // namespace taper::runner
