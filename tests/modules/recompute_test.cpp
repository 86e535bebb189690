// A GPT whose blocks are computed again in the backward pass: the same bits, less memory, and hooks
// that run once.
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "autograd/autocast.h"
#include "framework/factory/factories.h"
#include "framework/memory/cpu_allocator.h"
#include "modules/models/gpt.h"
#include "tests/testing.h"

namespace taper::v0::test {
namespace {

using Tensors = std::vector<Tensor>;

class Recompute : public ::testing::Test {
 protected:
  Recompute() { manual_seed(3); }

  void set_recompute(bool on) {
    for (const auto& [name, module] : net_.named_modules()) {
      if (auto* const block = dynamic_cast<GPTBlock*>(module)) block->recompute = on;
    }
  }

  // Returns the loss and all gradients, and the bytes that the forward pass keeps on the CPU.
  std::pair<Tensors, size_t> gradients() {
    net_.zero_grad();
    manual_seed(4);
    const size_t before = cpu::memory_stats().allocated;
    const Tensor loss = net_.loss(tokens_, tokens_);
    const size_t kept = cpu::memory_stats().allocated - before;
    loss.backward();
    Tensors all{loss};
    for (const Tensor& p : net_.parameters()) all.push_back(p.grad().clone());
    return {all, kept};
  }

  GPT net_{{.vocab_size = 50,
            .block_size = 32,
            .n_layer = 6,
            .n_head = 2,
            .n_embd = 32,
            .dropout = 0.2}};
  Tensor tokens_ = randint(0, 50, {8, 32});
};

TEST_F(Recompute, HasTheSameBitsAndKeepsLessMemory) {
  for (const Device device : all_devices()) {
    net_.to(device);
    tokens_ = tokens_.to(device);
    for (const bool is_half : {false, true}) {
      const AutocastGuard casting(device.type(), kBFloat16, is_half);
      set_recompute(false);
      const auto [want, kept] = gradients();
      set_recompute(true);
      const auto [got, kept_less] = gradients();
      ASSERT_EQ(got.size(), want.size());
      for (size_t i = 0; i < want.size(); ++i) EXPECT_TRUE(same_bits(got[i], want[i])) << i;
      if (device.is_cpu()) {
        EXPECT_LT(kept_less * 3, kept);
      }
    }
  }
}

TEST_F(Recompute, KeepsNothingWithoutGradients) {
  set_recompute(true);
  net_.eval();
  const NoGradGuard no_grad;
  EXPECT_FALSE(net_(tokens_).requires_grad());
}

TEST_F(Recompute, IsCopiedByClone) {
  set_recompute(true);
  GPT copy = clone(net_);
  int blocks = 0;
  for (const auto& [name, module] : copy.named_modules()) {
    const auto* const block = dynamic_cast<const GPTBlock*>(module);
    if (!block) continue;
    EXPECT_TRUE(block->recompute) << name;
    ++blocks;
  }
  EXPECT_EQ(blocks, 6);
}

TEST_F(Recompute, HooksRunOncePerCall) {
  for (const char* path : {"transformer.h", "transformer.h.2", "transformer.h.2.mlp",
                           "transformer.h.2.mlp.c_fc", "transformer.h.5.attn.resid_dropout"}) {
    int calls = 0;
    std::vector<ModuleHookHandle> handles;
    for (const auto& [name, module] : net_.named_modules()) {
      if (name != path) continue;
      handles.push_back(
          module->register_forward_hook([&calls](Module&, const Tensor&, const Tensor&) -> Tensor {
            ++calls;
            return {};
          }));
    }
    ASSERT_EQ(handles.size(), 1u) << path;
    set_recompute(false);
    const Tensors want = gradients().first;
    set_recompute(true);
    const Tensors got = gradients().first;
    EXPECT_EQ(calls, 2) << path;
    for (size_t i = 0; i < want.size(); ++i) EXPECT_TRUE(same_bits(got[i], want[i])) << path;
    for (ModuleHookHandle& handle : handles) handle.remove();
  }
}

}  // namespace
}  // namespace taper::v0::test
