// Checks of what callers give.
#pragma once

#include "framework/error.h"

namespace taper::inline v0 {

// Throws E with the text, joined as by cat, unless the condition holds. The parts of the text are
// evaluated in any case: a throw of its own serves those that cost something.
template <class E = Error, Printable... Text> void require(bool holds, const Text&... text) {
  if (!holds) [[unlikely]]
    throw E(cat(text...));
}

}  // namespace taper::inline v0
