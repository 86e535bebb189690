// How an options struct tells of itself, once, beside its fields:
//
//   struct SoftplusOptions {
//     double beta = 1, threshold = 20;
//     template <class V> void describe(V& v) {
//       v("beta", beta, kPositive, "sharpness of the bend");
//       v("threshold", threshold, kAny, "beyond it the line itself");
//     }
//   };
//
// The struct stays an aggregate: {.beta = 2}. Whoever reads, checks, prints, saves or documents
// options passes a visitor that is called for each field with its name, the field itself (which
// holds its default), what it must lie in, and a line of text: v(name, field, range, text), or
// v(name, field, text) where nothing bounds it. Of an enum the names of its values stand in place
// of the range, in the order of the values, which begin at 0: v("mode", mode, {"nearest",
// "bilinear"}, text). Where fields must go together, rules() tells what holds then, by the field
// that is to blame:
//
//   template <class V> void rules(V& v) {
//     v("n_head", "must divide n_embd", [this] { return n_embd % n_head == 0; });
//   }
#pragma once

#include <limits>

#include "framework/base/namespace.h"

namespace taper::v0 {

inline constexpr double kInfinity = std::numeric_limits<double>::infinity();

// What a number, or each number of a list, must lie in.
struct Range {
  double low = -kInfinity;
  double high = kInfinity;
  bool low_open = false;
  bool high_open = false;

  constexpr bool contains(double value) const {
    return (low_open ? value > low : value >= low) && (high_open ? value < high : value <= high);
  }
};
inline constexpr Range kAny{};
inline constexpr Range kPositive{0, kInfinity, true, false};
inline constexpr Range kNonNegative{0, kInfinity, false, false};
inline constexpr Range kBelowOne{0, 1, false, true};
inline constexpr Range kBetweenZeroAndOne{0, 1, true, true};
inline constexpr Range kUnit{0, 1, false, false};
// Sizes and counts: beyond these a number is a slip of the finger.
inline constexpr Range kWidth{1, 1 << 24};
inline constexpr Range kWidthOrNone{0, 1 << 24};
inline constexpr Range kCount{1, 1'000'000'000};
inline constexpr Range kCountOrNone{0, 1'000'000'000};

// In place of the range: the text names a file or directory, and is not empty.
struct PathForm {};
inline constexpr PathForm kPath{};

}  // namespace taper::v0
