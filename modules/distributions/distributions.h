// Probability distributions (https://docs.pytorch.org/docs/stable/distributions.html).
//
//   const distributions::Normal q(mean, exp(log_std));
//   const Tensor z = q.rsample();                       // differentiable w.r.t. mean and log_std
//   const Tensor loss = kl_divergence(q, distributions::Normal(0., 1.)).sum();
//
// Parameters broadcast to the batch shape and stay on the tape; numbers are accepted as tensors.
// Invalid parameters throw ValueError on the CPU. On the GPU, where checking would have to wait,
// they give nan. log_prob is -inf for values outside of the support.
#pragma once

#include "framework/factory/generator.h"
#include "framework/tensor/tensor.h"

namespace taper::v0::distributions {

// A parameter of a distribution: a tensor or a number.
class TensorOrNumber {
 public:
  TensorOrNumber() = default;  // neither was given
  TensorOrNumber(const Tensor& value) : value_(value) {}
  TensorOrNumber(double value);
  const Tensor& operator*() const { return value_; }
  explicit operator bool() const { return value_.defined(); }

 private:
  Tensor value_;
};

class Distribution {
 public:
  virtual ~Distribution() = default;
  // batch_shape is the shape of a batch of independent distributions. event_shape is the shape of
  // one value of each of them.
  const Shape& batch_shape() const { return batch_shape_; }
  const Shape& event_shape() const { return event_shape_; }

  // Returns a tensor [sample_shape..., batch_shape..., event_shape...] that is not on the tape.
  // Draws from the given generator, or from default_generator().
  Tensor sample(const Shape& sample_shape = {}, Generator* generator = nullptr) const;
  // Like sample(), but differentiable with respect to the parameters. Throws NotImplementedError if
  // the distribution does not support it.
  virtual Tensor rsample(const Shape& sample_shape = {}, Generator* generator = nullptr) const;
  // Returns the logarithm of the density or probability of each value.
  virtual Tensor log_prob(const Tensor& value) const = 0;
  virtual Tensor entropy() const = 0;
  virtual Tensor mean() const = 0;
  virtual Tensor variance() const = 0;
  Tensor stddev() const;

 protected:
  Distribution(Shape batch_shape, Shape event_shape = {})
      : batch_shape_(batch_shape), event_shape_(event_shape) {}
  virtual Tensor draw(const Shape& sample_shape, Generator* generator) const;
  Shape extended(const Shape& sample_shape) const;

 private:
  Shape batch_shape_, event_shape_;
};

// Normal distribution with mean loc and standard deviation scale > 0.
class Normal : public Distribution {
 public:
  Normal(const TensorOrNumber& loc, const TensorOrNumber& scale);
  Tensor rsample(const Shape& sample_shape = {}, Generator* generator = nullptr) const override;
  Tensor log_prob(const Tensor& value) const override;
  Tensor entropy() const override;
  Tensor mean() const override { return loc; }
  Tensor variance() const override;

  Tensor loc, scale;
};

// Uniform distribution on [low, high).
class Uniform : public Distribution {
 public:
  Uniform(const TensorOrNumber& low, const TensorOrNumber& high);
  Tensor rsample(const Shape& sample_shape = {}, Generator* generator = nullptr) const override;
  Tensor log_prob(const Tensor& value) const override;
  Tensor entropy() const override;
  Tensor mean() const override;
  Tensor variance() const override;

  Tensor low, high;
};

// The parameter of Bernoulli and Categorical: either probabilities or logits. Exactly one of them
// must be given.
struct Odds {
  TensorOrNumber probs = {}, logits = {};
};

// Bernoulli distribution: 1 with probability probs (= sigmoid(logits)), otherwise 0.
class Bernoulli : public Distribution {
 public:
  explicit Bernoulli(const TensorOrNumber& p) : Bernoulli(Odds{.probs = p}) {}
  // Example: Bernoulli({.logits = x}).
  explicit Bernoulli(const Odds& odds);
  Tensor log_prob(const Tensor& value) const override;
  Tensor entropy() const override;
  Tensor mean() const override { return probs; }
  Tensor variance() const override;

  Tensor probs, logits;

 protected:
  Tensor draw(const Shape& sample_shape, Generator* generator) const override;
};

// Categorical distribution: one of the int64 numbers 0 to k - 1, where k is the size of the last
// dimension. probs need not sum to 1; logits are unnormalized log probabilities.
class Categorical : public Distribution {
 public:
  explicit Categorical(const Tensor& p) : Categorical(Odds{.probs = p}) {}
  explicit Categorical(const Odds& odds);
  Tensor log_prob(const Tensor& value) const override;
  Tensor entropy() const override;
  Tensor mean() const override;      // nan, because the categories have no order
  Tensor variance() const override;  // nan

  Tensor probs, logits;  // normalized

 protected:
  Tensor draw(const Shape& sample_shape, Generator* generator) const override;
};

// Gamma distribution with shape concentration > 0 and inverse scale rate > 0. Samples by the method
// of Marsaglia and Tsang (2000, doi:10.1145/358407.358414), which draws again until all values are
// accepted. Synchronizes.
class Gamma : public Distribution {
 public:
  Gamma(const TensorOrNumber& concentration, const TensorOrNumber& rate);
  Tensor rsample(const Shape& sample_shape = {}, Generator* generator = nullptr) const override;
  Tensor log_prob(const Tensor& value) const override;
  Tensor entropy() const override;
  Tensor mean() const override;
  Tensor variance() const override;

  Tensor concentration, rate;
};

// Dirichlet distribution: positive numbers that sum to 1 along the last dimension. concentration >
// 0 has the same last dimension.
class Dirichlet : public Distribution {
 public:
  explicit Dirichlet(const Tensor& concentration);
  Tensor rsample(const Shape& sample_shape = {}, Generator* generator = nullptr) const override;
  Tensor log_prob(const Tensor& value) const override;
  Tensor entropy() const override;
  Tensor mean() const override;
  Tensor variance() const override;

  Tensor concentration;
};

// Beta distribution: a number between 0 and 1, the first of the two numbers of a Dirichlet
// distribution.
class Beta : public Distribution {
 public:
  Beta(const TensorOrNumber& concentration1, const TensorOrNumber& concentration0);
  Tensor rsample(const Shape& sample_shape = {}, Generator* generator = nullptr) const override;
  Tensor log_prob(const Tensor& value) const override;
  Tensor entropy() const override;
  Tensor mean() const override;
  Tensor variance() const override;

  Tensor concentration1, concentration0;

 private:
  Dirichlet both() const;
};

// Returns sum(p (log p - log q)) for each element of the batch.
Tensor kl_divergence(const Normal& p, const Normal& q);
Tensor kl_divergence(const Uniform& p, const Uniform& q);
Tensor kl_divergence(const Bernoulli& p, const Bernoulli& q);
Tensor kl_divergence(const Categorical& p, const Categorical& q);
Tensor kl_divergence(const Gamma& p, const Gamma& q);
Tensor kl_divergence(const Dirichlet& p, const Dirichlet& q);
Tensor kl_divergence(const Beta& p, const Beta& q);

}  // namespace taper::v0::distributions
