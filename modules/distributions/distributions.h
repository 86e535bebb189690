// Probability distributions (https://docs.pytorch.org/docs/stable/distributions.html).
//
//   const distributions::Normal q(mean, exp(log_std));
//   const Tensor z = q.rsample();                       // differentiable by mean and log_std
//   const Tensor loss = kl_divergence(q, distributions::Normal(0., 1.)).sum();
//
// Parameters broadcast to the batch shape and stay on the tape; numbers count as tensors. On the
// CPU those that make no distribution are refused (ValueError); on the GPU, which is not waited
// for, they give nan. log_prob is -inf where a value cannot occur.
#pragma once

#include "framework/factory/generator.h"
#include "framework/tensor/tensor.h"

namespace taper::v0::distributions {

// A parameter.
class TensorOrNumber {
 public:
  TensorOrNumber() = default;  // neither
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
  // Of independent distributions, and of one value of each.
  const Shape& batch_shape() const { return batch_shape_; }
  const Shape& event_shape() const { return event_shape_; }

  // A tensor [sample_shape..., batch_shape..., event_shape...], off the tape; from the generator
  // given, else from default_generator().
  Tensor sample(const Shape& sample_shape = {}, Generator* generator = nullptr) const;
  // The same on the tape: a function of the parameters. NotImplementedError where there is none.
  virtual Tensor rsample(const Shape& sample_shape = {}, Generator* generator = nullptr) const;
  // The logarithm of the density (or the probability) of each value.
  virtual Tensor log_prob(const Tensor& value) const = 0;
  virtual Tensor entropy() const = 0;
  virtual Tensor mean() const = 0;
  virtual Tensor variance() const = 0;
  Tensor stddev() const;

 protected:
  Distribution(Shape batch_shape, Shape event_shape = {})
      : batch_shape_(std::move(batch_shape)), event_shape_(std::move(event_shape)) {}
  virtual Tensor draw(const Shape& sample_shape, Generator* generator) const;
  Shape extended(const Shape& sample_shape) const;

 private:
  Shape batch_shape_, event_shape_;
};

// Of mean loc and deviation scale > 0.
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

// Evenly from [low, high).
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

// What a Bernoulli and a Categorical are made of: one of the two.
struct Odds {
  TensorOrNumber probs = {}, logits = {};
};

// 1 with probability probs (= sigmoid(logits)), else 0.
class Bernoulli : public Distribution {
 public:
  explicit Bernoulli(const TensorOrNumber& p) : Bernoulli(Odds{.probs = p}) {}
  // Bernoulli({.logits = x})
  explicit Bernoulli(const Odds& odds);
  Tensor log_prob(const Tensor& value) const override;
  Tensor entropy() const override;
  Tensor mean() const override { return probs; }
  Tensor variance() const override;

  Tensor probs, logits;

 protected:
  Tensor draw(const Shape& sample_shape, Generator* generator) const override;
};

// One of the numbers (int64) 0 ... k - 1 of the last dimension; probs need no sum of 1, logits are
// any logarithms of them.
class Categorical : public Distribution {
 public:
  explicit Categorical(const Tensor& p) : Categorical(Odds{.probs = p}) {}
  explicit Categorical(const Odds& odds);
  Tensor log_prob(const Tensor& value) const override;
  Tensor entropy() const override;
  Tensor mean() const override;      // nan: the numbers have no order
  Tensor variance() const override;  // nan

  Tensor probs, logits;  // normalized

 protected:
  Tensor draw(const Shape& sample_shape, Generator* generator) const override;
};

// Of shape concentration > 0 and inverse scale rate > 0. Drawn by Marsaglia and Tsang (2000,
// doi:10.1145/358407.358414), which draws again until all are accepted: waits for the GPU.
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

// Positive numbers of sum 1 along the last dimension, which concentration > 0 has.
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

// Between 0 and 1: the first of a Dirichlet's two numbers.
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

// Sum of p (log p - log q), for each of the batch.
Tensor kl_divergence(const Normal& p, const Normal& q);
Tensor kl_divergence(const Uniform& p, const Uniform& q);
Tensor kl_divergence(const Bernoulli& p, const Bernoulli& q);
Tensor kl_divergence(const Categorical& p, const Categorical& q);
Tensor kl_divergence(const Gamma& p, const Gamma& q);
Tensor kl_divergence(const Dirichlet& p, const Dirichlet& q);
Tensor kl_divergence(const Beta& p, const Beta& q);

}  // namespace taper::v0::distributions
