#include "modules/layers/containers.h"

#include <algorithm>
#include <memory>
#include <typeinfo>

#include "autograd/anomaly.h"
#include "autograd/ops/binary_ops.h"
#include "modules/layers/conv_layers.h"
#include "modules/layers/linear.h"
#include "modules/layers/norm_layers.h"
#include "modules/layers/stateless.h"

namespace taper::v0 {
namespace {

template <class M> bool is_exactly(const Module& module) { return typeid(module) == typeid(M); }

// Returns the layer if it is exactly a batch norm, otherwise null.
BatchNormBase* batch_norm_of(Module& layer) {
  const bool is_norm = is_exactly<BatchNorm1d>(layer) || is_exactly<BatchNorm2d>(layer) ||
                       is_exactly<BatchNorm3d>(layer);
  return is_norm ? &static_cast<BatchNormBase&>(layer) : nullptr;
}

// Returns the activation that `layer` can apply itself, or none. `layer` must be exactly a Linear,
// a Conv2d or Conv3d, or a batch norm, and `activation` a ReLU or, except for a batch norm, a GELU.
// Neither may have hooks, because these would see the value in between.
Activation fusible(Module& layer, const Module& activation) {
  const bool is_norm = batch_norm_of(layer);
  const bool applies = is_norm || is_exactly<Linear>(layer) || is_exactly<Conv2d>(layer) ||
                       is_exactly<Conv3d>(layer);
  if (!applies || layer.has_hooks() || activation.has_hooks()) return Activation::kNone;
  if (is_exactly<ReLU>(activation)) return Activation::kRelu;
  if (is_norm || !is_exactly<GELU>(activation)) return Activation::kNone;
  const bool by_tanh = static_cast<const GELU&>(activation).approximate == "tanh";
  return by_tanh ? Activation::kGeluTanh : Activation::kGelu;
}

size_t place_of(int64_t index, int64_t size) {
  if (index < -size || index >= size) {
    throw IndexError("index ", index, " is out of range of a list with ", size, " entries");
  }
  return size_t(index < 0 ? index + size : index);
}

}  // namespace

ModuleContainer::ModuleContainer() = default;
ModuleContainer::~ModuleContainer() = default;
ModuleContainer::ModuleContainer(ModuleContainer& other) : Module(other) {
  for (const std::unique_ptr<Module>& child : other.owned_) {
    owned_.push_back(child->clone());
    owned_.back()->is_held_ = true;
  }
}

ModuleContainer& ModuleContainer::operator=(ModuleContainer&& other) {
  if (this == &other) return *this;
  Module::operator=(std::move(other));
  owned_ = std::move(other.owned_);
  return *this;
}

Module& ModuleContainer::own(const std::string& name, std::unique_ptr<Module> child) {
  if (!child) throw TypeError("nullptr is not a Module subclass (child of ", type_name(), ")");
  register_module(name, *child);
  child->is_held_ = true;
  was_moved_ = false;  // a moved-from container may be filled again
  return *owned_.emplace_back(std::move(child));
}

Module& ModuleContainer::exchange(Module& old, std::unique_ptr<Module> fresh) {
  old.replace_with(*fresh);
  fresh->is_held_ = true;
  std::unique_ptr<Module>& place = *std::ranges::find(owned_, &old, &std::unique_ptr<Module>::get);
  place = std::move(fresh);
  return *place;
}

void ModuleContainer::refuse_type(const Module& child, const std::type_info& wanted,
                                  const char* name) const {
  throw TypeError("a module of this ", type_name(), " is a ", child.type_name(), ", not a ",
                  name ? name : demangled(wanted.name()));
}

Module& ModuleContainer::child_at(int64_t index) const {
  return *children()[place_of(index, size())].second;
}

void ModuleContainer::check_count(int64_t count) const {
  require<ValueError>(count >= 0, type_name(), ": the number of modules must not be negative, got ",
                      count);
}

ParameterList::ParameterList(const std::vector<Tensor>& values) {
  for (const Tensor& value : values) append(value);
}

void ParameterList::append(const Tensor& value) {
  parameters_.emplace_back(*this, concat_to_string(size()), value);
}

Parameter& ParameterList::operator[](int64_t index) { return parameters_[place_of(index, size())]; }

std::string ParameterList::extra_repr() const {
  std::string text;
  for (size_t i = 0; i < parameters_.size(); ++i) {
    std::string sizes;
    for (const int64_t n : parameters_[i]->shape())
      sizes += concat_to_string(sizes.empty() ? "" : "x", n);
    text += concat_to_string(i > 0 ? "\n" : "", "  (", i, "): Parameter containing: [torch.",
                             parameters_[i]->dtype(), " of size ", sizes, "]");
  }
  return text;
}

Tensor activated(Module& layer, Module& activation, const Tensor& x, const Tensor& residual) {
  const Activation fused = fusible(layer, activation);
  BatchNormBase* const norm = batch_norm_of(layer);
  if (norm && fused != Activation::kNone) return (*norm)(x, fused, residual);
  if (residual.defined()) return activation(layer(x) + residual);
  if (fused == Activation::kNone) return activation(layer(x));
  if (is_exactly<Conv2d>(layer)) return static_cast<Conv2d&>(layer)(x, fused);
  if (is_exactly<Conv3d>(layer)) return static_cast<Conv3d&>(layer)(x, fused);
  return static_cast<Linear&>(layer)(x, fused);
}

Tensor Sequential::forward(const Tensor& x) {
  Tensor y = x;
  const size_t count = children().size();
  for (size_t i = 0; i < count; ++i) {
    Module& layer = *children()[i].second;
    Module* next = i + 1 < count ? children()[i + 1].second : nullptr;
    const bool fuses = next && fusible(layer, *next) != Activation::kNone;
    y = fuses ? activated(layer, *next, y) : layer(y);
    i += fuses;
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
    known += concat_to_string(known.empty() ? "" : ", ", "'", name, "'");
  }
  throw IndexError("'", key, "' is no key of this ModuleDict, whose keys are [", known, "]");
}

}  // namespace taper::v0
