#include "framework/memory/cuda_memory.h"

#include <charconv>
#include <string>

#include "framework/base/error.h"
#include "framework/cuda/cuda.h"
#include "framework/cuda/driver.h"
#include "framework/memory/cuda_allocator.h"

namespace taper::v0::cuda {
namespace {

MemoryStats stats_of(int device) {
  if constexpr (kHasCuda) {
    if (is_available()) return memory_stats(driver::checked(device));
  }
  return {};
}

// Returns a line of memory_summary(): a name, and right-aligned numbers.
std::string row(const std::string& name, const std::string& now, const std::string& peak = "") {
  const auto spaces = [](size_t width, const std::string& text) {
    return std::string(width > text.size() ? width - text.size() : 0, ' ');
  };
  std::string out = concat_to_string(name, spaces(12, name), spaces(14, now), now);
  if (!peak.empty()) out += concat_to_string(spaces(14, peak), peak);
  return out + "\n";
}

}  // namespace

std::string format_bytes(size_t n) {
  if (n < 1024) return concat_to_string(n, " bytes");
  constexpr size_t kMiB = size_t(1) << 20;
  const bool kib = n < kMiB, mib = n < 1024 * kMiB;
  const double unit = kib ? 1024.0 : mib ? double(kMiB) : 1024.0 * double(kMiB);
  char text[32];
  const auto end =
      std::to_chars(text, text + sizeof text, double(n) / unit, std::chars_format::fixed, 2).ptr;
  return concat_to_string(std::string_view(text, size_t(end - text)), kib   ? " KiB"
                                                                      : mib ? " MiB"
                                                                            : " GiB");
}

size_t memory_allocated(int device) { return stats_of(device).allocated; }
size_t max_memory_allocated(int device) { return stats_of(device).peak_allocated; }
size_t memory_reserved(int device) { return stats_of(device).reserved; }
size_t max_memory_reserved(int device) { return stats_of(device).peak_reserved; }

void reset_peak_memory_stats(int device) {
  if constexpr (kHasCuda) {
    if (is_available()) reset_peaks(driver::checked(device));
  }
}

std::string memory_summary(int device) {
  if (!is_available()) return concat_to_string("CUDA memory: none; ", unavailable_reason(), "\n");
  const DeviceProperties p = get_device_properties(device);
  const MemoryStats s = stats_of(device);
  std::string out =
      concat_to_string("CUDA memory of ", resolve(device < 0 ? Device("cuda") : Device(device)),
                       " (", p.name, ")\n");
  out += row("", "now", "peak");
  out += row("allocated", format_bytes(s.allocated), format_bytes(s.peak_allocated));
  out += row("reserved", format_bytes(s.reserved), format_bytes(s.peak_reserved));
  out += row("unused", format_bytes(s.reserved - s.allocated));
  out += row("segments", concat_to_string(s.segments));
  out += row("device free", format_bytes(p.free_memory));
  return out + row("device total", format_bytes(p.total_memory));
}

void empty_cache() {
  if constexpr (kHasCuda) {
    if (is_available()) release_unused_blocks();
  }
}

}  // namespace taper::v0::cuda
