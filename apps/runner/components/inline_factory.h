// Table entries whose options are listed in the entry itself (modules/layers/function_layer.h):
//
//   {"dropout", Layers::of<InlineFactory<dropout, Option<"p", double, kUnit, "probability", 0.5>>>}
#pragma once

#include <tuple>

#include "modules/layers/function_layer.h"

namespace taper::v0::runner {

// A component whose make() passes the values of its options to the function kMake. If kMake takes
// the site as its first parameter, it is passed before the values.
template <auto kMake, class... Each> struct InlineFactory : OptionList<Each...> {
  template <class Site> auto make(const Site& at) const {
    const auto made = [&](const auto&... o) {
      if constexpr (requires { kMake(o.value...); })
        return kMake(o.value...);
      else
        return kMake(at, o.value...);
    };
    return std::apply(made, this->all);
  }
};

// An option for InlineFactory that holds a whole struct with describe(). kMake receives the struct
// as one argument.
template <class Options> struct AllOf {
  Options value{};
  template <class V> void describe(V& v) { value.describe(v); }
};

}  // namespace taper::v0::runner
