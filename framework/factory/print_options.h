// How tensors are printed (https://pytorch.org/docs/stable/generated/torch.set_printoptions.html).
#pragma once

#include <cstdint>
#include <optional>

#include "framework/base/namespace.h"
#include "framework/base/text_enum.h"

namespace taper::v0 {

// kDefault is {.precision = 4, .threshold = 1000, .edgeitems = 3, .linewidth = 80}. kShort has a
// precision of 2 and 2 edge items. kFull shows all elements.
struct PrintProfileValues {
  enum class Value : uint8_t { kDefault, kShort, kFull };
  static constexpr Value kDefault = Value::kDefault, kShort = Value::kShort, kFull = Value::kFull;
  static constexpr const char* kOption = "profile";
  static constexpr const char* kWords[] = {"default", "short", "full"};
};
using PrintProfile = TextEnum<PrintProfileValues>;

struct PrintOptions {
  std::optional<int64_t> precision = std::nullopt;  // digits after the decimal point
  // Tensors with more elements are shown without the middle of their dimensions.
  std::optional<int64_t> threshold = std::nullopt;
  std::optional<int64_t> edgeitems = std::nullopt;     // then shown at each end of a dimension
  std::optional<int64_t> linewidth = std::nullopt;     // characters of a line
  std::optional<PrintProfile> profile = std::nullopt;  // applied before the other options
  // Whether floating-point numbers are printed as 1.0000e+00. std::nullopt decides by the values.
  std::optional<bool> sci_mode = std::nullopt;
};

// Changes how every thread prints tensors from now on. Options without a value stay as they are,
// except sci_mode, whose std::nullopt is a choice. Throws ValueError, without a change, for a
// negative precision or threshold and for edgeitems or a linewidth below 1.
//
//   set_printoptions({.precision = 8});
//   set_printoptions({.profile = "default"});
void set_printoptions(const PrintOptions& options);
// Returns the options in use. All but profile have a value, so that set_printoptions() restores
// them.
PrintOptions get_printoptions();

}  // namespace taper::v0
