// MultiheadAttention and the transformer's encoder. tests/interop compares them with PyTorch.
#include <cmath>
#include <limits>

#include <gtest/gtest.h>

#include "autograd/autocast.h"
#include "autograd/ops/binary_ops.h"
#include "autograd/ops/reduce_ops.h"
#include "autograd/ops/unary_ops.h"
#include "framework/factory/factories.h"
#include "modules/layers/multihead_attention.h"
#include "modules/layers/transformer.h"
#include "tests/modules/modules.h"
#include "tests/testing.h"

namespace taper::v0::test {
namespace {

TEST(MultiheadAttention, StartsByXaviersRuleWithoutBias) {
  manual_seed(0);
  const MultiheadAttention layer(24, 4);
  double largest = 0;
  for (const double w : values_of(*layer.in_proj_weight)) largest = std::max(largest, std::abs(w));
  const double bound = std::sqrt(6.0 / (24 + 3 * 24));
  EXPECT_LE(largest, bound);
  EXPECT_GT(largest, 0.99 * bound);
  EXPECT_TRUE(close(*layer.in_proj_bias, zeros({72}), 0));
  EXPECT_TRUE(close(*layer.out_proj->bias, zeros({24}), 0));
}

TEST(MultiheadAttention, GivesTheSameWithAndWithoutWeights) {
  for (const Device device : all_devices()) {
    MultiheadAttention layer(8, 2, {.batch_first = true, .device = device});
    const Tensor x = numbers({2, 5, 8}, device);
    for (const bool causal : {false, true}) {
      const Attended with = layer(x, x, x, {.is_causal = causal});
      const Attended without = layer(x, x, x, {.need_weights = false, .is_causal = causal});
      EXPECT_FALSE(without.weights.defined());
      EXPECT_TRUE(close(with.output, without.output, 1e-6));
      EXPECT_TRUE(close(with.weights.sum({-1}), ones({2, 5}), 1e-6));
      if (!causal) {
        EXPECT_TRUE(close(layer(x), without.output, 0));
      } else {
        EXPECT_EQ(with.weights.select(2, 4).narrow(1, 0, 4).sum().item<float>(), 0);
      }
    }
  }
}

TEST(MultiheadAttention, RefusesInPyTorchsWords) {
  const auto refused = [](auto f, const std::string& text) {
    EXPECT_TRUE(refuses<Error>(f, text));
  };
  refused([] { return MultiheadAttention(0, 1).num_heads; },
          "embed_dim and num_heads must be greater than 0, got embed_dim=0 and num_heads=1 "
          "instead");
  refused([] { return MultiheadAttention(8, 3).num_heads; },
          "embed_dim must be divisible by num_heads");
  MultiheadAttention layer(8, 2);
  struct Case {
    Shape q, k, v;
    AttendOptions options;
    const char* text;
  };
  const Shape q{3, 2, 8}, k{4, 2, 8};
  const auto mask = [](const Shape& shape) { return zeros(shape, {.dtype = kBool}); };
  const Case cases[] = {
      {{8},
       {8},
       {8},
       {},
       "query should be unbatched 2D or batched 3D tensor but received 1-D query"},
      {q,
       {3, 8},
       {3, 8},
       {},
       "For batched (3-D) `query`, expected `key` and `value` to be 3-D but found 2-D and 2-D "
       "tensors respectively"},
      {{3, 8},
       q,
       {3, 8},
       {},
       "For unbatched (2-D) `query`, expected `key` and `value` to be 2-D but found 3-D and 2-D "
       "tensors respectively"},
      {{3, 2, 7}, k, k, {}, "was expecting embedding dimension of 8, but got 7"},
      {q, k, {5, 2, 8}, {}, "key shape [4, 2, 8] does not match value shape [5, 2, 8]"},
      {q, {4, 3, 8}, {4, 3, 8}, {}, "query and key must have the same batch size, got shapes"},
      {q,
       k,
       k,
       {.key_padding_mask = mask({2, 5})},
       "Expected key_padded_mask.shape[1] to be 4, but got 5"},
      {q,
       k,
       k,
       {.key_padding_mask = mask({3, 4})},
       "Expected key_padded_mask.shape[0] to be 2, but got 3"},
      {q,
       k,
       k,
       {.key_padding_mask = mask({4})},
       "For batched (3-D) `query`, expected `key_padding_mask` to be undefined or 2-D but found "
       "1-D "
       "tensor instead"},
      {q,
       k,
       k,
       {.attn_mask = mask({4})},
       "For batched (3-D) `query`, expected `attn_mask` to be undefined, 2-D or 3-D but found 1-D "
       "tensor instead"},
      {q,
       k,
       k,
       {.attn_mask = mask({3, 3})},
       "The shape of the 2D attn_mask is [3, 3], but should be (3, 4)."},
      {q,
       k,
       k,
       {.attn_mask = mask({2, 3, 4})},
       "The shape of the 3D attn_mask is [2, 3, 4], but should be (4, 3, 4)."},
      {q,
       k,
       k,
       {.attn_mask = zeros({3, 4}, {.dtype = kInt64})},
       "only bool and floating types of attn_mask are supported"},
  };
  for (const Case& c : cases) {
    refused([&] { return layer(ones(c.q), ones(c.k), ones(c.v), c.options).output; }, c.text);
  }
}

TEST(TransformerEncoder, PrintsAsInPyTorch) {
  const TransformerEncoder net([] { return TransformerEncoderLayer(8, 2); }, 2, LayerNorm({8}));
  EXPECT_EQ(to_string(net).substr(0, 110), std::string("TransformerEncoder(\n"
                                                       "  (layers): ModuleList(\n"
                                                       "    (0-1): 2 x TransformerEncoderLayer(\n"
                                                       "      (self_attn): MultiheadAttention(\n")
                                               .substr(0, 110));
  EXPECT_EQ(net.state_dict().size(), 26u);
}

TEST(TransformerEncoder, DropsByTheSeed) {
  for (const Device device : all_devices()) {
    const auto layer = [=] {
      return TransformerEncoderLayer(8, 2, {.dim_feedforward = 16, .device = device});
    };
    manual_seed(5);
    TransformerEncoder net(layer, 2);
    const Tensor x = numbers({5, 2, 8}, device);
    manual_seed(9);
    const Tensor once = net(x);
    manual_seed(9);
    EXPECT_TRUE(same_bits(net(x), once));
    EXPECT_FALSE(same_bits(net(x), once));
    net.eval();
    EXPECT_TRUE(same_bits(net(x), net(x)));
    const auto& first = net.layers->at<TransformerEncoderLayer>(0);
    const auto& second = net.layers->at<TransformerEncoderLayer>(1);
    EXPECT_FALSE(same_bits(*first.linear1->weight, *second.linear1->weight));
  }
}

TEST(TransformerEncoderLayer, ComputesInTheHalfTypeUnderAutocast) {
  for (const Device device : all_devices()) {
    TransformerEncoderLayer layer(8, 2, {.dim_feedforward = 16, .dropout = 0, .device = device});
    const Tensor x = numbers({5, 2, 8}, device), y = layer(x).detach();
    const auto run = [&] {
      const AutocastGuard guard(device.type(), kBFloat16);
      const Tensor padding = zeros({2, 5}, {.dtype = kBool, .device = device});
      (void)(*layer.self_attn)(x, x, x, {.key_padding_mask = padding, .is_causal = true});
      return layer(x, {.src_key_padding_mask = padding});
    };
    const Tensor half = run();
    EXPECT_TRUE(close(half, y, 5e-2));
    half.sum().backward();
    for (const Tensor& p : layer.parameters()) EXPECT_EQ(p.grad().dtype(), kFloat32);
  }
}

TEST(TransformerEncoderLayer, RefusesOtherActivations) {
  EXPECT_TRUE(refuses<Error>(
      [] { return TransformerEncoderLayer(8, 2, {.activation = "tanh"}).is_training(); },
      "'tanh' is not a valid value for activation, which is 'relu' or 'gelu'"));
}

TEST(TransformerEncoderLayer, NamesThePathOfAnError) {
  TransformerEncoder net([] { return TransformerEncoderLayer(8, 2); }, 1);
  try {
    (void)net(ones({3, 2, 7}));
    ADD_FAILURE() << "nothing was thrown";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("(in module layers.0.self_attn)"), std::string::npos)
        << error.what();
  }
}

// --- attention with all keys encoder ---

struct Masked {
  const char* name;
  AttendOptions how;
};

TEST(MultiheadAttention, AQueryWithoutKeysAttendsToNothing) {
  const double inf = std::numeric_limits<double>::infinity();
  for (const Device device : all_devices()) {
    const auto bools = [&](const Tensor& numbers) { return numbers.to(device).to(kBool); };
    Tensor added = zeros({3, 3}, {.device = device});
    added[1].fill_(-inf);
    const Masked cases[] = {
        {"padding of a whole sample", {.key_padding_mask = bools(tensor({{0, 0, 1}, {1, 1, 1}}))}},
        {"a row of a bool mask", {.attn_mask = bools(tensor({{0, 0, 0}, {1, 1, 1}, {0, 1, 0}}))}},
        {"a row of a floating mask", {.attn_mask = added}},
        {"padding and a causal mask together",
         {.key_padding_mask = bools(tensor({{1, 0, 0}, {0, 0, 0}})), .is_causal = true}},
    };
    for (const DType dtype : {kFloat32, kFloat64}) {
      MultiheadAttention layer(4, 2);
      layer.to(device, dtype);
      for (const auto& [name, how] : cases) {
        SCOPED_TRACE(name);
        std::vector<Tensor> outputs;
        for (const bool need_weights : {true, false}) {
          AttendOptions options = how;
          options.need_weights = need_weights;
          if (options.attn_mask.defined() && options.attn_mask.is_floating_point()) {
            options.attn_mask = options.attn_mask.to(dtype);
          }
          const Tensor x = numbers({3, 2, 4}, device).to(dtype).requires_grad_();
          const auto [y, weights] = layer(x, x, x, options);
          outputs.push_back(y.detach());
          if (need_weights) {
            const Tensor sums = weights.detach().sum({-1});  // [B, L]: 0 or 1
            EXPECT_TRUE(close(sums * sums, sums, 1e-6));
            EXPECT_LT(sums.sum().item<double>(), 6);
          }
          layer.zero_grad();
          y.sum().backward();
          EXPECT_TRUE(isfinite(y).all().item<bool>());
          EXPECT_TRUE(isfinite(x.grad()).all().item<bool>());
          for (const Tensor& p : layer.parameters()) {
            EXPECT_TRUE(isfinite(p.grad()).all().item<bool>());
          }
        }
        EXPECT_TRUE(close(outputs[0], outputs[1], 1e-5));
      }
    }
  }
}

TEST(Transformer, SamplesOfPaddingAloneKeepGradientsFinite) {
  for (const Device device : all_devices()) {
    const Tensor padding = tensor({{0, 0, 1}, {1, 1, 1}}, {.device = device}).to(kBool);
    const Tensor x = numbers({3, 2, 4}, device);
    TransformerEncoderLayer encoder(4, 2, {.dim_feedforward = 4, .device = device});
    TransformerDecoderLayer decoder(4, 2, {.dim_feedforward = 4, .device = device});
    const Tensor y = encoder(x, {.src_key_padding_mask = padding});
    const Tensor z =
        decoder(y, y, {.tgt_key_padding_mask = padding, .memory_key_padding_mask = padding});
    EXPECT_TRUE(isfinite(z).all().item<bool>());
    z.sum().backward();
    for (const Module* module : {static_cast<Module*>(&encoder), static_cast<Module*>(&decoder)}) {
      for (const Tensor& p : module->parameters()) {
        EXPECT_TRUE(isfinite(p.grad()).all().item<bool>());
      }
    }
  }
}

// --- user-defined layers in a transformer ---

struct DoublingLayer : TransformerEncoderLayer {
  using TransformerEncoderLayer::TransformerEncoderLayer;
  Tensor forward(const Tensor& x) override { return x * 2; }
};
struct MaskedLayer : TransformerEncoderLayer {
  using TransformerEncoderLayer::forward;
  using TransformerEncoderLayer::TransformerEncoderLayer;
  Tensor forward(const Tensor& x, const EncodeOptions& how) override {
    return how.has_masks() ? x * 3 : x * 2;
  }
};
struct OwnDecoderLayer : TransformerDecoderLayer {
  using TransformerDecoderLayer::TransformerDecoderLayer;
  Tensor forward(const Tensor& x, const Tensor& memory, const DecodeOptions&) override {
    return x + memory;
  }
};

TEST(TransformerEncoder, CallsTheForwardOfDerivedLayers) {
  const Tensor x = numbers({3, 2, 4});
  TransformerEncoder doubling([] { return DoublingLayer(4, 2); }, 3);
  EXPECT_EQ((*doubling.layers)[0].type_name(), "DoublingLayer");
  EXPECT_TRUE(same_bits(doubling(x), x * 8));
  EXPECT_TRUE(same_bits(doubling(x, {}), x * 8));
  EXPECT_TRUE(refuses<NotImplementedError>(
      [&] { return doubling(x, {.is_causal = true}); },
      "DoublingLayer overrides forward(src) alone, which masks do not reach"));
  TransformerEncoder encoder([] { return MaskedLayer(4, 2); }, 2);
  EXPECT_TRUE(same_bits(encoder(x), x * 4));
  EXPECT_TRUE(same_bits(encoder(x, {.is_causal = true}), x * 3 * 3));
  TransformerDecoder decoder([] { return OwnDecoderLayer(4, 2); }, 2);
  EXPECT_TRUE(same_bits(decoder(x, x), x + x + x));
}

}  // namespace
}  // namespace taper::v0::test
