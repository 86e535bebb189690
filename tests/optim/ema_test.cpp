// Averages of weights: their formula, and models that use them temporarily.
#include "optim/ema.h"

#include <cmath>
#include <functional>

#include <gtest/gtest.h>

#include "autograd/node.h"
#include "framework/factory/factories.h"
#include "modules/layers/linear.h"
#include "tests/testing.h"

namespace taper::v0::test {
namespace {

using optim::EMA;

constexpr int kSteps = 12;

double value_at(int64_t i, int t) { return std::sin(double(i) * 0.7 + t); }

void set_values(const std::vector<NamedTensor>& params, int t) {
  const NoGradGuard guard;
  for (const auto& [name, p] : params) {
    std::vector<double> values;
    for (int64_t i = 0; i < p.numel(); ++i) values.push_back(value_at(i, t));
    p.copy_(tensor_of(values.data(), p.shape()));
  }
}

std::vector<NamedTensor> params_of_all_kinds(DType dtype, Device device) {
  const TensorOptions options{.dtype = dtype, .device = device, .requires_grad = true};
  const Tensor base = zeros({5003}, {.dtype = dtype, .device = device});
  return {{"a", zeros({3, 5}, options)},
          {"none", zeros({0}, options)},
          {"number", zeros({}, options)},
          {"view", base.narrow(0, 1, 5001).requires_grad_()},
          {"transposed", zeros({5, 3}, {.dtype = dtype, .device = device}).t().requires_grad_()}};
}

TEST(EMA, FollowsItsFormulaForAllKindsOfParameters) {
  for (const Device device : all_devices()) {
    for (const DType dtype : {kFloat32, kFloat64, kFloat16, kBFloat16}) {
      for (const bool warm_up : {false, true}) {
        const std::vector<NamedTensor> params = params_of_all_kinds(dtype, device);
        EMA ema(params, {.decay = 0.8, .warm_up = warm_up});
        std::vector<std::vector<double>> want(params.size());
        for (int t = 0; t < kSteps; ++t) {
          set_values(params, t);
          ema.update();
          const double decay = warm_up ? std::min(0.8, (1.0 + t) / (10.0 + t)) : 0.8;
          for (size_t i = 0; i < params.size(); ++i) {
            const std::vector<double> now = values_of(params[i].tensor);
            if (t == 0) want[i] = now;
            for (size_t j = 0; j < now.size(); ++j)
              want[i][j] += (now[j] - want[i][j]) * (1 - decay);
          }
        }
        for (size_t i = 0; i < params.size(); ++i) {
          const Tensor& average = ema.averages()[i];
          EXPECT_EQ(average.dtype(), dtype == kFloat64 ? kFloat64 : kFloat32);
          EXPECT_TRUE(close(values_of(average), want[i], dtype == kFloat64 ? 1e-13 : 1e-6))
              << params[i].name << " " << name_of(dtype) << " on " << to_string(device);
        }
      }
    }
  }
}

TEST(AveragedModel, IsTheMeanOfAllUpdates) {
  for (const Device device : all_devices()) {
    for (const DType dtype : {kFloat32, kFloat64, kBFloat16}) {
      const std::vector<NamedTensor> params = params_of_all_kinds(dtype, device);
      optim::AveragedModel average(params);
      std::vector<double> sum(15);
      for (int t = 0; t < kSteps; ++t) {
        set_values(params, t);
        average.update();
        const std::vector<double> now = values_of(params[0].tensor);
        for (size_t j = 0; j < now.size(); ++j) sum[j] += now[j];
      }
      for (double& x : sum) x /= kSteps;
      EXPECT_TRUE(close(values_of(average.averages()[0]), sum, dtype == kFloat64 ? 1e-14 : 1e-6));
      EXPECT_EQ(average.state_dict()[0].tensor.item<int64_t>(), kSteps);
    }
  }
  EXPECT_TRUE(refuses<ValueError>([] { return optim::AveragedModel({}).is_swapped(); },
                                  "AveragedModel got an empty parameter list"));
}

TEST(EMA, IsInTheModelForAScopeAndLeavesItBitByBit) {
  for (const Device device : all_devices()) {
    for (const DType dtype : {kFloat32, kFloat64, kFloat16, kBFloat16}) {
      const std::vector<NamedTensor> params = params_of_all_kinds(dtype, device);
      EMA ema(params, {.decay = 0.5});
      for (int t = 0; t < 3; ++t) {
        set_values(params, t);
        ema.update();
      }
      std::vector<Tensor> before;
      for (const auto& [name, p] : params) before.push_back(p.detach().clone());
      try {
        const EMA::Guard averaged(ema);
        for (size_t i = 0; i < params.size(); ++i) {
          EXPECT_TRUE(close(params[i].tensor, ema.averages()[i], is_half(dtype) ? 4e-3 : 0));
        }
        EXPECT_TRUE(refuses<Error>([&] { return ema.update(), 0; }, "EMA: update() while"));
        throw 1;
      } catch (int) {
      }
      for (size_t i = 0; i < params.size(); ++i) {
        EXPECT_TRUE(same_bits(params[i].tensor.detach(), before[i])) << params[i].name;
        EXPECT_TRUE(params[i].tensor.is_leaf() && params[i].tensor.requires_grad());
      }
      EXPECT_FALSE(ema.is_swapped());
    }
  }
}

TEST(EMA, ThousandParameters) {
  for (const Device device : all_devices()) {
    std::vector<NamedTensor> params;
    for (int64_t i = 0; i < 1000; ++i) {
      params.push_back({concat_to_string("p", i), zeros({i % 11}, {.device = device})});
    }
    EMA ema(params, {.decay = 0.5});
    set_values(params, 0);
    ema.update();
    for (size_t i = 0; i < 1000; ++i) EXPECT_TRUE(same_bits(ema.averages()[i], params[i].tensor));
  }
}

TEST(EMA, StateIsPyTorchsAndGoesOn) {
  for (const Device device : all_devices()) {
    Linear a(3, 2), b(3, 2);
    a.to(device);
    EMA first(a.named_parameters(), {.decay = 0.9}), second(b.named_parameters(), {.decay = 0.9});
    for (int t = 0; t < 5; ++t) {
      set_values(a.named_parameters(), t);
      first.update();
    }
    const std::vector<NamedTensor> state = first.state_dict();
    ASSERT_EQ(state.size(), 3u);
    EXPECT_EQ(state[0].name, "n_averaged");
    EXPECT_EQ(state[0].tensor.item<int64_t>(), 5);
    EXPECT_EQ(state[1].name, "module.weight");
    second.load_state_dict(state);
    set_values(a.named_parameters(), 9);
    set_values(b.named_parameters(), 9);
    first.update();
    second.update();
    EXPECT_TRUE(close(second.averages()[0], first.averages()[0], 1e-7));
    EXPECT_TRUE(refuses<Error>(
        [&] {
          return second.load_state_dict({state[0], state[1]}), 0;
        },
        "Error(s) in loading state_dict for EMA: Missing key: \"module.bias\""));
    EXPECT_TRUE(refuses<Error>(
        [&] {
          return second.load_state_dict({state[0], {"module.weight", state[2].tensor}}), 0;
        },
        "Error(s) in loading state_dict for EMA: size mismatch for module.weight"));
  }
}

// Returns the average after some steps. `move` converts the layer halfway.
Tensor moved_average(const std::function<void(Module&)>& move) {
  Linear layer(3, 2);
  EMA ema(layer.named_parameters(), {.decay = 0.7});
  for (int t = 0; t < kSteps; ++t) {
    if (t == kSteps / 2) move(layer);
    set_values(layer.named_parameters(), t);
    ema.update();
  }
  return ema.averages()[0].cpu();
}

TEST(EMA, FollowsItsParametersToAnotherDtype) {
  const Tensor wide = moved_average([](Module& m) { m.to(kFloat64); });
  EXPECT_EQ(wide.dtype(), kFloat64);
  EXPECT_TRUE(close(wide, moved_average([](Module&) {}), 1e-6));
}

TEST(EMA, FollowsItsParametersToTheGpu) {
  if (skip_without_cuda()) return;
  EXPECT_TRUE(
      close(moved_average([](Module& m) { m.cuda(); }), moved_average([](Module&) {}), 1e-6));
}

TEST(EMA, WrongSettingsAreRefused) {
  EXPECT_TRUE(
      refuses<ValueError>([] { return EMA({}).is_swapped(); }, "EMA got an empty parameter list"));
  EXPECT_TRUE(refuses<ValueError>(
      [] {
        return EMA({{"n", zeros({1}, {.dtype = kInt64})}}).is_swapped();
      },
      "n has dtype int64; only floating tensors are averaged"));
  EXPECT_TRUE(refuses<ValueError>(
      [] {
        return EMA({{"w", zeros({1})}}, {.decay = 1.5}).is_swapped();
      },
      "Invalid decay value 1.5 provided."));
}

}  // namespace
}  // namespace taper::v0::test
