#include "modules/sequential.h"

namespace taper {

Tensor Sequential::forward(const Tensor& x) {
  Tensor y = x;
  for (const auto& [name, module] : *this) y = (*module)(y);
  return y;
}

}  // namespace taper
