#include "modules/onnx/onnx.h"

#include "framework/host/atomic_file.h"
#include "modules/onnx/onnx_graph.h"

#ifdef TAPER_WITH_ONNX
#include <algorithm>

#include <onnx/checker.h>
#include <onnx/defs/attr_proto_util.h>
#include <onnx/onnx_pb.h>

namespace taper::v0 {
namespace {

using onnx_export::Graph;

constexpr int kIrVersion = 8, kOpset = 17, kMlOpset = 3;

void write_value(onnx::ValueInfoProto* to, const onnx_export::GraphValue& value) {
  to->set_name(value.name);
  auto* type = to->mutable_type()->mutable_tensor_type();
  type->set_elem_type(value.is_text ? int(onnx::TensorProto::STRING)
                                    : onnx_export::onnx_type(value.dtype));
  auto* shape = type->mutable_shape();
  for (const std::string& size : value.sizes) {
    auto* dim = shape->add_dim();
    if (size.find_first_not_of("0123456789") == size.npos) {
      dim->set_dim_value(std::stoll(size));
    } else {
      dim->set_dim_param(size);
    }
  }
}

onnx::ModelProto model_of(const Graph& graph, const OnnxOptions& options) {
  onnx::ModelProto model;
  model.set_ir_version(kIrVersion);
  model.set_producer_name("taper");
  model.add_opset_import()->set_version(kOpset);
  const bool uses_ml = std::ranges::any_of(
      graph.nodes, [](const onnx_export::GraphNode& node) { return !node.domain.empty(); });
  if (uses_ml) {
    auto* opset = model.add_opset_import();
    opset->set_domain(onnx_export::kMlDomain);
    opset->set_version(kMlOpset);
  }
  for (const auto& [key, value] : options.metadata) {
    auto* entry = model.add_metadata_props();
    entry->set_key(key);
    entry->set_value(value);
  }
  onnx::GraphProto* to = model.mutable_graph();
  to->set_name("taper");
  for (const auto& input : graph.inputs) write_value(to->add_input(), input);
  for (const auto& output : graph.outputs) write_value(to->add_output(), output);
  for (const auto& [name, x] : graph.initializers) {
    const Tensor host = x.detach().cpu().contiguous();
    onnx::TensorProto* tensor = to->add_initializer();
    tensor->set_name(name);
    tensor->set_data_type(onnx_export::onnx_type(x.dtype()));
    for (const int64_t n : x.shape()) tensor->add_dims(n);
    tensor->set_raw_data(host.data_ptr(), host.nbytes());
  }
  for (const onnx_export::GraphNode& node : graph.nodes) {
    onnx::NodeProto* written = to->add_node();
    written->set_op_type(node.op);
    written->set_name(node.name);
    written->set_domain(node.domain);
    for (const std::string& name : node.inputs) written->add_input(name);
    for (const std::string& name : node.outputs) written->add_output(name);
    for (const auto& attribute : node.attributes) {
      const auto made = [&](const auto& x) { return onnx::MakeAttribute(attribute.first, x); };
      *written->add_attribute() = std::visit(made, attribute.second);
    }
  }
  return model;
}

}  // namespace

bool has_onnx() { return true; }

void export_onnx(const OnnxFunction& f, Module& module, const std::vector<Tensor>& examples,
                 const std::string& path, const OnnxOptions& options) {
  Graph graph = onnx_export::trace_graph(f, module, examples, options);
  if (!options.columns.empty()) onnx_export::prepend_columns(graph, options.columns);
  constexpr uint64_t kMost = (uint64_t(1) << 31) - (1 << 20);
  uint64_t nbytes = 0;
  for (const NamedTensor& t : graph.initializers) nbytes += t.tensor.nbytes();
  require<NotImplementedError>(nbytes <= kMost, path, ": weights of ", nbytes,
                               " bytes; an ONNX file holds 2 GiB");
  const onnx::ModelProto model = model_of(graph, options);
  try {
    onnx::checker::check_model(model);
  } catch (const std::exception& e) {
    throw Error(path, ": ONNX's checker refuses the model: ", e.what());
  }
  std::string bytes;
  if (!model.SerializeToString(&bytes)) throw Error(path, ": the model cannot be serialized");
  write_atomically(path, bytes);
}

}  // namespace taper::v0
#else
namespace taper::v0 {

bool has_onnx() { return false; }

void export_onnx(const OnnxFunction&, Module&, const std::vector<Tensor>&, const std::string& path,
                 const OnnxOptions&) {
  throw NotImplementedError(path,
                            ": Taper was built without ONNX; install libonnx-dev and "
                            "libprotobuf-dev and build again with TAPER_ONNX=ON");
}

}  // namespace taper::v0
#endif

namespace taper::v0 {

void export_onnx(Module& module, const Tensor& example, const std::string& path,
                 const OnnxOptions& options) {
  export_onnx([&](const std::vector<Tensor>& x) { return std::vector<Tensor>{module(x[0])}; },
              module, {example}, path, options);
}

}  // namespace taper::v0
