// Shared by opinfo_rows.cpp and opinfo_test.cpp: the arguments of a case by PyTorch's names, and
// Taper's functions that take them. opinfo.py writes the cases.
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

// Thrown if Taper's signature cannot express an argument. Such a case neither passes nor fails.
struct Inexpressible {
  std::string what;
};

// The arguments of a case. Each accessor returns an argument as the C++ type that Taper declares,
// or throws Inexpressible.
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
  // Returns the numbers of a list, a single number, or nothing for None.
  Shape dims(const char* name) const;
  std::vector<int64_t> ints(const char* name) const;
  std::vector<std::optional<int64_t>> maybe_ints(const char* name) const;
  Pair pair(const char* name) const;  // a single number applies to both
  Triple triple(const char* name) const;
  Pair width(const char* name) const { return one(name); }
  int64_t one(const char* name) const;  // a number, or a list with one
  // Returns what is indexed with: a single index or a list.
  std::vector<TensorIndex> indices(const char* name) const;
  Reduction reduction() const;
  TensorOptions options() const { return {.dtype = dtype("dtype"), .device = device}; }

  // The device of tensors that factories create.
  Device device;

 private:
  const nlohmann::json& at(const char* name) const { return args_.at(name); }
  [[noreturn]] void refuse(const char* name) const;
  Tensor tensor_of(const nlohmann::json& value, const char* name) const;
  TensorIndex index_of(const nlohmann::json& value, const char* name) const;

  nlohmann::json args_;
  Tensors tensors_;  // in the order of the arguments' "tensor_index"
};

using OpInfoFunction = std::function<Tensors(const Args&)>;
// Returns the functions by the name in a case. "Tensor.NAME" is another form of NAME: a method or
// an operator.
const std::map<std::string, OpInfoFunction>& opinfo_functions();

}  // namespace taper::v0::test
