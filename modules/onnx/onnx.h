// Export of models as ONNX files (https://onnx.ai), opset 17, for ONNX Runtime and similar
// programs. The forward pass on an example is traced op by op. modules/onnx/onnx_rows.cpp defines
// how each op is written.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "framework/tensor/tensor.h"
#include "modules/module.h"

namespace taper::v0 {

// A column of a table, from which an exported model computes some of its features. It becomes an
// input [batch, 1] of the graph.
//
//   kNumber  float64; nan is missing. Feature: (x - mean) / std.
//   kDate    float64, seconds since 1970-01-01T00:00:00Z; nan is missing. Features: year, month,
//            day, weekday (0: Monday), hour, and days since `first_date`, each scaled like a
//            number.
//   kWord    strings. Feature: the word's index as a float32.
struct OnnxColumn {
  enum class Kind { kNumber, kDate, kWord };

  std::string name;
  Kind kind = Kind::kNumber;
  std::vector<double> mean = {}, std = {};    // of each scaled feature
  double fill = 0;                            // replaces missing values
  std::vector<double> missing = {};           // numbers that are missing, too
  bool has_gap_feature = false;               // one more feature: 1 for a missing value, else 0
  double first_date = 0;                      // seconds since 1970
  std::map<std::string, int64_t> words = {};  // indices; every other word has index 0
};

struct OnnxOptions {
  // Exports dimension 0 of all inputs, and everything derived from it, as the symbolic size
  // "batch". Other sizes are those of the example.
  bool dynamic_batch = true;
  std::vector<std::string> input_names = {};   // default: "input", or "input_0", "input_1", ...
  std::vector<std::string> output_names = {};  // default: "output", or "output_0", ...
  std::map<std::string, std::string> metadata = {};
  // If given, the graph takes these columns of a table instead of a module's only input [batch,
  // features]. The features are computed from the columns, in order. The graph's inputs have the
  // names of the columns, and `input_names` is not used. If another value of the graph has the name
  // of a column, it is renamed.
  std::vector<OnnxColumn> columns = {};
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
