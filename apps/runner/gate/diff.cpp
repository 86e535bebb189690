// Finds the first difference between two runs: recordings of both give the step, and hooks on every
// module during that step give the tensor.
#include <algorithm>
#include <cstring>
#include <iterator>
#include <set>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "apps/runner/base/files.h"
#include "apps/runner/config/json_reader.h"
#include "apps/runner/gate/gate.h"
#include "autograd/tensor_hooks.h"
#include "framework/factory/factories.h"

namespace taper::v0::runner {
namespace {

class Tracer : public Observer {
 public:
  explicit Tracer(int64_t step) : step_(step) {}

  void on_start(Module& model) override {
    model_ = &model;
    model.register_forward_pre_hook([this](Module&, const Tensor& x) {
      if (!is_on()) return Tensor();
      if (traces.empty()) keep_state("before the step");
      keep("the model's input", x);
      return Tensor();
    });
    for (const auto& [path, module] : model.named_modules()) {
      const std::string name =
          path.empty() ? concat_to_string("the model (", module->type_name(), ")")
                       : concat_to_string("module ", path, " (", module->type_name(), ")");
      module->register_forward_hook([this, name](Module&, const Tensor&, const Tensor& y) {
        if (is_on()) keep_output(name, y);
        return Tensor();
      });
    }
    for (const NamedTensor& p : model.named_parameters()) {
      if (!p.tensor.requires_grad()) continue;
      p.tensor.register_hook([this, name = p.name](const Tensor& dy) {
        if (is_on()) keep(concat_to_string("gradient of parameter ", name), dy);
      });
    }
  }

  bool on_step(int64_t step, double loss, double) override {
    done_ = step;
    if (step != step_) return true;
    // The loss was computed after the last forward output and before the first gradient.
    traces.insert(traces.begin() + forward_end_,
                  {"the loss (targets or loss differ)", tensor({loss}, {.dtype = kFloat64})});
    keep_state("after the step (optimizer)");
    return false;
  }

  // The tensors of the step on the host, in the order of their computation.
  std::vector<NamedTensor> traces;

 private:
  bool is_on() const { return done_ + 1 == step_ && model_->is_training(); }
  void keep(const std::string& what, const Tensor& x) {
    traces.push_back({what, x.detach().clone().cpu().contiguous()});
  }
  void keep_state(const char* when) {
    for (const NamedTensor& x : model_->state_dict())
      keep(concat_to_string(x.name, " ", when), x.tensor);
  }
  void keep_output(const std::string& name, const Tensor& y) {
    keep(concat_to_string("output of ", name, ", op ",
                          y.grad_fn() ? y.grad_fn() : "(not on the tape)"),
         y);
    forward_end_ = std::ptrdiff_t(traces.size());
    if (!y.requires_grad()) return;
    y.register_hook([this, name](const Tensor& dy) {
      keep(concat_to_string("gradient at the output of ", name), dy);
    });
  }

  int64_t step_, done_ = 0;
  Module* model_ = nullptr;
  std::ptrdiff_t forward_end_ = 0;
};

std::string bits_of(const Tensor& x, int64_t element) {
  const double value = x.view({-1}).narrow(0, element, 1).to(kFloat64).item<double>();
  return fmt::format("{} ({:a})", value, value);
}

std::string index_of(int64_t flat, const Shape& shape) {
  Shape at = shape;
  for (int d = shape.size() - 1; d >= 0; flat /= shape[d--]) at[d] = flat % shape[d];
  return to_string(at);
}

// Returns how two tensors differ, or "" if they are equal bit by bit.
std::string difference(const Tensor& a, const Tensor& b) {
  if (a.shape() != b.shape() || a.dtype() != b.dtype()) {
    return concat_to_string(name_of(a.dtype()), " ", a.shape(), " | ", name_of(b.dtype()), " ",
                            b.shape());
  }
  const char* left = static_cast<const char*>(a.data_ptr());
  const char* right = static_cast<const char*>(b.data_ptr());
  const size_t size = a.element_size();
  int64_t first = -1, count = 0;
  for (int64_t i = a.numel(); i-- > 0;) {
    if (std::memcmp(left + size_t(i) * size, right + size_t(i) * size, size) == 0) continue;
    first = i;
    ++count;
  }
  if (count == 0) return "";
  return concat_to_string("element ", index_of(first, a.shape()), ": ", bits_of(a, first), " | ",
                          bits_of(b, first), "\n  ", count, " of ", a.numel(), " elements differ (",
                          name_of(a.dtype()), " ", a.shape(), ")");
}

// Repeats the run until the observer ends it, and returns the observer.
template <class Watch> Watch watch(const std::vector<Phase>& run, Watch observer) {
  const TemporaryDirectory scratch;
  run_again(run, scratch.path() / "run", &observer);
  return observer;
}

std::string first_tensor(const std::vector<Phase>& a, const std::vector<Phase>& b, int64_t step) {
  const auto left = watch(a, Tracer(step)).traces, right = watch(b, Tracer(step)).traces;
  const std::string head = concat_to_string("first difference, in step ", step, ": ");
  for (size_t i = 0; i < std::min(left.size(), right.size()); ++i) {
    if (left[i].name != right[i].name) {
      return concat_to_string(head, "different computations\n  ", left[i].name, " | ",
                              right[i].name, "\n");
    }
    const std::string found = difference(left[i].tensor, right[i].tensor);
    if (!found.empty()) return concat_to_string(head, left[i].name, "\n  ", found, "\n");
  }
  return concat_to_string("step ", step,
                          " differs, but no input, output or gradient of a module does\n");
}

// Returns the elements of `rows` whose keys also occur in `other`.
template <class Row, class Key>
std::vector<Row> in_both(const std::vector<Row>& rows, const std::vector<Row>& other, Key key) {
  std::set<std::string> known;
  std::ranges::transform(other, std::inserter(known, known.end()), key);
  std::vector<Row> out;
  std::ranges::copy_if(rows, std::back_inserter(out),
                       [&](const Row& row) { return known.contains(key(row)); });
  return out;
}

// Repeats both runs and compares their recordings up to the first difference. Records one step more
// than `last`, so that the evaluation after step `last` is included.
std::string search(const std::vector<Phase>& a, const std::vector<Phase>& b, int64_t last) {
  const auto first = watch(a, Recorder({{.steps = last + 1}})).taken.rows;
  const auto second = watch(b, Recorder({{.steps = last + 1}})).taken.rows;
  const auto key = [](const Recording::Row& row) {  // separates a step from the evaluation after it
    return concat_to_string(row.contains("loss"), " ", row.at("step"));
  };
  const auto left = in_both(first, second, key), right = in_both(second, first, key);
  const auto [x, y] = std::ranges::mismatch(left, right);
  if (x == left.end() || y == right.end()) {
    return concat_to_string("repeated here, both runs have the same losses and weights up to step ",
                            last, ": the machine, the program or the data caused the difference\n");
  }
  if (x->contains("loss")) return first_tensor(a, b, std::stoll(x->at("step")));
  return concat_to_string("the weights are the same; the evaluation after step ", x->at("step"),
                          " uses different data or metrics\n");
}

// A line of metrics.jsonl.
struct Line {
  std::string text, kind;
  int64_t step;
};

Line parsed(const std::string& line) try {
  const auto row = json_value<nlohmann::json>(line, "metrics.jsonl");
  return {line, row.at("kind"), row.at("step")};
} catch (const std::exception& error) {
  if (is_any<OutOfMemoryError, std::bad_alloc>(error)) throw;
  throw InputError(
      concat_to_string("metrics.jsonl has a damaged line: ", escaped_for_display(line, 80)));
}

std::vector<Line> all_parsed(const std::string& metrics) {
  std::vector<Line> out;
  for (const std::string& line : lines_of(metrics)) out.push_back(parsed(line));
  return out;
}

// Returns the lines whose step and kind occur in both runs.
std::string lines_of_both(const std::vector<Line>& lines, const std::vector<Line>& other) {
  std::string out;
  const auto key = [](const Line& line) { return concat_to_string(line.kind, " ", line.step); };
  for (const Line& line : in_both(lines, other, key)) out += line.text + "\n";
  return out;
}

}  // namespace

Verdict diff(const fs::path& a, const fs::path& b) {
  const std::vector<Phase> left = phases_of_run(a), right = phases_of_run(b);
  const RunConfig &x = left.back().config, &y = right.back().config;
  std::string text, first = metrics_of(a), second = metrics_of(b);
  const auto list = [&](const char* head, const std::string& lines) {
    if (!lines.empty()) text += concat_to_string(head, " (A | B):\n", lines);
  };
  list("config", config_differences(to_yaml(x), to_yaml(y)));
  list("environment", env_differences(a, b));
  // Steps that only one of the runs has logged or evaluated are not a difference.
  const bool is_sparse =
      x.train.log_every != y.train.log_every || x.train.eval_every != y.train.eval_every;
  if (is_sparse) {
    const std::vector<Line> lines = all_parsed(first), others = all_parsed(second);
    first = lines_of_both(lines, others);
    second = lines_of_both(others, lines);
    text += "compared: the lines of metrics.jsonl that both runs have\n";
  }
  const MetricsDifference found = compare_metrics(first, second);
  if (found.line == 0 && found.more == 0) return {true, text + "the same metrics, byte for byte\n"};
  if (found.line == 0)
    return {false, text + "one run is longer; the lines that both have are the same\n"};
  text += concat_to_string("metrics.jsonl, line ", found.line, ":\n  A ", found.a, "\n  B ",
                           found.b, "\n");
  const int64_t last = std::min(parsed(found.a).step, parsed(found.b).step);
  return {false, text + search(left, right, last)};
}

}  // namespace taper::v0::runner
