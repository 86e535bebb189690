// The registry of callbacks. Taper has no built-in callbacks; programs register their own.
#include "apps/runner/components/tables.h"

namespace taper::v0::runner {

Callbacks& callbacks() { return Callbacks::registry("callback"); }

}  // namespace taper::v0::runner
