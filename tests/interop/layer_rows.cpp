#include "tests/interop/layer_rows.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <set>

#include <gtest/gtest.h>

#include "autograd/ops/binary_ops.h"
#include "autograd/ops/reduce_ops.h"
#include "framework/factory/factories.h"
#include "framework/io/safetensors.h"
#include "modules/layers/loss_layers.h"
#include "tests/testing.h"

namespace taper::v0::test {
namespace {

// One row of a file: its tensors by name ("input/0", "state/weight", ...) and its metadata.
struct Stored {
  std::map<std::string, Tensor> tensors;
  std::map<std::string, std::string> meta;

  // Returns the tensors "what/0", "what/1", ... up to the last one. Missing ones are undefined.
  Tensors list(const std::string& what) const {
    Tensors out;
    for (const auto& [name, tensor] : with(what)) {
      const size_t i = std::stoul(name);
      if (out.size() <= i) out.resize(i + 1);
      out[i] = tensor;
    }
    return out;
  }
  // Returns the tensors "what/KEY" by key.
  std::map<std::string, Tensor> with(const std::string& what) const {
    std::map<std::string, Tensor> out;
    for (const auto& [name, tensor] : tensors) {
      if (name.starts_with(what + "/")) out[name.substr(what.size() + 1)] = tensor;
    }
    return out;
  }
};

std::map<std::string, Stored> read(const std::string& file) {
  const SafeTensors stored = load_safetensors(std::string(TAPER_INTEROP_DIR) + "/" + file);
  std::map<std::string, Stored> rows;
  for (const auto& [name, text] : stored.metadata) {
    const size_t slash = name.find('/');
    rows[name.substr(0, slash)].meta[name.substr(slash + 1)] = text;
  }
  for (const NamedTensor& entry : stored.tensors) {
    const size_t slash = entry.name.find('/');
    rows[entry.name.substr(0, slash)].tensors[entry.name.substr(slash + 1)] = entry.tensor;
  }
  return rows;
}

testing::AssertionResult near(const Tensor& got, const Tensor& want, double tolerance) {
  if (!got.defined()) return testing::AssertionFailure() << "is undefined";
  if (got.shape() != want.shape()) {
    return testing::AssertionFailure()
           << "shape " << to_string(got.shape()) << ", expected " << to_string(want.shape());
  }
  const std::vector<double> a = values_of(got), b = values_of(want);
  double largest = 0, error = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    largest = std::max(largest, std::abs(b[i]));
    const double e = std::abs(a[i] - b[i]);
    error = std::isnan(e) ? INFINITY : std::max(error, e);
  }
  if (error <= tolerance * largest) return testing::AssertionSuccess();
  return testing::AssertionFailure() << "is off by " << error << ", the largest is " << largest;
}

Tensor like_input(const Tensor& x, Device device, DType dtype) {
  return x.defined() ? x.to(device, x.is_floating_point() ? dtype : x.dtype(), {.copy = true}) : x;
}

// Returns the output gradient with which layers.py calls the backward pass.
Tensor dy_of(const Tensor& y) {
  std::vector<double> values(size_t(y.numel()));
  for (size_t i = 0; i < values.size(); ++i) values[i] = (double(i * 7 % 11) - 5) / 4;
  return tensor(values, {.dtype = y.dtype(), .device = y.device()}).reshape(y.shape());
}

// Compares one row on one device in one dtype.
void compare(const LayerRow& row, const Stored& stored, Device device, DType dtype) {
  const double tolerance = dtype == kFloat64 ? 1e-10 : 1e-5;
  const std::unique_ptr<Module> module = row.make()->clone();  // a clone must compute the same
  module->to(device, dtype).train(stored.meta.at("training") == "True");
  std::vector<NamedTensor> state;
  for (const auto& [key, tensor] : stored.with("state")) state.push_back({key, tensor});
  module->load_state_dict(state);

  Tensors inputs = stored.list("input");
  const std::map<std::string, Tensor> dinputs = stored.with("dinput");
  for (size_t i = 0; i < inputs.size(); ++i) {
    inputs[i] = like_input(inputs[i], device, dtype);
    if (dinputs.contains(std::to_string(i))) inputs[i].requires_grad_();
  }
  const Tensors outputs = row.call(*module, inputs), wanted = stored.list("output");
  ASSERT_EQ(outputs.size(), wanted.size());
  Tensor total;
  for (size_t i = 0; i < outputs.size(); ++i) {
    EXPECT_TRUE(near(outputs[i], wanted[i], tolerance)) << "output " << i;
    if (!outputs[i].requires_grad()) continue;
    const Tensor term = sum(outputs[i] * dy_of(outputs[i]));
    total = total.defined() ? total + term : term;
  }
  if (total.defined()) total.backward();
  for (const auto& [i, dx] : dinputs) {
    EXPECT_TRUE(near(inputs[std::stoul(i)].grad(), dx, tolerance)) << "gradient of input " << i;
  }
  const std::map<std::string, Tensor> dparameters = stored.with("dparameter");
  for (const NamedTensor& p : module->named_parameters()) {
    const auto found = dparameters.find(p.name);
    if (found == dparameters.end()) {
      EXPECT_FALSE(p.tensor.grad().defined()) << "gradient of " << p.name;
    } else {
      EXPECT_TRUE(near(p.tensor.grad(), found->second, tolerance)) << "gradient of " << p.name;
    }
  }
  const std::map<std::string, Tensor> after = stored.with("after");
  for (const NamedTensor& b : module->named_buffers()) {
    const auto found = after.find(b.name);
    const Tensor& want =
        found == after.end() ? stored.tensors.at("state/" + b.name) : found->second;
    EXPECT_TRUE(near(b.tensor, want, tolerance)) << b.name << " afterwards";
  }
}

}  // namespace

Tensors call_module(Module& module, const Tensors& inputs) {
  if (inputs.size() == 2) return {dynamic_cast<Loss&>(module)(inputs[0], inputs[1])};
  return {module(inputs.at(0))};
}

void compare_with_pytorch(const std::string& file, const std::vector<LayerRow>& rows) {
  const std::map<std::string, Stored> stored = read(file);
  std::set<std::string> names;
  for (const LayerRow& row : rows) {
    EXPECT_TRUE(names.insert(row.name).second) << "two rows are called " << row.name;
    EXPECT_TRUE(stored.contains(row.name)) << file << " has no row " << row.name;
  }
  for (const auto& [name, entry] : stored) {
    EXPECT_TRUE(names.contains(name)) << "no C++ row for " << name << " of " << file;
  }
  for (const LayerRow& row : rows) {
    if (!stored.contains(row.name)) continue;
    SCOPED_TRACE(row.name);
    const Stored& entry = stored.at(row.name);
    const std::unique_ptr<Module> module = row.make();
    EXPECT_EQ(to_string(*module), entry.meta.at("repr"));
    std::string keys;
    for (const NamedTensor& own : module->state_dict()) {
      keys += concat_to_string(keys.empty() ? "" : ",", own.name);
    }
    EXPECT_EQ(keys, entry.meta.at("keys"));
    for (const Device device : all_devices()) {
      for (const DType dtype : {kFloat64, kFloat32}) {
        SCOPED_TRACE(concat_to_string(device, " ", dtype));
        try {
          compare(row, entry, device, dtype);
        } catch (const std::exception& error) {
          ADD_FAILURE() << error.what();
        }
      }
    }
  }
}

}  // namespace taper::v0::test
