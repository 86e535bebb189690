// All that look on at a run, as one: whom its caller names, and the callbacks of its config.
#pragma once

#include <memory>
#include <vector>

#include "apps/runner/train/train.h"

namespace taper::inline v0::runner {

class Observers : public Observer {
 public:
  // `first` may be null. Throws what a callback's making throws.
  Observers(Observer* first, const std::vector<Component>& config, const CallbackSite& site);

  // Null where nobody looks on.
  Observer* any() { return all_.empty() ? nullptr : this; }

  void on_start(Module& model) override;
  // True only where all say so; each is asked.
  bool on_step(int64_t step, double loss, double grad_norm) override;
  void on_eval(int64_t step, const std::string& split, const Metrics& metrics) override;
  void on_end(const TrainResult& result) override;

 private:
  std::vector<std::unique_ptr<Observer>> callbacks_;
  std::vector<Observer*> all_;
};

}  // namespace taper::inline v0::runner
