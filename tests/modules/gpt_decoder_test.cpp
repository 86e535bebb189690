// Generation with a key-value cache.
#include "modules/models/gpt_decoder.h"

#include <vector>

#include <gtest/gtest.h>

#include "autograd/node.h"
#include "autograd/ops/binary_ops.h"
#include "autograd/ops/shape_ops.h"
#include "framework/factory/factories.h"
#include "tests/testing.h"

namespace taper::v0 {
using namespace test;
namespace {

constexpr int64_t kLength = 12, kWords = 30;

GPT small_gpt(Device device, GPTOptions options = {.n_head = 4}) {
  manual_seed(4);
  options.vocab_size = kWords, options.block_size = kLength;
  options.n_layer = 3, options.n_embd = 16;
  GPT net(options);
  for (const auto& [name, p] : net.named_parameters()) {
    const NoGradGuard no_grad;
    p.mul_(8);  // so that the logits depend much on the tokens before
  }
  net.to(device);
  net.eval();
  return net;
}

Tensor texts(int64_t count, Device device) {
  manual_seed(5);
  return randint(0, kWords, {count, kLength}).to(device);
}

// Numbers of tokens that calls append; together at most kLength.
const std::vector<std::vector<int64_t>> kCalls = {
    {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1}, {5, 1, 1, 1, 1, 1, 1, 1}, {3, 4, 1, 2, 2}, {12}};

// Checks the logits after each call against those of the whole texts.
void expect_logits_of_whole_texts(GPT& net, GPTDecoder& decoder, const Tensor& tokens,
                                  const std::vector<int64_t>& calls) {
  const NoGradGuard no_grad;
  const Tensor expected = net(tokens);
  int64_t from = 0;
  for (const int64_t n : calls) {
    const Tensor logits = decoder(tokens.narrow(1, from, n));
    from += n;
    EXPECT_EQ(decoder.size(), from);
    EXPECT_FALSE(logits.requires_grad());
    EXPECT_TRUE(close(logits, expected.select(1, from - 1), 1e-4)) << from << " tokens";
  }
}

void check_options_on(Device device) {
  for (const GPTOptions& options : {GPTOptions{.n_head = 4}, GPTOptions{.n_head = 1, .bias = false},
                                    GPTOptions{.n_head = 2, .gelu = "tanh"}}) {
    GPT net = small_gpt(device, options);
    GPTDecoder decoder(net);
    for (const int64_t count : {1, 3, 1}) {
      for (const auto& calls : kCalls) {
        decoder.clear();
        EXPECT_EQ(decoder.size(), 0);
        expect_logits_of_whole_texts(net, decoder, texts(count, device), calls);
      }
    }
  }
}

TEST(GPTDecoder, LogitsAreThoseOfTheWholeTexts) {
  for (const Device device : all_devices()) check_options_on(device);
}

TEST(GPTDecoder, ClearTakesOtherWeights) {
  for (const Device device : all_devices()) {
    GPT net = small_gpt(device);
    GPTDecoder decoder(net);
    const Tensor tokens = texts(2, device);
    expect_logits_of_whole_texts(net, decoder, tokens, kCalls[0]);
    {
      const NoGradGuard no_grad;
      net.transformer->wpe->weight->mul_(-2);
      net.lm_head->weight->add_(0.5);
    }
    decoder.clear();
    expect_logits_of_whole_texts(net, decoder, tokens, kCalls[1]);
  }
}

TEST(GPTDecoder, TakesEveryDtypeOfTokensAndOfTheModel) {
  for (const Device device : all_devices()) {
    GPT net = small_gpt(device);
    net.to(kFloat64);
    GPTDecoder decoder(net);
    expect_logits_of_whole_texts(net, decoder, texts(2, device).to(kInt32), kCalls[2]);
  }
}

TEST(GPTDecoder, RefusesWhatDoesNotFit) {
  GPT net = small_gpt("cpu");
  GPTDecoder decoder(net);
  const Tensor tokens = texts(2, "cpu");
  EXPECT_TRUE(refuses<ValueError>([&] { return decoder(tokens[0]); },
                                  "GPTDecoder: expected tokens [B, T], got [12]"));
  EXPECT_TRUE(refuses<ValueError>([&] { return decoder(tokens.narrow(1, 0, 0)); },
                                  "GPTDecoder: expected at least one token"));
  (void)decoder(tokens.narrow(1, 0, 8));
  EXPECT_TRUE(
      refuses<ValueError>([&] { return decoder(tokens.narrow(1, 0, 5)); },
                          "GPTDecoder: 13 tokens are more than the model's block_size, 12"));
  EXPECT_TRUE(refuses<ValueError>([&] { return decoder(tokens.narrow(0, 0, 1).narrow(1, 0, 1)); },
                                  "GPTDecoder: expected 2 texts as before, got 1"));
  // A refused call changes nothing.
  EXPECT_EQ(decoder.size(), 8);
  const NoGradGuard no_grad;
  EXPECT_TRUE(close(decoder(tokens.narrow(1, 8, 1)), net(tokens).select(1, 8), 1e-4));
}

TEST(GPTDecoder, RefusesModelsWhosePassItDoesNotKnow) {
  struct OwnGPT : GPT {
    using GPT::GPT;
  };
  const GPTOptions options{
      .vocab_size = 8, .block_size = 4, .n_layer = 2, .n_head = 1, .n_embd = 4};
  GPT training(options);
  EXPECT_EQ(GPTDecoder::reason_against(training),
            "the model is in training mode; call eval() first");
  EXPECT_TRUE(refuses<ValueError>([&] { GPTDecoder decoder(training); },
                                  "GPTDecoder: the model is in training mode"));
  GPT hooked(options);
  hooked.eval();
  EXPECT_EQ(GPTDecoder::reason_against(hooked), "");
  hooked.transformer->h->at<GPTBlock>(1).mlp->c_fc->register_forward_hook(
      [](Module&, const Tensor&, const Tensor& y) { return y; });
  EXPECT_EQ(GPTDecoder::reason_against(hooked), "a module has hooks");
  OwnGPT own(options);
  own.eval();
  EXPECT_EQ(GPTDecoder::reason_against(own), "it has layers that GPT does not create");
}

}  // namespace
}  // namespace taper::v0
