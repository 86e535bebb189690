#include "autograd/checkpoint.h"

#include <memory>

#include "autograd/node.h"
#include "framework/random.h"

namespace taper {

struct CheckpointRegion : Region {
  std::function<Tensor(const std::vector<Tensor>&)> fn;
  std::vector<Saved> inputs;
  std::vector<bool> input_needs_grad;
  PhiloxKey random_state;
  uint32_t count = 0;         // of what the first run saved
  std::vector<Saved> values;  // what the second run saved; empty before

  // The region whose function runs on this thread, and whether for the second time.
  static thread_local CheckpointRegion* running;
  static thread_local bool again;

  class Scope {
   public:
    Scope(CheckpointRegion* region, bool second) : region_(running), again_(again) {
      running = region;
      again = second;
    }
    ~Scope() {
      running = region_;
      again = again_;
    }

   private:
    CheckpointRegion* region_;
    bool again_;
  };

  void note(Saved& saved) {
    if (again) {
      values.push_back(saved);
      values.back().x_ = saved.x_.detach();
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
    struct Restore {
      PhiloxKey state = default_generator().state();
      ~Restore() { default_generator().set_state(state); }
    } const restore;
    default_generator().set_state(random_state);
    std::vector<Tensor> given;
    for (size_t i = 0; i < inputs.size(); ++i) {
      Tensor x = inputs[i].read("checkpoint");
      if (x.defined()) {
        x = x.detach();
        x.impl()->requires_grad = input_needs_grad[i];
      }
      given.push_back(std::move(x));
    }
    const GradMode recording(true);
    const Scope scope(this, true);
    try {
      (void)fn(given);
    } catch (...) {
      values.clear();
      throw;
    }
  }
};

thread_local CheckpointRegion* CheckpointRegion::running = nullptr;
thread_local bool CheckpointRegion::again = false;

void Region::destroy(Region* region) noexcept {
  const std::unique_ptr<CheckpointRegion> owned(static_cast<CheckpointRegion*>(region));
}

void note_saved(Saved& saved) {
  if (CheckpointRegion::running) CheckpointRegion::running->note(saved);
}

Tensor read_again(Region& base, uint32_t index, const Tensor& like, const char* reader) {
  auto& region = static_cast<CheckpointRegion&>(base);
  if (region.values.empty()) region.run_again();
  if (region.values.size() != region.count) {
    throw Error(
        cat("torch.utils.checkpoint: A different number of tensors was saved during the "
            "original forward and recomputation.\nNumber of tensors saved during forward: ",
            region.count, "\nNumber of tensors saved during recomputation: ", region.values.size(),
            " (asked for by ", reader, ")"));
  }
  Tensor x = region.values[index].read(reader);
  if (x.shape() == like.shape() && x.dtype() == like.dtype()) return x;
  throw Error(
      cat("torch.utils.checkpoint: Recomputed values for the following tensors have "
          "different metadata than during the forward pass.\ntensor at position ",
          index, ":\nsaved metadata: ", like.shape(), " ", like.dtype(),
          "\nrecomputed metadata: ", x.shape(), " ", x.dtype(), " (asked for by ", reader, ")"));
}

Tensor checkpoint(std::function<Tensor(const std::vector<Tensor>&)> fn,
                  const std::vector<Tensor>& inputs) {
  if (!is_grad_enabled()) return fn(inputs);
  auto owned = std::make_unique<CheckpointRegion>();
  owned->fn = std::move(fn);
  owned->random_state = default_generator().state();
  for (const Tensor& x : inputs) {
    owned->inputs.push_back(Saved(x));
    owned->input_needs_grad.push_back(x.defined() && x.requires_grad());
  }
  const auto region = IntrusivePtr<Region>::adopt(owned.release());
  auto* running = static_cast<CheckpointRegion*>(region.get());
  const CheckpointRegion::Scope scope(running, false);
  return running->fn(inputs);
}

}  // namespace taper
