#include "framework/base/scalar.h"

#include <cmath>
#include <limits>

namespace taper::v0 {
namespace {

// Returns the C++ name of the type: "int64_t", "float".
std::string type_name(DType t) {
  return is_floating_point(t) || t == kInt32 ? cpp_name(t) : concat_to_string(t, "_t");
}

}  // namespace

double largest(DType t) {
  switch (t) {
    case DType::kFloat16: return 65504;
    case DType::kBFloat16: return 0x1.fep127;
    case DType::kFloat32: return std::numeric_limits<float>::max();
    default: return std::numeric_limits<double>::max();
  }
}

bool Scalar::held_by(DType t) const {
  if (t == kBool) return true;
  if (taper::is_floating_point(t)) {
    const double x = to_double();
    return !std::isfinite(x) || std::abs(x) <= largest(t);
  }
  return visit(t, [&](auto tag) {
    using Limits = std::numeric_limits<typename decltype(tag)::type>;
    if constexpr (!Limits::is_integer) {
      return true;
    } else {
      const auto low = Limits::min(), high = Limits::max();
      // The largest int64 is not representable as a double, but 2^63 is.
      if (dtype_ == kFloat64) return d_ >= double(low) && d_ < 0x1p63 && d_ <= double(high);
      return (Limits::is_signed ? i_ >= int64_t(low) : i_ >= -int64_t(high)) && i_ <= int64_t(high);
    }
  });
}

bool Scalar::is_fraction() const {
  return dtype_ == kFloat64 && std::isfinite(d_) && d_ != std::trunc(d_);
}

void Scalar::refuse(DType t) {
  throw Error("value cannot be converted to type ", type_name(t), " without overflow");
}

void Scalar::refuse_fraction(DType t) const {
  throw Error("value ", d_, " cannot be converted to type ", type_name(t),
              " without losing its fraction; read it as a double, or round it first");
}

}  // namespace taper::v0
