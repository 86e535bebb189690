#include <memory>
#include <utility>
#include <vector>

#include "apps/runner/base/errors.h"
#include "apps/runner/components/components.h"
#include "apps/runner/components/inline_factory.h"
#include "autograd/ops/index/index_ops.h"
#include "autograd/ops/nn/loss_ops.h"
#include "autograd/ops/reduce_ops.h"
#include "autograd/ops/shape_ops.h"
#include "autograd/ops/unary_ops.h"
#include "data/dataset.h"
#include "framework/factory/factories.h"

namespace taper::v0::runner {
namespace {

// The weights of the classes, on the device and in the dtype of the outputs. They are copied once.
class ClassWeights {
 public:
  explicit ClassWeights(std::vector<double> weights) : weights_(std::move(weights)) {}
  // Returns an undefined tensor without weights.
  Tensor like(const Tensor& outputs) {
    if (weights_.empty()) return {};
    const bool fits =
        copy_.defined() && copy_.device() == outputs.device() && copy_.dtype() == outputs.dtype();
    if (!fits) {
      copy_ =
          tensor_of(weights_.data(), {std::ssize(weights_)}).to(outputs.device(), outputs.dtype());
    }
    return copy_;
  }

 private:
  std::vector<double> weights_;
  Tensor copy_;
};

Loss cross_entropy_loss(const LossSite& at, double label_smoothing) {
  if (at.task == Task::kRegression) return {};
  const double smoothing = at.is_evaluation ? 0 : label_smoothing;
  const auto weights =
      std::make_shared<ClassWeights>(at.is_evaluation ? std::vector<double>() : at.class_weights);
  const bool has_weights = !at.is_evaluation && !at.class_weights.empty();
  return {[smoothing, weights](const Tensor& x, const Tensor& y, Reduction r) {
            return cross_entropy(x.reshape({-1, x.size(-1)}), y.reshape({-1}),
                                 {.weight = weights->like(x),
                                  .ignore_index = data::kIgnoredTarget,
                                  .reduction = r,
                                  .label_smoothing = smoothing});
          },
          [](const Tensor& x) { return softmax(x, -1); }, false,
          has_weights ? std::nullopt
                      : std::optional(CrossEntropyOptions{.ignore_index = data::kIgnoredTarget,
                                                          .label_smoothing = smoothing})};
}

// Returns the binary cross-entropy of probabilities. Adds advice to the error for outputs that are
// not probabilities.
Tensor bce(const Tensor& x, const Tensor& wanted, Reduction r) try {
  return binary_cross_entropy(x, wanted, {.reduction = r});
} catch (const Error& error) {
  if (!is_refusal(error)) throw;
  throw ValueError(concat_to_string(
      error.what(),
      ": bce takes probabilities; end the model with a sigmoid layer or use bce_with_logits"));
}

// Computes the binary cross-entropy of each class independently, from logits or from probabilities.
template <bool kLogits> Loss bce_loss(const LossSite& at) {
  if (at.task != Task::kClassification) return {};
  return {[](const Tensor& x, const Tensor& y, Reduction r) {
            const Tensor wanted = one_hot(y, x.size(-1)).to(x.dtype());
            if (!kLogits) return bce(x, wanted, r);
            return binary_cross_entropy_with_logits(x, wanted, {.reduction = r});
          },
          [](const Tensor& x) { return kLogits ? sigmoid(x) : x; }, !kLogits};
}

// Passes the outputs [N, 1] to kLoss as [N].
template <auto kLoss> Loss of_values(const LossSite& at, auto... options) {
  if (at.task != Task::kRegression) return {};
  return {[=](const Tensor& x, const Tensor& y, Reduction r) {
            return kLoss(x.squeeze(-1), y, r, options...);
          },
          [](const Tensor& x) { return x; }};
}

// Returns the default loss of the task.
Loss auto_loss(const LossSite& at) {
  return at.task == Task::kRegression ? of_values<mse_loss>(at) : cross_entropy_loss(at, 0);
}

template <auto kMake, class... Each>
constexpr auto loss = Losses::of<InlineFactory<kMake, Each...>>;

constexpr Losses::Entry kLosses[] = {
    {"auto", loss<auto_loss>},
    {"cross_entropy",
     loss<cross_entropy_loss, Option<"label_smoothing", double, kUnit,
                                     "probability mass that is spread over all classes", 0>>},
    {"mse", loss<of_values<mse_loss>>},
    {"l1", loss<of_values<l1_loss>>},
    {"huber", loss<of_values<huber_loss, double>,
                   Option<"delta", double, kPositive, "error above which the loss is linear", 1>>},
    {"bce", loss<bce_loss<false>>},
    {"bce_with_logits", loss<bce_loss<true>>},
};

}  // namespace

Losses& losses() { return Losses::registry("loss", {kLosses}); }

Tensor run_loss(const Loss& loss, const Component& config, const Tensor& outputs,
                const Tensor& targets, Reduction reduction) try {
  return loss(outputs, targets, reduction);
} catch (const std::exception& error) {
  losses().refuse_call(config, error);
  throw;
}

bool fits(const Component& loss, Task task) { return losses().make(loss, {task}).value != nullptr; }

}  // namespace taper::v0::runner
