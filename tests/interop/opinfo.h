// What opinfo_rows.cpp and opinfo_test.cpp share: the arguments of a case by PyTorch's names, and
// the functions of Taper that take them. opinfo.py writes the cases.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "autograd/ops/index/indexing.h"
#include "framework/base/scalar.h"
#include "framework/kernels/loss/softmax.h"
#include "framework/tensor/tensor.h"

namespace taper::v0::test {

using Tensors = std::vector<Tensor>;

// Taper's signature has no place for this argument: neither right nor wrong.
struct Inexpressible {
  std::string what;
};

// Each accessor takes an argument as the C++ type that Taper declares, or throws Inexpressible.
class Args {
 public:
  Args(const nlohmann::json& args, Tensors tensors) : args_(args), tensors_(std::move(tensors)) {}

  bool none(const char* name) const { return at(name).is_null(); }
  bool is_number(const char* name) const;
  bool is_tensor(const char* name) const {
    return at(name).is_object() && at(name).contains("tensor_index");
  }
  bool is_list(const char* name) const { return at(name).is_array(); }
  Tensor t(const char* name) const;  // undefined for None
  Tensors list(const char* name) const;
  int64_t i(const char* name) const;
  double f(const char* name) const;
  bool b(const char* name) const;
  std::string text(const char* name) const;
  Scalar number(const char* name) const;
  std::optional<Scalar> maybe_number(const char* name) const;
  std::optional<int64_t> maybe_i(const char* name) const;
  std::optional<double> maybe_f(const char* name) const;
  std::optional<DType> dtype(const char* name) const;
  // A list, one number, or nothing for None.
  Shape dims(const char* name) const;
  std::vector<int64_t> ints(const char* name) const;
  std::vector<std::optional<int64_t>> maybe_ints(const char* name) const;
  Pair pair(const char* name) const;    // one number: for both
  int64_t one(const char* name) const;  // a number or a list of one
  // What stands in brackets; one thing or a list.
  std::vector<TensorIndex> indices(const char* name) const;
  Reduction reduction() const;
  TensorOptions options() const { return {.dtype = dtype("dtype"), .device = device}; }

  // Where factories make their tensor.
  Device device;

 private:
  const nlohmann::json& at(const char* name) const { return args_.at(name); }
  [[noreturn]] void refuse(const char* name) const;
  Tensor tensor_of(const nlohmann::json& value, const char* name) const;
  TensorIndex index_of(const nlohmann::json& value, const char* name) const;

  nlohmann::json args_;
  Tensors tensors_;  // by "tensor_index" of the arguments
};

using OpInfoFunction = std::function<Tensors(const Args&)>;
// By the name in a case; "Tensor.NAME" is another way to write NAME: a method or an operator.
const std::map<std::string, OpInfoFunction>& opinfo_functions();

}  // namespace taper::v0::test
