// A network that predicts the next values of a series.
#pragma once

#include <vector>

#include "modules/layers/containers.h"
#include "modules/layers/linear.h"

namespace taper::v0 {

struct ForecasterOptions {
  int64_t past;         // values that come first in a sample
  int64_t others = 0;   // further features of a sample
  int64_t horizon = 1;  // values to predict
  std::vector<int64_t> hidden = {128, 128};
  double dropout = 0.1;  // after each hidden layer
  Device device = DeviceType::kCpu;
};

// Maps samples [B, past + others] to the next values [B, horizon]: the last value, plus a linear
// function of the differences of the past values from it (NLinear,
// https://arxiv.org/abs/2205.13504, which outperforms larger models on many series), plus a
// multilayer perceptron over these differences and the other features. At first both additions are
// 0, so that the training starts from the forecast "the last value". Throws ValueError for samples
// of another shape.
class Forecaster : public Cloneable<Forecaster> {
 public:
  explicit Forecaster(const ForecasterOptions& options);

  Tensor forward(const Tensor& samples) override;

  Child<Linear> linear;
  Child<Sequential> layers;

 private:
  int64_t past_, width_;
};

}  // namespace taper::v0
