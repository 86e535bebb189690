#include "modules/containers.h"

#include <algorithm>

#include "autograd/anomaly.h"
#include "modules/fused.h"

namespace taper {

void ModuleContainer::own(const std::string& name, std::unique_ptr<Module> child) {
  if (!child) throw TypeError(cat("nullptr is not a Module subclass (child of ", type_name(), ")"));
  register_module(name, *child);
  owned_.push_back(std::move(child));
}

void ModuleContainer::exchange(Module& old, std::unique_ptr<Module> fresh) {
  old.give_place_to(*fresh);
  std::ranges::find(owned_, &old, &std::unique_ptr<Module>::get)->swap(fresh);
}

void ModuleContainer::refuse_type(const Module& child, const std::type_info& wanted) const {
  throw TypeError(cat("a module of this ", type_name(), " is a ", demangled(typeid(child).name()),
                      ", not a ", demangled(wanted.name())));
}

Module& ModuleList::operator[](int64_t index) const {
  const int64_t n = int64_t(size());
  if (index < -n || index >= n) throw IndexError(cat("index ", index, " is out of range"));
  return *children()[size_t(index < 0 ? index + n : index)].second;
}

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

std::vector<std::string> ModuleDict::keys() const {
  std::vector<std::string> out;
  for (const auto& [key, child] : *this) out.push_back(key);
  return out;
}

Module& ModuleDict::operator[](const std::string& key) const {
  std::string known;
  for (const auto& [name, child] : *this) {
    if (name == key) return *child;
    known += cat(known.empty() ? "" : ", ", "'", name, "'");
  }
  throw IndexError(cat("'", key, "' is no key of this ModuleDict, whose keys are [", known, "]"));
}

}  // namespace taper
