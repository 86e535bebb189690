#include "export/onnx_graph.h"

#include <algorithm>
#include <map>
#include <set>

#include "autograd/ops/binary.h"
#include "autograd/ops/reduce.h"
#include "autograd/ops/shape.h"
#include "export/onnx_trace.h"
#include "framework/factories.h"

namespace taper::inline v0::onnx_export {
namespace {

bool same_values(const Tensor& a, const Tensor& b) {
  if (!a.defined() || !b.defined()) return a.defined() == b.defined();
  if (a.shape() != b.shape() || a.dtype() != b.dtype()) return false;
  const Tensor both_nan = logical_and(ne(a, a), ne(b, b));
  return all(logical_or(eq(a, b), both_nan)).item<bool>();
}

}  // namespace

class GraphBuilder {
 public:
  GraphBuilder(const Recording& here, const Recording& there, std::vector<NamedTensor> state,
               const OnnxOptions& options)
      : here_(here), there_(there), state_(std::move(state)), options_(options) {}

  Graph build() {
    const TracedOp &inputs = here_.steps[kInputs].op, &others = there_.steps[kInputs].op;
    for (size_t i = 0; i < inputs.outputs.size(); ++i) {
      const Tensor &x = inputs.outputs[i], &other = others.outputs[i];
      const std::string name = port(options_.input_names, "input", i, inputs.outputs.size());
      names_[{kInputs, i}] = name;
      graph_.inputs.push_back({name, x.dtype(), sizes_of(x, other, "input")});
    }
    find_twins();
    for (auto step = twins_.rbegin(); step != twins_.rend() && step->first > kState; ++step) {
      refuse_without_form(here_.steps[step->first]);
    }
    for (const auto& [step, twin] : twins_) {
      if (step > kState) write(step, twin);
    }
    for (size_t i = 0; i < here_.outputs.size(); ++i) {
      const Tensor &y = here_.outputs[i], &other = there_.outputs[i];
      const std::string name = port(options_.output_names, "output", i, here_.outputs.size());
      graph_.nodes.push_back(
          {"Identity", name, {value(here_.origin_of(y), y, other, name, {})}, {name}, {}});
      graph_.outputs.push_back({name, y.dtype(), sizes_of(y, other, name)});
    }
    return std::move(graph_);
  }

  // The name of a traced tensor; where it is a constant, it must be so in both passes.
  std::string value(const Origin& origin, const Tensor& x, const Tensor& other,
                    const std::string& reader, const std::string& module,
                    std::optional<DType> dtype = std::nullopt) {
    if (!here_.origin_to_write(origin).op) {
      return constant_of(x, other, reader, module, dtype.value_or(x.dtype()));
    }
    if (*origin.op == kState) {
      auto& name = names_[{kState, origin.output}];
      if (name.empty()) {
        name = state_[origin.output].name;
        graph_.initializers.push_back({name, x});
      }
    }
    return names_.at({*origin.op, origin.output});
  }

  std::vector<std::string> add_many(const Step& step, const char* onnx, size_t results,
                                    const std::vector<std::string>& inputs,
                                    const Attributes& attributes) {
    std::vector<std::string> own;
    const std::string name = cat(step.module.empty() ? "" : step.module + "/", onnx, "_", ++count_);
    for (size_t i = 0; i < results; ++i) own.push_back(results == 1 ? name : cat(name, ":", i));
    graph_.nodes.push_back({onnx, name, inputs, own, attributes});
    return own;
  }
  std::string add(const Step& step, const char* onnx, const std::vector<std::string>& inputs,
                  const Attributes& attributes = {}) {
    return add_many(step, onnx, 1, inputs, attributes)[0];
  }

  std::string constant(const Tensor& x) {
    graph_.initializers.push_back({cat("constant_", ++count_), x});
    return graph_.initializers.back().name;
  }

  // One int64 value; -1 where one size alone follows the batch, which a reshape takes.
  std::string sizes(const Step& step, const Shape& here, const Shape& there) {
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
      const int64_t factor = factor_of(here[d], there[d], step.op.name, step.module);
      flush();
      if (batch_.empty()) {
        batch_ = add(step, "Shape", {graph_.inputs[0].name},
                     {{"start", int64_t(0)}, {"end", int64_t(1)}});
      }
      parts.push_back(factor == 1 ? batch_ : add(step, "Mul", {batch_, numbers({factor})}));
    }
    flush();
    if (parts.empty()) return numbers({});
    return parts.size() == 1 ? parts[0] : add(step, "Concat", parts, {{"axis", int64_t(0)}});
  }

  std::string numbers(const std::vector<int64_t>& values) {
    return constant(tensor_of(values.data(), {std::ssize(values)}));
  }

  const Step& step(size_t number) const { return here_.steps[number]; }
  void name(size_t step, size_t output, const std::string& value) {
    names_[{step, output}] = value;
  }

 private:
  static std::string port(const std::vector<std::string>& names, const char* usual, size_t i,
                          size_t count) {
    if (i < names.size()) return names[i];
    return count == 1 ? usual : cat(usual, "_", i);
  }

  // How many times the batch a size is that differs between the passes.
  int64_t factor_of(int64_t here, int64_t there, const std::string& what,
                    const std::string& module) const {
    const int64_t a = here_.steps[kInputs].op.outputs[0].size(0);
    const int64_t b = there_.steps[kInputs].op.outputs[0].size(0);
    if (a != b && here % a == 0 && there % b == 0 && here / a == there / b) return here / a;
    refuse(cat(what, " has a size of ", here, " for a batch of ", a, " and of ", there, " for ", b,
               ", which is no multiple; try dynamic_batch = false"),
           module);
  }

  std::vector<std::string> sizes_of(const Tensor& x, const Tensor& other,
                                    const std::string& what) const {
    std::vector<std::string> out;
    for (int d = 0; d < x.dim(); ++d) {
      const bool open = x.size(d) != other.size(d);
      const int64_t factor = open ? factor_of(x.size(d), other.size(d), what, {}) : 0;
      out.push_back(!open ? cat(x.size(d)) : factor == 1 ? "batch" : cat(factor, "*batch"));
    }
    return out;
  }

  // Pairs the ops that the results need in both passes, from the last one back.
  void find_twins() {
    const auto differ = [&](const std::string& at, const std::string& module) {
      refuse(cat("the module computes other things for other inputs (it branches on their values "
                 "or on the size of the batch), at ",
                 at),
             module);
    };
    if (here_.outputs.size() != there_.outputs.size()) differ("its results", {});
    std::set<size_t, std::greater<>> waiting;
    const auto pair = [&](const Origin& here, const Origin& there, const std::string& reader,
                          const std::string& module) {
      const Origin a = here_.origin_to_write(here), b = there_.origin_to_write(there);
      if (a.op.has_value() != b.op.has_value() || a.output != b.output) differ(reader, module);
      if (!a.op) return;
      const auto [known, is_new] = twins_.emplace(*a.op, *b.op);
      if (known->second != *b.op) differ(reader, module);
      if (is_new) waiting.insert(*a.op);
    };
    for (size_t i = 0; i < here_.outputs.size(); ++i) {
      pair(here_.origin_of(here_.outputs[i]), there_.origin_of(there_.outputs[i]), "a result", {});
    }
    while (!waiting.empty()) {
      const size_t number = *waiting.begin();
      waiting.erase(waiting.begin());
      const Step &a = here_.steps[number], &b = there_.steps[twins_.at(number)];
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
    const Step& step = here_.steps[number];
    const OnnxRow* row = onnx_row(step.op.name);
    OpWriter writer(*this, number, step.op, there_.steps[twin].op, row->onnx);
    if (row->write) return writer.give(0, row->write(writer));
    writer.give(0, writer.add(row->onnx, writer.all_in(writer.dtype())));
  }

  // x, no constant though no traced op made it.
  [[noreturn]] static void refuse_hidden(const Tensor& x, const std::string& reader,
                                         const std::string& module) {
    const char* maker = x.grad_fn();
    refuse(
        cat(reader, " reads a tensor of shape ", x.shape(), " that follows from the inputs, but ",
            maker ? cat("its maker, ", maker, ", has no ONNX form")
                  : "by no op that has an ONNX form: it was changed in place, drawn at random, or "
                    "read on the host"),
        module);
  }

  std::string constant_of(const Tensor& x, const Tensor& other, const std::string& reader,
                          const std::string& module, DType dtype) {
    const auto made_of_inputs = [&] { refuse_hidden(x, reader, module); };
    if (here_.follows(x) || there_.follows(other)) made_of_inputs();
    if (x.shape() == other.shape()) {
      if (!same_values(x, other)) made_of_inputs();
      return constant(x.detach().to(dtype));
    }
    // Equal rows, as many as the batch has.
    if (x.dim() != other.dim()) made_of_inputs();
    Tensor row = x, other_row = other;
    for (int d = 0; d < x.dim(); ++d) {
      if (x.size(d) == other.size(d)) continue;
      row = narrow(row, d, 0, 1);
      other_row = narrow(other_row, d, 0, 1);
    }
    if (!same_values(row, other_row) || !same_values(expand(row, x.shape()), x)) made_of_inputs();
    const Step at{{reader.c_str(), {}, {}, {}}, {}, {}, module};
    return add(at, "Expand",
               {constant(contiguous(row.detach()).to(dtype)), sizes(at, x.shape(), other.shape())});
  }

  const Recording &here_, &there_;
  const std::vector<NamedTensor> state_;
  const OnnxOptions& options_;
  Graph graph_;
  std::map<size_t, size_t> twins_;  // of the ops that are written
  std::map<std::pair<size_t, size_t>, std::string> names_;
  std::string batch_;
  int count_ = 0;
};

std::string OpWriter::in(size_t i, DType dtype) {
  const Step& step = graph_.step(number_);
  if (x(i).version() != step.versions[i]) refuse("reads a tensor that was changed in place later");
  const Origin& origin = step.origins[i];
  const std::string value = graph_.value(origin, x(i), twin.inputs[i], op.name, step.module, dtype);
  return origin.op && dtype != x(i).dtype() ? cast(value, dtype) : value;
}

std::vector<std::string> OpWriter::all_in(std::optional<DType> dtype) {
  std::vector<std::string> out;
  for (size_t i = 0; i < op.inputs.size(); ++i) out.push_back(in(i, dtype.value_or(x(i).dtype())));
  return out;
}

std::string OpWriter::add(const char* node, const std::vector<std::string>& inputs,
                          const Attributes& attributes) {
  return graph_.add(graph_.step(number_), node, inputs, attributes);
}

std::vector<std::string> OpWriter::add_many(const char* node, size_t results,
                                            const std::vector<std::string>& inputs,
                                            const Attributes& attributes) {
  return graph_.add_many(graph_.step(number_), node, results, inputs, attributes);
}

std::string OpWriter::constant(const Tensor& x) { return graph_.constant(x); }
std::string OpWriter::number(double value, DType dtype) {
  return constant(full({}, value, {.dtype = dtype}));
}
std::string OpWriter::numbers(const std::vector<int64_t>& values) { return graph_.numbers(values); }
std::string OpWriter::sizes(const Shape& here, const Shape& there) {
  return graph_.sizes(graph_.step(number_), here, there);
}
void OpWriter::give(size_t i, const std::string& value) { graph_.name(number_, i, value); }
void OpWriter::refuse(const std::string& why) const {
  onnx_export::refuse(cat(op.name, " ", why), graph_.step(number_).module);
}

Graph build_graph(const Recording& here, const Recording& there,
                  const std::vector<NamedTensor>& state, const OnnxOptions& options) {
  return GraphBuilder(here, there, state, options).build();
}

}  // namespace taper::inline v0::onnx_export
