// Activations and losses of several tensors compared with PyTorch's results, which functions.py
// stores.
#include <gtest/gtest.h>

#include "autograd/ops/reduce_ops.h"
#include "framework/factory/factories.h"
#include "modules/layers/loss_layers.h"
#include "modules/layers/stateless.h"
#include "tests/interop/layer_rows.h"

namespace taper::v0::test {
namespace {

// A loss of three tensors.
template <class L, class... Args> LayerRow of_three(const char* name, const Args&... args) {
  return {name, make<L>(args...), [](Module& m, const Tensors& x) {
            return Tensors{dynamic_cast<L&>(m)(x[0], x[1], x[2])};
          }};
}
template <class... Args> LayerRow gaussian(const char* name, const Args&... args) {
  return {name, make<GaussianNLLLoss>(args...), [](Module& m, const Tensors& x) {
            return Tensors{dynamic_cast<GaussianNLLLoss&>(m)(x[0], x[1], exp(x[2]))};
          }};
}
template <class... Args> LayerRow ctc(const char* name, const Args&... args) {
  return {name, make<CTCLoss>(args...), [](Module& m, const Tensors& x) {
            return Tensors{dynamic_cast<CTCLoss&>(m)(log_softmax(x[0], 2), x[1], x[2], x[3])};
          }};
}
LayerRow bce(const char* name, const BceOptions& o = {}) {
  return {name, make<BCELoss>(o), [](Module& m, const Tensors& x) {
            return Tensors{dynamic_cast<BCELoss&>(m)(sigmoid(x[0]), x[1])};
          }};
}

LayerRow poisson_of_rates(const char* name) {
  const PoissonNllOptions options{.log_input = false, .eps = 0.5, .reduction = Reduction::kSum};
  return {name, make<PoissonNLLLoss>(options), [](Module& m, const Tensors& x) {
            return Tensors{dynamic_cast<PoissonNLLLoss&>(m)(exp(x[0]), x[1])};
          }};
}

std::vector<LayerRow> rows() {
  constexpr Reduction sum = Reduction::kSum, none = Reduction::kNone;
  return {
      row<SELU>("SELU"),
      row<CELU>("CELU"),
      row<Hardswish>("Hardswish"),
      row<Mish>("Mish"),
      row<LogSigmoid>("LogSigmoid"),
      row<Softsign>("Softsign"),
      row<Tanhshrink>("Tanhshrink"),
      row<Hardshrink>("Hardshrink"),
      row<Softshrink>("Softshrink"),
      row<PReLU>("PReLU"),
      row<CELU>("CELU alpha", 0.5),
      row<Hardshrink>("Hardshrink lambd", 0.25),
      row<Softshrink>("Softshrink lambd", 1.0),
      row<PReLU>("PReLU channels", 4, PReLUOptions{.init = 0.1}),
      row<GLU>("GLU"),
      row<GLU>("GLU dim", 1),
      bce("BCELoss"),
      bce("BCELoss options", {.weight = tensor({0.5, 2.0, 1.0, 0.25}), .reduction = none}),
      of_three<TripletMarginLoss>("TripletMarginLoss"),
      of_three<TripletMarginLoss>(
          "TripletMarginLoss options",
          TripletMarginOptions{.margin = 2, .p = 1, .swap = true, .reduction = none}),
      of_three<CosineEmbeddingLoss>("CosineEmbeddingLoss"),
      of_three<CosineEmbeddingLoss>("CosineEmbeddingLoss options", -0.5, sum),
      of_three<MarginRankingLoss>("MarginRankingLoss"),
      of_three<MarginRankingLoss>("MarginRankingLoss options", 0.5, none),
      gaussian("GaussianNLLLoss"),
      gaussian("GaussianNLLLoss options", true, 1.0, sum),
      row<MultiMarginLoss>("MultiMarginLoss"),
      row<MultiMarginLoss>(
          "MultiMarginLoss options",
          MultiMarginOptions{
              .p = 2, .margin = 0.5, .weight = tensor({0.5, 2.0, 1.0, 0.25}), .reduction = none}),
      row<MultiLabelMarginLoss>("MultiLabelMarginLoss"),
      row<MultiLabelMarginLoss>("MultiLabelMarginLoss options", none),
      row<SoftMarginLoss>("SoftMarginLoss"),
      row<SoftMarginLoss>("SoftMarginLoss options", sum),
      row<MultiLabelSoftMarginLoss>("MultiLabelSoftMarginLoss"),
      row<MultiLabelSoftMarginLoss>(
          "MultiLabelSoftMarginLoss options",
          MultilabelSoftMarginOptions{.weight = tensor({0.5, 2.0, 1.0, 0.25}), .reduction = none}),
      row<PoissonNLLLoss>("PoissonNLLLoss"),
      row<PoissonNLLLoss>("PoissonNLLLoss options",
                          PoissonNllOptions{.full = true, .reduction = none}),
      poisson_of_rates("PoissonNLLLoss rates"),
      row<HingeEmbeddingLoss>("HingeEmbeddingLoss"),
      row<HingeEmbeddingLoss>("HingeEmbeddingLoss options", 0.25, none),
      ctc("CTCLoss"),
      ctc("CTCLoss joined", 4, none),
      ctc("CTCLoss infinite", 0, sum, true),
  };
}

TEST(Functions, ComputeWhatPyTorchComputes) {
  compare_with_pytorch("functions.safetensors", rows());
}

}  // namespace
}  // namespace taper::v0::test
