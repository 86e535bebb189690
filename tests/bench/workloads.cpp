#include <algorithm>
#include <functional>

#include "apps/runner/base/errors.h"
#include "modules/models/gpt.h"
#include "modules/models/gpt_decoder.h"
#include "modules/models/resnet.h"
#include "taper.h"
#include "tests/bench/bench.h"
#include "tests/bench/timing.h"

namespace taper::v0::bench {
namespace {

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

// The model of PyTorch's MNIST example.
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

// ResNet-18 with a first convolution for small images.
void resnet(const Bench& bench, Device device, const std::string& name, int64_t batch,
            std::optional<DType> half) {
  manual_seed(0);
  Sequential net(Conv2d(3, 64, 3, {.padding = 1, .bias = false}), BatchNorm2d(64), ReLU());
  int64_t width = 64;
  for (const int64_t out : {64, 64, 128, 128, 256, 256, 512, 512}) {
    net.add<BasicBlock>(width, out, width == out ? 1 : 2, Device("cpu"));
    width = out;
  }
  net.add<AdaptiveAvgPool2d>(1);
  net.add<Flatten>();
  net.add<Linear>(512, 10);
  net.to(device);
  optim::SGD optimizer(net.parameters(), {.lr = 0.1, .momentum = 0.9, .weight_decay = 5e-4});
  bench.training(name, net, optimizer, half, double(batch),
                 {randn({batch, 3, 32, 32}, {.device = device}), classes(10, {batch}, device)},
                 [&](const auto& in) { return classified(net, in); });
}

// ResNet-50 on pictures of 224 x 224 pixels.
void resnet50_of(const Bench& bench, Device device, const std::string& name, int64_t batch) {
  manual_seed(0);
  ResNet net = resnet50({.device = device});
  optim::SGD optimizer(net.parameters(), {.lr = 0.1, .momentum = 0.9, .weight_decay = 5e-4});
  bench.training(name, net, optimizer, kBFloat16, double(batch),
                 {randn({batch, 3, 224, 224}, {.device = device}), classes(10, {batch}, device)},
                 [&](const auto& in) { return classified(net, in); });
}

void gpt(const Bench& bench, Device device, const std::string& name, GPTOptions options,
         int64_t batch, std::optional<DType> half) {
  manual_seed(0);
  GPT net(options);
  net.to(device);
  optim::AdamW optimizer(net.parameters(), {.lr = 1e-3});
  const Tensor tokens = classes(options.vocab_size, {batch, options.block_size}, device);
  bench.training(name, net, optimizer, half, double(tokens.numel()), {tokens},
                 [&](const auto& in) { return net.loss(in[0], in[0]); });
}

// A token of a text that GPT-2 continues by the likeliest tokens.
void generate(const Bench& bench, Device device) {
  constexpr int kTokens = 64;
  manual_seed(0);
  GPT net({.vocab_size = 50257, .gelu = "tanh", .device = device});
  net.eval();
  GPTDecoder decoder(net);
  const Tensor prompt = classes(50257, {1, kTokens}, device);
  bench.op(
      "generate_gpt2_124m_b1_fp32", device, {},
      [&] {
        decoder.clear();
        Tensor next = argmax(decoder(prompt), -1, true);
        for (int i = 1; i < kTokens; ++i) {
          (void)next.item<int64_t>();  // a user reads each token
          next = argmax(decoder(next), -1, true);
        }
        (void)next.item<int64_t>();
      },
      kTokens);
}

// Returns a function that computes the gradients of y for a fixed output gradient; it may be called
// repeatedly.
std::function<void()> backward_of(const Tensor& y, const std::vector<Tensor>& inputs) {
  const Tensor dy = randn_like(y);
  return [=] { (void)grad({y}, inputs, {dy}, true); };
}

// shape: [batch, heads, tokens, elements of a head].
void attention_of(const Bench& bench, Device device, const Shape& shape) {
  Tensor qkv[3];
  for (Tensor& t : qkv) {
    t = randn(shape, {.dtype = kBFloat16, .device = device}).requires_grad_();
  }
  const std::string name = concat_to_string("sdpa_causal_fwdbwd_b", shape[0], "_h", shape[1], "_t",
                                            shape[2], "_d", shape[3]);
  bench.op(name, device, {}, [&] {
    for (const Tensor& t : qkv) t.set_grad({});
    sum(scaled_dot_product_attention(qkv[0], qkv[1], qkv[2], {.is_causal = true})).backward();
  });
}

void ops(const Bench& bench, Device device) {
  const bool gpu = device.is_cuda();
  const int64_t N = gpu ? 16384 : 1024, C = 4096, rows = gpu ? 8192 : 256, V = 50304;
  const int64_t bytes = gpu ? int64_t(1) << 30 : int64_t(1) << 26;
  const Tensor from = empty({bytes}, {.dtype = kUInt8, .device = device});
  Tensor to = empty_like(from);
  bench.op("copy", device, {2 * double(bytes)}, [&] { to.copy_(from); });
  for (const DType dtype : {kFloat32, kBFloat16}) {
    const TensorOptions o{.dtype = dtype, .device = device};
    const double e = double(size_of(dtype)), all = double(N * C) * e;
    const auto name = [&](const char* op) { return concat_to_string(op, "_", dtype); };
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
    bench.op(concat_to_string("matmul_", n, "_", dtype, "_", get_float32_matmul_precision()),
             device, {.flops = 2 * double(n) * double(n) * double(n)}, [&] { (void)mm(a, b); });
  };
  matmul_of(gpu ? 4096 : 1024, kFloat32);
  if (!gpu) return;
  matmul_of(8192, kBFloat16);
  set_float32_matmul_precision("high");
  matmul_of(8192, kFloat32);
  set_float32_matmul_precision("highest");
  attention_of(bench, device, {16, 12, 1024, 64});
  attention_of(bench, device, {8, 16, 2048, 128});
}

// Times the host part of small ops: what a call costs before the device has finished.
void overhead(const Bench& bench, Device device) {
  const auto name = [&](const char* op) {
    return concat_to_string("overhead_", op, device.is_cuda() ? "_cuda" : "_cpu");
  };
  const Tensor a = ones({1}, {.device = device}), b = ones({1}, {.device = device});
  const Tensor g = ones({1}, {.device = device, .requires_grad = true});
  Linear layer(8, 8, {.device = device});
  const Tensor x = ones({8, 8}, {.device = device});
  bench.op(name("add"), device, {}, [&] { (void)(a + b); });
  bench.op(name("add_grad"), device, {}, [&] { (void)(g + b); });
  bench.op(name("linear_8x8"), device, {}, [&] { (void)layer(x); });
  constexpr int kChain = 100;
  bench.op(
      name("chain_node"), device, {},
      [&] {
        Tensor y = g;
        for (int i = 0; i < kChain; ++i) y = y * 1.0001;
        y.backward();
        g.set_grad({});
      },
      kChain);
}

// The first training step of a program, with a small model.
void first_step(Device device) {
  Linear layer(8, 8, {.device = device});
  optim::SGD optimizer(layer.parameters(), {.lr = 0.1});
  sum(layer(ones({2, 8}, {.device = device}))).backward();
  optimizer.step();
  (void)sum(layer.weight).item<double>();
}

struct Workload {
  const char* name;
  bool needs_gpu, unless_named;
  void (*run)(const Bench& bench);
};
const Workload kWorkloads[] = {
    {"overhead", false, true,
     [](const Bench& b) {
       overhead(b, "cpu");
       if (cuda::is_available()) overhead(b, b.device());
     }},
    {"mlp", false, true, [](const Bench& b) { mlp(b, b.device(), "mlp_b128_fp32"); }},
    {"cnn", false, true, [](const Bench& b) { cnn(b, b.device(), "cnn_b128_fp32"); }},
    {"resnet", true, true,
     [](const Bench& b) { resnet(b, b.device(), "resnet18_b512_bf16", 512, kBFloat16); }},
    {"resnet50", true, false,
     [](const Bench& b) { resnet50_of(b, b.device(), "resnet50_b256_bf16", 256); }},
    {"gptchar", true, true,
     [](const Bench& b) {
       gpt(b, b.device(), "gptchar_b64_bf16",
           {.vocab_size = 65,
            .block_size = 256,
            .n_layer = 6,
            .n_head = 6,
            .n_embd = 384,
            .dropout = 0.2,
            .gelu = "tanh"},
           64, kBFloat16);
     }},
    {"gpt2", true, true,
     [](const Bench& b) {
       gpt(b, b.device(), "gpt2_124m_b16_bf16", {.gelu = "tanh"}, 16, kBFloat16);
     }},
    {"gpt2_b64", true, false,
     [](const Bench& b) {
       gpt(b, b.device(), "gpt2_124m_b64_bf16", {.gelu = "tanh"}, 64, kBFloat16);
     }},
    // The vocabulary of GPT-2's tokenizer, which is no multiple of 64.
    {"gpt2_50257", true, false,
     [](const Bench& b) {
       gpt(b, b.device(), "gpt2_124m_b16_v50257_bf16", {.vocab_size = 50257, .gelu = "tanh"}, 16,
           kBFloat16);
     }},
    {"gpt2_350m", true, false,
     [](const Bench& b) {
       gpt(b, b.device(), "gpt2_350m_b16_bf16",
           {.n_layer = 24, .n_head = 16, .n_embd = 1024, .gelu = "tanh"}, 16, kBFloat16);
     }},
    {"generate", false, false, [](const Bench& b) { generate(b, b.device()); }},
    {"ops", false, true, [](const Bench& b) { ops(b, b.device()); }},
    {"attention", true, false, attention},
    {"cpu_mlp", false, true, [](const Bench& b) { mlp(b, "cpu", "cpu_mlp_b128_fp32"); }},
    {"cpu_cnn", false, true, [](const Bench& b) { cnn(b, "cpu", "cpu_cnn_b128_fp32"); }},
    {"cpu_gpt", false, true,
     [](const Bench& b) {
       gpt(b, "cpu", "cpu_gptchar_l4c128_b12_t64_fp32",
           {.vocab_size = 65,
            .block_size = 64,
            .n_layer = 4,
            .n_head = 4,
            .n_embd = 128,
            .gelu = "tanh"},
           12, {});
     }},
    // Small enough for several ranks on a CPU.
    {"tiny_gpt", false, false,
     [](const Bench& b) {
       gpt(b, b.device(), "tiny_gpt_b4_fp32",
           {.vocab_size = 65,
            .block_size = 16,
            .n_layer = 2,
            .n_head = 2,
            .n_embd = 32,
            .gelu = "tanh"},
           4, {});
     }},
    {"tiny_resnet", false, false,
     [](const Bench& b) { resnet(b, b.device(), "tiny_resnet18_b2_fp32", 2, {}); }},
    {"collectives", true, false, [](const Bench& b) { b.collectives(int64_t(1) << 30); }},
    {"tiny_collectives", false, false, [](const Bench& b) { b.collectives(1 << 20); }},
    {"first_step", false, false, [](const Bench& b) { first_step(b.device()); }},
};

}  // namespace

void run_bench(const BenchOptions& options) {
  std::string known;
  for (const Workload& w : kWorkloads) known += concat_to_string(known.empty() ? "" : ", ", w.name);
  for (const std::string& name : options.names) {
    const auto is_it = [&](const Workload& w) { return name == w.name; };
    if (std::none_of(std::begin(kWorkloads), std::end(kWorkloads), is_it)) {
      throw runner::ConfigError(
          concat_to_string("there is no workload '", name, "'; known: ", known));
    }
  }
  if (!options.mode.empty() && options.mode != "eager" && options.mode != "graph") {
    throw runner::ConfigError(
        concat_to_string("expected mode eager or graph, got '", options.mode, "'"));
  }
  const Bench bench(options);
  const auto& names = options.names;
  for (const Workload& w : kWorkloads) {
    const bool asked = std::find(names.begin(), names.end(), w.name) != names.end();
    const bool possible = w.unless_named && (!w.needs_gpu || cuda::is_available());
    if (names.empty() ? possible : asked) w.run(bench);
  }
}

}  // namespace taper::v0::bench
