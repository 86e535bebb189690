#include "autograd/activation_checkpoint.h"

#include <functional>
#include <memory>
#include <mutex>

#include "autograd/autocast.h"
#include "autograd/node.h"
#include "framework/factory/generator.h"

namespace taper::v0 {

struct CheckpointRegion : Region {
  std::function<Tensor(const std::vector<Tensor>&)> fn;
  std::vector<Saved> inputs;
  std::vector<PhiloxKey> draws;  // of the first run
  AutocastState casts = autocast_state();
  bool in_first_run = true;
  uint32_t count = 0;         // of what the first run has saved
  std::vector<Saved> values;  // what the second run saved; empty before
  std::mutex mutex{};         // of the second run, which any thread's pass may ask for

  // Thrown to end a second run that is needed during the first one (fn calls grad()), when it has
  // saved as much as the first run has so far.
  struct CaughtUp {
    const CheckpointRegion* region;
  };

  // The region whose function runs on this thread; where a second run puts what it saves.
  struct Run {
    CheckpointRegion* region = nullptr;
    std::vector<Saved>* again = nullptr;
  };
  static thread_local Run running;

  struct Scope {
    Run outer = running;
    explicit Scope(Run run) { running = run; }
    ~Scope() { running = outer; }
  };

  void note(Saved& saved) {
    if (running.again) {
      running.again->push_back(saved);
      running.again->back().x_ = saved.x_.detach();
      if (in_first_run && running.again->size() == count) throw CaughtUp{this};
      return;
    }
    const uint32_t index = count++;
    // Parameters take no memory of their own.
    if (saved.x_.requires_grad() && saved.x_.is_leaf()) return;
    saved.x_ = alias_of(saved.x_);
    saved.x_.impl()->storage = {};
    saved.version_ = index;
    saved.region_ = IntrusivePtr<Region>::share(this);
  }

  void run_again() {
    const DrawScope again = DrawScope::repeat(draws);
    std::vector<Tensor> given;
    for (const Saved& input : inputs) {
      const Tensor x = input.read("checkpoint");
      given.push_back(x.defined() ? x.detach() : x);
      if (x.defined()) given.back().impl()->requires_grad = x.requires_grad();
    }
    const GradMode recording(true);
    const AutocastScope casting(casts);
    std::vector<Saved> saved;
    const Scope scope({this, &saved});
    try {
      (void)fn(given);
    } catch (const CaughtUp& stop) {
      if (stop.region != this) throw;
    }
    values = std::move(saved);
  }

  // Has the tensor number `index` in `values`; returns whether the runs agree.
  bool recompute(uint32_t index) {
    const bool is_known = in_first_run ? index < values.size() : !values.empty();
    if (!is_known) run_again();
    return in_first_run ? index < values.size() : values.size() == count;
  }
};

thread_local CheckpointRegion::Run CheckpointRegion::running;

void note_saved(Saved& saved) {
  if (CheckpointRegion* region = CheckpointRegion::running.region) region->note(saved);
}

Tensor read_again(Region& base, uint32_t index, const Tensor& like, const char* reader) {
  auto& region = static_cast<CheckpointRegion&>(base);
  const std::lock_guard lock(region.mutex);
  const bool agrees = region.recompute(index);
  require(agrees,
          "torch.utils.checkpoint: A different number of tensors was saved during the original "
          "forward and recomputation.\nNumber of tensors saved during forward: ",
          region.count, "\nNumber of tensors saved during recomputation: ", region.values.size(),
          " (asked for by ", reader, ")");
  Tensor x = region.values[index].read(reader);
  if (x.shape() == like.shape() && x.dtype() == like.dtype()) return x;
  throw Error(
      "torch.utils.checkpoint: Recomputed values for the following tensors have different "
      "metadata than during the forward pass.\ntensor at position ",
      index, ":\nsaved metadata: ", like.shape(), " ", like.dtype(),
      "\nrecomputed metadata: ", x.shape(), " ", x.dtype(), " (asked for by ", reader, ")");
}

Tensor checkpoint(std::function<Tensor(const std::vector<Tensor>&)> fn,
                  const std::vector<Tensor>& inputs) {
  if (!is_grad_enabled()) return fn(inputs);
  auto owned = std::make_unique<CheckpointRegion>();
  owned->fn = std::move(fn);
  for (const Tensor& x : inputs) owned->inputs.push_back(Saved(x));
  const auto region = IntrusivePtr<Region>::adopt(owned.release());
  auto* running = static_cast<CheckpointRegion*>(region.get());
  const CheckpointRegion::Scope scope({running});
  const DrawScope noted = DrawScope::note(running->draws);
  Tensor y = running->fn(inputs);
  running->in_first_run = false;
  running->values.clear();
  return y;
}

}  // namespace taper::v0
