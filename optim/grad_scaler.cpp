#include "optim/grad_scaler.h"

#include "framework/factory/factories.h"
#include "framework/kernels/common/dispatch.h"
#include "framework/kernels/elementwise/binary.h"
#include "framework/kernels/elementwise/copy.h"
#include "framework/kernels/optim/foreach.h"
#include "optim/shared.h"

namespace taper::v0::optim {

using kernels::pointer;

GradScaler::GradScaler(GradScalerOptions options) : options_(options) {
  if (!options.enabled) return;
  require<ValueError>(options.growth_factor > 1, "The growth factor must be > 1.0.");
  require<ValueError>(options.backoff_factor < 1, "The backoff factor must be < 1.0.");
  scale_ = full({}, options.init_scale, {.dtype = kFloat32});
  growth_tracker_ = zeros({}, {.dtype = kInt32});
}

Tensor GradScaler::scale(const Tensor& outputs) {
  if (!options_.enabled) return outputs;
  scale_ = scale_.to(outputs.device());
  growth_tracker_ = growth_tracker_.to(outputs.device());
  // Computes outputs * scale_. The operator * belongs to autograd, which this folder may not
  // include.
  const DType dtype = kernels::result_type({&outputs, &scale_});
  return outputs.to(dtype, {.copy = true}).mul_(scale_);
}

void GradScaler::unscale_(Optimizer& optimizer) {
  if (!options_.enabled) return;
  if (const auto job = jobs_.find(&optimizer); job != jobs_.end()) {
    throw Error(job->second.stepped ? "unscale_() is being called after step()."
                                    : "unscale_() has already been called on this optimizer since "
                                      "the last update().");
  }
  const std::vector<Tensor> grads = grads_of(optimizer.parameters());
  if (grads.empty()) throw Error("No inf checks were recorded for this optimizer.");
  for (const Tensor& grad : grads) {
    require<ValueError>(grad.dtype() != kFloat16, "Attempting to unscale FP16 gradients.");
  }
  Tensor found;
  for (const auto& list : by_device(grads)) {
    const Tensor scale = scale_.to(list[0].device());
    const kernels::Unscale rule{{}, pointer<float>(scale)};
    const Tensor here = kernels::join_list("unscale_", rule, list).to(scale_.device());
    if (found.defined()) kernels::binary_into(kernels::BinaryOp::kMaximum, found, found, here);
    if (!found.defined()) found = here;
  }
  jobs_[&optimizer] = {found};
}

void GradScaler::step(Optimizer& optimizer) {
  if (!options_.enabled) return optimizer.step();
  if (!jobs_.contains(&optimizer)) unscale_(optimizer);
  Job& job = jobs_[&optimizer];
  if (job.stepped) throw Error("step() has already been called since the last update().");
  optimizer.step_unless(job.found_inf);
  job.stepped = true;
}

void GradScaler::update() {
  if (!options_.enabled) return;
  if (jobs_.empty()) throw Error("No inf checks were recorded prior to update.");
  const Tensor found = jobs_.begin()->second.found_inf;
  for (const auto& [optimizer, job] : jobs_) {
    if (job.found_inf.is_same(found)) continue;
    kernels::binary_into(kernels::BinaryOp::kMaximum, found, found, job.found_inf);
  }
  const kernels::GrowScale rule{{},
                                pointer<int32_t>(growth_tracker_),
                                pointer<float>(found),
                                options_.growth_factor,
                                options_.backoff_factor,
                                options_.growth_interval};
  kernels::run_list("update", rule, {scale_});
  jobs_.clear();
}

double GradScaler::get_scale() const { return options_.enabled ? scale_.item<double>() : 1; }

std::vector<NamedTensor> GradScaler::state_dict() const {
  if (!options_.enabled) return {};
  const auto number = [](double x) { return tensor(x, {.dtype = kFloat64}); };
  return {{"scale", number(get_scale())},
          {"growth_factor", number(options_.growth_factor)},
          {"backoff_factor", number(options_.backoff_factor)},
          {"growth_interval", tensor(options_.growth_interval)},
          {"_growth_tracker", tensor(growth_tracker_.item<int64_t>())}};
}

void GradScaler::load_state_dict(const std::vector<NamedTensor>& state) {
  if (!options_.enabled) return;
  require(!state.empty(),
          "The source state dict is empty, possibly because it was saved from a disabled instance "
          "of GradScaler.");
  const StateReader saved{state, "GradScaler"};
  const double scale = saved.number<double>("scale");
  const int64_t tracker = saved.number<int64_t>("_growth_tracker");
  options_ = {scale, saved.number<double>("growth_factor"), saved.number<double>("backoff_factor"),
              saved.number<int64_t>("growth_interval"), true};
  kernels::fill(scale_, scale);
  kernels::fill(growth_tracker_, tracker);
}

}  // namespace taper::v0::optim
