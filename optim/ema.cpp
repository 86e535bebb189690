#include "optim/ema.h"

#include <atomic>
#include <map>
#include <memory>
#include <mutex>

#include "framework/factory/factories.h"
#include "framework/kernels/common/dispatch.h"
#include "framework/kernels/elementwise/binary.h"
#include "framework/kernels/elementwise/copy.h"
#include "framework/kernels/optim/foreach.h"
#include "optim/group_options.h"
#include "optim/optimizer.h"
#include "optim/shared.h"

namespace taper::v0::optim {
namespace {

// Returns a copy of x that is not on the tape.
Tensor copy_of(const Tensor& x, DType dtype) { return x.detach().to(dtype, {.copy = true}); }

void write(const std::vector<Tensor>& to, const std::vector<Tensor>& from) {
  for (size_t i = 0; i < to.size(); ++i) {
    kernels::copy_into(to[i], from[i]);
    to[i].storage()->version.fetch_add(1);
  }
}

// The parameters of all models whose weights are currently replaced by averages. The value is the
// name of the class that swapped the averages in.
struct Registry {
  std::mutex mutex;
  std::multimap<const TensorImpl*, const char*> names;
};
Registry& registry() {
  // Never destroyed, because models may be destroyed later.
  static Registry* const kAll = new Registry;
  return *kAll;
}
std::atomic<size_t> num_swapped = 0;  // number of elements of the registry, read without the mutex

}  // namespace

// Registers parameters as holding averages until it is destroyed. It keeps them alive, so that no
// other tensor can get their address.
class SwappedParameters {
 public:
  SwappedParameters(const std::vector<Tensor>& params, const char* name) : params_(params) {
    Registry& all = registry();
    const std::lock_guard lock(all.mutex);
    for (const Tensor& p : params_) all.names.emplace(p.impl(), name);
    num_swapped = all.names.size();
  }
  ~SwappedParameters() {
    Registry& all = registry();
    const std::lock_guard lock(all.mutex);
    for (const Tensor& p : params_) all.names.erase(all.names.find(p.impl()));
    num_swapped = all.names.size();
  }
  SwappedParameters& operator=(SwappedParameters&&) = delete;  // neither copied nor moved

 private:
  std::vector<Tensor> params_;
};

const char* swapped_by(const Optimizer& optimizer) {
  if (num_swapped == 0) return nullptr;
  Registry& all = registry();
  const std::lock_guard lock(all.mutex);
  for (const Tensor& p : optimizer.parameters()) {
    if (const auto found = all.names.find(p.impl()); found != all.names.end()) return found->second;
  }
  return nullptr;
}

AveragedModel::AveragedModel(const std::vector<NamedTensor>& params)
    : AveragedModel(params, nullptr) {}
EMA::EMA(const std::vector<NamedTensor>& params, EMAOptions options)
    : AveragedModel(params, &options) {}
AveragedModel::AveragedModel(const std::vector<NamedTensor>& params, const EMAOptions* options)
    : n_averaged_(zeros({}, {.dtype = kInt64})),
      options_(options ? *options : EMAOptions()),
      is_ema_(options != nullptr) {
  require<ValueError>(!params.empty(), name(), " got an empty parameter list");
  const double decay = options ? options->decay : 0;
  require<ValueError>(decay >= 0 && decay <= 1, "Invalid decay value ", decay,
                      " provided. Please provide a value in [0,1] range.");
  for (const auto& [name, p] : params) {
    require<ValueError>(p.is_floating_point(), name, " has dtype ", p.dtype(),
                        "; only floating tensors are averaged");
    names_.push_back("module." + name);
    params_.push_back(p);
    averages_.push_back(copy_of(p, state_dtype(p)));
  }
}

void AveragedModel::follow() {
  n_averaged_ = n_averaged_.to(params_[0].device());
  for (size_t i = 0; i < params_.size(); ++i) {
    averages_[i] = averages_[i].to(params_[i].device(), state_dtype(params_[i]));
  }
}

const char* AveragedModel::name() const { return is_ema_ ? "EMA" : "AveragedModel"; }

void AveragedModel::update() {
  if (is_swapped()) throw Error(name(), ": update() while the averages are in the model");
  follow();
  const EMAOptions o = options_;
  const auto averages = by_device(averages_), params = by_device(params_);
  // The count is on the device of the first list and is incremented when that list is updated. That
  // list is therefore updated last, after the other lists have read the count.
  for (size_t i = params.size(); i-- > 0;) {
    const Tensor n = n_averaged_.to(params[i][0].device());
    const kernels::Average rule{{}, kernels::pointer<int64_t>(n), o.decay, o.warm_up, !is_ema_};
    kernels::run_list("ema", rule, averages[i], params[i]);
    kernels::binary_into(kernels::BinaryOp::kAdd, n, n, wrap_scalar(1));
  }
}

void AveragedModel::swap() {
  if (is_swapped()) {
    write(params_, originals_);
    originals_.clear();
    swapped_ = nullptr;
    return;
  }
  std::vector<Tensor> originals;
  for (const Tensor& p : params_) originals.push_back(copy_of(p, p.dtype()));
  swapped_ = std::make_shared<SwappedParameters>(params_, name());
  originals_ = std::move(originals);
  write(params_, averages_);
}

std::vector<NamedTensor> AveragedModel::state_dict() const {
  std::vector<NamedTensor> state{{"n_averaged", n_averaged_}};
  for (size_t i = 0; i < names_.size(); ++i) state.push_back({names_[i], averages_[i]});
  return state;
}

void AveragedModel::load_state_dict(const std::vector<NamedTensor>& state) {
  const StateReader saved{state, name()};
  std::vector<Tensor> targets{n_averaged_}, values{saved.entry("n_averaged", {})};
  for (size_t i = 0; i < names_.size(); ++i) {
    targets.push_back(averages_[i]);
    values.push_back(saved.entry(names_[i], averages_[i].shape()));
  }
  write(targets, values);
}

}  // namespace taper::v0::optim
