// Exponential moving averages of weights (PyTorch: AveragedModel with get_ema_multi_avg_fn,
// https://pytorch.org/docs/stable/optim.html#weight-averaging-swa-and-ema):
//
//   EMA ema(model.named_parameters(), {.decay = 0.999});
//   for (...) { ...; optimizer.step(); ema.update(); }
//   { const EMA::Scope averaged(ema); evaluate(model); }
#pragma once

#include <string>
#include <vector>

#include "framework/tensor.h"

namespace taper::inline v0::optim {

struct EMAOptions {
  double decay = 0.999;
  bool warm_up = false;  // a decay of at most (1 + n) / (10 + n) after n updates
};

class EMA {
 public:
  // Averages are float32, or float64 for double; they follow their parameters to other devices.
  explicit EMA(const std::vector<NamedTensor>& params, EMAOptions options = {});

  // average += (param - average) * (1 - decay), all in one launch; the first update copies. Throws
  // Error while swapped.
  void update();
  const std::vector<Tensor>& averages() const { return averages_; }

  // Puts the averages into the parameters or, called again, back what was there, bit by bit.
  void swap();
  bool is_swapped() const { return !originals_.empty(); }
  // Swapped for a scope, however that is left.
  class Scope {
   public:
    explicit Scope(EMA& ema) : ema_(ema) { ema.swap(); }
    ~Scope() { ema_.swap(); }
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    EMA& ema_;
  };

  // "n_averaged" (int64), and the averages as "module.NAME"; they share memory.
  std::vector<NamedTensor> state_dict() const;
  void load_state_dict(const std::vector<NamedTensor>& state);

 private:
  void follow();

  std::vector<std::string> names_;
  std::vector<Tensor> params_, averages_;
  std::vector<Tensor> originals_;  // while swapped
  Tensor n_averaged_;              // 0-dim, where the first parameter is
  EMAOptions options_;
};

}  // namespace taper::inline v0::optim
