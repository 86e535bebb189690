#include "modules/module.h"

#include <algorithm>
#include <map>
#include <unordered_set>

#include "autograd/anomaly.h"
#include "autograd/node.h"
#include "autograd/ops/shape.h"
#include "framework/cuda.h"
#include "framework/factories.h"
#include "framework/kernels/copy.h"

namespace taper {
namespace {

// Puts another tensor's memory behind a handle: everybody who holds the handle sees it.
void replace_memory(const Tensor& target, const Tensor& source) {
  TensorImpl* impl = target.impl();
  impl->storage = source.storage();
  impl->offset = source.storage_offset();
  impl->shape = source.shape();
  impl->strides = source.strides();
  impl->dtype = source.dtype();
}

std::string joined(const std::string& prefix, const std::string& name) {
  return prefix.empty() ? name : prefix + "." + name;
}

std::string indented(const std::string& text) {
  std::string out;
  for (const char c : text) {
    out += c;
    if (c == '\n') out += "  ";
  }
  return out;
}

}  // namespace

Tensor Module::operator()(const Tensor& x) try {
  const ModuleScope scope(name_);
  return forward(x);
} catch (Error& error) {
  if (!name_.empty()) error.add_module(name_);
  throw;
}

void Module::check_name(const char* kind, const std::string& name) const {
  if (name.empty()) throw Error(cat(kind, " name must not be empty"));
  if (name.find('.') != std::string::npos) {
    throw Error(cat(kind, " name must not contain a dot (got '", name, "')"));
  }
  const auto taken = [&](const auto& entry) { return std::get<0>(entry) == name; };
  const bool tensor_taken =
      std::any_of(tensors_.begin(), tensors_.end(), [&](const Entry& e) { return e.name == name; });
  if (tensor_taken || std::any_of(children_.begin(), children_.end(), taken)) {
    throw Error(cat(kind, " '", name, "' already defined"));
  }
}

void Module::register_parameter(const std::string& name, const Tensor& tensor) {
  check_name("Parameter", name);
  tensors_.push_back({name, tensor, false});
}

void Module::register_buffer(const std::string& name, const Tensor& tensor) {
  check_name("Buffer", name);
  tensors_.push_back({name, tensor, true});
}

void Module::register_module(const std::string& name, Module& child) {
  check_name("Submodule", name);
  child.name_ = name;
  children_.push_back({name, &child});
}

void Module::collect(const std::string& prefix, bool once,
                     std::vector<std::pair<std::string, Entry>>& out) const {
  for (const Entry& entry : tensors_) {
    const bool seen = std::any_of(out.begin(), out.end(), [&](const auto& other) {
      return other.second.tensor.is_same(entry.tensor);
    });
    if (!once || !seen) out.push_back({joined(prefix, entry.name), entry});
  }
  for (const auto& [name, child] : children_) child->collect(joined(prefix, name), once, out);
}

std::vector<NamedTensor> Module::named(bool buffers) const {
  std::vector<std::pair<std::string, Entry>> all;
  collect("", true, all);
  std::vector<NamedTensor> out;
  for (const auto& [path, entry] : all) {
    if (entry.is_buffer == buffers) out.push_back({path, entry.tensor});
  }
  return out;
}

std::vector<NamedTensor> Module::named_parameters() const { return named(false); }
std::vector<NamedTensor> Module::named_buffers() const { return named(true); }

std::vector<Tensor> Module::parameters() const {
  std::vector<Tensor> out;
  for (const NamedTensor& p : named_parameters()) out.push_back(p.tensor);
  return out;
}

int64_t Module::num_parameters() const {
  int64_t n = 0;
  for (const Tensor& p : parameters()) n += p.numel();
  return n;
}

Module& Module::train(bool on) {
  training_ = on;
  for (const auto& [name, child] : children_) child->train(on);
  return *this;
}

Module& Module::to(Device device) {
  convert(&device, nullptr);
  return *this;
}
Module& Module::to(DType dtype) {
  convert(nullptr, &dtype);
  return *this;
}
Module& Module::to(Device device, DType dtype) {
  convert(&device, &dtype);
  return *this;
}
Module& Module::cuda(Device device) {
  if (!device.is_cuda()) throw Error(cat("Invalid device, must be cuda device (got ", device, ")"));
  return to(device);
}

void Module::convert(const Device* device, const DType* dtype) {
  if (dtype && !is_floating_point(*dtype)) {
    throw TypeError(
        cat("nn.Module.to only accepts floating point or complex dtypes, but got "
            "desired dtype=",
            *dtype));
  }
  std::vector<std::pair<std::string, Entry>> all;
  collect("", true, all);
  const NoGradGuard no_grad;
  const auto moved = [&](const Tensor& t) {
    return to_copy(t, device ? *device : t.device(),
                   dtype && t.is_floating_point() ? *dtype : t.dtype());
  };
  // First everything that can fail, then everything that cannot.
  struct Move {
    Tensor target, value, grad;
  };
  std::vector<Move> moves;
  for (const auto& [path, entry] : all) {
    const Tensor grad = entry.tensor.grad();
    moves.push_back({entry.tensor, moved(entry.tensor.detach()),
                     grad.defined() ? moved(grad.detach()) : Tensor()});
  }
  for (const Move& move : moves) {
    replace_memory(move.target, move.value);
    move.target.impl()->grad = IntrusivePtr<TensorImpl>::share(move.grad.impl());
  }
}

void Module::zero_grad() {
  for (const Tensor& p : parameters()) p.set_grad({});
}

std::vector<NamedTensor> Module::state_dict() const {
  std::vector<std::pair<std::string, Entry>> all;
  collect("", false, all);
  std::vector<NamedTensor> out;
  for (const auto& [path, entry] : all) out.push_back({path, entry.tensor.detach()});
  return out;
}

void Module::load_state_dict(const std::vector<NamedTensor>& state) {
  std::map<std::string, Tensor> given;
  for (const NamedTensor& entry : state) given[entry.name] = entry.tensor;
  std::vector<std::pair<Tensor, Tensor>> copies;
  std::string missing, misshapen;
  for (const NamedTensor& own : state_dict()) {
    const auto found = given.find(own.name);
    if (found == given.end()) {
      missing += cat(missing.empty() ? "" : ", ", "\"", own.name, "\"");
      continue;
    }
    if (found->second.shape() != own.tensor.shape()) {
      misshapen += cat("\n\tsize mismatch for ", own.name, ": copying a param with shape ",
                       found->second.shape(), " from checkpoint, the shape in current model is ",
                       own.tensor.shape(), ".");
    }
    copies.push_back({own.tensor, found->second});
    given.erase(found);
  }
  std::string unexpected;
  for (const auto& [name, tensor] : given) {
    unexpected += cat(unexpected.empty() ? "" : ", ", "\"", name, "\"");
  }
  if (!missing.empty() || !unexpected.empty() || !misshapen.empty()) {
    throw Error(
        cat("Error(s) in loading state_dict for ", type_name(), ":",
            missing.empty() ? "" : cat("\n\tMissing key(s) in state_dict: ", missing, "."),
            unexpected.empty() ? "" : cat("\n\tUnexpected key(s) in state_dict: ", unexpected, "."),
            misshapen));
  }
  for (const auto& [own, value] : copies) {
    kernels::copy_into(own, value);
    own.storage()->version.fetch_add(1);
  }
}

std::string to_string(const Module& module) {
  const std::string extra = module.extra_repr();
  if (module.children().empty()) return cat(module.type_name(), "(", extra, ")");
  std::string out = cat(module.type_name(), "(");
  for (const auto& [name, child] : module.children()) {
    out += cat("\n  (", name, "): ", indented(to_string(*child)));
  }
  return out + "\n)";
}

void ModuleTensor::assign(const Tensor& value) {
  if (!tensor_.defined()) throw Error("cannot assign to a parameter that the module does not have");
  if (value.shape() != tensor_.shape()) {
    throw Error(cat("cannot assign a tensor of shape ", value.shape(), " to one of shape ",
                    tensor_.shape()));
  }
  kernels::copy_into(tensor_, value);
  tensor_.storage()->version.fetch_add(1);
}

Parameter::Parameter(Module& owner, const std::string& name, const Tensor& value)
    : ModuleTensor(value.detach()) {
  tensor_.requires_grad_();
  tensor_.impl()->is_parameter = true;
  owner.register_parameter(name, tensor_);
}

Buffer::Buffer(Module& owner, const std::string& name, const Tensor& value)
    : ModuleTensor(value.detach()) {
  owner.register_buffer(name, tensor_);
}

}  // namespace taper
