#include "modules/init.h"

#include <cmath>

#include "framework/factories.h"

namespace taper {

Tensor uniform_within(double bound, const Shape& shape, Device device) {
  return empty(shape, {.device = device}).uniform_(-bound, bound);
}

double fan_in_bound(const Shape& weight) {
  double fan_in = 1;
  for (int i = 1; i < weight.size(); ++i) fan_in *= double(weight[i]);
  return 1 / std::sqrt(fan_in);
}

Tensor fan_in_uniform(const Shape& weight, Device device) {
  return uniform_within(fan_in_bound(weight), weight, device);
}

}  // namespace taper
