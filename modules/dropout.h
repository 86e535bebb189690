// Dropout (https://pytorch.org/docs/stable/nn.html#dropout-layers), active while training; masks
// come from the default generator.
#pragma once

#include "autograd/ops/random.h"
#include "modules/function_layer.h"

namespace taper {

struct DropoutOptions {
  double p = 0.5;
  template <class V> void describe(V& v) { v("p", p, kBelowOne, "chance of a zero"); }
};

template <LayerName kName, auto kFunction> class DropoutLayer : public Module {
 public:
  using Options = DropoutOptions;

  explicit DropoutLayer(const Options& options) : DropoutLayer(options.p) {}
  explicit DropoutLayer(double probability = Options().p) : p(probability) {
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
