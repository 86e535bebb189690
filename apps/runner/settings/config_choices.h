// The choices that configs of runs contain.
#pragma once

#include <cstdint>

#include "framework/base/text_enum.h"

namespace taper::v0::runner {

struct PrecisionValues {
  enum class Value : uint8_t { kFp32, kTf32, kBf16, kFp16 };
  static constexpr Value kFp32 = Value::kFp32, kTf32 = Value::kTf32, kBf16 = Value::kBf16,
                         kFp16 = Value::kFp16;
  static constexpr const char* kOption = "precision";
  static constexpr const char* kWords[] = {"fp32", "tf32", "bf16", "fp16"};
};
using Precision = TextEnum<PrecisionValues>;

struct OnNanValues {
  enum class Value : uint8_t { kStop, kSkip, kRollback };
  static constexpr Value kStop = Value::kStop, kSkip = Value::kSkip, kRollback = Value::kRollback;
  static constexpr const char* kOption = "on_nan";
  static constexpr const char* kWords[] = {"stop", "skip", "rollback"};
};
using OnNan = TextEnum<OnNanValues>;

struct GraphValues {
  enum class Value : uint8_t { kAuto, kOn, kOff };
  static constexpr Value kAuto = Value::kAuto, kOn = Value::kOn, kOff = Value::kOff;
  static constexpr const char* kOption = "graph";
  static constexpr const char* kWords[] = {"auto", "on", "off"};
};
using Graph = TextEnum<GraphValues>;

// Whether checkpoints are written while training goes on. kAuto: in runs on a GPU.
struct BackgroundValues {
  enum class Value : uint8_t { kAuto, kOn, kOff };
  static constexpr Value kAuto = Value::kAuto, kOn = Value::kOn, kOff = Value::kOff;
  static constexpr const char* kOption = "background";
  static constexpr const char* kWords[] = {"auto", "on", "off"};
};
using Background = TextEnum<BackgroundValues>;

// What the backward pass computes again instead of keeping it from the forward pass.
struct RecomputeValues {
  enum class Value : uint8_t { kNone, kBlock };
  static constexpr Value kNone = Value::kNone, kBlock = Value::kBlock;
  static constexpr const char* kOption = "recompute";
  static constexpr const char* kWords[] = {"none", "block"};
};
using Recompute = TextEnum<RecomputeValues>;

struct ReduceValues {
  enum class Value : uint8_t { kFp32, kBf16 };
  static constexpr Value kFp32 = Value::kFp32, kBf16 = Value::kBf16;
  static constexpr const char* kOption = "reduce";
  static constexpr const char* kWords[] = {"fp32", "bf16"};
};
using Reduce = TextEnum<ReduceValues>;

// Whether a smaller or a larger value is better. kAuto: as the metric defines.
struct ModeValues {
  enum class Value : uint8_t { kAuto, kMin, kMax };
  static constexpr Value kAuto = Value::kAuto, kMin = Value::kMin, kMax = Value::kMax;
  static constexpr const char* kOption = "mode";
  static constexpr const char* kWords[] = {"auto", "min", "max"};
};
using Mode = TextEnum<ModeValues>;

struct LogFormatValues {
  enum class Value : uint8_t { kText, kJson };
  static constexpr Value kText = Value::kText, kJson = Value::kJson;
  static constexpr const char* kOption = "format";
  static constexpr const char* kWords[] = {"text", "json"};
};
using LogFormat = TextEnum<LogFormatValues>;

}  // namespace taper::v0::runner
