// Models as ONNX files (https://onnx.ai), opset 17, for ONNX Runtime and the like: the forward pass
// of an example is traced op by op, and each op is written as its row in modules/onnx/onnx_rows.cpp
// says.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "framework/tensor/tensor.h"
#include "modules/module.h"

namespace taper::v0 {

struct OnnxOptions {
  // The first size of every input, of those results that have it, and whatever follows from it
  // stays open ("batch"). Other sizes are the example's.
  bool dynamic_batch = true;
  std::vector<std::string> input_names = {};   // else "input", or "input_0", "input_1", ...
  std::vector<std::string> output_names = {};  // else "output", or "output_0", ...
  std::map<std::string, std::string> metadata = {};
};

// Whether Taper was built with ONNX's definitions (TAPER_ONNX).
bool has_onnx();

// Writes module(example), in evaluation mode; the module is left as it was. Parameters and buffers
// become initializers under their names. What follows from the inputs by an op without a row, by a
// change in place or by a value that the host reads (so a branch on data) is refused by name, with
// the module's path, whatever the example's values. The forward pass runs twice, the second time
// with other values and another batch, which finds what no op tells of. PATH is the old file or the
// whole new one. Throws NotImplementedError for what ONNX cannot say and in a build without ONNX,
// OutputError for a file that cannot be written.
void export_onnx(Module& module, const Tensor& example, const std::string& path,
                 const OnnxOptions& options = {});

// The same for any function of tensors; `module` has the weights that it uses.
using OnnxFunction = std::function<std::vector<Tensor>(const std::vector<Tensor>& inputs)>;
void export_onnx(const OnnxFunction& f, Module& module, const std::vector<Tensor>& examples,
                 const std::string& path, const OnnxOptions& options = {});

}  // namespace taper::v0
