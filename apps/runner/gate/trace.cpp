#include "apps/runner/gate/trace.h"

#include <algorithm>
#include <cstring>

#include <fmt/format.h>

#include "apps/runner/base/files.h"
#include "autograd/tensor_hooks.h"
#include "framework/factory/factories.h"
#include "framework/io/safetensors.h"

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
std::string tensor_difference(const Tensor& a, const Tensor& b) {
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

constexpr size_t kIndexDigits = 8;

}  // namespace

std::vector<NamedTensor> trace_step(const std::vector<Phase>& run, int64_t step) {
  const TemporaryDirectory scratch;
  Tracer tracer(step);
  run_again(run, scratch.path() / "run", &tracer);
  return std::move(tracer.traces);
}

std::string first_different_tensor(const std::vector<NamedTensor>& a,
                                   const std::vector<NamedTensor>& b, int64_t step) {
  const std::string head = concat_to_string("first difference, in step ", step, ": ");
  for (size_t i = 0; i < std::min(a.size(), b.size()); ++i) {
    if (a[i].name != b[i].name) {
      return concat_to_string(head, "different computations\n  ", a[i].name, " | ", b[i].name,
                              "\n");
    }
    const std::string found = tensor_difference(a[i].tensor, b[i].tensor);
    if (!found.empty()) return concat_to_string(head, a[i].name, "\n  ", found, "\n");
  }
  return concat_to_string("step ", step,
                          " differs, but no input, output or gradient of a module does\n");
}

// A name may occur several times in a step, and the order counts, so names get an index.
void save_trace(const std::vector<NamedTensor>& trace, const fs::path& file) {
  std::vector<NamedTensor> numbered;
  for (size_t i = 0; i < trace.size(); ++i) {
    numbered.push_back({fmt::format("{:0{}} {}", i, kIndexDigits, trace[i].name), trace[i].tensor});
  }
  save_safetensors(file.string(), numbered);
}

std::vector<NamedTensor> load_trace(const fs::path& file) {
  std::vector<NamedTensor> out = load_safetensors(file.string()).tensors;
  std::ranges::sort(out, {}, &NamedTensor::name);
  for (NamedTensor& each : out) {
    if (each.name.size() <= kIndexDigits)
      throw InputError(concat_to_string(file.string(), ": is not a trace of `taper trace`"));
    each.name.erase(0, kIndexDigits + 1);
  }
  return out;
}

}  // namespace taper::v0::runner
