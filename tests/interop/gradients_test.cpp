// Gradient clipping, loss scaling and averaging compared with PyTorch's results, which gradients.py
// stores.
#include <algorithm>
#include <cmath>
#include <limits>

#include <gtest/gtest.h>

#include "autograd/node.h"
#include "autograd/ops/binary_ops.h"
#include "framework/factory/factories.h"
#include "framework/io/safetensors.h"
#include "optim/algorithms/sgd.h"
#include "optim/clip.h"
#include "optim/ema.h"
#include "optim/grad_scaler.h"
#include "tests/testing.h"

namespace taper::v0::test {
namespace {

using namespace optim;

Tensor stored(const std::string& name) {
  static const SafeTensors file = load_safetensors(TAPER_INTEROP_DIR "/gradients.safetensors");
  for (const auto& [known, tensor] : file.tensors) {
    if (known == name) return tensor;
  }
  throw Error("gradients.safetensors has no " + name);
}

struct Precision {
  DType dtype;
  double tolerance;
};
template <class F> void for_all(F f) {
  for (const Device device : all_devices()) {
    for (const Precision p : {Precision{kFloat64, 1e-10}, Precision{kFloat32, 1e-5}}) {
      SCOPED_TRACE(concat_to_string(name_of(p.dtype), " on ", device));
      f(device, p);
    }
  }
}

// Returns parameters with the stored gradients, in the shapes of gradients.py.
std::vector<Tensor> params(Device device, DType dtype) {
  std::vector<Tensor> out;
  int64_t at = 0;
  for (const Shape& shape : {Shape{3, 4}, {1}, {}, {5, 1, 2}, {500}}) {
    out.push_back(zeros(shape, {.dtype = dtype, .device = device, .requires_grad = true}));
    const Tensor grad = stored("grads").narrow(0, at, shape.numel()).view(shape);
    out.back().set_grad(grad.to(device, dtype, {.copy = true}));
    at += shape.numel();
  }
  return out;
}

std::vector<double> joined(std::vector<double> values, const std::vector<Tensor>& params) {
  for (const Tensor& p : params) {
    const std::vector<double> grad = values_of(p.grad());
    values.insert(values.end(), grad.begin(), grad.end());
  }
  return values;
}

TEST(Gradients, AreClippedAsInPyTorch) {
  for_all([](Device device, Precision precision) {
    for (const double norm : {0.5, 1.0, 2.0, 3.0, std::numeric_limits<double>::infinity()}) {
      for (const char* max_norm : {"0.25", "1e+06"}) {
        const std::vector<Tensor> ps = params(device, precision.dtype);
        const double total = clip_grad_norm_(ps, std::stod(max_norm), norm).item<double>();
        const std::string name = concat_to_string("norm ", norm, " max ", max_norm);
        EXPECT_TRUE(close(joined({total}, ps), values_of(stored(name)), precision.tolerance))
            << name;
      }
    }
    const std::vector<Tensor> ps = params(device, precision.dtype);
    clip_grad_value_(ps, 0.5);
    EXPECT_TRUE(close(joined({}, ps), values_of(stored("value 0.5")), precision.tolerance));
  });
}

TEST(Gradients, AreScaledAndStepsSkippedAsInPyTorch) {
  const std::vector<int64_t> bad{4, 5, 13, 14, 15};
  for_all([&](Device device, Precision precision) {
    const TensorOptions options{.dtype = precision.dtype, .device = device};
    const Tensor w = tensor({1.0, -2.0, 3.0}, options).requires_grad_();
    SGD optimizer(std::vector<Tensor>{w}, {.lr = 0.1, .momentum = 0.9});
    GradScaler scaler(
        {.init_scale = 1024, .growth_factor = 4, .backoff_factor = 0.25, .growth_interval = 3});
    const Tensor rows = stored("scaler");
    for (int64_t t = 0; t < rows.size(0); ++t) {
      std::vector<double> x{0.5, double(t) * 0.1, -1};
      if (std::count(bad.begin(), bad.end(), t)) x[size_t(t % 3)] = t % 2 ? INFINITY : NAN;
      optimizer.zero_grad();
      scaler.scale((w * tensor(x, options)).sum()).backward();
      if (t % 2) {
        scaler.unscale_(optimizer);
        (void)clip_grad_norm_({w}, 0.7);
      }
      scaler.step(optimizer);
      scaler.update();
      std::vector<double> got = values_of(w);
      got.push_back(scaler.get_scale());
      got.push_back(scaler.state_dict().back().tensor.item<double>());
      EXPECT_TRUE(close(got, values_of(rows[t]), precision.tolerance)) << "step " << t;
    }
  });
}

TEST(Gradients, AveragesOfWeightsAsInPyTorch) {
  for_all([](Device device, Precision precision) {
    const TensorOptions options{.dtype = precision.dtype, .device = device, .requires_grad = true};
    const std::vector<NamedTensor> ps{{"weight", zeros({2, 3}, options)},
                                      {"bias", zeros({2}, options)}};
    EMA ema(ps, {.decay = 0.9});
    const Tensor rows = stored("ema");
    for (int64_t t = 0; t < rows.size(0); ++t) {
      std::vector<double> got;
      for (size_t i = 0; i < ps.size(); ++i) {
        const NoGradGuard guard;
        std::vector<double> values;
        for (int64_t j = 0; j < ps[i].tensor.numel(); ++j) {
          values.push_back(std::sin(double(j + t + int64_t(i))));
        }
        ps[i].tensor.copy_(tensor(values, {.dtype = kFloat64}).view(ps[i].tensor.shape()));
      }
      ema.update();
      for (const Tensor& average : ema.averages()) {
        const std::vector<double> values = values_of(average);
        got.insert(got.end(), values.begin(), values.end());
      }
      EXPECT_TRUE(close(got, values_of(rows[t]), precision.tolerance)) << "step " << t;
    }
  });
}

}  // namespace
}  // namespace taper::v0::test
