// The float functions of the CPU compared with double: errors in units in the last place over all
// magnitudes, and special values.
#include "framework/kernels/common/math.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "framework/kernels/common/math_gamma.h"
#include "framework/kernels/elementwise/binary_functors.h"
#include "framework/kernels/elementwise/unary.h"
#include "framework/kernels/elementwise/unary_functors.h"

namespace taper::v0 {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kMax = std::numeric_limits<float>::max();
constexpr float kTiny = std::numeric_limits<float>::denorm_min();

// Returns the distance of y from the exact value in units of its last place.
double ulps(float y, double exact) {
  if (std::isnan(exact) || std::isnan(y)) return std::isnan(exact) && std::isnan(y) ? 0 : kInf;
  const float nearest = float(exact);
  if (y == nearest) return 0;
  if (std::isinf(y) || std::isinf(nearest)) return kInf;
  const int exponent = std::max(std::ilogb(exact), -126) - 23;
  return std::abs(double(y) - exact) / std::ldexp(1.0, exponent);
}

struct MathCase {
  const char* name;
  float (*function)(float);
  double (*exact)(double);
  float low, high;
  double max_ulps;
};

double exact_sigmoid(double x) { return 1 / (1 + std::exp(-x)); }
double exact_cdf(double x) { return std::erfc(-x / std::sqrt(2.0)) / 2; }

const MathCase kCases[] = {
    {"exp", math::exp, std::exp, -110, 90, 1.0},
    {"expm1", math::expm1, std::expm1, -110, 90, 2.0},
    {"log", math::log, std::log, 0, kMax, 1.0},
    {"log1p", math::log1p, std::log1p, -1, kMax, 2.0},
    {"tanh", math::tanh, std::tanh, -20, 20, 2.5},
    {"erf", math::erf, std::erf, -10, 10, 2.0},
    {"normal_cdf", kernels::normal_cdf, exact_cdf, -5, 10, 16},  // one part in a million
    {"sigmoid", math::sigmoid<float>, exact_sigmoid, -110, 110, 2.5},
    {"exp2", math::exp2, std::exp2, -160, 130, 1.0},
    {"log2", math::log2, std::log2, 0, kMax, 2.0},
    {"log10", math::log10, std::log10, 0, kMax, 2.0},
    {"asin", math::asin, std::asin, -1, 1, 1.0},
    {"acos", math::acos, std::acos, -1, 1, 1.5},
    {"atan", math::atan, std::atan, -kMax, kMax, 1.5},
    {"sinh", math::sinh, std::sinh, -91, 91, 1.0},
    {"cosh", math::cosh, std::cosh, -91, 91, 1.0},
    {"erfinv", math::erfinv<float>, math::erfinv<double>, -1, 1, 3.0},
};

// Functions that are defined for a part of all floats.
constexpr float kLeast = std::numeric_limits<float>::min(), kMostAngle = math::periodic::kMost;
const MathCase kPartCases[] = {
    {"sin", kernels::Sin::fast, std::sin, -kMostAngle, kMostAngle, 1.5},
    {"cos", kernels::Cos::fast, std::cos, -kMostAngle, kMostAngle, 1.5},
    {"tan", kernels::Tan::fast, std::tan, -kMostAngle, kMostAngle, 2.5},
    {"lgamma", kernels::LogGamma::fast, std::lgamma, kLeast, kMax, 1.0},
    {"lgamma of a GPU", math::gamma::log_gamma<math::gamma::ForFloat>, std::lgamma, kLeast, kMax,
     6.0},
    {"digamma", kernels::Digamma::fast, math::digamma<double>, kLeast, kMax, 1.0},
};

// Calls f with floats of every magnitude between low and high, densely where floats are dense, and
// with equidistant ones.
void sweep(float low, float high, const std::function<void(float)>& f) {
  const auto in_range = [&](float x) {
    if (x >= low && x <= high) f(x);
  };
  const uint32_t infinity_bits = bits_of_float(kInf);
  for (uint32_t bits = 0; bits < infinity_bits; bits += 3001) {
    in_range(float_of_bits(bits));
    in_range(-float_of_bits(bits));
  }
  constexpr int kSteps = 500000;
  for (int i = 0; i <= kSteps; ++i) {
    const float x = float(low + (double(high) - low) * i / kSteps);
    in_range(x);
  }
}

TEST(Math, FloatFunctionsStayWithinTheirUlps) {
  std::vector<MathCase> cases(std::begin(kCases), std::end(kCases));
  cases.insert(cases.end(), std::begin(kPartCases), std::end(kPartCases));
  for (const MathCase& c : cases) {
    double worst = 0;
    float at = 0;
    sweep(c.low, c.high, [&](float x) {
      const double error = ulps(c.function(x), c.exact(double(x)));
      if (error > worst) {
        worst = error;
        at = x;
      }
    });
    EXPECT_LE(worst, c.max_ulps) << c.name << " at " << at << ": " << c.function(at) << ", exactly "
                                 << c.exact(double(at));
    RecordProperty(std::string(c.name) + "_ulps", std::to_string(worst));
  }
}

// erf and erfc, in extended precision, return the argument. Newton's method gives the distance.
TEST(Math, ErfinvOfDoubles) {
  constexpr long double kSlope = 0.886226925452758013649L;  // sqrt(pi) / 2
  const auto error = [&](double x, double y) {
    const long double rest =
        x < 0.5 ? std::erf((long double)y) - x : (1 - x) - std::erfc((long double)y);
    return double(std::abs(rest * kSlope * std::exp((long double)y * y)) / y);
  };
  for (int i = 0; i <= 3000; ++i) {
    for (const double x : {i / 3001.0, std::exp(-i * 0.23), 1 - std::exp(-i * 0.012)}) {
      if (!(x > 1e-300 && x < 1)) continue;
      EXPECT_LE(error(x, math::erfinv(x)), 4e-16) << x;
      EXPECT_EQ(math::erfinv(-x), -math::erfinv(x));
    }
  }
  EXPECT_EQ(math::erfinv(1.0), std::numeric_limits<double>::infinity());
  EXPECT_EQ(math::erfinv(-1.0), -std::numeric_limits<double>::infinity());
  EXPECT_TRUE(std::isnan(math::erfinv(1.5)) && std::isnan(math::erfinv(double(kNan))));
  EXPECT_TRUE(math::erfinv(-0.0) == 0 && std::signbit(math::erfinv(-0.0)));
  EXPECT_NEAR(math::erfinv(1 - 0x1p-53), 5.8635847487551676, 1e-15);
}

struct Edge {
  const char* name;
  float (*function)(float);
  float x, y;
};

const Edge kEdges[] = {
    {"exp", math::exp, kInf, kInf},
    {"exp", math::exp, -kInf, 0},
    {"exp", math::exp, 0, 1},
    {"exp", math::exp, -0.0f, 1},
    {"exp", math::exp, 88.8f, kInf},
    {"exp", math::exp, -104.0f, 0},
    {"exp", math::exp, kMax, kInf},
    {"exp", math::exp, -kMax, 0},
    {"expm1", math::expm1, kInf, kInf},
    {"expm1", math::expm1, -kInf, -1},
    {"expm1", math::expm1, -0.0f, -0.0f},
    {"expm1", math::expm1, kTiny, kTiny},
    {"log", math::log, 0, -kInf},
    {"log", math::log, -0.0f, -kInf},
    {"log", math::log, -1, kNan},
    {"log", math::log, -kInf, kNan},
    {"log", math::log, kInf, kInf},
    {"log", math::log, 1, 0},
    {"log", math::log, -kTiny, kNan},
    {"log1p", math::log1p, -1, -kInf},
    {"log1p", math::log1p, -2, kNan},
    {"log1p", math::log1p, -kInf, kNan},
    {"log1p", math::log1p, kInf, kInf},
    {"log1p", math::log1p, -0.0f, -0.0f},
    {"log1p", math::log1p, kTiny, kTiny},
    {"tanh", math::tanh, kInf, 1},
    {"tanh", math::tanh, -kInf, -1},
    {"tanh", math::tanh, -0.0f, -0.0f},
    {"tanh", math::tanh, kTiny, kTiny},
    {"erf", math::erf, kInf, 1},
    {"erf", math::erf, -kInf, -1},
    {"erf", math::erf, -0.0f, -0.0f},
    {"sigmoid", math::sigmoid, kInf, 1},
    {"sigmoid", math::sigmoid, -kInf, 0},
    {"sigmoid", math::sigmoid, 0, 0.5f},
    {"exp2", math::exp2, kInf, kInf},
    {"exp2", math::exp2, -kInf, 0},
    {"exp2", math::exp2, -149, kTiny},
    {"exp2", math::exp2, 128, kInf},
    {"exp2", math::exp2, 10, 1024},
    {"log2", math::log2, 0, -kInf},
    {"log2", math::log2, -1, kNan},
    {"log2", math::log2, kTiny, -149},
    {"log2", math::log2, 1024, 10},
    {"log10", math::log10, 0, -kInf},
    {"log10", math::log10, kInf, kInf},
    {"log10", math::log10, 1e10f, 10},
    {"asin", math::asin, 1.5f, kNan},
    {"asin", math::asin, -0.0f, -0.0f},
    {"asin", math::asin, 1, 1.57079637f},
    {"asin", math::asin, -1, -1.57079637f},
    {"acos", math::acos, -1.5f, kNan},
    {"acos", math::acos, 1, 0},
    {"acos", math::acos, -1, 3.14159274f},
    {"acos", math::acos, -0.0f, 1.57079637f},
    {"atan", math::atan, -0.0f, -0.0f},
    {"atan", math::atan, kTiny, kTiny},
    {"atan", math::atan, -kInf, -1.57079637f},
    {"sin", kernels::Sin::fast, -0.0f, -0.0f},
    {"sin", kernels::Sin::fast, kTiny, kTiny},
    {"cos", kernels::Cos::fast, -0.0f, 1},
    {"tan", kernels::Tan::fast, -0.0f, -0.0f},
    {"lgamma of a GPU", math::gamma::log_gamma<math::gamma::ForFloat>, 1, 0},
    {"lgamma of a GPU", math::gamma::log_gamma<math::gamma::ForFloat>, 2, 0},
    {"lgamma of a GPU", math::gamma::log_gamma<math::gamma::ForFloat>, -0.0f, kInf},
    {"lgamma of a GPU", math::gamma::log_gamma<math::gamma::ForFloat>, -3, kInf},
    {"lgamma of a GPU", math::gamma::log_gamma<math::gamma::ForFloat>, kInf, kInf},
    {"lgamma of a GPU", math::gamma::log_gamma<math::gamma::ForFloat>, -kInf, kInf},
    {"lgamma of a GPU", math::gamma::log_gamma<math::gamma::ForFloat>, kNan, kNan},
    {"lgamma of a GPU", math::gamma::log_gamma<math::gamma::ForFloat>, kTiny, 103.278931f},
    {"lgamma for half types", math::gamma::log_gamma<math::gamma::ForHalf>, 1, 0},
    {"lgamma for half types", math::gamma::log_gamma<math::gamma::ForHalf>, 2, 0},
    {"lgamma for half types", math::gamma::log_gamma<math::gamma::ForHalf>, kInf, kInf},
    {"lgamma for half types", math::gamma::log_gamma<math::gamma::ForHalf>, -kInf, kInf},
    {"lgamma for half types", math::gamma::log_gamma<math::gamma::ForHalf>, kNan, kNan},
    {"sinh", math::sinh, -kInf, -kInf},
    {"sinh", math::sinh, -0.0f, -0.0f},
    {"cosh", math::cosh, -kInf, kInf},
};

TEST(Math, EdgesAreExact) {
  for (const Edge& e : kEdges) {
    const float y = e.function(e.x);
    if (std::isnan(e.y)) {
      EXPECT_TRUE(std::isnan(y)) << e.name << "(" << e.x << ") = " << y;
      continue;
    }
    EXPECT_EQ(y, e.y) << e.name << "(" << e.x << ")";
    EXPECT_EQ(std::signbit(y), std::signbit(e.y)) << e.name << "(" << e.x << ")";
  }
  for (const MathCase& c : kCases) EXPECT_TRUE(std::isnan(c.function(kNan))) << c.name;
}

// The formulas for a GPU, whose instruction for reciprocals rounds differently.
TEST(Math, LgammaOfAGpuFollowsTheExactOne) {
  double of_half = 0, below_zero = 0;
  sweep(kLeast, 3e38f, [&](float x) {
    const double exact = std::lgamma(double(x));
    const float y = math::gamma::log_gamma<math::gamma::ForHalf>(x);
    if (std::abs(exact) < kMax) of_half = std::max(of_half, std::abs(y - exact) / std::abs(exact));
  });
  sweep(-1e7f, -kTiny, [&](float x) {
    const double exact = std::lgamma(double(x));
    const float y = math::gamma::log_gamma<math::gamma::ForFloat>(x);
    if (std::isinf(exact) && y == kInf) return;
    below_zero = std::max(below_zero, std::abs(y - exact) / (1 + std::abs(exact)));
  });
  EXPECT_LE(of_half, 4e-5);
  EXPECT_LE(below_zero, 1e-6);
}

// Functions that are computed by polynomials.
constexpr kernels::UnaryOp kFormulas[] = {
    kernels::UnaryOp::kExp,        kernels::UnaryOp::kExpm1,      kernels::UnaryOp::kExp2,
    kernels::UnaryOp::kLog,        kernels::UnaryOp::kLog2,       kernels::UnaryOp::kLog10,
    kernels::UnaryOp::kLog1p,      kernels::UnaryOp::kSin,        kernels::UnaryOp::kCos,
    kernels::UnaryOp::kTan,        kernels::UnaryOp::kAsin,       kernels::UnaryOp::kAcos,
    kernels::UnaryOp::kAtan,       kernels::UnaryOp::kSinh,       kernels::UnaryOp::kCosh,
    kernels::UnaryOp::kTanh,       kernels::UnaryOp::kSigmoid,    kernels::UnaryOp::kErf,
    kernels::UnaryOp::kErfinv,     kernels::UnaryOp::kGelu,       kernels::UnaryOp::kGeluTanh,
    kernels::UnaryOp::kSilu,       kernels::UnaryOp::kElu,        kernels::UnaryOp::kSelu,
    kernels::UnaryOp::kCelu,       kernels::UnaryOp::kSoftplus,   kernels::UnaryOp::kMish,
    kernels::UnaryOp::kLogsigmoid, kernels::UnaryOp::kTanhshrink, kernels::UnaryOp::kLgamma,
    kernels::UnaryOp::kDigamma,    kernels::UnaryOp::kRsqrt};

// Returns numbers of all magnitudes and signs, and special ones.
std::vector<float> numbers_of_all_magnitudes() {
  std::vector<float> x = {0, -0.0f, kNan, kInf, -kInf, kMax, -kMax, kTiny, -kTiny};
  for (uint32_t bits = 0; bits < bits_of_float(kInf); bits += 200003) {
    x.push_back(float_of_bits(bits));
    x.push_back(-float_of_bits(bits));
  }
  for (int i = -2000; i < 2000; ++i) x.push_back(float(i) * 0.0137f);
  return x;
}

#if defined(__x86_64__) && defined(__GNUC__)
template <class F> void apply(float* y, const float* x, size_t n, F f) {
#pragma omp simd
  for (size_t i = 0; i < n; ++i) y[i] = f(x[i]);
}
template <class F>
__attribute__((target("arch=x86-64-v3"), flatten)) void apply_v3(float* y, const float* x, size_t n,
                                                                 F f) {
  apply(y, x, n, f);
}
template <class F>
__attribute__((target("arch=x86-64-v4"), flatten)) void apply_v4(float* y, const float* x, size_t n,
                                                                 F f) {
  apply(y, x, n, f);
}

TEST(Math, InstructionSetsGiveTheSameBits) {
  if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma")) GTEST_SKIP();
  const std::vector<float> x = numbers_of_all_magnitudes();
  std::vector<float> plain(x.size()), wide(x.size());
  for (const kernels::UnaryOp op : kFormulas) {
    kernels::visit(op, kernels::UnaryArgs{1.5, 0}, [&](auto functor) {
      const auto f = [=](float number) {
        if constexpr (requires { functor.fast(number); }) {
          return functor.fits(number) ? functor.fast(number) : functor(number);
        } else {
          return float(functor(number));
        }
      };
      const auto expect_same = [&](const char* name) {
        for (size_t i = 0; i < x.size(); ++i) {
          if (std::isnan(plain[i]) && std::isnan(wide[i])) continue;
          ASSERT_EQ(bits_of_float(plain[i]), bits_of_float(wide[i]))
              << kernels::name_of(op) << "(" << x[i] << ") with " << name;
        }
      };
      apply(plain.data(), x.data(), x.size(), f);
      apply_v3(wide.data(), x.data(), x.size(), f);
      expect_same("AVX2");
      if (!__builtin_cpu_supports("avx512f") || !__builtin_cpu_supports("avx512vl")) return;
      apply_v4(wide.data(), x.data(), x.size(), f);
      expect_same("AVX-512");
    });
  }
}
#endif

// A vector loop gives the bits of the scalar formula, for the instruction set of the CPU.
TEST(Math, VectorLoopsGiveTheBitsOfTheScalarFormula) {
  using kernels::UnaryOp;
  const std::vector<float> numbers = numbers_of_all_magnitudes();
  Tensor x = Tensor::make({int64_t(numbers.size())}, kFloat32, Device()), y = x.clone();
  float* xs = x.data<float>();
  std::copy(numbers.begin(), numbers.end(), xs);
  for (const UnaryOp op : kFormulas) {
    const kernels::UnaryArgs args{1.5, 0};
    kernels::unary_into(op, y, x, args);
    kernels::visit(op, args, [&](auto functor) {
      if constexpr (!decltype(functor)::kIntegers) {
        for (int64_t i = 0; i < x.numel(); ++i) {
          const float vector = y.data<float>()[i];
          float scalar = functor(xs[i]);
          if constexpr (requires { functor.fast(xs[i]); }) {
            if (functor.fits(xs[i])) scalar = functor.fast(xs[i]);
          }
          if (std::isnan(vector) && std::isnan(scalar)) continue;
          ASSERT_EQ(bits_of_float(vector), bits_of_float(scalar))
              << kernels::name_of(op) << "(" << xs[i] << ")";
        }
      }
    });
  }
}

// Pairs of all magnitudes, and special values.
TEST(Math, FormsOfTwoNumbersAgreeWithTheExactOnes) {
  std::vector<float> numbers = {0,    -0.0f, 1,     -1,    2,   -3,       kInf, -kInf, kNan,
                                kMax, kTiny, -7.5f, 0.25f, 1e7, 16777216, 0.1f, -0.3f};
  for (uint32_t bits = 0; bits < bits_of_float(kInf); bits += 5000011) {
    numbers.push_back(float_of_bits(bits));
    numbers.push_back(-float_of_bits(bits));
  }
  const auto same = [](float a, float b) {
    return bits_of_float(a) == bits_of_float(b) || (std::isnan(a) && std::isnan(b));
  };
  using namespace kernels;
  for (const float a : numbers) {
    for (const float b : numbers) {
      if (Fmod::fits(a, b)) {
        ASSERT_TRUE(same(Fmod::fast(a, b), std::fmod(a, b))) << a << ", " << b;
        ASSERT_TRUE(same(Remainder::fast(a, b), python_mod(a, b))) << a << ", " << b;
      }
      if (FloorDivide::fits(a, b)) {
        ASSERT_TRUE(same(FloorDivide::fast(a, b), floor_div(a, b))) << a << ", " << b;
      }
      if (Pow::fits(a, b)) {
        ASSERT_LE(ulps(Pow::fast(a, b), std::pow(double(a), double(b))), 0.51) << a << ", " << b;
      }
      ASSERT_LE(ulps(math::atan2(a, b), std::atan2(double(a), double(b))), 0.51) << a << ", " << b;
      ASSERT_EQ(std::signbit(math::atan2(a, b)) || std::isnan(a) || std::isnan(b),
                std::signbit(std::atan2(a, b)) || std::isnan(a) || std::isnan(b));
    }
  }
}

// Box and Muller's formula in double (or long double) with std's functions.
template <class T> void expect_normals_follow_the_formula(double tolerance) {
  using Exact = long double;
  const Exact two_pi = 6.283185307179586476925286766559L;
  constexpr int kSide = 400;
  for (int i = 0; i < kSide; ++i) {
    for (int j = 0; j < kSide; ++j) {
      // The last value of each is the largest number below 1.
      const T largest = T(1) - std::numeric_limits<T>::epsilon() / 2;
      const T u = i + 1 == kSide ? largest : T(i) / T(kSide), v = T(j) / T(kSide);
      const auto z = math::normal_from_uniform(u, j + 1 == kSide ? largest : v);
      const Exact radius = std::sqrt(-2 * std::log1p(-Exact(u)));
      const Exact angle = two_pi * Exact(j + 1 == kSide ? largest : v);
      ASSERT_NEAR(double(z.cosine), double(radius * std::cos(angle)), tolerance) << u << ", " << v;
      ASSERT_NEAR(double(z.sine), double(radius * std::sin(angle)), tolerance) << u << ", " << v;
    }
  }
}

TEST(Math, NormalsFollowBoxAndMuller) {
  expect_normals_follow_the_formula<float>(3e-6);
  expect_normals_follow_the_formula<double>(4e-15);
}

}  // namespace
}  // namespace taper::v0
