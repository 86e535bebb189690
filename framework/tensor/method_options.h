// Choices and options of methods of Tensor and of grad().
//
// A function that takes an options struct may also take the options one by one. Where braces could
// mean both, it is a template then, so that they select the function with the struct.
#pragma once

#include <cstdint>
#include <optional>

#include "framework/base/arguments.h"
#include "framework/base/dtype.h"
#include "framework/base/shape.h"
#include "framework/base/text_enum.h"

namespace taper::v0 {

// Options of Tensor::backward: loss.backward({.retain_graph = true}).
struct BackwardOptions {
  bool retain_graph = false;  // keep the graph, so that it can be differentiated again
  bool create_graph = false;  // record the pass, so that gradients can be differentiated
};

// Options of grad: grad({loss}, {x}, {.create_graph = true}).
struct GradOptions {
  bool retain_graph = false;  // keep the graph; create_graph implies it
  bool create_graph = false;  // record the pass, so that gradients can be differentiated
  bool allow_unused = false;  // return an undefined tensor for an input that is not used
};

// How div rounds a quotient: toward zero or down.
struct RoundingModeValues {
  enum class Value : uint8_t { kTrunc, kFloor };
  static constexpr Value kTrunc = Value::kTrunc, kFloor = Value::kFloor;
  static constexpr const char* kOption = "rounding_mode";
  static constexpr const char* kWords[] = {"trunc", "floor"};
};
using RoundingMode = TextEnum<RoundingModeValues>;

// The formula of gelu: exact, by erf (kNone), or GPT-2's approximation by tanh.
struct GeluApproximateValues {
  enum class Value : uint8_t { kNone, kTanh };
  static constexpr Value kNone = Value::kNone, kTanh = Value::kTanh;
  static constexpr const char* kOption = "approximate";
  static constexpr const char* kWords[] = {"none", "tanh"};
};
using GeluApproximate = TextEnum<GeluApproximateValues>;

// How scatter_reduce combines elements that have the same index.
struct ScatterReduceValues {
  enum class Value : uint8_t { kSum, kProd, kMean, kAmax, kAmin };
  static constexpr Value kSum = Value::kSum, kProd = Value::kProd, kMean = Value::kMean,
                         kAmax = Value::kAmax, kAmin = Value::kAmin;
  static constexpr const char* kOption = "reduce";
  static constexpr const char* kWords[] = {"sum", "prod", "mean", "amax", "amin"};
};
using ScatterReduce = TextEnum<ScatterReduceValues>;

// How a quantile that falls between two elements is computed. kLinear interpolates. kLower and
// kHigher take the lower or the higher element, and kMidpoint takes their mean. kNearest takes the
// nearer element, or the one with the even position if both are equally near.
struct QuantileModeValues {
  enum class Value : uint8_t { kLinear, kLower, kHigher, kMidpoint, kNearest };
  static constexpr Value kLinear = Value::kLinear, kLower = Value::kLower, kHigher = Value::kHigher,
                         kMidpoint = Value::kMidpoint, kNearest = Value::kNearest;
  static constexpr const char* kOption = "interpolation";
  static constexpr const char* kWords[] = {"linear", "lower", "higher", "midpoint", "nearest"};
};
using QuantileMode = TextEnum<QuantileModeValues>;

// Options of quantile: quantile(x, 0.9, {.dim = 1, .interpolation = "lower"}).
struct QuantileOptions {
  std::optional<IntArg> dim = std::nullopt;  // default: the quantile of all elements
  bool keepdim = false;
  QuantileMode interpolation = QuantileMode::kLinear;
};

// Options of unique: unique(x, {.return_counts = true}).
struct UniqueOptions {
  bool sorted = true;  // the result is always sorted
  bool return_inverse = false;
  bool return_counts = false;
};

// Options of isclose and allclose: allclose(a, b, {.atol = 1e-3}).
struct CloseOptions {
  double rtol = 1e-5;
  double atol = 1e-8;
  bool equal_nan = false;  // whether two NaNs are close
};

// Options of norm: x.norm({.p = 1, .dims = {-1}}).
struct NormOptions {
  double p = 2;
  Shape dims = {};  // default: all dimensions
  bool keepdim = false;
  std::optional<DType> dtype = std::nullopt;
};

// Options of diagonal: diagonal(x, {.dim1 = 1, .dim2 = 2}).
struct DiagonalOptions {
  int64_t offset = 0;
  int64_t dim1 = 0, dim2 = 1;
};

// Options of diag_embed: diag_embed(x, {.dim1 = 0, .dim2 = 1}).
struct DiagEmbedOptions {
  int64_t offset = 0;
  int64_t dim1 = -2, dim2 = -1;
};

// Options of slice: x.slice({.dim = 1, .end = -1}) is x[:, :-1].
struct SliceOptions {
  int64_t dim = 0;
  std::optional<IntArg> start = std::nullopt, end = std::nullopt;
  int64_t step = 1;
};

// Options of nan_to_num: nan_to_num(x, {.posinf = 0}).
struct NanToNumOptions {
  double nan = 0;
  std::optional<double> posinf = std::nullopt, neginf = std::nullopt;  // default: dtype's extremes
};

}  // namespace taper::v0
