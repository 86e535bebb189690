// Modules called one after the other
// (https://pytorch.org/docs/stable/generated/torch.nn.Sequential.html).
#pragma once

#include <memory>
#include <vector>

#include "modules/module.h"

namespace taper {

// Sequential net(Linear(784, 512), ReLU(), Linear(512, 10)); children are named "0", "1", ...
class Sequential : public Module {
 public:
  template <class... Modules>
  requires(std::derived_from<std::remove_cvref_t<Modules>, Module>&&...) explicit Sequential(
      Modules&&... modules) {
    (add(std::make_unique<std::remove_cvref_t<Modules>>(std::move(modules))), ...);
  }
  Sequential(Sequential&&) = default;

  // Appends under the next number; returns *this.
  Sequential& add(std::unique_ptr<Module> module);
  size_t size() const { return modules_.size(); }
  Module& operator[](size_t i) { return *modules_.at(i); }

  Tensor forward(const Tensor& x) override;
  std::string type_name() const override { return "Sequential"; }

 private:
  std::vector<std::unique_ptr<Module>> modules_;
};

}  // namespace taper
