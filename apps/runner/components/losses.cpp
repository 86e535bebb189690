#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "apps/runner/base/errors.h"
#include "apps/runner/components/components.h"
#include "apps/runner/components/inline_factory.h"
#include "autograd/ops/binary_ops.h"
#include "autograd/ops/index/index_ops.h"
#include "autograd/ops/index/order.h"
#include "autograd/ops/nn/loss_ops.h"
#include "autograd/ops/reduce_ops.h"
#include "autograd/ops/shape_ops.h"
#include "autograd/ops/unary_ops.h"
#include "data/dataset.h"
#include "framework/factory/factories.h"

namespace taper::v0::runner {
namespace {

// Returns the weights of the classes on the device, float32; undefined if all are 1. The copy is
// made before the first step, which may be captured as a CUDA graph.
Tensor class_weights_of(const LossSite& at) {
  if (at.is_evaluation || at.class_weights.empty()) return {};
  const std::vector<float> weights(at.class_weights.begin(), at.class_weights.end());
  return tensor_of(weights.data(), {std::ssize(weights)}).to(at.device);
}

Loss cross_entropy_loss(const LossSite& at, double label_smoothing) {
  if (at.task == Task::kRegression || at.is_multi_label) return {};
  const double smoothing = at.is_evaluation ? 0 : label_smoothing;
  const bool has_weights = !at.is_evaluation && !at.class_weights.empty();
  return {
      [smoothing, weights = class_weights_of(at)](const Tensor& x, const Tensor& y, Reduction r) {
        // Targets that were mixed (mixup) are probabilities [N, classes].
        return cross_entropy(x.reshape({-1, x.size(-1)}),
                             y.is_floating_point() ? y : y.reshape({-1}),
                             {.weight = weights.defined() ? weights.to(x.dtype()) : weights,
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

// Returns the targets of losses that rate each class or label separately, in x's shape: 1 and 0, or
// probabilities that mixup has made.
Tensor labels_for(const Tensor& x, const Tensor& y, bool has_labels) {
  return (has_labels || y.is_floating_point() ? y : one_hot(y, x.size(-1))).to(x.dtype());
}

// Computes the binary cross-entropy of each class or label independently, from logits or from
// probabilities.
template <bool kLogits> Loss bce_loss(const LossSite& at) {
  if (at.task != Task::kClassification) return {};
  return {[has_labels = at.is_multi_label](const Tensor& x, const Tensor& y, Reduction r) {
            const Tensor wanted = labels_for(x, y, has_labels);
            if (!kLogits) return bce(x, wanted, r);
            return binary_cross_entropy_with_logits(x, wanted, {.reduction = r});
          },
          [](const Tensor& x) { return kLogits ? sigmoid(x) : x; }, !kLogits};
}

// Returns the margin loss of classes, which does not depend on classes whose output is lower than
// that of the target by more than the margin.
Loss multi_margin(const LossSite& at, int64_t p, double margin) {
  if (at.task != Task::kClassification || at.is_multi_label) return {};
  return {
      [p, margin, weights = class_weights_of(at)](const Tensor& x, const Tensor& y, Reduction r) {
        return multi_margin_loss(x, y,
                                 {.p = p,
                                  .margin = margin,
                                  .weight = weights.defined() ? weights.to(x.dtype()) : weights,
                                  .reduction = r});
      },
      [](const Tensor& x) { return softmax(x, -1); }};
}

// Returns the logistic loss of each class or label, whose targets are 1 and -1.
Loss soft_margin(const LossSite& at) {
  if (at.task != Task::kClassification) return {};
  return {[has_labels = at.is_multi_label](const Tensor& x, const Tensor& y, Reduction r) {
            return soft_margin_loss(x, labels_for(x, y, has_labels) * 2 - 1, r);
          },
          [](const Tensor& x) { return sigmoid(x); }};
}

Loss multilabel_soft_margin(const LossSite& at) {
  if (at.task != Task::kClassification || !at.is_multi_label) return {};
  return {[](const Tensor& x, const Tensor& y, Reduction r) {
            return multilabel_soft_margin_loss(x, y.to(x.dtype()), {.reduction = r});
          },
          [](const Tensor& x) { return sigmoid(x); }};
}

// The function takes a list of each sample's labels, which ends at the first -1.
Loss multilabel_margin(const LossSite& at) {
  if (at.task != Task::kClassification || !at.is_multi_label) return {};
  return {[](const Tensor& x, const Tensor& y, Reduction r) {
            const Tensor numbers = arange(y.size(-1), {.device = y.device()}).expand(y.shape());
            const Tensor lists = sort(where(y > 0.5, numbers, -1), -1, true).values;
            return multilabel_margin_loss(x, lists, r);
          },
          [](const Tensor& x) { return sigmoid(x); }};
}

// Throws ValueError for targets that are no counts. The values are checked on the CPU only, because
// a GPU would be waited for.
void check_counts(const Tensor& y, bool is_scaled) {
  require<ValueError>(
      !is_scaled,
      "poisson_nll takes counts as they are in the data, and the targets are scaled; "
      "set data.scale_target: false, and data.log_target: false where it is true");
  if (y.is_cuda() || y.numel() == 0) return;
  const double least = amin(y).item<double>();
  require<ValueError>(least >= 0,
                      "poisson_nll takes counts, which are at least 0, but a target is ", least);
}

// Returns the likelihood of counts. The output is the expected count, or its logarithm.
Loss poisson_nll(const LossSite& at, bool log_input, bool full, double eps) {
  if (at.task != Task::kRegression) return {};
  return {[=, is_scaled = at.scales_targets](const Tensor& x, const Tensor& y, Reduction r) {
            check_counts(y, is_scaled);
            return poisson_nll_loss(
                x.squeeze(-1), y,
                {.log_input = log_input, .full = full, .eps = eps, .reduction = r});
          },
          [log_input](const Tensor& x) { return log_input ? exp(x) : x; }};
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
  if (at.is_multi_label) return bce_loss<true>(at);
  return at.task == Task::kRegression ? of_values<mse_loss>(at) : cross_entropy_loss(at, 0);
}

constexpr Range kMarginPower{1, 2};

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
    {"poisson_nll",
     loss<poisson_nll,
          Option<"log_input", bool, kAny, "outputs are logarithms of the expected counts", true>,
          Option<"full", bool, kAny, "add an approximation of log(target!), which has no gradient",
                 false>,
          Option<"eps", double, kPositive,
                 "added to outputs that are counts before their logarithm is computed", 1,
                 100'000'000>>},
    {"bce", loss<bce_loss<false>>},
    {"bce_with_logits", loss<bce_loss<true>>},
    {"multi_margin",
     loss<multi_margin, Option<"p", int64_t, kMarginPower, "power of the differences", 1>,
          Option<"margin", double, kAny,
                 "distance by which the output of the target should be above all others", 1>>},
    {"soft_margin", loss<soft_margin>},
    {"multilabel_margin", loss<multilabel_margin>},
    {"multilabel_soft_margin", loss<multilabel_soft_margin>},
};

}  // namespace

Losses& losses() { return Losses::registry("loss", {kLosses}); }

Tensor run_loss(const Loss& loss, const Component& config, const Tensor& outputs,
                const Tensor& targets, Reduction reduction) try {
  return loss(outputs, targets.to(outputs.device()), reduction);
} catch (const std::exception& error) {
  losses().refuse_call(config, error);
  throw;
}

Tensor run_mean_loss(const Loss& loss, const Component& config, const Tensor& outputs,
                     const Tensor& targets, const Tensor& weights) {
  if (!weights.defined()) return run_loss(loss, config, outputs, targets, Reduction::kMean);
  Tensor each = run_loss(loss, config, outputs, targets, Reduction::kNone);
  if (each.dim() == 0 || each.size(0) != weights.size(0)) {
    throw ConfigError(located(
        config.place, concat_to_string("loss.type: ", config.type, " returns ", each.shape(),
                                       " with Reduction::kNone, not a value for each of the ",
                                       weights.size(0), " samples, which their weights need")));
  }
  if (each.dim() > 1) each = mean(each.flatten(1), {1});
  constexpr double kTiny = 1e-30;  // all weights of a batch may be 0
  const Tensor w = weights.to(each.device());
  return sum(each * w) / clamp(sum(w), kTiny);
}

bool fits(const Component& loss, Task task, bool is_multi_label) {
  const LossSite site{.task = task, .is_multi_label = is_multi_label};
  return losses().make(loss, site).value != nullptr;
}

LossSite loss_site(const DataInfo& data, bool is_evaluation) {
  const auto scales = data.target_scales();
  return {.task = data.task,
          .is_evaluation = is_evaluation,
          .is_multi_label = !data.labels.empty(),
          .scales_targets = std::ranges::any_of(scales, [](const auto& scale) {
            return scale.is_log || scale.mean != 0 || scale.std != 1;
          })};
}

}  // namespace taper::v0::runner
