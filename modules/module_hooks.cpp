// Hooks of modules on the tensors of a call and on their gradients.
#include <algorithm>
#include <functional>
#include <memory>

#include "autograd/node.h"
#include "modules/module.h"

namespace taper::v0 {
namespace {

using Tensors = std::vector<Tensor>;

// Returns the first tensor, or an undefined one if there is none.
Tensor first(const Tensors& tensors) { return tensors.empty() ? Tensor() : tensors[0]; }
Tensors with_first(Tensors tensors, const Tensor& by) {
  if (!by.defined()) return {};
  if (tensors.empty()) return {by};
  tensors[0] = by;
  return tensors;
}

// Routes the tensors that require grad through a tape node. The node passes their gradients to
// see(), undefined where there is none, and propagates the gradients that see() returns.
bool watch(Tensors& tensors, std::function<Tensors(const Tensors&)> see) {
  std::vector<size_t> places;
  Tensors outputs;
  for (size_t i = 0; i < tensors.size(); ++i) {
    if (!tensors[i].defined() || !tensors[i].requires_grad()) continue;
    places.push_back(i);
    outputs.push_back(tensors[i].detach());
  }
  if (places.empty()) return false;
  std::vector<TensorRef> inputs;
  for (const size_t i : places) inputs.push_back(tensors[i]);
  record_many("BackwardHookFunctionBackward", outputs, inputs,
              [places, count = tensors.size(), see = std::move(see)](Gradients& g) {
                Tensors gradients(count);
                for (size_t k = 0; k < places.size(); ++k) gradients[places[k]] = g.dy(k);
                gradients = see(gradients);
                for (size_t k = 0; k < places.size(); ++k) g.dx(k) = gradients[places[k]];
              });
  for (size_t k = 0; k < places.size(); ++k) tensors[places[k]] = outputs[k];
  return true;
}

}  // namespace

struct ModuleHooks {
  std::vector<std::pair<uint64_t, ForwardPreHook>> before;
  std::vector<std::pair<uint64_t, ForwardHook>> after;
  std::vector<std::pair<uint64_t, BackwardHook>> backward;
  Module* module = nullptr;  // the module that has the hooks; updated when it is moved
  uint64_t next_id = 0;
};

bool Module::has_any_hooks() const {
  return !(hooks_->before.empty() && hooks_->after.empty() && hooks_->backward.empty());
}

void Module::drop_hooks() noexcept {
  if (hooks_) const ModuleHooks gone = std::exchange(*hooks_, {});
}

// A call whose hooks wait for gradients. The module may be destroyed before they run.
struct BackwardCall {
  std::shared_ptr<ModuleHooks> hooks;
  size_t num_inputs;
  bool has_inputs = false;  // whether any input requires grad
  Tensors grad_output = {};

  Tensors run(Tensors grad_input) const {
    const auto functions = hooks->backward;  // a copy, because a hook may remove itself
    for (const auto& [id, hook] : functions) {
      Tensors by = hook(*hooks->module, grad_input, grad_output);
      if (by.empty() || (!has_inputs && std::ranges::none_of(by, &Tensor::defined))) continue;
      require(has_inputs,
              "Backward hook for Modules where no input requires gradient should always return "
              "no tensors, or undefined ones.");
      require(by.size() == grad_input.size(),
              "Backward hook returned an invalid number of grad_input, got ", by.size(),
              ", but expected ", grad_input.size());
      grad_input = std::move(by);
    }
    return grad_input;
  }
};

void Module::Call::before(Tensors& inputs) {
  if (module_.placement_) module_.placement_->move_arguments(inputs);
  if (!module_.has_hooks()) return;
  // A copy, because a hook may remove itself.
  const auto hooks = module_.hooks_->before;
  for (const auto& [id, hook] : hooks) replace(inputs, hook(module_, inputs), "a pre-hook");
  if (module_.hooks_->backward.empty() || !is_grad_enabled()) return;
  backward_ = std::make_shared<BackwardCall>(BackwardCall{module_.hooks_, inputs.size()});
  backward_->has_inputs =
      watch(inputs, [call = backward_](const Tensors& gradients) { return call->run(gradients); });
}

void Module::Call::after(const Tensors& inputs, Tensors& outputs) {
  if (module_.has_hooks()) run_hooks_after(inputs, outputs);
  if (module_.placement_) module_.placement_->move_results(outputs);
}

void Module::Call::run_hooks_after(const Tensors& inputs, Tensors& outputs) {
  const auto hooks = module_.hooks_->after;
  for (const auto& [id, hook] : hooks) replace(outputs, hook(module_, inputs, outputs), "a hook");
  if (!backward_) return;
  (void)watch(outputs, [call = backward_](const Tensors& gradients) {
    call->grad_output = gradients;
    if (!call->has_inputs) (void)call->run(Tensors(call->num_inputs));
    return gradients;
  });
}

void Module::Call::replace(Tensors& tensors, Tensors by, const char* whose) const {
  if (by.empty()) return;
  if (by.size() != tensors.size()) {
    throw Error(whose, " of ", module_.type_name(), " returned ", by.size(), " tensors to replace ",
                tensors.size(), " with");
  }
  tensors = std::move(by);
}

ModuleHooks& Module::hooks() {
  if (!hooks_) hooks_ = std::make_shared<ModuleHooks>();
  hooks_->module = this;
  return *hooks_;
}

ModuleHookHandle Module::register_forward_pre_hook(ForwardPreHook hook) {
  hooks().before.push_back({hooks().next_id, std::move(hook)});
  return {hooks_, hooks_->next_id++};
}

ModuleHookHandle Module::register_forward_hook(ForwardHook hook) {
  hooks().after.push_back({hooks().next_id, std::move(hook)});
  return {hooks_, hooks_->next_id++};
}

ModuleHookHandle Module::register_full_backward_hook(BackwardHook hook) {
  hooks().backward.push_back({hooks().next_id, std::move(hook)});
  return {hooks_, hooks_->next_id++};
}

ModuleHookHandle Module::register_forward_pre_hook(FirstPreHook hook) {
  return register_forward_pre_hook([hook = std::move(hook)](Module& m, const Tensors& inputs) {
    return with_first(inputs, hook(m, first(inputs)));
  });
}

ModuleHookHandle Module::register_forward_hook(FirstHook hook) {
  return register_forward_hook(
      [hook = std::move(hook)](Module& m, const Tensors& inputs, const Tensors& outputs) {
        return with_first(outputs, hook(m, first(inputs), first(outputs)));
      });
}

void ModuleHookHandle::remove() {
  if (!hooks_) return;
  const auto is_this = [&](const auto& entry) { return entry.first == id_; };
  std::erase_if(hooks_->before, is_this);
  std::erase_if(hooks_->after, is_this);
  std::erase_if(hooks_->backward, is_this);
  hooks_ = nullptr;
}

}  // namespace taper::v0
