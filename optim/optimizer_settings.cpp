// Each optimizer's settings by name, their checks in PyTorch's words, and its state.
#include "optim/optimizer.h"

namespace taper::optim {
namespace {

using namespace kernels;

// Names and values in turn; nan is refused too.
void check_not_negative() {}
template <class... Rest>
void check_not_negative(const char* what, double value, const Rest&... rest) {
  if (!(value >= 0)) throw ValueError(cat("Invalid ", what, ": ", value));
  check_not_negative(rest...);
}
void check_betas(const std::array<double, 2>& betas) {
  for (size_t i = 0; i < betas.size(); ++i) {
    if (betas[i] >= 0 && betas[i] < 1) continue;
    throw ValueError(cat("Invalid beta parameter at index ", i, ": ", betas[i]));
  }
}

// Names and places in turn.
std::vector<Field> fields_in() { return {}; }
template <class T, class... Rest>
std::vector<Field> fields_in(const char* name, T& place, Rest&&... rest) {
  std::vector<Field> out = fields_in(rest...);
  out.insert(out.begin(), Field(name, place));
  return out;
}

std::vector<Field> fields(SGDOptions& o) {
  return fields_in("lr", o.lr, "momentum", o.momentum, "dampening", o.dampening, "weight_decay",
                   o.weight_decay, "nesterov", o.nesterov, "maximize", o.maximize);
}
Recipe recipe(const SGDOptions& o) {
  check_not_negative("learning rate", o.lr, "momentum value", o.momentum, "weight_decay value",
                     o.weight_decay);
  if (o.nesterov && (o.momentum == 0 || o.dampening != 0)) {
    throw ValueError("Nesterov momentum requires a momentum and zero dampening");
  }
  if (o.momentum == 0) return {"SGD"};
  // Dampening does not count in the first step.
  return {"SGD", {"momentum_buffer"}, o.dampening != 0 ? Recipe::counted : Recipe::uncounted};
}

std::vector<Field> fields(AdamOptions& o) {
  return fields_in("lr", o.lr, "betas", o.betas, "eps", o.eps, "weight_decay", o.weight_decay,
                   "amsgrad", o.amsgrad, "maximize", o.maximize);
}
Recipe recipe(const AdamOptions& o) {
  check_not_negative("learning rate", o.lr, "epsilon value", o.eps);
  check_betas(o.betas);
  check_not_negative("weight_decay value", o.weight_decay);
  Recipe r{o.decoupled_weight_decay ? "AdamW" : "Adam", {"exp_avg", "exp_avg_sq"}, Recipe::saved};
  if (o.amsgrad) r.states.push_back("max_exp_avg_sq");
  return r;
}

std::vector<Field> fields(AdagradOptions& o) {
  return fields_in("lr", o.lr, "lr_decay", o.lr_decay, "eps", o.eps, "weight_decay", o.weight_decay,
                   "initial_accumulator_value", o.initial_accumulator_value, "maximize",
                   o.maximize);
}
Recipe recipe(const AdagradOptions& o) {
  check_not_negative("learning rate", o.lr, "lr_decay value", o.lr_decay, "weight_decay value",
                     o.weight_decay, "initial_accumulator_value value", o.initial_accumulator_value,
                     "epsilon value", o.eps);
  return {"Adagrad", {"sum"}, Recipe::saved, o.initial_accumulator_value};
}

std::vector<Field> fields(AdadeltaOptions& o) {
  return fields_in("lr", o.lr, "rho", o.rho, "eps", o.eps, "weight_decay", o.weight_decay,
                   "maximize", o.maximize);
}
Recipe recipe(const AdadeltaOptions& o) {
  check_not_negative("learning rate", o.lr);
  if (!(o.rho >= 0 && o.rho <= 1)) throw ValueError(cat("Invalid rho value: ", o.rho));
  check_not_negative("epsilon value", o.eps, "weight_decay value", o.weight_decay);
  return {"Adadelta", {"square_avg", "acc_delta"}, Recipe::saved};
}

std::vector<Field> fields(RMSpropOptions& o) {
  return fields_in("lr", o.lr, "momentum", o.momentum, "alpha", o.alpha, "eps", o.eps, "centered",
                   o.centered, "weight_decay", o.weight_decay, "maximize", o.maximize);
}
Recipe recipe(const RMSpropOptions& o) {
  check_not_negative("learning rate", o.lr, "epsilon value", o.eps, "momentum value", o.momentum,
                     "weight_decay value", o.weight_decay, "alpha value", o.alpha);
  Recipe r{"RMSprop", {"square_avg"}, Recipe::saved};
  if (o.centered) r.states.push_back("grad_avg");
  if (o.momentum > 0) r.states.push_back("momentum_buffer");
  return r;
}

std::vector<Field> fields(LionOptions& o) {
  return fields_in("lr", o.lr, "betas", o.betas, "weight_decay", o.weight_decay, "maximize",
                   o.maximize);
}
Recipe recipe(const LionOptions& o) {
  check_not_negative("learning rate", o.lr);
  check_betas(o.betas);
  check_not_negative("weight_decay value", o.weight_decay);
  return {"Lion", {"exp_avg"}};
}

std::vector<Field> fields(MuonOptions& o) {
  return fields_in("lr", o.lr, "weight_decay", o.weight_decay, "momentum", o.momentum, "nesterov",
                   o.nesterov, "ns_coefficients", o.ns_coefficients, "eps", o.eps, "ns_steps",
                   o.ns_steps, "adjust_lr_fn", o.adjust_lr_fn);
}
Recipe recipe(const MuonOptions& o) {
  for (const auto& [what, x] : {std::pair("Learning rate", o.lr), std::pair("momentum", o.momentum),
                                std::pair("weight decay", o.weight_decay)}) {
    if (!(x >= 0)) throw ValueError(cat(what, " should be >= 0 but is: ", x));
  }
  if (o.adjust_lr_fn != AdjustLr::original && o.adjust_lr_fn != AdjustLr::match_rms_adamw) {
    throw ValueError(
        cat("Adjust learning rate function ", int64_t(o.adjust_lr_fn), " is not supported"));
  }
  if (o.ns_steps >= 100) {
    throw ValueError("Number of steps must be less than 100 for computational efficiency");
  }
  Recipe r{"Muon", {"momentum_buffer"}};
  r.only_matrices = true;
  return r;
}

}  // namespace

std::vector<Field> fields_of(UpdateRule& options) {
  return std::visit([](auto& o) { return fields(o); }, options);
}
Recipe recipe_of(const UpdateRule& options) {
  return std::visit([](const auto& o) { return recipe(o); }, options);
}

}  // namespace taper::optim
