// Modules called one after the other
// (https://pytorch.org/docs/stable/generated/torch.nn.Sequential.html).
#pragma once

#include "modules/containers.h"

namespace taper {

// Sequential net(Linear(784, 512), ReLU(), Linear(512, 10)); children are named "0", "1", ...
class Sequential : public ModuleList {
 public:
  template <ModuleRvalue... Modules> explicit Sequential(Modules&&... modules) {
    (add(std::make_unique<Modules>(std::move(modules))), ...);
  }
  Sequential(Sequential&&) = default;

  using ModuleList::add;
  // Appends under the next number; returns *this.
  Sequential& add(std::unique_ptr<Module> module) {
    append(std::move(module));
    return *this;
  }

  Tensor forward(const Tensor& x) override;
  std::string type_name() const override { return "Sequential"; }
};

}  // namespace taper
