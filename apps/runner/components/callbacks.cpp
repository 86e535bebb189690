// The table of callbacks: Taper has none of its own, programs register theirs.
#include "apps/runner/components/tables.h"

namespace taper::v0::runner {

Callbacks& callbacks() { return Callbacks::registry("callback"); }

}  // namespace taper::v0::runner
