#include "modules/members.h"

#include "framework/kernels/elementwise/copy.h"

namespace taper::v0 {

ModuleTensor::ModuleTensor(Module& owner, const std::string& name, const Tensor& value,
                           bool is_buffer)
    : tensor_(Shared<Tensor>::make(value.detach())) {
  owner.register_tensor(name, tensor_, is_buffer);
}

ModuleTensor::~ModuleTensor() {
  if (tensor_) *tensor_ = {};
}

ModuleTensor& ModuleTensor::operator=(const Tensor& value) {
  if (!defined()) throw Error("cannot assign to a parameter that the module does not have");
  require(value.shape() == (*this)->shape(), "cannot assign a tensor of shape ", value.shape(),
          " to one of shape ", (*this)->shape());
  kernels::copy_into(*tensor_, value);
  tensor_->storage()->version.fetch_add(1);
  return *this;
}

Parameter::Parameter(Module& owner, const std::string& name, const Tensor& value)
    : ModuleTensor(owner, name, value, false) {
  tensor_->requires_grad_();
  tensor_->impl()->is_parameter = true;
}

void Parameter::share(const Parameter& other) {
  if (!defined() || !other.defined() || (*this)->shape() != other->shape()) {
    const auto shape = [](const Parameter& p) {
      return p.defined() ? to_string(p->shape()) : "none";
    };
    throw Error("cannot share a parameter of shape ", shape(other), " as one of shape ",
                shape(*this));
  }
  *tensor_ = *other.tensor_;
}

void refuse_moved_child() {
  throw Error(
      "this Child was moved from: its module is where it was moved to, and this object is to be "
      "neither called nor assigned to");
}

}  // namespace taper::v0
