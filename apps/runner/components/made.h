// Rows of tables whose options stand in the row itself, each in one line
// (modules/layers/function_layer.h):
//
//   {"huber", Losses::of<Made<huber, Option<"delta", double, kPositive, "the bend", 1>>>}
#pragma once

#include <tuple>

#include "modules/layers/function_layer.h"

namespace taper::inline v0::runner {

// What kMake(site, values of the options...) makes.
template <auto kMake, class... Each> struct Made : OptionList<Each...> {
  template <class Site> auto make(const Site& at) const {
    return std::apply([&](const auto&... o) { return kMake(at, o.value...); }, this->all);
  }
};

// All options of a struct that describes itself, as one of those values.
template <class Options> struct All {
  Options value{};
  template <class V> void describe(V& v) { value.describe(v); }
};

}  // namespace taper::inline v0::runner
