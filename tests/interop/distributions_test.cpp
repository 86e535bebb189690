// Compares distributions with PyTorch's values, which distributions.py stores. Draws are compared
// with the moments of their distribution.
#include "modules/distributions/distributions.h"

#include <cmath>
#include <functional>
#include <map>
#include <memory>

#include <gtest/gtest.h>

#include "autograd/engine.h"
#include "autograd/ops/binary_ops.h"
#include "autograd/ops/index/index_ops.h"
#include "autograd/ops/reduce_ops.h"
#include "autograd/ops/shape_ops.h"
#include "autograd/ops/unary_ops.h"
#include "framework/factory/factories.h"
#include "framework/io/safetensors.h"
#include "framework/kernels/elementwise/binary.h"
#include "tests/testing.h"

namespace taper::v0::distributions {
namespace {

using Tensors = std::vector<Tensor>;
using Ptr = std::unique_ptr<Distribution>;

struct Row {
  std::string name;
  std::function<Ptr(const Tensors&)> make;
  std::function<Tensor(const Tensors& p, const Tensors& q)> kl;
};

template <class D> Row row(const std::string& name, std::function<D(const Tensors&)> make) {
  return {name, [make](const Tensors& p) { return std::make_unique<D>(make(p)); },
          [make](const Tensors& p, const Tensors& q) { return kl_divergence(make(p), make(q)); }};
}
template <class D> Row of_two(const std::string& name) {
  return row<D>(name, [](const Tensors& p) { return D(p[0], p[1]); });
}
template <class D> Row of_odds(const std::string& name, bool logits) {
  return row<D>(name, [logits](const Tensors& p) {
    return logits ? D(Odds{.logits = p[0]}) : D(Odds{.probs = p[0]});
  });
}

const std::vector<Row>& distribution_rows() {
  static const std::vector<Row> all = {
      of_two<Normal>("Normal"),
      of_two<Uniform>("Uniform"),
      of_odds<Bernoulli>("Bernoulli", false),
      of_odds<Bernoulli>("Bernoulli logits", true),
      of_odds<Categorical>("Categorical", false),
      of_odds<Categorical>("Categorical logits", true),
      of_two<Gamma>("Gamma"),
      row<Dirichlet>("Dirichlet", [](const Tensors& p) { return Dirichlet(p[0]); }),
      of_two<Beta>("Beta"),
  };
  return all;
}

std::map<std::string, Tensor> stored_values() {
  std::map<std::string, Tensor> out;
  for (auto& [name, tensor] :
       load_safetensors(TAPER_INTEROP_DIR "/distributions.safetensors").tensors) {
    out[name] = tensor;
  }
  return out;
}

TEST(Distributions, SayWhatPyTorchSays) {
  const auto file = stored_values();
  for (const Device device : test::all_devices()) {
    for (const Row& row : distribution_rows()) {
      SCOPED_TRACE(concat_to_string(row.name, " on ", device));
      const auto parameters = [&](const char* of) {
        Tensors out;
        for (int i = 0; file.count(concat_to_string(row.name, ".", of, i)); ++i) {
          out.push_back(
              file.at(concat_to_string(row.name, ".", of, i)).to(device).requires_grad_());
        }
        return out;
      };
      const Tensors p = parameters("p"), q = parameters("q");
      const Ptr one = row.make(p);
      const auto agree = [&](const std::string& what, const Tensor& y, bool has_gradient) {
        SCOPED_TRACE(what);
        const Tensor want = file.at(concat_to_string(row.name, ".", what));
        if (row.name.starts_with("Categorical") && (what == "mean" || what == "variance")) {
          EXPECT_TRUE(all(isnan(y)).item<bool>() && y.shape() == want.shape());
          return;
        }
        EXPECT_TRUE(test::close(y.cpu(), want, 1e-12));
        if (!has_gradient) return;
        Tensors g(p.size());
        if (y.requires_grad()) g = grad({y.sum()}, p, {.retain_graph = true, .allow_unused = true});
        // The larger tolerance is for entropies: PyTorch's trigamma is accurate to nine digits.
        for (size_t i = 0; i < p.size(); ++i) {
          const Tensor own = g[i].defined() ? g[i] : zeros_like(p[i]);
          EXPECT_TRUE(test::close(own.cpu(),
                                  file.at(concat_to_string(row.name, ".", what, ".d", i)),
                                  what == "log_prob" ? 1e-11 : 3e-9));
        }
      };
      agree("log_prob", one->log_prob(file.at(concat_to_string(row.name, ".value")).to(device)),
            true);
      agree("entropy", one->entropy(), true);
      agree("kl", row.kl(p, q), true);
      agree("mean", one->mean(), false);
      agree("variance", one->variance(), false);
    }
  }
}

// The sample's mean and variance may differ by 5 standard deviations. The seed is fixed.
TEST(Distributions, DrawsHaveTheMomentsOfTheDistribution) {
  const auto file = stored_values();
  constexpr int64_t kDraws = 20000;
  for (const Device device : test::all_devices()) {
    for (const Row& row : distribution_rows()) {
      SCOPED_TRACE(concat_to_string(row.name, " on ", device));
      Tensors p;
      for (int i = 0; file.count(concat_to_string(row.name, ".p", i)); ++i) {
        p.push_back(file.at(concat_to_string(row.name, ".p", i)).to(device));
      }
      manual_seed(11);
      const Ptr one = row.make(p);
      const Tensor x = one->sample({kDraws}).to(kFloat64);
      Shape shape = {kDraws};
      for (const int64_t n : one->batch_shape()) shape.push_back(n);
      for (const int64_t n : one->event_shape()) shape.push_back(n);
      ASSERT_EQ(x.shape(), shape);
      EXPECT_FALSE(x.requires_grad());
      if (row.name.starts_with("Categorical")) {
        const Tensor counts = mean(one_hot(x.to(kInt64), 4).to(kFloat64), {0});
        EXPECT_TRUE(test::close(
            counts.cpu(),
            exp(one->log_prob(arange(4).to(device).view({4, 1}))).transpose(0, 1).cpu(), 0.02));
        continue;
      }
      const Tensor away = abs(mean(x, {0}) - one->mean());
      EXPECT_TRUE(all(away <= sqrt(one->variance() / kDraws) * 5).item<bool>());
      const Tensor ratio = var(x, {0}) / one->variance();
      EXPECT_TRUE(all(logical_and(ratio > 0.85, ratio < 1.15)).item<bool>());
    }
  }
}

TEST(Distributions, GammaGradientIsThatOfTheDistributionFunction) {
  const auto file = stored_values();
  for (const Device device : test::all_devices()) {
    const Tensor got =
        kernels::binary(kernels::BinaryOp::kGammaGradient, file.at("gamma.a").to(device),
                        file.at("gamma.x").to(device));
    EXPECT_TRUE(test::close(got.cpu(), file.at("gamma.dx"), 1e-8));
  }
}

TEST(Distributions, DrawingFromWhatIsInfiniteEnds) {
  const Tensor x = Gamma(tensor({HUGE_VAL, 2.}), 1.).sample();
  EXPECT_EQ(isfinite(x).to_vector<bool>(), (std::vector<bool>{false, true}));
}

// The derivative of E[x] by a parameter is the mean of the draws' gradients.
TEST(Distributions, DrawsAreDifferentiable) {
  manual_seed(5);
  const Tensor a = tensor({0.4, 1.5, 6.}, {.dtype = kFloat64, .requires_grad = true});
  Gamma(a, 2.).rsample({20000}).mean({0}).sum().backward();
  EXPECT_TRUE(test::close(a.grad(), full({3}, 0.5, {.dtype = kFloat64}), 0.03));
  const Tensor low = tensor(-1., {.requires_grad = true}),
               scale = tensor(2., {.requires_grad = true});
  (Uniform(low, 3.).rsample({10}) + Normal(0., scale).rsample({10})).sum().backward();
  EXPECT_TRUE(low.grad().item<float>() > 0 && scale.grad().defined());
  EXPECT_TRUE(
      test::refuses<NotImplementedError>([] { return Bernoulli(0.5).rsample(); }, "rsample"));
}

TEST(Distributions, RefuseWhatIsNone) {
  EXPECT_TRUE(test::refuses<ValueError>(
      [] { return Normal(0., -1.); },
      "Expected parameter scale (Tensor of shape []) of distribution Normal to satisfy the "
      "constraint GreaterThan(lower_bound=0.0), but found invalid values:\ntensor(-1.)"));
  EXPECT_TRUE(test::refuses<ValueError>([] { return Bernoulli(1.5); }, "Expected parameter probs"));
  EXPECT_TRUE(test::refuses<ValueError>([] { return Bernoulli(Odds{}); },
                                        "Either `probs` or `logits` must be specified"));
  EXPECT_TRUE(test::refuses<ValueError>([] { return Uniform(1., 0.); }, "Expected parameter low"));
  EXPECT_TRUE(test::refuses<ValueError>([] { return Categorical(tensor(1.)); },
                                        "`probs` parameter must be at least one-dimensional."));
  const auto is_impossible = [](const Tensor& log_prob) {
    return all(isinf(log_prob)).item<bool>() && all(log_prob < 0).item<bool>();
  };
  EXPECT_TRUE(is_impossible(Uniform(0., 1.).log_prob(tensor({-0.5, 1.}))));
  EXPECT_TRUE(is_impossible(Gamma(2., 1.).log_prob(tensor({-0.5}))));
  EXPECT_TRUE(is_impossible(Beta(2., 3.).log_prob(tensor({-0.5, 1.5}))));
}

}  // namespace
}  // namespace taper::v0::distributions
