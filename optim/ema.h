// Averages of weights: equal ones (stochastic weight averaging, https://arxiv.org/abs/1803.05407)
// and exponential moving ones (PyTorch: AveragedModel, and that with get_ema_multi_avg_fn,
// https://pytorch.org/docs/stable/optim.html#weight-averaging-swa-and-ema):
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
  bool warm_up = false;  // a decay of at most (1 + n) / (10 + n) after n updates
};

class SwappedParameters;  // ema.cpp

class AveragedModel {
 public:
  // Averages are float32, or float64 for double; they follow their parameters to other devices.
  explicit AveragedModel(const std::vector<NamedTensor>& params);

  // average += (param - average) * share, all in one launch; the first update copies. The share is
  // 1 / (number of updates), or EMA's 1 - decay. Throws Error while swapped.
  void update();
  const std::vector<Tensor>& averages() const { return averages_; }

  // Puts the averages into the parameters or, called again, restores what was there, bit by bit.
  // In between, optimizers refuse to step these parameters.
  void swap();
  bool is_swapped() const { return !originals_.empty(); }
  // Swaps the averages in until the end of the scope. The AveragedModel must not be moved
  // meanwhile.
  class Guard {
   public:
    explicit Guard(AveragedModel& model) : model_(model) { model.swap(); }
    ~Guard() { model_.swap(); }
    Guard& operator=(Guard&&) = delete;  // neither copied nor moved

   private:
    AveragedModel& model_;
  };

  // "n_averaged" (int64), and the averages as "module.NAME"; they share memory.
  std::vector<NamedTensor> state_dict() const;
  void load_state_dict(const std::vector<NamedTensor>& state);

 protected:
  // Without options: equal averages.
  AveragedModel(const std::vector<NamedTensor>& params, const EMAOptions* options);

 private:
  const char* name() const;
  void follow();

  std::vector<std::string> names_;
  std::vector<Tensor> params_, averages_;
  std::vector<Tensor> originals_;  // while swapped
  std::shared_ptr<SwappedParameters> swapped_;
  Tensor n_averaged_;  // 0-dim, where the first parameter is
  EMAOptions options_;
  bool is_ema_;
};

class EMA : public AveragedModel {
 public:
  explicit EMA(const std::vector<NamedTensor>& params, EMAOptions options = {});
};

}  // namespace taper::v0::optim
