// Layers without parameters
// (https://pytorch.org/docs/stable/nn.html#non-linear-activations-weighted-sum-nonlinearity).
#pragma once

#include <algorithm>

#include "autograd/ops/unary.h"
#include "modules/module.h"

namespace taper {

class Identity : public Module {
 public:
  Tensor forward(const Tensor& x) override { return x; }
  std::string type_name() const override { return "Identity"; }
};

// A layer that is one function: its name as a template argument.
template <size_t N> struct LayerName {
  constexpr LayerName(const char (&name)[N]) { std::copy_n(name, N, text); }
  char text[N];
};
template <LayerName kName, Tensor (*kFunction)(const Tensor&)> class FunctionLayer : public Module {
 public:
  Tensor forward(const Tensor& x) override { return kFunction(x); }
  std::string type_name() const override { return kName.text; }
};
using ReLU = FunctionLayer<"ReLU", relu>;
using SiLU = FunctionLayer<"SiLU", silu>;
using Tanh = FunctionLayer<"Tanh", tanh>;
using Sigmoid = FunctionLayer<"Sigmoid", sigmoid>;

class LeakyReLU : public Module {
 public:
  explicit LeakyReLU(double slope = 0.01) : negative_slope(slope) {}
  Tensor forward(const Tensor& x) override;
  std::string type_name() const override { return "LeakyReLU"; }
  std::string extra_repr() const override { return cat("negative_slope=", negative_slope); }

  const double negative_slope;
};

// approximate: "none" (by erf) or "tanh".
class GELU : public Module {
 public:
  explicit GELU(const std::string& approximate = "none");
  Tensor forward(const Tensor& x) override;
  std::string type_name() const override { return "GELU"; }
  std::string extra_repr() const override { return cat("approximate='", approximate, "'"); }

  const std::string approximate;
};

class Softmax : public Module {
 public:
  explicit Softmax(int64_t d) : dim(d) {}
  Tensor forward(const Tensor& x) override;
  std::string type_name() const override { return "Softmax"; }
  std::string extra_repr() const override { return cat("dim=", dim); }

  const int64_t dim;
};

// All dimensions from start_dim to end_dim become one.
class Flatten : public Module {
 public:
  explicit Flatten(int64_t start = 1, int64_t end = -1) : start_dim(start), end_dim(end) {}
  Tensor forward(const Tensor& x) override;
  std::string type_name() const override { return "Flatten"; }
  std::string extra_repr() const override {
    return cat("start_dim=", start_dim, ", end_dim=", end_dim);
  }

  const int64_t start_dim, end_dim;
};

// Active while training; masks come from the default generator.
class Dropout : public Module {
 public:
  explicit Dropout(double probability = 0.5);
  Tensor forward(const Tensor& x) override;
  std::string type_name() const override { return "Dropout"; }
  std::string extra_repr() const override { return cat("p=", p, ", inplace=False"); }

  const double p;
};

}  // namespace taper
