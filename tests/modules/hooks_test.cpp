// Hooks on modules whose calls have several arguments and results.
#include <array>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <tuple>

#include <gtest/gtest.h>

#include "autograd/ops/binary_ops.h"
#include "framework/factory/factories.h"
#include "modules/layers/containers.h"
#include "modules/layers/conv_layers.h"
#include "modules/layers/loss_layers.h"
#include "modules/layers/stateless.h"
#include "modules/models/gpt.h"
#include "modules/models/text_classifiers.h"
#include "modules/summary.h"
#include "tests/testing.h"

namespace taper::v0::test {
namespace {

using Tensors = std::vector<Tensor>;

// Returns the shapes in the order in which a hook sees the tensors: "[2, 3] none".
std::string shapes(const Tensors& tensors) {
  std::string text;
  for (const Tensor& t : tensors) {
    text += concat_to_string(text.empty() ? "" : " ", t.defined() ? to_string(t.shape()) : "none");
  }
  return text;
}

struct CallRow {
  const char* rule;
  std::function<std::unique_ptr<Module>()> make;
  std::function<void(Module&)> call;
  std::string inputs, outputs;
};

template <class M, class... Args> std::function<std::unique_ptr<Module>()> make(Args... args) {
  return [=] { return std::make_unique<M>(args...); };
}

TEST(ModuleHooks, SeeEveryTensorOfACall) {
  const Tensor x = ones({5, 2, 4}), image = ones({1, 1, 4, 4});
  const Tensor volume = ones({1, 1, 4, 4, 4});
  const auto attend = [x](Module& m) {
    (void)dynamic_cast<MultiheadAttention&>(m)(x, x, x, {.attn_mask = zeros({5, 5})});
  };
  const auto run = [x](Module& m) { (void)dynamic_cast<RnnBase&>(m)(x, {.h = zeros({1, 2, 3})}); };
  const std::vector<CallRow> rows = {
      {"one tensor", make<Linear>(4, 3), [x](Module& m) { (void)m(x); }, "[5, 2, 4]", "[5, 2, 3]"},
      {"fused", make<Linear>(4, 3),
       [x](Module& m) { (void)dynamic_cast<Linear&>(m)(x, Activation::kRelu); }, "[5, 2, 4]",
       "[5, 2, 3]"},
      {"fused convolution", make<Conv2d>(1, 2, 3),
       [image](Module& m) { (void)dynamic_cast<Conv2d&>(m)(image, Activation::kRelu); },
       "[1, 1, 4, 4]", "[1, 2, 2, 2]"},
      {"fused convolution of volumes", make<Conv3d>(1, 2, 3),
       [volume](Module& m) { (void)dynamic_cast<Conv3d&>(m)(volume, Activation::kRelu); },
       "[1, 1, 4, 4, 4]", "[1, 2, 2, 2, 2]"},
      {"norm to a dtype", make<LayerNorm>(Shape{4}),
       [x](Module& m) { (void)dynamic_cast<LayerNorm&>(m)(x, kFloat32); }, "[5, 2, 4]",
       "[5, 2, 4]"},
      {"attention", make<MultiheadAttention>(4, 2), attend,
       "[5, 2, 4] [5, 2, 4] [5, 2, 4] none [5, 5]", "[5, 2, 4] [2, 5, 5]"},
      {"encoder layer", make<TransformerEncoderLayer>(4, 2),
       [x](Module& m) { (void)dynamic_cast<TransformerEncoderLayer&>(m)(x, {.is_causal = true}); },
       "[5, 2, 4] none none", "[5, 2, 4]"},
      {"encoder",
       [] {
         return std::make_unique<TransformerEncoder>([] { return TransformerEncoderLayer(4, 2); },
                                                     1);
       },
       [x](Module& m) {
         (void)dynamic_cast<TransformerEncoder&>(m)(x, {.src_mask = zeros({5, 5})});
       },
       "[5, 2, 4] [5, 5] none", "[5, 2, 4]"},
      {"GRU", make<GRU>(4, 3), run, "[5, 2, 4] [1, 2, 3] none", "[5, 2, 3] [1, 2, 3] none"},
      {"LSTM", make<LSTM>(4, 3), run, "[5, 2, 4] [1, 2, 3] none", "[5, 2, 3] [1, 2, 3] [1, 2, 3]"},
      {"loss", make<MSELoss>(),
       [](Module& m) { (void)dynamic_cast<Loss&>(m)(ones({3}), zeros({3})); }, "[3] [3]", "[]"},
      {"onto a residual", make<GPTMLP>(GPTOptions{.n_head = 2, .n_embd = 4}),
       [x](Module& m) { (void)dynamic_cast<GPTMLP&>(m)(x, x + 1); }, "[5, 2, 4] [5, 2, 4]",
       "[5, 2, 4]"},
  };
  for (const CallRow& row : rows) {
    SCOPED_TRACE(row.rule);
    const std::unique_ptr<Module> module = row.make();
    std::vector<std::string> seen;
    module->register_forward_pre_hook([&](Module&, const Tensors& inputs) {
      seen.push_back(shapes(inputs));
      return Tensors();
    });
    module->register_forward_hook([&](Module& m, const Tensors& inputs, const Tensors& outputs) {
      EXPECT_EQ(&m, module.get());
      EXPECT_EQ(shapes(inputs), row.inputs);
      seen.push_back(shapes(outputs));
      return Tensors();
    });
    // A hook on the first tensor works together with hooks on all of them.
    module->register_forward_hook([&](Module&, const Tensor& x0, const Tensor& y0) {
      seen.push_back(shapes({x0}) + " to " + shapes({y0}));
      return Tensor();
    });
    row.call(*module);
    const auto first = [](const std::string& all) { return all.substr(0, all.find(']') + 1); };
    EXPECT_EQ(seen, (std::vector<std::string>{row.inputs, row.outputs,
                                              first(row.inputs) + " to " + first(row.outputs)}));
  }
}

TEST(ModuleHooks, ReplaceArgumentsAndResults) {
  for (const Device device : all_devices()) {
    const Tensor x = ones({5, 2, 4}, {.device = device});
    MultiheadAttention attention(4, 2, {.device = device});
    const Tensor zero_value = attention(x, x, zeros_like(x)).output;
    const auto before = attention.register_forward_pre_hook([](Module&, const Tensors& inputs) {
      return Tensors{inputs[0], inputs[1], inputs[2] * 0, inputs[3], inputs[4]};
    });
    EXPECT_TRUE(same_bits(attention(x, x, x).output, zero_value));
    attention.register_forward_hook([](Module&, const Tensors&, const Tensors& outputs) {
      return Tensors{outputs[0], zeros_like(outputs[1])};
    });
    const Attended y = attention(x, x, x);
    EXPECT_TRUE(same_bits(y.output, zero_value));
    EXPECT_TRUE(same_bits(y.weights, zeros_like(y.weights)));
    attention.register_forward_hook(
        [](Module&, const Tensors&, const Tensors& outputs) { return Tensors{outputs[0]}; });
    EXPECT_TRUE(
        refuses<Error>([&] { return attention(x, x, x).output; },
                       "a hook of MultiheadAttention returned 1 tensors to replace 2 with"));
  }
}

// --- a user-defined module ---

struct Scores {
  Tensor best;
  std::vector<Tensor> all;
  std::optional<Tensor> spread;
  double scale = 1;
  auto tensors() { return std::tie(best, all, spread); }
};

struct Matcher : Module {
  Child<Linear> project{*this, "project", 3, 2};

  Scores operator()(const Tensor& a, const std::map<std::string, Tensor>& named,
                    const std::array<Tensor, 2>& pair, const std::string& how, int64_t times) {
    return call_with_hooks([this](const auto&... x) { return match(x...); }, a, named, pair, how,
                           times);
  }
  std::string type_name() const override { return "Matcher"; }

 private:
  Scores match(const Tensor& a, const std::map<std::string, Tensor>& named,
               const std::array<Tensor, 2>& pair, const std::string& how, int64_t times) {
    EXPECT_EQ(how, "fast");
    const Tensor y = project(a) * double(times);
    return {.best = y, .all = {y + named.at("b"), y + pair[1]}, .spread = {}, .scale = 2};
  }
};

TEST(ModuleHooks, SeeTheTensorsOfAUsersOwnTypes) {
  Matcher net;
  const auto call = [&] {
    return net(ones({1, 3}), {{"b", ones({1, 2})}}, {ones({4}), zeros({2})}, "fast", 2);
  };
  const Scores plain = call();
  std::string seen;
  net.register_forward_pre_hook([&](Module&, const Tensors& inputs) {
    seen += shapes(inputs);
    Tensors changed = inputs;
    changed[1] = inputs[1] + 1;
    return changed;
  });
  net.register_forward_hook([&](Module&, const Tensors&, const Tensors& outputs) {
    seen += " to " + shapes(outputs);
    Tensors changed = outputs;
    changed[2] = zeros({7});
    return changed;
  });
  const Scores hooked = call();
  EXPECT_EQ(seen, "[1, 3] [1, 2] [4] [2] to [1, 2] [1, 2] [1, 2]");
  EXPECT_TRUE(same_bits(hooked.best.detach(), plain.best.detach()));
  EXPECT_TRUE(close(hooked.all[0], plain.all[0] + 1, 1e-6));
  EXPECT_TRUE(same_bits(hooked.all[1], zeros({7})));
  EXPECT_FALSE(hooked.spread.has_value());
  EXPECT_EQ(hooked.scale, 2);
  Matcher plain_net;
  EXPECT_TRUE(refuses<NotImplementedError>(
      [&] {
        return static_cast<Module&>(plain_net)(ones({1, 3}));
      },
      "Module [Matcher] is missing the required \"forward\" function"));
}

// Appends its input to a cache that the caller owns, and returns the sum of the cache.
struct Remembering : ModuleOf<Remembering> {
  Child<Linear> scale{*this, "scale", 2, 2};
  using Module::forward;
  Tensor forward(const Tensor& x, std::vector<Tensor>& cache, int64_t& calls) {
    cache.push_back(scale(x));
    ++calls;
    return stack(cache).sum({0});
  }
};
struct Outer : ModuleOf<Outer> {
  Child<Remembering> inner{*this, "inner"};
  using Module::forward;
  Tensor forward(const Tensor& x, std::vector<Tensor>& cache, int64_t& calls) {
    return inner(x, cache, calls);
  }
};

TEST(ModuleCalls, PassReferencesToWhatForwardChanges) {
  Outer net;
  std::vector<Tensor> cache;
  int64_t calls = 0;
  const Tensor x = ones({1, 2});
  const Tensor once = net(x, cache, calls), twice = net(x, cache, calls);
  EXPECT_EQ(cache.size(), 2u);
  EXPECT_EQ(calls, 2);
  EXPECT_TRUE(same_bits(twice.detach(), (once * 2).detach()));
  // Hooks see the input, and the caller's cache is changed as without them.
  int64_t seen = 0;
  net.inner->register_forward_pre_hook([&](Module&, const std::vector<Tensor>& inputs) {
    seen += std::ssize(inputs);
    return std::vector<Tensor>{inputs[0] * 3};
  });
  const Tensor hooked = net(x, cache, calls);
  EXPECT_EQ(seen, 1);
  EXPECT_EQ(cache.size(), 3u);
  EXPECT_EQ(calls, 3);
  EXPECT_TRUE(close(hooked, twice + net.inner->scale(x * 3), 1e-6));
}

TEST(Summary, CountsModulesThatReturnMoreThanATensor) {
  Sequential net{LSTMClassifier({.vocab_size = 5, .num_classes = 3, .hidden_size = 8})};
  const std::vector<ModuleSummary> rows = summarize(net, ones({2, 4}, {.dtype = kInt64}));
  ASSERT_EQ(rows.size(), 5u);
  for (const ModuleSummary& row : rows) EXPECT_EQ(row.calls, 1) << row.path;
  EXPECT_EQ(rows[3].type, "LSTM");
  EXPECT_EQ(rows[3].output, (Shape{2, 4, 8}));
  EXPECT_EQ(rows[0].multiply_adds, rows[3].multiply_adds + rows[4].multiply_adds);
}

}  // namespace
}  // namespace taper::v0::test
