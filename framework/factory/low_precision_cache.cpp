#include "framework/factory/low_precision_cache.h"

#include <atomic>
#include <mutex>
#include <unordered_map>

#include "framework/kernels/elementwise/copy.h"

namespace taper::v0 {
namespace {

struct Entry {
  Tensor copy;
  uint32_t version;     // version of the parameter's memory
  uint64_t handed_out;  // value of the table's clock when the copy was handed out
};

struct Table {
  std::mutex mutex;
  std::unordered_map<const TensorImpl*, Entry> entries;
  // Allows programs without autocast to skip the lock.
  std::atomic<size_t> size{0};
  std::atomic<uint64_t> clock{0}, changes{0};
};

// Never destroyed, because parameters with static lifetime may be destroyed after main().
Table& table() {
  static Table& instance = *::new Table;
  return instance;
}

}  // namespace

Tensor half_copy(const Tensor& parameter, DType dtype) {
  Table& all = table();
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

uint64_t half_copy_mark() { return table().clock; }
uint64_t half_copy_changes() { return table().changes; }

std::vector<HalfCopy> half_copies_since(uint64_t mark) {
  Table& all = table();
  const std::lock_guard lock(all.mutex);
  std::vector<HalfCopy> out;
  for (const auto& [parameter, entry] : all.entries) {
    if (entry.handed_out <= mark) continue;
    // A parameter that another thread is destroying waits for the lock to remove its entry.
    auto alive = IntrusivePtr<TensorImpl>::try_share(const_cast<TensorImpl*>(parameter));
    if (alive) out.push_back({Tensor(std::move(alive)), entry.copy});
  }
  return out;
}

void restore_half_copies(const std::vector<HalfCopy>& copies) {
  Table& all = table();
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

Tensor half_copy_to_update(const Tensor& parameter) {
  Table& all = table();
  // The copy is row-major, and optimizer kernels index memory directly.
  if (all.size == 0 || !parameter.is_contiguous()) return {};
  const std::lock_guard lock(all.mutex);
  const auto known = all.entries.find(parameter.impl());
  // An outdated copy stays outdated: a step that found inf writes nothing.
  const bool fresh = known != all.entries.end() && known->second.version == parameter.version();
  return fresh ? known->second.copy : Tensor();
}

void half_copy_updated(const Tensor& parameter) {
  Table& all = table();
  const std::lock_guard lock(all.mutex);
  const auto known = all.entries.find(parameter.impl());
  if (known == all.entries.end()) return;
  known->second.version = parameter.version();
  // A graph that saved the old values must detect the change.
  known->second.copy.storage()->version.fetch_add(1);
}

void forget_half_copy(const TensorImpl* parameter) noexcept {
  Table& all = table();
  if (all.size == 0) return;
  const std::lock_guard lock(all.mutex);
  all.entries.erase(parameter);
  all.size = all.entries.size();
}

}  // namespace taper::v0
