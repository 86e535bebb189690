// Gradient clipping compared with plain loops in double, on every device. tests/interop compares it
// with PyTorch.
#include "optim/clip.h"

#include <cmath>
#include <limits>

#include <gtest/gtest.h>

#include "autograd/ops/binary_ops.h"
#include "framework/factory/factories.h"
#include "tests/testing.h"

namespace taper::v0::test {
namespace {

using optim::clip_grad_norm_;
using optim::clip_grad_value_;
using optim::get_total_norm;

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

double value_at(int64_t i, double shift) { return std::cos(double(i) * 1.7 + shift) * 2; }

Tensor values(const Shape& shape, double shift, DType dtype, Device device) {
  std::vector<double> all;
  for (int64_t i = 0; i < shape.numel(); ++i) all.push_back(value_at(i, shift));
  return tensor_of(all.data(), shape, {.dtype = dtype, .device = device});
}

Tensor param_with(const Tensor& grad) {
  const Tensor p = zeros(grad.shape(), {.dtype = grad.dtype(), .device = grad.device()});
  p.requires_grad_();
  p.set_grad(grad);
  return p;
}

// Odd sizes, empty, 0-dim, not aligned, transposed, strided and expanded.
std::vector<Tensor> grads_of_all_kinds(DType dtype, Device device) {
  const Tensor base = values({7001}, 0.5, dtype, device);
  return {values({3, 5}, 0, dtype, device),
          values({0, 4}, 0, dtype, device),
          values({}, 1, dtype, device),
          base.narrow(0, 1, 4999),
          values({6, 11}, 2, dtype, device).t(),
          values({9, 8}, 3, dtype, device).narrow(1, 1, 5),
          values({1}, 4, dtype, device).expand({13}),
          values({2, 2, 2, 2, 2}, 5, dtype, device)};
}

double norm_of(const std::vector<Tensor>& grads, double p) {
  double total = 0;
  for (const Tensor& g : grads) {
    for (const double x : values_of(g)) {
      total = std::isinf(p) ? std::max(total, std::abs(x)) : total + std::pow(std::abs(x), p);
    }
  }
  return std::isinf(p) ? total : std::pow(total, 1 / p);
}

// The tolerance of a result. Half types round every element.
double tolerance(DType dtype) {
  return dtype == kFloat64 ? 1e-13 : dtype == kFloat32 ? 1e-6 : dtype == kFloat16 ? 1e-3 : 8e-3;
}

template <class F> void for_all(F f) {
  for (const Device device : all_devices()) {
    for (const DType dtype : {kFloat32, kFloat64, kFloat16, kBFloat16}) {
      SCOPED_TRACE(concat_to_string(name_of(dtype), " on ", device));
      f(dtype, device);
    }
  }
}

TEST(Clip, ByNormScalesAllGradientsOfAllKinds) {
  for_all([](DType dtype, Device device) {
    for (const double p : {2.0, 1.0, 3.0, 0.5, kInf}) {
      for (const double share : {0.3, 3.0}) {
        const std::vector<Tensor> grads = grads_of_all_kinds(dtype, device);
        const double norm = norm_of(grads, p);
        std::vector<Tensor> params;
        std::vector<std::vector<double>> want;
        for (const Tensor& g : grads) {
          params.push_back(param_with(g));
          want.push_back(values_of(g));
          for (double& x : want.back()) x *= std::min(1.0, share * norm / (norm + 1e-6));
        }
        params.push_back(zeros({3}, {.device = device, .requires_grad = true}));
        const uint32_t version = grads[0].version();
        const Tensor total = clip_grad_norm_(params, share * norm, p);
        EXPECT_EQ(total.device(), device);
        EXPECT_EQ(total.dtype(), dtype == kFloat64 ? kFloat64 : kFloat32);
        EXPECT_NEAR(total.item<double>() / norm, 1, dtype == kFloat64 ? 1e-13 : 1e-6) << p;
        for (size_t i = 0; i < grads.size(); ++i) {
          EXPECT_TRUE(close(values_of(grads[i]), want[i], tolerance(dtype))) << i << " p " << p;
        }
        EXPECT_GT(grads[0].version(), version);
      }
    }
  });
}

TEST(Clip, ByValue) {
  for_all([](DType dtype, Device device) {
    std::vector<Tensor> grads = grads_of_all_kinds(dtype, device);
    grads.push_back(tensor({kNan, kInf, -kInf, -0.0}, {.dtype = dtype, .device = device}));
    std::vector<Tensor> params;
    std::vector<std::vector<double>> want;
    for (const Tensor& g : grads) {
      params.push_back(param_with(g));
      want.push_back(values_of(g));
      for (double& x : want.back()) x = x < -0.75 ? -0.75 : x > 0.75 ? 0.75 : x;
    }
    clip_grad_value_(params, 0.75);
    for (size_t i = 0; i < grads.size(); ++i) {
      EXPECT_EQ(values_of(grads[i]).size(), want[i].size());
      EXPECT_TRUE(close(values_of(grads[i]), want[i], 0)) << i;
    }
  });
}

TEST(Clip, ThousandTensorsOfMixedDtypesOneNorm) {
  for (const Device device : all_devices()) {
    std::vector<Tensor> params;
    double sum = 0;
    for (int i = 0; i < 1000; ++i) {
      const DType dtype = i % 3 == 0 ? kFloat64 : i % 3 == 1 ? kFloat32 : kBFloat16;
      const Tensor g = values({i % 7, 13}, i, dtype, device);
      for (const double x : values_of(g)) sum += x * x;
      params.push_back(param_with(g));
    }
    const Tensor first = clip_grad_norm_(params, 1);
    EXPECT_EQ(first.dtype(), kFloat64);
    EXPECT_NEAR(first.item<double>() / std::sqrt(sum), 1, 1e-6);
    EXPECT_NEAR(clip_grad_norm_(params, 1).item<double>(), 1, 1e-3);
  }
}

TEST(Clip, TheSameBitsEveryTime) {
  for (const Device device : all_devices()) {
    const std::vector<Tensor> grads = {values({100003}, 0, kFloat32, device),
                                       values({17, 1001}, 1, kFloat32, device)};
    const Tensor norm = get_total_norm(grads);
    for (int i = 0; i < 3; ++i) EXPECT_TRUE(same_bits(get_total_norm(grads), norm));
  }
}

TEST(Clip, NonFiniteGradients) {
  const auto clipped = [](std::vector<double> g, double norm_type, Device device) {
    const Tensor p = param_with(tensor(g, {.dtype = kFloat32, .device = device}));
    const double total = clip_grad_norm_({p}, 1, norm_type).item<double>();
    std::vector<double> out = values_of(p.grad());
    out.push_back(total);
    return out;
  };
  for (const Device device : all_devices()) {
    for (const double norm_type : {2.0, kInf}) {
      EXPECT_TRUE(close(clipped({1, kInf}, norm_type, device), {0, kNan, kInf}, 0));
      EXPECT_TRUE(close(clipped({kNan, 1}, norm_type, device), {kNan, kNan, kNan}, 0));
    }
    const Tensor p = param_with(tensor({1.0, kNan}, {.dtype = kFloat32, .device = device}));
    EXPECT_TRUE(refuses<Error>([&] { return clip_grad_norm_({p}, 1, 2, true); },
                               "The total norm of order 2 for gradients from `parameters` is "
                               "non-finite, so it cannot be clipped."));
    EXPECT_EQ(values_of(p.grad())[0], 1);
  }
}

TEST(Clip, WithoutGradientsThereIsNothingToDo) {
  for (const Device device : all_devices()) {
    const Tensor none = zeros({3}, {.device = device, .requires_grad = true});
    const Tensor nothing = param_with(zeros({0}, {.device = device}));
    for (const std::vector<Tensor>& params : {std::vector<Tensor>{}, {none}, {none, nothing}}) {
      EXPECT_EQ(clip_grad_norm_(params, 1).item<double>(), 0);
      EXPECT_EQ(clip_grad_norm_(params, 1, kInf).item<double>(), 0);
      clip_grad_value_(params, 1);
    }
    EXPECT_FALSE(none.grad().defined());
  }
  for (const double wrong : {0.0, -1.0, kNan}) {
    EXPECT_TRUE(refuses<ValueError>([&] { return get_total_norm({zeros({1})}, wrong); },
                                    "norm_type must be above 0"));
  }
}

TEST(Clip, GradientsOfOneSumAreScaledOnce) {
  for (const Device device : all_devices()) {
    const TensorOptions options{.dtype = kFloat64, .device = device, .requires_grad = true};
    const Tensor a = ones({2}, options), b = ones({2}, options);
    (a + b).backward(full({2}, 3.0, {.dtype = kFloat64, .device = device}));
    const double norm = clip_grad_norm_({a, b}, 1).item<double>();
    EXPECT_NEAR(norm, 6, 1e-12);
    for (const Tensor& p : {a, b}) EXPECT_NEAR(values_of(p.grad())[1], 0.5, 1e-6);
  }
}

TEST(Clip, GradientsOnTwoDevicesHaveOneNorm) {
  if (skip_without_cuda()) return;
  const Tensor here = param_with(full({3}, 2.0)), there = param_with(full({4}, -1.0).cuda());
  const Tensor total = clip_grad_norm_({there, here}, 2);
  EXPECT_TRUE(total.is_cuda());
  EXPECT_NEAR(total.item<double>(), 4, 1e-6);
  EXPECT_NEAR(values_of(here.grad())[0], 1, 1e-6);
  EXPECT_NEAR(values_of(there.grad())[0], -0.5, 1e-6);
}

// The order in which values are added does not depend on the devices.
TEST(Clip, GradientsOfSeveralDevicesGiveTheBitsOfOne) {
  for (const auto& [first, second] : device_pairs()) {
    for (const DType dtype : {kFloat32, kFloat64, kBFloat16}) {
      for (const double p : {2.0, 1.0, 3.0, kInf}) {
        std::vector<Tensor> together, apart;
        for (int i = 0; i < 9; ++i) {
          for (const Tensor& grad : grads_of_all_kinds(dtype, first)) {
            together.push_back(param_with(grad.clone()));
            apart.push_back(param_with(grad.to(i % 3 == 1 ? second : first, {.copy = true})));
          }
        }
        const Tensor want = clip_grad_norm_(together, 0.5, p);
        const Tensor got = clip_grad_norm_(apart, 0.5, p);
        EXPECT_EQ(got.device(), first);
        EXPECT_TRUE(same_bits(got, want)) << p;
        for (size_t i = 0; i < apart.size(); ++i) {
          EXPECT_TRUE(same_bits(apart[i].grad().to(first), together[i].grad())) << i;
        }
      }
    }
  }
}

}  // namespace
}  // namespace taper::v0::test
