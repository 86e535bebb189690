// Averages of weights: equally weighted averages (stochastic weight averaging,
// https://arxiv.org/abs/1803.05407) and exponential moving averages. In PyTorch both are an
// AveragedModel, the latter with get_ema_multi_avg_fn
// (https://pytorch.org/docs/stable/optim.html#weight-averaging-swa-and-ema).
//
//   EMA ema(model.named_parameters(), {.decay = 0.999});  // or AveragedModel average(...)
//   for (...) { ...; optimizer.step(); ema.update(); }
//   { const EMA::Guard averaged(ema); update_bn(batches, model); evaluate(model); }
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "framework/tensor/tensor.h"

namespace taper::v0::optim {

struct EMAOptions {
  double decay = 0.999;
  bool warm_up = false;  // after n updates the decay is at most (1 + n) / (10 + n)
};

class SwappedParameters;  // ema.cpp

class AveragedModel {
 public:
  // Creates the averages: float32, or float64 for double parameters. At each update they are moved
  // to the device of their parameters if these were moved. Throws ValueError for an empty list and
  // for parameters that are not floating point.
  explicit AveragedModel(const std::vector<NamedTensor>& params);

  // Sets average += (param - average) * share, in one launch per device. The first update copies
  // the parameters. The share is 1 / (number of updates), or 1 - decay for EMA. Does not
  // synchronize. Throws Error while the averages are swapped in.
  void update();
  const std::vector<Tensor>& averages() const { return averages_; }

  // Writes the averages into the parameters. The next call restores the original values bit by bit.
  // In between, optimizers refuse to step these parameters.
  void swap();
  bool is_swapped() const { return !originals_.empty(); }
  // Swaps the averages in until the end of the scope. The AveragedModel must not be moved or
  // destroyed in between.
  class Guard {
   public:
    explicit Guard(AveragedModel& model) : model_(model) { model.swap(); }
    ~Guard() { model_.swap(); }
    Guard& operator=(Guard&&) = delete;  // neither copied nor moved

   private:
    AveragedModel& model_;
  };

  // Returns "n_averaged" (int64), and the averages as "module.NAME". The tensors share memory with
  // this object.
  std::vector<NamedTensor> state_dict() const;
  void load_state_dict(const std::vector<NamedTensor>& state);

 protected:
  // `options` is null for equally weighted averages.
  AveragedModel(const std::vector<NamedTensor>& params, const EMAOptions* options);

 private:
  const char* name() const;
  void follow();

  std::vector<std::string> names_;
  std::vector<Tensor> params_, averages_;
  std::vector<Tensor> originals_;  // the values of params_ while the averages are swapped in
  std::shared_ptr<SwappedParameters> swapped_;
  Tensor n_averaged_;  // 0-dim, on the device of the first parameter
  EMAOptions options_;
  bool is_ema_;
};

class EMA : public AveragedModel {
 public:
  explicit EMA(const std::vector<NamedTensor>& params, EMAOptions options = {});
};

}  // namespace taper::v0::optim
