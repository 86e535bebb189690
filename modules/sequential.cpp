#include "modules/sequential.h"

namespace taper {

Sequential& Sequential::add(std::unique_ptr<Module> module) {
  register_module(std::to_string(modules_.size()), *module);
  modules_.push_back(std::move(module));
  return *this;
}

Tensor Sequential::forward(const Tensor& x) {
  Tensor y = x;
  for (const auto& module : modules_) y = (*module)(y);
  return y;
}

}  // namespace taper
