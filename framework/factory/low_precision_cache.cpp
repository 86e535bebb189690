#include "framework/factory/low_precision_cache.h"

#include <mutex>

#include "framework/kernels/elementwise/copy.h"

namespace taper::v0 {
namespace {

using detail::low_precision_table;
using detail::LowPrecisionTable;

}  // namespace

Tensor low_precision_copy(const Tensor& parameter, DType dtype) {
  LowPrecisionTable& all = low_precision_table();
  const uint32_t version = parameter.version();
  {
    const std::lock_guard lock(all.mutex);
    const auto known = all.entries.find(parameter.impl());
    if (known != all.entries.end() && known->second.version == version &&
        known->second.copy.dtype() == dtype) {
      known->second.handed_out = ++all.clock;
      return known->second.copy;
    }
  }
  // Allocates new memory, because the tape may hold the old copy.
  const Tensor copy = kernels::packed(parameter, dtype);
  const std::lock_guard lock(all.mutex);
  all.entries[parameter.impl()] = {copy, version, ++all.clock};
  all.size = all.entries.size();
  ++all.changes;
  return copy;
}

uint64_t low_precision_mark() { return low_precision_table().clock; }
uint64_t low_precision_changes() { return low_precision_table().changes; }

std::vector<LowPrecisionCopy> low_precision_copies_since(uint64_t mark) {
  LowPrecisionTable& all = low_precision_table();
  const std::lock_guard lock(all.mutex);
  std::vector<LowPrecisionCopy> out;
  for (const auto& [parameter, entry] : all.entries) {
    if (entry.handed_out <= mark) continue;
    // A parameter may be in destruction on another thread, which waits for the lock to remove the
    // entry.
    auto alive = IntrusivePtr<TensorImpl>::try_share(const_cast<TensorImpl*>(parameter));
    if (alive) out.push_back({Tensor(std::move(alive)), entry.copy});
  }
  return out;
}

void restore_low_precision_copies(const std::vector<LowPrecisionCopy>& copies) {
  LowPrecisionTable& all = low_precision_table();
  const std::lock_guard lock(all.mutex);
  for (const auto& [parameter, copy] : copies) {
    const auto known = all.entries.find(parameter.impl());
    if (known == all.entries.end()) continue;  // the entry was moved, so there is nothing to update
    if (known->second.copy.is_same(copy)) continue;
    kernels::copy_into(copy, parameter);
    known->second = {copy, parameter.version(), ++all.clock};
    ++all.changes;
  }
}

Tensor low_precision_copy_to_update(const Tensor& parameter) {
  LowPrecisionTable& all = low_precision_table();
  // Only for contiguous parameters: the copy is row-major, and optimizer kernels index memory
  // directly.
  if (all.size == 0 || !parameter.is_contiguous()) return {};
  const std::lock_guard lock(all.mutex);
  const auto known = all.entries.find(parameter.impl());
  // An outdated copy must not be marked as updated, because a step that found inf writes nothing to
  // it.
  const bool fresh = known != all.entries.end() && known->second.version == parameter.version();
  return fresh ? known->second.copy : Tensor();
}

void low_precision_copy_updated(const Tensor& parameter) {
  LowPrecisionTable& all = low_precision_table();
  const std::lock_guard lock(all.mutex);
  const auto known = all.entries.find(parameter.impl());
  if (known == all.entries.end()) return;
  known->second.version = parameter.version();
  // Increments the version, so that a graph that saved the old values detects the change.
  known->second.copy.storage()->version.fetch_add(1);
}

}  // namespace taper::v0
