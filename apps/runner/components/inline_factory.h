// Table entries whose options are listed in the entry itself (modules/layers/function_layer.h):
//
//   {"dropout", Layers::of<InlineFactory<dropout, Option<"p", double, kUnit, "probability", 0.5>>>}
#pragma once

#include <tuple>

#include "modules/layers/function_layer.h"

namespace taper::v0::runner {

// Options whose make() returns kMake(values of the options...) or kMake(site, values of the
// options...).
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

// Passes all options of a struct with describe() to kMake as one value.
template <class Options> struct AllOf {
  Options value{};
  template <class V> void describe(V& v) { value.describe(v); }
};

}  // namespace taper::v0::runner
