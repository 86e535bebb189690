// A traced forward pass as a graph of ONNX's operators; not a public header.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "framework/kernels/elementwise/activation.h"
#include "framework/profiler/trace.h"
#include "modules/onnx/onnx.h"

namespace taper::v0::onnx_export {

using Attributes = std::vector<
    std::pair<std::string, std::variant<int64_t, float, std::string, std::vector<int64_t>>>>;

struct GraphNode {
  std::string op, name;
  std::vector<std::string> inputs, outputs;
  Attributes attributes;
};
struct GraphValue {
  std::string name;
  DType dtype;
  std::vector<std::string> sizes;  // numbers, or "batch"
};
struct Graph {
  std::vector<GraphNode> nodes;
  std::vector<NamedTensor> initializers;
  std::vector<GraphValue> inputs, outputs;
};

// Of two passes, with other values and another batch.
Graph trace_graph(const OnnxFunction& f, Module& module, const std::vector<Tensor>& examples,
                  const OnnxOptions& options);

class GraphBuilder;
struct Step;

// What a row writes its op with. Values go by their names in the graph.
class OpWriter {
 public:
  OpWriter(GraphBuilder& graph, const Step& here, const Step& there, const char* row);

  const TracedOp &op, &twin;  // the same op in the pass of another batch
  const char* const onnx;     // the row's name for it, or null
  const Tensor& x(size_t i = 0) const { return op.inputs[i]; }
  const Tensor& y() const { return op.outputs[0]; }
  DType dtype() const { return y().dtype(); }
  bool has(size_t i) const { return i < op.inputs.size() && op.inputs[i].defined(); }
  template <class T> const T& options() const { return *std::any_cast<T>(&op.options); }
  template <class T> const T& twin_options() const { return *std::any_cast<T>(&twin.options); }

  // Input i, and in a dtype.
  std::string in(size_t i = 0) { return in(i, x(i).dtype()); }
  std::string in(size_t i, DType dtype);
  // All inputs, as they are or in a dtype.
  std::vector<std::string> all_in(std::optional<DType> dtype = std::nullopt);
  std::string cast(const std::string& value, DType dtype);
  // A node with one result, and with several.
  std::string add(const char* node, const std::vector<std::string>& inputs,
                  const Attributes& attributes = {});
  std::vector<std::string> add_many(const char* node, size_t results,
                                    const std::vector<std::string>& inputs,
                                    const Attributes& attributes = {});
  std::string constant(const Tensor& x);
  std::string number(double value, DType dtype);
  std::string numbers(const std::vector<int64_t>& values);
  // Sizes of this pass and of its twin as one int64 value that follows the batch.
  std::string sizes(const Shape& here, const Shape& there);
  // The result i, beside the row's own.
  void give(size_t i, const std::string& value);
  [[noreturn]] void refuse(const std::string& why) const;

 private:
  // A value that no op makes that is written.
  std::string constant_of(const Tensor& here, const Tensor& there, DType dtype);

  GraphBuilder& graph_;
  const Step& step_;
};

// How an op is written: by a function that gives its result, or as one node that takes all inputs
// in the result's dtype. Functions of several ops write what the row names.
struct OnnxRow {
  const char *op, *onnx;
  std::string (*write)(OpWriter& w) = nullptr;
};
// Of onnx_elementwise.cpp and onnx_layers.cpp: their rows, and what others share with them.
std::span<const OnnxRow> elementwise_rows();
std::span<const OnnxRow> layer_rows();
std::string x_of(OpWriter& w);  // input 0 in the result's dtype
std::string with(OpWriter& w, const char* onnx, const std::string& x, double number);
std::string activated(OpWriter& w, const std::string& x, Activation activation);
// TensorProto's number of it.
int onnx_type(DType dtype);
// nullptr: ONNX has no form for it.
const OnnxRow* onnx_row(const std::string& op);

}  // namespace taper::v0::onnx_export
