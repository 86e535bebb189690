// Losses as modules (https://pytorch.org/docs/stable/nn.html#loss-functions):
//   CrossEntropyLoss criterion({.label_smoothing = 0.1});
//   Tensor loss = criterion(net(x), target);
// Their options are those of the functions in autograd/ops/nn/loss_ops.h, in the same order.
#pragma once

#include "autograd/ops/nn/loss_ops.h"
#include "modules/layers/function_layer.h"

namespace taper::v0 {

// A loss of an input and a target. Returns a scalar, or one value per element with reduction none.
class Loss : public ModuleOf<Loss> {
 public:
  virtual Tensor forward(const Tensor& input, const Tensor& target) = 0;
  Tensor forward(const Tensor&) final {
    throw TypeError(type_name(), ".forward() missing 1 required positional argument: 'target'");
  }
};

template <LayerName kName, auto kFunction, class... Each>
class FunctionLoss : public Cloneable<FunctionLoss<kName, kFunction, Each...>,
                                      FunctionModule<Loss, kName, kFunction, Each...>> {
 public:
  using FunctionLoss::Cloneable::Cloneable;
  Tensor forward(const Tensor& input, const Tensor& target) override {
    return this->call(input, target);
  }
};
using ReductionOption =
    Option<"reduction", Reduction, kAny, "what becomes of the elements' losses", Reduction::kMean>;
using MSELoss = FunctionLoss<"MSELoss", mse_loss, ReductionOption>;
using L1Loss = FunctionLoss<"L1Loss", l1_loss, ReductionOption>;
using HuberLoss =
    FunctionLoss<"HuberLoss", huber_loss, ReductionOption,
                 Option<"delta", double, kPositive, "error above which the loss is linear", 1>>;
using SmoothL1Loss =
    FunctionLoss<"SmoothL1Loss", smooth_l1_loss, ReductionOption,
                 Option<"beta", double, kPositive, "error above which the loss is linear", 1>>;
using KLDivLoss = FunctionLoss<"KLDivLoss", kl_div, ReductionOption,
                               Option<"log_target", bool, kAny, "targets are logarithms", false>>;

using MultiLabelMarginLoss =
    FunctionLoss<"MultiLabelMarginLoss", multilabel_margin_loss, ReductionOption>;
using SoftMarginLoss = FunctionLoss<"SoftMarginLoss", soft_margin_loss, ReductionOption>;
using HingeEmbeddingLoss =
    FunctionLoss<"HingeEmbeddingLoss", hinge_embedding_loss,
                 Option<"margin", double, kAny, "how far apart is enough", 1>, ReductionOption>;

// Losses with a struct of options. Its tensors, which are weights, are buffers.
template <LayerName kName, auto kFunction, class LossOptions>
class LossWithOptions : public Cloneable<LossWithOptions<kName, kFunction, LossOptions>, Loss> {
 public:
  using Options = LossOptions;

  explicit LossWithOptions(const Options& o = {}) : options(registered(o)) {}
  LossWithOptions(LossWithOptions&&) = default;
  LossWithOptions& operator=(LossWithOptions&&) = default;
  LossWithOptions(LossWithOptions& other)
      : LossWithOptions::Cloneable(other), options(copied_tensors(other.options)) {}
  Tensor forward(const Tensor& input, const Tensor& target) override {
    return kFunction(input, target, options);
  }
  std::string type_name() const override { return kName.text; }

  Options options;

 private:
  static Options copied_tensors(Options o) {
    if constexpr (requires { o.weight; }) o.weight = Module::copy_of(o.weight);
    if constexpr (requires { o.pos_weight; }) o.pos_weight = Module::copy_of(o.pos_weight);
    return o;
  }
  Options registered(Options o) {
    const auto add = [&](const char* name, Tensor& weight) {
      if (weight.defined()) this->register_buffer(name, weight = weight.detach());
    };
    if constexpr (requires { o.weight; }) add("weight", o.weight);
    if constexpr (requires { o.pos_weight; }) add("pos_weight", o.pos_weight);
    return o;
  }
};
using CrossEntropyLoss =
    LossWithOptions<"CrossEntropyLoss",
                    static_cast<Tensor (*)(const Tensor&, const Tensor&,
                                           const CrossEntropyOptions&)>(cross_entropy),
                    CrossEntropyOptions>;
using NLLLoss = LossWithOptions<"NLLLoss", nll_loss, NllLossOptions>;
using BCELoss = LossWithOptions<"BCELoss", binary_cross_entropy, BceOptions>;
using BCEWithLogitsLoss =
    LossWithOptions<"BCEWithLogitsLoss", binary_cross_entropy_with_logits, BceWithLogitsOptions>;

using MultiMarginLoss = LossWithOptions<"MultiMarginLoss", multi_margin_loss, MultiMarginOptions>;
using MultiLabelSoftMarginLoss =
    LossWithOptions<"MultiLabelSoftMarginLoss", multilabel_soft_margin_loss,
                    MultilabelSoftMarginOptions>;
using PoissonNLLLoss = LossWithOptions<"PoissonNLLLoss", poisson_nll_loss, PoissonNllOptions>;

// Losses of tensors other than an input and a target. forward() takes the tensors in the order of
// the function's parameters.
template <int kTensors, LayerName kName, auto kFunction, class... Each>
class LossOfTensors : public Cloneable<LossOfTensors<kTensors, kName, kFunction, Each...>,
                                       FunctionModule<Module, kName, kFunction, Each...>> {
 public:
  using LossOfTensors::Cloneable::Cloneable;
  template <std::convertible_to<const Tensor&>... T>
  requires(sizeof...(T) == kTensors) Tensor operator()(const T&... x) {
    return this->call_with_hooks([this](const auto&... a) { return this->call(a...); },
                                 static_cast<const Tensor&>(x)...);
  }
};
using MarginOption = Option<"margin", double, kAny, "how far apart is enough", 0>;
using CosineEmbeddingLoss =
    LossOfTensors<3, "CosineEmbeddingLoss", cosine_embedding_loss, MarginOption, ReductionOption>;
using MarginRankingLoss =
    LossOfTensors<3, "MarginRankingLoss", margin_ranking_loss, MarginOption, ReductionOption>;
using GaussianNLLLoss =
    LossOfTensors<3, "GaussianNLLLoss", gaussian_nll_loss<>,
                  Option<"full", bool, kAny, "with the constant", false>,
                  Option<"eps", double, kPositive, "the least variance", 1, 1000000>,
                  ReductionOption>;
using CTCLoss = LossOfTensors<4, "CTCLoss", ctc_loss<>,
                              Option<"blank", int64_t, kAny, "its class", 0>, ReductionOption,
                              Option<"zero_infinity", bool, kAny, "0 where no way fits", false>>;

class TripletMarginLoss : public ModuleOf<TripletMarginLoss> {
 public:
  explicit TripletMarginLoss(const TripletMarginOptions& o = {}) : options(o) {}
  using Module::forward;
  Tensor forward(const Tensor& anchor, const Tensor& positive, const Tensor& negative) {
    return triplet_margin_loss(anchor, positive, negative, options);
  }

  TripletMarginOptions options;
};

}  // namespace taper::v0
