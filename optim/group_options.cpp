#include "optim/group_options.h"

#include <cstring>
#include <functional>

#include "framework/factory/factories.h"
#include "framework/kernels/elementwise/binary.h"
#include "framework/kernels/elementwise/copy.h"

namespace taper::v0::optim {
namespace {

using kernels::BinaryOp;
using kernels::copy_into;

Tensor alias(const Tensor& x) { return view_as(x, x.shape(), x.strides(), x.storage_offset()); }

}  // namespace

Tensor Setting::value() const { return tensor_from_bytes(place, dtype, shape, {}); }

void Setting::assign(const Tensor& value) const {
  const Tensor own = Tensor::make(shape, dtype, Device());
  copy_into(own, value);
  std::memcpy(place, own.data_ptr(), own.nbytes());
}

SettingList::SettingList() = default;
SettingList::~SettingList() = default;
std::vector<Setting> SettingList::take() { return std::move(all); }
void SettingList::add(const char* name, const Shape& shape, DType dtype, void* place, Range range) {
  all.push_back({name, shape, dtype, place, range});
}

// Throws for settings out of range. The comparisons are false for NaN, so NaN is rejected, too.
void check_ranges(const std::vector<Setting>& settings) {
  for (const Setting& setting : settings) {
    if (setting.dtype != kFloat64) continue;
    const std::string name = setting.name;
    const std::string what = name == "lr"    ? "learning rate"
                             : name == "eps" ? "epsilon value"
                                             : name + " value";
    const std::vector<double> values = setting.value().to_vector<double>();
    for (size_t i = 0; i < values.size(); ++i) {
      const double x = values[i];
      if (setting.shape.empty() ? x >= setting.range.low : setting.range.contains(x)) continue;
      if (setting.shape.empty()) throw ValueError("Invalid ", what, ": ", x);
      const std::string one = name.substr(0, name.find_last_not_of('s') + 1);
      throw ValueError("Invalid ", one, " parameter at index ", i, ": ", x);
    }
  }
}

Tensor matching_layout(const Tensor& param, const Tensor& x, DType dtype) {
  const bool same_order =
      x.strides() == param.strides() || (x.is_contiguous() && param.is_contiguous());
  if (x.device() == param.device() && x.dtype() == dtype && same_order) return x;
  const Tensor out = empty_like_layout(param, dtype);
  copy_into(out, x);
  return out;
}

void update_by_ops(const std::vector<kernels::Update>& updates, const kernels::StepScalars& scalars,
                   const std::function<void(const ParamStep&)>& update) {
  const Tensor& found_inf = scalars.found_inf;
  const bool on_gpu = found_inf.defined() && found_inf.is_cuda();
  if (found_inf.defined() && !on_gpu && found_inf.item<float>() != 0) return;
  // On the GPU the host does not read found_inf. Instead, changes are undone where it is not 0.
  const auto change = [&](const std::vector<Tensor>& places, const auto& f) {
    std::vector<Tensor> before;
    for (const Tensor& x : places) {
      if (on_gpu) copy_into(before.emplace_back(empty_like_layout(x, x.dtype())), x);
    }
    f();
    for (size_t i = 0; i < before.size(); ++i) {
      copy_into(places[i], kernels::where(found_inf, before[i], places[i]));
    }
  };
  const Tensor& count = scalars.step;
  if (scalars.advances) {
    change({count}, [&] { binary_into(BinaryOp::kAdd, count, count, wrap_scalar(1)); });
  }
  for (const kernels::Update& u : updates) {
    const DType dtype = state_dtype(u.param);
    const Tensor param = alias(matching_layout(u.param, u.param, dtype));
    if (u.has_master()) {
      const Tensor kept = binary(BinaryOp::kEq, kernels::packed(param, u.low.dtype()), u.low);
      copy_into(param, kernels::where(kept, param, u.low));
    }
    std::vector<Tensor> places = u.states;
    places.push_back(param);
    const ParamStep step{param, alias(matching_layout(u.param, u.grad, dtype)), u.states,
                         scalars.lr, count};
    change(places, [&] { update(step); });
    if (u.param.dtype() != dtype) copy_into(u.param, param);
    if (u.low.defined()) copy_into(u.low, param);
  }
}

}  // namespace taper::v0::optim
