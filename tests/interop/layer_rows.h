// Compares layers with the results of PyTorch that layers.py stores: a table of rows for each file.
// To add a group of layers, write a file NAME.py that stores rows under names, and a NAME_test.cpp
// with
//
//   std::vector<LayerRow> rows() {
//     return {row<LSTM>("LSTM", 3, 4), ..., {"MultiheadAttention", make<MultiheadAttention>(8, 2),
//       [](Module& m, const Tensors& x) {
//         return attended(dynamic_cast<MultiheadAttention&>(m)(x[0], x[1], x[2]));
//       }}};
//   }
//   TEST(Recurrent, ComputeWhatPyTorchComputes) {
//     compare_with_pytorch("NAME.safetensors", rows());
//   }
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "modules/module.h"

namespace taper::v0::test {

using Tensors = std::vector<Tensor>;
using MakeModule = std::function<std::unique_ptr<Module>()>;
// Calls the module with the inputs of PyTorch's row (undefined for None) and returns the outputs
// that it stores.
using CallModule = std::function<Tensors(Module&, const Tensors&)>;

// Returns {module(x)} or {loss(input, target)}.
Tensors call_module(Module& module, const Tensors& inputs);

struct LayerRow {
  std::string name;  // as in the file
  MakeModule make;   // creates it on the CPU; the test moves it
  CallModule call = call_module;
};

template <class M, class... Args> MakeModule make(const Args&... args) {
  return [=] { return std::make_unique<M>(args...); };
}
template <class M, class... Args> LayerRow row(const char* name, const Args&... args) {
  return {name, make<M>(args...)};
}

// Fails unless the file (in this folder) and the table have the same rows, and each row agrees with
// PyTorch in its printed form, the names of its state, its results and its gradients. Runs on every
// device in float64 (tolerance 1e-10 of the largest magnitude in a tensor) and float32 (1e-5).
void compare_with_pytorch(const std::string& file, const std::vector<LayerRow>& rows);

}  // namespace taper::v0::test
