// Pairs of layers in one pass over their result. Where a layer has hooks, which would see the value
// in between, each runs by itself.
#pragma once

#include "modules/module.h"
#include "modules/stateless.h"

namespace taper {

// True where `activated` is one op: `layer` is a Linear or a Conv2d and nothing derived from them,
// `activation` a ReLU or a GELU, and neither has hooks.
bool applies_activation(const Module& layer, const Module& activation);

// activation(layer(x)).
Tensor activated(Module& layer, Module& activation, const Tensor& x);

// residual + dropout(x).
Tensor dropped_onto(Dropout& dropout, const Tensor& x, const Tensor& residual);

}  // namespace taper
