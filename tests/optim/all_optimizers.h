// Every optimizer, with options that use all of its state, for tests that apply to all optimizers.
#pragma once

#include <cmath>
#include <functional>
#include <memory>

#include "framework/factory/factories.h"
#include "optim/algorithms/optimizers.h"
#include "tests/testing.h"

namespace taper::v0::test {

struct AnyOptimizer {
  const char* name;
  std::function<std::unique_ptr<optim::Optimizer>(const std::vector<Tensor>&, bool master)> make;
  bool only_matrices = false;
};

template <class O, class Options> AnyOptimizer any(const char* name, Options options) {
  return {name, [options](const std::vector<Tensor>& params, bool master) {
            Options o = options;
            o.master_weights = master;
            return std::make_unique<O>(params, o);
          }};
}

inline const std::vector<AnyOptimizer>& all_optimizers() {
  using namespace optim;
  static const std::vector<AnyOptimizer> all = [] {
    std::vector<AnyOptimizer> list = {
        any<SGD>("SGD", SGDOptions{.lr = 0.1, .weight_decay = 0.1}),
        any<SGD>("SGD dampened", SGDOptions{.lr = 0.1, .momentum = 0.9, .dampening = 0.5}),
        any<Adam>("Adam", AdamOptions{.lr = 0.02, .weight_decay = 0.1}),
        any<AdamW>("AdamW", AdamWOptions{.lr = 0.02, .amsgrad = true}),
        any<Adamax>("Adamax", AdamaxOptions{.lr = 0.02, .weight_decay = 0.1}),
        any<NAdam>("NAdam", NAdamOptions{.lr = 0.02, .weight_decay = 0.1}),
        any<RAdam>("RAdam", RAdamOptions{.lr = 0.02, .decoupled_weight_decay = true}),
        any<Adagrad>("Adagrad",
                     AdagradOptions{.lr = 0.1, .lr_decay = 0.1, .initial_accumulator_value = 0.2}),
        any<Adadelta>("Adadelta", AdadeltaOptions{.weight_decay = 0.1}),
        any<RMSprop>("RMSprop", RMSpropOptions{.momentum = 0.5}),
        any<RMSprop>("RMSprop centered", RMSpropOptions{.momentum = 0.5, .centered = true}),
        any<Lion>("Lion", LionOptions{.lr = 0.01, .weight_decay = 0.1}),
        any<Muon>("Muon", MuonOptions{.lr = 0.02}),
    };
    list.back().only_matrices = true;
    return list;
  }();
  return all;
}

// Returns a tensor of values in [-1, 1] that depend on `seed`.
inline Tensor wave(const Shape& shape, double seed, DType dtype, Device device) {
  std::vector<double> values(size_t(shape.numel()));
  for (size_t i = 0; i < values.size(); ++i) values[i] = std::sin(double(i) * 1.7 + seed * 2.3);
  return tensor_of(values.data(), shape, {.dtype = dtype, .device = device});
}

// Returns leaves of shapes that the optimizer accepts.
inline std::vector<Tensor> leaves(const AnyOptimizer& kind, DType dtype, Device device) {
  std::vector<Tensor> params;
  for (const Shape& shape : {Shape{3, 5}, Shape{70, 33}, Shape{3, 5}, Shape{0, 4}}) {
    const double seed = double(params.size());
    params.push_back(wave(shape, seed, dtype, device));
    if (!kind.only_matrices) params.push_back(wave({shape[0] + 1}, seed, dtype, device));
  }
  for (const Tensor& p : params) p.requires_grad_();
  return params;
}

inline void give_gradients(const std::vector<Tensor>& params, int t) {
  for (size_t i = 0; i < params.size(); ++i) {
    const Tensor& p = params[i];
    p.set_grad(wave(p.shape(), double(t) + 0.1 * double(i), p.dtype(), p.device()));
  }
}

// Expects that parameters and state have equal bits.
inline void expect_same(const std::vector<Tensor>& a, const optim::Optimizer& of_a,
                        const std::vector<Tensor>& b, const optim::Optimizer& of_b,
                        const std::string& what) {
  for (size_t i = 0; i < a.size(); ++i) EXPECT_TRUE(same_bits(a[i], b[i])) << what << " " << i;
  const std::vector<NamedTensor> sa = of_a.state_dict(), sb = of_b.state_dict();
  ASSERT_EQ(sa.size(), sb.size()) << what;
  for (size_t i = 0; i < sa.size(); ++i) {
    EXPECT_EQ(sa[i].name, sb[i].name) << what;
    EXPECT_TRUE(same_bits(sa[i].tensor, sb[i].tensor)) << what << " " << sa[i].name;
  }
}

}  // namespace taper::v0::test
