#include "framework/tensor/low_precision_table.h"

#include <new>

namespace taper::v0 {

detail::LowPrecisionTable& detail::low_precision_table() {
  static LowPrecisionTable& instance = *::new LowPrecisionTable;
  return instance;
}

void forget_low_precision_copy(const TensorImpl* parameter) noexcept {
  detail::LowPrecisionTable& table = detail::low_precision_table();
  if (table.size == 0) return;
  const std::lock_guard lock(table.mutex);
  table.entries.erase(parameter);
  table.size = table.entries.size();
}

}  // namespace taper::v0
