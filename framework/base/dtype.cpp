#include "framework/base/dtype.h"

namespace taper::v0 {
namespace {

struct Names {
  DType dtype;
  const char* name;         // torch.NAME
  const char* alias;        // its second name in PyTorch, or null
  const char* scalar_type;  // c10::ScalarType
  const char* cpp;
};

constexpr Names kNames[] = {
    {kFloat32, "float32", "float", "Float", "float"},
    {kFloat64, "float64", "double", "Double", "double"},
    {kFloat16, "float16", "half", "Half", "c10::Half"},
    {kBFloat16, "bfloat16", "bf16", "BFloat16", "c10::BFloat16"},
    {kInt64, "int64", "long", "Long", "long int"},
    {kInt32, "int32", "int", "Int", "int"},
    {kInt16, "int16", "short", "Short", "short int"},
    {kInt8, "int8", "char", "Char", "signed char"},
    {kUInt8, "uint8", "byte", "Byte", "unsigned char"},
    {kBool, "bool", "boolean", "Bool", "bool"},
};

}  // namespace

const char* name_of(DType t) { return kNames[size_t(t)].name; }
const char* scalar_type_name(DType t) { return kNames[size_t(t)].scalar_type; }
const char* cpp_name(DType t) { return kNames[size_t(t)].cpp; }

DType parse_dtype(std::string_view name) {
  for (const Names& n : kNames) {
    if (name == n.name || name == n.alias) return n.dtype;
  }
  std::string known;
  for (const Names& n : kNames) known += concat_to_string(known.empty() ? "" : ", ", n.name);
  throw ValueError("unknown dtype '", name, "': expected one of ", known);
}

DType promote_types(DType a, DType b) {
  if (a == b) return a;
  const bool float_a = is_floating_point(a), float_b = is_floating_point(b);
  if (float_a != float_b) return float_a ? a : b;
  if (float_a) {
    if (a == kFloat64 || b == kFloat64) return kFloat64;
    return kFloat32;  // also for float16 with bfloat16, because neither can represent the other
  }
  if (a == kBool) return b;
  if (b == kBool) return a;
  for (DType wide : {kInt64, kInt32}) {
    if (a == wide || b == wide) return wide;
  }
  return kInt16;  // also for int8 with uint8: the smallest type that represents both
}

}  // namespace taper::v0
