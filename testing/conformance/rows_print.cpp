// Rows of printed tensors: each kind on the CPU and on cuda:0.
#include <limits>

#include "autograd/ops/binary.h"
#include "autograd/print.h"
#include "framework/factories.h"
#include "modules/module.h"
#include "testing/conformance/families.h"
#include "testing/conformance/python.h"

namespace taper::conformance {
namespace {

struct Kind {
  const char* name;
  Tensor (*make)(Device);
  bool names_dtype = false;
  bool on_cpu = true, on_gpu = true;
};

// A model that is one parameter.
struct OneParameter : Module {
  explicit OneParameter(const Tensor& value) : p(*this, "p", value) {}
  Tensor forward(const Tensor& x) override { return x; }
  std::string type_name() const override { return "OneParameter"; }

  Parameter p;
};

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInf = std::numeric_limits<double>::infinity();

const Kind kKinds[] = {
    {"int1d",
     [](Device d) {
       return tensor({1, 2, 3}, {.device = d});
     }},
    {"float1d",
     [](Device d) {
       return tensor({1., 2.}, {.device = d});
     }},
    {"float_frac",
     [](Device d) {
       return tensor({0.1344, -0.1416, 0.2403}, {.device = d});
     }},
    {"scalar_int", [](Device d) { return tensor(7, {.device = d}); }},
    {"scalar_float", [](Device d) { return tensor(3.5, {.device = d}); }},
    {"empty", [](Device d) { return empty({0}, {.device = d}); }},
    {"bool",
     [](Device d) {
       return tensor({true, false}, {.device = d});
     }},
    {"mat",
     [](Device d) {
       return tensor({{1., 2.}, {3., 4.}}, {.device = d});
     }},
    {"mat_neg",
     [](Device d) {
       return tensor({{-0.1367}, {-0.1584}}, {.device = d});
     }},
    {.name = "cube",
     .make =
         [](Device d) {
           return arange(24, {.device = d}).view({2, 3, 4});
         },
     .on_gpu = false},
    {"big", [](Device d) { return arange(2000, {.device = d}); }},
    {"bigmat",
     [](Device d) {
       return arange(40000, {.dtype = kFloat32, .device = d}).view({200, 200});
     }},
    {"int32",
     [](Device d) {
       return tensor({1, 2}, {.dtype = kInt32, .device = d});
     },
     true},
    {"double", [](Device d) { return tensor({1.5}, {.dtype = kFloat64, .device = d}); }, true},
    {"half",
     [](Device d) {
       return tensor({1.5, 2.25}, {.dtype = kFloat16, .device = d});
     },
     true},
    {.name = "bf16",
     .make =
         [](Device d) {
           return tensor({1.5, 2.25}, {.dtype = kBFloat16, .device = d});
         },
     .names_dtype = true,
     .on_gpu = false},
    {"uint8",
     [](Device d) {
       return tensor({1, 255}, {.dtype = kUInt8, .device = d});
     },
     true},
    {"int8",
     [](Device d) {
       return tensor({-1, 127}, {.dtype = kInt8, .device = d});
     },
     true},
    {"nan_inf",
     [](Device d) {
       return tensor({1., kNan, kInf, -kInf}, {.device = d});
     }},
    {"sci_large",
     [](Device d) {
       return tensor({1e9, 1.}, {.device = d});
     }},
    {.name = "sci_small",
     .make =
         [](Device d) {
           return tensor({1e-5, 1.}, {.device = d});
         },
     .on_cpu = false},
    {"intlike_floats",
     [](Device d) {
       return tensor({1., 20., 300.}, {.device = d});
     }},
    {"long_line", [](Device d) { return linspace(0, 1, 30, {.device = d}); }},
    {"requires_grad",
     [](Device d) {
       return tensor({1., 2.}, {.device = d, .requires_grad = true});
     }},
    {"grad_fn",
     [](Device d) {
       return tensor({1., 2.}, {.device = d, .requires_grad = true}) * 2;
     }},
    {"param",
     [](Device d) {
       return *OneParameter(tensor({1., 2.}, {.device = d})).p;
     }},
    {"grad_fn_scalar",
     [](Device d) {
       return tensor({1., 2.}, {.device = d, .requires_grad = true}).sum();
     }},
};

Row print_row(const Kind& kind, const char* place, Device device) {
  return {.name = cat("print.", place, ".", kind.name),
          .gpus = device.is_cuda() ? 1 : 0,
          .run = [make = kind.make, device] { return to_string(make(device)); },
          .differs = kind.names_dtype ? kNoTorchPrefix : ""};
}

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

}  // namespace

std::vector<Row> print_rows() {
  std::vector<Row> rows;
  for (const Kind& kind : kKinds) {
    if (kind.on_cpu) rows.push_back(print_row(kind, "cpu", "cpu"));
    if (kind.on_gpu) rows.push_back(print_row(kind, "cuda0", "cuda:0"));
  }
  rows.push_back({.name = "print.cuda1", .gpus = 2, .run = [] {
                    return to_string(tensor({1, 2, 3}, {.device = "cuda:1"}));
                  }});
  rows.push_back(
      {.name = "print.type_strings", .gpus = 1, .run = type_strings, .differs = kNoTorchPrefix});
  rows.push_back({.name = "dtype.defaults", .run = default_dtypes, .differs = kNoTorchPrefix});
  return rows;
}

}  // namespace taper::conformance
