// Anomaly mode finds the op that produced a nan.
#include "autograd/anomaly.h"

#include <exception>
#include <functional>
#include <stdexcept>
#include <thread>

#include <gtest/gtest.h>

#include "autograd/activation_checkpoint.h"
#include "autograd/engine.h"
#include "autograd/function.h"
#include "autograd/ops/binary_ops.h"
#include "autograd/ops/index/inplace.h"
#include "autograd/ops/unary_ops.h"
#include "framework/base/log.h"
#include "framework/factory/factories.h"
#include "modules/layers/containers.h"
#include "modules/members.h"
#include "tests/testing.h"

namespace taper::v0::test {

// Not in an unnamed namespace, so that the linker exports its name.
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
      const DetectAnomalyGuard anomaly;
      const std::string text = message_of([&] { (root_of_nothing(x) * 0).sum().backward(); });
      EXPECT_TRUE(text.starts_with(
          "Function 'SqrtBackward0' returned nan values in its 0th output.\nThe forward was called "
          "at:\n  "))
          << text;
      // The first place is the user's function, if symbols are known.
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
  const DetectAnomalyGuard anomaly;
  const Tensor x = ones({2}, {.requires_grad = true});
  Net net;
  EXPECT_NE(message_of([&] {
              net(x).sum().backward();
            }).find("0th output.\nThe forward was called in module inner.root, at:\n"),
            std::string::npos);
}

TEST(Anomaly, AddsThePlaceToOtherErrors) {
  const DetectAnomalyGuard anomaly;
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

struct OwnError : std::logic_error {
  using std::logic_error::logic_error;
};
struct DerivedError : OutOfMemoryError {
  using OutOfMemoryError::OutOfMemoryError;
};

template <class E> struct Throws : Function<Throws<E>> {
  static Tensor forward(Context&, const Tensor& x) { return x * 1; }
  static std::vector<Tensor> backward(Context&, const std::vector<Tensor>&) { throw E("mine"); }
};

// The pass throws exactly E, not a base class or a derived one.
template <class E> void expect_kept() {
  const Tensor x = ones({2}, {.requires_grad = true});
  const auto exactly = [](const std::function<void()>& f) {
    try {
      f();
    } catch (const E& error) {
      EXPECT_EQ(typeid(error), typeid(E));
      return std::string(error.what());
    } catch (...) {
      return std::string("another type");
    }
    return std::string("nothing was thrown");
  };
  const auto throw_it = [](const Tensor&) -> Tensor { throw E("mine"); };
  const auto run_again = [](const std::vector<Tensor>& in) {
    const Tensor y = exp(in[0]);
    if (!in[0].is_leaf()) return y;
    throw E("mine");
  };
  const std::pair<const char*, std::function<void()>> paths[] = {
      {"backward function", [&] { Throws<E>::apply(x).sum().backward(); }},
      {"two at once", [&] { (Throws<E>::apply(x) + Throws<E>::apply(x)).sum().backward(); }},
      {"grad", [&] { grad({Throws<E>::apply(x).sum()}, {x}); }},
      {"hook",
       [&] {
         const Tensor y = x * 2;
         y.register_hook(throw_it);
         y.sum().backward();
       }},
      {"post-accumulate hook",
       [&] {
         const Tensor leaf = ones({2}, {.requires_grad = true});
         leaf.register_post_accumulate_grad_hook([](const Tensor&) { throw E("mine"); });
         (leaf * 2).sum().backward();
       }},
      {"checkpoint", [&] { checkpoint(run_again, {x * 2}).sum().backward(); }},
      {"nested pass",
       [&] {
         const Tensor y = x * 2;
         y.register_hook([&](const Tensor&) {
           const AutoGradMode recording(true);
           Throws<E>::apply(x).sum().backward();
         });
         y.sum().backward();
       }},
      {"another thread",
       [&] {
         std::exception_ptr error;
         std::thread([&, anomaly = is_anomaly_enabled()] {
           const DetectAnomalyGuard mode(anomaly);
           try {
             Throws<E>::apply(x).sum().backward();
           } catch (...) {
             error = std::current_exception();
           }
         }).join();
         if (error) std::rethrow_exception(error);
       }},
  };
  for (const bool anomaly : {false, true}) {
    const DetectAnomalyGuard mode(anomaly);
    for (const auto& [name, run] : paths) {
      EXPECT_TRUE(exactly(run).starts_with("mine")) << name << ", anomaly mode: " << anomaly;
    }
  }
}

TEST(Anomaly, ExceptionsKeepTheirTypeOnEveryPath) {
  expect_kept<Error>();
  expect_kept<OutOfMemoryError>();
  expect_kept<NotImplementedError>();
  expect_kept<IndexError>();
  expect_kept<DerivedError>();
  expect_kept<std::runtime_error>();
  expect_kept<OwnError>();
}

TEST(Anomaly, WarnsOfThePlaceBehindAForeignException) {
  std::string heard;
  const Logger before = set_logger([&](LogLevel, const std::string& text) { heard += text; });
  {
    const DetectAnomalyGuard anomaly;
    const Tensor x = ones({2}, {.requires_grad = true});
    EXPECT_THROW(Throws<OwnError>::apply(x).sum().backward(), OwnError);
  }
  set_logger(before);
  EXPECT_NE(heard.find("Backward threw: mine\nThe forward was called at:\n"), std::string::npos)
      << heard;
}

TEST(Anomaly, BelongsToItsThreadAndScope) {
  EXPECT_FALSE(is_anomaly_enabled());
  {
    const DetectAnomalyGuard anomaly;
    EXPECT_TRUE(is_anomaly_enabled());
    bool elsewhere = true;
    std::thread([&] { elsewhere = is_anomaly_enabled(); }).join();
    EXPECT_FALSE(elsewhere);
  }
  EXPECT_FALSE(is_anomaly_enabled());
}

}  // namespace
}  // namespace taper::v0::test
