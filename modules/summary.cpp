#include "modules/summary.h"

#include <algorithm>
#include <ostream>
#include <unordered_map>

#include "framework/cuda/cuda.h"
#include "framework/factory/generator.h"
#include "framework/kernels/matmul/matmul.h"
#include "framework/memory/cpu_allocator.h"
#include "framework/memory/cuda_memory.h"

namespace taper::v0 {
namespace {

int64_t bytes_in_use(Device device) {
  return int64_t(device.is_cuda() ? cuda::memory_allocated(device.index())
                                  : cpu::memory_stats().allocated);
}

// Formats 1234567 as "1,234,567".
std::string grouped(int64_t n) {
  std::string text = concat_to_string(n);
  for (int64_t at = int64_t(text.size()) - 3; at > 0; at -= 3) text.insert(size_t(at), ",");
  return text;
}

std::string in_units(int64_t bytes) {
  if (bytes < 10 * 1024) return concat_to_string(bytes, " B");
  return bytes < (10 << 20) ? concat_to_string(bytes >> 10, " KiB")
                            : concat_to_string(bytes >> 20, " MiB");
}

// Formats lines as columns. The first column is aligned left, the others right.
std::string table(const std::vector<std::vector<std::string>>& lines) {
  std::vector<size_t> widths(lines[0].size());
  for (const auto& line : lines) {
    for (size_t i = 0; i < line.size(); ++i) widths[i] = std::max(widths[i], line[i].size());
  }
  std::string out;
  for (const auto& line : lines) {
    for (size_t i = 0; i < line.size(); ++i) {
      const std::string fill(widths[i] - line[i].size(), ' ');
      out += i == 0 ? line[i] + fill : "  " + fill + line[i];
    }
    out += '\n';
  }
  return out;
}

// Records, for the modules that are running, the counters at the time when they started.
class Recorder {
 public:
  Recorder(Module& model, Device device) : device_(device) {
    for (const auto& [path, module] : model.named_modules()) {
      numbers_[module] = rows.size();
      ModuleSummary row;
      row.path = path;
      row.type = module->type_name();
      for (const Tensor& p : module->parameters()) {
        row.parameters += p.numel();
        if (p.requires_grad()) row.trained += p.numel();
      }
      rows.push_back(row);
      handles_.push_back(module->register_forward_pre_hook([this](Module&, const Tensor&) {
        begun_.push_back({kernels::multiply_adds, bytes_in_use(device_)});
        return Tensor();
      }));
      handles_.push_back(
          module->register_forward_hook([this](Module& m, const Tensor&, const Tensor& y) {
            finish(rows[numbers_.at(&m)], y);
            return Tensor();
          }));
    }
  }
  ~Recorder() {
    for (ModuleHookHandle& handle : handles_) handle.remove();
  }
  Recorder& operator=(Recorder&&) = delete;  // neither copied nor moved

  std::vector<ModuleSummary> rows;

 private:
  struct Counts {
    int64_t multiply_adds, bytes;
  };

  void finish(ModuleSummary& row, const Tensor& y) {
    const Counts before = begun_.back();
    begun_.pop_back();
    row.output = y.shape();
    row.multiply_adds += kernels::multiply_adds - before.multiply_adds;
    row.activation_bytes += bytes_in_use(device_) - before.bytes;
    ++row.calls;
  }

  const Device device_;
  std::unordered_map<const Module*, size_t> numbers_;
  std::vector<Counts> begun_;
  std::vector<ModuleHookHandle> handles_;
};

}  // namespace

std::vector<ModuleSummary> summarize(Module& model, const Tensor& input) {
  Generator apart(default_generator());
  const DrawGuard draws(apart);
  Recorder recorder(model, input.device());
  (void)model(input);
  return std::move(recorder.rows);
}

std::string summary(Module& model, const Tensor& input) {
  const std::vector<ModuleSummary> rows = summarize(model, input);
  std::vector<std::vector<std::string>> lines = {
      {"module", "output", "parameters", "multiply-adds", "activations"}};
  for (const ModuleSummary& row : rows) {
    const auto depth = row.path.empty() ? 0 : std::count(row.path.begin(), row.path.end(), '.') + 1;
    const std::string name = row.path.substr(row.path.rfind('.') + 1);
    lines.push_back(
        {std::string(size_t(2 * depth), ' ') + row.type + (name.empty() ? "" : " " + name),
         row.calls == 0 ? "not called" : to_string(row.output), grouped(row.parameters),
         grouped(row.multiply_adds), in_units(row.activation_bytes)});
  }
  int64_t bytes = 0;
  for (const NamedTensor& t : model.named_parameters()) bytes += int64_t(t.tensor.nbytes());
  const ModuleSummary& all = rows[0];
  return table(lines) + concat_to_string("parameters: ", grouped(all.parameters), " (",
                                         grouped(all.trained), " trained), ", in_units(bytes),
                                         "\nmultiply-adds: ", grouped(all.multiply_adds),
                                         "\nactivations: ", in_units(all.activation_bytes),
                                         " for input ", input.shape(), "\n");
}

std::ostream& operator<<(std::ostream& out, const Module& module) {
  return out << to_string(module);
}

}  // namespace taper::v0
