#include "modules/sequential.h"

#include "modules/fused.h"

namespace taper {

Tensor Sequential::forward(const Tensor& x) {
  Tensor y = x;
  for (size_t i = 0; i < size(); ++i) {
    Module& layer = *children()[i].second;
    Module* next = i + 1 < size() ? children()[i + 1].second : nullptr;
    if (next && applies_activation(layer, *next)) {
      y = activated(layer, *next, y);
      ++i;
    } else {
      y = layer(y);
    }
  }
  return y;
}

}  // namespace taper
