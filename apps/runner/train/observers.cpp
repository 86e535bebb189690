#include "apps/runner/train/observers.h"

namespace taper::inline v0::runner {

Callbacks& callbacks() {
  static Callbacks table("callback", std::initializer_list<std::span<const Callbacks::Entry>>{});
  return table;
}

Observers::Observers(Observer* first, const std::vector<Component>& config,
                     const CallbackSite& site) {
  if (first) all_.push_back(first);
  for (const Component& each : config) {
    callbacks_.push_back(callbacks().make(each, site));
    all_.push_back(callbacks_.back().get());
  }
}

void Observers::on_start(Module& model) {
  for (Observer* each : all_) each->on_start(model);
}

bool Observers::on_step(int64_t step, double loss, double grad_norm) {
  bool goes_on = true;
  for (Observer* each : all_) goes_on = each->on_step(step, loss, grad_norm) && goes_on;
  return goes_on;
}

void Observers::on_eval(int64_t step, const std::string& split, const Metrics& metrics) {
  for (Observer* each : all_) each->on_eval(step, split, metrics);
}

void Observers::on_end(const TrainResult& result) {
  for (Observer* each : all_) each->on_end(result);
}

}  // namespace taper::inline v0::runner
