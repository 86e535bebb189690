// Export of models as ONNX files (https://onnx.ai), opset 17, for ONNX Runtime and similar
// programs. The forward pass on an example is traced op by op. modules/onnx/onnx_rows.cpp defines
// how each op is written.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "framework/tensor/tensor.h"
#include "modules/module.h"

namespace taper::v0 {

struct OnnxOptions {
  // Exports dimension 0 of all inputs, and everything derived from it, as the symbolic size
  // "batch". Other sizes are those of the example.
  bool dynamic_batch = true;
  std::vector<std::string> input_names = {};   // default: "input", or "input_0", "input_1", ...
  std::vector<std::string> output_names = {};  // default: "output", or "output_0", ...
  std::map<std::string, std::string> metadata = {};
};

// Returns whether Taper was built with ONNX's definitions (TAPER_ONNX).
bool has_onnx();

// Writes module(example) in evaluation mode. The module is not changed. Parameters and buffers
// become initializers under their names. The forward pass runs twice, the second time with other
// values and another batch size, to detect dependencies that the ops do not show. The file at
// `path` is replaced atomically.
//
// Throws NotImplementedError for what ONNX cannot express, and in a build without ONNX. This
// includes values that depend on the inputs through an op without an ONNX form, through an in-place
// change, or through a value that the host reads, as for a branch. The message contains the name
// and the module's path. Throws OutputError if the file cannot be written.
void export_onnx(Module& module, const Tensor& example, const std::string& path,
                 const OnnxOptions& options = {});

// Like export_onnx() above, for any function of tensors. `module` contains the weights that the
// function uses.
using OnnxFunction = std::function<std::vector<Tensor>(const std::vector<Tensor>& inputs)>;
void export_onnx(const OnnxFunction& f, Module& module, const std::vector<Tensor>& examples,
                 const std::string& path, const OnnxOptions& options = {});

}  // namespace taper::v0
