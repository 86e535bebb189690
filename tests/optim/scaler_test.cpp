// Loss scaling: which steps are skipped, when the scale changes, and what is refused. tests/interop
// compares it with PyTorch.
#include <cmath>
#include <limits>

#include <gtest/gtest.h>

#include "autograd/node.h"
#include "autograd/ops/binary_ops.h"
#include "framework/factory/factories.h"
#include "optim/algorithms/adam.h"
#include "optim/algorithms/sgd.h"
#include "optim/clip.h"
#include "optim/grad_scaler.h"
#include "tests/testing.h"

namespace taper::v0::test {
namespace {

using namespace optim;

constexpr double kInfinity = std::numeric_limits<double>::infinity();

Tensor weight(DType dtype, Device device) {
  return full({5}, 2.0, {.dtype = dtype, .device = device, .requires_grad = true});
}
// Sets every element of w's gradient to factor times the scale.
void run_backward(GradScaler& scaler, const Tensor& w, double factor) {
  w.set_grad({});
  scaler.scale((w * factor).sum()).backward();
}

TEST(GradScaler, AStepWithInfChangesNothingAndTheScaleBacksOff) {
  for (const Device device : all_devices()) {
    for (const DType dtype : {kFloat32, kFloat64, kBFloat16}) {
      for (const double bad : {kInfinity, -kInfinity, std::numeric_limits<double>::quiet_NaN()}) {
        const Tensor w = weight(dtype, device), other = weight(kFloat64, device);
        AdamW optimizer({w, other}, {.lr = 0.1});
        GradScaler scaler({.init_scale = 8});
        run_backward(scaler, other, 1);
        run_backward(scaler, w, bad);
        scaler.step(optimizer);
        scaler.update();
        EXPECT_TRUE(close(values_of(w), std::vector<double>(5, 2), 0));
        EXPECT_TRUE(close(values_of(other), std::vector<double>(5, 2), 0));
        EXPECT_EQ(scaler.get_scale(), 4);
        run_backward(scaler, other, 1);
        run_backward(scaler, w, 1);
        scaler.step(optimizer);
        scaler.update();
        EXPECT_LT(values_of(w)[4], 2);
        EXPECT_EQ(scaler.get_scale(), 4);
      }
    }
  }
}

// A user's optimizer that overrides step(): it writes to the parameters itself, or calls Taper's
// step.
struct Own : SGD {
  using SGD::SGD;
  bool writes = true;
  int steps = 0;
  void step() override {
    ++steps;
    const NoGradGuard no_grad;
    for (const Tensor& p : parameters()) {
      if (writes) p.sub_(p.grad() * 0.5);
    }
    if (!writes) SGD::step();
  }
};

TEST(GradScaler, AnOptimizerOfTheUsersIsSkippedWhereInfWasFound) {
  for (const Device device : all_devices()) {
    for (const bool writes : {true, false}) {
      const Tensor w = weight(kFloat32, device);
      Own optimizer(std::vector<Tensor>{w}, {.lr = 0.5});
      optimizer.writes = writes;
      EXPECT_FALSE(optimizer.skips_on_device());
      EXPECT_TRUE(SGD(std::vector<Tensor>{w}, {}).skips_on_device());
      GradScaler scaler({.init_scale = 8});
      for (const double factor : {kInfinity, 1.0}) {
        run_backward(scaler, w, factor);
        scaler.step(optimizer);
        scaler.update();
      }
      EXPECT_EQ(optimizer.steps, 1);
      EXPECT_TRUE(close(values_of(w), std::vector<double>(5, 1.5), 0));
      EXPECT_EQ(scaler.get_scale(), 4);
    }
  }
}

TEST(GradScaler, GrowsAfterItsIntervalButNeverToInfinity) {
  for (const Device device : all_devices()) {
    const Tensor w = weight(kFloat32, device);
    SGD optimizer(std::vector<Tensor>{w}, {.lr = 0});
    GradScaler scaler({.init_scale = 0x1p126, .growth_interval = 2});
    std::vector<double> scales;
    for (int i = 0; i < 6; ++i) {
      w.set_grad(zeros({5}, {.device = device}));
      (void)scaler.scale(zeros({}, {.device = device}));
      scaler.step(optimizer);
      scaler.update();
      scales.push_back(scaler.get_scale());
    }
    EXPECT_EQ(scales, (std::vector<double>{0x1p126, 0x1p127, 0x1p127, 0x1p127, 0x1p127, 0x1p127}));
  }
}

TEST(GradScaler, ScaledLossesPromoteAsProductsDo) {
  for (const Device device : all_devices()) {
    GradScaler scaler({.init_scale = 65536});
    const auto half = [&](const Shape& shape) {
      return full(shape, 3, {.dtype = kFloat16, .device = device, .requires_grad = true});
    };
    const Tensor loss = half({});
    const Tensor scaled = scaler.scale(loss);
    EXPECT_EQ(scaled.dtype(), kFloat32);
    EXPECT_EQ(scaled.item<double>(), 3 * 65536.0);
    EXPECT_EQ(loss.item<double>(), 3);
    EXPECT_EQ(scaler.scale(half({2})).dtype(), kFloat16);
    const Tensor x = full({2}, 0.5, {.device = device, .requires_grad = true});
    scaler.scale(x).sum().backward();
    EXPECT_TRUE(close(values_of(x.grad()), {65536, 65536}, 0));
  }
}

TEST(GradScaler, ClippingSeesUnscaledGradients) {
  for (const Device device : all_devices()) {
    const Tensor w = weight(kFloat64, device);
    SGD optimizer(std::vector<Tensor>{w}, {.lr = 1});
    GradScaler scaler;
    run_backward(scaler, w, 3);
    EXPECT_EQ(values_of(w.grad())[0], 3 * 65536.0);
    scaler.unscale_(optimizer);
    EXPECT_EQ(values_of(w.grad())[0], 3);
    (void)clip_grad_norm_({w}, 1);
    scaler.step(optimizer);
    scaler.update();
    EXPECT_NEAR(values_of(w)[0], 2 - 1 / std::sqrt(5.0), 1e-6);
  }
}

TEST(GradScaler, TwoOptimizersShareTheScaleButNotTheInf) {
  for (const Device device : all_devices()) {
    const Tensor a = weight(kFloat32, device), b = weight(kFloat32, device);
    SGD first(std::vector<Tensor>{a}, {.lr = 1}), second(std::vector<Tensor>{b}, {.lr = 1});
    GradScaler scaler({.init_scale = 2});
    run_backward(scaler, a, 1);
    run_backward(scaler, b, kInfinity);
    scaler.step(first);
    scaler.step(second);
    scaler.update();
    EXPECT_EQ(values_of(a)[0], 1);
    EXPECT_EQ(values_of(b)[0], 2);
    EXPECT_EQ(scaler.get_scale(), 1);
    // An optimizer that then steps without the scaler does not use the earlier inf.
    b.set_grad(ones({5}, {.device = device}));
    second.step();
    EXPECT_EQ(values_of(b)[0], 1);
  }
}

TEST(GradScaler, DisabledItIsNotThere) {
  const Tensor w = weight(kFloat32, Device());
  SGD optimizer(std::vector<Tensor>{w}, {.lr = 1});
  GradScaler scaler({.enabled = false});
  EXPECT_TRUE(scaler.scale(w).is_same(w));
  w.set_grad(ones({5}));
  scaler.unscale_(optimizer);
  scaler.step(optimizer);
  scaler.update();
  EXPECT_EQ(values_of(w)[0], 1);
  EXPECT_EQ(scaler.get_scale(), 1);
  EXPECT_TRUE(scaler.state_dict().empty());
  scaler.load_state_dict({});
}

TEST(GradScaler, MisuseIsRefusedInPyTorchsWords) {
  for (const Device device : all_devices()) {
    const Tensor w = weight(kFloat32, device), half = weight(kFloat16, device);
    SGD optimizer(std::vector<Tensor>{w}, {.lr = 1}), halves(std::vector<Tensor>{half}, {.lr = 1});
    GradScaler scaler;
    EXPECT_TRUE(refuses<Error>([&] { return scaler.update(), 0; },
                               "No inf checks were recorded prior to update."));
    (void)scaler.scale(zeros({}, {.device = device}));
    EXPECT_TRUE(refuses<Error>([&] { return scaler.step(optimizer), 0; },
                               "No inf checks were recorded for this optimizer."));
    half.set_grad(ones({5}, {.dtype = kFloat16, .device = device}));
    EXPECT_TRUE(refuses<ValueError>([&] { return scaler.step(halves), 0; },
                                    "Attempting to unscale FP16 gradients."));
    run_backward(scaler, w, 1);
    scaler.unscale_(optimizer);
    EXPECT_TRUE(refuses<Error>(
        [&] { return scaler.unscale_(optimizer), 0; },
        "unscale_() has already been called on this optimizer since the last update()."));
    scaler.step(optimizer);
    EXPECT_TRUE(refuses<Error>([&] { return scaler.step(optimizer), 0; },
                               "step() has already been called since the last update()."));
    EXPECT_TRUE(refuses<Error>([&] { return scaler.unscale_(optimizer), 0; },
                               "unscale_() is being called after step()."));
    scaler.update();
  }
  EXPECT_TRUE(refuses<ValueError>([] { return GradScaler({.growth_factor = 1}).get_scale(); },
                                  "The growth factor must be > 1.0."));
  EXPECT_TRUE(refuses<ValueError>([] { return GradScaler({.backoff_factor = 1}).get_scale(); },
                                  "The backoff factor must be < 1.0."));
}

TEST(GradScaler, StateGoesOnWhereItWas) {
  for (const Device device : all_devices()) {
    const Tensor w = weight(kFloat32, device);
    SGD optimizer(std::vector<Tensor>{w}, {.lr = 0});
    GradScaler scaler({.init_scale = 16, .growth_interval = 3});
    const auto run = [&](GradScaler& s, int steps) {
      for (int i = 0; i < steps; ++i) {
        run_backward(s, w, 1);
        s.step(optimizer);
        s.update();
      }
    };
    run(scaler, 2);
    GradScaler other;
    other.load_state_dict(scaler.state_dict());
    run(other, 1);
    EXPECT_EQ(other.get_scale(), 32);
    std::vector<std::string> names;
    for (const auto& [name, tensor] : other.state_dict()) names.push_back(name);
    EXPECT_EQ(names, (std::vector<std::string>{"scale", "growth_factor", "backoff_factor",
                                               "growth_interval", "_growth_tracker"}));
    EXPECT_TRUE(refuses<Error>([&] { return other.load_state_dict({}), 0; },
                               "The source state dict is empty, possibly because it was saved "
                               "from a disabled instance of GradScaler."));
    EXPECT_TRUE(refuses<Error>(
        [&] {
          return other.load_state_dict({{"scale", full({}, 2.0)}}), 0;
        },
        "Error(s) in loading state_dict for GradScaler: Missing key: \"_growth_tracker\""));
    EXPECT_EQ(other.get_scale(), 32);
  }
}

// The scale follows the loss to its device.
TEST(GradScaler, UnscalesGradientsOfSeveralDevices) {
  for (const auto& [first, second] : device_pairs()) {
    SCOPED_TRACE(to_string(second));
    for (const float bad : {0.0f, HUGE_VALF}) {
      GradScaler scaler({.init_scale = 4});
      EXPECT_EQ(scaler.scale(ones({})).item<double>(), 4);
      EXPECT_EQ(scaler.scale(ones({}, {.device = second})).device(), second);
      const Tensor a = weight(kFloat32, first), b = weight(kFloat32, second);
      const Tensor before = a.detach().clone();
      SGD optimizer(std::vector<Tensor>{a, b}, {.lr = 1});
      a.set_grad(full({5}, 8.0, {.device = first}));
      b.set_grad(full({5}, 8.0 + bad, {.device = second}));
      scaler.step(optimizer);
      const Tensor expected = bad == 0 ? before - 2 : before;
      EXPECT_TRUE(same_bits(a.detach(), expected));
      EXPECT_TRUE(same_bits(b.detach().to(first), expected));
      scaler.update();
      EXPECT_EQ(scaler.get_scale(), bad == 0 ? 4 : 2);
    }
  }
}

}  // namespace
}  // namespace taper::v0::test
