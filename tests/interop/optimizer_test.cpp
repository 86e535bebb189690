// Optimizers compared with PyTorch: ten steps, and the states after five of them, from which either
// side can continue. optimizers.py writes the file, and reads the states that are written here to
// TAPER_INTEROP_OUT.
#include <algorithm>
#include <cstdlib>
#include <functional>
#include <map>
#include <memory>

#include <gtest/gtest.h>

#include "autograd/ops/binary_ops.h"
#include "autograd/ops/reduce_ops.h"
#include "autograd/ops/shape_ops.h"
#include "autograd/ops/unary_ops.h"
#include "framework/factory/factories.h"
#include "framework/io/safetensors.h"
#include "optim/algorithms/optimizers.h"
#include "tests/testing.h"

namespace taper::v0::test {
namespace {

using namespace optim;

constexpr int kSteps = 10, kHalfWay = 5, kParams = 6, kMatrices = 3;

std::map<std::string, Tensor>& stored() {
  static std::map<std::string, Tensor> all = [] {
    std::map<std::string, Tensor> out;
    for (const auto& [name, tensor] :
         load_safetensors(TAPER_INTEROP_DIR "/optimizers.safetensors").tensors) {
      out[name] = tensor;
    }
    return out;
  }();
  return all;
}

struct Case {
  const char* name;
  // Creates the optimizer with two groups, the second with another learning rate.
  std::function<std::unique_ptr<Optimizer>(const std::vector<Tensor>&)> make;
  int params = kParams;
};

template <class O, class Options> Case row(const char* name, Options options) {
  return {name, [options](const std::vector<Tensor>& params) {
            Options slower = options;
            slower.lr = 0.03;
            const std::vector<Tensor> first(params.begin(), params.begin() + 2);
            const std::vector<Tensor> rest(params.begin() + 2, params.end());
            return std::make_unique<O>(
                std::vector<ParamGroup<Options>>{{first, options}, {rest, slower}});
          }};
}
Case sgd(const char* name, SGDOptions o) { return row<SGD>(name, o); }
Case adam(const char* name, AdamOptions o) { return row<Adam>(name, o); }
Case adamw(const char* name, AdamWOptions o) { return row<AdamW>(name, o); }
Case adamax(const char* name, AdamaxOptions o) { return row<Adamax>(name, o); }
Case nadam(const char* name, NAdamOptions o) { return row<NAdam>(name, o); }
Case radam(const char* name, RAdamOptions o) { return row<RAdam>(name, o); }
Case adagrad(const char* name, AdagradOptions o) { return row<Adagrad>(name, o); }
Case adadelta(const char* name, AdadeltaOptions o) { return row<Adadelta>(name, o); }
Case rmsprop(const char* name, RMSpropOptions o) { return row<RMSprop>(name, o); }
Case lion(const char* name, LionOptions o) { return row<Lion>(name, o); }
Case muon(const char* name, MuonOptions o) {
  Case c = row<Muon>(name, o);
  c.params = kMatrices;
  return c;
}

const std::vector<Case>& cases() {
  static const std::vector<Case> all = {
      sgd("sgd", {.lr = 0.1}),
      sgd("sgd decay", {.lr = 0.1, .weight_decay = 0.3}),
      sgd("sgd momentum", {.lr = 0.1, .momentum = 0.9}),
      sgd("sgd dampening", {.lr = 0.1, .momentum = 0.9, .dampening = 0.4, .weight_decay = 0.1}),
      sgd("sgd nesterov", {.lr = 0.1, .momentum = 0.8, .weight_decay = 0.1, .nesterov = true}),
      sgd("sgd maximize", {.lr = 0.1, .momentum = 0.8, .weight_decay = 0.1, .maximize = true}),
      adam("adam", {.lr = 0.05}),
      adam("adam decay", {.lr = 0.05, .betas = {0.8, 0.95}, .weight_decay = 0.2}),
      adam("adam amsgrad", {.lr = 0.05, .betas = {0.7, 0.5}, .amsgrad = true, .maximize = true}),
      adamw("adamw", {.lr = 0.05}),
      adamw("adamw decay", {.lr = 0.05, .eps = 1e-3, .weight_decay = 0.5}),
      adamw("adamw amsgrad", {.lr = 0.05, .betas = {0.7, 0.5}, .amsgrad = true}),
      adamax("adamax", {}),
      adamax("adamax all",
             {.lr = 0.05, .betas = {0.7, 0.6}, .eps = 1e-3, .weight_decay = 0.2, .maximize = true}),
      nadam("nadam", {.lr = 0.05}),
      nadam("nadam decay", {.lr = 0.05,
                            .betas = {0.8, 0.9},
                            .weight_decay = 0.2,
                            .momentum_decay = 0.3,
                            .maximize = true}),
      nadam("nadam decoupled", {.eps = 1e-3, .weight_decay = 0.3, .decoupled_weight_decay = true}),
      radam("radam", {.lr = 0.05}),
      radam("radam decay",
            {.lr = 0.05, .betas = {0.8, 0.95}, .eps = 1e-3, .weight_decay = 0.2, .maximize = true}),
      radam("radam decoupled",
            {.lr = 0.02, .betas = {0.7, 0.9}, .weight_decay = 0.3, .decoupled_weight_decay = true}),
      adagrad("adagrad", {.lr = 0.1}),
      adagrad("adagrad all", {.lr = 0.1,
                              .lr_decay = 0.2,
                              .weight_decay = 0.1,
                              .initial_accumulator_value = 0.3,
                              .eps = 1e-4,
                              .maximize = true}),
      adadelta("adadelta", {}),
      adadelta("adadelta all",
               {.lr = 0.7, .rho = 0.6, .eps = 1e-3, .weight_decay = 0.2, .maximize = true}),
      rmsprop("rmsprop", {}),
      rmsprop("rmsprop momentum", {.lr = 0.02, .alpha = 0.8, .weight_decay = 0.1, .momentum = 0.7}),
      rmsprop("rmsprop centered", {.alpha = 0.9, .eps = 1e-4, .centered = true, .maximize = true}),
      rmsprop("rmsprop all", {.lr = 0.02, .weight_decay = 0.1, .momentum = 0.5, .centered = true}),
      lion("lion", {.lr = 0.01}),
      lion("lion all", {.lr = 0.01, .betas = {0.8, 0.7}, .weight_decay = 0.3, .maximize = true}),
      muon("muon", {.lr = 0.02}),
      muon("muon all", {.lr = 0.02,
                        .weight_decay = 0.3,
                        .momentum = 0.7,
                        .nesterov = false,
                        .ns_coefficients = {2.0, -1.5, 0.5},
                        .ns_steps = 3,
                        .adjust_lr_fn = AdjustLr::kMatchRmsAdamw}),
  };
  return all;
}

struct Training {
  std::vector<Tensor> params;
  std::unique_ptr<Optimizer> optimizer;

  Training(const Case& c, DType dtype, Device device) {
    for (int i = 0; i < c.params; ++i) {
      params.push_back(
          stored().at(concat_to_string("start.", i)).to(device, dtype, {.copy = true}));
      params.back().requires_grad_();
    }
    optimizer = c.make(params);
  }
  void advance(int t) {
    for (size_t i = 0; i < params.size(); ++i) {
      params[i].set_grad(
          stored().at(concat_to_string("grad.", i))[t].to(params[i].device(), params[i].dtype()));
    }
    optimizer->step();
  }
  std::vector<double> values() const {
    std::vector<double> out;
    for (const Tensor& p : params) {
      const std::vector<double> part = values_of(p);
      out.insert(out.end(), part.begin(), part.end());
    }
    return out;
  }
  void set_values(const std::vector<double>& all) {
    size_t at = 0;
    for (const Tensor& p : params) {
      p.detach().copy_(tensor_of(all.data() + at, p.shape()));
      at += size_t(p.numel());
    }
  }
};

std::vector<double> wanted(const Case& c, DType dtype, int step) {
  return values_of(stored().at(concat_to_string(c.name, "/", name_of(dtype)))[step - 1]);
}

// Returns the state of PyTorch's optimizer after half of the steps.
std::vector<NamedTensor> pytorch_state(const std::string& name_of_case) {
  const std::string prefix = name_of_case + "/";
  std::vector<NamedTensor> state;
  for (const auto& [name, tensor] : stored()) {
    if (name.starts_with(prefix) && name.find('.') != name.npos) {
      state.push_back({name.substr(prefix.size()), tensor});
    }
  }
  return state;
}

TEST(PyTorchOptimizers, TakePyTorchsSteps) {
  for (const Device device : all_devices()) {
    for (const Case& c : cases()) {
      for (const DType dtype : {kFloat64, kFloat32}) {
        Training run(c, dtype, device);
        for (int t = 1; t <= kSteps; ++t) {
          run.advance(t - 1);
          EXPECT_TRUE(close(run.values(), wanted(c, dtype, t), dtype == kFloat64 ? 1e-10 : 1e-5))
              << c.name << " " << name_of(dtype) << " step " << t << " on " << to_string(device);
        }
      }
    }
  }
}

TEST(PyTorchOptimizers, GoOnFromPyTorchsState) {
  for (const Device device : all_devices()) {
    for (const Case& c : cases()) {
      Training run(c, kFloat64, device);
      run.set_values(wanted(c, kFloat64, kHalfWay));
      run.optimizer->set_lr(123);  // the loaded state replaces it
      run.optimizer->load_state_dict(pytorch_state(c.name));
      for (int t = kHalfWay; t < kSteps; ++t) run.advance(t);
      EXPECT_TRUE(close(run.values(), wanted(c, kFloat64, kSteps), 1e-10)) << c.name;
    }
  }
}

TEST(PyTorchOptimizers, HavePyTorchsState) {
  for (const Case& c : cases()) {
    Training run(c, kFloat64, Device());
    for (int t = 0; t < kHalfWay; ++t) run.advance(t);
    const std::vector<NamedTensor> own = run.optimizer->state_dict();
    std::map<std::string, Tensor> theirs;
    for (const auto& [name, tensor] : pytorch_state(c.name)) theirs[name] = tensor;
    EXPECT_EQ(own.size(), theirs.size()) << c.name;
    for (const auto& [name, tensor] : own) {
      ASSERT_TRUE(theirs.count(name)) << c.name << ": " << name;
      EXPECT_EQ(tensor.dtype(), theirs[name].dtype()) << c.name << ": " << name;
      EXPECT_TRUE(close(tensor, theirs[name], 1e-10)) << c.name << ": " << name;
    }
    if (const char* folder = std::getenv("TAPER_INTEROP_OUT")) {
      save_safetensors(concat_to_string(folder, "/", c.name, ".safetensors"), own);
    }
  }
}

// --- LBFGS, which calls a closure ---

struct ClosureCase {
  const char* name;
  LBFGSOptions options;
};
const ClosureCase kClosureCases[] = {
    {"lbfgs", {.lr = 0.01, .max_iter = 4}},
    {"lbfgs history", {.lr = 0.01, .max_iter = 6, .tolerance_change = 1e-12, .history_size = 3}},
    {"lbfgs wolfe", {.max_iter = 5, .line_search_fn = LineSearch::kStrongWolfe}},
    {"lbfgs wolfe few",
     {.lr = 0.5,
      .max_iter = 8,
      .max_eval = 6,
      .history_size = 4,
      .line_search_fn = LineSearch::kStrongWolfe}},
    {"lbfgs wolfe tolerant",
     {.max_iter = 30,
      .tolerance_grad = 40,
      .tolerance_change = 0.5,
      .line_search_fn = LineSearch::kStrongWolfe}},
};

struct Descent {
  std::vector<Tensor> params;
  LBFGS optimizer;

  // Starts from the common start, or from PyTorch's parameters after a step.
  Descent(const ClosureCase& c, Device device, int after = 0)
      : params(leaves(c, device, after)), optimizer(params, c.options) {}
  static std::vector<Tensor> leaves(const ClosureCase& c, Device device, int after) {
    std::vector<Tensor> out;
    int64_t at = 1;
    for (int i = 0; i < kParams; ++i) {
      Tensor p = stored().at(concat_to_string("start.", i));
      if (after > 0) {
        const Tensor row = stored().at(concat_to_string(c.name, "/float64"))[after - 1];
        p = row.narrow(0, at, p.numel()).reshape(p.shape());
      }
      at += p.numel();
      out.push_back(p.to(device, kFloat64, {.copy = true}).requires_grad_());
    }
    return out;
  }
  // Returns the loss before a step on Rosenbrock's function, followed by the parameters after it.
  std::vector<double> step() {
    const Tensor loss = optimizer.step([&] {
      optimizer.zero_grad();
      const Tensor x = joined(), a = x.narrow(0, 0, x.numel() - 1);
      const Tensor f =
          (square(x.narrow(0, 1, x.numel() - 1) - square(a)) * 100 + square(1 - a)).sum();
      f.backward();
      return f;
    });
    std::vector<double> out = values_of(joined().detach());
    out.insert(out.begin(), loss.item<double>());
    return out;
  }
  Tensor joined() const {
    std::vector<Tensor> flat;
    for (const Tensor& p : params) flat.push_back(p.reshape({p.numel()}));
    return cat(flat, 0);
  }
};

TEST(PyTorchOptimizers, LBFGSTakesPyTorchsSteps) {
  for (const Device device : all_devices()) {
    for (const ClosureCase& c : kClosureCases) {
      Descent run(c, device);
      for (int t = 0; t < kSteps; ++t) {
        const Tensor want = stored().at(concat_to_string(c.name, "/float64"))[t];
        EXPECT_TRUE(close(run.step(), values_of(want), 1e-8)) << c.name << " step " << t;
      }
    }
  }
}

TEST(PyTorchOptimizers, LBFGSGoesOnFromPyTorchsStateAndHasIt) {
  for (const ClosureCase& c : kClosureCases) {
    Descent run(c, Device(), kHalfWay), whole(c, Device());
    run.optimizer.set_lr(123);
    run.optimizer.load_state_dict(pytorch_state(c.name));
    EXPECT_EQ(run.optimizer.lr(), c.options.lr);
    for (int t = 0; t < kHalfWay; ++t) (void)whole.step();
    const std::vector<NamedTensor> own = whole.optimizer.state_dict();
    std::map<std::string, Tensor> theirs;
    for (const auto& [name, tensor] : pytorch_state(c.name)) theirs[name] = tensor;
    EXPECT_EQ(own.size(), theirs.size()) << c.name;
    for (const auto& [name, tensor] : own) {
      ASSERT_TRUE(theirs.count(name)) << c.name << ": " << name;
      EXPECT_EQ(tensor.dtype(), theirs[name].dtype()) << c.name << ": " << name;
      EXPECT_TRUE(close(tensor, theirs[name], 1e-7)) << c.name << ": " << name;
    }
    for (int t = kHalfWay; t < kSteps; ++t) {
      const Tensor want = stored().at(concat_to_string(c.name, "/float64"))[t];
      EXPECT_TRUE(close(run.step(), values_of(want), 1e-8)) << c.name << " step " << t;
    }
    if (const char* folder = std::getenv("TAPER_INTEROP_OUT")) {
      save_safetensors(concat_to_string(folder, "/", c.name, ".safetensors"), own);
    }
  }
}

TEST(PyTorchOptimizers, LBFGSFindsTheMinimum) {
  for (const Device device : all_devices()) {
    Descent run({"lbfgs wolfe", {.max_iter = 500, .line_search_fn = LineSearch::kStrongWolfe}},
                device);
    (void)run.step();
    for (const double slope : values_of(run.params[0].grad())) EXPECT_NEAR(slope, 0, 1e-3);
    // a minimum: 0 at (1, ..., 1), or the local one near (-1, 1, ..., 1)
    EXPECT_LT(run.step()[0], 4);
  }
}

TEST(PyTorchOptimizers, LBFGSRefuses) {
  const Tensor a = zeros({2}, {.requires_grad = true}), b = zeros({2}, {.requires_grad = true});
  LBFGS optimizer({a});
  EXPECT_TRUE(
      refuses<TypeError>([&] { return optimizer.step(), 0; }, "LBFGS::step() needs a closure"));
  optimizer.add_param_group({{"b", b}}, LBFGSOptions());
  EXPECT_TRUE(refuses<ValueError>([&] { return optimizer.step([] { return zeros({}); }); },
                                  "LBFGS doesn't support per-parameter options"));
}

// PyTorch's Muon always rounds to bfloat16. Taper does so only for half parameters.
TEST(PyTorchOptimizers, MuonOfHalfMatricesIsNearThatOfFloat) {
  for (const Device device : all_devices()) {
    const Case& c = *std::find_if(cases().begin(), cases().end(),
                                  [](const Case& x) { return std::string(x.name) == "muon"; });
    for (const DType dtype : {kBFloat16, kFloat16}) {
      Training run(c, dtype, device);
      for (int t = 0; t < kSteps; ++t) run.advance(t);
      EXPECT_TRUE(close(run.values(), wanted(c, kFloat64, kSteps), 0.03)) << name_of(dtype);
    }
  }
}

}  // namespace
}  // namespace taper::v0::test
