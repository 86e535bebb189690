#include "autograd/hooks.h"

#include "autograd/node.h"

namespace taper {
namespace {

HookHandle add_hook(const Tensor& x, uint32_t output, TensorHook&& hook) {
  if (!x.requires_grad()) {
    throw Error("cannot register a hook on a tensor that doesn't require gradient");
  }
  Node *node = node_of(x), *accumulator = x.impl()->accumulator;
  std::shared_ptr<Hooks>& hooks = node ? node->hooks : x.impl()->hooks;
  if (!hooks) hooks = std::make_shared<Hooks>();
  if (!node && accumulator) accumulator->hooks = hooks;
  hooks->entries.push_back({hooks->next_id, output, std::move(hook)});
  return {hooks, hooks->next_id++};
}

void check_replacement(const Tensor& got, const Tensor& dy, size_t number) {
  if (got.shape() != dy.shape()) {
    throw Error(cat("hook '", number, "' has changed the size of value (was ", dy.shape(), " got ",
                    got.shape(), ")"));
  }
  if (got.dtype() != dy.dtype() || got.device() != dy.device()) {
    throw Error(cat("hook '", number, "' has changed the type of value (was ", dy.type(), " got ",
                    got.type(), ")"));
  }
}

}  // namespace

void HookHandle::remove() {
  if (const std::shared_ptr<Hooks> hooks = hooks_.lock()) {
    std::erase_if(hooks->entries, [&](const Hooks::Entry& e) { return e.id == id_; });
  }
  hooks_.reset();
}

void run_hooks(const Hooks& hooks, uint32_t output, Tensor& dy) {
  // A copy, for a hook may remove itself.
  const std::vector<Hooks::Entry> entries = hooks.entries;
  for (size_t i = 0; i < entries.size(); ++i) {
    if (entries[i].output != output) continue;
    Tensor changed = entries[i].hook(dy);
    if (!changed.defined() || output == Hooks::kAfterAccumulation) continue;
    check_replacement(changed, dy, i);
    dy = std::move(changed);
  }
}

HookHandle Tensor::register_hook(TensorHook hook) const {
  return add_hook(*this, impl_->output, std::move(hook));
}

HookHandle Tensor::register_post_accumulate_grad_hook(TensorHook hook) const {
  if (!is_leaf()) {
    throw Error("post accumulate grad hooks cannot be registered on non-leaf tensors");
  }
  return add_hook(*this, Hooks::kAfterAccumulation, std::move(hook));
}

}  // namespace taper
