// Layers without parameters that are one function of their input and of options.
#pragma once

#include <algorithm>
#include <tuple>

#include "modules/module.h"
#include "modules/repr.h"

namespace taper {

// Text as a template argument.
template <size_t N> struct LayerName {
  constexpr LayerName(const char (&name)[N]) { std::copy_n(name, N, text); }
  char text[N];
};

// One option: its name, its type, and its default where it has one: a value, or the numerator and
// the denominator of one (clang 14 takes no double here).
template <LayerName kName, class T, auto... kDefault> struct Option {
  using Type = T;
  static constexpr const char* name = kName.text;
  static constexpr bool required = sizeof...(kDefault) == 0;
  static T initial() {
    if constexpr (sizeof...(kDefault) == 2)
      return (T(kDefault) / ...);
    else
      return T(kDefault...);
  }
  T value = initial();
};

// What layers and losses share: Base's forward is one function of its tensors and of the options.
template <class Base, LayerName kName, auto kFunction, class... Options>
class FunctionModule : public Base {
  static constexpr size_t kRequired = (size_t(Options::required) + ... + 0);

 public:
  explicit FunctionModule(typename Options::Type... values) : options_{Options{values}...} {}
  template <class... First>
  requires(sizeof...(First) >= kRequired &&
           sizeof...(First) < sizeof...(Options)) explicit FunctionModule(First... values) {
    set(std::index_sequence_for<First...>(), values...);
  }
  std::string type_name() const override { return kName.text; }

 protected:
  template <class... Tensors> Tensor call(const Tensors&... tensors) const {
    return std::apply([&](const auto&... o) { return kFunction(tensors..., o.value...); },
                      options_);
  }
  std::tuple<Options...> options_;

 private:
  template <size_t... I, class... First> void set(std::index_sequence<I...>, First... values) {
    ((std::get<I>(options_).value = values), ...);
  }
};

// using Softplus = FunctionLayer<"Softplus", softplus, Option<"beta", double, 1>, ...>;
// Softplus(2) leaves the options behind the first at their defaults.
template <LayerName kName, auto kFunction, class... Options>
class FunctionLayer : public FunctionModule<Module, kName, kFunction, Options...> {
 public:
  using FunctionModule<Module, kName, kFunction, Options...>::FunctionModule;
  Tensor forward(const Tensor& x) override { return this->call(x); }
  std::string extra_repr() const override {
    std::string text;
    const auto add = [&](const auto& option) {
      text += cat(text.empty() ? "" : ", ", fields(option.name, option.value));
    };
    std::apply([&](const auto&... option) { (add(option), ...); }, this->options_);
    return text;
  }
};

}  // namespace taper
