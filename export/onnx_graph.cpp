#include "export/onnx_graph.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <tuple>

#include "autograd/anomaly.h"
#include "autograd/ops/binary.h"
#include "autograd/ops/index/index.h"
#include "autograd/ops/reduce.h"
#include "autograd/ops/shape.h"
#include "framework/factories.h"

namespace taper::inline v0::onnx_export {
namespace {

// Where a tensor was made: output `output` of op number `op`; none for a constant.
struct Origin {
  std::optional<size_t> op;
  size_t output = 0;
};

// Pseudo ops that stand before the others.
constexpr size_t kInputs = 0, kState = 1;

struct Step {
  TracedOp op;
  std::vector<Origin> origins;     // of the inputs
  std::vector<uint32_t> versions;  // of the inputs, when they were read
  std::string module;
  bool depends = true;  // on the inputs or the state: else its results are constants
};

// A forward pass, op by op. Tensors are told apart by the memory that they show, so that detached
// ones and views of the same elements are one; all stay alive until the end.
class Recording {
 public:
  Recording(const OnnxFunction& f, const std::vector<Tensor>& inputs,
            const std::vector<Tensor>& state) {
    note({"input", {}, inputs, {}});
    note({"state", {}, state, {}});
    const AnomalyMode names_modules;
    const Trace trace([this](TracedOp op) { note(std::move(op)); });
    outputs = f(inputs);
  }

  Origin origin_of(const Tensor& x) const {
    if (!x.defined()) return {};
    const auto found = made_.find(key_of(x));
    if (found == made_.end() || found->second.version != x.version()) return {};
    return found->second.origin;
  }

  // The same without the makers of constants.
  Origin origin_to_write(const Origin& origin) const {
    return origin.op && steps[*origin.op].depends ? origin : Origin();
  }

  std::vector<Step> steps;
  std::vector<Tensor> outputs;

 private:
  using Key = std::tuple<const Storage*, int64_t, DType, std::vector<int64_t>>;
  struct Made {
    Origin origin;
    uint32_t version;
  };

  static Key key_of(const Tensor& x) {
    std::vector<int64_t> layout(x.shape().begin(), x.shape().end());
    for (int d = 0; d < x.dim(); ++d) layout.push_back(x.size(d) == 1 ? 0 : x.strides()[d]);
    return {x.storage().get(), x.storage_offset(), x.dtype(), layout};
  }

  void note(TracedOp op) {
    Step step{std::move(op), {}, {}, {}};
    step.depends = steps.size() <= kState;
    for (const Tensor& x : step.op.inputs) {
      const Origin origin = origin_of(x);
      step.origins.push_back(origin);
      step.versions.push_back(x.defined() ? x.version() : 0);
      step.depends = step.depends || (origin.op && steps[*origin.op].depends);
    }
    if (steps.size() > kState) step.module = current_call()->module;
    for (size_t i = 0; i < step.op.outputs.size(); ++i) {
      const Tensor& y = step.op.outputs[i];
      made_[key_of(y)] = {{steps.size(), i}, y.version()};
    }
    steps.push_back(std::move(step));
  }

  std::map<Key, Made> made_;
};

std::string in_module(const std::string& path) {
  return path.empty() ? "" : cat(" (in module ", path, ")");
}

[[noreturn]] void refuse(const std::string& what, const std::string& module) {
  throw NotImplementedError(cat("export_onnx: ", what, in_module(module)));
}

bool same_values(const Tensor& a, const Tensor& b) {
  if (!a.defined() || !b.defined()) return a.defined() == b.defined();
  if (a.shape() != b.shape() || a.dtype() != b.dtype()) return false;
  const Tensor both_nan = logical_and(ne(a, a), ne(b, b));
  return all(logical_or(eq(a, b), both_nan)).item<bool>();
}

// Other values of the same kind, so that what is computed from them differs.
Tensor changed(const Tensor& x) {
  const Tensor turned = reshape(flip(flatten(x), {0}), x.shape());
  return x.is_floating_point() ? (turned * 0.5 + 0.25).to(x.dtype()) : turned;
}

Tensor with_rows(const Tensor& x, int64_t rows) {
  Tensor y = x;
  while (y.size(0) < rows) y = cat({y, narrow(x, 0, 0, std::min(x.size(0), rows - y.size(0)))}, 0);
  return y;
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

  std::string add(const Step& step, const char* onnx, const std::vector<std::string>& inputs,
                  const Attributes& attributes, std::vector<std::string>* outputs, size_t results) {
    std::vector<std::string> own;
    const std::string name = cat(step.module.empty() ? "" : step.module + "/", onnx, "_", ++count_);
    for (size_t i = 0; i < results; ++i) own.push_back(results == 1 ? name : cat(name, ":", i));
    graph_.nodes.push_back({onnx, name, inputs, own, attributes});
    if (outputs) *outputs = own;
    return own[0];
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
                     {{"start", int64_t(0)}, {"end", int64_t(1)}}, nullptr, 1);
      }
      parts.push_back(factor == 1 ? batch_
                                  : add(step, "Mul", {batch_, numbers({factor})}, {}, nullptr, 1));
    }
    flush();
    if (parts.empty()) return numbers({});
    return parts.size() == 1 ? parts[0]
                             : add(step, "Concat", parts, {{"axis", int64_t(0)}}, nullptr, 1);
  }

  std::string numbers(const std::vector<int64_t>& values) {
    Tensor x = Tensor::make({int64_t(values.size())}, kInt64, Device());
    std::ranges::copy(values, x.span<int64_t>().begin());
    return constant(x);
  }

  const Step& step(size_t number) const { return here_.steps[number]; }
  Origin origin(const Step& step, size_t i) const { return here_.origin_to_write(step.origins[i]); }
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
      refuse(
          cat("the module computes other things for other inputs (it branches on their values or "
              "on the size of the batch), at ",
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

  void write(size_t number, size_t twin) {
    const Step& step = here_.steps[number];
    OpWriter writer(*this, number, step.op, there_.steps[twin].op);
    const OnnxRow* row = onnx_row(step.op.name);
    if (!row) refuse(cat(step.op.name, " has no ONNX form"), step.module);
    if (row->write) return writer.give(0, row->write(writer));
    std::vector<std::string> inputs;
    for (size_t i = 0; i < step.op.inputs.size(); ++i)
      inputs.push_back(writer.in(i, writer.dtype()));
    writer.give(0, writer.add(row->onnx, inputs));
  }

  // x, no constant though no traced op made it; or one of the tensors that it was made of.
  [[noreturn]] void refuse_hidden(Tensor x, Tensor other, std::string reader,
                                  std::string module) const {
    while (true) {
      const Origin a = here_.origin_of(x), b = there_.origin_of(other);
      if (!a.op || !b.op) break;
      const Step &step = here_.steps[*a.op], &twin = there_.steps[*b.op];
      size_t i = 0;
      const size_t inputs = std::min(step.op.inputs.size(), twin.op.inputs.size());
      while (i < inputs && same_values(step.op.inputs[i], twin.op.inputs[i])) ++i;
      if (i == inputs) break;
      x = step.op.inputs[i];
      other = twin.op.inputs[i];
      reader = step.op.name;
      module = step.module;
    }
    const char* maker = x.grad_fn();
    refuse(
        cat(reader, " reads a tensor of shape ", x.shape(), " that follows from the inputs, but ",
            maker ? cat("its maker, ", maker, ", has no ONNX form")
                  : "by no op that has an ONNX form: it was changed in place, or read on the "
                    "host"),
        module);
  }

  std::string constant_of(const Tensor& x, const Tensor& other, const std::string& reader,
                          const std::string& module, DType dtype) {
    const auto made_of_inputs = [&] { refuse_hidden(x, other, reader, module); };
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
               {constant(contiguous(row.detach()).to(dtype)), sizes(at, x.shape(), other.shape())},
               {}, nullptr, 1);
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

// --- what rows write with ---

std::string OpWriter::in(size_t i, DType dtype) {
  const Step& step = graph_.step(number_);
  if (x(i).version() != step.versions[i]) refuse("reads a tensor that was changed in place later");
  const Origin& origin = step.origins[i];
  const std::string value = graph_.value(origin, x(i), twin.inputs[i], op.name, step.module, dtype);
  return origin.op && dtype != x(i).dtype() ? cast(value, dtype) : value;
}

std::string OpWriter::add(const char* onnx, const std::vector<std::string>& inputs,
                          const Attributes& attributes) {
  return graph_.add(graph_.step(number_), onnx, inputs, attributes, nullptr, 1);
}

std::vector<std::string> OpWriter::add_many(const char* onnx, size_t results,
                                            const std::vector<std::string>& inputs,
                                            const Attributes& attributes) {
  std::vector<std::string> out;
  graph_.add(graph_.step(number_), onnx, inputs, attributes, &out, results);
  return out;
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

// --- the passes ---

namespace {

// In evaluation mode until the end of the scope.
class Evaluating {
 public:
  explicit Evaluating(Module& module) {
    for (const auto& [path, m] : module.named_modules()) modes_.push_back({m, m->is_training()});
    module.eval();
  }
  // Parents come before their children.
  ~Evaluating() {
    for (const auto& [m, on] : modes_) m->train(on);
  }
  Evaluating(const Evaluating&) = delete;
  Evaluating& operator=(const Evaluating&) = delete;

 private:
  std::vector<std::pair<Module*, bool>> modes_;
};

}  // namespace

Graph trace_graph(const OnnxFunction& f, Module& module, const std::vector<Tensor>& examples,
                  const OnnxOptions& options) {
  if (examples.empty()) throw ValueError("export_onnx: expected at least one example input");
  std::vector<Tensor> here, there, state;
  for (const Tensor& x : examples) {
    if (options.dynamic_batch &&
        (x.dim() == 0 || x.size(0) != examples[0].size(0) || x.size(0) == 0)) {
      throw ValueError(
          cat("export_onnx: with a dynamic batch every example's first size is that of "
              "the batch; got shapes ",
              examples[0].shape(), " and ", x.shape()));
    }
    // Two rows and three at least: one would be taken for a size that broadcasts.
    const int64_t rows = options.dynamic_batch ? std::max<int64_t>(2, x.size(0)) : 0;
    here.push_back(options.dynamic_batch ? with_rows(x.detach(), rows) : x.detach());
    const Tensor other = changed(here.back());
    there.push_back(options.dynamic_batch ? with_rows(other, rows + 1) : other);
  }
  const Evaluating evaluating(module);
  const std::vector<NamedTensor> named = module.state_dict();
  for (const NamedTensor& t : named) state.push_back(t.tensor);
  const GradMode makers_are_known(true);
  const Recording first(f, here, state), second(f, there, state);
  return GraphBuilder(first, second, named, options).build();
}

}  // namespace taper::inline v0::onnx_export
