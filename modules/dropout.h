// Dropout (https://pytorch.org/docs/stable/nn.html#dropout-layers), active while training; masks
// come from the default generator.
#pragma once

#include "autograd/ops/random.h"
#include "modules/function_layer.h"

namespace taper {

template <LayerName kName, auto kFunction> class DropoutLayer : public Module {
 public:
  explicit DropoutLayer(double probability = 0.5) : p(probability) {
    if (!(p >= 0 && p <= 1)) {
      throw ValueError(cat("dropout probability has to be between 0 and 1, but got ", py(p)));
    }
  }
  Tensor forward(const Tensor& x) override { return kFunction(x, p, is_training(), nullptr); }
  std::string type_name() const override { return kName.text; }
  std::string extra_repr() const override { return fields("p", p, "inplace", false); }

  const double p;
};
using Dropout = DropoutLayer<"Dropout", dropout>;
// Whole channels.
using Dropout2d = DropoutLayer<"Dropout2d", dropout2d>;

}  // namespace taper
