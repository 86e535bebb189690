// Element types, their promotion, and dispatch from a dtype to its C++ type. Promotion:
// https://pytorch.org/docs/stable/tensor_attributes.html#type-promotion-doc
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>

#include "framework/base/error.h"
#include "framework/base/half.h"

namespace taper::v0 {

enum class DType : uint8_t {
  kFloat32,
  kFloat64,
  kFloat16,
  kBFloat16,
  kInt64,
  kInt32,
  kInt16,
  kInt8,
  kUInt8,
  kBool
};

inline constexpr DType kFloat32 = DType::kFloat32;
inline constexpr DType kFloat64 = DType::kFloat64;
inline constexpr DType kFloat16 = DType::kFloat16;
inline constexpr DType kBFloat16 = DType::kBFloat16;
inline constexpr DType kInt64 = DType::kInt64;
inline constexpr DType kInt32 = DType::kInt32;
inline constexpr DType kInt16 = DType::kInt16;
inline constexpr DType kInt8 = DType::kInt8;
inline constexpr DType kUInt8 = DType::kUInt8;
inline constexpr DType kBool = DType::kBool;
inline constexpr DType kAllDTypes[] = {kFloat32, kFloat64, kFloat16, kBFloat16, kInt64,
                                       kInt32,   kInt16,   kInt8,    kUInt8,    kBool};

// Returns the size of one element in bytes.
constexpr size_t size_of(DType t) {
  constexpr uint8_t kSizes[] = {4, 8, 2, 2, 8, 4, 2, 1, 1, 1};  // in the order of DType
  return kSizes[size_t(t)];
}

constexpr bool is_floating_point(DType t) { return t <= DType::kBFloat16; }
constexpr bool is_half(DType t) { return t == DType::kFloat16 || t == DType::kBFloat16; }

// Returns PyTorch's name without the prefix "torch.": "float32", "int64", "bool".
const char* name_of(DType t);
inline std::string to_string(DType t) { return name_of(t); }

// Returns PyTorch's name of the scalar type, which error messages and type strings use: "Float",
// "Long".
const char* scalar_type_name(DType t);
// Returns PyTorch's name of the C++ type, which other messages use: "float", "c10::Half".
const char* cpp_name(DType t);

// Parses "float32" or "float", "double", "half", "bfloat16", "long" and so on. Throws ValueError
// for any other text.
DType parse_dtype(std::string_view name);

// Returns the dtype of an op's result for two tensors that are both not 0-dim.
DType promote_types(DType a, DType b);

// Returns the dtype of computation: float for half types, int64 for integers and bool.
constexpr DType compute_type(DType t) {
  if (t == DType::kFloat64) return t;
  return is_floating_point(t) ? DType::kFloat32 : DType::kInt64;
}

// Returns the dtype of sums and intermediate results: double for double, otherwise float.
constexpr DType accumulate_type(DType t) { return t == DType::kFloat64 ? t : DType::kFloat32; }
template <class T>
using AccumulateType = std::conditional_t<std::is_same_v<T, double>, double, float>;

// Maps C++ element types to dtypes and back.
template <class T>
inline constexpr DType dtype_of = [] { static_assert(sizeof(T) == 0, "no such dtype"); }();
template <> inline constexpr DType dtype_of<float> = DType::kFloat32;
template <> inline constexpr DType dtype_of<double> = DType::kFloat64;
template <> inline constexpr DType dtype_of<Half> = DType::kFloat16;
template <> inline constexpr DType dtype_of<BFloat16> = DType::kBFloat16;
template <> inline constexpr DType dtype_of<int64_t> = DType::kInt64;
template <> inline constexpr DType dtype_of<int32_t> = DType::kInt32;
template <> inline constexpr DType dtype_of<int16_t> = DType::kInt16;
template <> inline constexpr DType dtype_of<int8_t> = DType::kInt8;
template <> inline constexpr DType dtype_of<uint8_t> = DType::kUInt8;
template <> inline constexpr DType dtype_of<bool> = DType::kBool;

template <class T> struct TypeTag { using type = T; };

// Calls f(TypeTag<T>{}) with the C++ type T of t.
template <class F> constexpr decltype(auto) visit(DType t, F&& f) {
  switch (t) {
    case DType::kFloat32: return f(TypeTag<float>{});
    case DType::kFloat64: return f(TypeTag<double>{});
    case DType::kFloat16: return f(TypeTag<Half>{});
    case DType::kBFloat16: return f(TypeTag<BFloat16>{});
    case DType::kInt64: return f(TypeTag<int64_t>{});
    case DType::kInt32: return f(TypeTag<int32_t>{});
    case DType::kInt16: return f(TypeTag<int16_t>{});
    case DType::kInt8: return f(TypeTag<int8_t>{});
    case DType::kUInt8: return f(TypeTag<uint8_t>{});
    default: return f(TypeTag<bool>{});
  }
}

// Like visit(), for a compute type: float, double or int64_t.
template <class F> decltype(auto) visit_computed(DType t, F&& f) {
  switch (t) {
    case DType::kFloat64: return f(TypeTag<double>{});
    case DType::kInt64: return f(TypeTag<int64_t>{});
    default: return f(TypeTag<float>{});
  }
}

// Like visit(), for floating types only. The caller has checked t.
template <class F> decltype(auto) visit_floating(DType t, F&& f) {
  switch (t) {
    case DType::kFloat64: return f(TypeTag<double>{});
    case DType::kFloat16: return f(TypeTag<Half>{});
    case DType::kBFloat16: return f(TypeTag<BFloat16>{});
    default: return f(TypeTag<float>{});
  }
}

}  // namespace taper::v0
