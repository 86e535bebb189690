// Calls of a module with other tensors in the place of its parameters and buffers
// (https://docs.pytorch.org/docs/stable/generated/torch.func.functional_call.html). Gradients flow
// to the given tensors, which may be results of operations. Used for meta-learning, for adapters,
// and for derivatives with respect to all parameters of a module.
//
//   std::vector<NamedTensor> fast;
//   for (const auto& [name, p] : net.named_parameters()) fast.push_back({name, p - 0.1 *
//   p.grad()}); const Tensor loss = mse_loss(functional_call(net, fast, x), y);
#pragma once

#include <memory>
#include <type_traits>
#include <utility>
#include <vector>

#include "autograd/activation_checkpoint.h"
#include "modules/members.h"

namespace taper::v0 {

// While it exists, the module uses the given tensors instead of its own parameters and buffers of
// these names ("layers.0.weight"). The destructor restores the module's own tensors, also when an
// exception is thrown. Parameters and buffers that are not named stay in place. Weights that are
// tied are replaced under all of their names. Use it where functional_call() does not suffice, for
// example for several calls or for a member function that is not forward().
//
// A given tensor may be on the tape. It has the shape of the tensor that it replaces; its dtype may
// differ. In-place updates of a buffer, such as those of the running statistics of batch norm, are
// written to the given buffer, if there is one. Guards of one module may be nested. Only one thread
// may use the module meanwhile. checkpoint() computes a part of the forward pass again during the
// backward pass, which throws Error unless the guard still exists then.
//
// Throws ValueError, with the names of everything that does not fit, for a name that the module
// does not have, a name that is given twice, another shape, an undefined tensor, and for tied
// weights that are given different tensors. The module is unchanged then.
class FunctionalGuard {
 public:
  FunctionalGuard(Module& module, const std::vector<NamedTensor>& tensors);
  ~FunctionalGuard();
  FunctionalGuard& operator=(FunctionalGuard&&) = delete;  // neither copied nor moved

 private:
  class Matcher;
  struct Replacement {
    std::shared_ptr<ModuleSlot> slot;
    Tensor before, substitute;
  };
  std::vector<Replacement> replacements_;
  SubstitutionGuard substitution_;
};

// Returns net(inputs...), computed with the given tensors in the place of the net's parameters and
// buffers of these names. Everything else holds as for FunctionalGuard. Inputs are passed as to the
// net itself, except that they cannot be in braces.
template <std::derived_from<Module> M, class... Inputs>
decltype(auto) functional_call(M& net, const std::vector<NamedTensor>& tensors,
                               Inputs&&... inputs) {
  constexpr bool is_call = std::is_invocable_v<M&, Inputs...>;
  static_assert(is_call, "no call of this module takes these inputs");
  const FunctionalGuard guard(net, tensors);
  if constexpr (is_call) return net(std::forward<Inputs>(inputs)...);
}
template <class M, class... Inputs>
decltype(auto) functional_call(const Child<M>& child, const std::vector<NamedTensor>& tensors,
                               Inputs&&... inputs) {
  return functional_call(*child, tensors, std::forward<Inputs>(inputs)...);
}

}  // namespace taper::v0
