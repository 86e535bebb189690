// A traced forward pass as a graph of ONNX operators. Not a public header.
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

using Attribute = std::variant<int64_t, float, std::string, std::vector<int64_t>,
                               std::vector<float>, std::vector<std::string>>;
using Attributes = std::vector<std::pair<std::string, Attribute>>;

inline constexpr const char* kMlDomain = "ai.onnx.ml";

struct GraphNode {
  std::string op, name;
  std::vector<std::string> inputs, outputs;
  Attributes attributes;
  std::string domain = {};  // of the operator; empty: ONNX's own
};
struct GraphValue {
  std::string name;
  DType dtype;
  std::vector<std::string> sizes;  // numbers, or "batch"
  bool is_text = false;            // strings; `dtype` has no meaning
};
struct Graph {
  std::vector<GraphNode> nodes;
  std::vector<NamedTensor> initializers;
  std::vector<GraphValue> inputs, outputs;
};

// Builds the graph by tracing two passes. The second one has other values and another batch size.
Graph trace_graph(const OnnxFunction& f, Module& module, const std::vector<Tensor>& examples,
                  const OnnxOptions& options);

// Replaces the graph's only input [batch, features] by the columns from which it is computed.
// Throws ValueError if the columns do not give as many features as the input has.
void prepend_columns(Graph& graph, const std::vector<OnnxColumn>& columns);

class GraphBuilder;
struct Step;

// Writes one op into the graph. Values are identified by their names in the graph.
class OpWriter {
 public:
  OpWriter(GraphBuilder& graph, const Step& here, const Step& there, const char* row);

  const TracedOp &op, &twin;  // the same op in the pass with the other batch size
  const char* const onnx;     // the operator name in the op's row, or null
  const Tensor& x(size_t i = 0) const { return op.inputs[i]; }
  const Tensor& y() const { return op.outputs[0]; }
  DType dtype() const { return y().dtype(); }
  bool has(size_t i) const { return i < op.inputs.size() && op.inputs[i].defined(); }
  template <class T> const T& options() const { return *std::any_cast<T>(&op.options); }
  template <class T> const T& twin_options() const { return *std::any_cast<T>(&twin.options); }

  // Returns the name of input i. With a dtype, the input is first converted to it.
  std::string in(size_t i = 0) { return in(i, x(i).dtype()); }
  std::string in(size_t i, DType dtype);
  // Returns the names of all inputs, unchanged or converted to a dtype.
  std::vector<std::string> all_in(std::optional<DType> dtype = std::nullopt);
  std::string cast(const std::string& value, DType dtype);
  // Adds a node with one result or with several.
  std::string add(const char* node, const std::vector<std::string>& inputs,
                  const Attributes& attributes = {});
  std::vector<std::string> add_many(const char* node, size_t results,
                                    const std::vector<std::string>& inputs,
                                    const Attributes& attributes = {});
  std::string constant(const Tensor& x);
  std::string number(double value, DType dtype);
  std::string numbers(const std::vector<int64_t>& values);
  // Returns a shape as one int64 value that may depend on the batch size. `here` is the shape in
  // this pass, `there` in the pass with the other batch size.
  std::string sizes(const Shape& here, const Shape& there);
  // Sets the name of result i, for ops with several results. The function of an op's row returns
  // the name of result 0.
  void give(size_t i, const std::string& value);
  [[noreturn]] void refuse(const std::string& why) const;

 private:
  // Returns the name of a constant for a value that no exported op computes.
  std::string constant_of(const Tensor& here, const Tensor& there, DType dtype);

  GraphBuilder& graph_;
  const Step& step_;
};

// Defines how an op is written. `write` is a function that returns the name of its result. Without
// a function, the op becomes one node `onnx`, which takes all inputs in the result's dtype. A
// function that handles several ops writes the operator that `onnx` names.
struct OnnxRow {
  const char *op, *onnx;
  std::string (*write)(OpWriter& w) = nullptr;
};
// The rows in onnx_elementwise.cpp and onnx_layers.cpp, and the functions that they share.
std::span<const OnnxRow> elementwise_rows();
std::span<const OnnxRow> layer_rows();
std::string x_of(OpWriter& w);  // returns input 0 in the result's dtype
std::string with(OpWriter& w, const char* onnx, const std::string& x, double number);
std::string activated(OpWriter& w, const std::string& x, Activation activation);
// Returns TensorProto's number of the dtype.
int onnx_type(DType dtype);
// Returns nullptr if ONNX has no form of the op.
const OnnxRow* onnx_row(const std::string& op);

}  // namespace taper::v0::onnx_export
