#include "optim/clip.h"

#include <algorithm>
#include <cmath>

#include "framework/factory/factories.h"
#include "framework/kernels/common/dispatch.h"
#include "framework/kernels/optim/foreach.h"
#include "optim/shared.h"

namespace taper::v0::optim {
namespace {

using namespace kernels;

Tensor norm_of(const std::vector<Tensor>& xs, double p) {
  ListRule rule = Magnitude<0, Join::kSum>{{}, p};
  if (p == 1) rule = Magnitude<1, Join::kSum>{{}, p};
  if (p == 2) rule = Magnitude<2, Join::kSum>{{}, p};
  if (std::isinf(p)) rule = Magnitude<1, Join::kMax>{{}, p};
  const auto is_wide = [](const Tensor& x) { return x.dtype() == kFloat64; };
  const bool wide = std::any_of(xs.begin(), xs.end(), is_wide);
  return join_list("norm", rule, xs, wide ? kFloat64 : kFloat32, std::isinf(p) ? 1 : p);
}

}  // namespace

Tensor get_total_norm(const std::vector<Tensor>& tensors, RealArg norm_type,
                      BoolArg error_if_nonfinite) {
  require<ValueError>(norm_type > 0, "norm_type must be above 0, but got ", norm_type);
  if (tensors.empty()) return zeros({});
  const Tensor norm = norm_of(tensors, norm_type);
  require(!error_if_nonfinite || std::isfinite(norm.item<double>()), "The total norm of order ",
          norm_type,
          " for gradients from `parameters` is non-finite, so it cannot be clipped. To "
          "disable this error and scale the gradients by the non-finite norm anyway, pass "
          "false for `error_if_nonfinite`");
  return norm;
}

Tensor clip_grad_norm_(const std::vector<Tensor>& params, RealArg max_norm, RealArg norm_type,
                       BoolArg error_if_nonfinite) {
  const std::vector<Tensor> grads = grads_of(params);
  Tensor total = get_total_norm(grads, norm_type, error_if_nonfinite);
  for (const auto& list : by_device(grads)) {
    const Tensor here = total.to(list[0].device());
    ListRule rule = Clip<float>{{}, pointer<float>(here), max_norm};
    if (here.dtype() == kFloat64) rule = Clip<double>{{}, pointer<double>(here), max_norm};
    run_list("clip_grad_norm_", rule, list);
  }
  return total;
}

void clip_grad_value_(const std::vector<Tensor>& params, RealArg clip_value) {
  for (const auto& list : by_device(grads_of(params))) {
    run_list("clip_grad_value_", ClipValue{{}, clip_value}, list);
  }
}

}  // namespace taper::v0::optim
