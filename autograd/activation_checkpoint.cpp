#include "autograd/activation_checkpoint.h"

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>

#include "autograd/autocast.h"
#include "autograd/node.h"
#include "framework/factory/generator.h"

namespace taper::v0 {

static thread_local const SubstitutionGuard* innermost_substitution = nullptr;

SubstitutionGuard::SubstitutionGuard() : outer_(innermost_substitution) {
  static std::atomic<uint64_t> count = 0;
  number_ = ++count;
  innermost_substitution = this;
}
SubstitutionGuard::~SubstitutionGuard() { innermost_substitution = outer_; }

uint64_t SubstitutionGuard::innermost() {
  return innermost_substitution ? innermost_substitution->number_ : 0;
}

bool SubstitutionGuard::is_active(uint64_t number) {
  const SubstitutionGuard* guard = innermost_substitution;
  while (guard && guard->number_ != number) guard = guard->outer_;
  return guard || number == 0;
}

struct CheckpointRegion : CheckpointRegionBase {
  std::function<Tensor(const std::vector<Tensor>&)> fn;
  std::vector<SavedTensor> inputs;
  std::vector<PhiloxKey> draws;  // the first run's keys of default_generator()
  AutocastState casts = autocast_state();
  uint64_t substitution = SubstitutionGuard::innermost();  // in the first run
  bool in_first_run = true;
  uint32_t count = 0;               // number of tensors saved by the first run
  std::vector<SavedTensor> values;  // saved by the second run; empty before
  std::mutex mutex{};               // guards the second run, which a pass on any thread may start

  // Thrown to stop a second run that was started during the first one because fn calls grad(). It
  // is thrown when the second run has saved as many tensors as the first one has so far.
  struct CaughtUp {
    const CheckpointRegion* region;
  };

  // The region whose function is running on this thread, and where a second run stores the tensors
  // that it saves.
  struct Run {
    CheckpointRegion* region = nullptr;
    std::vector<SavedTensor>* again = nullptr;
  };
  static thread_local Run running;

  struct Guard {
    Run outer = running;
    explicit Guard(Run run) { running = run; }
    ~Guard() { running = outer; }
  };

  void note(SavedTensor& saved) {
    if (running.again) {
      running.again->push_back(saved);
      running.again->back().x_ = saved.x_.detach();
      if (in_first_run && running.again->size() == count) throw CaughtUp{this};
      return;
    }
    const uint32_t index = count++;
    // Parameters stay in memory in any case, so nothing is gained by dropping them.
    if (saved.x_.requires_grad() && saved.x_.is_leaf()) return;
    saved.x_ = alias_of(saved.x_);
    saved.x_.impl()->storage = {};
    saved.version_ = index;
    saved.region_ = IntrusivePtr<CheckpointRegionBase>::share(this);
  }

  void run_again() {
    require(SubstitutionGuard::is_active(substitution),
            "taper::checkpoint: the function ran within functional_call() or a FunctionalGuard "
            "that has ended, so that it would be computed again with the module's own tensors. "
            "Keep a FunctionalGuard until the end of the backward pass");
    const DrawGuard again = DrawGuard::replay(draws);
    std::vector<Tensor> given;
    for (const SavedTensor& input : inputs) {
      const Tensor x = input.read("checkpoint");
      given.push_back(x.defined() ? x.detach() : x);
      if (x.defined()) given.back().impl()->requires_grad = x.requires_grad();
    }
    const AutoGradMode recording(true);
    const AutocastGuard casting(casts);
    std::vector<SavedTensor> saved;
    const Guard guard({this, &saved});
    try {
      (void)fn(given);
    } catch (const CaughtUp& stop) {
      if (stop.region != this) throw;
    }
    values = std::move(saved);
  }

  // Ensures that `values` contains tensor number `index`. Returns false if the second run saved
  // another number of tensors than the first.
  bool recompute(uint32_t index) {
    const bool is_known = in_first_run ? index < values.size() : !values.empty();
    if (!is_known) run_again();
    return in_first_run ? index < values.size() : values.size() == count;
  }
};

thread_local CheckpointRegion::Run CheckpointRegion::running;

void note_saved(SavedTensor& saved) {
  if (CheckpointRegion* region = CheckpointRegion::running.region) region->note(saved);
}

Tensor read_again(CheckpointRegionBase& base, uint32_t index, const Tensor& like,
                  const char* reader) {
  auto& region = static_cast<CheckpointRegion&>(base);
  const std::lock_guard lock(region.mutex);
  const bool agrees = region.recompute(index);
  require(agrees,
          "taper::checkpoint: A different number of tensors was saved during the original "
          "forward and recomputation.\nNumber of tensors saved during forward: ",
          region.count, "\nNumber of tensors saved during recomputation: ", region.values.size(),
          " (requested by ", reader, ")");
  Tensor x = region.values[index].read(reader);
  if (x.shape() == like.shape() && x.dtype() == like.dtype()) return x;
  throw Error(
      "taper::checkpoint: Recomputed values for the following tensors have different "
      "metadata than during the forward pass.\ntensor at position ",
      index, ":\nsaved metadata: ", like.shape(), " ", like.dtype(),
      "\nrecomputed metadata: ", x.shape(), " ", x.dtype(), " (requested by ", reader, ")");
}

Tensor checkpoint(std::function<Tensor(const std::vector<Tensor>&)> fn,
                  const std::vector<Tensor>& inputs) {
  if (!is_grad_enabled()) return fn(inputs);
  auto owned = std::make_unique<CheckpointRegion>();
  owned->fn = std::move(fn);
  for (const Tensor& x : inputs) owned->inputs.push_back(SavedTensor(x));
  const auto region = IntrusivePtr<CheckpointRegionBase>::adopt(owned.release());
  auto* running = static_cast<CheckpointRegion*>(region.get());
  const CheckpointRegion::Guard guard({running});
  const DrawGuard noted = DrawGuard::record(running->draws);
  Tensor y = running->fn(inputs);
  running->in_first_run = false;
  running->values.clear();
  return y;
}

}  // namespace taper::v0
