// The module that tests of distributed training use, and its data.
#pragma once

#include <string>
#include <vector>

#include "autograd/node.h"
#include "autograd/ops/binary_ops.h"
#include "autograd/ops/nn/loss_ops.h"
#include "autograd/ops/unary_ops.h"
#include "framework/factory/factories.h"
#include "modules/layers/linear.h"
#include "modules/layers/norm_layers.h"
#include "tests/distributed/ranks.h"
#include "tests/testing.h"

namespace taper::v0::test {

// A batch can be split into equal parts for 1, 2, 3, 4 or 8 ranks, and each part into three.
constexpr int64_t kBatch = 72, kInputs = 10;

// A network with tied weights and, if requested, parameters that get no gradient.
struct Net : Module {
  Child<Linear> in{*this, "in", kInputs, 16};
  Child<BatchNorm1d> norm{*this, "norm", 16};
  Child<Linear> middle{*this, "middle", 16, 16};
  Child<Linear> tied{*this, "tied", 16, 16};
  Child<Linear> unused{*this, "unused", 3, 3};
  bool uses_all = true, normalises = false;

  explicit Net(uint64_t seed, bool with_unused = false) {
    Generator generator(seed);
    const DrawGuard scope(generator);
    for (const NamedTensor& p : named_parameters()) {
      const NoGradGuard no_grad;
      p.tensor.normal_(0, 0.3);
    }
    tied->weight.share(middle->weight);
    if (!with_unused) unused->requires_grad_(false);
    norm->requires_grad_(false);
    to(test_device());
  }
  std::string type_name() const override { return "Net"; }
  Tensor forward(const Tensor& x) override {
    Tensor h = in(x);
    if (normalises) h = norm(h);
    return tied(relu(middle(tanh(h))));
  }
};

// Returns the whole batch of a step, which is the same on every rank.
inline Tensor whole_batch(int step) {
  Generator generator(uint64_t(1000 + step));
  return normal(0, 1, {kBatch, kInputs}, {.device = test_device()}, &generator);
}
inline Tensor part_of(const Tensor& batch) {
  const int64_t n = batch.size(0) / world().size();
  return batch.narrow(0, world().rank() * n, n);
}
inline Tensor loss_of(Net& net, const Tensor& x) { return square(net(x)).mean(); }

inline std::string bytes_of(const std::vector<Tensor>& tensors) {
  std::string bytes;
  for (const Tensor& t : tensors) {
    const Tensor here = t.detach().cpu().contiguous();
    bytes.append(static_cast<const char*>(here.data_ptr()), here.nbytes());
  }
  return bytes;
}
inline void expect_equal_on_all_ranks(const std::vector<Tensor>& tensors) {
  const std::vector<std::string> all = world().all_gather_text(bytes_of(tensors));
  for (size_t r = 1; r < all.size(); ++r) EXPECT_TRUE(all[r] == all[0]) << "rank " << r;
}

}  // namespace taper::v0::test
