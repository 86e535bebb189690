#include "autograd/hooks.h"

#include "autograd/node.h"

namespace taper {
namespace {

HookHandle add_hook(std::shared_ptr<Hooks>& hooks, uint32_t output, TensorHook&& hook) {
  if (!hooks) hooks = std::make_shared<Hooks>();
  hooks->entries.push_back({hooks->next_id, output, std::move(hook)});
  return {hooks, hooks->next_id++};
}

HookHandle add_leaf_hook(TensorImpl* leaf, uint32_t output, TensorHook&& hook) {
  const HookHandle handle = add_hook(leaf->hooks, output, std::move(hook));
  if (leaf->accumulator) leaf->accumulator->hooks = leaf->hooks;
  return handle;
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
  if (!requires_grad()) {
    throw Error("cannot register a hook on a tensor that doesn't require gradient");
  }
  Node* node = node_of(*this);
  return node ? add_hook(node->hooks, impl_->output, std::move(hook))
              : add_leaf_hook(impl_.get(), 0, std::move(hook));
}

HookHandle Tensor::register_post_accumulate_grad_hook(TensorHook hook) const {
  if (!requires_grad()) {
    throw Error("cannot register a hook on a tensor that doesn't require gradient");
  }
  if (!is_leaf()) {
    throw Error("post accumulate grad hooks cannot be registered on non-leaf tensors");
  }
  return add_leaf_hook(impl_.get(), Hooks::kAfterAccumulation, std::move(hook));
}

}  // namespace taper
