// Rows of printed tensors: each kind on the CPU and on cuda:0.
#include <limits>

#include "autograd/ops/binary_ops.h"
#include "autograd/print.h"
#include "framework/factory/factories.h"
#include "modules/members.h"
#include "tests/conformance/families.h"
#include "tests/conformance/python.h"

namespace taper::v0::conformance {
namespace {

// A model with a single parameter.
struct OneParameter : Module {
  explicit OneParameter(const Tensor& value) : p(*this, "p", value) {}
  Tensor forward(const Tensor& x) override { return x; }
  std::string type_name() const override { return "OneParameter"; }

  Parameter p;
};

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInf = std::numeric_limits<double>::infinity();

Tensor leaf(Device d) { return tensor({1., 2.}, {.device = d, .requires_grad = true}); }

std::string type_strings() {
  const auto type = [](DType dtype, Device device) {
    return zeros({1}, {.dtype = dtype, .device = device}).type();
  };
  return py_list(type(kFloat32, "cpu"), type(kInt64, "cpu"), type(kFloat32, "cuda"),
                 type(kInt64, "cuda"), type(kBFloat16, "cpu"), type(kBool, "cuda"),
                 type(kInt32, "cpu"));
}

std::string default_dtypes() {
  return py_list(tensor({1, 2}).dtype(), tensor({1., 2.}).dtype(), tensor({true}).dtype(),
                 zeros({1}).dtype());
}

using Make = Tensor (*)(Device);
void on_cpu(Rows& rows, const char* kind, Make make) {
  rows(concat_to_string("print.cpu.", kind), 0, [make] { return to_string(make("cpu")); });
}
void on_gpu(Rows& rows, const char* kind, Make make) {
  rows(concat_to_string("print.cuda0.", kind), 1, [make] { return to_string(make("cuda:0")); });
}
void on_both(Rows& rows, const char* kind, Make make) {
  on_cpu(rows, kind, make);
  on_gpu(rows, kind, make);
}

void values(Rows& rows) {
  on_both(rows, "int1d", [](Device d) { return tensor({1, 2, 3}, {.device = d}); });
  on_both(rows, "float1d", [](Device d) { return tensor({1., 2.}, {.device = d}); });
  on_both(rows, "float_frac", [](Device d) {
    return tensor({0.1344, -0.1416, 0.2403}, {.device = d});
  });
  on_both(rows, "scalar_int", [](Device d) { return tensor(7, {.device = d}); });
  on_both(rows, "scalar_float", [](Device d) { return tensor(3.5, {.device = d}); });
  on_both(rows, "empty", [](Device d) { return empty({0}, {.device = d}); });
  on_both(rows, "bool", [](Device d) { return tensor({true, false}, {.device = d}); });
  on_both(rows, "mat", [](Device d) { return tensor({{1., 2.}, {3., 4.}}, {.device = d}); });
  on_both(rows, "mat_neg", [](Device d) { return tensor({{-0.1367}, {-0.1584}}, {.device = d}); });
  on_cpu(rows, "cube", [](Device d) { return arange(24, {.device = d}).view({2, 3, 4}); });
  on_both(rows, "big", [](Device d) { return arange(2000, {.device = d}); });
  on_both(rows, "bigmat", [](Device d) {
    return arange(40000, {.dtype = kFloat32, .device = d}).view({200, 200});
  });
}

void dtypes(Rows& rows) {
  const size_t first = rows.size();
  on_both(rows, "int32", [](Device d) { return tensor({1, 2}, {.dtype = kInt32, .device = d}); });
  on_both(rows, "double", [](Device d) { return tensor({1.5}, {.dtype = kFloat64, .device = d}); });
  on_both(rows, "half", [](Device d) {
    return tensor({1.5, 2.25}, {.dtype = kFloat16, .device = d});
  });
  on_cpu(rows, "bf16", [](Device d) {
    return tensor({1.5, 2.25}, {.dtype = kBFloat16, .device = d});
  });
  on_both(rows, "uint8", [](Device d) { return tensor({1, 255}, {.dtype = kUInt8, .device = d}); });
  on_both(rows, "int8", [](Device d) { return tensor({-1, 127}, {.dtype = kInt8, .device = d}); });
  for (size_t i = first; i < rows.size(); ++i) rows[i].differs = kNoTorchPrefix;
}

void forms(Rows& rows) {
  on_both(rows, "nan_inf", [](Device d) { return tensor({1., kNan, kInf, -kInf}, {.device = d}); });
  on_both(rows, "sci_large", [](Device d) { return tensor({1e9, 1.}, {.device = d}); });
  on_gpu(rows, "sci_small", [](Device d) { return tensor({1e-5, 1.}, {.device = d}); });
  on_both(rows, "intlike_floats", [](Device d) { return tensor({1., 20., 300.}, {.device = d}); });
  on_both(rows, "long_line", [](Device d) { return linspace(0, 1, 30, {.device = d}); });
  on_both(rows, "requires_grad", [](Device d) { return leaf(d); });
  on_both(rows, "grad_fn", [](Device d) { return leaf(d) * 2; });
  on_both(rows, "param", [](Device d) { return *OneParameter(tensor({1., 2.}, {.device = d})).p; });
  on_both(rows, "grad_fn_scalar", [](Device d) { return leaf(d).sum(); });
}

}  // namespace

void print_rows(Rows& rows) {
  values(rows);
  dtypes(rows);
  forms(rows);
  rows("print.cuda1", 2, [] { return to_string(tensor({1, 2, 3}, {.device = "cuda:1"})); });
  rows("print.type_strings", 1, type_strings).differs_in(kNoTorchPrefix);
  rows("dtype.defaults", 0, default_dtypes).differs_in(kNoTorchPrefix);
}

}  // namespace taper::v0::conformance
