#include "apps/runner/bench.h"

#include <algorithm>
#include <chrono>
#include <functional>
#include <optional>

#include <spdlog/fmt/fmt.h>

#include "apps/runner/errors.h"
#include "modules/models/gpt.h"
#include "taper.h"

namespace taper::runner {
namespace {

using Clock = std::chrono::steady_clock;
using Step = StepGraph::Step;

Device accelerator() { return cuda::is_available() ? Device("cuda:0") : Device("cpu"); }

struct Timing {
  double median, low, high;  // seconds of one call
};

// Warmed up, then seven repeats of as many calls as fill their part of about two seconds.
Timing timed(const Device& device, const std::function<void()>& call) {
  constexpr int kRepeats = 7;
  constexpr double kSeconds = 2;
  const auto seconds_of = [&](int64_t calls) {
    const auto start = Clock::now();
    for (int64_t i = 0; i < calls; ++i) call();
    if (device.is_cuda()) cuda::synchronize();
    return std::chrono::duration<double>(Clock::now() - start).count() / double(calls);
  };
  (void)seconds_of(10);
  const int64_t calls =
      std::clamp<int64_t>(int64_t(kSeconds / kRepeats / std::max(seconds_of(1), 1e-7)), 3, 100000);
  std::vector<double> times;
  for (int i = 0; i < kRepeats; ++i) times.push_back(seconds_of(calls));
  std::sort(times.begin(), times.end());
  return {times[kRepeats / 2], times.front(), times.back()};
}

// Of one call, where it says something.
struct Work {
  double bytes = 0, flops = 0, items = 0;
};

class Bench {
 public:
  explicit Bench(bool json) : json_(json) {}

  void report(const std::string& name, const std::string& mode, Device device, const Timing& t,
              Work work = {}, double loss = 0) const {
    const double us = t.median * 1e6;
    if (json_) {
      fmt::print(
          "{{\"w\":\"{}\",\"mode\":\"{}\",\"device\":\"{}\",\"us\":{:.4g},\"low_us\":{:.4g},"
          "\"high_us\":{:.4g}",
          name, mode, to_string(device), us, t.low * 1e6, t.high * 1e6);
      if (work.bytes > 0) fmt::print(",\"gbps\":{:.4g}", work.bytes / t.median / 1e9);
      if (work.flops > 0) fmt::print(",\"tflops\":{:.4g}", work.flops / t.median / 1e12);
      if (work.items > 0) fmt::print(",\"items_per_s\":{:.4g}", work.items / t.median);
      if (loss != 0) fmt::print(",\"loss\":{:.9g}", loss);
      fmt::print("}}\n");
    } else {
      fmt::print("{:<34}{:<7}{:<8}{:>12.2f} us  ({:.2f} to {:.2f})", name, mode, to_string(device),
                 us, t.low * 1e6, t.high * 1e6);
      if (work.bytes > 0) fmt::print("  {:.0f} GB/s", work.bytes / t.median / 1e9);
      if (work.flops > 0) fmt::print("  {:.2f} TFLOP/s", work.flops / t.median / 1e12);
      if (work.items > 0) fmt::print("  {:.0f} items/s", work.items / t.median);
      fmt::print("\n");
    }
    std::fflush(stdout);
  }

  void op(const std::string& name, Device device, Work work, const std::function<void()>& f) const {
    report(name, "eager", device, timed(device, f), work);
  }

  // A training step, as it is and on the GPU as a graph.
  void training(const std::string& name, Module& net, optim::Optimizer& optimizer,
                std::optional<DType> half, double items, const std::vector<Tensor>& batch,
                const std::function<Tensor(const std::vector<Tensor>&)>& loss_of) const {
    const Device device = batch[0].device();
    const Step step = [&](const std::vector<Tensor>& in) {
      Tensor loss;
      {
        const Autocast casts(device.type(), half, half.has_value());
        loss = loss_of(in);
      }
      optimizer.zero_grad();
      loss.backward();
      optimizer.step();
      return std::vector<Tensor>{loss};
    };
    net.train();
    Tensor loss;
    const Timing eager = timed(device, [&] { loss = step(batch)[0]; });
    report(name, "eager", device, eager, {.items = items}, loss.item<double>());
    if (!device.is_cuda()) return;
    StepGraph graph(step);
    const Timing replay = timed(device, [&] { loss = graph(batch)[0]; });
    report(name, "graph", device, replay, {.items = items}, loss.item<double>());
    if (!graph.reason().empty()) fmt::print(stderr, "{}: no graph: {}\n", name, graph.reason());
  }

 private:
  bool json_;
};

Tensor classes(int64_t most, const Shape& shape, Device device) {
  return randint(0, most, shape, {.device = device});
}

Tensor classified(Module& net, const std::vector<Tensor>& in) {
  return cross_entropy(net(in[0]), in[1]);
}

void mlp(const Bench& bench, Device device, const std::string& name) {
  manual_seed(0);
  Sequential net(Linear(784, 512), ReLU(), Linear(512, 512), ReLU(), Linear(512, 10));
  net.to(device);
  optim::AdamW optimizer(net.parameters(), {.lr = 1e-3});
  bench.training(name, net, optimizer, {}, 128,
                 {randn({128, 784}, {.device = device}), classes(10, {128}, device)},
                 [&](const auto& in) { return classified(net, in); });
}

// PyTorch's MNIST example.
void cnn(const Bench& bench, Device device, const std::string& name) {
  manual_seed(0);
  Sequential net(Conv2d(1, 32, 3), ReLU(), Conv2d(32, 64, 3), ReLU(), MaxPool2d(2), Dropout(0.25),
                 Flatten(), Linear(9216, 128), ReLU(), Dropout(0.5), Linear(128, 10));
  net.to(device);
  optim::AdamW optimizer(net.parameters(), {.lr = 1e-3});
  bench.training(name, net, optimizer, {}, 128,
                 {randn({128, 1, 28, 28}, {.device = device}), classes(10, {128}, device)},
                 [&](const auto& in) { return classified(net, in); });
}

struct CifarBlock : Module {
  CifarBlock(int64_t in, int64_t out, int64_t stride)
      : c1(*this, "c1", in, out, 3, ConvOptions{.stride = stride, .padding = 1, .bias = false}),
        b1(*this, "b1", out),
        c2(*this, "c2", out, out, 3, ConvOptions{.padding = 1, .bias = false}),
        b2(*this, "b2", out),
        shortcut(*this, "shortcut") {
    if (stride == 1 && in == out) return;
    shortcut->add<Conv2d>(in, out, 1, ConvOptions{.stride = stride, .bias = false});
    shortcut->add<BatchNorm2d>(out);
  }
  Tensor forward(const Tensor& x) override { return relu(b2(c2(relu(b1(c1(x))))) + shortcut(x)); }
  std::string type_name() const override { return "CifarBlock"; }

  Child<Conv2d> c1;
  Child<BatchNorm2d> b1;
  Child<Conv2d> c2;
  Child<BatchNorm2d> b2;
  Child<Sequential> shortcut;
};

void resnet(const Bench& bench, Device device, const std::string& name) {
  manual_seed(0);
  const int64_t batch = 512;
  Sequential net(Conv2d(3, 64, 3, {.padding = 1, .bias = false}), BatchNorm2d(64), ReLU());
  int64_t width = 64;
  for (const int64_t out : {64, 64, 128, 128, 256, 256, 512, 512}) {
    net.add<CifarBlock>(width, out, width == out ? 1 : 2);
    width = out;
  }
  net.add<AdaptiveAvgPool2d>(1);
  net.add<Flatten>();
  net.add<Linear>(512, 10);
  net.to(device);
  optim::SGD optimizer(net.parameters(), {.lr = 0.1, .momentum = 0.9, .weight_decay = 5e-4});
  bench.training(name, net, optimizer, kBFloat16, double(batch),
                 {randn({batch, 3, 32, 32}, {.device = device}), classes(10, {batch}, device)},
                 [&](const auto& in) { return classified(net, in); });
}

void gpt(const Bench& bench, Device device, const std::string& name, GPTOptions options,
         int64_t batch, std::optional<DType> half) {
  manual_seed(0);
  GPT net(options);
  net.to(device);
  optim::AdamW optimizer(net.parameters(), {.lr = 1e-3});
  const Tensor tokens = classes(options.vocab_size, {batch, options.block_size}, device);
  bench.training(name, net, optimizer, half, double(tokens.numel()), {tokens}, [&](const auto& in) {
    const Tensor logits = net(in[0]);
    return cross_entropy(logits.view({-1, logits.size(-1)}), in[0].view({-1}));
  });
}

// Gradients of y, again and again, by a dy.
std::function<void()> backward_of(const Tensor& y, const std::vector<Tensor>& inputs) {
  const Tensor dy = randn_like(y);
  return [=] { (void)grad({y}, inputs, {dy}, true); };
}

void ops(const Bench& bench, Device device) {
  const bool gpu = device.is_cuda();
  const int64_t N = gpu ? 16384 : 1024, C = 4096, rows = gpu ? 8192 : 256, V = 50304;
  for (const DType dtype : {kFloat32, kBFloat16}) {
    const TensorOptions o{.dtype = dtype, .device = device};
    const double e = double(size_of(dtype)), all = double(N * C) * e;
    const auto name = [&](const char* op) { return cat(op, "_", dtype); };
    const Tensor x = randn({N, C}, o), w = ones({C}, o).requires_grad_(),
                 b = zeros({C}, o).requires_grad_(), g = randn({N, C}, o);
    const Tensor leaf = x.clone().requires_grad_();
    bench.op(name("layernorm_fwd"), device, {2 * all}, [&] {
      const NoGradGuard guard;
      (void)layer_norm(x, {C}, w, b);
    });
    bench.op(name("layernorm_bwd"), device, {3 * all},
             backward_of(layer_norm(leaf, {C}, w, b), {leaf, w, b}));
    bench.op(name("gelu_fwd"), device, {2 * all}, [&] { (void)gelu(x, "tanh"); });
    bench.op(name("add"), device, {3 * all}, [&] { (void)(x + g); });
    bench.op(name("sum_all"), device, {all}, [&] { (void)sum(x); });
    bench.op(name("sum_dim0"), device, {all}, [&] { (void)sum(x, {0}); });
    bench.op(name("softmax_fwd"), device, {2 * all}, [&] { (void)softmax(x, -1); });
    const Tensor logits = randn({rows, V}, o).requires_grad_(), y = classes(50257, {rows}, device);
    bench.op(name("xent_fwdbwd"), device, {2 * double(rows * V) * e}, [&] {
      logits.set_grad({});
      cross_entropy(logits, y).backward();
    });
  }
  const int64_t parameters = gpu ? 12'400'000 : 1'240'000;
  std::vector<Tensor> ps;
  for (int i = 0; i < 10; ++i) {
    ps.push_back(randn({parameters}, {.device = device, .requires_grad = true}));
    ps.back().set_grad(randn({parameters}, {.device = device}));
  }
  optim::AdamW optimizer(ps, {});
  bench.op("adamw_124M", device, {double(parameters) * 10 * 4 * 7}, [&] { optimizer.step(); });
  const auto matmul_of = [&](int64_t n, DType dtype) {
    const Tensor a = randn({n, n}, {.dtype = dtype, .device = device}), b = randn_like(a);
    bench.op(cat("matmul_", n, "_", dtype, "_", get_float32_matmul_precision()), device,
             {.flops = 2 * double(n) * double(n) * double(n)}, [&] { (void)mm(a, b); });
  };
  matmul_of(gpu ? 4096 : 1024, kFloat32);
  if (!gpu) return;
  matmul_of(8192, kBFloat16);
  set_float32_matmul_precision("high");
  matmul_of(8192, kFloat32);
  set_float32_matmul_precision("highest");
  Tensor qkv[3];
  for (Tensor& t : qkv) {
    t = randn({16, 12, 1024, 64}, {.dtype = kBFloat16, .device = device}).requires_grad_();
  }
  bench.op("sdpa_causal_fwdbwd_b16_h12_t1024_d64", device, {}, [&] {
    for (const Tensor& t : qkv) t.set_grad({});
    sum(scaled_dot_product_attention(qkv[0], qkv[1], qkv[2], {}, 0, true)).backward();
  });
}

// Host time of small ops: what a call costs before the device is done.
void overhead(const Bench& bench, Device device) {
  const Tensor a = ones({1}, {.device = device}), b = ones({1}, {.device = device});
  const Tensor g = ones({1}, {.device = device, .requires_grad = true});
  Linear layer(8, 8, {.device = device});
  const Tensor x = ones({8, 8}, {.device = device});
  bench.op("overhead_add", device, {}, [&] { (void)(a + b); });
  bench.op("overhead_add_grad", device, {}, [&] { (void)(g + b); });
  bench.op("overhead_linear_8x8", device, {}, [&] { (void)layer(x); });
  const Timing chain = timed(device, [&] {
    Tensor y = g;
    for (int i = 0; i < 100; ++i) y = y * 1.0001;
    y.backward();
    g.set_grad({});
  });
  bench.report("overhead_chain_node", "eager", device,
               {chain.median / 100, chain.low / 100, chain.high / 100});
}

struct Workload {
  const char* name;
  bool needs_gpu;
  void (*run)(const Bench& bench);
};
const Workload kWorkloads[] = {
    {"overhead", false,
     [](const Bench& b) {
       overhead(b, "cpu");
       if (cuda::is_available()) overhead(b, accelerator());
     }},
    {"mlp", false, [](const Bench& b) { mlp(b, accelerator(), "mlp_b128_fp32"); }},
    {"cnn", false, [](const Bench& b) { cnn(b, accelerator(), "cnn_b128_fp32"); }},
    {"resnet", true, [](const Bench& b) { resnet(b, accelerator(), "resnet18_b512_bf16"); }},
    {"gptchar", true,
     [](const Bench& b) {
       gpt(b, accelerator(), "gptchar_b64_bf16", {65, 256, 6, 6, 384, 0.2}, 64, kBFloat16);
     }},
    {"gpt2", true,
     [](const Bench& b) { gpt(b, accelerator(), "gpt2_124m_b16_bf16", {}, 16, kBFloat16); }},
    {"ops", false, [](const Bench& b) { ops(b, accelerator()); }},
    {"cpu", false,
     [](const Bench& b) {
       mlp(b, "cpu", "cpu_mlp_b128_fp32");
       cnn(b, "cpu", "cpu_cnn_b128_fp32");
       gpt(b, "cpu", "cpu_gptchar_l4c128_b12_t64_fp32", {65, 64, 4, 4, 128}, 12, {});
     }},
};

}  // namespace

void run_bench(const std::vector<std::string>& names, bool json) {
  std::string known;
  for (const Workload& w : kWorkloads) known += cat(known.empty() ? "" : ", ", w.name);
  for (const std::string& name : names) {
    const auto is_it = [&](const Workload& w) { return name == w.name; };
    if (std::none_of(std::begin(kWorkloads), std::end(kWorkloads), is_it)) {
      throw ConfigError(cat("bench: there is no workload '", name, "'; known: ", known));
    }
  }
  const Bench bench(json);
  for (const Workload& w : kWorkloads) {
    const bool asked = std::find(names.begin(), names.end(), w.name) != names.end();
    if (names.empty() ? !w.needs_gpu || cuda::is_available() : asked) w.run(bench);
  }
}

}  // namespace taper::runner
