#include "modules/onnx/onnx_graph.h"

#include <algorithm>
#include <map>
#include <set>

#include "autograd/node.h"
#include "autograd/ops/binary_ops.h"
#include "autograd/ops/index/index_ops.h"
#include "autograd/ops/reduce_ops.h"
#include "autograd/ops/shape_ops.h"
#include "framework/factory/factories.h"
#include "framework/factory/generator.h"
#include "modules/onnx/onnx_trace.h"

namespace taper::v0::onnx_export {
namespace {

bool same_values(const Tensor& a, const Tensor& b) {
  if (!a.defined() || !b.defined()) return a.defined() == b.defined();
  if (a.shape() != b.shape() || a.dtype() != b.dtype()) return false;
  const Tensor both_nan = logical_and(ne(a, a), ne(b, b));
  return all(logical_or(eq(a, b), both_nan)).item<bool>();
}

// Returns other values of the same kind, so that everything computed from them differs. If all
// values of the example are equal, the returned values all differ from each other.
Tensor changed(const Tensor& x) {
  const Tensor flipped = reshape(flip(flatten(x), {0}), x.shape());
  if (!x.is_floating_point()) return flipped;
  Generator generator(1);
  const Tensor noise = rand(x.shape(), {.device = x.device()}, &generator);
  return (flipped * 0.5 + noise * 0.5).to(x.dtype());
}

// Puts an example on the tape as the result of an op, so that tensors that depend on it can be
// recognized.
Tensor on_tape(const Tensor& x) {
  return x.is_floating_point() ? clone(x.detach().requires_grad_()) : x;
}

Tensor with_rows(const Tensor& x, int64_t rows) {
  Tensor y = x;
  while (y.size(0) < rows) y = cat({y, narrow(x, 0, 0, std::min(x.size(0), rows - y.size(0)))}, 0);
  return y;
}

// Switches a module to evaluation mode until the end of the scope.
class Evaluating {
 public:
  explicit Evaluating(Module& module) {
    for (const auto& [path, m] : module.named_modules()) modes_.push_back({m, m->is_training()});
    module.eval();
  }
  // Parents precede their children.
  ~Evaluating() {
    for (const auto& [m, on] : modes_) m->train(on);
  }
  Evaluating& operator=(Evaluating&&) = delete;  // neither copied nor moved

 private:
  std::vector<std::pair<Module*, bool>> modes_;
};

}  // namespace

// Builds the graph from the recordings of two passes.
class GraphBuilder {
 public:
  GraphBuilder(const Recording& first, const Recording& second, std::vector<NamedTensor> state,
               const OnnxOptions& options)
      : here(first), there(second), state_(std::move(state)), options_(options) {}

  Graph build() {
    const TracedOp &inputs = here.steps[kInputs].op, &others = there.steps[kInputs].op;
    for (size_t i = 0; i < inputs.outputs.size(); ++i) {
      const Tensor &x = inputs.outputs[i], &other = others.outputs[i];
      const std::string name = port(options_.input_names, "input", i, inputs.outputs.size());
      names[{kInputs, i}] = name;
      graph.inputs.push_back({name, x.dtype(), sizes_of(x, other, "input")});
    }
    find_twins();
    for (auto step = twins_.rbegin(); step != twins_.rend() && step->first > kState; ++step) {
      refuse_without_form(here.steps[step->first]);
    }
    for (const auto& [step, twin] : twins_) {
      if (step > kState) write(step, twin);
    }
    for (size_t i = 0; i < here.outputs.size(); ++i) {
      const Tensor &y = here.outputs[i], &other = there.outputs[i];
      const std::string name = port(options_.output_names, "output", i, here.outputs.size());
      // The graph's output is treated as an op that reads the result.
      const Step reader{{name.c_str(), {y}, {}, {}}, {here.origin_of(y)}, {y.version()}, {}};
      const Step twin{{name.c_str(), {other}, {}, {}}, {}, {}, {}};
      const std::string value = OpWriter(*this, reader, twin, nullptr).in();
      graph.nodes.push_back({"Identity", name, {value}, {name}, {}});
      graph.outputs.push_back({name, y.dtype(), sizes_of(y, other, name)});
    }
    return std::move(graph);
  }

  // Returns the name of a value. `origin` is its source, so it is not a constant.
  std::string name_of(const Origin& origin, const Tensor& x) {
    if (*origin.op == kState) {
      auto& name = names[{kState, origin.output}];
      if (name.empty()) {
        name = state_[origin.output].name;
        graph.initializers.push_back({name, x});
      }
    }
    return names.at({*origin.op, origin.output});
  }

  // Returns size / batch size, for a size that differs between the passes.
  int64_t factor_of(int64_t size, int64_t other, const std::string& what,
                    const std::string& module) const {
    const int64_t a = here.steps[kInputs].op.outputs[0].size(0);
    const int64_t b = there.steps[kInputs].op.outputs[0].size(0);
    if (a != b && size % a == 0 && other % b == 0 && size / a == other / b) return size / a;
    refuse(concat_to_string(what, " has a size of ", size, " for a batch of ", a, " and of ", other,
                            " for ", b, ", which is no multiple; try dynamic_batch = false"),
           module);
  }

  const Recording &here, &there;
  Graph graph;
  std::map<std::pair<size_t, size_t>, std::string> names;  // names of each op's results
  std::string batch;                                       // the value that contains the batch size
  int count = 0;                                           // number of generated names

 private:
  static std::string port(const std::vector<std::string>& given, const char* usual, size_t i,
                          size_t ports) {
    if (i < given.size()) return given[i];
    return ports == 1 ? usual : concat_to_string(usual, "_", i);
  }

  std::vector<std::string> sizes_of(const Tensor& x, const Tensor& other,
                                    const std::string& what) const {
    std::vector<std::string> out;
    for (int d = 0; d < x.dim(); ++d) {
      const bool open = x.size(d) != other.size(d);
      const int64_t factor = open ? factor_of(x.size(d), other.size(d), what, {}) : 0;
      out.push_back(!open         ? concat_to_string(x.size(d))
                    : factor == 1 ? "batch"
                                  : concat_to_string(factor, "*batch"));
    }
    return out;
  }

  // Finds the ops that the results need, from the last one backward, and pairs each with the same
  // op of the other pass.
  void find_twins() {
    const auto differ = [&](const std::string& at, const std::string& module) {
      refuse(concat_to_string(
                 "the module computes other things for other inputs (it branches on their values "
                 "or on the size of the batch), at ",
                 at),
             module);
    };
    if (here.outputs.size() != there.outputs.size()) differ("its results", {});
    std::set<size_t, std::greater<>> waiting;
    const auto pair = [&](const Origin& one, const Origin& other, const std::string& reader,
                          const std::string& module) {
      const Origin a = here.origin_to_write(one), b = there.origin_to_write(other);
      if (a.op.has_value() != b.op.has_value() || a.output != b.output) differ(reader, module);
      if (!a.op) return;
      const auto [known, is_new] = twins_.emplace(*a.op, *b.op);
      if (known->second != *b.op) differ(reader, module);
      if (is_new) waiting.insert(*a.op);
    };
    for (size_t i = 0; i < here.outputs.size(); ++i) {
      pair(here.origin_of(here.outputs[i]), there.origin_of(there.outputs[i]), "a result", {});
    }
    while (!waiting.empty()) {
      const size_t number = *waiting.begin();
      waiting.erase(waiting.begin());
      const Step &a = here.steps[number], &b = there.steps[twins_.at(number)];
      if (std::string_view(a.op.name) != b.op.name || a.origins.size() != b.origins.size() ||
          a.op.outputs.size() != b.op.outputs.size()) {
        differ(a.op.name, a.module);
      }
      for (size_t i = 0; i < a.origins.size(); ++i) {
        pair(a.origins[i], b.origins[i], a.op.name, a.module);
      }
    }
  }

  static void refuse_without_form(const Step& step) {
    const std::string name(step.op.name);
    if (onnx_row(name)) return;
    refuse(name.ends_with('_') ? name + " changes a tensor in place, which has no ONNX form"
                               : name.substr(0, name.find("Backward")) + " has no ONNX form",
           step.module);
  }

  void write(size_t number, size_t twin) {
    const Step& step = here.steps[number];
    const OnnxRow* row = onnx_row(step.op.name);
    OpWriter writer(*this, step, there.steps[twin], row->onnx);
    names[{number, 0}] =
        row->write ? row->write(writer) : writer.add(row->onnx, writer.all_in(writer.dtype()));
  }

  const std::vector<NamedTensor> state_;
  const OnnxOptions& options_;
  std::map<size_t, size_t> twins_;  // for each op that is written, the same op of the other pass
};

OpWriter::OpWriter(GraphBuilder& graph, const Step& here, const Step& there, const char* row)
    : op(here.op), twin(there.op), onnx(row), graph_(graph), step_(here) {}

std::string OpWriter::in(size_t i, DType dtype) {
  if (x(i).version() != step_.versions[i]) refuse("reads a tensor that was changed in place later");
  const Origin& origin = step_.origins[i];
  const std::string value = graph_.here.origin_to_write(origin).op
                                ? graph_.name_of(origin, x(i))
                                : constant_of(x(i), twin.inputs[i], dtype);
  return origin.op && dtype != x(i).dtype() ? cast(value, dtype) : value;
}

// Returns the name of the tensor as a constant. It must be equal in both passes, or consist of
// equal rows, one per sample of the batch.
std::string OpWriter::constant_of(const Tensor& here, const Tensor& there, DType dtype) {
  const auto require_same = [&](bool is_same) {
    if (is_same) return;
    const char* maker = here.grad_fn();
    onnx_export::refuse(
        concat_to_string(
            op.name, " reads a tensor of shape ", here.shape(),
            " that follows from the inputs, but ",
            maker ? concat_to_string("its maker, ", maker, ", has no ONNX form")
                  : "by no op that has an ONNX form: it was changed in place, drawn at random, or "
                    "read on the host"),
        step_.module);
  };
  require_same(!graph_.here.follows(here) && !graph_.there.follows(there));
  if (here.shape() == there.shape()) {
    require_same(same_values(here, there));
    return constant(here.detach().to(dtype));
  }
  require_same(here.dim() == there.dim());
  Tensor row = here, other = there;
  for (int d = 0; d < here.dim(); ++d) {
    if (here.size(d) == there.size(d)) continue;
    row = narrow(row, d, 0, 1);
    other = narrow(other, d, 0, 1);
  }
  require_same(same_values(row, other) && same_values(expand(row, here.shape()), here));
  return add("Expand",
             {constant(contiguous(row.detach()).to(dtype)), sizes(here.shape(), there.shape())});
}

std::vector<std::string> OpWriter::all_in(std::optional<DType> dtype) {
  std::vector<std::string> out;
  for (size_t i = 0; i < op.inputs.size(); ++i) out.push_back(in(i, dtype.value_or(x(i).dtype())));
  return out;
}

std::string OpWriter::add(const char* node, const std::vector<std::string>& inputs,
                          const Attributes& attributes) {
  return add_many(node, 1, inputs, attributes)[0];
}

std::vector<std::string> OpWriter::add_many(const char* node, size_t results,
                                            const std::vector<std::string>& inputs,
                                            const Attributes& attributes) {
  std::vector<std::string> own;
  const std::string& module = step_.module;
  const std::string name =
      concat_to_string(module.empty() ? "" : module + "/", node, "_", ++graph_.count);
  for (size_t i = 0; i < results; ++i)
    own.push_back(results == 1 ? name : concat_to_string(name, ":", i));
  graph_.graph.nodes.push_back({node, name, inputs, own, attributes});
  return own;
}

std::string OpWriter::constant(const Tensor& x) {
  const std::string name = concat_to_string("constant_", ++graph_.count);
  graph_.graph.initializers.push_back({name, x});
  return name;
}
std::string OpWriter::number(double value, DType dtype) {
  return constant(full({}, value, {.dtype = dtype}));
}
std::string OpWriter::numbers(const std::vector<int64_t>& values) {
  return constant(tensor_of(values.data(), {std::ssize(values)}));
}

// Returns the sizes as one int64 value. If only one of them depends on the batch, it is written as
// -1, which Reshape computes.
std::string OpWriter::sizes(const Shape& here, const Shape& there) {
  std::vector<std::string> parts;
  std::vector<int64_t> run;
  const auto flush = [&] {
    if (!run.empty()) parts.push_back(numbers(run));
    run.clear();
  };
  for (int d = 0; d < here.size(); ++d) {
    if (here[d] == there[d]) {
      run.push_back(here[d]);
      continue;
    }
    const int64_t factor = graph_.factor_of(here[d], there[d], op.name, step_.module);
    flush();
    if (graph_.batch.empty()) {
      graph_.batch =
          add("Shape", {graph_.graph.inputs[0].name}, {{"start", int64_t(0)}, {"end", int64_t(1)}});
    }
    parts.push_back(factor == 1 ? graph_.batch : add("Mul", {graph_.batch, numbers({factor})}));
  }
  flush();
  if (parts.empty()) return numbers({});
  return parts.size() == 1 ? parts[0] : add("Concat", parts, {{"axis", int64_t(0)}});
}

void OpWriter::give(size_t i, const std::string& value) {
  graph_.names[{size_t(&step_ - graph_.here.steps.data()), i}] = value;
}
void OpWriter::refuse(const std::string& why) const {
  onnx_export::refuse(concat_to_string(op.name, " ", why), step_.module);
}

Graph trace_graph(const OnnxFunction& f, Module& module, const std::vector<Tensor>& examples,
                  const OnnxOptions& options) {
  if (examples.empty()) throw ValueError("export_onnx: expected at least one example input");
  const AutoGradMode makers_are_known(true);
  std::vector<Tensor> here, there, state;
  for (const Tensor& x : examples) {
    if (options.dynamic_batch &&
        (x.dim() == 0 || x.size(0) != examples[0].size(0) || x.size(0) == 0)) {
      throw ValueError(
          "export_onnx: with a dynamic batch every example's first size is that of "
          "the batch; got shapes ",
          examples[0].shape(), " and ", x.shape());
    }
    // The passes have at least two and three rows, because a size of one would broadcast.
    const int64_t rows = options.dynamic_batch ? std::max<int64_t>(2, x.size(0)) : 0;
    const Tensor one = options.dynamic_batch ? with_rows(x.detach(), rows) : x.detach();
    const Tensor other = changed(one);
    here.push_back(on_tape(one));
    there.push_back(on_tape(options.dynamic_batch ? with_rows(other, rows + 1) : other));
  }
  const Evaluating evaluating(module);
  const std::vector<NamedTensor> named = module.state_dict();
  for (const NamedTensor& t : named) state.push_back(t.tensor);
  const Recording first(f, here, state), second(f, there, state);
  return GraphBuilder(first, second, named, options).build();
}

}  // namespace taper::v0::onnx_export
