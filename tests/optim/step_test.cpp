// What one step does to its tensors, for every optimizer: overflow, half types and their masters,
// many tensors, unusual layouts.
#include <gtest/gtest.h>

#include "autograd/ops/binary_ops.h"
#include "framework/factory/low_precision_cache.h"
#include "framework/kernels/optim/update.h"
#include "modules/layers/linear.h"
#include "tests/optim/all_optimizers.h"

namespace taper::v0::test {
namespace {

using optim::Optimizer;

TEST(OptimizerStep, ChangesNothingWhereInfWasFound) {
  for (const Device device : all_devices()) {
    const auto flag = [&](float x) { return full({}, x, {.dtype = kFloat32, .device = device}); };
    for (const AnyOptimizer& kind : all_optimizers()) {
      const std::vector<Tensor> a = leaves(kind, kFloat32, device);
      const std::vector<Tensor> b = leaves(kind, kFloat32, device);
      const auto plain = kind.make(a, false), scaled = kind.make(b, false);
      for (int t = 1; t <= 4; ++t) {
        // The first step and a later one overflow before they succeed.
        if (t % 2 == 1) {
          for (const Tensor& p : b) p.set_grad(full_like(p, INFINITY));
          scaled->set_found_inf(flag(1));
          scaled->step();
        }
        give_gradients(a, t);
        give_gradients(b, t);
        plain->step();
        scaled->set_found_inf(t == 4 ? Tensor() : flag(0));
        scaled->step();
      }
      expect_same(a, *plain, b, *scaled, kind.name);
    }
  }
}

TEST(OptimizerStep, OverflowFromTheStartIsSavedAsNoStep) {
  for (const AnyOptimizer& kind : all_optimizers()) {
    const std::vector<Tensor> a = leaves(kind, kFloat32, Device());
    const std::vector<Tensor> b = leaves(kind, kFloat32, Device());
    const auto overflowed = kind.make(a, false), restored = kind.make(b, false);
    overflowed->set_found_inf(ones({}));
    give_gradients(a, 0);
    overflowed->step();
    overflowed->set_found_inf({});
    restored->load_state_dict(overflowed->state_dict());
    for (int t = 1; t <= 2; ++t) {
      give_gradients(a, t);
      give_gradients(b, t);
      overflowed->step();
      restored->step();
    }
    expect_same(a, *overflowed, b, *restored, kind.name);
  }
}

TEST(OptimizerStep, MastersOfHalfParametersTrainAsFloatDoes) {
  for (const Device device : all_devices()) {
    for (const DType dtype : {kBFloat16, kFloat16}) {
      for (const AnyOptimizer& kind : all_optimizers()) {
        if (kind.only_matrices) continue;  // its iterations run in half precision
        const std::vector<Tensor> half = leaves(kind, dtype, device);
        std::vector<Tensor> wide;
        for (const Tensor& p : half) wide.push_back(p.detach().to(kFloat32).requires_grad_());
        const auto master = kind.make(half, true), plain = kind.make(wide, true);
        for (int t = 1; t <= 6; ++t) {
          give_gradients(half, t);
          if (t == 4) {  // the master copy follows when a parameter is assigned
            half[0].detach().fill_(0.25);
            wide[0].detach().fill_(0.25);
          }
          for (size_t i = 0; i < half.size(); ++i) wide[i].set_grad(half[i].grad().to(kFloat32));
          master->step();
          plain->step();
          for (size_t i = 0; i < half.size(); ++i) {
            EXPECT_TRUE(same_bits(half[i], wide[i].detach().to(dtype))) << kind.name << " " << t;
          }
        }
        size_t i = 0;
        for (const auto& [name, tensor] : master->state_dict()) {
          if (!name.ends_with("master_param")) continue;
          EXPECT_TRUE(same_bits(tensor, wide[i++])) << kind.name << " " << name;
        }
        EXPECT_EQ(i, half.size()) << kind.name;
      }
    }
  }
}

TEST(OptimizerStep, AParameterThatIsNoLongerHalfHasNoMaster) {
  for (const Device device : all_devices()) {
    for (const DType later : {kFloat32, kFloat64}) {
      Linear layer(5, 3);
      layer.to(device, kBFloat16);
      optim::SGD sgd(layer.parameters(), {.lr = 0.25, .master_weights = true});
      give_gradients(layer.parameters(), 1);
      sgd.step();
      layer.to(later);
      give_gradients(layer.parameters(), 2);
      const Tensor p = layer.parameters()[0];
      const Tensor want = p.detach() - p.grad() * tensor(0.25, {.dtype = later, .device = device});
      sgd.step();
      EXPECT_TRUE(close(p, want, 1e-7));
      for (const auto& [name, tensor] : sgd.state_dict()) {
        EXPECT_FALSE(name.ends_with("master_param"));
      }
    }
  }
}

TEST(OptimizerStep, MuonTrainsMasters) {
  for (const Device device : all_devices()) {
    for (const DType dtype : {kBFloat16, kFloat16}) {
      const AnyOptimizer& kind = all_optimizers().back();
      const std::vector<Tensor> half = leaves(kind, dtype, device);
      const std::vector<Tensor> wide = leaves(kind, kFloat32, device);
      const auto master = kind.make(half, true), plain = kind.make(wide, false);
      for (int t = 1; t <= 4; ++t) {
        give_gradients(half, t);
        give_gradients(wide, t);
        master->step();
        plain->step();
      }
      for (size_t i = 0; i < half.size(); ++i) {
        EXPECT_TRUE(close(half[i].detach().to(kFloat32), wide[i].detach(), 0.02)) << name_of(dtype);
      }
    }
  }
}

// A placement of the model divides the parameters among devices, and must not change their bits.
TEST(OptimizerStep, MuonUpdatesAMatrixWhateverElseIsOnTheDevice) {
  for (const Device device : all_devices()) {
    for (const Shape& shape : {Shape{8, 24}, Shape{96, 768}, Shape{768, 96}}) {
      const auto matrices = [&](int first, int count) {
        std::vector<Tensor> params;
        for (int i = first; i < first + count; ++i) {
          params.push_back(wave(shape, i, kFloat32, device).requires_grad_());
          params.back().set_grad(wave(shape, 20 + i, kFloat32, device));
        }
        return params;
      };
      const std::vector<Tensor> together = matrices(0, 7);
      optim::Muon(together).step();
      std::vector<Tensor> apart;
      for (const auto& [first, count] : {std::pair(0, 1), std::pair(1, 4), std::pair(5, 2)}) {
        const std::vector<Tensor> part = matrices(first, count);
        optim::Muon(part).step();
        apart.insert(apart.end(), part.begin(), part.end());
      }
      for (size_t i = 0; i < apart.size(); ++i) {
        EXPECT_TRUE(same_bits(apart[i].detach(), together[i].detach()))
            << to_string(device) << " " << i;
      }
    }
  }
}

// The step also writes the low-precision copy of a float parameter, whatever the copy contained.
TEST(OptimizerStep, WritesTheLowPrecisionCopyOfAParameter) {
  for (const Device device : all_devices()) {
    for (const DType wide : {kFloat32, kFloat64}) {
      for (const DType half : {kBFloat16, kFloat16}) {
        for (const int64_t n : {1, 4, 2049, 5000}) {
          const Tensor p = wave({n}, 1, wide, device), low = wave({n}, 9, half, device);
          const Tensor want = p - wave({n}, 2, wide, device) * 0.5;
          kernels::update({{p, wave({n}, 2, wide, device), {}, low}},
                          {full({}, 0.5, {.dtype = kFloat64, .device = device}), {}, {}},
                          optim::SGDOptions{});
          EXPECT_TRUE(same_bits(p, want));
          EXPECT_TRUE(same_bits(low, want.to(half)));
        }
      }
    }
  }
}

// Autocast's copy of a parameter is refreshed in place. It is created again if the parameter was
// changed in another way, also if the step then finds inf.
TEST(OptimizerStep, KeepsAutocastsCopyFresh) {
  for (const Device device : all_devices()) {
    const Tensor p = wave({33}, 1, kFloat32, device).requires_grad_();
    optim::SGD sgd({p}, {.lr = 0.1});
    const Tensor low = low_precision_copy(p, kBFloat16);
    p.set_grad(wave({33}, 2, kFloat32, device));
    sgd.step();
    EXPECT_TRUE(low_precision_copy(p, kBFloat16).is_same(low));
    EXPECT_TRUE(same_bits(low, p.detach().to(kBFloat16)));
    sgd.set_found_inf(ones({}, {.device = device}));
    for (const bool by_hand : {false, true}) {
      if (by_hand) p.detach().fill_(3);
      sgd.step();
      EXPECT_TRUE(same_bits(low_precision_copy(p, kBFloat16), p.detach().to(kBFloat16)));
    }
    forget_low_precision_copy(p.impl());
  }
}

// More tensors than one launch processes, of small and odd sizes, some empty. The results are those
// of optimizers with few tensors each.
TEST(OptimizerStep, TakesManyParameters) {
  constexpr size_t kFew = 9;
  for (const Device device : all_devices()) {
    for (const AnyOptimizer& kind : all_optimizers()) {
      for (const size_t count : {9 * kFew, 81 * kFew - 8}) {
        std::vector<Tensor> together, apart;
        for (size_t i = 0; i < count; ++i) {
          const Shape shape = kind.only_matrices ? Shape{int64_t(i % 3), 2} : Shape{int64_t(i % 7)};
          for (auto* list : {&together, &apart}) {
            list->push_back(
                wave(shape, double(i), i % 5 ? kFloat32 : kFloat64, device).requires_grad_());
          }
        }
        give_gradients(together, 1);
        give_gradients(apart, 1);
        kind.make(together, false)->step();
        for (auto first = apart.begin(); first != apart.end();) {
          const auto last = first + std::min<ptrdiff_t>(kFew, apart.end() - first);
          kind.make({first, last}, false)->step();
          first = last;
        }
        for (size_t i = 0; i < count; ++i) {
          EXPECT_TRUE(close(together[i], apart[i], 1e-6)) << kind.name << " " << i;
        }
      }
    }
  }
}

// Parameters that begin in the middle of a storage or are transposed, with contiguous gradients.
TEST(OptimizerStep, FollowsTheMemoryOfItsParameters) {
  for (const Device device : all_devices()) {
    for (const AnyOptimizer& kind : all_optimizers()) {
      const auto odd = [&](double seed) -> std::vector<Tensor> {
        const Tensor at_one = wave({100}, seed, kFloat32, device);
        return {at_one.narrow(0, 1, 93).view({31, 3}).detach().requires_grad_(),
                wave({5, 7}, seed, kFloat32, device).t().detach().requires_grad_()};
      };
      const std::vector<Tensor> views = odd(1);
      std::vector<Tensor> plain;
      for (const Tensor& p : views) {
        const Tensor copy = empty(p.shape(), {.device = device});
        copy.copy_(p.detach());
        plain.push_back(copy.requires_grad_());
      }
      const auto a = kind.make(views, false), b = kind.make(plain, false);
      for (int t = 1; t <= 3; ++t) {
        give_gradients(views, t);
        give_gradients(plain, t);
        a->step();
        b->step();
      }
      for (size_t i = 0; i < views.size(); ++i) {
        EXPECT_TRUE(close(views[i], plain[i], 1e-5)) << kind.name << " " << i;
      }
    }
  }
}

// A steady-state step allocates nothing and keeps its tensors, so that a CUDA graph can replay it.
TEST(OptimizerStep, KeepsItsStateInPlace) {
  for (const AnyOptimizer& kind : all_optimizers()) {
    const std::vector<Tensor> params = leaves(kind, kFloat32, Device());
    const auto optimizer = kind.make(params, false);
    const auto addresses = [&] {
      std::vector<void*> out;
      for (const auto& [name, tensor] : optimizer->state_dict()) {
        // Counts, and values computed from them, are created by state_dict().
        const bool is_number = name.ends_with(".step") || name.ends_with(".mu_product");
        if (name.starts_with("state.") && !is_number) out.push_back(tensor.data_ptr());
      }
      return out;
    };
    give_gradients(params, 1);
    optimizer->step();
    const std::vector<void*> before = addresses();
    optimizer->set_lr(0.5);
    optimizer->step();
    EXPECT_EQ(addresses(), before) << kind.name;
  }
}

}  // namespace
}  // namespace taper::v0::test
