#include "apps/runner/passes/bad_tensor.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include "autograd/node.h"
#include "autograd/ops/reduce_ops.h"
#include "autograd/ops/unary_ops.h"
#include "optim/clip.h"

namespace taper::v0::runner {
namespace {

bool is_bad(const Tensor& x) {
  if (!x.defined() || !x.is_floating_point()) return false;
  const NoGradGuard no_grad;
  return sum(isfinite(x)).item<int64_t>() < x.numel();
}

using Tensors = std::vector<Tensor>;

// While it exists, records the first bad tensor among the inputs and outputs of all modules.
class Watch {
 public:
  explicit Watch(Module& model) {
    for (const auto& [path, module] : model.named_modules()) {
      const std::string name = path.empty() ? "the model" : concat_to_string("'", path, "'");
      const std::string input = path.empty() ? "the inputs of the batch" : "the input of " + name;
      handles_.push_back(module->register_forward_pre_hook(
          [this, input](Module&, const Tensors& inputs) { return note(inputs, input); }));
      handles_.push_back(module->register_forward_hook([this, name](Module& m, const Tensors&,
                                                                    const Tensors& outputs) {
        return note(outputs, concat_to_string("the output of ", name, " (", m.type_name(), ")"));
      }));
    }
  }
  ~Watch() {
    for (ModuleHookHandle& handle : handles_) handle.remove();
  }
  Watch& operator=(Watch&&) = delete;  // neither copied nor moved

  std::string found;

 private:
  Tensors note(const Tensors& tensors, const std::string& what) {
    if (found.empty() && std::ranges::any_of(tensors, is_bad)) found = what;
    return {};
  }
  std::vector<ModuleHookHandle> handles_;
};

std::string search(Module& model, const std::function<Tensor()>& step) {
  const std::vector<NamedTensor> params = model.named_parameters();
  for (const auto& [name, p] : params) {
    if (is_bad(p)) return concat_to_string("the weight '", name, "'");
  }
  Watch watch(model);
  const Tensor loss = step();
  if (!watch.found.empty()) return watch.found;
  if (is_bad(loss)) return "the loss";
  // Checks the last parameters first, because the backward pass computes their gradients first. The
  // norm may overflow although all gradients are finite.
  for (auto at = params.rbegin(); at != params.rend(); ++at) {
    const auto& [name, p] = *at;
    const double norm = p.grad().defined() ? optim::get_total_norm({p.grad()}).item<double>() : 0;
    if (!std::isfinite(norm)) return concat_to_string("the gradient of '", name, "'");
  }
  return "";
}

}  // namespace

std::string first_bad_tensor(Module& model, const std::function<Tensor()>& step) {
  std::vector<NamedTensor> buffers = model.named_buffers(), saved;
  for (const auto& [name, b] : buffers) saved.push_back({name, b.clone()});
  model.zero_grad();  // later steps have left gradients
  std::string found = search(model, step);
  const NoGradGuard no_grad;
  for (size_t i = 0; i < buffers.size(); ++i) buffers[i].tensor.copy_(saved[i].tensor);
  model.zero_grad();
  return found;
}

}  // namespace taper::v0::runner
