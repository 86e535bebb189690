#include "framework/dtype.h"

namespace taper::inline v0 {
namespace {

struct Names {
  DType dtype;
  const char* name;         // torch.NAME
  const char* alias;        // its second name in PyTorch
  const char* scalar_type;  // c10::ScalarType
};

constexpr Names kNames[] = {
    {kFloat32, "float32", "float", "Float"}, {kFloat64, "float64", "double", "Double"},
    {kFloat16, "float16", "half", "Half"},   {kBFloat16, "bfloat16", "bf16", "BFloat16"},
    {kInt64, "int64", "long", "Long"},       {kInt32, "int32", "int", "Int"},
    {kInt16, "int16", "short", "Short"},     {kInt8, "int8", "char", "Char"},
    {kUInt8, "uint8", "byte", "Byte"},       {kBool, "bool", "boolean", "Bool"},
};

}  // namespace

const char* name_of(DType t) { return kNames[size_t(t)].name; }
const char* scalar_type_name(DType t) { return kNames[size_t(t)].scalar_type; }
const char* cpp_name(DType t) {
  switch (t) {
    case DType::float32: return "float";
    case DType::float64: return "double";
    case DType::float16: return "c10::Half";
    case DType::bfloat16: return "c10::BFloat16";
    case DType::int64: return "long int";
    case DType::int32: return "int";
    case DType::int16: return "short int";
    case DType::int8: return "signed char";
    case DType::uint8: return "unsigned char";
    default: return name_of(t);
  }
}

DType parse_dtype(std::string_view name) {
  for (const Names& n : kNames) {
    if (name == n.name || name == n.alias) return n.dtype;
  }
  std::string known;
  for (const Names& n : kNames) known += cat(known.empty() ? "" : ", ", n.name);
  throw ValueError("unknown dtype '", name, "': expected one of ", known);
}

DType promote_types(DType a, DType b) {
  if (a == b) return a;
  const bool float_a = is_floating_point(a), float_b = is_floating_point(b);
  if (float_a != float_b) return float_a ? a : b;
  if (float_a) {
    if (a == kFloat64 || b == kFloat64) return kFloat64;
    return kFloat32;  // also float16 with bfloat16: neither holds the other
  }
  if (a == kBool) return b;
  if (b == kBool) return a;
  for (DType wide : {kInt64, kInt32}) {
    if (a == wide || b == wide) return wide;
  }
  return kInt16;  // also int8 with uint8: the smallest that holds both
}

}  // namespace taper::inline v0
