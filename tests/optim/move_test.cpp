// Optimizers as values that are moved, assigned and returned; and optimizers without groups.
#include <functional>
#include <optional>

#include <gtest/gtest.h>

#include "autograd/ops/binary_ops.h"
#include "autograd/ops/reduce_ops.h"
#include "framework/profiler/profiler.h"
#include "modules/layers/linear.h"
#include "optim/algorithms/lbfgs.h"
#include "optim/ema.h"
#include "tests/optim/all_optimizers.h"

namespace taper::v0::test {
namespace {

using namespace optim;

AdamW returned(const std::vector<Tensor>& params, bool master) {
  AdamW optimizer(params, {.lr = 0.02, .amsgrad = true, .master_weights = master});
  if (params.empty()) throw Error("no parameters");
  return optimizer;
}

TEST(MovedOptimizer, GoesOnWithTheSameBits) {
  for (const Device device : all_devices()) {
    for (const DType dtype : {kFloat32, kBFloat16}) {
      const AnyOptimizer& kind = all_optimizers()[3];
      const std::vector<Tensor> a = leaves(kind, dtype, device), b = leaves(kind, dtype, device);
      const bool master = is_half(dtype);
      AdamW still = returned(a, master), first = returned(b, master);
      AdamW assigned(std::vector<Tensor>{zeros({2}).requires_grad_()});
      const auto step = [&](int t, AdamW& moved) {
        give_gradients(a, t);
        give_gradients(b, t);
        still.step();
        moved.step();
        expect_same(a, still, b, moved, concat_to_string("step ", t));
      };
      step(0, first);
      AdamW second = std::move(first);
      step(1, second);
      assigned = std::move(second);
      step(2, assigned);
      std::swap(assigned, second);
      step(3, second);
      std::vector<AdamW> many;
      many.push_back(std::move(second));
      for (int i = 0; i < 4; ++i) many.emplace_back(std::vector<Tensor>{zeros({1})});
      step(4, many[0]);
      EXPECT_TRUE(many[0].skips_on_device());
      many[0].add_param_group({ones({2}).requires_grad_()});  // with the constructor's options
      EXPECT_EQ(many[0].lr(1), 0.02);
    }
  }
}

// Parameters on several devices are updated as on one. Half of them have no gradient in the first
// step, so that the numbers of updates differ.
TEST(Optimizer, UpdatesParametersOfSeveralDevicesToTheSameBits) {
  for (const auto& [first, second] : device_pairs()) {
    for (const AnyOptimizer& kind : all_optimizers()) {
      for (const DType dtype : {kFloat32, kBFloat16}) {
        const std::vector<Tensor> together = leaves(kind, dtype, first);
        std::vector<Tensor> apart;
        for (const Tensor& p : leaves(kind, dtype, first)) {
          const Device device = apart.size() % 2 == 0 ? second : first;
          apart.push_back(p.detach().to(device, {.copy = true}).requires_grad_());
        }
        const auto one = kind.make(together, is_half(dtype));
        const auto two = kind.make(apart, is_half(dtype));
        for (int t = 0; t < 3; ++t) {
          for (const auto& params : {together, apart}) {
            give_gradients(params, t);
            for (size_t i = 0; t == 0 && i < params.size(); i += 3) params[i].set_grad({});
          }
          const Tensor found_inf = full({}, t == 1 ? 1.0 : 0.0, {.device = second});
          one->step_unless(found_inf.to(first));
          two->step_unless(found_inf);
        }
        std::vector<Tensor> brought;
        for (const Tensor& p : apart) brought.push_back(p.detach().to(first));
        for (size_t i = 0; i < brought.size(); ++i) {
          EXPECT_TRUE(same_bits(brought[i], together[i].detach())) << kind.name << " " << i;
        }
        const std::vector<NamedTensor> state = two->state_dict(), want = one->state_dict();
        ASSERT_EQ(state.size(), want.size()) << kind.name;
        for (size_t i = 0; i < state.size(); ++i) {
          EXPECT_TRUE(same_bits(state[i].tensor.to(want[i].tensor.device()), want[i].tensor))
              << kind.name << " " << state[i].name;
        }
      }
    }
  }
}

TEST(MovedOptimizer, OfAKindOfItsOwnGoesOn) {
  Linear net(2, 1);
  const auto closure = [&] {
    net.zero_grad();
    const Tensor loss = net(ones({3, 2})).square().sum();
    loss.backward();
    return loss;
  };
  LBFGS first(net.parameters());
  const double before = first.step(closure).item<double>();
  LBFGS second = std::move(first);
  EXPECT_LT(second.step(closure).item<double>(), before);
  first = std::move(second);
  (void)first.step(closure);
  EXPECT_TRUE(refuses<Error>([&] { return second.step(closure); }, "this optimizer was moved"));
}

TEST(MovedOptimizer, SaysThatItWasMovedFrom) {
  const Tensor p = ones({2}).requires_grad_();
  SGD first({p}, {.lr = 0.5});
  const SGD second = std::move(first);
  EXPECT_TRUE(refuses<Error>([&] { return first.step(), 0; }, "this optimizer was moved from"));
  EXPECT_TRUE(refuses<IndexError>([&] { return first.lr(); },
                                  "the optimizer has 0 parameter groups, counted from 0, but no "
                                  "group 0"));
  EXPECT_EQ(first.num_groups(), 0u);
  first = SGD({p}, {.lr = 0.25});
  p.set_grad(ones({2}));
  first.step();
  EXPECT_TRUE(close(p, full({2}, 0.75), 0));
}

TEST(Optimizers, AGroupThatThereIsNotIsAnIndexError) {
  SGD optimizer(std::vector<Tensor>{ones({2}).requires_grad_()});
  const char* const text = "the optimizer has 1 parameter group, counted from 0, but no group 3";
  EXPECT_TRUE(refuses<IndexError>([&] { return optimizer.lr(3); }, text));
  EXPECT_TRUE(refuses<IndexError>([&] { return optimizer.set_lr(3, 0.1), 0; }, text));
}

// A derived class may have no groups, temporarily or permanently.
struct WithoutGroups : Optimizer {};

TEST(Optimizers, WithoutGroupsStepNothing) {
  WithoutGroups optimizer;
  {
    const Profiler profiler;
    optimizer.step();
  }
  EXPECT_TRUE(optimizer.state_dict().empty());
  optimizer.load_state_dict({});
  EXPECT_TRUE(refuses<ValueError>(
      [&] {
        return optimizer.load_state_dict({{"x", ones({1})}}), 0;
      },
      "Error(s) in loading state_dict for Optimizer:"));
}

// --- steps while averages are in the model ---

TEST(Optimizers, RefuseToStepWhileAveragesAreInTheModel) {
  for (const Device device : all_devices()) {
    Linear net(2, 2), other(2, 2);
    net.to(device);
    EMA ema(net.named_parameters(), {.decay = 0.5});
    AveragedModel mean(net.named_parameters());
    SGD optimizer(net.parameters(), {.lr = 1}), sibling(other.parameters(), {.lr = 1});
    LBFGS lbfgs(net.parameters());
    for (const Tensor& p : net.parameters()) p.set_grad(ones(p.shape(), {.device = device}));
    const Tensor before = net.weight->detach().clone();
    const auto refused = [&](const std::function<void()>& step, const char* text) {
      EXPECT_TRUE(refuses<Error>([&] { return step(), 0; }, text));
    };
    {
      const EMA::Guard averaged(ema);
      const char* const text = "EMA: step() while the averages are in the model";
      refused([&] { optimizer.step(); }, text);
      refused([&] { optimizer.step([] { return Tensor(); }); }, text);
      refused([&] { lbfgs.step([] { return ones({}); }); }, text);
      refused([&] { optimizer.step_unless(zeros({}, {.device = device})); }, text);
      sibling.step();
      const AveragedModel::Guard both(mean);
      refused([&] { optimizer.step(); }, "");
    }
    EXPECT_TRUE(same_bits(net.weight->detach(), before));
    optimizer.step();
    EXPECT_TRUE(close(net.weight->detach(), before - 1, 1e-6));
    // An EMA that is destroyed while swapped leaves the averages in the model, which may then be
    // trained.
    std::optional<EMA> gone(std::in_place, net.named_parameters());
    gone->swap();
    gone.reset();
    optimizer.step();
  }
}

}  // namespace
}  // namespace taper::v0::test
