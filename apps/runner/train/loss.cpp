#include "apps/runner/train/loss.h"

#include "autograd/ops/index.h"
#include "autograd/ops/loss.h"
#include "autograd/ops/reduce.h"
#include "autograd/ops/shape.h"
#include "autograd/ops/unary.h"
#include "data/dataset.h"

namespace taper::runner {
namespace {

struct CrossEntropySpec {
  double label_smoothing = 0;
  template <class V> void describe(V& v) {
    v("label_smoothing", label_smoothing, kUnit, "share that all classes get");
  }
  Loss make(const LossSite& at) const {
    if (at.task == Task::kRegression) return {};
    const double smoothing = at.is_evaluation ? 0 : label_smoothing;
    return {
        [smoothing](const Tensor& x, const Tensor& y, Reduction r) {
          return cross_entropy(
              x.reshape({-1, x.size(-1)}), y.reshape({-1}),
              {.ignore_index = data::kIgnoredTarget, .reduction = r, .label_smoothing = smoothing});
        },
        [](const Tensor& x) { return softmax(x, -1); }};
  }
};

// Each class for itself.
struct BceSpec {
  template <class V> void describe(V&) {}
  Loss make(const LossSite& at) const {
    if (at.task != Task::kClassification) return {};
    return {[](const Tensor& x, const Tensor& y, Reduction r) {
              const Tensor wanted = one_hot(y, x.size(-1)).to(x.dtype());
              return binary_cross_entropy_with_logits(x, wanted, {.reduction = r});
            },
            [](const Tensor& x) { return sigmoid(x); }};
  }
};

// `loss` gets the values of [N, 1] as [N].
template <class F> Loss of_values(const LossSite& at, F loss) {
  if (at.task != Task::kRegression) return {};
  return {
      [loss](const Tensor& x, const Tensor& y, Reduction r) { return loss(x.squeeze(-1), y, r); },
      [](const Tensor& x) { return x; }};
}
template <auto kLoss> struct ValueSpec {
  template <class V> void describe(V&) {}
  Loss make(const LossSite& at) const { return of_values(at, kLoss); }
};
struct HuberSpec {
  double delta = 1;
  template <class V> void describe(V& v) {
    v("delta", delta, kPositive, "where the square becomes a line");
  }
  Loss make(const LossSite& at) const {
    return of_values(at, [delta = delta](const Tensor& x, const Tensor& y, Reduction r) {
      return huber_loss(x, y, r, delta);
    });
  }
};

// What is usual for the task.
struct AutoSpec {
  template <class V> void describe(V&) {}
  Loss make(const LossSite& at) const {
    return at.task == Task::kRegression ? ValueSpec<mse_loss>().make(at)
                                        : CrossEntropySpec().make(at);
  }
};

constexpr Losses::Entry kLosses[] = {
    {"auto", Losses::of<AutoSpec>},           {"cross_entropy", Losses::of<CrossEntropySpec>},
    {"mse", Losses::of<ValueSpec<mse_loss>>}, {"l1", Losses::of<ValueSpec<l1_loss>>},
    {"huber", Losses::of<HuberSpec>},         {"bce_with_logits", Losses::of<BceSpec>},
};

}  // namespace

Losses& losses() {
  static Losses table("loss", {kLosses});
  return table;
}

bool fits(const Component& loss, Task task) { return losses().make(loss, {task}).value != nullptr; }

}  // namespace taper::runner
