// MultiheadAttention and the transformer's encoder; tests/interop compares them with PyTorch.
#include "modules/layers/attention.h"

#include <cmath>

#include <gtest/gtest.h>

#include "autograd/autocast.h"
#include "framework/factories.h"
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
      {q,
       k,
       {5, 2, 8},
       {},
       "key shape torch.Size([4, 2, 8]) does not match value shape torch.Size([5, 2, 8])"},
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
       "For batched (3-D) `query`, expected `key_padding_mask` to be `None` or 2-D but found 1-D "
       "tensor instead"},
      {q,
       k,
       k,
       {.attn_mask = mask({4})},
       "For batched (3-D) `query`, expected `attn_mask` to be `None`, 2-D or 3-D but found 1-D "
       "tensor instead"},
      {q,
       k,
       k,
       {.attn_mask = mask({3, 3})},
       "The shape of the 2D attn_mask is torch.Size([3, 3]), but should be (3, 4)."},
      {q,
       k,
       k,
       {.attn_mask = mask({2, 3, 4})},
       "The shape of the 3D attn_mask is torch.Size([2, 3, 4]), but should be (4, 3, 4)."},
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
      const Autocast guard(device.type(), kBFloat16);
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
      "activation should be relu/gelu, not tanh"));
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

}  // namespace
}  // namespace taper::v0::test
