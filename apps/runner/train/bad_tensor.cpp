// Steps whose loss or gradient is not finite: finds the first bad tensor, and stops the run, skips
// the step or rolls back, as train.on_nan says. Also warns of steps that take very long.
#include "apps/runner/train/bad_tensor.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "apps/runner/run/ranks.h"
#include "apps/runner/train/resume.h"
#include "apps/runner/train/trainer.h"
#include "autograd/node.h"
#include "autograd/ops/reduce_ops.h"
#include "autograd/ops/unary_ops.h"
#include "framework/base/log.h"
#include "optim/clip.h"

namespace taper::v0::runner {
namespace {

constexpr int64_t kMaxRollbacks = 5;
constexpr double kLongStep = 10;  // seconds
constexpr const char* kAdvice =
    ": lower optimizer.lr, set train.clip_norm, or check the data for extreme values; with "
    "train.on_nan=skip or rollback the run continues";

bool is_bad(const Tensor& x) {
  if (!x.defined() || !x.is_floating_point()) return false;
  const NoGradGuard no_grad;
  return sum(isfinite(x)).item<int64_t>() < x.numel();
}

using Tensors = std::vector<Tensor>;

// While it exists, records the first bad tensor among the inputs and outputs of all modules.
class Watch {
 public:
  explicit Watch(Module& model) {
    for (const auto& [path, module] : model.named_modules()) {
      const std::string name = path.empty() ? "the model" : concat_to_string("'", path, "'");
      const std::string input = path.empty() ? "the inputs of the batch" : "the input of " + name;
      handles_.push_back(module->register_forward_pre_hook(
          [this, input](Module&, const Tensors& inputs) { return note(inputs, input); }));
      handles_.push_back(module->register_forward_hook([this, name](Module& m, const Tensors&,
                                                                    const Tensors& outputs) {
        return note(outputs, concat_to_string("the output of ", name, " (", m.type_name(), ")"));
      }));
    }
  }
  ~Watch() {
    for (ModuleHookHandle& handle : handles_) handle.remove();
  }
  Watch& operator=(Watch&&) = delete;  // neither copied nor moved

  std::string found;

 private:
  Tensors note(const Tensors& tensors, const std::string& what) {
    if (found.empty() && std::ranges::any_of(tensors, is_bad)) found = what;
    return {};
  }
  std::vector<ModuleHookHandle> handles_;
};

std::string search(Module& model, const std::function<Tensor()>& step) {
  const std::vector<NamedTensor> params = model.named_parameters();
  for (const auto& [name, p] : params) {
    if (is_bad(p)) return concat_to_string("the weight '", name, "'");
  }
  Watch watch(model);
  const Tensor loss = step();
  if (!watch.found.empty()) return watch.found;
  if (is_bad(loss)) return "the loss";
  // Checks the last parameters first, because the backward pass computes their gradients first. The
  // norm may overflow although all gradients are finite.
  for (auto at = params.rbegin(); at != params.rend(); ++at) {
    const auto& [name, p] = *at;
    const double norm = p.grad().defined() ? optim::get_total_norm({p.grad()}).item<double>() : 0;
    if (!std::isfinite(norm)) return concat_to_string("the gradient of '", name, "'");
  }
  return "";
}

}  // namespace

std::string first_bad_tensor(Module& model, const std::function<Tensor()>& step) {
  std::vector<NamedTensor> buffers = model.named_buffers(), saved;
  for (const auto& [name, b] : buffers) saved.push_back({name, b.clone()});
  model.zero_grad();  // later steps have left gradients
  std::string found = search(model, step);
  const NoGradGuard no_grad;
  for (size_t i = 0; i < buffers.size(); ++i) buffers[i].tensor.copy_(saved[i].tensor);
  model.zero_grad();
  return found;
}

// --- what a run does ---

// Gradients may overflow under a loss scale, which the scaler then lowers. If the scale is below 1,
// the cause is another one.
bool Trainer::is_overflow(float loss) const {
  return training_.scaler && std::isfinite(loss) && training_.scaler->get_scale() >= 1;
}

// Logs a warning on the first rank only, because all ranks have the same numbers.
void Trainer::report(const std::string& warning) const {
  if (is_first_) warn(warning);
}

void Trainer::on_bad_step(const Pending& p, int64_t step, float loss, float norm) {
  const std::string tensor = step_.find_bad_tensor(p.at, p.random);
  const bool bad_loss = !std::isfinite(loss);
  const std::string what = concat_to_string(
      bad_loss ? "the loss" : "the gradient's norm", " became ", bad_loss ? loss : norm,
      " at step ", step, " of epoch ", p.at.epoch,
      tensor.empty() ? "" : concat_to_string("; the first bad tensor is ", tensor));
  if (config_.train.on_nan == OnNan::kStop) throw Diverged(what + kAdvice);
  if (config_.train.on_nan == OnNan::kSkip) {
    report(concat_to_string(what, "; step skipped (", ++state_.skipped, " skipped so far)"));
    return;
  }
  require<Diverged>(state_.rollbacks != kMaxRollbacks, what, ", after ", kMaxRollbacks,
                    " rollbacks", kAdvice);
  roll_back();
  report(concat_to_string(what, "; rolled back to step ", state_.step,
                          " with half the learning rate (rollback ", state_.rollbacks,
                          " of at most ", kMaxRollbacks, ")"));
}

void Trainer::roll_back() {
  std::optional<Checkpoint> target;
  on_first([&] { target = target_of_rollback(dir_); });
  target = from_first(ranks_, std::move(target));
  const int64_t rollbacks = state_.rollbacks + 1;
  load(*target, state_.lr_scale / 2);
  state_.rollbacks = rollbacks;
  log_.go_back(state_);
}

// Users of a slow machine should not wait for an hour before they learn that a run takes a week.
void Trainer::warn_of_long_steps(int64_t steps) {
  const double trained = log_.timings.training();
  const double each = (trained - std::exchange(trained_, trained)) / double(steps);
  if (each < kLongStep || has_warned_of_long_steps_) return;
  has_warned_of_long_steps_ = true;
  const int64_t left = length_.steps - state_.step;
  report(
      fmt::format("a step takes {:.0f} s, and the remaining {} steps about {:.1f} hours; a "
                  "smaller train.batch_size, a smaller model, train.precision=bf16 or a GPU "
                  "makes steps shorter",
                  each, left, each * double(left) / 3600));
}

}  // namespace taper::v0::runner
