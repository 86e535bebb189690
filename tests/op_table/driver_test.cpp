// Runs every check for every row of the op table on every device.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <limits>
#include <set>
#include <sstream>

#include <gtest/gtest.h>

#include "autograd/engine.h"
#include "autograd/ops/binary_ops.h"
#include "autograd/ops/reduce_ops.h"
#include "autograd/ops/shape_ops.h"
#include "framework/cuda/cuda.h"
#include "framework/factory/factories.h"
#include "framework/kernels/linalg/factorizations.h"
#include "framework/profiler/trace.h"
#include "tests/layouts.h"
#include "tests/op_table/op_table.h"
#include "tests/testing.h"

namespace taper::v0::test {
namespace {

// Enough elements for the interesting shapes of every row. Finite differences take two calls per
// element.
constexpr int64_t kMostForDifferences = 130;
constexpr int64_t kMostForSecond = 40;

// TAPER_ROWS=3/16 selects every 16th row, beginning with the fourth, to divide the rows among
// several processes. Any other text selects the rows whose title contains it.
bool is_wanted(size_t row) {
  static const char* const text = std::getenv("TAPER_ROWS");
  size_t part = 0, parts = 1;
  if (!text) return true;
  if (std::sscanf(text, "%zu/%zu", &part, &parts) != 2) {
    return all_rows()[row].title().find(text) != std::string::npos;
  }
  if (part >= parts)
    throw ValueError(concat_to_string("TAPER_ROWS: expected a part as 3/16, got ", text));
  return row % parts == part;
}

// Returns whether this machine can compute the row. Linear algebra needs LAPACK.
bool is_runnable(const Row& row) {
  static const std::map<std::string, std::string> family_of = declared_operators();
  const auto family = family_of.find(row.name);
  return family == family_of.end() || family->second != "linalg" || !*kernels::missing_lapack();
}

template <class F> void for_each_row(F f) {
  for (size_t i = 0; i < all_rows().size(); ++i) {
    if (!is_wanted(i) || !is_runnable(all_rows()[i])) continue;
    const Row& row = all_rows()[i];
    SCOPED_TRACE(row.title());
    try {
      f(row);
    } catch (const std::exception& error) {
      ADD_FAILURE() << error.what();
    }
  }
}

std::string shapes_of(const Tensors& x) {
  std::string out;
  for (const Tensor& t : x)
    out += concat_to_string(out.empty() ? "" : " and ", t.shape(), " ", t.dtype());
  return out;
}

std::vector<Array> arrays_of(const Tensors& x) {
  std::vector<Array> out;
  for (const Tensor& t : x) out.push_back(array_of(t));
  return out;
}

DType dtype_given(Gives gives, DType t) {
  switch (gives) {
    case Gives::kBoolean: return kBool;
    case Gives::kInt64: return kInt64;
    case Gives::kFloat64: return kFloat64;
    case Gives::kWide: return is_floating_point(t) ? t : kInt64;
    case Gives::kFloating: return is_floating_point(t) ? t : kFloat32;
    default: return t;
  }
}

// Rounds the values of a reference to what the dtype can hold.
std::vector<double> held_by(DType t, std::vector<double> values) {
  for (double& v : values) {
    if (t == kBool) v = v != 0;
    if (t == kUInt8) v = uint8_t(int64_t(v));
    if (t == kFloat32) v = float(v);
  }
  return values;
}

testing::AssertionResult matches(const Row& row, const Tensors& x, DType dtype) {
  const Array want = row.reference(arrays_of(x));
  const Tensor y = row.f(x);
  const DType gives = dtype_given(row.gives, dtype);
  if (y.dtype() != gives) {
    return testing::AssertionFailure()
           << "the result is " << name_of(y.dtype()) << ", expected " << name_of(gives);
  }
  return close(y, want.shape, held_by(gives, want.v), row.tolerance.of(gives));
}

bool differentiable(const Row& row) { return row.derivative != Derivative::kNone; }

// Returns the differentiable arguments as leaves.
Tensors leaves_of(const Row& row, const Tensors& x) {
  Tensors leaves;
  for (size_t i = 0; i < x.size(); ++i) {
    if (!row.domain(i).dtype) leaves.push_back(x[i].requires_grad_());
  }
  return leaves;
}

int64_t numel_of(const Tensors& x) {
  int64_t n = 0;
  for (const Tensor& t : x) n += t.numel();
  return n;
}

// Returns a fixed direction for the gradient of a result. Its values are exact in every dtype.
Tensor direction(const Tensor& y) {
  return filled(y.shape(), {-1, 1, 1.0 / 16}, 99, y.dtype(), y.device());
}

Tensors gradients(const Row& row, const Tensors& x) {
  const Tensors leaves = leaves_of(row, x);
  const Tensor y = row.f(x);
  return grad({y}, leaves, {direction(y)}, {.allow_unused = true});
}

// Returns row.f as a function of its differentiable arguments only.
Function of_leaves(const Row& row, const Tensors& x) {
  return [&row, x](const Tensors& leaves) {
    Tensors all = x;
    size_t next = 0;
    for (size_t i = 0; i < all.size(); ++i) {
      if (!row.domain(i).dtype) all[i] = leaves[next++];
    }
    return row.f(all);
  };
}

Tensors laid_out(const Layout& layout, const Tensors& x) {
  Tensors out;
  for (const Tensor& t : x) out.push_back(layout.of(t));
  return out;
}

// --- the checks ---

TEST(OpTable, EveryPublicOperatorHasARow) {
  const std::map<std::string, std::string> declared = declared_operators();
  std::set<std::string> rows;
  for (const Row& row : all_rows()) rows.insert(row.name);
  for (const auto& [name, family] : declared) {
    EXPECT_TRUE(rows.count(name)) << name << " has no row in tests/op_table";
  }
  for (const std::string& name : rows) {
    EXPECT_TRUE(declared.count(name)) << name << " is not declared in autograd/ops";
  }
}

TEST(OpTable, ThePageOfOperatorsIsInStep) {
  std::ifstream file(TAPER_SOURCE_DIR "/docs/operators.md");
  const std::string page{std::istreambuf_iterator<char>(file), {}};
  EXPECT_TRUE(page == operators_page())
      << "regenerate it: build/tests/test_ops --docs > docs/operators.md";
}

TEST(OpTable, ThePageOfOperatorsHasEverySignature) {
  const std::string page = operators_page();
  for (const auto& [name, family] : declared_operators()) {
    EXPECT_TRUE(page.find(" " + name + "(") != std::string::npos) << name << " has no signature";
  }
  for (const char* expected :
       {"Tensor softplus(const Tensor& x, RealArg beta = 1, RealArg threshold = 20);\n",
        "struct PoissonNllOptions {\n  bool log_input = true;",
        // A declaration of two lines, whose attribute is removed.
        "Tensor clamp(const Tensor& x, std::optional<Scalar> min,\n"
        "             std::optional<Scalar> max = std::nullopt);\n"}) {
    EXPECT_TRUE(page.find(expected) != std::string::npos) << expected;
  }
}

TEST(OpTable, ValuesMatchTheReferenceInEveryDtype) {
  for_each_row([](const Row& row) {
    for (const Device device : all_devices()) {
      for (const DType dtype : row.dtypes) {
        for (size_t s = 0; s < row.samples.size(); ++s) {
          const Tensors x = arguments(row, s, dtype, device);
          EXPECT_TRUE(matches(row, x, dtype)) << shapes_of(x) << " on " << to_string(device);
        }
      }
    }
  });
}

// A trace detects that a result depends on the arguments: from the recorded ops, from the tape, or
// from a read on the host, which it is notified of. Otherwise an export would treat such a result
// as a constant.
TEST(OpTable, ATraceKnowsWhatFollowsFromTheArguments) {
  for_each_row([](const Row& row) {
    for (size_t s = 0; s < row.samples.size() && !row.dtypes.empty(); ++s) {
      Tensors x = arguments(row, s, row.dtypes[0], Device());
      if (x.empty()) return;
      std::set<const Storage*> known;
      Tensors kept;
      for (Tensor& t : x) {
        if (t.is_floating_point()) t = t.detach().requires_grad_();
        known.insert(t.storage().get());
      }
      const auto follows = [&](const Tensor& t) {
        return t.defined() && (t.requires_grad() || known.count(t.storage().get()) > 0);
      };
      bool is_read = false;
      Tensor y;
      {
        const Trace trace(
            [&](const TracedOp& op) {
              if (!std::ranges::any_of(op.inputs, follows)) return;
              for (const Tensor& t : op.outputs) known.insert(t.storage().get());
              kept.insert(kept.end(), op.outputs.begin(), op.outputs.end());
            },
            [&](const Tensor& t) { is_read = is_read || follows(t); });
        y = row.f(x);
      }
      // Results that follow from shapes alone are constants: counts of a single element, and
      // `equal` for two different shapes.
      const bool by_shapes =
          x[0].numel() < 2 || (row.name == "equal" && x[0].shape() != x[1].shape());
      EXPECT_TRUE(is_read || y.numel() == 0 || follows(y) || by_shapes) << shapes_of(x);
    }
  });
}

TEST(OpTable, SpecialValuesFollowTheReference) {
  const double inf = std::numeric_limits<double>::infinity();
  const std::vector<double> specials = {0.0, -0.0, 1, -1, inf, -inf, NAN, 1e4, -1e4, 1e-30};
  const int64_t n = int64_t(specials.size());
  for_each_row([&](const Row& row) {
    if (!row.specials) return;
    for (const Device device : all_devices()) {
      for (const DType dtype : {kFloat32, kFloat64}) {
        if (std::ranges::count(row.dtypes, dtype) == 0) continue;
        const Tensor x = tensor_of(specials.data(), {n}, {.dtype = dtype, .device = device});
        const bool pairs = row.samples[0].size() == 2;
        const Tensors arguments = pairs ? Tensors{x.view({n, 1}), x} : Tensors{x};
        EXPECT_TRUE(matches(row, arguments, dtype)) << name_of(dtype) << " " << to_string(device);
      }
    }
  });
}

TEST(OpTable, LayoutsDoNotChangeValues) {
  for_each_row([](const Row& row) {
    if (std::ranges::count(row.dtypes, kFloat32) == 0) return;
    for (const Device device : all_devices()) {
      for (const Layout& layout : kLayouts) {
        for (size_t s = 0; s < row.samples.size(); ++s) {
          const Tensors x = laid_out(layout, arguments(row, s, kFloat32, device));
          EXPECT_TRUE(matches(row, x, kFloat32))
              << layout.name << " " << shapes_of(x) << " on " << to_string(device);
        }
      }
    }
  });
}

TEST(OpTable, LayoutsDoNotChangeGradients) {
  for_each_row([](const Row& row) {
    if (!differentiable(row)) return;
    for (const Device device : all_devices()) {
      for (const Layout& layout : kLayouts) {
        for (size_t s = 0; s < row.samples.size(); ++s) {
          const Tensors x = laid_out(layout, arguments(row, s, kFloat64, device));
          Tensors dense;
          for (const Tensor& t : x) dense.push_back(t.clone().contiguous().detach());
          const Tensors got = gradients(row, x), want = gradients(row, dense);
          for (size_t i = 0; i < got.size(); ++i) {
            EXPECT_TRUE(close(got[i], want[i], 1e-11))
                << layout.name << ", gradient " << i << " of " << shapes_of(x) << " on "
                << to_string(device);
          }
        }
      }
    }
  });
}

TEST(OpTable, OperatorsLeaveTheirArgumentsAlone) {
  for_each_row([](const Row& row) {
    for (const Device device : all_devices()) {
      const Tensors x = arguments(row, row.samples.size() - 1, kFloat32, device);
      const std::vector<Array> before = arrays_of(x);
      (void)row.f(x);
      for (size_t i = 0; i < x.size(); ++i) {
        EXPECT_EQ(x[i].version(), 0u);
        EXPECT_TRUE(close(x[i], before[i].shape, before[i].v, 0));
      }
    }
  });
}

TEST(OpTable, GradientsMatchDifferences) {
  for_each_row([](const Row& row) {
    if (!differentiable(row)) return;
    for (const Device device : all_devices()) {
      for (size_t s = 0; s < row.samples.size(); ++s) {
        const Tensors x = arguments(row, s, kFloat64, device);
        if (numel_of(x) > kMostForDifferences) continue;
        EXPECT_NO_THROW(gradcheck(of_leaves(row, x), leaves_of(row, x)))
            << shapes_of(x) << " on " << to_string(device);
      }
    }
  });
}

// A scalar that depends on y nonlinearly.
Tensor curved(const Tensor& y) { return sum((y * y + y) * direction(y)); }

// The gradient of a nonlinear function of the result, as a function of the arguments.
Function gradient_of(const Row& row, const Tensors& x, size_t input) {
  return [f = of_leaves(row, x), input](const Tensors& given) {
    const AutoGradMode mode(true);
    Tensors leaves;
    for (const Tensor& t : given) {
      leaves.push_back(t.requires_grad() ? t : t.detach().requires_grad_());
    }
    const Tensor dx = grad({curved(f(leaves))}, {leaves[input]}, {.create_graph = true})[0];
    // Keeps the result on the tape if the gradient does not depend on the arguments.
    return dx + sum(leaves[0] * 0);
  };
}

// Returns the derivative of sum(f(leaves) * dy) by element j of leaf i. It uses differences of the
// eighth order, which are accurate to ten digits in float64.
double slope(const Function& f, const Tensors& leaves, const Tensor& dy, size_t i, int64_t j,
             double h) {
  const NoGradGuard no_grad;
  const auto at = [&](double shift) {
    std::vector<double> moved = leaves[i].cpu().to_vector<double>();
    moved[size_t(j)] += shift;
    Tensors x = leaves;
    x[i] = tensor_of(moved.data(), leaves[i].shape(), {.device = leaves[i].device()});
    return f(x);
  };
  constexpr double kWeights[] = {4.0 / 5, -1.0 / 5, 4.0 / 105, -1.0 / 280};
  double total = 0;
  for (int k = 1; k <= 4; ++k) {
    total += kWeights[k - 1] * sum((at(k * h) - at(-k * h)) * dy).item<double>();
  }
  return total / h;
}

// Checks the gradients of a few elements of every leaf. Shorter steps are tried in case the
// function has a kink in between.
testing::AssertionResult has_digits(const Function& f, const Tensors& leaves) {
  const Tensor y = f(leaves), dy = direction(y);
  if (!y.requires_grad()) return testing::AssertionSuccess();
  const Tensors got = grad({y}, leaves, {dy}, {.allow_unused = true});
  for (size_t i = 0; i < leaves.size(); ++i) {
    const int64_t n = leaves[i].numel();
    for (int64_t j = 0; j < n; j += std::max<int64_t>(1, n / 3)) {
      const double have = got[i].defined() ? got[i].cpu().to_vector<double>()[size_t(j)] : 0;
      double want = 0;
      bool same = false;
      for (const double h : {1e-2, 1e-3, 1e-4}) {
        want = slope(f, leaves, dy, i, j, h);
        same = same || std::abs(have - want) <= 1e-9 * (1 + std::abs(want));
        if (same) break;
      }
      if (same) continue;
      return testing::AssertionFailure()
             << "input " << i << ", element " << j << ": the tape gives " << have
             << ", finite differences " << want << ", difference " << have - want;
    }
  }
  return testing::AssertionSuccess();
}

TEST(OpTable, GradientsOfDoubleHaveItsDigits) {
  for_each_row([](const Row& row) {
    if (!differentiable(row)) return;
    for (const Device device : all_devices()) {
      for (size_t s = 0; s < row.samples.size(); ++s) {
        const Tensors x = arguments(row, s, kFloat64, device), leaves = leaves_of(row, x);
        if (numel_of(x) > kMostForDifferences) continue;
        EXPECT_TRUE(has_digits(of_leaves(row, x), leaves)) << shapes_of(x) << to_string(device);
        if (row.derivative != Derivative::kSecond || numel_of(x) > kMostForSecond) continue;
        if (row.f(x).numel() == 0) continue;
        for (size_t i = 0; i < leaves.size(); ++i) {
          EXPECT_TRUE(has_digits(gradient_of(row, x, i), leaves))
              << "second derivative of argument " << i << ": " << shapes_of(x);
        }
      }
    }
  });
}

// Operators that are views in PyTorch, and those that return their argument if there is nothing to
// do.
const std::set<std::string> kViews = {
    "chunk",     "contiguous", "diagonal",  "dropout",   "dropout2d", "dropout3d",    "einsum",
    "expand",    "expand_as",  "flatten",   "movedim",   "narrow",    "permute",      "reshape",
    "select",    "slice",      "split",     "squeeze",   "sum_to",    "tensor_split", "to_copy",
    "transpose", "unbind",     "unflatten", "unsqueeze", "view",      "view_as"};

bool overlaps(const Tensor& x) {
  for (int d = 0; d < x.dim(); ++d) {
    if (x.strides()[d] == 0 && x.shape()[d] > 1 && x.numel() > 0) return true;
  }
  return false;
}

TEST(OpTable, ResultsOwnTheirMemory) {
  for_each_row([](const Row& row) {
    if (kViews.count(row.name)) return;
    for (const Device device : all_devices()) {
      for (size_t s = 0; s < row.samples.size(); ++s) {
        const Tensors x = arguments(row, s, kFloat32, device);
        const Tensor y = row.f(x);
        EXPECT_FALSE(overlaps(y)) << shapes_of(x) << ", strides " << to_string(y.strides());
        for (const Tensor& t : x) EXPECT_NE(y.storage(), t.storage()) << shapes_of(x);
      }
    }
  });
}

TEST(OpTable, GradientsOfLeavesOwnTheirMemory) {
  for_each_row([](const Row& row) {
    if (!differentiable(row)) return;
    for (const Device device : all_devices()) {
      for (size_t s = 0; s < row.samples.size(); ++s) {
        const Tensors leaves = leaves_of(row, arguments(row, s, kFloat32, device));
        const Tensor y = of_leaves(row, arguments(row, s, kFloat32, device))(leaves);
        if (!y.requires_grad()) continue;
        y.backward(direction(y));
        for (const Tensor& x : leaves) {
          EXPECT_FALSE(x.grad().defined() && overlaps(x.grad())) << shapes_of(leaves);
        }
      }
    }
  });
}

TEST(OpTable, GradientsOfLowerPrecisionFollowDouble) {
  for_each_row([](const Row& row) {
    if (!differentiable(row)) return;
    for (const Device device : all_devices()) {
      for (const DType dtype : {kFloat32, kFloat16, kBFloat16}) {
        if (std::ranges::count(row.dtypes, dtype) == 0) continue;
        for (size_t s = 0; s < row.samples.size(); ++s) {
          const Tensors x = arguments(row, s, dtype, device);
          Tensors wide;
          for (const Tensor& t : x) wide.push_back(t.is_floating_point() ? t.to(kFloat64) : t);
          const Tensors got = gradients(row, x), want = gradients(row, wide);
          for (size_t i = 0; i < got.size(); ++i) {
            if (!got[i].defined() && !want[i].defined()) continue;
            EXPECT_EQ(got[i].dtype(), dtype);
            EXPECT_TRUE(close(got[i], want[i], row.tolerance.gradient * row.tolerance.of(dtype)))
                << "gradient " << i << " of " << shapes_of(x) << " on " << to_string(device);
          }
        }
      }
    }
  });
}

TEST(OpTable, SecondDerivativesMatchDifferencesOrAreRefused) {
  for_each_row([](const Row& row) {
    if (!differentiable(row)) return;
    for (const Device device : all_devices()) {
      for (size_t s = 0; s < row.samples.size(); ++s) {
        const Tensors x = arguments(row, s, kFloat64, device);
        const Tensors leaves = leaves_of(row, x);
        if (numel_of(x) > kMostForSecond || row.f(x).numel() == 0) continue;
        for (size_t i = 0; i < leaves.size(); ++i) {
          const Function f = gradient_of(row, x, i);
          if (row.derivative == Derivative::kFirst) {
            EXPECT_THROW((void)f(leaves), NotImplementedError) << shapes_of(x);
          } else {
            const Tensors first = grad({curved(row.f(x))}, leaves, {.allow_unused = true});
            EXPECT_TRUE(close(f(leaves), first[i], 1e-12)) << "with and without create_graph";
            EXPECT_NO_THROW(gradcheck(f, leaves, 1e-6, 1e-4))
                << "gradient " << i << " of " << shapes_of(x) << " on " << to_string(device);
          }
        }
      }
    }
  });
}

TEST(OpTable, OnlyWhatHasADerivativeIsRecorded) {
  for_each_row([](const Row& row) {
    for (const Device device : all_devices()) {
      const Tensors x = arguments(row, 0, kFloat32, device);
      (void)leaves_of(row, x);
      const bool known_by_row = row.derivative == Derivative::kNone;
      const Tensor y = row.f(x);
      if (!known_by_row) {
        EXPECT_NE(y.grad_fn(), nullptr);
      } else if (row.variant.empty()) {
        EXPECT_EQ(y.grad_fn(), nullptr);
      }
      const NoGradGuard no_grad;
      const Tensor silent = row.f(x);
      EXPECT_FALSE(silent.grad_fn()) << silent.grad_fn();
    }
  });
}

TEST(OpTable, CudaEqualsTheCpu) {
  if (skip_without_cuda()) return;
  const Device gpu(DeviceType::kCuda, 0);
  for_each_row([&](const Row& row) {
    for (const DType dtype : row.dtypes) {
      if (!is_floating_point(dtype) && row.derivative != Derivative::kNone) continue;
      for (size_t s = 0; s < row.samples.size(); ++s) {
        const Tensors here = arguments(row, s, dtype, Device());
        const Tensors there = arguments(row, s, dtype, gpu);
        const double tolerance = row.tolerance.of(dtype_given(row.gives, dtype));
        const Tensor y = row.f(there);
        EXPECT_EQ(y.device(), gpu);
        EXPECT_TRUE(close(y, row.f(here), 2 * tolerance)) << shapes_of(here);
        if (!differentiable(row)) continue;
        const Tensors got = gradients(row, there), want = gradients(row, here);
        for (size_t i = 0; i < got.size(); ++i) {
          EXPECT_TRUE(close(got[i], want[i], 2 * row.tolerance.gradient * tolerance))
              << "gradient " << i << " of " << shapes_of(here);
        }
      }
    }
  });
}

TEST(OpTable, OperandsOnTwoDevicesAreRefused) {
  if (skip_without_cuda()) return;
  const Device gpu(DeviceType::kCuda, 0);
  for_each_row([&](const Row& row) {
    for (size_t s = 0; s < row.samples.size(); ++s) {
      Tensors x = arguments(row, s, kFloat32, gpu);
      // A 0-dim CPU tensor may be combined with CUDA tensors, sum_to reads only the shape of its
      // second argument, and ctc_loss moves its targets.
      if (x.size() < 2 || x[1].dim() == 0 || row.name == "sum_to") continue;
      if (row.name == "ctc_loss") continue;
      x[1] = x[1].cpu();
      EXPECT_TRUE(refuses<Error>([&] { return row.f(x); },
                                 "Expected all tensors to be on the same device, but "))
          << shapes_of(x);
    }
  });
}

TEST(OpTable, WrongArgumentsAreRefusedInPyTorchsWords) {
  for_each_row([](const Row& row) {
    for (const Device device : all_devices()) {
      for (const Refusal& refusal : row.refusals) {
        const bool late = device.is_cuda() && !refusal.text_on_cuda.empty();
        EXPECT_TRUE(refuses<Error>([&] { return refusal.call(device); },
                                   late ? refusal.text_on_cuda : refusal.text))
            << refusal.what << " on " << to_string(device);
      }
    }
  });
}

}  // namespace
}  // namespace taper::v0::test
