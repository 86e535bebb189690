#include "framework/host/lock.h"

#include <atomic>

namespace taper::inline v0::detail {

void Lock::wait() { std::atomic_ref(taken_.plain()).wait(true, std::memory_order_relaxed); }
void Lock::wake_one() { std::atomic_ref(taken_.plain()).notify_one(); }

}  // namespace taper::inline v0::detail
