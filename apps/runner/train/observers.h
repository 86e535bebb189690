// Combines the observers of a run into one.
#pragma once

#include <cstdint>
#include <exception>
#include <memory>
#include <string>
#include <vector>

#include "apps/runner/base/process.h"
#include "apps/runner/components/tables.h"
#include "apps/runner/train/train.h"

namespace taper::v0::runner {

// The observer of train()'s caller, and the callbacks of the config.
class Observers : public Observer {
 public:
  // `first` may be null. Throws the errors of the callbacks' factories.
  Observers(Observer* first, const std::vector<Component>& config, const CallbackSite& site) {
    if (first) all_.push_back({first, nullptr});
    for (const Component& each : config) {
      callbacks_.push_back(callbacks().make(each, site));
      all_.push_back({callbacks_.back().get(), &each});
    }
  }

  // Returns null if there is no observer: the run then does not wait for the device in each step.
  Observer* any() { return all_.empty() ? nullptr : this; }

  void on_start(Module& model) override {
    call_each([&](Observer& each) { each.on_start(model); });
  }
  // Calls all observers, even after one has returned false. Returns true if all of them returned
  // true.
  bool on_step(int64_t step, double loss, double grad_norm) override {
    bool goes_on = true;
    call_each([&](Observer& each) { goes_on = each.on_step(step, loss, grad_norm) && goes_on; });
    return goes_on;
  }
  void on_eval(int64_t step, const std::string& split, const Metrics& metrics) override {
    call_each([&](Observer& each) { each.on_eval(step, split, metrics); });
  }
  void on_end(const TrainResult& result) override {
    call_each([&](Observer& each) { each.on_end(result); });
  }

 private:
  struct Named {
    Observer* observer;
    const Component* callback;  // null: the observer of train()'s caller
  };

  // In the program `taper`, an exception names the callback that threw it. A host program that
  // calls train() gets the exception itself.
  template <class F> void call_each(F f) {
    for (const Named& each : all_) {
      try {
        f(*each.observer);
      } catch (const std::exception& error) {
        if (each.callback && owns_process()) callbacks().refuse_call(*each.callback, error);
        throw;
      }
    }
  }

  std::vector<std::unique_ptr<Observer>> callbacks_;
  std::vector<Named> all_;
};

}  // namespace taper::v0::runner
