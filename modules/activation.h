// Layers that are one function of their input
// (https://pytorch.org/docs/stable/nn.html#non-linear-activations-weighted-sum-nonlinearity).
#pragma once

#include "autograd/ops/binary.h"
#include "autograd/ops/softmax.h"
#include "autograd/ops/unary.h"
#include "modules/function_layer.h"

namespace taper {

using ReLU = FunctionLayer<"ReLU", relu>;
using ReLU6 = FunctionLayer<"ReLU6", relu6>;
using SiLU = FunctionLayer<"SiLU", silu>;
// x tanh(log(1 + exp(x))) (https://arxiv.org/abs/1908.08681).
[[nodiscard]] inline Tensor mish(const Tensor& x) { return x * tanh(softplus(x)); }
using Mish = FunctionLayer<"Mish", mish>;
using Tanh = FunctionLayer<"Tanh", tanh>;
using Sigmoid = FunctionLayer<"Sigmoid", sigmoid>;
using LeakyReLU =
    FunctionLayer<"LeakyReLU", leaky_relu,
                  Option<"negative_slope", double, kNonNegative, "slope below 0", 1, 100>>;
using ELU =
    FunctionLayer<"ELU", elu,
                  Option<"alpha", double, kPositive, "where it ends far below 0, negated", 1>>;
using Hardtanh =
    FunctionLayer<"Hardtanh", hardtanh, Option<"min_val", double, kAny, "lower end", -1>,
                  Option<"max_val", double, kAny, "upper end", 1>>;
using Softplus = FunctionLayer<"Softplus", softplus,
                               Option<"beta", double, kPositive, "sharpness of the bend", 1>,
                               Option<"threshold", double, kAny, "from where on it is a line", 20>>;
using DimOption = Option<"dim", int64_t, kAnyDim, "dimension whose values sum to 1">;
using Softmax = FunctionLayer<"Softmax", softmax, DimOption>;
using LogSoftmax = FunctionLayer<"LogSoftmax", log_softmax, DimOption>;

struct GELUOptions {
  std::string approximate = "none";  // by erf
  template <class V> void describe(V& v) {
    v("approximate", approximate, {"none", "tanh"}, "formula");
  }
};

class GELU : public Module {
 public:
  using Options = GELUOptions;

  explicit GELU(const Options& options) : GELU(options.approximate) {}
  explicit GELU(const std::string& form = "none") : approximate(form) {
    if (form == "none" || form == "tanh") return;
    throw ValueError(cat("approximate argument must be either none or tanh, got '", form, "'"));
  }
  Tensor forward(const Tensor& x) override { return gelu(x, approximate == "tanh"); }
  std::string type_name() const override { return "GELU"; }
  std::string extra_repr() const override { return fields("approximate", approximate); }

  const std::string approximate;
};

}  // namespace taper
