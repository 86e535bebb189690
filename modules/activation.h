// Layers that are one function of their input
// (https://pytorch.org/docs/stable/nn.html#non-linear-activations-weighted-sum-nonlinearity).
#pragma once

#include "autograd/ops/softmax.h"
#include "autograd/ops/unary.h"
#include "modules/function_layer.h"

namespace taper {

using ReLU = FunctionLayer<"ReLU", relu>;
using ReLU6 = FunctionLayer<"ReLU6", relu6>;
using SiLU = FunctionLayer<"SiLU", silu>;
using Tanh = FunctionLayer<"Tanh", tanh>;
using Sigmoid = FunctionLayer<"Sigmoid", sigmoid>;
using LeakyReLU = FunctionLayer<"LeakyReLU", leaky_relu, Option<"negative_slope", double, 1, 100>>;
using ELU = FunctionLayer<"ELU", elu, Option<"alpha", double, 1>>;
using Hardtanh = FunctionLayer<"Hardtanh", hardtanh, Option<"min_val", double, -1>,
                               Option<"max_val", double, 1>>;
using Softplus =
    FunctionLayer<"Softplus", softplus, Option<"beta", double, 1>, Option<"threshold", double, 20>>;
using Softmax = FunctionLayer<"Softmax", softmax, Option<"dim", int64_t>>;
using LogSoftmax = FunctionLayer<"LogSoftmax", log_softmax, Option<"dim", int64_t>>;

// approximate: "none" (by erf) or "tanh".
class GELU : public Module {
 public:
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
