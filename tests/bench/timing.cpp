#include "tests/bench/timing.h"

#include <algorithm>
#include <chrono>
#include <functional>
#include <iostream>

#include <fmt/format.h>

#include "apps/runner/base/errors.h"
#include "framework/io/safetensors.h"
#include "taper.h"

namespace taper::v0::bench {
namespace {

constexpr int kRepeats = 7;
constexpr double kSeconds = 1;  // of all repeats together

}  // namespace

double seconds_of(int64_t calls, const Device& device, const std::function<void()>& call) {
  using Clock = std::chrono::steady_clock;
  const auto start = Clock::now();
  for (int64_t i = 0; i < calls; ++i) call();
  if (device.is_cuda()) cuda::synchronize();
  return std::chrono::duration<double>(Clock::now() - start).count() / double(calls);
}

void start_from(const std::string& path, Module& net, std::vector<Tensor>& batch) try {
  std::vector<NamedTensor> state;
  for (const auto& [name, tensor] : load_safetensors(path).tensors) {
    if (name != "x" && name != "y") {
      state.push_back({name, tensor});
    } else {
      const size_t at = name == "x" ? 0 : 1;
      if (at == batch.size()) throw Error("this workload's batch has no 'y'");
      Tensor& given = batch[at];
      given = tensor.to(given.device());
    }
  }
  net.load_state_dict(state);
} catch (const Error& error) {
  throw InputError(concat_to_string("--inputs ", path, ": ", error.what()));
}

Bench::Bench(const BenchOptions& options) : options_(options) {
  if (options.ranks) ranks_.emplace(options);
}

Device Bench::device() const {
  if (ranks_) return ranks_->device();
  return cuda::is_available() ? "cuda:0" : "cpu";
}

void Bench::collectives(int64_t most_bytes) const {
  if (!ranks_) throw runner::ConfigError("collectives are of several ranks: --ranks");
  ranks_->collectives(most_bytes);
}

void Bench::measure(const Item& item, const std::function<void()>& call) const {
  const double share = kSeconds / kRepeats;
  (void)seconds_of(10, item.device, call);
  const double one = std::max(seconds_of(1, item.device, call), 1e-7);
  const int64_t calls = std::clamp<int64_t>(int64_t(share / one), 3, 100000);
  const auto repeat = [&] { return seconds_of(calls, item.device, call) / item.calls; };
  std::vector<double> seconds;
  if (options_.paced) {
    std::string losses;
    for (const double loss : item.losses) {
      losses += fmt::format("{}{:.9g}", losses.empty() ? "" : ",", loss);
    }
    const double peak = item.device.is_cuda() ? double(cuda::max_memory_allocated()) : 0;
    fmt::print("{{\"ready\":\"{}\",\"losses\":[{}],\"peak_bytes\":{:.0f}}}\n", item.name, losses,
               peak);
    std::fflush(stdout);
    for (std::string line; std::getline(std::cin, line) && line == "go";) {
      seconds.push_back(repeat());
      fmt::print("{{\"us\":{:.6g}}}\n", seconds.back() * 1e6);
      std::fflush(stdout);
    }
  } else {
    for (int i = 0; i < kRepeats; ++i) seconds.push_back(repeat());
  }
  if (!seconds.empty()) report(item, std::move(seconds));
}

void Bench::report(const Item& item, std::vector<double> seconds) const {
  std::sort(seconds.begin(), seconds.end());
  const double median = seconds[seconds.size() / 2], us = median * 1e6;
  const double low = seconds.front() * 1e6, high = seconds.back() * 1e6;
  std::string line;
  const auto add = [&](double work, double unit, const char* as_json, const char* as_text) {
    if (work <= 0) return;
    line += options_.json ? fmt::format(",\"{}\":{:.4g}", as_json, work / median / unit)
                          : fmt::format("  {:.4g} {}", work / median / unit, as_text);
  };
  add(item.work.bytes, 1e9, "gbps", "GB/s");
  add(item.work.flops, 1e12, "tflops", "TFLOP/s");
  add(item.work.items, 1, "items_per_s", "items/s");
  if (options_.json) {
    fmt::print(
        "{{\"w\":\"{}\",\"mode\":\"{}\",\"device\":\"{}\",\"us\":{:.4g},\"low_us\":{:.4g},"
        "\"high_us\":{:.4g}{}}}\n",
        item.name, item.mode, to_string(item.device), us, low, high, line);
  } else {
    fmt::print("{:<38}{:<7}{:<8}{:>12.2f} us  ({:.2f} to {:.2f}){}\n", item.name, item.mode,
               to_string(item.device), us, low, high, line);
  }
  std::fflush(stdout);
}

void Bench::op(const std::string& name, Device device, Work work, const std::function<void()>& call,
               int calls) const {
  if (name.find(options_.only) == std::string::npos) return;
  measure({name, "eager", device, work, calls, {}}, call);
}

void Bench::training(const std::string& name, Module& net, optim::Optimizer& optimizer,
                     std::optional<DType> half, double items, std::vector<Tensor> batch,
                     const Loss& loss_of) const {
  const Device device = batch[0].device();
  const Loss forward = [&](const std::vector<Tensor>& in) {
    const AutocastGuard casts(device.type(), half, half.has_value());
    return loss_of(in);
  };
  if (ranks_) return ranks_->training(name, net, optimizer, items, std::move(batch), forward);
  const StepGraph::Step step = [&](const std::vector<Tensor>& in) {
    const Tensor loss = forward(in);
    optimizer.zero_grad();
    loss.backward();
    optimizer.step();
    return std::vector<Tensor>{loss};
  };
  std::vector<double> losses;
  if (!options_.inputs.empty()) {
    start_from(options_.inputs, net, batch);
    net.eval();
    for (int i = 0; i < 3; ++i) losses.push_back(step(batch)[0].item<double>());
  }
  net.train();
  if (wants("eager")) {
    measure({name, "eager", device, {.items = items}, 1, losses}, [&] { (void)step(batch); });
  }
  if (!wants("graph") || !device.is_cuda()) return;
  StepGraph graph(step);
  measure({name, "graph", device, {.items = items}, 1, losses}, [&] { (void)graph(batch); });
  if (!graph.reason().empty()) fmt::print(stderr, "{}: no graph: {}\n", name, graph.reason());
}

}  // namespace taper::v0::bench
