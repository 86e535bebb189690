// Finding the op behind a nan.
#include "autograd/anomaly.h"

#include <functional>
#include <thread>

#include <gtest/gtest.h>

#include "autograd/engine.h"
#include "autograd/ops/binary.h"
#include "autograd/ops/inplace.h"
#include "autograd/ops/unary.h"
#include "framework/factories.h"
#include "modules/containers.h"
#include "modules/members.h"
#include "tests/testing.h"

namespace taper::v0::test {

// Not in an unnamed namespace, so that the linker knows its name.
[[gnu::noinline]] Tensor root_of_nothing(const Tensor& x) { return sqrt(x * 0); }

namespace {

std::string message_of(const std::function<void()>& f) {
  try {
    f();
  } catch (const Error& error) {
    return error.what();
  }
  return "nothing was thrown";
}

TEST(Anomaly, NamesTheFunctionThatReturnedNanAndItsCaller) {
  for (const Device device : all_devices()) {
    const Tensor x = ones({2}, {.device = device, .requires_grad = true});
    {
      const AnomalyMode anomaly;
      const std::string text = message_of([&] { (root_of_nothing(x) * 0).sum().backward(); });
      EXPECT_TRUE(text.starts_with(
          "Function 'SqrtBackward0' returned nan values in its 0th output.\nThe forward was called "
          "at:\n  "))
          << text;
      // The first place is the user's function, where the symbols are known.
      EXPECT_NE(text.find("(test_autograd+0x"), std::string::npos) << text;
      EXPECT_NE(text.find("at:\n  taper::test::root_of_nothing(taper::Tensor const&) ("),
                std::string::npos)
          << text;
      EXPECT_FALSE(x.grad().defined());
    }
    EXPECT_EQ(message_of([&] { (root_of_nothing(x) * 0).sum().backward(); }), "nothing was thrown");
  }
}

struct Root : Module {
  Tensor forward(const Tensor& x) override { return sqrt(x); }
  std::string type_name() const override { return "Root"; }
};
struct Net : Module {
  struct Inner : Module {
    Child<Root> root{*this, "root"};
    Tensor forward(const Tensor& x) override { return root(x * 0); }
    std::string type_name() const override { return "Inner"; }
  };
  Child<Inner> inner{*this, "inner"};
  Tensor forward(const Tensor& x) override { return inner(x) * 0; }
  std::string type_name() const override { return "Net"; }
};

TEST(Anomaly, NamesTheModule) {
  const AnomalyMode anomaly;
  const Tensor x = ones({2}, {.requires_grad = true});
  Net net;
  EXPECT_NE(message_of([&] {
              net(x).sum().backward();
            }).find("0th output.\nThe forward was called in module inner.root, at:\n"),
            std::string::npos);
}

TEST(Anomaly, AddsThePlaceToOtherErrors) {
  const AnomalyMode anomaly;
  const Tensor x = ones({2}, {.requires_grad = true});
  const Tensor y = exp(x);
  y.detach().add_(1);
  const std::string text = message_of([&] { y.sum().backward(); });
  EXPECT_TRUE(
      text.starts_with("one of the variables needed for gradient computation has been "
                       "modified by an inplace operation: ["))
      << text;
  EXPECT_NE(text.find("\nThe forward was called at:"), std::string::npos) << text;
}

TEST(Anomaly, BelongsToItsThreadAndScope) {
  EXPECT_FALSE(is_anomaly_enabled());
  {
    const AnomalyMode anomaly;
    EXPECT_TRUE(is_anomaly_enabled());
    bool elsewhere = true;
    std::thread([&] { elsewhere = is_anomaly_enabled(); }).join();
    EXPECT_FALSE(elsewhere);
  }
  EXPECT_FALSE(is_anomaly_enabled());
}

}  // namespace
}  // namespace taper::v0::test
