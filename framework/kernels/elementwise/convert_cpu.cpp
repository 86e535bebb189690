#include "framework/kernels/elementwise/convert_cpu.h"

#include <algorithm>
#include <cstring>
#include <type_traits>

#include "framework/kernels/common/convert.h"
#include "framework/kernels/common/simd_cpu.h"

namespace taper::v0::kernels::cpu {
namespace {

template <class T> inline constexpr bool kIsFloat = std::is_floating_point_v<T> || kIsHalf<T>;

// bool is accessed as a byte, so that a byte other than 0 and 1 is not undefined behavior.
template <class T> using Stored = std::conditional_t<std::is_same_v<T, bool>, uint8_t, T>;

template <class S, class D> inline Stored<D> convert_one(Stored<S> x) {
  if constexpr (std::is_same_v<S, bool>) return convert_one<uint8_t, D>(uint8_t(x != 0));
  return Stored<D>(kernels::convert<D>(x));
}

template <class S, class D>
void convert(const void* from, int64_t src_stride, void* to, int64_t dst_stride, int64_t n) {
  const auto* src = static_cast<const Stored<S>*>(from);
  auto* dst = static_cast<Stored<D>*>(to);
  // The source is a single number, which is broadcast, so it fills the result.
  if (src_stride == 0 && dst_stride == 1) {
    std::fill_n(dst, n, convert_one<S, D>(*src));
  } else if (src_stride != 1 || dst_stride != 1) {
    for (int64_t i = 0; i < n; ++i) {
      dst[i * dst_stride] = convert_one<S, D>(src[i * src_stride]);
    }
  } else if constexpr (kIsFloat<S> && kIsFloat<D>) {
    // Wide registers pay off for floating types; for integers the default ones suffice.
    vector_for(n, [=](int64_t i) { dst[i] = convert_one<S, D>(src[i]); });
  } else {
#pragma omp simd
    for (int64_t i = 0; i < n; ++i) dst[i] = convert_one<S, D>(src[i]);
  }
}

// Copies between equal dtypes as bits.
template <class Bits>
void move(const void* from, int64_t src_stride, void* to, int64_t dst_stride, int64_t n) {
  const auto* src = static_cast<const Bits*>(from);
  auto* dst = static_cast<Bits*>(to);
  if (src_stride == 1 && dst_stride == 1) {
    std::memmove(dst, src, size_t(n) * sizeof(Bits));
    return;
  }
  // The source is a flipped tensor.
  if (src_stride == -1 && dst_stride == 1) {
    return vector_for(n, [=](int64_t i) { dst[i] = src[-i]; });
  }
  if (src_stride == 0 && dst_stride == 1) return void(std::fill_n(dst, n, *src));
  for (int64_t i = 0; i < n; ++i) dst[i * dst_stride] = src[i * src_stride];
}

}  // namespace

ConvertFn converter(DType from, DType to) {
  if (from == to) {
    return visit_size(size_of(from),
                      []<class Bits>(TypeTag<Bits>) -> ConvertFn { return move<Bits>; });
  }
  return visit(from, [&](auto src) {
    return visit(to, [](auto dst) -> ConvertFn {
      return convert<typename decltype(src)::type, typename decltype(dst)::type>;
    });
  });
}

}  // namespace taper::v0::kernels::cpu
