#include "autograd/tensor_hooks.h"

#include <atomic>
#include <memory>
#include <mutex>
#include <vector>

#include "autograd/node.h"

namespace taper::v0 {
namespace {

struct HookList : Hooks {
  std::mutex mutex;
  struct Entry {
    uint64_t id;
    uint32_t output;
    TensorHook hook;
  };
  std::vector<Entry> entries{};
  uint64_t next_id = 0;
};
HookList& list_of(Hooks& hooks) { return static_cast<HookList&>(hooks); }

HookHandle add_hook(const Tensor& x, uint32_t output, TensorHook&& hook) {
  require(x.requires_grad(), "cannot register a hook on a tensor that doesn't require gradient");
  const Edge place = edge_of(x);
  std::atomic<Hooks*>& known = place.node->hooks;
  if (!known) {
    auto made = std::make_unique<HookList>();
    Hooks* none = nullptr;
    if (known.compare_exchange_strong(none, made.get())) (void)made.release();
  }
  HookList& hooks = list_of(*known);
  const std::lock_guard lock(hooks.mutex);
  hooks.entries.push_back({hooks.next_id, output, std::move(hook)});
  return {IntrusivePtr<Hooks>::share(&hooks), hooks.next_id++};
}

void check_replacement(const Tensor& got, const Tensor& dy, size_t number) {
  require(got.shape() == dy.shape(), "hook '", number, "' has changed the size of value (was ",
          dy.shape(), " got ", got.shape(), ")");
  if (got.dtype() != dy.dtype() || got.device() != dy.device()) {
    throw Error("hook '", number, "' has changed the type of value (was ", dy.type(), " got ",
                got.type(), ")");
  }
}

}  // namespace

void Hooks::let_go(Hooks* hooks) noexcept {
  const auto owned = IntrusivePtr<Hooks>::adopt(hooks);
  HookList& list = list_of(*hooks);
  std::vector<HookList::Entry> gone;
  const std::lock_guard lock(list.mutex);
  gone.swap(list.entries);
}

void HookHandle::remove() {
  if (!hooks_) return;
  {
    HookList& list = list_of(*hooks_);
    const std::lock_guard lock(list.mutex);
    std::erase_if(list.entries, [&](const HookList::Entry& e) { return e.id == id_; });
  }
  hooks_.reset();
}

void run_hooks(Hooks& hooks, uint32_t output, Tensor& dy) {
  HookList& list = list_of(hooks);
  // Copy the list, because a hook may remove itself.
  std::unique_lock lock(list.mutex);
  const std::vector<HookList::Entry> entries = list.entries;
  lock.unlock();
  for (size_t i = 0; i < entries.size(); ++i) {
    if (entries[i].output != output) continue;
    Tensor changed = entries[i].hook(dy);
    if (!changed.defined() || output == Hooks::kAfterAccumulation) continue;
    check_replacement(changed, dy, i);
    dy = std::move(changed);
  }
}

HookHandle Tensor::register_hook(TensorHook hook) const {
  return add_hook(*this, checked().output, std::move(hook));
}

HookHandle Tensor::register_post_accumulate_grad_hook(TensorHook hook) const {
  require(is_leaf(), "post accumulate grad hooks cannot be registered on non-leaf tensors");
  return add_hook(*this, Hooks::kAfterAccumulation, std::move(hook));
}

}  // namespace taper::v0
