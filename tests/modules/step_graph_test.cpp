// A captured step gives the same bits as the step itself. A step that cannot be captured runs op by
// op.
#include "autograd/step_graph.h"

#include <gtest/gtest.h>

#include "autograd/autocast.h"
#include "autograd/ops/binary_ops.h"
#include "autograd/ops/nn/attention_ops.h"
#include "autograd/ops/nn/conv_ops.h"
#include "autograd/ops/nn/loss_ops.h"
#include "autograd/ops/nn/pool_ops.h"
#include "autograd/ops/random_ops.h"
#include "autograd/ops/shape_ops.h"
#include "autograd/ops/unary_ops.h"
#include "framework/cuda/cuda.h"
#include "framework/factory/factories.h"
#include "framework/factory/generator.h"
#include "framework/memory/cuda_memory.h"
#include "modules/layers/conv_layers.h"
#include "modules/layers/linear.h"
#include "modules/layers/norm_layers.h"
#include "optim/algorithms/adam.h"
#include "optim/algorithms/sgd.h"
#include "optim/clip.h"
#include "optim/ema.h"
#include "optim/grad_scaler.h"
#include "optim/schedule.h"
#include "tests/testing.h"

namespace taper::v0::test {
namespace {

// Convolution, batch norm, attention and dropout on images [N, 1, 8, 8].
struct StepNet : Module {
  Child<Conv2d> conv{*this, "conv", 1, 4, 3, ConvOptions{.padding = 1}};
  Child<BatchNorm2d> bn{*this, "bn", 4};
  Child<Linear> qkv{*this, "qkv", 64, 192};
  Child<LayerNorm> ln{*this, "ln", Shape{64}};
  Child<Linear> fc{*this, "fc", 256, 10};
  Tensor forward(const Tensor& x) override {
    const Tensor u = relu(bn(conv(x))).flatten(2);  // [N, 4, 64]
    const std::vector<Tensor> parts = chunk(qkv(ln(u)), 3, -1);
    const double p = is_training() ? 0.1 : 0;
    const Tensor y = scaled_dot_product_attention(parts[0], parts[1], parts[2], {.dropout_p = p});
    return fc(dropout(y.flatten(1), 0.2, is_training()));
  }
  std::string type_name() const override { return "StepNet"; }
};

struct How {
  const char* name;
  std::optional<DType> half;
  bool scaler, clip, ema;
};

// The state after ten steps.
struct Trace {
  std::vector<Tensor> losses, weights;
  PhiloxKey generator;
  size_t graphs = 0;
  std::string reason;
};

Trace train(const How& how, Device device, bool graph) {
  manual_seed(3);
  StepNet net;
  net.to(device);
  optim::AdamW optimizer(net.named_parameters(), {.lr = 1e-2}, {optim::no_decay()});
  optim::LRScheduler schedule(optimizer,
                              optim::schedule::warm_up(4, optim::schedule::exponential(0.9)));
  optim::GradScaler scaler({.init_scale = 1024, .growth_interval = 3, .enabled = how.scaler});
  optim::EMA ema(net.named_parameters());
  const StepGraph::Step body = [&](const std::vector<Tensor>& in) {
    Tensor loss;
    {
      const AutocastGuard casts(device.type(), how.half, how.half.has_value());
      loss = cross_entropy(net(in[0]), in[1]);
    }
    optimizer.zero_grad();
    scaler.scale(loss).backward();
    scaler.unscale_(optimizer);
    if (how.clip) (void)optim::clip_grad_norm_(net.parameters(), 0.5);
    scaler.step(optimizer);
    scaler.update();
    if (how.ema) ema.update();
    return std::vector<Tensor>{loss};
  };
  StepGraph captured(body, 2);
  Trace trace;
  for (int step = 0; step < 12; ++step) {
    // Every third batch is smaller and needs another graph.
    const int64_t n = step % 3 == 2 ? 5 : 8;
    Generator generator{uint64_t(step)};
    const Tensor x = randn({n, 1, 8, 8}, {.device = device}, &generator);
    const Tensor y = randint(0, 10, {n}, {.device = device}, &generator);
    const Tensor loss = graph ? captured({x, y})[0] : body({x, y})[0].detach();
    trace.losses.push_back(loss.clone());
    schedule.step();
  }
  for (const NamedTensor& t : net.state_dict()) trace.weights.push_back(t.tensor);
  for (const Tensor& t : ema.averages()) trace.weights.push_back(t);
  trace.generator = default_generator().state();
  trace.graphs = captured.num_graphs();
  trace.reason = captured.reason();
  return trace;
}

TEST(StepGraph, ReplaysTheBitsOfTheStepItself) {
  if (skip_without_cuda() || skip_without_cache()) return;
  for (const How& how :
       {How{"float32", {}, false, true, true}, How{"bfloat16", kBFloat16, false, true, false},
        How{"float16", kFloat16, true, false, true}}) {
    SCOPED_TRACE(how.name);
    const Trace eager = train(how, "cuda:0", false), graph = train(how, "cuda:0", true);
    EXPECT_EQ(graph.reason, "");
    EXPECT_EQ(graph.graphs, 2u);
    for (size_t i = 0; i < eager.losses.size(); ++i) {
      EXPECT_TRUE(same_bits(eager.losses[i], graph.losses[i])) << "loss of step " << i;
    }
    for (size_t i = 0; i < eager.weights.size(); ++i) {
      EXPECT_TRUE(same_bits(eager.weights[i], graph.weights[i])) << "weight " << i;
    }
    EXPECT_EQ(eager.generator.stream, graph.generator.stream);
    EXPECT_EQ(graph.generator.base, nullptr);
  }
}

// A tensor that is passed again need not be copied, unless it was changed since, or by the step.
TEST(StepGraph, SeesWhatAnInputHoldsNow) {
  if (skip_without_cuda() || skip_without_cache()) return;
  const NoGradGuard guard;
  StepGraph reads([](const std::vector<Tensor>& in) { return std::vector<Tensor>{in[0] * 2}; }, 1);
  StepGraph writes(
      [](const std::vector<Tensor>& in) {
        Tensor x = in[0];
        return std::vector<Tensor>{x.add_(wrap_scalar(1.0)).clone()};
      },
      1);
  const Tensor x = ones({3}, {.device = "cuda:0"});
  for (int i = 0; i < 4; ++i) EXPECT_EQ(reads({x})[0][0].item<float>(), 2) << "call " << i;
  Tensor changed = x;
  changed.fill_(5);
  EXPECT_EQ(reads({x})[0][0].item<float>(), 10);
  EXPECT_EQ(reads({zeros({3}, {.device = "cuda:0"})})[0][0].item<float>(), 0);
  EXPECT_EQ(reads({x})[0][0].item<float>(), 10);
  for (int i = 0; i < 3; ++i) (void)writes({zeros({3}, {.device = "cuda:0"})});
  EXPECT_EQ(writes.num_graphs(), 1u);
  for (int i = 0; i < 2; ++i) EXPECT_EQ(writes({x})[0][0].item<float>(), 6) << "call " << i;
}

TEST(StepGraph, OnTheCpuTheStepRunsAsItIs) {
  const Trace eager = train({"cpu", {}, false, true, true}, "cpu", false);
  const Trace graph = train({"cpu", {}, false, true, true}, "cpu", true);
  EXPECT_EQ(graph.graphs, 0u);
  EXPECT_EQ(graph.reason, "an input is on cpu");
  for (size_t i = 0; i < eager.losses.size(); ++i) {
    EXPECT_TRUE(same_bits(eager.losses[i], graph.losses[i]));
  }
}

TEST(StepGraph, AStepThatReadsOnTheHostGoesOnWithoutAGraph) {
  if (skip_without_cuda()) return;
  const Tensor x = ones({4}, {.device = "cuda"});
  double seen = 0;
  StepGraph step(
      [&](const std::vector<Tensor>& in) {
        const Tensor y = in[0] * 2;
        seen = y.sum().item<double>();
        return std::vector<Tensor>{y};
      },
      1);
  for (int i = 0; i < 4; ++i) {
    const Tensor y = step({x * i})[0];
    EXPECT_TRUE(close(y, (x * i * 2).cpu(), 0));
    EXPECT_EQ(seen, 8. * i);
  }
  EXPECT_EQ(step.num_graphs(), 0u);
  EXPECT_NE(step.reason(), "");
}

std::vector<Tensor> doubled_inputs(const std::vector<Tensor>& in) {
  return {in.empty() ? ones({1}) : in[0] * 2};
}

TEST(StepGraph, ReasonIsThatOfTheLastCall) {
  if (skip_without_cache()) return;
  StepGraph step(doubled_inputs, 1);
  EXPECT_EQ(step.reason(), "");
  (void)step({});
  EXPECT_EQ(step.reason(), "the step has no inputs, so its device is unknown");
  (void)step({ones({2})});
  EXPECT_EQ(step.reason(), "an input is on cpu");
}

TEST(StepGraph, OneCallThatCannotBeCapturedDoesNotStopTheOthers) {
  if (skip_without_cuda() || skip_without_cache()) return;
  bool reads = false;
  StepGraph step(
      [&](const std::vector<Tensor>& in) {
        if (!in.empty() && in[0].numel() == 7) reads = in[0].sum().item<float>() != 0;
        return doubled_inputs(in);
      },
      1);
  const Tensor on_cpu = ones({3}), x = ones({3}, {.device = "cuda:0"});
  const Tensor read = ones({7}, {.device = "cuda:0"});
  const auto repeat = [&](const std::vector<Tensor>& inputs) {
    for (int i = 0; i < 4; ++i)
      EXPECT_TRUE(close(step(inputs)[0].cpu(), full_like(inputs[0].cpu(), 2), 0));
  };
  (void)step({});
  repeat({on_cpu});
  EXPECT_EQ(step.num_graphs(), 0u);
  repeat({x});
  EXPECT_EQ(step.reason(), "");
  EXPECT_EQ(step.num_graphs(), 1u);
  repeat({read});  // its capture fails
  EXPECT_NE(step.reason(), "");
  EXPECT_TRUE(reads);
  repeat({x, on_cpu});
  EXPECT_EQ(step.reason(), "an input is on cpu");
  repeat({x});
  EXPECT_EQ(step.reason(), "");
  EXPECT_EQ(step.num_graphs(), 1u);
}

TEST(StepGraph, EachDeviceHasItsOwnGraph) {
  if (skip_without_cuda() || skip_without_cache()) return;
  if (cuda::device_count() < 2) GTEST_SKIP() << "needs two GPUs";
  StepGraph step(doubled_inputs, 1);
  const Tensor first = full({3}, 1.0, {.device = "cuda:0"});
  const Tensor second = full({3}, 5.0, {.device = "cuda:1"});
  for (int i = 0; i < 4; ++i) {
    for (const Tensor& x : {first, second}) {
      const Tensor y = step({x})[0];
      EXPECT_EQ(y.device(), x.device());
      EXPECT_TRUE(close(y, x * 2, 0));
    }
  }
  EXPECT_EQ(step.num_graphs(), 2u);
  (void)step({first, second});
  EXPECT_EQ(step.reason(), "the inputs are on cuda:0 and on cuda:1");
}

TEST(StepGraph, KeepsItsMemoryWhenUnusedMemoryIsGivenBack) {
  if (skip_without_cuda() || skip_without_cache()) return;
  StepGraph step(
      [](const std::vector<Tensor>& in) {
        Tensor y = in[0];
        for (int i = 0; i < 4; ++i) y = y * 1.5 + 1;
        return std::vector<Tensor>{y};
      },
      1);
  const Tensor x = arange(1 << 20, {.dtype = kFloat32, .device = "cuda"});
  (void)step({x});
  (void)step({x});
  const Tensor want = step({x})[0].clone();
  cuda::empty_cache();
  // New allocations must not get memory that the graph uses.
  std::vector<Tensor> others;
  for (int i = 0; i < 8; ++i) others.push_back(zeros({1 << 20}, {.device = "cuda"}));
  EXPECT_TRUE(same_bits(step({x})[0], want));
  for (const Tensor& t : others) EXPECT_TRUE(close(t, zeros({1 << 20}), 0));
}

}  // namespace
}  // namespace taper::v0::test
