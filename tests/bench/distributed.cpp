#include "tests/bench/distributed.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <functional>
#include <iostream>
#include <memory>

#include <fmt/format.h>

#include "apps/runner/base/errors.h"
#include "framework/memory/cpu_allocator.h"
#include "framework/memory/cuda_memory.h"
#include "framework/memory/storage.h"
#include "taper.h"
#include "tests/bench/nccl.h"
#include "tests/bench/timing.h"

namespace taper::v0::bench {
namespace {

using distributed::Communicator;

// Makes a text usable within a JSON string.
std::string quotable(std::string text) {
  std::replace_if(
      text.begin(), text.end(), [](char c) { return c == '"' || c == '\\' || c < ' '; }, '\'');
  return text;
}

// Returns "3,1.5". A NaN becomes null, because JSON has none.
template <class T> std::string list_of(const std::vector<T>& numbers) {
  std::string list;
  for (const T x : numbers) {
    list += list.empty() ? "" : ",";
    list += std::isfinite(double(x)) ? fmt::format("{}", x) : "null";
  }
  return list;
}

// Shifts the batch along its last dimension, so that each rank has other data.
Tensor shifted(const Tensor& x, int64_t by) {
  const int64_t n = x.size(-1), k = by % n;
  return k == 0 ? x : cat({x.narrow(-1, n - k, k), x.narrow(-1, 0, n - k)}, -1).contiguous();
}

size_t peak_bytes(const Device& device) {
  return device.is_cuda() ? cuda::max_memory_allocated(device.index()) : cpu::memory_stats().peak;
}

// A training step on several ranks, or on one rank without DataParallel.
class RanksStep {
 public:
  RanksStep(Module& net, optim::Optimizer& optimizer, const std::optional<Communicator>& world,
            const BenchOptions& options, Ranks::Loss loss_of)
      : optimizer_(optimizer), loss_of_(std::move(loss_of)) {
    if (!world || world->size() == 1) return;
    DataParallelOptions given{.bucket_bytes = options.bucket_mb << 20,
                              .reduce_dtype = options.reduce_dtype};
    if (options.shards > 0) {
      given.order = ReduceOrder::kTree;
      given.shards = options.shards;
      leaves_ = options.shards / world->size();
      weight_ = 1.0 / options.shards;
    }
    parallel_.emplace(net, *world, given);
    if (options.sharded) shards_.emplace(optimizer, *world);
  }

  // Returns the mean loss of this rank's part of the batch. Without `syncs`, ranks do not
  // communicate.
  std::vector<Tensor> operator()(const std::vector<Tensor>& in, bool syncs) {
    optimizer_.zero_grad();
    const int64_t rows = in[0].size(0) / leaves_;
    if (rows * leaves_ != in[0].size(0)) {
      throw runner::ConfigError(concat_to_string("--shards: a rank's batch of ", in[0].size(0),
                                                 " does not fall into ", leaves_, " parts"));
    }
    Tensor sum;
    for (int64_t i = 0; i < leaves_; ++i) {
      std::optional<DataParallel::NoSyncGuard> alone;
      if (i + 1 < leaves_ || (parallel_ && !syncs)) alone.emplace(*parallel_);
      std::vector<Tensor> leaf;
      for (const Tensor& x : in) leaf.push_back(leaves_ == 1 ? x : x.narrow(0, i * rows, rows));
      const Tensor loss = loss_of_(leaf);
      (weight_ == 1 ? loss : loss * weight_).backward();
      sum = sum.defined() ? sum + loss.detach() : loss.detach();
    }
    if (shards_) {
      shards_->step();
    } else {
      optimizer_.step();
    }
    return {leaves_ == 1 ? sum : sum / double(leaves_)};
  }

  // The sizes of the buckets, in the order in which they are reduced.
  std::vector<int64_t> bucket_bytes() const {
    return parallel_ ? parallel_->bucket_bytes() : std::vector<int64_t>();
  }

 private:
  optim::Optimizer& optimizer_;
  Ranks::Loss loss_of_;
  std::optional<DataParallel> parallel_;
  std::optional<optim::StateShards> shards_;
  int64_t leaves_ = 1;
  double weight_ = 1;  // the weight of a leaf's loss
};

}  // namespace

Ranks::Ranks(const BenchOptions& options)
    : options_(options), device_(cuda::is_available() ? "cuda:0" : "cpu") {
  if (!Communicator::is_launched()) return;
  world_ = Communicator::world(device_.type());
  device_ = world_->device();
  if (device_.is_cuda()) cuda::set_device(device_.index());
  if (!std::getenv("RANK")) words_ = Communicator::world("cpu", {.timeout = 0});
  (void)largest(0);
  say(R"({"at":"communicator"})");
}

void Ranks::say(const std::string& line) const {
  if (rank() > 0) return;
  fmt::print("{}\n", line);
  std::fflush(stdout);
}

std::string Ranks::word() const {
  std::string line;
  if (!words_ || rank() == 0) std::getline(std::cin, line);
  return words_ ? words_->all_gather_text(line)[0] : line;
}

double Ranks::largest(double x) const {
  if (!world_) return x;
  const Tensor all = full({1}, x, {.dtype = kFloat64, .device = device_});
  world_->all_reduce(all, distributed::ReduceOp::kMax).wait();
  return all.item<double>();
}

double Ranks::mean(double x) const {
  if (!world_) return x;
  const Tensor all = full({1}, x, {.dtype = kFloat64, .device = device_});
  world_->all_reduce(all, distributed::ReduceOp::kAvg).wait();
  return all.item<double>();
}

void Ranks::measure(const std::string& ready, std::vector<Variant> variants) const {
  for (Variant& v : variants) (void)seconds_of(5, device_, v.call);
  (void)largest(0);
  say(ready);
  while (word() == "go") {
    std::string line;
    for (Variant& v : variants) {
      if (device_.is_cuda()) (void)seconds_of(std::max<int64_t>(v.settling, 1), device_, v.call);
      (void)largest(0);
      const double seconds = std::max(largest(seconds_of(v.calls, device_, v.call)), 1e-7);
      v.calls = std::clamp<int64_t>(int64_t(v.seconds / seconds), 3, 10000);
      v.settling = int64_t(v.warm_up / seconds);
      line += fmt::format("{}\"{}\":{:.6g}", line.empty() ? "" : ",", v.name, seconds * 1e6);
    }
    say(fmt::format("{{\"us\":{{{}}}}}", line));
  }
}

void Ranks::training(const std::string& name, Module& net, optim::Optimizer& optimizer,
                     double items, std::vector<Tensor> batch, const Loss& loss_of) const {
  RanksStep step(net, optimizer, world_, options_, loss_of);
  const StepGraph::Step whole = [&](const std::vector<Tensor>& in) { return step(in, true); };
  if (!options_.inputs.empty()) start_from(options_.inputs, net, batch);
  batch[0] = shifted(batch[0], rank());
  if (options_.first_step) {
    (void)largest(whole(batch)[0].item<double>());
    return say(R"({"at":"step"})");
  }
  std::vector<double> losses;
  net.eval();
  for (int i = 0; i < 3; ++i) losses.push_back(mean(whole(batch)[0].item<double>()));
  net.train();

  StepGraph graph(whole);
  std::vector<Variant> variants{{"step", [&] { (void)graph(batch); }}};
  (void)seconds_of(5, device_, variants[0].call);
  // The calls before the capture used memory of their own, which other programs on this GPU need.
  if (device_.is_cuda()) cuda::empty_cache();
  const double peak = largest(double(peak_bytes(device_)));
  const std::vector<Tensor> params = optimizer.parameters();
  const std::vector<int64_t> buckets = step.bucket_bytes();

  StepGraph alone([&](const std::vector<Tensor>& in) { return step(in, false); });
  StepGraph update([&](const std::vector<Tensor>&) {
    optimizer.step();
    return std::vector<Tensor>();
  });
  std::vector<Tensor> flats;
  StepGraph reduce([&](const std::vector<Tensor>&) {
    std::vector<distributed::Work> works;
    for (const Tensor& flat : flats)
      works.push_back(world_->all_reduce(flat, distributed::ReduceOp::kSum, true));
    for (distributed::Work& work : works) work.wait();
    return std::vector<Tensor>();
  });
  if (!options_.sharded && options_.shards == 0) {
    const DType dtype = options_.reduce_dtype.value_or(kFloat32);
    for (const int64_t n : buckets) {
      flats.push_back(zeros({n / int64_t(size_of(dtype))}, {.dtype = dtype, .device = device_}));
    }
    if (size() > 1) variants.push_back({"no_sync", [&] { (void)alone(batch); }});
    variants.push_back({"optimizer", [&] {
                          // The gradients may be in a graph's memory, which other tensors have
                          // reused.
                          if (update.num_graphs() == 0) {
                            for (const Tensor& p : params) p.set_grad(zeros_like(p));
                          }
                          (void)update(batch);
                        }});
    if (!flats.empty()) variants.push_back({"reduce", [&] { (void)reduce(batch); }});
  }
  for (Variant& v : variants) v.warm_up = options_.settle;
  std::erase_if(variants, [this](const Variant& v) {
    return v.name.find(options_.only) == std::string::npos;
  });
  measure(fmt::format("{{\"ready\":\"{}\",\"ranks\":{},\"items\":{},\"peak_bytes\":{:.0f},"
                      "\"losses\":[{}],\"buckets\":[{}],\"no_graph\":\"{}\"}}",
                      name, size(), items, peak, list_of(losses), list_of(buckets),
                      device_.is_cuda() ? quotable(graph.reason()) : ""),
          std::move(variants));
}

void Ranks::collectives(int64_t most_bytes) const {
  if (!world_) throw Error("collectives are of several ranks: start them with mpirun, or set RANK");
  const int64_t n = size();
  const std::unique_ptr<Nccl> nccl = options_.direct ? direct_nccl(*world_) : nullptr;
  const Tensor whole = zeros({most_bytes / 4 / n * n}, {.device = device_});
  const Tensor part = zeros({most_bytes / 4 / n}, {.device = device_});
  std::vector<Variant> variants;
  for (int64_t bytes = 1024; bytes <= most_bytes; bytes *= 4) {
    const int64_t numel = bytes / 4 / n;
    const Tensor all = whole.narrow(0, 0, numel * n), own = part.narrow(0, 0, numel);
    const auto add = [&](const char* op, const std::function<void()>& taper,
                         const std::function<void()>& direct) {
      variants.push_back({concat_to_string(op, " ", bytes), nccl ? direct : taper, 0.02});
    };
    add(
        "all_reduce", [this, all] { world_->all_reduce(all).wait(); },
        [&nccl, all] { nccl->all_reduce(all); });
    add(
        "reduce_scatter", [this, all, own] { world_->reduce_scatter(own, all).wait(); },
        [&nccl, all, own] { nccl->reduce_scatter(own, all); });
    add(
        "all_gather", [this, all, own] { world_->all_gather(all, own).wait(); },
        [&nccl, all, own] { nccl->all_gather(all, own); });
  }
  measure(fmt::format("{{\"ready\":\"collectives\",\"ranks\":{}}}", n), std::move(variants));
}

}  // namespace taper::v0::bench
