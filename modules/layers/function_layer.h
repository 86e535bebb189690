// Layers without parameters that are a single function of their input and of options.
#pragma once

#include <optional>
#include <tuple>
#include <type_traits>

#include "framework/base/describe.h"
#include "modules/layers/repr.h"
#include "modules/module.h"

namespace taper::v0 {

// A string as a template argument.
template <size_t N> struct LayerName {
  constexpr LayerName(const char (&name)[N]) {
    for (size_t i = 0; i < N; ++i) text[i] = name[i];
  }
  char text[N];
};

// A dimension of a tensor; -1 is the last.
inline constexpr Range kAnyDim{-kMaxDims, kMaxDims - 1};

// One option: its name, type, range, description, and its default if it has one. A default is a
// value, or the numerator and denominator of a fraction (clang 14 does not accept double here). The
// default of a std::optional is std::nullopt.
template <LayerName kName, class T, const Range& kRange, LayerName kText, auto... kDefault>
struct Option {
  using Type = T;
  static constexpr const char* name = kName.text;
  static constexpr bool required = sizeof...(kDefault) == 0 && !requires(T t) { t.has_value(); };
  static T initial() {
    if constexpr (sizeof...(kDefault) == 2)
      return (T(kDefault) / ...);
    else
      return T(kDefault...);
  }
  template <class V> void describe(V& v) {
    if constexpr (required) {
      v(name, value, kRange, kText.text).required();
    } else {
      v(name, value, kRange, kText.text);
    }
  }
  T value = initial();
};
template <class... Each> struct OptionList {
  template <class V> void describe(V& v) {
    std::apply([&](auto&... option) { (option.describe(v), ...); }, all);
  }
  std::tuple<Each...> all{};
};

// Base class of layers and losses whose forward() is one function. The function is called with the
// tensors and the options. Base is Module or Loss.
template <class Base, LayerName kName, auto kFunction, class... Each>
class FunctionModule : public Base {
  static constexpr size_t kRequired = (size_t(Each::required) + ... + 0);

 public:
  using Options = OptionList<Each...>;
  static constexpr const char* kTypeName = kName.text;

  explicit FunctionModule(const Options& options) : options_(options) {}
  explicit FunctionModule(typename Each::Type... values) : options_{{Each{values}...}} {}
  template <class... First>
  requires(sizeof...(First) >= kRequired &&
           sizeof...(First) < sizeof...(Each)) explicit FunctionModule(First... values) {
    set(std::index_sequence_for<First...>(), values...);
  }
  std::string type_name() const override { return kTypeName; }

 protected:
  template <class... Tensors> Tensor call(const Tensors&... tensors) const {
    constexpr bool kOptionsAreAll =
        std::is_invocable_v<decltype(kFunction), const Tensors&..., typename Each::Type...>;
    const auto f = [&](const auto&... o) -> Tensor {
      if constexpr (kOptionsAreAll) {
        return kFunction(tensors..., o.value...);
      } else {
        return kFunction(tensors..., o.value..., std::nullopt);  // a layer has no dtype option
      }
    };
    return std::apply(f, options_.all);
  }
  Options options_;

 private:
  template <size_t... I, class... First> void set(std::index_sequence<I...>, First... values) {
    ((std::get<I>(options_.all).value = values), ...);
  }
};

// Defines a layer:
// using ELU = FunctionLayer<"ELU", elu, Option<"alpha", double, kPositive, "...", 1>>;
// Trailing options may be omitted, as in Softplus(2), and then have their defaults.
template <LayerName kName, auto kFunction, class... Each>
class FunctionLayer : public Cloneable<FunctionLayer<kName, kFunction, Each...>,
                                       FunctionModule<Module, kName, kFunction, Each...>> {
 public:
  using FunctionLayer::Cloneable::Cloneable;
  FunctionLayer() = delete;  // some options have no default: write Softmax(1)
  FunctionLayer() requires(!(Each::required || ...)) = default;
  Tensor forward(const Tensor& x) override { return this->call(x); }
  std::string extra_repr() const override {
    std::string text;
    const auto add = [&](const auto& option) {
      text += concat_to_string(text.empty() ? "" : ", ", fields(option.name, option.value));
    };
    std::apply([&](const auto&... option) { (add(option), ...); }, this->options_.all);
    return text;
  }
};

}  // namespace taper::v0
