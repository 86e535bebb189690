// Rows of tables whose options stand in the row itself, each in one line
// (modules/layers/function_layer.h):
//
//   {"huber", Losses::of<InlineFactory<huber, Option<"delta", double, kPositive, "the bend", 1>>>}
#pragma once

#include <tuple>

#include "modules/layers/function_layer.h"

namespace taper::v0::runner {

// What kMake(values of the options...) makes, or kMake(site, values of the options...).
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

// All options of a struct that describes itself, as one of those values.
template <class Options> struct AllOf {
  Options value{};
  template <class V> void describe(V& v) { value.describe(v); }
};

}  // namespace taper::v0::runner
